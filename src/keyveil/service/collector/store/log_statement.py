"""The statements that write a group of reports to PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence

from .report_log import REPLACED, CountsRow

LOG = (
    "with head as (insert into heads (round, shard, reports, version) values (?, ?, ?, 1) "
    "on conflict (round, shard) do update set "
    "reports = heads.reports + excluded.reports, version = heads.version + 1 returning version), "
    "logged as (insert into segments (round, epoch, reports, crc, ids, payload) "
    "values (?, ?, ?, ?, ?, ?) returning id) "
    "select head.version, logged.id, old.chunk, old.counts from logged cross join head left join "
    "(select chunk, counts from counts where round = ? and epoch = ? and shard = ? "
    "and chunk = any(?::bigint[])) as old on true"
)
"""Log a group and add to its head.

Each row has the head's version, the segment's number, and a chunk of the shard if any.
Parameters: round, shard, reports; round, epoch, reports, crc, ids, payload; round, epoch, shard, chunks.
"""

_REPLACE = "insert into counts (round, epoch, shard, chunk, version, counts)"


def replacing(rows: Sequence[CountsRow]) -> tuple[str, list[list[int | bytes]]]:
    """The statement that writes rows of counts, in place of older ones, and its parameters."""
    lists = "?::bigint[], ?::bigint[], ?::bigint[], ?::bigint[], ?::bigint[], ?::bytea[]"
    columns = [list(column) for column in zip(*rows, strict=True)]
    return f"{_REPLACE} select * from unnest({lists}) {REPLACED}", columns


def replacing_text(rows: Sequence[CountsRow]) -> str:
    """The same as a statement without parameters."""
    values = (f"({', '.join(map(str, at))}, decode('{counts.hex()}', 'hex'))" for *at, counts in rows)
    return f"{_REPLACE} values {', '.join(values)} {REPLACED}"
