"""A store's collections, plans and counts, and the methods that each database implements."""

from __future__ import annotations

import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Collection as Some
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import ClassVar, TypeVar

import numpy as np

from ....foundation.arrays import Integers
from ....plan.plan import Plan
from ..process.clock import FleetClock
from ..process.problems import Problem
from ..process.settings import Settings
from .collection import Collection, Control, Round, Terms
from .store_interface import CHUNK, Live, Session, StoreUnready, chunk_counts
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
    settings: Settings = Settings()
    """Limits on how long the store may take."""
    reconnects: int = 0
    """How often a lost connection was opened again."""
    learns: bool = False
    """Whether another process should take reports meanwhile, because this one is still reading ids."""
    lock_wait: float = 0.0
    """Seconds that the last transaction took to begin, waiting for locks included; or until a wait for a
    lock took too long."""
    patience: float | None = None
    """Seconds that a transaction waits for a lock; None for ``settings.lock_seconds``."""
    clock: FleetClock | None = None
    """The clock that hears the database's time, if it has one; see ``hear``."""
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
    def _writing(
        self, collections: Some[int] = (), change: bool = False, alone: Some[int] = ()
    ) -> AbstractContextManager[Session]:
        """A transaction that counts reports of some collections, or changes one.

        A ``change`` keeps out other changes. What it names in ``alone`` it has for itself: no other
        process counts reports of these collections meanwhile.
        """

    @abstractmethod
    def reading(self) -> AbstractContextManager[Session]:
        """A separate connection that sees the store at one time; callable from any thread."""

    @abstractmethod
    def _read_generation(self, session: Session) -> int:
        """A number that differs after another connection changed collections, tokens or counts."""

    def _mark_changed(self, session: Session, collection: int) -> None:  # noqa: B027
        """Notify all other processes, within a transaction. ``collection`` is 0 for tokens."""

    def hear(self, clock: FleetClock) -> None:  # noqa: B027
        """Tell a clock the database's time now, and again with each transaction."""

    def agreed_time(self, session: Session, now: float) -> float:
        """The time that decides within a transaction: the database's, if it is heard, else ``now``."""
        return now

    def collectors(self, session: Session) -> int:
        """Number of processes that serve the store."""
        return 1

    def size(self, session: Session) -> int:
        """Bytes that the database takes on disk."""
        return 0

    def probe(self) -> None:
        """Write something, to see whether the store can be written."""
        with self._writing() as session:
            self._note_caps(session)

    @abstractmethod
    def _known(
        self, session: Session, round_: Round, epoch: int, ids: Sequence[bytes], sure: bool = True
    ) -> set[int]:
        """The places of ids that were counted before.

        Unless it must be ``sure``, some may be missing whose reports the commit would refuse.
        """

    @abstractmethod
    def _learning(self, session: Session, round_: Round, epoch: int) -> bool:
        """Whether the ids of an epoch are still being read. Other epochs continue."""

    @abstractmethod
    def _counted(self, round_: Round, epoch: int, ids: Sequence[bytes]) -> None:
        """Note that the transaction that counted the reports with these ids is durable."""

    def _drop_ids(self, session: Session, round_id: int, epoch: int | None) -> int:
        """Delete some of what the database has for the ids of an epoch (None: of all epochs).

        Ids in the log are not meant. Those in memory are released by ``_let_go``. The number of rows.
        """
        return 0

    def order_log(self, session: Session) -> None:  # noqa: B027
        """Called when the rows of a log were copied from a backup."""

    def is_ordered(self, session: Session, round_: Round, epoch: int) -> bool:
        """Whether each row of an open epoch's log has its place, so that no id is overlooked."""
        return True

    @abstractmethod
    def version(self) -> int:
        """Number of migrations that ran."""

    @abstractmethod
    def migrate_alone(self) -> int:
        """Run the missing migrations on a store that is not open; their number."""

    @property
    @abstractmethod
    def place(self) -> str:
        """The store as an operator names it, without a password."""

    # -- control -----------------------------------------------------------------------------------

    def reload(self, session: Session | None = None) -> Control:
        """Read all collections and tokens."""
        using = session or self._session()
        self.control = Control.of(_collections(using), _tokens(using))
        self._let_go(None)
        self._note_caps(using)
        return self.control

    def _reload_some(self, session: Session, numbers: Iterable[int]) -> None:
        """Read some collections again, by number, and the tokens; 0 stands for the tokens alone."""
        before, changed = self.control, set(numbers) - {0}
        read: dict[str, Collection] = {}
        for number in changed:
            read.update(_collections(session, number))
        self.control = before.changed(changed, read, _tokens(session))
        known = [*filter(None, map(before.by_id, changed)), *read.values()]
        self._let_go({round_.id for collection in known for round_ in collection.rounds})
        self._note_caps(session)

    def _let_go(self, rounds: set[int] | None) -> None:  # noqa: B027
        """Called when collections were read: release what their closed epochs and deleted rounds hold.

        ``rounds`` are the rounds of these collections, by number; None for all.
        """

    def _note_caps(self, session: Session) -> None:  # noqa: B027
        """Called when collections were read and between reports: note which rounds are full."""

    def change(self, work: Callable[[Session, Control], T], name: str | None = None) -> T:
        """Change a collection in one transaction, while none of its reports is counted.

        Without a name it changes tokens; then no report waits.
        """
        number = 0
        if name is not None:
            known = self.control.collections.get(name)
            if known is None:
                self.refresh()
                known = self.control.named(name)
            number = known.id
        with self._writing(change=True, alone=[number] if number else ()) as session:
            self._catch_up(session)
            if name is not None and self.control.named(name).id != number:
                raise StoreUnready("the collection was replaced in the meantime", "changed")
            result = work(session, self.control)
            self._mark_changed(session, number)
        self._reload_changed(number)
        return result

    def add_collection(self, work: Callable[[Session, Control], int]) -> None:
        """Add a collection, whose number ``work`` returns; no report waits."""
        with self._writing(change=True) as session:
            self._catch_up(session)
            number = work(session, self.control)
            self._mark_changed(session, number)
        self._reload_changed(number)

    def _catch_up(self, session: Session) -> None:
        """Read what other connections changed since last asked."""
        before, now = self._generation, self._read_generation(session)
        if before == now:
            return
        numbers = self._changed_since(session, before, now)
        if numbers is None:
            self.reload(session)
            self._reload_live(session)
        else:
            self._reload_some(session, numbers)
            self._reload_live(session, numbers)
        self._generation = now

    def _changed_since(self, session: Session, before: int, now: int) -> set[int] | None:
        """The collections that changed, by number, 0 for tokens; None if that is not known."""
        return None

    def _reload_changed(self, number: int) -> None:
        """Read what this process has just changed; no notification will follow."""
        session = self._session()
        self._reload_some(session, [number])
        self._reload_live(session, [number])

    def refresh(self) -> None:
        """Read the changes of other processes."""
        self._catch_up(self._session())

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

    def _reload_live(self, session: Session, numbers: Iterable[int] | None = None) -> None:
        """Read live counts again: of some collections, or of all; those of deleted ones go."""
        for number in list(self._live):
            round_ = self.control.round_by_id(number)
            if round_ is None:
                del self._live[number]
            elif numbers is None or round_.collection in numbers:
                self._load(session, round_)

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


