"""What the ids of a transaction cost PostgreSQL: processor time of its process, and bytes of its log."""

from __future__ import annotations

import os
from pathlib import Path
from statistics import median

import psycopg

from .table import Table, rows

REPORTS = 3200
"""Ids in one transaction: what 32 senders of 100 reports have at once."""
WAYS = {
    "as stored: a row and an entry of a unique index": "primary key (round, epoch, id)",
    "the same, the id first in the index": "primary key (id, round, epoch)",
    "a row without an index": "",
}
FILL = "insert into {} select 1, 20000, given from unnest(%s::uuid[]) as given"


def id_cost(folder: Path, times: int) -> Table:
    """Medians over interleaved transactions on new tables."""
    address = f"postgresql://keyveil@/postgres?host={folder}"
    with psycopg.connect(address, autocommit=True) as connection:
        spent: dict[str, list[tuple[float, int]]] = {way: [] for way in WAYS}
        for place, key in enumerate(WAYS.values()):
            columns = ", ".join(filter(None, ["round bigint, epoch bigint, id uuid", key]))
            connection.execute(f"create table cost_{place} ({columns})")
        for _ in range(times):
            ids = sorted(os.urandom(16).hex() for _ in range(REPORTS))
            for place, way in enumerate(WAYS):
                spent[way].append(_cost(connection, f"cost_{place}", ids))
    lines = [
        (way, f"{median(c for c, _ in costs):.2f} ms", f"{median(b for _, b in costs) / REPORTS:.0f}")
        for way, costs in spent.items()
    ]
    return Table(
        f"{REPORTS:,} ids in one transaction of PostgreSQL, median of {times}",
        ("ids", "processor time", "bytes of log for each"),
        rows(lines),
    )


def _cost(
    connection: psycopg.Connection[tuple[object, ...]], table: str, ids: list[str]
) -> tuple[float, int]:
    """Milliseconds of the server's process, and bytes of its log."""
    process = Path(f"/proc/{connection.info.backend_pid}/schedstat")
    where = "select pg_current_wal_insert_lsn() - '0/0'"
    log = int(str(connection.execute(where).fetchall()[0][0]))
    begun = int(process.read_text().split()[0])
    connection.execute(FILL.format(table), (ids,))
    ended = int(process.read_text().split()[0])
    return (ended - begun) / 1e6, int(str(connection.execute(where).fetchall()[0][0])) - log
