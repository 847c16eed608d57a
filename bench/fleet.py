"""Collectors on PostgreSQL under load, beside one on SQLite, in one run: alone, two at once, capped."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from keyveil import Plan, Schema

from .collector import BATCH, KEYS, Collector, processor_time
from .id_cost import id_cost, start_cost
from .table import Outcome, Table, rows

AIM_SHARE, AIM_TWO, AIM_CAP = 0.5, 1.5, 0.9
"""Aims: PostgreSQL against SQLite, two collectors against one, a cap against none."""
MANY = 20_000_000
"""Reports of the epoch that a collector starts on."""
ROOM = 2
"""A cap, as a multiple of the reports that the same collectors take without one in the round."""
FLEETS = {
    "SQLite, one collector": (False, 1, False),
    "PostgreSQL, one collector": (True, 1, False),
    "PostgreSQL, one collector, a cap": (True, 1, True),
    "PostgreSQL, two collectors": (True, 2, False),
    "PostgreSQL, two collectors, a cap": (True, 2, True),
}
"""Whether the store is PostgreSQL, the number of collectors, and whether there is a cap."""


@contextmanager
def postgres() -> Iterator[Path]:
    """A PostgreSQL of our own with its usual settings; the folder of its socket."""
    binaries = max(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name))
    folder = Path(tempfile.mkdtemp(prefix="kv-bench-pg-"))
    before: list[str] = []
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres")
        before = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]

    def run(program: str, *words: str) -> None:
        line = [*before, str(binaries / program), "-D", str(folder / "data"), *words]
        subprocess.run(line, check=True, stdout=subprocess.DEVNULL, cwd=folder)

    run("initdb", "-U", "keyveil", "-A", "trust")
    options = f"-c listen_addresses='' -c unix_socket_directories={folder}"
    run("pg_ctl", "-w", "-l", str(folder / "log"), "-o", options, "start")
    try:
        yield folder
    finally:
        run("pg_ctl", "-w", "-m", "fast", "stop")
        shutil.rmtree(folder, ignore_errors=True)


def database(folder: Path, name: str) -> str:
    """The address of a new database with our tables."""
    words = ["psql", "-q", "-h", str(folder), "-U", "keyveil", "postgres", "-c"]
    subprocess.run([*words, f"create database {name}"], check=True)
    store = f"postgresql://keyveil@/{name}?host={folder}"
    keyveil = str(Path(sys.executable).parent / "keyveil")
    subprocess.run([keyveil, "migrate", "--store", store], check=True, capture_output=True)
    return store


def database_time(folder: Path) -> float:
    """Processor time of a PostgreSQL's processes so far, in seconds."""
    main = int((folder / "data" / "postmaster.pid").read_text().split()[0])
    children = Path(f"/proc/{main}/task/{main}/children").read_text().split()
    return processor_time(main, ended=True) + sum(processor_time(int(child)) for child in children)


