"""Relay: it holds reports until there are k, shuffles them, and forwards them in bulk.

A relay stands between devices and a collector, and someone other than the collector runs it. The relay
sees who sends and what they send. The collector sees the reports, but not who sent them, nor in which
order. The relay forwards ids and rows and nothing else: no header, no time, no token of a device.

**What it acknowledges.** Status 202 means that a report is held in memory, while the process lives.
Status 200 means that the collector has acknowledged it. A device keeps its report until 200 and sends
it again from time to time under the same id. So nothing is lost when a relay dies.

**What it never does.** It never forwards fewer than k *new* reports of one plan and epoch at once, not
even when it ends. A report that has not found enough others by the end of its epoch never reaches the
collector. A report that has left is no longer new: not if its device sends it again, not after the
relay restarts, and not if the collector asks for it later. That is why ``SentIds`` is on disk. A crowd
is written there before it leaves, and the same bytes are sent until the collector has decided on all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TextIO, TypeVar

import httpx
from starlette.responses import Response

from ....foundation.errors import KeyveilError
from ....trust.shuffle import DELTA
from ...client.client_core import Patience, even
from ...client.verdict import FINAL
from ..http import batches
from ..http.web import json
from ..process.clock import Clock, SystemClock
from ..process.logs import Log
from ..process.metrics import RelayMetrics
from ..process.problems import REASONS, Problem
from ..process.settings import Settings
from ..store.packed_ids import split
from .crowd import AGAIN, Crowds, Spot
from .sent_ids import MOST_IDS, Part, SentIds, SentIdsFailed
from .upstream import KnownCollection, Upstream

T = TypeVar("T")
PATIENCE = Patience(first=1.0, most=60.0)


class Relay:
    """One relay in front of one collector. ``wait`` is k, the minimum number of reports sent together.

    ``memory`` is the file with the ids of reports that have left. Only this relay uses it.
    """

    def __init__(
        self,
        to: str,
        wait: int,
        memory: str | Path,
        *,
        names: tuple[str, ...] = (),
        token: str | None = None,
        delta: float = DELTA,
        clock: Clock | None = None,
        settings: Settings | None = None,
        hold_bytes: int = 256 << 20,
        most_ids: int = MOST_IDS,
        certificates: str | Path | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        log: TextIO | None = None,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.wait = checked_wait(wait)
        self.clock = clock or SystemClock()
        self.settings = settings or Settings()
        self.log = Log(self.clock, log)
        self.metrics = RelayMetrics()
        self.draining = asyncio.Event()
        self.crowds = Crowds(hold_bytes)
        self._pause, self._ended = pause, False
        self._tending: asyncio.Task[None] | None = None
        self.upstream = Upstream(
            to,
            names,
            token,
            wait,
            delta,
            hold_bytes,
            self.clock,
            self.log,
            transport,
            certificates,
        )
        self.sent_ids = SentIds(memory, self.upstream.to, most_ids)

    # -- reports in --------------------------------------------------------------------------------

    async def take(self, known: KnownCollection, batch: batches.Batch) -> Response:
        """Hold new reports; answer with the fates of the others."""
        name = known.name
        names = _ids_of(batch)
        fates = self._fates(name, batch.epoch, names)
        reasons: dict[str, str] = {}
        if not all(report_id in fates for report_id in names):
            known = await self._of_plan(known, batch)
            packed = batches.pack(batch, known.plan.packing)
            names = _ids_of(batch)
            reasons = {names[place].hex(): "impossible" for place in packed.impossible}
            fates = self._hold((name, batch.plan, batch.epoch), known, packed)
        taken = 0
        for report_id in set(names):
            fate = fates.get(report_id)
            if fate:
                reasons.setdefault(report_id.hex(), fate)
            taken += fate == ""
        for reason in reasons.values():
            self.metrics.refuse(name, reason, 1)
        return _answer(names, reasons, taken)

    def _fates(self, name: str, epoch: int, ids: list[bytes]) -> dict[bytes, str]:
        """The fates of reports that have left. Those being sent have none yet."""
        held = self.crowds.held(name, epoch, ids)
        try:
            if self.sent_ids.broken:
                raise SentIdsFailed("stopped")
            return self.sent_ids.fates(
                name, epoch, [report_id for report_id in dict.fromkeys(ids) if report_id not in held]
            )
        except SentIdsFailed:
            raise Problem("unhealthy", "the relay cannot write to its disk; send again later") from None

    def _hold(self, spot: Spot, known: KnownCollection, packed: batches.Packed) -> dict[bytes, str]:
        """Hold new reports, and send a crowd once it is complete; the fates of the others."""
        width = known.plan.packing.width
        rows = {
            packed.ids[16 * at : 16 * at + 16]: packed.rows[width * at : width * at + width]
            for at in range(packed.count)
        }
        name, _, epoch = spot
        fates, held = self._fates(name, epoch, list(rows)), self.crowds.held(name, epoch, list(rows))
        new = {
            report_id: row
            for report_id, row in rows.items()
            if report_id not in fates and report_id not in held
        }
        if new:
            self._check_times(known, epoch)
            if self.sent_ids.number + len(self.crowds) + len(new) > self.sent_ids.most:
                raise Problem("overload", after=AGAIN, number=len(new))  # better than forgetting ids
            self.crowds.hold(spot, new)
            self.maybe_send(spot)
        return fates

    async def _of_plan(self, known: KnownCollection, batch: batches.Batch) -> KnownCollection:
        if known.plan.hash != batch.plan:
            known = await self.upstream.known(known.name, anew=True)
        if known.plan.hash != batch.plan:
            raise Problem("other_plan", number=batch.count)
        return known

    def _check_times(self, known: KnownCollection, epoch: int) -> None:
        """Refuse now what the collector would refuse later."""
        now, state = self.clock.now(), known.about.get("state")
        if known.terms.over(epoch, now) or self.sent_ids.closed(known.name, epoch):
            raise Problem("closed_epoch")
        if known.terms.ahead(epoch, now):
            raise Problem("early_epoch")
        if state == "closed":
            raise Problem("closed_collection")
        if self.draining.is_set():
            raise Problem("unhealthy", "the relay is ending; send again later")

    # -- reports out -------------------------------------------------------------------------------

    def maybe_send(self, spot: Spot) -> None:
        """Send a crowd if there is one."""
        if self._ended or self.sent_ids.broken:
            return
        rows = self.crowds.leave(spot, self.wait)
        if rows:
            self.crowds.pools[spot].sending = asyncio.create_task(self._send(spot, rows))

    async def _send(self, spot: Spot, rows: list[tuple[bytes, bytes]]) -> None:
        """Forward one shuffled crowd in as few requests as the collector accepts."""
        try:
            known, (name, plan, epoch) = self.upstream.last_known(spot[0]), spot
            ends, size = known.terms.end(epoch), known.request_size
            parts = [rows[at : at + size] for at in range(0, len(rows), size)]
            leave = partial(self.sent_ids.leave, name, plan, epoch, ends, parts)
            written = await self._written(leave, ends)
            if written is not None:
                await self._forward(spot, written, ends)
        finally:
            self.crowds.gone(spot, rows)
            self.maybe_send(spot)

    async def _resume(self, spot: Spot, parts: list[Part]) -> None:
        """Continue to send what an earlier process of this relay had started to send."""
        try:
            await self._forward(spot, parts, self.sent_ids.ends(spot[0], spot[2]))
        finally:
            self.crowds.gone(spot, [row for part in parts for row in part.rows])
            self.maybe_send(spot)

    async def _forward(self, spot: Spot, parts: list[Part], ends: float) -> None:
        for part in parts:
            failed = await self._send_part(spot, part, ends)
            decide = partial(self.sent_ids.decide, spot[0], spot[2], part, failed)
            await self._written(decide, ends)
            self.metrics.forwarded[spot[0]] += len(part.rows) - len(failed)
        number = sum(len(part.rows) for part in parts)
        self.metrics.crowds.add(number)
        self.log.say("forwarded", collection=spot[0], reports=number)

    async def _written(self, write: Callable[[], T], ends: float) -> T | None:
        """Write to the file of sent ids. Tried again while the disk is full; None if it failed."""
        tries = 0
        while True:
            tries += 1
            try:
                return await asyncio.to_thread(write)
            except Exception as error:
                self.log.error("memory_failed", error)
                self.sent_ids.broken = self.sent_ids.broken or not isinstance(error, SentIdsFailed)
                if self.sent_ids.broken or self.clock.now() >= ends:
                    return None
            await self._pause(PATIENCE.delay(tries, 0.0, even()))

    async def _send_part(self, spot: Spot, part: Part, ends: float) -> dict[bytes, str]:
        """Send the same bytes until the collector has decided on all of them, or the epoch has ended.

        Returns the ids that it refused for good, with the reasons. Reports that it wants later are not
        sent separately, because they would form a crowd of fewer than k.
        """
        name, plan, epoch = spot
        ids = [report_id for report_id, _ in part.rows]
        rows = b"".join(row for _, row in part.rows)
        body, tries = batches.encode_binary(plan, epoch, b"".join(ids), rows), 0
        while self.clock.now() < ends:
            tries += 1
            try:
                status, answer, after = await self.upstream.post(name, body)
            except Exception as error:  # unforeseen, but the crowd has left: keep trying
                self.log.error("forward_failed", error)
                status, answer, after = 0, {}, 0.0
            failed, reason = _failures(answer.get("failed")), str(answer.get("reason"))
            if status == 200 and failed is not None:
                if all(why in FINAL for why in failed.values()):
                    return {
                        report_id: failed[report_id.hex()]
                        for report_id in ids
                        if report_id.hex() in failed
                    }
                reason = next(why for why in failed.values() if why not in FINAL)
            elif 400 <= status < 500 and reason in FINAL:
                return dict.fromkeys(ids, reason)
            self.log.say("collector_refused", collection=name, status=status, reason=reason[:40])
            await self._pause(PATIENCE.delay(tries, after, even()))
        return dict.fromkeys(ids, "closed_epoch")

    # -- care --------------------------------------------------------------------------------------

    async def tend(self) -> None:
        """Drop what belongs to epochs that have ended."""
        now = self.clock.now()
        for spot, pool in list(self.crowds.pools.items()):
            over = self.sent_ids.closed(spot[0], spot[2]) or self.upstream.over(spot[0], spot[2], now)
            if pool.sending is None and over:
                number = self.crowds.forget(spot)
                self.metrics.lonely[spot[0]] += number
                self.log.say("too_few", collection=spot[0], reports=number)
        away = {(spot[0], spot[2]) for spot, pool in self.crowds.pools.items() if pool.sending}
        for name, epoch in self.sent_ids.over(now):
            if not any(collection == name and at <= epoch for collection, at in away):
                await asyncio.to_thread(self.sent_ids.close_epoch, name, epoch)

    failed = False
    """A relay ends only when it is asked to."""

    def give_up(self) -> None:
        """Nothing: a relay's requests wait for no store."""

    def health(self) -> tuple[bool, list[str]]:
        """A relay that answers is healthy."""
        return True, []

    def unready(self) -> list[str]:
        """Why devices should send elsewhere; empty if they should send here."""
        return ["ending"] if self.draining.is_set() else []

    def metrics_text(self) -> str:
        """Metrics in the Prometheus text format."""
        gauges = {
            "held_reports": ("Reports that wait for others, or are on their way.", len(self.crowds)),
            "held_bytes": ("Bytes that they take.", self.crowds.held_bytes),
            "remembered_reports": ("Reports of open epochs that have left.", self.sent_ids.number),
            "ready": ("Whether reports should come here.", float(not self.draining.is_set())),
        }
        return self.metrics.text(gauges)

    async def start(self) -> None:
        """Continue unfinished sends, and start the regular clean-up."""
        waiting: dict[Spot, list[Part]] = {}
        for name, plan, epoch, part in self.sent_ids.parts():
            waiting.setdefault((name, plan, epoch), []).append(part)
        for spot, parts in waiting.items():
            pool = self.crowds.resume(spot, [row for part in parts for row in part.rows])
            pool.sending = asyncio.create_task(self._resume(spot, parts))

        async def run() -> None:
            while True:
                await asyncio.sleep(5)
                try:
                    await self.tend()
                except Exception as error:
                    self.log.error("tending_failed", error)

        self._tending = asyncio.create_task(run())
        self.log.say("started", to=self.upstream.to, wait=self.wait)

    async def stop(self) -> None:
        """Finish the current sends, or leave them to the next process of this relay.

        Reports that wait for others are dropped; their devices still have them.
        """
        self.draining.set()
        if self._tending is not None:
            self._tending.cancel()
            with suppress(asyncio.CancelledError):
                await self._tending
        with suppress(TimeoutError):
            async with asyncio.timeout(self.settings.shutdown_seconds):
                while sending := self._sending():
                    await asyncio.wait(sending)
        left = sum(len(pool.rows) for pool in self.crowds.pools.values())
        self._ended = True
        for task in self._sending():
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        await self.upstream.close()
        await asyncio.to_thread(self.sent_ids.close)
        self.log.say("stopped", left_to_devices=left)

    def _sending(self) -> list[asyncio.Task[None]]:
        return [pool.sending for pool in self.crowds.pools.values() if pool.sending is not None]