def _collections(session: Session, number: int | None = None) -> dict[str, Collection]:
    """All collections with their rounds, by name; or one of them."""
    only, which = ("", ()) if number is None else (" where collection = ?", (number,))
    rounds: dict[int, list[Round]] = {}
    columns = "id, collection, number, plan, closed"
    for row in session.rows(f"select {columns} from rounds{only} order by number", which):
        round_ = Round(row[0], row[1], row[2], row[3], bool(row[4]))
        rounds.setdefault(round_.collection, []).append(round_)
    collections = {}
    only = "" if number is None else " where id = ?"
    columns = "id, name, state, terms, closed_before, made"
    for own, name, state, terms, before, made in session.rows(
        f"select {columns} from collections{only} order by name", which
    ):
        read = Terms.of(json.loads(terms))
        collections[name] = Collection(own, name, state, read, before, made, tuple(rounds.get(own, ())))
    return collections


def _tokens(session: Session) -> dict[str, Token]:
    return {
        row[0]: Token(row[0], row[1], row[2], bytes(row[3]), row[4], bool(row[5]))
        for row in session.rows("select id, role, collection, digest, label, revoked from tokens")
    }


def add_chunk(total: Integers, chunk: int, counts: Integers) -> None:
    """Add the counts of a chunk to an array of all counts."""
    first = chunk * CHUNK
    room = min(CHUNK, len(total) - first)
    total[first : first + room] += counts[:room]
