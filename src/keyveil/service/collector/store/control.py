"""A store's collections, plans and counts, and the methods that each database implements."""

from __future__ import annotations

import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import ClassVar, TypeVar

import numpy as np

from ....foundation.arrays import Integers
from ....plan.plan import Plan
from ..process.problems import Problem
from .collection import Collection, Control, Round, Terms
from .store_interface import CHUNK, Live, Session, chunk_counts
from .tokens import Token

T = TypeVar("T")


@dataclass(frozen=True)
class Book:
    """A round's plan, ready for use."""

    plan: Plan
    document: bytes


class ControlStore(ABC):
    """A store with one connection for writing.

    ``book``, ``counts_now`` and ``reading`` may be called from any thread, all other methods from one
    thread at a time; while serving that is the writer's.
    """

    kind: ClassVar[str]
    shard: int = 0
    broken: bool = False
    """Set for good when the state of the disk is unknown."""
    segments_folder: Path | None = None
    """Folder of sealed epochs and of the keys of open ones."""

    def __init__(self) -> None:
        self.control = Control()
        self._books: dict[str, Book] = {}
        self._live: dict[int, Live] = {}
        self._lock = threading.Lock()
        self._versions = count(1)
        self._generation = -1

    # -- what each database does its own way -------------------------------------------------------

    @abstractmethod
    def open(self, serving: bool = True) -> None:
        """Connect for writing. ``serving`` reserves the store, or a shard of it, for this process."""

    @abstractmethod
    def close(self) -> None:
        """Release everything."""

    @abstractmethod
    def _session(self) -> Session:
        """The connection for writing."""

    @abstractmethod
    def _writing(self, exclusive: bool = False) -> AbstractContextManager[Session]:
        """A transaction. ``exclusive`` keeps out the transactions of all other processes."""

    @abstractmethod
    def reading(self) -> AbstractContextManager[Session]:
        """A separate connection that sees the store at one time; callable from any thread."""

    @abstractmethod
    def _read_generation(self, session: Session) -> int:
        """A number that differs after another connection changed collections, tokens or counts."""

    def _mark_changed(self, session: Session) -> None:  # noqa: B027
        """Notify all other processes, within a transaction."""

    @abstractmethod
    def _known(self, session: Session, round_: Round, epoch: int, ids: list[bytes]) -> set[int]:
        """The places of ids that were counted before."""

    @abstractmethod
    def claim_ids(self, session: Session, round_: Round, epoch: int, ids: list[bytes]) -> set[int]:
        """Claim distinct ids for this transaction; the places of those that were counted before."""

    def _claimed(self, round_: Round, epoch: int, ids: list[bytes]) -> None:  # noqa: B027
        """Note that the transaction that claimed these ids is durable."""

    def _drop_ids(self, session: Session, round_: Round, epoch: int | None) -> None:  # noqa: B027
        """Delete the ids of an epoch (None: of all epochs) from the database.

        Ids in memory are released by ``reload``, once the transaction is durable.
        """

    @abstractmethod
    def version(self) -> int:
        """Number of migrations that ran."""

    @abstractmethod
    def migrate_alone(self) -> int:
        """Run the missing migrations on a store that is not open; their number."""

    def _near_cap(self, room: int) -> None:  # noqa: B027
        """Called when a round nears its cap.

        If other processes write too, the transaction must run alone.
        """

    # -- control -----------------------------------------------------------------------------------

    def reload(self, session: Session | None = None) -> Control:
        """Read collections and tokens."""
        using = session or self._session()
        rounds: dict[int, list[Round]] = {}
        for row in using.rows("select id, collection, number, plan, closed from rounds order by number"):
            round_ = Round(row[0], row[1], row[2], row[3], bool(row[4]))
            rounds.setdefault(round_.collection, []).append(round_)
        collections = {}
        for number, name, state, terms, before, created in using.rows(
            "select id, name, state, terms, closed_before, made from collections order by name"
        ):
            read = Terms.of(json.loads(terms))
            collections[name] = Collection(
                number, name, state, read, before, created, tuple(rounds.get(number, ()))
            )
        tokens = {
            row[0]: Token(row[0], row[1], row[2], bytes(row[3]), row[4], bool(row[5]))
            for row in using.rows("select id, role, collection, digest, label, revoked from tokens")
        }
        self.control = Control(collections, tokens)
        return self.control

    def change(self, work: Callable[[Session, Control], T]) -> T:
        """Change collections, tokens or sealed epochs in one exclusive transaction."""
        with self._writing(exclusive=True) as session:
            if self._changed(session):
                self._forget_live()
            self.reload(session)
            result = work(session, self.control)
            self._mark_changed(session)
        self._reload_changed()
        return result

    def _changed(self, session: Session) -> bool:
        """Whether another connection may have changed collections, tokens or counts since last asked."""
        before, self._generation = self._generation, self._read_generation(session)
        return before != self._generation

    def _reload_changed(self, live: bool = False) -> None:
        """Read what this process has just changed; no notification will follow."""
        if live:
            self._reload_live(self._session())
        else:
            self.reload()

    def refresh(self) -> None:
        """Read the changes of other processes."""
        session = self._session()
        if self._changed(session):
            self.reload(session)
            self._reload_live(session)

    # -- plans -------------------------------------------------------------------------------------

    def book(self, round_: Round) -> Book:
        """A round's plan, parsed and proven again when first asked for; from any thread."""
        book = self._books.get(round_.plan)
        if book is None:
            with self.reading() as session:
                rows = session.rows("select document from rounds where id = ?", (round_.id,))
            if not rows:
                raise Problem("unknown", "the round is gone")
            document = str(rows[0][0]).encode()
            book = self._books[round_.plan] = Book(Plan.parse(document), document)
        return book

    def has_book(self, round_: Round) -> Book | None:
        """A round's plan, if it was asked for before."""
        return self._books.get(round_.plan)

    # -- live counts -------------------------------------------------------------------------------

    def load(self, round_: Round) -> None:
        """Load a round's counts into memory."""
        if round_.id not in self._live:
            self._load(self._session(), round_)

    def _load(self, session: Session, round_: Round) -> None:
        live = Live(self.book(round_).plan.layout.cells, next(self._versions))
        sql = "select epoch, shard, chunk, counts from counts where round = ?"
        for epoch, shard, chunk, counts in session.stream(sql, (round_.id,)):
            add_chunk(live.counts, chunk, chunk_counts(counts))
            self._saw(round_.id, epoch, shard, chunk, counts)
        with self._lock:
            self._live[round_.id] = live

    def _saw(  # noqa: B027
        self, round_id: int, epoch: int, shard: int, chunk: int, counts: bytes
    ) -> None:
        """Called with each row of counts that is loaded."""

    def _add_live(self, live: Live, cells: Integers, often: Integers) -> None:
        """Add to live counts; each cell occurs once."""
        with self._lock:
            live.counts[cells] += often
            live.version = next(self._versions)

    def _reload_live(self, session: Session) -> None:
        known = {round_.id: round_ for c in self.control.collections.values() for round_ in c.rounds}
        for number in list(self._live):
            if number in known:
                self._load(session, known[number])
            else:
                del self._live[number]

    def _forget_live(self) -> None:
        with self._lock:
            self._live.clear()

    def counts_now(self, round_: Round) -> tuple[int, Integers] | None:
        """A copy of a round's live counts and their version, from any thread; None until loaded."""
        with self._lock:
            live = self._live.get(round_.id)
            return None if live is None else (live.version, live.counts.copy())

    def version_now(self, round_: Round) -> int | None:
        """The version of a round's live counts; None until they are loaded."""
        live = self._live.get(round_.id)
        return None if live is None else live.version

    def counts_stored(self, round_: Round) -> Integers:
        """A round's counts as they are in the store now."""
        with self.reading() as session:
            return self.sum_counts(session, round_)

    def sum_counts(self, session: Session, round_: Round, epoch: int | None = None) -> Integers:
        """The counts of a round, or of one of its open epochs, over all shards."""
        total = np.zeros(self.book(round_).plan.layout.cells, np.int64)
        sql = "select chunk, counts from counts where round = ?"
        if epoch is None:
            rows = session.stream(sql, (round_.id,))
        else:
            rows = session.stream(f"{sql} and epoch = ?", (round_.id, epoch))
        for chunk, counts in rows:
            add_chunk(total, chunk, chunk_counts(counts))
        return total


def add_chunk(total: Integers, chunk: int, counts: Integers) -> None:
    """Add the counts of a chunk to an array of all counts."""
    first = chunk * CHUNK
    room = min(CHUNK, len(total) - first)
    total[first : first + room] += counts[:room]
