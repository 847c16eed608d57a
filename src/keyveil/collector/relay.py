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
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TextIO, cast

import httpx
import msgspec
import numpy as np
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from ..client.core import FINAL, Patience, checked_url, even
from ..coins import Coins
from ..errors import KeyveilError
from ..plan import Plan
from ..shuffle import DELTA, Amplified, amplified, line
from . import wire
from .clock import Clock, SystemClock
from .collections import is_name
from .ingest import Ingest, respond
from .logs import Log
from .packing import Packing
from .problems import CONTENT_TYPE, REASONS, Problem
from .serve import Protocol, Server, _ServerLog
from .service import Service
from .settings import Settings

OVERHEAD = 200
"""Bytes that a held report takes beside its row, or an id whose fate is remembered."""
AGAIN = 60
"""Seconds after which a device asks again what became of its report."""
FRESH = 5.0
"""Seconds for which what the collector says of a collection is believed."""
PATIENCE = Patience(first=1.0, most=60.0)

_encoder = msgspec.json.Encoder()

Spot = tuple[str, str, int]
"""A collection's name, a plan's hash, an epoch: what may be forwarded together."""


@dataclass
class Known:
    """What the relay knows of a collection, and until when it believes it."""

    about: dict[str, Any]
    document: bytes
    plan: Plan
    packing: Packing
    shuffled: Amplified
    fresh_until: float

    def over(self, epoch: int, now: float) -> bool:
        """Whether an epoch and its grace are over."""
        terms = self.about["epoch"]
        return bool((epoch + 1) * terms["seconds"] + terms["grace"] <= now)

    def ahead(self, epoch: int, now: float) -> bool:
        """Whether an epoch has not begun, nor is about to."""
        terms = self.about["epoch"]
        return bool(epoch * terms["seconds"] - terms["early"] > now)


