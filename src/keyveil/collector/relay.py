"""Relay: collects reports, waits until there are k, shuffles them, forwards them in bulk.

It stands between devices and a collector, run by someone else than the collector. It sees who sends and
what they send; the collector sees what was sent but not by whom, nor in which order. It passes on
ids and rows and nothing else: no header, no time, no token of a device.

**What it acknowledges.** 202 says that a report is held, in memory and no longer than the process
lives. 200 says that the collector has acknowledged it. A device keeps its report until 200 and sends
it again now and then, under the same id; so a relay that dies loses nothing, and needs no disk that
would remember who sent what.

**What it never does.** It never forwards fewer than k reports of one plan and epoch at once, also not
when it ends: what has not found k others by the end of its epoch is never told to the collector.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TextIO

import httpx
import msgspec

from ..client.core import FINAL, Patience, even
from ..errors import KeyveilError
from ..shuffle import DELTA
from . import wire
from .clock import Clock, SystemClock
from .crowd import AGAIN, Crowds, Spot
from .logs import Log
from .metrics import RelayMetrics
from .problems import REASONS, Problem
from .settings import Settings
from .upload import Said
from .upstream import Known, Upstream

PATIENCE = Patience(first=1.0, most=60.0)

_encoder = msgspec.json.Encoder()


class Relay:
    """One relay before one collector; ``wait`` is the k of reports that leave together at the least."""

    def __init__(
        self,
        to: str,
        wait: int,
        *,
        names: tuple[str, ...] = (),
        token: str | None = None,
        delta: float = DELTA,
        clock: Clock | None = None,
        settings: Settings | None = None,
        hold_bytes: int = 256 << 20,
        transport: httpx.AsyncBaseTransport | None = None,
        log: TextIO | None = None,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        if isinstance(wait, bool) or not isinstance(wait, int) or wait < 2:
            raise KeyveilError("a relay waits for at least 2 reports; for a crowd, thousands")
        self.wait = wait
        self.clock = clock or SystemClock()
        self.settings = settings or Settings()
        self.log = Log(self.clock, log)
        self.metrics = RelayMetrics()
        self.draining = asyncio.Event()
        self.crowds = Crowds(hold_bytes)
        self._pause, self._ended = pause, False
        self._tending: asyncio.Task[None] | None = None
        self.upstream = Upstream(
            to, names, token, wait, delta, hold_bytes, self.clock, self.log, transport
        )

    # -- reports in --------------------------------------------------------------------------------

    async def take(self, known: Known, batch: wire.Batch) -> Said:
        """Hold what is new, say what became of what is not."""
        name = known.name
        names, fates = _ids_of(batch), self.crowds.fates_of(name, batch.epoch)
        reasons: dict[str, str] = {}
        if not all(one in fates for one in names):
            known = await self._of_plan(known, batch)
            packed = wire.pack(batch, known.packing)
            names = _ids_of(batch)
            reasons = {names[place].hex(): "impossible" for place in packed.impossible}
            self._hold((name, batch.plan, batch.epoch), known, packed)
            fates = self.crowds.fates_of(name, batch.epoch)
        taken = 0
        for one in set(names):
            fate = fates.get(one)
            if fate:
                reasons.setdefault(one.hex(), fate)
            taken += fate == ""
        for reason in reasons.values():
            self.metrics.refuse(name, reason, 1)
        return _said(names, reasons, taken)

    def _hold(self, spot: Spot, known: Known, packed: wire.Packed) -> None:
        """Take in what is new, within bounds; a crowd leaves at once."""
        width = known.packing.width
        rows = {
            packed.ids[16 * at : 16 * at + 16]: packed.rows[width * at : width * at + width]
            for at in range(packed.count)
        }
        new = self.crowds.new(spot, list(rows))
        if new:
            self._check_times(known, spot[2])
            self.crowds.hold(spot, {one: rows[one] for one in new})
            self.maybe_send(spot)

    async def _of_plan(self, known: Known, batch: wire.Batch) -> Known:
        if known.plan.hash != batch.plan:
            known = await self.upstream.known(known.name, anew=True)
        if known.plan.hash != batch.plan:
            raise Problem("other_plan", number=batch.count)
        return known

    def _check_times(self, known: Known, epoch: int) -> None:
        """What the collector would refuse anyway is refused here, before anyone waits for it."""
        now, state = self.clock.now(), known.about.get("state")
        if known.over(epoch, now):
            raise Problem("closed_epoch")
        if known.ahead(epoch, now):
            raise Problem("early_epoch")
        if state == "closed":
            raise Problem("closed_collection")
        if self.draining.is_set():
            raise Problem("unhealthy", "the relay is ending; send again later")

    # -- reports out -------------------------------------------------------------------------------

    def maybe_send(self, spot: Spot) -> None:
        """Send a crowd on its way, if there is one."""
        if self._ended:
            return
        rows = self.crowds.leave(spot, self.wait)
        if rows:
            self.crowds.pools[spot].sending = asyncio.create_task(self._send(spot, rows))

    async def _send(self, spot: Spot, rows: list[tuple[bytes, bytes]]) -> None:
        """Forward one shuffled crowd, in as few requests as the collector takes."""
        try:
            size = self._request_size(spot[0])
            for at in range(0, len(rows), size):
                await self._send_part(spot, rows[at : at + size])
            self.metrics.crowds.add(len(rows))
            self.log.say("forwarded", collection=spot[0], reports=len(rows))
        except Exception as error:
            self.log.error("forward_failed", error)  # what has no fate is sent again by its device
        finally:
            self.crowds.gone(spot, rows)
            self.maybe_send(spot)

    def _request_size(self, name: str) -> int:
        known = self.upstream.last_known(name)
        limits = known.about.get("limits", {})
        by_bytes = (int(limits.get("bytes", 1 << 20)) - 64) // (16 + known.packing.width)
        return max(1, min(int(limits.get("reports", 1000)), by_bytes))

    async def _send_part(self, spot: Spot, rows: list[tuple[bytes, bytes]]) -> None:
        """The same bytes until the collector has decided on all of them, or their epoch is over."""
        name, plan, epoch = spot
        ids, packed = b"".join(one for one, _ in rows), b"".join(row for _, row in rows)
        body, tries = wire.encode_binary(plan, epoch, ids, packed), 0
        while not self.upstream.last_known(name).over(epoch, self.clock.now()):
            tries += 1
            status, said, after = await self.upstream.post(name, body)
            failed = said.get("failed")
            if status == 200 and isinstance(failed, list):
                self._decide(spot, rows, {one["id"]: one["reason"] for one in failed})
                return
            reason = str(said.get("reason"))
            if 400 <= status < 500 and reason in FINAL:
                self._decide(spot, rows, {one.hex(): reason for one, _ in rows})
                return
            self.log.say("collector_refused", collection=name, status=status, reason=reason[:40])
            await self._pause(PATIENCE.delay(tries, after, even()))
        self._decide(spot, rows, {one.hex(): "closed_epoch" for one, _ in rows})

    def _decide(self, spot: Spot, rows: list[tuple[bytes, bytes]], failed: dict[str, str]) -> None:
        """Remember what became of each; what the collector wants later has no fate yet.

        It is sent again by its device, and then waits for a crowd anew.
        """
        reasons = {one: failed.get(one.hex(), "") for one, _ in rows}
        self.crowds.decide(spot, {one: why for one, why in reasons.items() if not why or why in FINAL})
        done, counted = sum(not why for why in reasons.values()), self.metrics.forwarded
        counted[spot[0]] = counted.get(spot[0], 0) + done

    # -- care --------------------------------------------------------------------------------------

    def tend(self) -> None:
        """Forget what belongs to epochs that are over."""
        now = self.clock.now()
        for spot, pool in list(self.crowds.pools.items()):
            if pool.sending is None and self.upstream.last_known(spot[0]).over(spot[2], now):
                number = self.crowds.forget(spot)
                self.metrics.lonely[spot[0]] = self.metrics.lonely.get(spot[0], 0) + number
                self.log.say("too_few", collection=spot[0], reports=number)
        for name, epoch in list(self.crowds.fates):
            if self.upstream.last_known(name).over(epoch, now):
                self.crowds.forget_fates((name, epoch))

    def metrics_text(self) -> str:
        """Metrics as Prometheus reads them."""
        gauges = {
            "held_reports": ("Reports that wait for others, or are on their way.", len(self.crowds)),
            "held_bytes": ("Bytes that they take.", self.crowds.held_bytes),
            "ready": ("Whether reports should come here.", float(not self.draining.is_set())),
        }
        return self.metrics.text(gauges)

    async def start(self) -> None:
        """Begin to tend."""

        async def run() -> None:
            while True:
                await asyncio.sleep(5)
                self.tend()

        self._tending = asyncio.create_task(run())
        self.log.say("started", to=self.upstream.to, wait=self.wait)

    async def stop(self) -> None:
        """Finish what is on its way; what waits for others is forgotten here, and kept by its device."""
        self.draining.set()
        if self._tending is not None:
            self._tending.cancel()
            with suppress(asyncio.CancelledError):
                await self._tending
        with suppress(TimeoutError):
            async with asyncio.timeout(self.settings.shutdown_seconds):
                while sending := self._sending():
                    await asyncio.wait(sending)
        left = len(self.crowds)
        self._ended = True
        for task in self._sending():
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        await self.upstream.close()
        self.log.say("stopped", left_to_devices=left)

    def _sending(self) -> list[asyncio.Task[None]]:
        return [pool.sending for pool in self.crowds.pools.values() if pool.sending is not None]


def _said(names: list[bytes], reasons: dict[str, str], taken: int) -> Said:
    """The answer to a batch: 200 if all is decided, 202 while something is held."""
    failed = [
        {"id": one, "reason": reason, "retry": REASONS[reason].retry if reason in REASONS else False}
        for one, reason in reasons.items()
    ]
    held = len(set(names)) - taken - len(failed)
    if failed and not taken and not held and len(set(reasons.values())) == 1:
        (reason,) = set(reasons.values())
        raise Problem(reason if reason in REASONS else "forbidden", failed=failed, number=0)
    if not held:
        return 200, _encoder.encode({"accepted": len(names) - len(failed), "failed": failed}), []
    body = {"accepted": taken, "held": held, "failed": failed}
    return 202, _encoder.encode(body), [(b"retry-after", str(AGAIN).encode())]


def _ids_of(batch: wire.Batch) -> list[bytes]:
    """The ids of a batch; of a binary one also before its plan is known."""
    if batch.ids or not batch.body:
        return [batch.ids[at : at + 16] for at in range(0, len(batch.ids), 16)]
    size = (len(batch.body) - 48) // batch.count
    return [batch.body[48 + at * size : 64 + at * size] for at in range(batch.count)]


def statement(relay: Relay, known: Known) -> dict[str, Any]:
    """What a person is told of the crowd: the epsilon towards whoever sees all that was forwarded."""
    made = known.shuffled
    return {
        "wait": relay.wait,
        "epsilon": made.epsilon,
        "delta": made.delta,
        "local_epsilon": made.local_epsilon,
    }