def _ended_time() -> float:
    """Processor time of the programs that this process has started and that have ended, in seconds."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def load_of(
    plan: Plan, store: str, several: int, people: int | None, seconds: int, folder: Path
) -> tuple[float, float, float, float]:
    """Durable reports per second of all collectors together, in binary batches.

    Also the processor time of a report in microseconds: of the collectors, the database, the senders.
    """
    segments = tempfile.mkdtemp(prefix="kv-bench-segments-")
    servers: list[Collector] = []
    try:
        for number in range(several):
            servers.append(Collector("store", plan, store, segments, number == 0, people))
        for server, load in [(server, server.begin("raw", BATCH, 1)) for server in servers]:  # warm
            server.result(load)
        before = [sum(server.processor() for server in servers), database_time(folder), _ended_time()]
        loads = [(server, server.begin("raw", BATCH, seconds)) for server in servers]
        rate = sum(BATCH * server.result(load)[0] for server, load in loads)
        after = [sum(server.processor() for server in servers), database_time(folder), _ended_time()]
        spent = (1e6 * (b - a) / (rate * seconds) for a, b in zip(before, after, strict=True))
        own, base, senders = spent
        return rate, own, base, senders
    finally:
        for server in servers:
            server.end()
        shutil.rmtree(segments, ignore_errors=True)


def run(quick: bool) -> Outcome:
    """Rates of all fleets in interleaved rounds."""
    if shutil.which("wrk") is None or not list(Path("/usr/lib/postgresql").glob("*/bin/initdb")):
        text = "fleet: wrk or PostgreSQL is not installed, nothing was measured"
        return Outcome("fleet", (), {}, (text,))
    plan = Plan.of(Schema.of(KEYS, 1, 5), "kvue", 1)
    rounds, seconds = (1, 2) if quick else (5, 4)
    loads: dict[str, list[tuple[float, float, float, float]]] = {name: [] for name in FLEETS}
    rate = 0.0
    with postgres() as folder:
        for number in range(rounds):
            for place, (name, (shared, several, capped)) in enumerate(FLEETS.items()):
                store = database(folder, f"bench_{number}_{place}") if shared else "store.sqlite"
                people = round(ROOM * rate * (seconds + several)) if capped else None  # with warming up
                loads[name].append(load_of(plan, store, several, people, seconds, folder))
                rate = loads[name][-1][0]
        costs = (
            id_cost(folder, 8 if quick else 40),
            start_cost(plan, database(folder, "bench_start"), 200_000 if quick else MANY),
        )
    middle = {name: median(rate for rate, *_ in rows_) for name, rows_ in loads.items()}
    least = {
        name: [min(column) for column in zip(*rows_, strict=True)][1:] for name, rows_ in loads.items()
    }
    return _outcome(middle, least, rounds, costs)


def _outcome(
    middle: dict[str, float], least: dict[str, list[float]], rounds: int, costs: tuple[Table, ...]
) -> Outcome:
    sqlite, one, capped, two, two_capped = middle.values()
    against = {
        "PostgreSQL, one collector": (one / sqlite, "SQLite", AIM_SHARE),
        "PostgreSQL, one collector, a cap": (capped / one, "no cap", AIM_CAP),
        "PostgreSQL, two collectors": (two / one, "one", AIM_TWO),
        "PostgreSQL, two collectors, a cap": (two_capped / two, "no cap", AIM_CAP),
    }
    lines = []
    for name, rate in middle.items():
        ratio, other, _ = against.get(name, (1.0, "itself", 0.0))
        work = [f"{micros:.1f} us" for micros in least[name]]
        share = sum(next(iter(least.values()))) / sum(least[name])
        lines.append((name, f"{rate:,.0f}", f"{ratio:.2f} x {other}", *work, f"{share:.2f} x SQLite"))
    cores = os.cpu_count() or 1
    shown = Table(
        f"Durable reports a second in binary batches of {BATCH}, {KEYS} keys, median of {rounds}",
        (
            *("collectors", "reports a second", "against", "processor time of a report"),
            *("in the database", "of the senders", "by processor time"),
        ),
        rows(lines),
        f"Aims: PostgreSQL at least {AIM_SHARE} x SQLite, a cap at least {AIM_CAP} x none, two "
        f"collectors at least {AIM_TWO} x one where each has cores of its own. Here {cores} cores are "
        "shared by the collectors, PostgreSQL and one wrk for each collector, the senders. Processor "
        "time is the least of all rounds. By processor time: what a report costs all of them with "
        "SQLite, divided by what it costs here; where the processor is the limit, that is the ratio of "
        f"the rates. The load average was {os.getloadavg()[0]:.0f}.",
    )
    missed = [
        f"fleet: {name} is {ratio:.2f} x {other}, aim {aim}"
        for name, (ratio, other, aim) in against.items()
        if ratio < aim and (other != "one" or cores >= 6)
    ]
    return Outcome("fleet", (shown, *costs), {"rates": middle, "processor": least}, tuple(missed))
