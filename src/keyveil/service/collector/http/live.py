"""Live answers as server-sent events. An event is sent when something changed, within a second."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ..engine.service import Service
from ..process.problems import Problem
from .access import Headers, require

EVERY = 0.4
"""Seconds between two checks. Changes by other processes are seen half a second later at most."""
REST = 1.0
"""Minimum number of seconds between two estimates, which cost more than a check."""
SILENCE = 15.0
"""Seconds without an event after which a comment keeps the connection alive."""


class _Stream(Response):
    """An endless response. A client that stops reading is disconnected."""

    media_type = "text/event-stream"

    def __init__(self, service: Service, name: str, headers: Headers, estimates: bool) -> None:
        super().__init__(b"", headers={"cache-control": "no-store"})
        del self.headers["content-length"]
        self._service, self._asked = service, (name, headers, estimates)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        seconds = self._service.settings.send_seconds
        gone = asyncio.ensure_future(_gone(receive))
        try:
            start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
            await send(start)
            async for event in _events(self._service, *self._asked, gone):
                async with asyncio.timeout(seconds):
                    await send({"type": "http.response.body", "body": event, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        except TimeoutError:
            pass
        finally:
            gone.cancel()
            self._service.streams -= 1


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def stream(service: Service, name: str, headers: Headers, estimates: bool) -> Response:
    """Stream the tally of a collection as it grows, with estimates if requested.

    The stream ends when its token is revoked.
    """
    if service.streams >= service.settings.streams:
        raise Problem("busy", "too many live streams at once")
    service.streams += 1
    return _Stream(service, name, headers, estimates)


async def _events(
    service: Service, name: str, headers: Headers, estimates: bool, gone: asyncio.Future[None]
) -> AsyncIterator[bytes]:
    loop = asyncio.get_running_loop()
    seen: Any = None
    spoke = estimated = loop.time() - REST
    due = False
    while not service.draining.is_set() and not gone.done():
        collection = service.control.collections.get(name)
        if collection is None:
            yield _event("deleted", {})
            return
        try:
            require(service, headers, "analyst", collection)
        except Problem as problem:
            yield _event("refused", problem.document())
            return
        round_ = collection.round
        state = collection.state_at(service.clock.now(), service.store.is_full(round_))
        if (round_.id, service.store.version_now(round_), state) != seen:
            version, tally = await service.answers.tally(round_)
            seen, spoke, due = (round_.id, version, state), loop.time(), estimates
            facts = {"round": round_.number, "plan": round_.plan, "state": state, "version": version}
            yield _event("tally", {**facts, "reports": tally.reports})
        if due and loop.time() - estimated >= REST:
            due, estimated = False, loop.time()
            yield _event("estimates", await service.answers.estimates(round_, None, 0.95, ()))
        elif loop.time() - spoke >= SILENCE:
            spoke = loop.time()
            yield b": nothing new\n\n"
        try:
            async with asyncio.timeout(EVERY):
                await service.draining.wait()
        except TimeoutError:
            continue


def _event(kind: str, document: dict[str, Any]) -> bytes:
    return b"event: " + kind.encode() + b"\ndata: " + msgspec.json.encode(document) + b"\n\n"
