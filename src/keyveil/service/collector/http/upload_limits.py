"""Receiving the body of a request with reports, within limits of size, time and memory.

The routes for reports of a collector and of a relay are subclasses of ``Upload``.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ..process.problems import Problem
from ..store.collection import Terms
from . import batches
from .access import allowed, cors, header, preflight
from .web import Host, Pairs, as_problem, never_cached, refusal, with_headers

DECODERS = {
    batches.JSON.encode(): batches.decode_json,
    batches.BINARY.encode(): batches.decode_binary,
}
"""The decoder of a body by its content type."""
PATIENCE = 1.0
"""Seconds that a body may take before it can be dropped to make room for another."""


class HasTerms(Protocol):
    """A collection, as a collector or a relay knows it."""

    @property
    def terms(self) -> Terms:
        """Its epochs, and the origins whose pages may send reports."""


Place = TypeVar("Place", bound=HasTerms)


@dataclass(slots=True, eq=False)
class _Arriving:
    """A body that is arriving. Only the bytes received count, not the announced length."""

    begun: float
    limit: asyncio.Timeout | None = None
    """Set while the body is incomplete and can be dropped."""
    size: int = 0


class Upload(ABC, Generic[Place]):
    """The ASGI endpoint for ``/v1/collections/{name}/reports``.

    Subclasses say what happens to the reports.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self.waiting_bytes = 0
        """Bytes of all bodies received so far, complete or not."""
        self.waiting_requests = 0
        self._arriving: set[_Arriving] = set()
        """Bodies that are incomplete."""

    @abstractmethod
    async def find(self, name: str) -> Place:
        """The collection of this name; a problem if there is none."""

    def check(self, place: Place, headers: Pairs) -> None:
        """Refuse a request before its body is read."""

    @abstractmethod
    async def take(self, place: Place, batch: batches.Batch) -> Response:
        """Accept a batch and return the answer."""

    def refused(self, name: str, place: Place | None, problem: Problem) -> None:
        """Count a refusal."""
        number = problem.more.get("number", 1)
        self._host.metrics.refuse(name if place is not None else "", problem.reason, number)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        name, headers = scope["path_params"]["name"], scope["headers"]
        origin = header(headers, b"origin")
        place: Place | None = None
        extra: Pairs = []
        try:
            place = await self.find(name)
            origins = place.terms.origins
            extra = cors(origins, origin)
            if scope["method"] == "OPTIONS":
                response, extra = Response(status_code=204), preflight(origins, origin)
            elif scope["method"] != "POST":
                raise Problem("method")
            elif origin is not None and not allowed(origins, origin):
                raise Problem("origin")
            else:
                response = await self._post(place, headers, receive)
        except Exception as error:
            problem = as_problem(self._host, error)
            self.refused(name, place, problem)
            response = refusal(problem)
            if problem.reason == "method":
                response.headers["allow"] = "OPTIONS, POST"
        await never_cached(with_headers(response, extra))(scope, receive, send)

    async def _post(self, place: Place, headers: Pairs, receive: Receive) -> Response:
        self.check(place, headers)
        decode, size = self._head(headers)
        with self._waiting() as upload:
            body = await self._body(receive, size, upload)
            batch = decode(body, self._host.settings.reports)
            if batch.epoch == batches.NOW:
                batch.epoch = place.terms.epoch_at(self._host.clock.now())
            return await self.take(place, batch)

    @contextmanager
    def _waiting(self) -> Iterator[_Arriving]:
        """Count a request and its bytes until it is answered."""
        upload = _Arriving(asyncio.get_running_loop().time())
        while self.waiting_requests >= self._host.settings.waiting_requests:
            self._make_room(upload)
        self.waiting_requests += 1
        try:
            yield upload
        finally:
            self._arriving.discard(upload)
            self._forget(upload)

    def _count_bytes(self, upload: _Arriving, size: int) -> None:
        """Count bytes received of a body."""
        while self.waiting_bytes + size > self._host.settings.waiting_bytes:
            self._make_room(upload)
        upload.size += size
        self.waiting_bytes += size

    def _make_room(self, upload: _Arriving) -> None:
        """Drop the slowest body; refuse this request if none can be dropped.

        A client that announces much and sends little loses its place to clients that send.
        """
        now = asyncio.get_running_loop().time()
        slow = [
            other for other in self._arriving if other is not upload and now - other.begun >= PATIENCE
        ]
        if not slow:
            raise Problem("overload", after=self._patience())
        slowest = min(slow, key=lambda other: other.size / (now - other.begun))
        if slowest.limit is not None and not slowest.limit.expired():
            slowest.limit.reschedule(now)
        self._arriving.discard(slowest)
        self._forget(slowest)

    def _forget(self, upload: _Arriving) -> None:
        """Free the bytes and the place of a request, once."""
        if upload.size >= 0:
            self.waiting_bytes -= upload.size
            self.waiting_requests -= 1
            upload.size = -1

    def _patience(self) -> int:
        """Seconds to wait; longer the fuller the queue is. Clients add their own jitter."""
        return 1 + 4 * self.waiting_bytes // self._host.settings.waiting_bytes

    def _head(self, headers: Pairs) -> tuple[Callable[[bytes, int], batches.Batch], int]:
        """The decoder of the body and its maximum size."""
        named = dict(headers)  # the last counts if a header occurs twice
        if named.get(b"content-encoding", b"").strip().lower() not in (b"", b"identity"):
            raise Problem("encoding")
        kind = named.get(b"content-type", b"").split(b";", 1)[0].strip().lower()
        decode = DECODERS.get(kind)
        if decode is None:
            raise Problem("content_type", f"send {batches.JSON} or {batches.BINARY}")
        length, most = named.get(b"content-length"), self._host.settings.body_bytes
        if length is None:
            return decode, most
        if not length.isdigit():
            raise Problem("malformed", "the content length is not a number")
        if int(length[:20]) > most:
            raise Problem("too_large", f"a body has at most {most} bytes")
        return decode, int(length)

    async def _body(self, receive: Receive, most: int, upload: _Arriving) -> bytes:
        """The whole body, counted as it arrives."""
        parts: list[bytes] = []
        size, more = 0, True
        try:
            async with asyncio.timeout(self._host.settings.request_seconds) as limit:
                upload.limit = limit
                self._arriving.add(upload)
                while more:
                    message = await receive()
                    if message["type"] != "http.request":
                        raise Problem("malformed", "the connection ended within the body")
                    part, more = message.get("body", b""), message.get("more_body", False)
                    size += len(part)
                    if size > most:
                        raise Problem("too_large", f"a body has at most {most} bytes")
                    if upload.size < 0:  # dropped, and more of it arrived before the timeout was seen
                        raise Problem("slow")
                    self._count_bytes(upload, len(part))
                    parts.append(part)
                self._arriving.discard(upload)  # it now waits for the store and cannot be dropped
        except TimeoutError:
            raise Problem("slow") from None
        return b"".join(parts)
