"""Ids of reports in PostgreSQL: which were counted before, over all processes.

The log has the ids of all reports, and each process has those of open epochs in memory. The rows of an
epoch's log have an order without gaps. A transaction adds its row as the next after all that this
process knows; if another process was faster, the database refuses that, and the transaction runs again
with what the other has added. So no id is counted twice, whatever a process believes.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from functools import partial

import psycopg
from psycopg import errors

from ....foundation.coins import fresh_bytes
from .collection import Round
from .id_store import IdStore
from .migrations import ORDER_LOG
from .open_ids import Epoch, EpochIds, LogIds, OpenIds
from .packed_ids import PackedIds
from .postgres_connection import PostgresSession
from .postgres_counts import PostgresCounts
from .report_log import Group
from .seen_ids import HELD as MANY
from .seen_ids import FolderScratch, Spoiled
from .store_interface import HELD, Session, StoreBroken, StoreError, StoreUnready

ORDER = 0x6B69
"""Class of the advisory locks of rounds whose log gets a row."""
SWEPT_ROWS = 20_000
"""Number of rows deleted in one transaction."""
CAREFUL = 8
"""Number of transactions that lock the log before they look at it, after others have added to it."""
LOOKED = 200
"""Number of rows of the log that are read at a time."""
END_SECONDS = 1.0
"""Time to wait for a thread that reads ids and is no longer wanted."""

_READ = (
    "select number, mark, (select ids from segments where id = segment) from log_order "
    "where round = ? and epoch = ? order by number"
)
_LOOK = (
    "select number, mark, case when number > ? then (select ids from segments where id = segment) end "
    f"from log_order where round = ? and epoch = ? and number >= ? order by number limit {LOOKED}"
)
_LAST = (
    "select round, epoch, (select max(number) from log_order "
    "where log_order.round = given.round and log_order.epoch = given.epoch) "
    "from unnest(?::bigint[], ?::bigint[]) as given (round, epoch)"
)
"""The last number of each of several epochs. Parameters: rounds, epochs."""


class RunAgain(StoreError):
    """The transaction must run again, because others have added to the log of its epoch."""

    def __init__(self) -> None:
        super().__init__("others have added reports")


def is_conflict(error: psycopg.Error) -> bool:
    """Whether a row is not the next one in the order of the log."""
    kinds = (errors.UniqueViolation, errors.NotNullViolation)
    return isinstance(error, kinds) and error.diag.table_name == "log_order"


class PostgresIds(PostgresCounts, IdStore):
    """The part of the PostgreSQL store that knows ids."""

    learn_from = MANY
    """Number of ids from which an epoch is read in a separate thread."""

    def __init__(self) -> None:
        super().__init__()
        self.open_ids = OpenIds(FolderScratch(None), END_SECONDS)
        """Shared by all lanes of this process."""
        self._careful = 0
        """Number of transactions that lock the log before they look at it."""
        self._looked: dict[Epoch, tuple[EpochIds, int]] = {}
        """The ids that this transaction has looked in, and the last row that they had."""
        self._next: dict[Epoch, tuple[int, int]] = {}
        """Numbers and marks of the rows that this transaction adds."""
        self._turns: list[threading.Lock] = []

    # -- memory ------------------------------------------------------------------------------------

    def _read_ids(self, session: Session, at: Epoch) -> Iterator[LogIds]:
        last = 0
        for number, mark, ids in session.stream(_READ, at):
            if ids is None or number != last + 1:
                raise StoreBroken("the log of an epoch has a gap", "log")
            last = number
            yield LogIds(bytes(ids), number, mark)

    def _learning(self, session: Session, round_: Round, epoch: int) -> bool:
        at = (round_.id, epoch)
        if self.open_ids.learning(at):
            return True
        if self.open_ids.get(at) is None:
            sql = "select coalesce(sum(reports), 0) from segments where round = ? and epoch = ?"
            if session.rows(sql, at)[0][0] >= self.learn_from:
                self.open_ids.learn(at, partial(self._read_apart, at))
                return True
        return False

    def _learn_large(self, session: Session) -> None:
        """Start reading the ids of large open epochs, so that no report waits for them later."""
        sql = (
            "select round, epoch from segments join rounds on rounds.id = round "
            "join collections on collections.id = rounds.collection where epoch >= closed_before "
            "group by round, epoch having sum(reports) >= ?"
        )
        for at in session.rows(sql, (self.learn_from,)):
            self.open_ids.learn(at, partial(self._read_apart, at))

    @property
    def learns(self) -> bool:  # type: ignore[override]
        """Whether another process should take reports meanwhile."""
        return self.open_ids.busy

    def _look(self, session: Session, at: Epoch, ids: EpochIds) -> None:
        """Add what others have logged since; ``Spoiled`` if the log is not the one that was read.

        After a failover the log may lack rows that this process has read. Then the last one is missing,
        or a row with another mark has its number.
        """
        while True:
            last = ids.place
            rows = session.rows(_LOOK, (last[0], *at, last[0]))
            if last[0] and (not rows or rows[0][:2] != last):
                raise Spoiled
            for number, mark, new in rows[1 if last[0] else 0 :]:
                if new is None:
                    raise Spoiled  # it is being deleted; or there is a gap, which reading will find
                ids.add(LogIds(bytes(new), number, mark))
                self._careful = CAREFUL
            if len(rows) < LOOKED:
                return

    def _follow_ids(self, session: Session) -> None:
        """Add what others have logged, so that no report waits for much of it."""
        careful = self._careful
        here = {at: ids for at in self.open_ids if (ids := self.open_ids.get(at)) is not None}
        known = {at: ids.place[0] for at, ids in here.items()}
        columns = [list(column) for column in zip(*here, strict=True)] or [[], []]
        for round_id, epoch, number in session.rows(_LAST, columns):
            at = (round_id, epoch)
            try:
                if number != known[at]:
                    self._look(session, at, here[at])
            except Spoiled:
                self.open_ids.forget([at])
        self._careful = careful

    # -- a transaction of reports ------------------------------------------------------------------

    def _known(
        self, session: Session, round_: Round, epoch: int, ids: Sequence[bytes], sure: bool = True
    ) -> set[int]:
        at = (round_.id, epoch)
        for _ in range(2):  # memory is only an index: the log has all ids, and it is read again
            try:
                here = self._epoch_ids(session, at)
                sure = sure or self._careful > 0
                if sure:
                    self._look(session, at, here)
                known, last = here.known(ids)
                if known and not sure:  # what is wrongly taken for new is found out with the commit
                    self._look(session, at, here)
                self._looked[at] = here, last
                return known
            except Spoiled:
                self.open_ids.forget([at])
        raise StoreUnready("the index of ids in the folder of temporary files is damaged", "index")

    def _settle(self, session: Session, groups: Sequence[Group]) -> None:
        """Give each group's row of the log its number; the database has the last word."""
        assert isinstance(session, PostgresSession)
        for group in groups:
            self._take_turn(self._looked[_at(group)][0].turn)
        for group in groups:  # in the same order everywhere: no deadlock
            at, lock = _at(group), f"select pg_advisory_xact_lock({ORDER}, {_at(group)[0]})"
            here, looked = self._looked[at]
            try:
                if self._careful:
                    session.run(lock)
                    self._look(session, at, here)
                number, mark = here.place
                if number != looked and here.known(group.claimed)[0]:
                    raise RunAgain
            except Spoiled:
                self.open_ids.forget([at])
                raise RunAgain from None
            self._next[at] = number + 1, int.from_bytes(fresh_bytes(8), "big", signed=True)
            session.run_at_commit(lock, next_row(at, (number, mark), self._next[at][1], group.row))

    def _take_turn(self, turn: threading.Lock) -> None:
        """Wait until no other lane of this process adds a row to the same log."""
        patience = self.settings.lock_seconds if self.patience is None else self.patience
        if not turn.acquire(timeout=patience):
            raise StoreUnready("another lane adds to the same log", HELD)
        self._turns.append(turn)

    def _end_turns(self) -> None:
        """The transaction has ended, and what it added is noted."""
        while self._turns:
            self._turns.pop().release()
        self._looked.clear()
        self._next.clear()

    def _counted(self, round_: Round, epoch: int, ids: Sequence[bytes]) -> None:
        at = (round_.id, epoch)
        here, (number, mark) = self._looked[at][0], self._next[at]
        here.add(LogIds(PackedIds.of(ids).packed, number, mark))
        self.open_ids.keep(at, here)

    # -- rows --------------------------------------------------------------------------------------

    def order_log(self, session: Session) -> None:
        session.run(ORDER_LOG)

    def is_ordered(self, session: Session, round_: Round, epoch: int) -> bool:
        at = (round_.id, epoch)
        sql = (
            "select count(*), coalesce(max(number), 0), count(segments.id), "
            "(select count(*) from segments where round = ? and epoch = ?) "
            "from log_order left join segments on segments.id = segment "
            "where log_order.round = ? and log_order.epoch = ?"
        )
        return len(set(session.rows(sql, (*at, *at))[0])) == 1

    def _drop_ids(self, session: Session, round_id: int, epoch: int | None) -> int:
        where, at = "round = ?", [round_id]
        if epoch is not None:
            where, at = f"{where} and epoch = ?", [round_id, epoch]
        sql = (
            "with gone as (delete from log_order where ctid = any(array(select ctid from log_order "
            f"where {where} limit {SWEPT_ROWS})) returning 1) select count(*) from gone"
        )
        return int(session.rows(sql, at)[0][0])

    def _drop_rows(self, session: Session, round_: Round) -> None:
        session.run("insert into dropped values (?) on conflict do nothing", (round_.id,))

    def sweep_dropped(self) -> int:
        with self._writing() as session:
            rows = session.rows("select min(round) from dropped")
            if rows[0][0] is None:
                return 0
            sql = (
                "with gone as (delete from segments where id in (select id from segments "
                "where round = ? limit 200) returning 1) select count(*) from gone"
            )
            number = int(session.rows(sql, rows[0])[0][0])
            number += self._drop_ids(session, rows[0][0], None)
            if not number:
                session.run("delete from dropped where round = ?", rows[0])
        return number + 1


def _at(group: Group) -> Epoch:
    assert group.round is not None
    return group.round.id, group.epoch


def next_row(at: Epoch, last: tuple[int, int], mark: int, segment: int) -> str:
    """The statement that adds a row to the order of the log, after the one that is the last.

    If that one is not there, or another follows it already, the statement fails.
    """
    place = f"round = {at[0]} and epoch = {at[1]} and number = {last[0]} and mark = {last[1]}"
    number = f"(select number + 1 from log_order where {place})" if last[0] else "1"
    return f"insert into log_order values ({at[0]}, {at[1]}, {number}, {mark}, {segment})"