def checked_wait(wait: object) -> int:
    """A valid k."""
    if isinstance(wait, bool) or not isinstance(wait, int) or wait < 2:
        raise KeyveilError("a relay must wait for at least 2 reports; a crowd has thousands")
    return wait


def _answer(names: list[bytes], reasons: dict[str, str], taken: int) -> Response:
    """The answer to a batch: 200 if all reports are decided, 202 if some are held."""
    failed = [
        {
            "id": report_id,
            "reason": reason,
            "retry": REASONS[reason].retry if reason in REASONS else False,
        }
        for report_id, reason in reasons.items()
    ]
    held = len(set(names)) - taken - len(failed)
    if failed and not taken and not held and len(set(reasons.values())) == 1:
        (reason,) = set(reasons.values())
        raise Problem(reason if reason in REASONS else "forbidden", failed=failed, number=0)
    if not held:
        return json({"accepted": len(names) - len(failed), "failed": failed})
    answer = {"accepted": taken, "held": held, "failed": failed}
    return json(answer, 202, **{"retry-after": str(AGAIN)})


def _ids_of(batch: batches.Batch) -> list[bytes]:
    """The ids of a batch; for a binary batch also before its plan is known."""
    if batch.ids or not batch.body:
        return split(batch.ids)
    size = (len(batch.body) - 48) // batch.count
    return [batch.body[48 + at * size : 64 + at * size] for at in range(batch.count)]


def _failures(given: object) -> dict[str, str] | None:
    """The ids that a collector refused, with the reasons; None if the answer is malformed."""
    if not isinstance(given, list) or not all(isinstance(failure, dict) for failure in given):
        return None
    return {str(failure.get("id")): str(failure.get("reason")) for failure in given}
