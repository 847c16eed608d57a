"""Many collections in one store: creating the last against the first, and sealing all at once."""

from __future__ import annotations

import asyncio
import io
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter

from keyveil import Plan, Schema
from keyveil.service.collector.engine import admin
from keyveil.service.collector.engine.service import Service
from keyveil.service.collector.process.clock import SystemClock
from keyveil.service.collector.process.settings import Settings
from keyveil.service.collector.store import Parcel, Store, store_at

from .fleet import postgres
from .table import Outcome, Table, rows

AIM = 1.25
"""Aim: the last collections cost at most this many times as much as the first."""
DAY = 86_400


class LaterClock(SystemClock):
    """The machine's clock, some seconds ahead."""

    ahead = 0.0

    def now(self) -> float:
        return super().now() + self.ahead


@contextmanager
def served(address: str, folder: Path, clock: LaterClock) -> Iterator[tuple[Store, Service]]:
    """A store with all tables and the collector's parts around it, without a port."""
    maker = store_at(address)
    maker.migrate_alone()
    maker.close()
    store = store_at(address)
    store.segments_folder = folder / "segments"
    store.open()
    settings = Settings(reopen_seconds=0)
    service = Service(store, folder / "segments", clock, settings, io.StringIO(), threaded=False)
    try:
        yield store, service
    finally:
        store.close()


def cost_of(address: str, folder: Path, plan: Plan, number: int) -> tuple[list[float], float]:
    """Milliseconds to create each collection, and the seconds to seal an epoch of all of them."""
    clock = LaterClock()
    row = bytes(plan.packing.width)
    with served(address, folder, clock) as (store, service):
        taken = []
        for place in range(number):
            begun = perf_counter()
            collection = admin.create(store, f"bench-{place}", plan.dumps(), {}, clock.now())
            taken.append(1000 * (perf_counter() - begun))
            epoch = int(clock.now()) // DAY
            parcel = Parcel(collection.id, collection.round.id, epoch, [os.urandom(16)], row)
            store.append([parcel], clock.now())
            assert not parcel.refused
        clock.ahead = 3.0 * DAY
        return taken, asyncio.run(_sealed(store, service, number))


async def _sealed(store: Store, service: Service, number: int) -> float:
    await service.start(seal=False)
    begun = perf_counter()
    await service.sealer.seal_due()
    seconds = perf_counter() - begun
    with store.reading() as session:
        assert session.rows("select count(*) from sealed") == [(number,)]
    await service.stop()
    return seconds


def run(quick: bool) -> Outcome:
    """Both stores, with few collections and with many."""
    few, many = (20, 200) if quick else (100, 2000)
    plan = Plan.of(Schema.of(10, 1, 5), "kvue", 1)
    lines, figures, missed = [], {}, []
    shared = bool(list(Path("/usr/lib/postgresql").glob("*/bin/initdb")))
    for kind in ("SQLite", "PostgreSQL") if shared else ("SQLite",):
        costs, few_sealed, sealed = _both(kind, plan, few, many)
        first, last = median(costs[:few]), median(costs[-few:])
        each_few, each = 1000 * few_sealed / few, 1000 * sealed / many
        lines.append(
            (
                kind,
                *(f"{first:.1f} ms", f"{last:.1f} ms", f"{last / first:.2f}"),
                *(f"{each_few:.1f} ms", f"{each:.1f} ms", f"{each / each_few:.2f}", f"{sealed:.0f} s"),
            )
        )
        figures[kind] = {"create": [first, last], "seal": [each_few, each]}
        for what, ratio in (("creating", last / first), ("sealing", each / each_few)):
            if ratio > AIM:
                missed.append(f"many: {what} on {kind} costs {ratio:.2f} x as much, aim {AIM}")
    columns = (
        *("store", f"create: first {few}", f"last {few}", "ratio"),
        *(f"seal: each of {few}", f"each of {many:,}", "ratio", "all"),
    )
    shown = Table(f"{many:,} collections in one store (medians; one report each)", columns, rows(lines))
    return Outcome("many", (shown,), figures, tuple(missed))


def _both(kind: str, plan: Plan, few: int, many: int) -> tuple[list[float], float, float]:
    """Milliseconds to create each of many; seconds to seal few in a store of few, and many."""
    folder = Path(tempfile.mkdtemp(prefix="kv-bench-many-"))
    try:
        with _addresses(kind, folder) as (of_few, of_many):
            _, few_sealed = cost_of(of_few, folder / "few", plan, few)
            costs, sealed = cost_of(of_many, folder / "many", plan, many)
        return costs, few_sealed, sealed
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _addresses(kind: str, folder: Path) -> Iterator[tuple[str, str]]:
    """Two empty stores of a kind."""
    if kind == "SQLite":
        yield str(folder / "few.sqlite"), str(folder / "many.sqlite")
        return
    with postgres() as host:
        for name in ("few", "many"):
            words = ["psql", "-q", "-h", str(host), "-U", "keyveil", "postgres", "-c"]
            subprocess.run([*words, f"create database {name}"], check=True)
        yield f"postgresql://keyveil@/few?host={host}", f"postgresql://keyveil@/many?host={host}"
