"""The service: a store with its writer, its sealer of epochs and its answers, without HTTP."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from ....plan.plan import Plan
from ..process.clock import Clock, SystemClock
from ..process.logs import Log
from ..process.metrics import Metrics
from ..process.settings import Settings
from ..store import Session, Store, StoreBroken, StoreError, StoreUnready
from ..store.collection import Collection, Control, Round
from ..store.tokens import Token, read
from .answer_desk import AnswerDesk
from .epoch_sealer import EpochSealer
from .rate_limit import most_at
from .writer import Writer


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
        self.clock = clock or SystemClock()
        self.settings = settings or Settings()
        self.log = Log(self.clock, log)
        self.metrics = Metrics()
        self.writer = Writer(store, self.clock, self.settings, self.metrics, self.log, threaded)
        self.sealer = EpochSealer(store, self.writer, self.clock, self.settings, self.log, segments)
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
        self.writer.start()
        if seal:
            self._sealing = asyncio.create_task(self.sealer.run())
        self.started = True
        self.log.say("started", store=self.store.kind, collections=len(self.control.collections))

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
        why = {
            "starting": not self.started,
            "ending": self.draining.is_set(),
            "the store has failed": self.writer.broken,
            "the store cannot take reports": self.writer.unready,
        }
        return [text for text, so in why.items() if so]

    def health(self) -> tuple[bool, list[str]]:
        """Whether reports are acknowledged, and conditions that an operator should look at."""
        why = {
            "the clock is in doubt: epochs stay open": self.writer.doubtful,
            "an epoch's segments do not add up to its counts": bool(self.sealer.failures),
            "the key of an open epoch's ids is missing from the folder of segments: its reports are "
            "refused": bool(self.store.missing_keys),
        }
        return not self.writer.broken, [text for text, so in why.items() if so]

    def public(self, collection: Collection) -> dict[str, Any]:
        """What anyone may know about a collection."""
        rate, most = collection.terms.rate, self.settings.reports
        most = most if rate is None else min(most, most_at(rate))
        limits = {"reports": most, "bytes": self.settings.body_bytes}
        return {**facts_of(collection, self.clock.now()), "limits": limits}

    def overview(self) -> list[dict[str, Any]]:
        """All collections at a glance. It reads the store."""
        reports, now = self._reports(), self.clock.now()
        with self.store.reading() as session:
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
            for collection in self.control.collections.values()
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

        If the store cannot be read, the number of reports is left out.
        """
        try:
            reports = await asyncio.to_thread(self._reports)
        except (StoreUnready, StoreError, OSError):
            reports = {}
        gauges = {
            "healthy": ("Whether reports are acknowledged.", float(not self.writer.broken)),
            "ready": ("Whether requests should come here.", float(not self.unready())),
            "clock_doubted": ("Whether the clock is in doubt.", float(self.writer.doubtful)),
            "seal_failures": ("Epochs that do not add up.", float(self.sealer.failures)),
        }
        return self.metrics.text(gauges, reports)

    def _reports(self) -> dict[tuple[str, int], int]:
        with self.store.reading() as session:
            rows = session.rows("select round, sum(reports) from heads group by round")
        number = {int(row[0]): int(row[1]) for row in rows}
        return {
            (collection.name, round_.number): number.get(round_.id, 0)
            for collection in self.control.collections.values()
            for round_ in collection.rounds
        }


def facts_of(collection: Collection, now: float) -> dict[str, Any]:
    """A collection as anyone may see it."""
    terms = collection.terms
    return {
        "name": collection.name,
        "state": collection.state_at(now),
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
        "state": collection.state_at(now),
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
        **facts_of(collection, now),
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
