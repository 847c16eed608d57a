"""The route that takes reports: read, decode, check, hand to the writer, answer when durable."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import msgspec
from starlette.types import Message, Receive, Scope, Send

from . import wire
from .access import allowed, cors, header, preflight, require_ingest
from .collections import Collection
from .problems import CONTENT_TYPE, REASONS, Problem
from .service import Service
from .store import Parcel, StoreUnready

_encoder = msgspec.json.Encoder()


class Rate:
    """A bucket of reports that fills at a collection's rate, a second's worth deep."""

    def __init__(self, now: float, rate: int) -> None:
        self.at, self.left, self.rate = now, float(rate), rate

    def take(self, now: float, number: int, rate: int) -> float:
        """Take so many; how many seconds until there are enough, 0 if there are now.

        A request larger than a second's worth passes when the bucket is full, and leaves a debt.
        """
        if rate != self.rate:
            self.rate, self.left = rate, min(self.left, float(rate))
        self.left = min(float(rate), self.left + max(0.0, now - self.at) * rate)
        self.at = now
        if self.left < min(number, rate):
            return (min(number, rate) - self.left) / rate
        self.left -= number
        return 0.0


class Ingest:
    """An ASGI endpoint for ``/v1/collections/{name}/reports``."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.waiting_bytes = 0
        self.waiting_requests = 0
        self._rates: dict[int, Rate] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        service = self.service
        name = scope["path_params"]["name"]
        collection = service.control.collections.get(name)
        headers = scope["headers"]
        origin = header(headers, b"origin")
        extra = cors(collection, origin) if collection is not None else []
        try:
            if collection is None:
                raise Problem("unknown", "there is no collection of this name")
            if scope["method"] == "OPTIONS":
                await respond(send, 204, b"", "", preflight(collection, origin))
                return
            if scope["method"] != "POST":
                raise Problem("method")
            if origin is not None and not allowed(collection, origin):
                raise Problem("origin")
            status, body, kind = await self._post(collection, headers, receive)
        except Exception as error:
            problem = self._problem(error)
            self._count(collection, problem)
            status, body, kind = problem.http_status, _encoder.encode(problem.document()), CONTENT_TYPE
            if problem.kind.retry:
                extra = [
                    *extra,
                    (b"retry-after", str(problem.more.get("after", problem.kind.after)).encode()),
                ]
            if problem.reason in ("too_large", "slow", "overload"):
                extra = [*extra, (b"connection", b"close")]  # what else was sent is not read
            if problem.reason == "encoding":
                extra = [*extra, (b"accept-encoding", b"identity")]
        await respond(send, status, body, kind, extra)

    def _problem(self, error: Exception) -> Problem:
        if isinstance(error, Problem):
            return error
        if isinstance(error, StoreUnready):
            return Problem("storage")
        self.service.log.error("request_failed", error)
        return Problem("internal")

    def _count(self, collection: Collection | None, problem: Problem) -> None:
        if collection is None:
            self.service.metrics.refuse("", problem.reason, 1)
            return
        number = problem.more.get("number", 1)
        self.service.metrics.refuse(collection.name, problem.reason, number)
        self.service.writer.refused(collection.id, problem.reason, number)

    # -- one request -------------------------------------------------------------------------------

    async def _post(
        self, collection: Collection, headers: list[tuple[bytes, bytes]], receive: Receive
    ) -> tuple[int, bytes, str]:
        service = self.service
        if service.writer.broken:
            raise Problem("unhealthy")
        require_ingest(service, headers, collection)
        decode, size = self._head(headers)
        settings = service.settings
        if (
            self.waiting_bytes + size > settings.waiting_bytes
            or self.waiting_requests >= settings.waiting_requests
        ):
            raise Problem("overload", after=self._patience())
        self.waiting_bytes += size
        self.waiting_requests += 1
        try:
            body = await self._body(receive, size)
            batch = decode(body, settings.reports)
            return await self._take(collection, batch)
        finally:
            self.waiting_bytes -= size
            self.waiting_requests -= 1

    def _patience(self) -> int:
        """Seconds to wait, more the fuller the queue is; clients add jitter of their own."""
        return 1 + 4 * self.waiting_bytes // self.service.settings.waiting_bytes

    def _head(self, headers: list[tuple[bytes, bytes]]) -> tuple[Any, int]:
        """How to decode the body, and how large it may be."""
        kind = length = encoding = None
        for key, value in headers:
            if key == b"content-type":
                kind = value
            elif key == b"content-length":
                length = value
            elif key == b"content-encoding":
                encoding = value
        if encoding is not None and encoding.strip().lower() not in (b"", b"identity"):
            raise Problem("encoding")
        main = b"" if kind is None else kind.split(b";", 1)[0].strip().lower()
        if main == b"application/json":
            decode: Any = wire.decode_json
        elif main == wire.BINARY.encode():
            decode = wire.decode_binary
        else:
            raise Problem("content_type", f"send {wire.JSON} or {wire.BINARY}")
        most = self.service.settings.body_bytes
        if length is None:
            return decode, most
        if not length.isdigit():
            raise Problem("malformed", "the content length is no number")
        if int(length[:20]) > most:
            raise Problem("too_large", f"a body has at most {most} bytes")
        return decode, int(length)

    async def _body(self, receive: Receive, most: int) -> bytes:
        try:
            async with asyncio.timeout(self.service.settings.request_seconds):
                message = await receive()
                if message["type"] == "http.request" and not message.get("more_body"):
                    body: bytes = message.get("body", b"")
                    if len(body) > most:
                        raise Problem("too_large", f"a body has at most {most} bytes")
                    return body
                return await self._rest(message, receive, most)
        except TimeoutError:
            raise Problem("slow") from None

    async def _rest(self, message: Message, receive: Receive, most: int) -> bytes:
        parts = []
        size = 0
        while True:
            if message["type"] != "http.request":
                raise Problem("malformed", "the connection ended within the body")
            part = message.get("body", b"")
            size += len(part)
            if size > most:
                raise Problem("too_large", f"a body has at most {most} bytes")
            parts.append(part)
            if not message.get("more_body"):
                return b"".join(parts)
            message = await receive()

    async def _take(self, collection: Collection, batch: wire.Batch) -> tuple[int, bytes, str]:
        service = self.service
        one = collection.round_of(batch.plan)
        if one is None:
            raise Problem("other_plan", number=batch.count)
        book = service.store.has_book(one)
        if book is None:
            book = await asyncio.to_thread(service.store.book, one)
        self._limit_rate(collection, batch.count)
        packed = wire.pack(batch, book.packing)
        reasons: dict[int, str] = dict.fromkeys(packed.impossible, "impossible")
        if packed.count:
            ids = packed.ids
            names = [ids[at : at + 16] for at in range(0, len(ids), 16)]
            parcel = Parcel(collection.id, one.id, batch.epoch, names, packed.rows)
            await service.writer.submit(parcel)
            if parcel.refused:
                places = [at for at in range(batch.count) if at not in reasons]
                reasons.update({places[at]: reason for at, reason in parcel.refused.items()})
        if reasons:
            return self._partly(collection, batch, reasons)
        service.metrics.accept(collection.name, batch.count)
        return 200, b'{"accepted":%d,"failed":[]}' % batch.count, wire.JSON

    def _limit_rate(self, collection: Collection, number: int) -> None:
        rate = collection.terms.rate
        if rate is None:
            return
        now = self.service.clock.elapsed()
        bucket = self._rates.setdefault(collection.id, Rate(now, rate))
        wait = bucket.take(now, number, rate)
        if wait > 0:
            raise Problem("rate", after=int(wait) + 1, number=number)

    def _partly(
        self, collection: Collection, batch: wire.Batch, reasons: dict[int, str]
    ) -> tuple[int, bytes, str]:
        """An answer that names the failed ids; a refusal if all failed for one reason."""
        service = self.service
        failed = [
            {
                "id": batch.ids[16 * place : 16 * place + 16].hex(),
                "reason": reasons[place],
                "retry": REASONS[reasons[place]].retry,
            }
            for place in sorted(reasons)
        ]
        refused = Counter(reasons.values())
        accepted = batch.count - len(reasons)
        if accepted == 0 and len(refused) == 1:
            (reason,) = refused
            raise Problem(reason, failed=failed, number=batch.count)
        for reason, number in refused.items():
            service.metrics.refuse(collection.name, reason, number)
            service.writer.refused(collection.id, reason, number)
        service.metrics.accept(collection.name, accepted)
        return 200, _encoder.encode({"accepted": accepted, "failed": failed}), wire.JSON


async def respond(
    send: Send, status: int, body: bytes, kind: str, extra: list[tuple[bytes, bytes]]
) -> None:
    """Send a whole response."""
    headers = [
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
        *extra,
    ]
    if status != 204:
        headers.append((b"content-length", str(len(body)).encode()))
    if kind:
        headers.append((b"content-type", kind.encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
