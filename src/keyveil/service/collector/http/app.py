"""The web application: the routes of a service, and the server that runs them.

Tests run the application without sockets.
"""

from __future__ import annotations

import gc
import socket
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TextIO

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from ...client.service_url import is_loopback
from ..engine.service import Service
from ..process.clock import Clock, FleetClock, offset_of
from ..process.settings import Settings
from ..store import Store
from ..store.collection import Collection
from .access import require
from .client_files import JAVASCRIPT
from .dashboard_route import dashboard_routes
from .openapi import document, page
from .reports_route import ReportsRoute
from .request_fields import check_parameters
from .routes import OPERATIONS, Operation
from .server import ServeError, run
from .web import Host, Run, guarded, json, no_collection, site, with_cors

_NONE = Collection.__new__(Collection)
"""Passed to handlers of routes without a collection."""

PAGE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
NO_ADMIN = "without an admin token only this machine can connect: create one with"


def app(service: Service, seal: bool = True, pages: Sequence[Route] = ()) -> Starlette:
    """The application; its lifespan starts and stops the service. It also serves other ``pages``."""

    async def metrics(request: Request) -> Response:
        require(service, request.scope["headers"], "analyst")
        return PlainTextResponse(await service.metrics_text(), media_type="text/plain; version=0.0.4")

    async def openapi(request: Request) -> Response:
        return json(document())

    async def index(request: Request) -> Response:
        return HTMLResponse(page(), headers={"content-security-policy": PAGE_POLICY})

    by_path: dict[str, list[Operation]] = {}
    for operation in OPERATIONS:
        by_path.setdefault(operation.path, []).append(operation)
    routes = [Route("/v1/collections/{name}/reports", ReportsRoute(service))]
    for path, operations in by_path.items():
        methods = [operation.method for operation in operations]
        if any(operation.public for operation in operations):
            methods.append("OPTIONS")
        routes.append(Route(path, _endpoint(service, operations), methods=methods))
    routes += [Route("/openapi.json", guarded(service, openapi)), Route("/api", guarded(service, index))]
    routes += [*dashboard_routes(service), *pages]
    return site(service, routes, metrics, partial(service.start, seal))


def _endpoint(service: Service, operations: list[Operation]) -> Run:
    by_method = {operation.method: operation for operation in operations}

    async def answer(request: Request) -> Response:
        # pages ask for OPTIONS before they GET
        operation = by_method["GET" if request.method in ("HEAD", "OPTIONS") else request.method]
        name = request.path_params.get("name")
        collection = service.control.collections.get(name) if name is not None else None
        if operation.public and collection is None and request.method != "OPTIONS":
            return no_collection()
        if operation.public and collection is not None:
            # a page of an allowed origin may read refusals, too
            handled = guarded(service, partial(handle, operation, collection))
            return await with_cors(request, collection.terms.origins, handled)
        return await handle(operation, collection, request)

    async def handle(operation: Operation, collection: Collection | None, request: Request) -> Response:
        if operation.role is not None:
            # first, so that whoever may not read a collection does not learn whether it exists
            require(service, request.scope["headers"], operation.role, collection)
        if "name" in request.path_params and collection is None:
            public = operation.role is None
            find = service.control.named_publicly if public else service.control.named
            find(request.path_params["name"])
        if operation.kind != JAVASCRIPT:  # a page may add a version to a module's name
            check_parameters(request, operation.query)
        return await operation.handler(service, request, collection if collection is not None else _NONE)

    return guarded(service, answer)


# -- serving ---------------------------------------------------------------------------------------


def check_address(store: Store, host: str) -> None:
    """Refuse to listen for other machines while there is no admin token."""
    tokens = store.control.tokens.values()
    if not is_loopback(host) and not any(t.role == "admin" and not t.revoked for t in tokens):
        raise ServeError(f"{NO_ADMIN} '{admin_token_command(store)}', or use --host 127.0.0.1")


def admin_token_command(store: Store) -> str:
    """The command that makes an admin token for a store."""
    return f"keyveil token create --role admin --store {quote(store.place)}"


def check_new(store: Store, host: str) -> None:
    """The same check before a new store is created."""
    path = getattr(store, "path", None)
    if path is not None and not path.exists() and not is_loopback(host):
        commands = f"keyveil migrate --store {quote(store.place)} && {admin_token_command(store)}"
        raise ServeError(f"{NO_ADMIN} '{commands}', or use --host 127.0.0.1")


def check_clock(store: Store, clock: Clock, settings: Settings) -> None:
    """Refuse to serve if this machine's clock differs from the one that the fleet agrees on."""
    if isinstance(clock, FleetClock):
        store.hear(clock)
    offset = offset_of(clock)
    if abs(offset) > settings.clock_seconds:
        raise ServeError(
            f"this machine's clock is {abs(offset):.0f} seconds "
            f"{'ahead of' if offset > 0 else 'behind'} the database's; at most "
            f"{settings.clock_seconds:g} are allowed, because epochs close by it: set the clock"
        )


SWITCH = 0.0005
"""Seconds after which Python's lock passes to a thread that waits for it.

The writer gives the lock away at each statement of a transaction, about six times. With Python's own
5 ms, a busy event loop could keep every commit waiting for 30 ms.
"""


COLLECT = (50_000, 20, 20)
"""After how many new objects Python looks for cycles.

Requests that wait for the store keep tens of thousands of objects and no cycles. With Python's own 700,
they would be looked through again and again.
"""


def serve(
    store: Store,
    segments: Path,
    host: str,
    listener: socket.socket,
    settings: Settings | None = None,
    clock: Clock | None = None,
    log: TextIO | None = None,
    pages: Callable[[Host], Sequence[Route]] = lambda _: (),
) -> int:
    """Serve until the process is asked to end; the exit code. ``pages`` makes other pages."""
    check_address(store, host)
    clock = clock or FleetClock()
    check_clock(store, clock, settings or Settings())
    service = Service(store, segments, clock, settings, log, exposed=not is_loopback(host))
    application = app(service, pages=pages(service))
    usual, often = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(SWITCH)
    gc.freeze()  # what is there by now stays until the end
    gc.set_threshold(*COLLECT)
    try:
        run(service, application, listener)
    finally:
        sys.setswitchinterval(usual)
        gc.set_threshold(*often)
        gc.unfreeze()
    return 1 if service.writer.broken else 0
