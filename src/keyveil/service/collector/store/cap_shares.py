"""Shares of a collection's cap: each process reserves one and counts within it.

So a cap is exact, and processes wait for each other near its end only.
"""

from __future__ import annotations

from collections.abc import Iterable

from .postgres_connection import PostgresSession

CAPS = 0x6B68
"""Class of the advisory locks of rounds whose shares are being given out."""


class Alone(Exception):
    """The transaction must run again, without other processes' reports of this collection."""

    def __init__(self, collection: int) -> None:
        super().__init__()
        self.collection = collection


def asked_shares(rounds: Iterable[int], shard: int) -> str:
    """SQL for the reports and the reserved number of a shard in some rounds; null without rounds."""
    numbers = ", ".join(map(str, rounds))
    if not numbers:
        return "null"
    return (
        "(select json_object_agg(round, json_build_array(reports, reserved)) from heads "
        f"where shard = {shard} and round in ({numbers}))"
    )


def room_in_share(
    session: PostgresSession, round_id: int, shard: int, cap: int, asked: int, alone: bool
) -> int | None:
    """Number of reports that a shard may count; it takes a larger share if its own is used up.

    With ``alone`` no other process counts meanwhile: all shares are taken back and given out anew.
    Without, None says that nothing is left to reserve.
    """
    known = session.shares.pop(round_id, None)  # true once: the next group of the round adds to it
    if known is None:
        sql = "select reports, reserved from heads where round = ? and shard = ?"
        rows = session.rows(sql, (round_id, shard))
        known = rows[0] if rows else (0, 0)
    reports, reserved = known
    if reserved - reports >= asked:
        return int(reserved - reports)
    if alone:
        session.run("update heads set reserved = 0 where round = ?", (round_id,))
    else:
        session.rows("select pg_advisory_xact_lock(?, ?)", (CAPS, round_id))
    sql = "select coalesce(sum(greatest(reserved, reports)), 0), count(*) from heads where round = ?"
    taken, shards = map(int, session.rows(sql, (round_id,))[0])
    left = cap - taken + (0 if alone else max(reserved - reports, 0))
    if left < asked and not alone:
        return None
    share = min(left, max(asked, left // (4 * (shards + 1))))
    if share > 0:
        session.run(
            "insert into heads (round, shard, reports, version, reserved) values (?, ?, 0, 0, ?) "
            "on conflict (round, shard) do update set reserved = heads.reports + excluded.reserved",
            (round_id, shard, share),
        )
    return left
