"""The relay over HTTP: the collector's routes that devices need, and those for its operator."""

from __future__ import annotations

import hmac
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from ...client.client_core import is_loopback
from ..http import batches
from ..http.access import cors, header, preflight, require_here
from ..http.server import run
from ..http.upload_limits import Answer, Upload
from ..http.web import Run, guarded, json, site, with_headers
from ..process.problems import Problem
from ..store.tokens import digest_of
from .relay import Relay, statement
from .upstream import KnownCollection


class _Door(Upload[KnownCollection]):
    """The route for reports, with the same limits as at a collector."""

    def __init__(self, relay: Relay) -> None:
        super().__init__(relay)
        self._relay = relay

    async def find(self, name: str) -> KnownCollection:
        return await self._relay.upstream.known(name)

    def origins(self, place: KnownCollection) -> Sequence[str]:
        return place.origins

    def epoch_now(self, place: KnownCollection) -> int:
        return place.terms.epoch_at(self._relay.clock.now())

    async def take(self, place: KnownCollection, batch: batches.Batch) -> Answer:
        if not batch.named:  # its device asks for it by its id until it has left
            raise Problem("malformed", "a report sent through a relay must have an id")
        return await self._relay.take(place, batch)


class _Routes:
    """What a relay answers. ``watcher`` is the token for metrics; None if there is none."""

    def __init__(self, relay: Relay, watcher: str | None, exposed: bool) -> None:
        self._relay, self._watcher, self._exposed = relay, watcher, exposed

    def about(self, known: KnownCollection) -> Response:
        """The collector's description of a collection, with the relay's limits and its statement."""
        relay = self._relay
        limits = {"reports": relay.settings.reports, "bytes": relay.settings.body_bytes}
        return json({**known.about, "limits": limits, "token": False, "relay": statement(relay, known)})

    def plan(self, known: KnownCollection) -> Response:
        """The plan's document."""
        return Response(known.document, media_type=batches.JSON)

    def public(self, respond: Callable[[KnownCollection], Response]) -> Run:
        """A route that pages of the collection's origins may read."""

        async def answer(request: Request) -> Response:
            known = await self._relay.upstream.known(request.path_params["name"])
            origin = header(request.scope["headers"], b"origin")
            if request.method == "OPTIONS":
                return with_headers(Response(status_code=204), preflight(known.origins, origin))
            return with_headers(respond(known), cors(known.origins, origin))

        return guarded(self._relay, answer)

    async def health(self, request: Request) -> Response:
        """A relay that answers is healthy."""
        return json({"healthy": True, "warnings": []})

    async def ready(self, request: Request) -> Response:
        """Whether devices should send reports here."""
        why = ["ending"] if self._relay.draining.is_set() else []
        return json({"ready": not why, "why": why}, 503 if why else 200)

    async def metrics(self, request: Request) -> Response:
        """Metrics in the Prometheus text format."""
        _require_watcher(request, self._watcher, self._exposed)
        return PlainTextResponse(self._relay.metrics_text(), media_type="text/plain; version=0.0.4")


def app(
    relay: Relay, begin: bool = True, watcher: str | None = None, exposed: bool = False
) -> Starlette:
    """The web application of a relay.

    ``watcher`` is the token for metrics. Without it only this machine can read them, and nobody if the
    relay is ``exposed`` to other machines.
    """

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        if begin:
            await relay.start()
        try:
            yield
        finally:
            await relay.stop()

    answers = _Routes(relay, watcher, exposed)
    path, both = "/v1/collections/{name}", ["GET", "OPTIONS"]
    routes = [
        Route(path + "/reports", _Door(relay)),
        Route(path, answers.public(answers.about), methods=both),
        Route(path + "/plan", answers.public(answers.plan), methods=both),
        Route("/health", guarded(relay, answers.health)),
        Route("/ready", guarded(relay, answers.ready)),
        Route("/metrics", guarded(relay, answers.metrics)),
    ]
    return site(relay, routes, lifespan)


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
