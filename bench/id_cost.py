"""What ids cost PostgreSQL, and a collector that starts on an epoch with many of them."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path
from statistics import median
from uuid import UUID

import psycopg

from keyveil import Plan
from keyveil.service.collector.store.migrations import ORDER_LOG

from .collector import Collector
from .table import Table, rows

REPORTS = 3200
"""Ids in one transaction: what 32 senders of 100 reports have at once."""
WAYS = {
    "as stored: a row of the log with all ids": (
        "round bigint, epoch bigint, ids bytea",
        "select 1, 20000, %b",
    ),
    "a row for each, without an index": (
        "round bigint, epoch bigint, id uuid",
        "select 1, 20000, given from unnest(%b::uuid[]) as given",
    ),
    "a row and an entry of a unique index for each": (
        "round bigint, epoch bigint, id uuid, primary key (round, epoch, id)",
        "select 1, 20000, given from unnest(%b::uuid[]) as given",
    ),
}
"""The columns of a table, and what is inserted."""


def id_cost(folder: Path, times: int) -> Table:
    """Medians over interleaved transactions on new tables."""
    address = f"postgresql://keyveil@/postgres?host={folder}"
    with psycopg.connect(address, autocommit=True) as connection:
        spent: dict[str, list[tuple[float, int]]] = {way: [] for way in WAYS}
        for place, (columns, _) in enumerate(WAYS.values()):
            connection.execute(f"create table cost_{place} ({columns})")
        for _ in range(times):
            ids = sorted(os.urandom(16) for _ in range(REPORTS))
            several = [UUID(bytes=name) for name in ids]
            for place, (way, (_, chosen)) in enumerate(WAYS.items()):
                given = several if "unnest" in chosen else b"".join(ids)
                spent[way].append(_cost(connection, f"insert into cost_{place} {chosen}", given))
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
    connection: psycopg.Connection[tuple[object, ...]], statement: str, ids: list[UUID] | bytes
) -> tuple[float, int]:
    """Milliseconds of the server's process, and bytes of its log."""
    process = Path(f"/proc/{connection.info.backend_pid}/schedstat")
    where = "select pg_current_wal_insert_lsn() - '0/0'"
    log = int(str(connection.execute(where).fetchall()[0][0]))
    begun = int(process.read_text().split()[0])
    connection.execute(statement, (ids,))
    ended = int(process.read_text().split()[0])
    return (ended - begun) / 1e6, int(str(connection.execute(where).fetchall()[0][0])) - log


def start_cost(plan: Plan, store: str, reports: int) -> Table:
    """A collector that starts on an open epoch with many reports, written to the log beforehand."""
    segments = tempfile.mkdtemp(prefix="kv-bench-segments-")
    server = Collector("store", plan, store, segments)
    try:
        groups = reports // REPORTS
        with psycopg.connect(store) as line:
            columns = "round, epoch, reports, crc, ids, payload"
            sql = f"insert into segments ({columns}) values (1, %s, %s, 0, %s, '')"
            epoch = int(time.time()) // 86_400
            for _ in range(groups):
                line.execute(sql, (epoch, REPORTS, os.urandom(16 * REPORTS)), prepare=True)
            line.execute(ORDER_LOG)
        ready, counted = server.restart()
        memory = server.memory()
    finally:
        server.end()
        shutil.rmtree(segments, ignore_errors=True)
    line_ = (f"{groups * REPORTS:,}", f"{ready:.1f} s", f"{counted:.1f} s", f"{memory:.0f} MB")
    return Table(
        "A collector on PostgreSQL that starts on an open epoch",
        ("reports in the epoch", "ready after", "first report counted after", "resident memory then"),
        rows([line_]),
    )
