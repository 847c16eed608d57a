"""Ids of reports in PostgreSQL: which were counted before, and deleting those of ended rounds."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import errors

from .collection import Round
from .log_statement import CLAIM, IdArray
from .postgres_counts import PostgresCounts
from .report_log import Group
from .store_interface import (
    Session,
    StoreError,
)

SWEPT_IDS = 20_000
"""Number of ids deleted in one transaction."""


class RepeatedId(StoreError):
    """An id was counted before: the transaction must run again and find out which ones were."""

    def __init__(self) -> None:
        super().__init__("an id occurs twice")


class PostgresIds(PostgresCounts):
    """The part of the PostgreSQL store that keeps ids."""

    _careful = 0
    """Number of transactions that look which ids are new; the others expect that all are."""

    def _known(self, session: Session, round_: Round, epoch: int, ids: Sequence[bytes]) -> set[int]:
        sql = "select id from ids where round = ? and epoch = ? and id = any(?::uuid[])"
        known = {row[0].bytes for row in session.rows(sql, (round_.id, epoch, IdArray(ids)))}
        return {place for place, name in enumerate(ids) if name in known}

    def claim_ids(self, session: Session, round_: Round, epoch: int, ids: Sequence[bytes]) -> set[int]:
        given = (round_.id, epoch, IdArray(ids))
        if self._careful:
            rows = session.rows(f"{CLAIM} on conflict do nothing returning id", given)
            new = {row[0].bytes for row in rows}
            return {place for place, name in enumerate(ids) if name not in new}
        try:
            session.run(CLAIM, given)
        except errors.UniqueViolation:
            raise RepeatedId from None
        return set()

    def _claim(self, session: Session, group: Group, ids: Sequence[bytes]) -> set[int]:
        group.unclaimed = not self._careful
        return set() if group.unclaimed else super()._claim(session, group, ids)

    def _drop_ids(self, session: Session, round_id: int, epoch: int | None) -> int:
        where, at = "round = ?", [round_id]
        if epoch is not None:
            where, at = f"{where} and epoch = ?", [round_id, epoch]
        sql = (
            f"with gone as (delete from ids where ctid = any(array(select ctid from ids where {where} "
            f"limit {SWEPT_IDS})) returning 1) select count(*) from gone"
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
