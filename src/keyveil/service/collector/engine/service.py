"""The service: a store with its writer, its sealer of epochs and its answers, without HTTP."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any, TextIO

from ....plan.plan import Plan
from ..process.clock import Clock, FleetClock, offset_of
from ..process.logs import Log
from ..process.metrics import Metrics, process_text
from ..process.settings import Settings
from ..store import Session, Store, StoreBroken, StoreError, StoreUnready
from ..store.collection import Collection, Control, Round
from ..store.tokens import Token, read
from .answer_desk import AnswerDesk
from .epoch_sealer import EpochSealer
from .rate_limit import most_at
from .writer import Writer

GaugeValues = dict[str, tuple[str, float | Mapping[str, float]]]
"""Metrics by name: what each is, and its value, or its values by labels."""


class Service:
    """Everything that a collector process does. Start it inside an event loop.

    ``threaded=False`` and a test clock make it run step by step. ``exposed`` means that other machines
    can connect; then every request for data needs a token.
    """

    def __init__(
        self,
        store: Store,
        segments: Path,
        clock: Clock | None = None,
        settings: Settings | None = None,
        log: TextIO | None = None,
        threaded: bool = True,
        exposed: bool = False,
    ) -> None:
        self.exposed, self._was_guarded = exposed, False
        self.store, self.segments = store, segments
        store.segments_folder = segments
        self.clock = clock or FleetClock()
        self.settings = store.settings = settings or Settings()
        if isinstance(self.clock, FleetClock) and store.clock is not self.clock:
            store.hear(self.clock)
        self.log = Log(self.clock, log)
        self.metrics = Metrics()
        self.writer = Writer(store, self.clock, self.settings, self.metrics, self.log, threaded)
        self.sealer = EpochSealer(
            store, self.writer, self.clock, self.settings, self.log, segments, self.metrics
        )
        self.answers = AnswerDesk(store, self.writer, self.clock, self.settings, self.metrics)
        self._sealing: asyncio.Task[None] | None = None
        self.draining = asyncio.Event()
        """Set when the process is asked to end. Streams finish, and readiness turns false."""
        self.started = False
        self.streams = 0

    @property
    def control(self) -> Control:
        """All collections and tokens, as last read from the store."""
        return self.store.control

    async def start(self, seal: bool = True) -> None:
        """Start with an open store. Without ``seal``, epochs are sealed only on request."""
        with suppress(StoreUnready, StoreBroken):  # the sealer tries again later
            self.store.drop_spent_keys()
            self.sealer.read_keys()
            self.sealer.look_for_keys(self.store)
        self.writer.start()
        if seal:
            self._sealing = asyncio.create_task(self.sealer.run())
        self.started = True
        self.log.say("started", store=self.store.kind, collections=len(self.control.collections))

    def give_up(self) -> None:
        """Refuse the requests that still wait for the store; the process is ending."""
        self.writer.give_up()

    async def stop(self) -> None:
        """Finish accepted requests, then stop."""
        self.draining.set()
        if self._sealing is not None:
            self._sealing.cancel()
            with suppress(asyncio.CancelledError):
                await self._sealing
        await self.writer.stop()
        self.answers.close()
        self.started = False
        self.log.say("stopped")

    # -- who ---------------------------------------------------------------------------------------

    @property
    def guarded(self) -> bool:
        """Whether every admin and analyst needs a token.

        This stays true once a token existed. Revoking the last one, or deleting its collection, does not
        open the collector again.
        """
        self._was_guarded = self._was_guarded or self.exposed or bool(self.control.tokens)
        return self._was_guarded

    def token_of(self, authorization: str) -> Token | None:
        """The token of an Authorization header; None if it is unknown or revoked."""
        kind, _, text = authorization.partition(" ")
        parts = read(text.strip()) if kind.lower() == "bearer" else None
        if parts is None:
            return None
        token = self.control.tokens.get(parts[0])
        return token if token is not None and token.matches(parts[1]) else None

    # -- facts -------------------------------------------------------------------------------------

    def unready(self) -> list[str]:
        """Why requests should go elsewhere; empty if the collector is ready."""
        limits = self.settings
        why = {
            "starting": not self.started,
            "ending": self.draining.is_set(),
            "the store has failed": self.writer.broken,
            "the store cannot take reports": self.writer.unready,
            "the store does not answer": self.writer.hung > limits.ready_seconds / 2,
            "nothing was written lately": self.writer.idle > limits.ready_seconds,
            "the clock is in doubt": self.writer.doubtful,
            "sealing is behind": self.sealer.behind > limits.behind_seconds,
            "the keys of all open epochs are missing": self.store.all_keys_missing,
            "ids of an open epoch are being read": self.store.learns,
        }
        return [text for text, so in why.items() if so]

    @property
    def failed(self) -> bool:
        """Whether the process cannot recover by itself and ends."""
        return self.writer.broken

    def health(self) -> tuple[bool, list[str]]:
        """Whether the process should go on, and conditions that an operator should look at.

        It should be restarted if its store has failed for good, or if its writer has hung for longer
        than any limit of the store allows. A database that is away is no reason: it comes back.
        """
        limits = self.settings
        hung = self.writer.stalled > 60 + limits.statement_seconds + limits.connect_seconds
        why = {
            "the store has failed": self.writer.broken,
            "the writer has hung": hung,
            "the store cannot take reports": self.writer.unready,
            "the clock is in doubt: epochs stay open": self.writer.doubtful,
            "epochs cannot be sealed": self.sealer.behind > limits.behind_seconds,
            "an epoch's segments do not add up to its counts": bool(self.sealer.failures),
            "the key of an open epoch's ids is missing from the folder of segments: its reports are "
            "refused until the key is back": bool(self.store.missing_keys),
        }
        return not (self.writer.broken or hung), [text for text, so in why.items() if so]

    def public(self, collection: Collection) -> dict[str, Any]:
        """What anyone may know about a collection."""
        rate, most = collection.terms.rate, self.settings.reports
        most = most if rate is None else min(most, most_at(rate))
        limits = {"reports": most, "bytes": self.settings.body_bytes}
        full = self.store.is_full(collection.round)
        return {**facts_of(collection, self.clock.now(), full), "limits": limits}

    def overview(self) -> list[dict[str, Any]]:
        """All collections at a glance. It reads the store."""
        now = self.clock.now()
        with self.store.reading() as session:
            reports = self._reports(session)
            rows = session.rows("select collection, sum(number) from refusals group by collection")
        refused = {int(row[0]): int(row[1]) for row in rows}
        return [
            _glance(
                collection,
                self.store.book(collection.round).plan,
                reports[collection.name, collection.round.number],
                refused.get(collection.id, 0),
                now,
            )
            for collection in self.control.in_order
        ]

    async def status(self, collection: Collection) -> dict[str, Any]:
        """What analysts and admins may know: reports, refusals, epochs, rounds."""
        status = await asyncio.to_thread(status_of, self.store, collection, self.clock.now())
        book = await asyncio.to_thread(self.store.book, collection.round)
        changed = self.metrics.changed[collection.name]
        facts = {**self.public(collection), **status, "changed": changed}
        return {**facts, "offers": self.answers.offers(book.plan)}

    async def metrics_text(self) -> str:
        """Metrics in the Prometheus text format.

        If the store cannot be read, what only it knows is left out.
        """
        reports: dict[tuple[str, int], int] = {}
        stored: GaugeValues = {}
        if not self.writer.unready and self.writer.stalled < 1:  # or threads would pile up
            with suppress(StoreUnready, StoreError, OSError):
                reports, stored = await asyncio.to_thread(self._stored_facts)
        disk = await asyncio.to_thread(self._disk)  # without the store: a full disk is one of its faults
        return self.metrics.text({**self._gauges(), **disk, **stored}, reports) + process_text()

    def _gauges(self) -> GaugeValues:
        """What this process knows about itself now."""
        requests, waiting, oldest = self.writer.queue()
        sealer = self.sealer
        epochs = {"open": sealer.open, "closed": sealer.closed, "waiting": sealer.waiting}
        healthy, _ = self.health()
        build = f'version="{version("keyveil")}",store="{self.store.kind}",shard="{self.store.shard}"'
        return {
            "build_info": ("The version that runs, its store and its shard.", {build: 1}),
            "healthy": ("Whether the process should go on.", float(healthy)),
            "ready": ("Whether requests should come here.", float(not self.unready())),
            "store_unready": ("Whether the store cannot be written.", float(self.writer.unready)),
            "lanes_unready": ("Lanes to the store that get no reports.", self.writer.lanes_out),
            "store_stalled_seconds": ("Time without an answer of the store.", self.writer.stalled),
            "last_write_seconds": ("Time since the store was last written.", self.writer.idle),
            "queue_requests": ("Requests that wait for the store.", requests),
            "queue_reports": ("Reports that wait for the store.", waiting),
            "oldest_waiting_seconds": ("Age of the oldest waiting report.", oldest),
            "clock_doubted": ("Whether the clock is in doubt.", float(self.writer.doubtful)),
            "clock_offset_seconds": (
                "How far this machine's clock is ahead of the database's.",
                offset_of(self.clock),
            ),
            "epochs": (
                "Epochs open, closed but kept for reopening, and waiting to be sealed.",
                {f'state="{state}"': number for state, number in epochs.items()},
            ),
            "seal_behind_seconds": ("How long the oldest epoch has waited to be sealed.", sealer.behind),
            "seal_failures": ("Epochs that do not add up.", float(sealer.failures)),
            "missing_keys": (
                "Open epochs whose key of ids is missing; their reports are refused.",
                float(len(self.store.missing_keys)),
            ),
        }

    def _disk(self) -> GaugeValues:
        """Free space, as a gauge; none if there is no such folder."""
        with suppress(OSError):
            free = shutil.disk_usage(self.segments.parent).free
            return {"disk_free_bytes": ("Free space where sealed epochs are written.", free)}
        return {}

    def _stored_facts(self) -> tuple[dict[tuple[str, int], int], GaugeValues]:
        """What the store knows: reports by collection and round, and gauges."""
        with self.store.reading() as session:
            reports = self._reports(session)
            collectors, size = self.store.collectors(session), self.store.size(session)
        gauges: GaugeValues = {
            "collectors": ("Processes that serve the store.", collectors),
            "store_bytes": ("Size of the database.", size),
        }
        return reports, gauges

    def _reports(self, session: Session) -> dict[tuple[str, int], int]:
        """Number of reports by collection and round."""
        rows = session.rows("select round, sum(reports) from heads group by round")
        number = {int(row[0]): int(row[1]) for row in rows}
        return {
            (collection.name, round_.number): number.get(round_.id, 0)
            for collection in self.control.collections.values()
            for round_ in collection.rounds
        }


def facts_of(collection: Collection, now: float, full: bool) -> dict[str, Any]:
    """A collection as anyone may see it, and whether its current round is ``full``."""
    terms = collection.terms
    return {
        "name": collection.name,
        "state": collection.state_at(now, full),
        "round": collection.round.number,
        "plan": collection.round.plan,
        "epoch": {
            "now": terms.epoch_at(now),
            "seconds": terms.epoch,
            "grace": terms.grace,
            "early": terms.early,
        },
        "opens": terms.opens,
        "closes": terms.closes,
        "token": terms.token,
        "origins": list(terms.origins),
    }


def _glance(
    collection: Collection, plan: Plan, reports: int, refused: int, now: float
) -> dict[str, Any]:
    """A collection in a line: how it stands and what its plan promises."""
    return {
        "name": collection.name,
        "state": collection.state_at(now, collection.is_full(reports)),
        "round": collection.round.number,
        "reports": reports,
        "people": collection.terms.people,
        "mechanism": plan.mechanism_name,
        "keys": len(plan.schema.keys),
        "promised": str(plan.promised),
        "proven": str(plan.proven),
        "refused": refused,
    }


def status_of(store: Store, collection: Collection, now: float) -> dict[str, Any]:
    """A collection as analysts and admins see it."""
    with store.reading() as session:
        rounds = [_round_status(store, session, collection, round_) for round_ in collection.rounds]
        refusals = session.rows(
            "select reason, sum(number) from refusals where collection = ? "
            "group by reason order by reason",
            (collection.id,),
        )
    return {
        **facts_of(collection, now, collection.is_full(rounds[-1]["reports"])),
        "terms": collection.terms.document(),
        "made": collection.made,
        "closed_before": collection.closed_before,
        "rounds": rounds,
        "refusals": {str(reason): int(number) for reason, number in refusals},
    }


def _round_status(
    store: Store, session: Session, collection: Collection, round_: Round
) -> dict[str, Any]:
    return {
        "round": round_.number,
        "plan": round_.plan,
        "closed": round_.closed,
        "reports": store.reports(session, round_),
        "open_epochs": [
            {"epoch": epoch, "reports": reports}
            for epoch, reports in store.epochs(session, round_).items()
            if epoch >= collection.closed_before
        ],
        "sealed_epochs": [
            {"epoch": sealed.epoch, "reports": sealed.reports, "expired": sealed.expired}
            for sealed in store.sealed(session, round_)
        ],
    }
