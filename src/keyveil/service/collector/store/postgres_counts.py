"""Live counts of a PostgreSQL store: those of other processes and lanes are read as they change."""

from __future__ import annotations

from ....foundation.arrays import Integers
from .collection import Round
from .control import add_chunk
from .store_base import Store
from .store_interface import Session, chunk_counts


class PostgresCounts(Store):
    """The part of the PostgreSQL store that follows the counts of other shards."""

    def __init__(self) -> None:
        super().__init__()
        self._heads: dict[tuple[int, int], int] = {}
        self._seen: dict[tuple[int, int, int, int], Integers] = {}
        """Counts of other shards that the live counts include."""

    def _forget_counts(self) -> None:
        self._forget_live()
        self._heads.clear()
        self._seen.clear()

    def _follow(self, session: Session) -> None:
        """Add the counts of other shards since the last call."""
        sql = "select round, shard, version from heads where round = any(?)"
        for round_id, shard, version in session.rows(sql, (list(self._live),)):
            before = self._heads.get((round_id, shard), 0)
            live = self._live.get(round_id)
            if shard == self.shard or live is None or version == before:
                continue
            sql = (
                "select epoch, chunk, counts, version from counts "
                "where round = ? and shard = ? and version > ?"
            )
            for epoch, chunk, counts, at in session.rows(sql, (round_id, shard, before)):
                new = chunk_counts(counts)
                old = self._seen.get((round_id, epoch, shard, chunk))
                with self._lock:
                    add_chunk(live.counts, chunk, new if old is None else new - old)
                    live.version = next(self._versions)
                self._seen[round_id, epoch, shard, chunk] = new
                before = max(before, at)
            self._heads[round_id, shard] = before

    def _load(self, session: Session, round_: Round) -> None:
        self._seen = {at: counts for at, counts in self._seen.items() if at[0] != round_.id}
        self._heads = {at: version for at, version in self._heads.items() if at[0] != round_.id}
        super()._load(session, round_)

    def _saw(self, round_id: int, epoch: int, shard: int, chunk: int, counts: bytes) -> None:
        if shard != self.shard:
            self._seen[round_id, epoch, shard, chunk] = chunk_counts(counts)
