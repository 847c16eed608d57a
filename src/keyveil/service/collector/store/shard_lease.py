"""Which process has which shard of a database's counts: a lease that it renews.

A lease is a row, not a lock of a session, so it works through a pooler. A process checks it in every
transaction, under a lock that whoever takes the shard over must have alone. So no two processes ever
count in one shard.
"""

from __future__ import annotations

from ....foundation.coins import fresh_bytes
from .postgres_connection import PostgresSession
from .store_interface import StoreError

LOCKS = 0x6B65
"""Class of our advisory locks that belong to no collection."""
MIGRATING, CHANGING, SHARDS = 1, 2, 1000
"""Their numbers; shard n has SHARDS + n."""
MOST_SHARDS = 128
LEASE = 20.0
"""Seconds after which a lease that was not renewed is free."""
NOW = "extract(epoch from clock_timestamp())::float8"
"""The database's time of day."""
OWNER = 32
"""Length of a process's name in ``owner``; the number of a lane may follow."""
PROCESS = f"left(owner, {OWNER})"
"""SQL for the process that has a shard."""


class ShardLease:
    """The shard of one process, or of one of its lanes."""

    def __init__(self, owner: str | None = None) -> None:
        self._owner = owner or fresh_bytes(OWNER // 2).hex()
        self.shard: int | None = None
        """None until a shard is taken."""

    def of_lane(self, number: int) -> ShardLease:
        """The lease of another lane of the same process."""
        return ShardLease(f"{self._owner[:OWNER]}+{number}")

    @property
    def still_mine(self) -> str:
        """SQL that is true while the lease holds."""
        return (
            f"exists (select 1 from shards where shard = {self.shard} and owner = '{self._owner}')"
            if self.shard is not None
            else "true"
        )

    def take(self, session: PostgresSession) -> int:
        """Take the shard of before, or the first that is free, within a transaction."""
        rows = session.rows(f"select shard, owner, seen > {NOW} - {LEASE} from shards")
        taken = {shard for shard, owner, held in rows if held and owner != self._owner}
        before = [shard for shard, owner, _ in rows if owner == self._owner]
        for shard in (*before, *range(MOST_SHARDS)):
            lock = (LOCKS, SHARDS + shard)
            if shard in taken or not session.rows("select pg_try_advisory_xact_lock(?, ?)", lock)[0][0]:
                continue
            sql = (
                f"insert into shards (shard, owner, seen) values (?, ?, {NOW}) "
                "on conflict (shard) do update set owner = excluded.owner, seen = excluded.seen "
                f"where shards.owner = excluded.owner or shards.seen <= {NOW} - {LEASE} returning 1"
            )
            if session.rows(sql, (shard, self._owner)):
                self.shard = shard
                return shard
        raise StoreError(f"at most {MOST_SHARDS} collectors or lanes of them serve one database")

    def renew(self, session: PostgresSession) -> None:
        """Renew the lease: a write like any other."""
        session.run(f"update shards set seen = {NOW} where shard = ?", (self.shard,))

    def leave(self, session: PostgresSession) -> None:
        """Give the shard back."""
        if self.shard is not None:
            session.run("delete from shards where shard = ? and owner = ?", (self.shard, self._owner))
            self.shard = None
