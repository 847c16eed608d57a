"""What the web applications of collector and relay share."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ....foundation.errors import KeyveilError
from ..process.clock import Clock
from ..process.logs import Log
from ..process.metrics import Refusals
from ..process.problems import CONTENT_TYPE, Problem
from ..process.request_metrics import RequestMetrics
from ..process.settings import Settings
from ..process.supervisor import Supervisor
from ..store.store_interface import StoreError, StoreUnready
from .access import ANY_PAGE, allowed, cors, header, preflight
from .batches import JSON

Pairs = list[tuple[bytes, bytes]]
Run = Callable[[Request], Awaitable[Response]]


class Host(Protocol):
    """What is behind the routes: a service or a relay."""

    settings: Settings
    clock: Clock
    log: Log
    draining: asyncio.Event
    """Set when the process is asked to end."""

    @property
    def metrics(self) -> Refusals:
        """Where refusals are counted."""

    @property
    def failed(self) -> bool:
        """Whether the process cannot recover by itself and ends."""

    def health(self) -> tuple[bool, list[str]]:
        """Whether the process should go on, and what an operator should look at."""

    def unready(self) -> list[str]:
        """Why requests should go elsewhere; empty if they should come here."""

    def give_up(self) -> None:
        """Refuse the requests that still wait for the store; the process is ending."""

    async def stop(self) -> None:
        """Finish accepted requests, then stop."""


def json(document: Any, status: int = 200, **headers: str) -> Response:
    """A JSON response."""
    return Response(msgspec.json.encode(document), status, headers, JSON)


def as_problem(host: Host, error: Exception) -> Problem:
    """An error as a refusal. An unforeseen error is logged by its type and place only."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, StoreUnready | StoreError) or _nothing_left(error):
        return Problem("storage")
    host.log.error("request_failed", error)
    return Problem("internal")


def _nothing_left(error: Exception) -> bool:
    """Whether the system has run out of files or memory, which is temporary."""
    return isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def extra_headers(problem: Problem) -> Pairs:
    """The headers of a refusal."""
    headers: Pairs = []
    if problem.kind.retry:
        headers.append((b"retry-after", str(problem.more.get("after", problem.kind.after)).encode()))
    if problem.reason == "token":
        headers.append((b"www-authenticate", b"Bearer"))
    if problem.reason == "encoding":
        headers.append((b"accept-encoding", b"identity"))
    if problem.reason in ("too_large", "slow", "overload"):
        headers.append((b"connection", b"close"))  # the rest of the request is not read
    return headers


def refusal(problem: Problem) -> Response:
    """A refusal as a response."""
    body = msgspec.json.encode(problem.document())
    response = Response(body, problem.kind.status, media_type=CONTENT_TYPE)
    return with_headers(response, extra_headers(problem))


def with_headers(response: Response, pairs: Pairs) -> Response:
    """A response with more headers."""
    for key, value in pairs:
        response.headers[key.decode("latin-1")] = value.decode("latin-1")
    return response


def guarded(host: Host, run: Run) -> Run:
    """A handler that turns every error into a refusal and forbids caching."""

    async def safe(request: Request) -> Response:
        try:
            response = await run(request)
        except Exception as error:
            response = refusal(as_problem(host, _asked_wrongly(error)))
        return never_cached(response)

    return safe


def never_cached(response: Response) -> Response:
    """A response that forbids caching and guessing its type."""
    response.headers.setdefault("cache-control", "no-store")
    response.headers["x-content-type-options"] = "nosniff"
    return response


def _asked_wrongly(error: Exception) -> Exception:
    """The library's errors as refusals. They are about plans and queries, never about records."""
    if isinstance(error, KeyveilError) and not isinstance(error, Problem | StoreError):
        return Problem("invalid", str(error))
    return error


async def with_cors(request: Request, origins: Sequence[str], run: Run) -> Response:
    """A handler's response, readable by pages of these origins; or the answer to a preflight request.

    A page of another origin gets a refusal, which it may read, so that its developer learns the reason.
    """
    origin = header(request.scope["headers"], b"origin")
    if request.method == "OPTIONS":
        return with_headers(Response(status_code=204), preflight(origins, origin))
    if origin is not None and not allowed(origins, origin):
        return with_headers(refusal(Problem("origin")), ANY_PAGE)
    return with_headers(await run(request), cors(origins, origin))


def no_collection() -> Response:
    """The refusal of a public route for a name that no collection has; any page may read it."""
    return with_headers(refusal(Problem("unknown", "there is no collection of this name")), ANY_PAGE)


def not_here(host: Host) -> Callable[[Request, Exception], Awaitable[Response]]:
    """The refusal for an unknown route."""

    async def say(request: Request, error: Exception) -> Response:
        reason = "method" if getattr(error, "status_code", 404) == 405 else "unknown"
        host.metrics.refuse("", reason, 1)
        allow = (getattr(error, "headers", None) or {}).get("Allow")
        more = [] if allow is None else [(b"allow", allow.encode("latin-1"))]
        return with_headers(refusal(Problem(reason)), more)

    return say


METHODS = frozenset({"GET", "HEAD", "POST", "PATCH", "PUT", "DELETE", "OPTIONS"})


def timed(host: Host, requests: RequestMetrics, route: Route) -> ASGIApp:
    """A route that counts its requests, their statuses and the time until a response began."""
    application, pattern = route.app, route.path

    async def run(scope: Scope, receive: Receive, send: Send) -> None:
        begun = host.clock.elapsed()

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                seconds = host.clock.elapsed() - begun
                method = scope["method"] if scope["method"] in METHODS else "other"
                requests.add(pattern, method, message["status"], seconds)
            await send(message)

        await application(scope, receive, noted)

    return run


def site(
    host: Host, routes: Sequence[Route], metrics: Run, start: Callable[[], Awaitable[None]]
) -> Starlette:
    """An application of these routes, health, readiness and metrics. It starts and stops the host.

    It never redirects: a redirect would repeat the Host header that the client sent, without the proxy's
    TLS.
    """

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        supervisor = Supervisor()
        await start()
        supervisor.tell("READY=1")
        watch = asyncio.create_task(supervisor.watch(lambda: host.health()[0]))
        try:
            yield
        finally:
            supervisor.tell("STOPPING=1")
            watch.cancel()
            await host.stop()

    async def health(request: Request) -> Response:
        healthy, warnings = host.health()
        return json({"healthy": healthy, "warnings": warnings}, 200 if healthy else 503)

    async def ready(request: Request) -> Response:
        why = host.unready()
        return json({"ready": not why, "why": why}, 503 if why else 200)

    own = {"/health": health, "/ready": ready, "/metrics": metrics}
    all_routes = [*routes, *(Route(path, guarded(host, run)) for path, run in own.items())]
    if host.metrics.requests is not None:
        for route in all_routes:
            route.app = timed(host, host.metrics.requests, route)
    application = Starlette(
        routes=all_routes,
        lifespan=lifespan,
        exception_handlers={HTTPException: not_here(host)},
    )
    application.router.redirect_slashes = False
    return application
