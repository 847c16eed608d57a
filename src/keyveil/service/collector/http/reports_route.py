"""The collector's route for reports.

It checks the token, the plan, the rate and repeated ids, passes the reports to the writer, and answers
when they are durable.
"""

from __future__ import annotations

import asyncio
from collections import Counter

from starlette.responses import Response

from ..engine.rate_limit import Rate
from ..engine.recent_reports import RecentReports
from ..engine.service import Service
from ..process.problems import REASONS, Problem
from ..store import Parcel
from ..store.collection import Collection
from ..store.packed_ids import PackedIds
from . import batches
from .access import require_ingest
from .upload_limits import Upload
from .web import Pairs, json


class ReportsRoute(Upload[Collection]):
    """The collector's route for reports."""

    def __init__(self, service: Service) -> None:
        super().__init__(service)
        self.service = service
        self._rates: dict[int, Rate] = {}
        self._recent = RecentReports()

    async def find(self, name: str) -> Collection:
        return self.service.control.named_publicly(name)

    def check(self, place: Collection, headers: Pairs) -> None:
        if self.service.writer.broken:
            raise Problem("unhealthy")
        require_ingest(self.service, headers, place)

    def refused(self, name: str, place: Collection | None, problem: Problem) -> None:
        super().refused(name, place, problem)
        if place is not None:
            self.service.writer.refused(place.id, problem.reason, problem.more.get("number", 1))

    async def take(self, place: Collection, batch: batches.Batch) -> Response:
        service = self.service
        round_ = place.round_of(batch.plan)
        if round_ is None:
            raise Problem("other_plan", number=batch.count)
        book = service.store.has_book(round_)
        if book is None:
            book = await asyncio.to_thread(service.store.book, round_)
        packed = batches.pack(batch, book.plan.packing)
        batch.cells = None  # its lists need not live while it waits for the store
        reasons: dict[int, str] = dict.fromkeys(packed.impossible, "impossible")
        if packed.count:
            parcel = Parcel(place.id, round_.id, batch.epoch, PackedIds(packed.ids), packed.rows)
            recent = self._recent.look(parcel, book.plan.packing.width)
            await self._submit(place, parcel, packed.count - recent.repeats)
            if parcel.refused:
                places = [at for at in range(batch.count) if at not in reasons]
                reasons.update({places[at]: reason for at, reason in parcel.refused.items()})
            else:
                self._recent.note(parcel, recent)
            if recent.changed:
                service.metrics.changed[place.name] += recent.changed
        if reasons:
            return self._partly(place, batch, reasons)
        service.metrics.accepted[place.name] += batch.count
        return Response(b'{"accepted":%d,"failed":[]}' % batch.count, media_type=batches.JSON)

    async def _submit(self, collection: Collection, parcel: Parcel, fresh: int) -> None:
        """Make reports durable within the collection's rate."""
        rate = collection.terms.rate
        if rate is None or not fresh:
            await self.service.writer.submit(parcel)
            return
        now = self.service.clock.elapsed()
        bucket = self._rates.setdefault(collection.id, Rate(now, rate))
        wait = bucket.take(now, fresh, rate)
        if wait > 0:
            raise Problem("rate", after=int(wait) + 1, number=len(parcel.ids))
        unused = fresh
        try:
            await self.service.writer.submit(parcel)
            unused = min(fresh, len(parcel.refused))
        finally:
            bucket.give_back(unused)

    def _early(self, collection: Collection, epoch: int) -> str:
        terms = collection.terms
        now = terms.epoch_at(self.service.clock.now())
        length = f"each has {terms.epoch} seconds"
        return f"epoch {epoch} has not begun: the current one is {now}, and {length}"

    def _partly(self, collection: Collection, batch: batches.Batch, reasons: dict[int, str]) -> Response:
        """The answer if reports failed: it names their ids.

        A refusal if all failed for the same reason.
        """
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
            detail = self._early(collection, batch.epoch) if reason == "early_epoch" else ""
            raise Problem(reason, detail, failed=failed, number=batch.count)
        for reason, number in refused.items():
            service.metrics.refuse(collection.name, reason, number)
            service.writer.refused(collection.id, reason, number)
        service.metrics.accepted[collection.name] += accepted
        return json({"accepted": accepted, "failed": failed})