@dataclass
class Pool:
    """Reports of one plan and epoch that wait for others, and those on their way."""

    rows: dict[bytes, bytes] = field(default_factory=dict)
    away: set[bytes] = field(default_factory=set)
    sending: asyncio.Task[None] | None = None


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
        if not all(map(is_name, names)):
            raise KeyveilError("a collection's name has 1 to 64 small letters, digits and hyphens")
        self.to, self.wait, self.names, self.delta = checked_url(to), wait, names, delta
        self.clock = clock or SystemClock()
        self.settings = settings or Settings()
        self.log = Log(self.clock, log)
        self.draining = asyncio.Event()
        self.pools: dict[Spot, Pool] = {}
        self.fates: dict[tuple[str, int], dict[bytes, str]] = {}
        """What became of an epoch's reports that left: empty if the collector has them, else why not."""
        self.held_bytes = self.forwarded = self._fated = 0
        self._hold_bytes, self._pause, self._ended = hold_bytes, pause, False
        self._known: dict[str, Known] = {}
        self._learning = asyncio.Lock()
        self._tending: asyncio.Task[None] | None = None
        headers = {"user-agent": "keyveil-relay", "accept-encoding": "identity"}
        if token is not None:
            headers["authorization"] = f"Bearer {token}"
        self._http = httpx.AsyncClient(
            transport=transport, headers=headers, timeout=30, follow_redirects=False, trust_env=False
        )

    # -- what the collector says -------------------------------------------------------------------

    async def known(self, name: str, anew: bool = False) -> Known:
        """A collection of the collector, as of a few seconds ago at most."""
        if not is_name(name) or (self.names and name not in self.names):
            raise Problem("unknown", "there is no collection of this name here")
        async with self._learning:
            found = self._known.get(name)
            if found is not None and not anew and self.clock.elapsed() < found.fresh_until:
                return found
            try:
                self._known[name] = await self._learn(name, found)
            except Problem as problem:
                if found is None or anew or problem.reason != "unhealthy":
                    raise
                found.fresh_until = self.clock.elapsed() + FRESH  # go on holding while it is away
            return self._known[name]

    async def _learn(self, name: str, before: Known | None) -> Known:
        if before is None and len(self._known) >= 1000:
            raise Problem("overload", "this relay knows as many collections as it may")
        path = f"{self.to}/v1/collections/{name}"
        about = _about_of((await self._get(path)).content)
        until = self.clock.elapsed() + FRESH
        if before is not None and about.get("plan") == before.plan.hash:
            before.about, before.fresh_until = about, until
            return before
        document = (await self._get(path + "/plan")).content
        plan = await asyncio.to_thread(Plan.parse, document)
        if plan.hash != about.get("plan"):
            raise Problem("unhealthy", "the collector's plan is not the one that it names")
        packing = Packing(plan)
        if self.wait * (packing.width + OVERHEAD) > self._hold_bytes:
            raise Problem("unhealthy", "this relay cannot hold as many reports as it waits for")
        shuffled = await asyncio.to_thread(amplified, plan, self.wait, self.delta)
        self.log.say(
            "collection_known", collection=name, plan=plan.hash, wait=self.wait,
            epsilon=shuffled.epsilon, delta=shuffled.delta, local_epsilon=shuffled.local_epsilon,
        )  # fmt: skip
        return Known(about, document, plan, packing, shuffled, until)

    async def _get(self, url: str) -> httpx.Response:
        try:
            response = await self._http.get(url)
        except (httpx.HTTPError, httpx.StreamError):
            raise Problem("unhealthy", "the collector cannot be reached; send again later") from None
        if response.status_code == REASONS["unknown"].status:
            raise Problem("unknown", "there is no collection of this name")
        if response.status_code != 200:
            raise Problem("unhealthy", "the collector does not answer now; send again later")
        return response

    # -- reports in --------------------------------------------------------------------------------

    async def take(self, name: str, batch: wire.Batch) -> tuple[int, bytes, list[tuple[bytes, bytes]]]:
        """Hold what is new, say what became of what is not: status, body, headers."""
        names, fates = _ids_of(batch), self.fates.get((name, batch.epoch), {})
        if not all(one in fates for one in names):
            known = await self._for(name, batch)
            packed = wire.pack(batch, known.packing)
            names, fates = _ids_of(batch), self.fates.get((name, batch.epoch), {})
            reasons = {names[place].hex(): "impossible" for place in packed.impossible}
            self._hold((name, batch.plan, batch.epoch), known, packed, fates)
        else:
            reasons = {}
        taken = 0
        for one in set(names):
            fate = fates.get(one)
            if fate:
                reasons.setdefault(one.hex(), fate)
            taken += fate == ""
        return self._said(names, reasons, taken)

    def _hold(self, spot: Spot, known: Known, packed: wire.Packed, fates: dict[bytes, str]) -> None:
        """Take in what is new, within bounds; a crowd leaves at once."""
        pool, width = self.pools.get(spot) or Pool(), known.packing.width
        rows = {
            packed.ids[16 * at : 16 * at + 16]: packed.rows[width * at : width * at + width]
            for at in range(packed.count)
        }
        fresh = [
            one for one in rows if one not in fates and one not in pool.rows and one not in pool.away
        ]
        if not fresh:
            return
        self._check_times(known, spot[2])
        if self.held_bytes + len(fresh) * (width + OVERHEAD) > self._hold_bytes:
            raise Problem("overload", after=AGAIN, number=len(fresh))
        self.pools[spot] = pool
        pool.rows.update((one, rows[one]) for one in fresh)
        self.held_bytes += len(fresh) * (width + OVERHEAD)
        self._maybe_send(spot)

    async def _for(self, name: str, batch: wire.Batch) -> Known:
        known = await self.known(name)
        if known.plan.hash != batch.plan:
            known = await self.known(name, anew=True)
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

    def _said(
        self, names: list[bytes], reasons: dict[str, str], taken: int
    ) -> tuple[int, bytes, list[tuple[bytes, bytes]]]:
        failed = [
            {"id": one, "reason": reason, "retry": REASONS[reason].retry if reason in REASONS else False}
            for one, reason in reasons.items()
        ]
        held = len(set(names)) - taken - len(failed)
        if failed and not taken and not held and len(set(reasons.values())) == 1:
            (reason,) = set(reasons.values())
            raise Problem(reason if reason in REASONS else "forbidden", failed=failed)
        if not held:
            return 200, _encoder.encode({"accepted": len(names) - len(failed), "failed": failed}), []
        body = {"accepted": taken, "held": held, "failed": failed}
        return 202, _encoder.encode(body), [(b"retry-after", str(AGAIN).encode())]

    # -- reports out -------------------------------------------------------------------------------

    def _maybe_send(self, spot: Spot) -> None:
        pool = self.pools.get(spot)
        if self._ended or pool is None or pool.sending is not None or len(pool.rows) < self.wait:
            return
        rows, pool.rows = pool.rows, {}
        pool.away = set(rows)
        pool.sending = asyncio.create_task(self._send(spot, pool, shuffled(rows)))

    async def _send(self, spot: Spot, pool: Pool, rows: list[tuple[bytes, bytes]]) -> None:
        """Forward one shuffled crowd, in as few requests as the collector takes."""
        try:
            size = await self._request_size(spot[0])
            for at in range(0, len(rows), size):
                await self._send_part(spot, rows[at : at + size])
            self.log.say("forwarded", collection=spot[0], reports=len(rows))
        except Exception as error:
            self.log.error("forward_failed", error)  # what has no fate is sent again by its device
        finally:
            for one, row in rows:
                self.held_bytes -= len(row) + OVERHEAD
                pool.away.discard(one)
            pool.sending = None
            if not pool.rows:
                self.pools.pop(spot, None)
            self._maybe_send(spot)

    async def _request_size(self, name: str) -> int:
        known = self._known[name]
        limits = known.about.get("limits", {})
        by_bytes = (int(limits.get("bytes", 1 << 20)) - 64) // (16 + known.packing.width)
        return max(1, min(int(limits.get("reports", 1000)), by_bytes))

    async def _send_part(self, spot: Spot, rows: list[tuple[bytes, bytes]]) -> None:
        """The same bytes until the collector has decided on all of them, or their epoch is over."""
        name, plan, epoch = spot
        ids, packed = b"".join(one for one, _ in rows), b"".join(row for _, row in rows)
        body, tries = wire.encode_binary(plan, epoch, ids, packed), 0
        while not self._known[name].over(epoch, self.clock.now()):
            tries += 1
            status, said, after = await self._post(name, body)
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

    async def _post(self, name: str, body: bytes) -> tuple[int, dict[str, Any], float]:
        url = f"{self.to}/v1/collections/{name}/reports"
        try:
            response = await self._http.post(url, content=body, headers={"content-type": wire.BINARY})
            said = msgspec.json.decode(response.content)
        except (httpx.HTTPError, httpx.StreamError, ValueError):
            return 0, {}, 0.0
        given = response.headers.get("retry-after", "")
        after = float(min(int(given[:9]), 3600)) if given.isascii() and given.isdigit() else 0.0
        return response.status_code, said if isinstance(said, dict) else {}, after

    def _decide(self, spot: Spot, rows: list[tuple[bytes, bytes]], failed: dict[str, str]) -> None:
        """Remember what became of each; what the collector wants later has no fate yet.

        It is sent again by its device, and then waits for a crowd anew.
        """
        fates = self.fates.setdefault((spot[0], spot[2]), {})
        before = len(fates)
        for one, _ in rows:
            reason = failed.get(one.hex(), "")
            if not reason or reason in FINAL:
                fates[one] = reason
                self.forwarded += not reason
        self._fated += len(fates) - before
        while self._fated * OVERHEAD > self._hold_bytes:
            # whoever is forgotten and asks again is forwarded again, and counted once all the same
            oldest = next(iter(self.fates))
            self._fated -= len(self.fates.pop(oldest))

    # -- care --------------------------------------------------------------------------------------

    def tend(self) -> None:
        """Forget what belongs to epochs that are over."""
        now = self.clock.now()
        for spot, pool in list(self.pools.items()):
            if pool.sending is None and self._known[spot[0]].over(spot[2], now):
                self.log.say("too_few", collection=spot[0], reports=len(pool.rows))
                self.held_bytes -= sum(len(row) + OVERHEAD for row in pool.rows.values())
                del self.pools[spot]
        for name, epoch in list(self.fates):
            if self._known[name].over(epoch, now):
                self._fated -= len(self.fates.pop((name, epoch)))

    async def start(self) -> None:
        """Begin to tend."""

        async def run() -> None:
            while True:
                await asyncio.sleep(5)
                self.tend()

        self._tending = asyncio.create_task(run())
        self.log.say("started", to=self.to, wait=self.wait)

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
        left = sum(len(pool.rows) + len(pool.away) for pool in self.pools.values())
        self._ended = True
        for task in self._sending():
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        await self._http.aclose()
        self.log.say("stopped", left_to_devices=left)

    def _sending(self) -> list[asyncio.Task[None]]:
        return [pool.sending for pool in self.pools.values() if pool.sending is not None]


