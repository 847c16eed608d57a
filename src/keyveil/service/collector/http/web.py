"""What every web application here has in common, a collector's and a relay's."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from ....foundation.errors import KeyveilError
from ..process.logs import Log
from ..process.metrics import Refusals
from ..process.problems import CONTENT_TYPE, Problem
from ..process.settings import Settings
from ..store.store_interface import StoreError, StoreUnready
from .wire import JSON

Pairs = list[tuple[bytes, bytes]]
Run = Callable[[Request], Awaitable[Response]]


class Host(Protocol):
    """Whoever is behind the routes."""

    settings: Settings
    log: Log
    draining: asyncio.Event
    """Set when the process is told to end."""

    @property
    def metrics(self) -> Refusals:
        """Where refusals are counted."""


def json(document: Any, status: int = 200, **headers: str) -> Response:
    """A JSON response."""
    return Response(msgspec.json.encode(document), status, headers, JSON)


def as_problem(host: Host, error: Exception) -> Problem:
    """Every error as a refusal; what was not foreseen is logged by kind and place alone."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, StoreUnready | StoreError) or _nothing_left(error):
        return Problem("storage")
    host.log.error("request_failed", error)
    return Problem("internal")


def _nothing_left(error: Exception) -> bool:
    """Whether the system has no more files or memory to give: it will, when others are done."""
    return isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def extra_headers(problem: Problem) -> Pairs:
    """The headers that a refusal needs beside its body."""
    headers: Pairs = []
    if problem.kind.retry:
        headers.append((b"retry-after", str(problem.more.get("after", problem.kind.after)).encode()))
    if problem.reason == "token":
        headers.append((b"www-authenticate", b"Bearer"))
    if problem.reason == "encoding":
        headers.append((b"accept-encoding", b"identity"))
    if problem.reason in ("too_large", "slow", "overload"):
        headers.append((b"connection", b"close"))  # what else was sent is not read
    return headers


def refusal(problem: Problem) -> Response:
    """A refusal as a response."""
    body = msgspec.json.encode(problem.document())
    return with_headers(
        Response(body, problem.http_status, media_type=CONTENT_TYPE), extra_headers(problem)
    )


def with_headers(response: Response, pairs: Pairs) -> Response:
    """A response with more headers."""
    for key, value in pairs:
        response.headers[key.decode("latin-1")] = value.decode("latin-1")
    return response


def guarded(host: Host, run: Run) -> Run:
    """A handler whose every error becomes a refusal, and whose answers nobody keeps."""

    async def safe(request: Request) -> Response:
        try:
            response = await run(request)
        except Exception as error:
            problem = as_problem(host, _asked_wrongly(error))
            response = refusal(problem)
        response.headers.setdefault("cache-control", "no-store")
        response.headers["x-content-type-options"] = "nosniff"
        return response

    return safe


def _asked_wrongly(error: Exception) -> Exception:
    """The library's own errors as refusals: they speak of plans and queries, never of records."""
    if isinstance(error, KeyveilError) and not isinstance(error, Problem | StoreError):
        return Problem("invalid", str(error))
    return error


def not_here(host: Host) -> Callable[[Request, Exception], Awaitable[Response]]:
    """What is said where there is no route."""

    async def say(request: Request, error: Exception) -> Response:
        reason = "method" if getattr(error, "status_code", 404) == 405 else "unknown"
        host.metrics.refuse("", reason, 1)
        allow = (getattr(error, "headers", None) or {}).get("Allow")
        more = [] if allow is None else [(b"allow", allow.encode("latin-1"))]
        return with_headers(refusal(Problem(reason)), more)

    return say


def site(
    host: Host, routes: Sequence[BaseRoute], lifespan: Callable[[Starlette], Any] | None = None
) -> Starlette:
    """An application of these routes and of nothing else: no path leads on to another, because a
    redirect would repeat whatever Host was named, without the proxy's TLS."""
    application = Starlette(
        routes=routes, lifespan=lifespan, exception_handlers={HTTPException: not_here(host)}
    )
    application.router.redirect_slashes = False
    return application
