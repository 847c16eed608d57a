"""What a collector does with reports that came: check, hand to the writer, answer when durable."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

import msgspec

from . import wire
from .access import require_ingest
from .collections import Collection
from .problems import REASONS, Problem
from .service import Service
from .store import Parcel
from .upload import Said, Upload
from .web import Pairs

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


class Ingest(Upload[Collection]):
    """The upload route of a collector."""

    def __init__(self, service: Service) -> None:
        super().__init__(service)
        self.service = service
        self._rates: dict[int, Rate] = {}

    async def find(self, name: str) -> Collection:
        return self.service.control.named(name)

    def origins(self, place: Collection) -> Sequence[str]:
        return place.terms.origins

    def check(self, place: Collection, headers: Pairs) -> None:
        if self.service.writer.broken:
            raise Problem("unhealthy")
        require_ingest(self.service, headers, place)

    def refused(self, name: str, place: Collection | None, problem: Problem) -> None:
        super().refused(name, place, problem)
        if place is not None:
            self.service.writer.refused(place.id, problem.reason, problem.more.get("number", 1))

    async def take(self, place: Collection, batch: wire.Batch) -> Said:
        service = self.service
        one = place.round_of(batch.plan)
        if one is None:
            raise Problem("other_plan", number=batch.count)
        book = service.store.has_book(one)
        if book is None:
            book = await asyncio.to_thread(service.store.book, one)
        self._limit_rate(place, batch.count)
        packed = wire.pack(batch, book.packing)
        reasons: dict[int, str] = dict.fromkeys(packed.impossible, "impossible")
        if packed.count:
            ids = packed.ids
            names = [ids[at : at + 16] for at in range(0, len(ids), 16)]
            parcel = Parcel(place.id, one.id, batch.epoch, names, packed.rows)
            await service.writer.submit(parcel)
            if parcel.refused:
                places = [at for at in range(batch.count) if at not in reasons]
                reasons.update({places[at]: reason for at, reason in parcel.refused.items()})
        if reasons:
            return self._partly(place, batch, reasons)
        service.metrics.accept(place.name, batch.count)
        return 200, b'{"accepted":%d,"failed":[]}' % batch.count, []

    def _limit_rate(self, collection: Collection, number: int) -> None:
        rate = collection.terms.rate
        if rate is None:
            return
        now = self.service.clock.elapsed()
        bucket = self._rates.setdefault(collection.id, Rate(now, rate))
        wait = bucket.take(now, number, rate)
        if wait > 0:
            raise Problem("rate", after=int(wait) + 1, number=number)

    def _partly(self, collection: Collection, batch: wire.Batch, reasons: dict[int, str]) -> Said:
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
        return 200, _encoder.encode({"accepted": accepted, "failed": failed}), []
