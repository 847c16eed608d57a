"""The web application: the routes over a service. It can be driven in process, without sockets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from ..errors import KeyveilError
from .access import allowed, cors, preflight, require
from .collections import Collection
from .ingest import Ingest
from .openapi import document, page
from .problems import CONTENT_TYPE, REASONS, Problem
from .routes import OPERATIONS, Operation, json, origin_of, refused
from .service import Service
from .store import StoreUnready

_NONE = Collection.__new__(Collection)
"""What handlers without a collection are given."""

PAGE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"


def app(service: Service, keep: bool = True) -> Starlette:
    """The application; its lifespan starts and stops the service."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await service.start(keep)
        try:
            yield
        finally:
            await service.stop()

    by_path: dict[str, list[Operation]] = {}
    for operation in OPERATIONS:
        by_path.setdefault(operation.path, []).append(operation)
    routes = [Route("/v1/collections/{name}/reports", Ingest(service))]
    for path, operations in by_path.items():
        methods = [operation.method for operation in operations]
        if any(operation.public for operation in operations):
            methods.append("OPTIONS")
        routes.append(Route(path, _endpoint(service, operations), methods=methods))
    routes += [
        Route("/health", _guarded(service, partial(_health, service))),
        Route("/ready", _guarded(service, partial(_ready, service))),
        Route("/metrics", _guarded(service, partial(_metrics, service))),
        Route("/openapi.json", _guarded(service, _document)),
        Route("/", _guarded(service, _page)),
    ]
    return Starlette(
        routes=routes,
        lifespan=lifespan,
        exception_handlers={HTTPException: partial(_not_here, service)},
    )


def _endpoint(service: Service, operations: list[Operation]) -> Callable[[Request], Awaitable[Response]]:
    by_method = {operation.method: operation for operation in operations}

    async def run(request: Request) -> Response:
        method = "GET" if request.method == "HEAD" else request.method
        name = request.path_params.get("name")
        found = service.control.collections.get(name) if name is not None else None
        if method == "OPTIONS":
            if found is None:
                raise Problem("unknown", "there is no collection of this name")
            pairs = preflight(found, origin_of(request))
            return Response(status_code=204, headers={k.decode(): v.decode() for k, v in pairs})
        operation = by_method[method]
        if operation.role is not None:
            # who may not read a collection is not told whether it exists either
            require(service, request.scope["headers"], operation.role, found)
        if name is not None and found is None:
            raise Problem("unknown", "there is no collection of this name")
        response = await operation.handler(service, request, found if found is not None else _NONE)
        if operation.public and found is not None:
            origin = origin_of(request)
            for key, value in cors(found, origin) if origin and allowed(found, origin) else ():
                response.headers[key.decode()] = value.decode()
        return response

    return _guarded(service, run)


def _guarded(
    service: Service, run: Callable[[Request], Awaitable[Response]]
) -> Callable[[Request], Awaitable[Response]]:
    """Every error becomes a problem; what was not foreseen is logged by kind and place alone."""

    async def guarded(request: Request) -> Response:
        try:
            response = await run(request)
        except KeyveilError as error:
            response = _problem(refused(error))
        except StoreUnready:
            response = _problem(Problem("storage"))
        except Exception as error:
            service.log.error("request_failed", error)
            response = _problem(Problem("internal"))
        response.headers.setdefault("cache-control", "no-store")
        response.headers["x-content-type-options"] = "nosniff"
        return response

    return guarded


def _problem(problem: Problem) -> Response:
    headers = {}
    if problem.kind.retry:
        headers["retry-after"] = str(problem.more.get("after", problem.kind.after))
    if problem.reason == "token":
        headers["www-authenticate"] = "Bearer"
    body = msgspec.json.encode(problem.document())
    return Response(body, problem.http_status, headers, CONTENT_TYPE)


async def _not_here(service: Service, request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 404)
    reason = "method" if status == REASONS["method"].status else "unknown"
    service.metrics.refuse("", reason, 1)
    return _problem(Problem(reason))


# -- the process itself ----------------------------------------------------------------------------


async def _health(service: Service, request: Request) -> Response:
    broken = service.writer.broken
    return json({"healthy": not broken, "warnings": service.warnings()}, 503 if broken else 200)


async def _ready(service: Service, request: Request) -> Response:
    why = service.unready()
    return json({"ready": not why, "why": why}, 503 if why else 200)


async def _metrics(service: Service, request: Request) -> Response:
    require(service, request.scope["headers"], "analyst")
    text = await service.metrics_text()
    return PlainTextResponse(text, media_type="text/plain; version=0.0.4")


async def _document(request: Request) -> Response:
    return json(document())


async def _page(request: Request) -> Response:
    return HTMLResponse(page(), headers={"content-security-policy": PAGE_POLICY})