def _about_of(body: bytes) -> dict[str, Any]:
    """What a collector says of a collection, as far as a relay needs it."""
    try:
        about: dict[str, Any] = msgspec.json.decode(body, type=dict[str, Any])
        if not all(
            isinstance(about["epoch"][part], int) for part in ("now", "seconds", "grace", "early")
        ):
            raise TypeError
    except (ValueError, KeyError, TypeError):
        raise Problem("unhealthy", "what is asked is no collector, or one of another version") from None
    return about


def _ids_of(batch: wire.Batch) -> list[bytes]:
    """The ids of a batch; of a binary one also before its plan is known."""
    if batch.ids or not batch.body:
        return [batch.ids[at : at + 16] for at in range(0, len(batch.ids), 16)]
    size = (len(batch.body) - 48) // batch.count
    return [batch.body[48 + at * size : 64 + at * size] for at in range(batch.count)]


def shuffled(rows: dict[bytes, bytes]) -> list[tuple[bytes, bytes]]:
    """Reports in an order that says nothing: by sixteen secure random bytes each."""
    pairs = list(rows.items())
    addresses = np.zeros((len(pairs), 4), np.uint32)
    addresses[:, 0] = np.arange(len(pairs))
    order = np.lexsort(Coins.secure().blocks(addresses, 0, 1).T)
    return [pairs[place] for place in order.tolist()]


