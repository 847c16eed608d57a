"""The relay over HTTP: the collector's routes that devices need, and those for its operator."""

from __future__ import annotations

import hmac
import socket
from collections.abc import Callable
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from ...client.service_url import is_loopback
from ..http import batches
from ..http.access import header, require_here
from ..http.server import run
from ..http.upload_limits import Upload
from ..http.web import guarded, json, no_collection, site, with_cors
from ..process.problems import Problem
from ..store.tokens import digest_of
from .relay import Relay
from .upstream import KnownCollection


class _ReportsRoute(Upload[KnownCollection]):
    """The route for reports, with the same limits as at a collector."""

    def __init__(self, relay: Relay) -> None:
        super().__init__(relay)
        self._relay = relay

    async def find(self, name: str) -> KnownCollection:
        return await self._relay.upstream.known(name)

    async def take(self, place: KnownCollection, batch: batches.Batch) -> Response:
        if not batch.named:  # its device asks for it by its id until it has left
            raise Problem("malformed", "a report sent through a relay must have an id")
        return await self._relay.take(place, batch)


def app(
    relay: Relay, begin: bool = True, watcher: str | None = None, exposed: bool = False
) -> Starlette:
    """The web application of a relay.

    ``watcher`` is the token for metrics. Without it only this machine can read them, and nobody if the
    relay is ``exposed`` to other machines.
    """

    def about(known: KnownCollection) -> Response:
        # the collector's description of a collection, with the relay's limits and its statement
        limits = {"reports": relay.settings.reports, "bytes": relay.settings.body_bytes}
        return json({**known.about, "limits": limits, "token": False, "relay": _statement(relay, known)})

    def plan(known: KnownCollection) -> Response:
        return Response(known.document, media_type=batches.JSON)

    def public(path: str, respond: Callable[[KnownCollection], Response]) -> Route:
        """A route that pages of the collection's origins may read."""

        async def answer(request: Request) -> Response:
            try:
                known = await relay.upstream.known(request.path_params["name"])
            except Problem as problem:
                if problem.reason != "unknown" or request.method == "OPTIONS":
                    raise
                return no_collection()

            async def handled(_: Request) -> Response:
                return respond(known)

            return await with_cors(request, known.terms.origins, handled)

        return Route(path, guarded(relay, answer), methods=["GET", "OPTIONS"])

    async def metrics(request: Request) -> Response:
        _require_watcher(request, watcher, exposed)
        return PlainTextResponse(relay.metrics_text(), media_type="text/plain; version=0.0.4")

    async def start() -> None:
        if begin:
            await relay.start()

    path = "/v1/collections/{name}"
    routes = [
        Route(path + "/reports", _ReportsRoute(relay)),
        public(path, about),
        public(path + "/plan", plan),
    ]
    return site(relay, routes, metrics, start)


def _require_watcher(request: Request, watcher: str | None, exposed: bool) -> None:
    """Refuse metrics to anyone but the operator, because they show when reports arrive."""
    headers = request.scope["headers"]
    if watcher is None:
        if exposed:
            raise Problem(
                "host", "other machines can reach this relay: its metrics need --metrics-token"
            )
        require_here(headers)
        return
    kind, _, text = (header(headers, b"authorization") or "").partition(" ")
    right = hmac.compare_digest(digest_of(text.strip()), digest_of(watcher))
    if kind.lower() != "bearer" or not right:
        raise Problem("token")


def serve(relay: Relay, host: str, listener: socket.socket, watcher: str | None = None) -> int:
    """Run the relay until the process is asked to end; the exit code."""
    run(relay, app(relay, watcher=watcher, exposed=not is_loopback(host)), listener)
    return 0


def _statement(relay: Relay, known: KnownCollection) -> dict[str, Any]:
    """What the relay states about a crowd: epsilon towards anyone who sees all forwarded reports."""
    crowd = known.shuffled
    return {
        "wait": relay.wait,
        "epsilon": crowd.epsilon,
        "delta": crowd.delta,
        "local_epsilon": crowd.local_epsilon,
    }
