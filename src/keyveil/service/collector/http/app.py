"""The web application: the routes of a service. Tests run it without sockets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from ..engine.service import Service
from ..process.problems import Problem
from ..store.collection import Collection
from .access import cors, header, preflight, require
from .openapi import document, page
from .reports_route import ReportsRoute
from .routes import OPERATIONS, Operation
from .web import Run, guarded, json, site, with_headers

_NONE = Collection.__new__(Collection)
"""Passed to handlers of routes without a collection."""

PAGE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"


def app(service: Service, seal: bool = True) -> Starlette:
    """The application; its lifespan starts and stops the service."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await service.start(seal)
        try:
            yield
        finally:
            await service.stop()

    by_path: dict[str, list[Operation]] = {}
    for operation in OPERATIONS:
        by_path.setdefault(operation.path, []).append(operation)
    routes = [Route("/v1/collections/{name}/reports", ReportsRoute(service))]
    for path, operations in by_path.items():
        methods = [operation.method for operation in operations]
        if any(operation.public for operation in operations):
            methods.append("OPTIONS")
        routes.append(Route(path, _endpoint(service, operations), methods=methods))
    routes += [
        Route("/health", guarded(service, partial(_health, service))),
        Route("/ready", guarded(service, partial(_ready, service))),
        Route("/metrics", guarded(service, partial(_metrics, service))),
        Route("/openapi.json", guarded(service, _document)),
        Route("/", guarded(service, _page)),
    ]
    return site(service, routes, lifespan)


def _endpoint(service: Service, operations: list[Operation]) -> Run:
    by_method = {operation.method: operation for operation in operations}

    async def run(request: Request) -> Response:
        method = "GET" if request.method == "HEAD" else request.method
        name = request.path_params.get("name")
        collection = service.control.collections.get(name) if name is not None else None
        origin = header(request.scope["headers"], b"origin")
        if method == "OPTIONS":
            if collection is None:
                raise Problem("unknown", "there is no collection of this name")
            return with_headers(Response(status_code=204), preflight(collection.terms.origins, origin))
        operation = by_method[method]
        if operation.public and collection is not None:
            # a page of an allowed origin may read refusals, too
            handled = guarded(service, partial(handle, operation, collection))
            return with_headers(await handled(request), cors(collection.terms.origins, origin))
        return await handle(operation, collection, request)

    async def handle(operation: Operation, collection: Collection | None, request: Request) -> Response:
        if operation.role is not None:
            # first, so that whoever may not read a collection does not learn whether it exists
            require(service, request.scope["headers"], operation.role, collection)
        if "name" in request.path_params and collection is None:
            raise Problem("unknown", "there is no collection of this name")
        return await operation.handler(service, request, collection if collection is not None else _NONE)

    return guarded(service, run)


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