# -- the application -------------------------------------------------------------------------------


class _Door(Ingest):
    """The upload route: bodies within the same bounds as at a collector."""

    def __init__(self, relay: Relay) -> None:
        super().__init__(cast(Service, relay))
        self._relay = relay

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        extra: list[tuple[bytes, bytes]] = []
        try:
            if scope["method"] != "POST":
                raise Problem("method")
            status, body, extra = await self._held(scope["path_params"]["name"], scope, receive)
            kind = wire.JSON
        except Exception as error:
            problem = _as_problem(self._relay, error)
            status, body, kind = problem.http_status, _encoder.encode(problem.document()), CONTENT_TYPE
            if problem.kind.retry:
                extra = [(b"retry-after", str(problem.more.get("after", problem.kind.after)).encode())]
            if problem.reason in ("too_large", "slow", "overload"):
                extra = [*extra, (b"connection", b"close")]
        await respond(send, status, body, kind, extra)

    async def _held(
        self, name: str, scope: Scope, receive: Receive
    ) -> tuple[int, bytes, list[tuple[bytes, bytes]]]:
        decode, size = self._head(scope["headers"])
        bounds = self._relay.settings
        if (
            self.waiting_bytes + size > bounds.waiting_bytes
            or self.waiting_requests >= bounds.waiting_requests
        ):
            raise Problem("overload", after=self._patience())
        self.waiting_bytes += size
        self.waiting_requests += 1
        try:
            batch = decode(await self._body(receive, size), bounds.reports)
            return await self._relay.take(name, batch)
        finally:
            self.waiting_bytes -= size
            self.waiting_requests -= 1


def _as_problem(relay: Relay, error: Exception) -> Problem:
    if isinstance(error, Problem):
        return error
    relay.log.error("request_failed", error)
    return Problem("internal")


def app(relay: Relay, begin: bool = True) -> Starlette:
    """The routes of a relay: those of a collector that a device needs."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        if begin:
            await relay.start()
        try:
            yield
        finally:
            await relay.stop()

    async def about(request: Request) -> Response:
        known = await relay.known(request.path_params["name"])
        limits = {"reports": relay.settings.reports, "bytes": relay.settings.body_bytes}
        said = {**known.about, "limits": limits, "token": False, "relay": statement(relay, known)}
        return Response(_encoder.encode(said), media_type=wire.JSON)

    async def plan(request: Request) -> Response:
        known = await relay.known(request.path_params["name"])
        return Response(known.document, media_type=wire.JSON)

    async def health(request: Request) -> Response:
        held = sum(len(pool.rows) + len(pool.away) for pool in relay.pools.values())
        facts = {"healthy": True, "held": held, "forwarded": relay.forwarded}
        return Response(_encoder.encode(facts), media_type=wire.JSON)

    def guarded(run: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Any]:
        async def safe(request: Request) -> Response:
            try:
                response = await run(request)
            except Exception as error:
                problem = _as_problem(relay, error)
                body = _encoder.encode(problem.document())
                response = Response(body, problem.http_status, media_type=CONTENT_TYPE)
            response.headers["cache-control"] = "no-store"
            return response

        return safe

    path = "/v1/collections/{name}"
    return Starlette(
        routes=[
            Route(path + "/reports", _Door(relay)),
            Route(path, guarded(about)),
            Route(path + "/plan", guarded(plan)),
            Route("/health", guarded(health)),
        ],
        lifespan=lifespan,
    )


def statement(relay: Relay, known: Known) -> dict[str, Any]:
    """What a person is told of the crowd: the epsilon towards whoever sees all that was forwarded."""
    made = known.shuffled
    return {
        "wait": relay.wait,
        "epsilon": made.epsilon,
        "delta": made.delta,
        "local_epsilon": made.local_epsilon,
    }


def serve(relay: Relay, found: socket.socket) -> int:
    """Relay until told to end; the exit code."""
    bounds = relay.settings
    limits = {
        "seconds": bounds.request_seconds,
        "send_seconds": bounds.send_seconds,
        "most": bounds.connections,
    }
    config = uvicorn.Config(
        app(relay),
        http=type("BoundProtocol", (Protocol,), limits),
        loop="uvloop",
        ws="none",
        lifespan="on",
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=max(1, int(bounds.idle_seconds)),
        timeout_graceful_shutdown=max(1, int(bounds.shutdown_seconds)),
    )
    for name in ("uvicorn", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [_ServerLog(relay.log)], False
    Server(config, cast(Service, relay)).run([found])
    return 0


def states(relay: Relay) -> list[str]:
    """For each collection that was named: what whoever sees all forwarded reports learns of one."""

    async def ask() -> list[str]:
        lines = []
        async with httpx.AsyncClient(timeout=30, trust_env=False) as http:
            for name in relay.names:
                path = f"{relay.to}/v1/collections/{name}/plan"
                try:
                    response = await http.get(path)
                except httpx.HTTPError:
                    raise KeyveilError("the collector cannot be reached") from None
                if response.status_code != 200:
                    raise KeyveilError(f"the collector has no collection {name!r}")
                lines.append(f"{name}: {line(Plan.parse(response.content), relay.wait, relay.delta)}")
        return lines

    return asyncio.run(ask())
