"""Many people and reports: one process, the local pool, and Spark with one and with two workers.

A standalone cluster is started on loopback, with one core for each worker. All forms take turns in one
run on the same files, so their ratios count and not their seconds.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from keyveil import Plan, Schema, engines

from .table import Outcome, Table, rows, times

KEYS = 100
AT_ONCE = 1_000_000
WAIT = 180
MEMORY = """
import json, re, resource, sys
from pathlib import Path
from keyveil import Plan, engines
engine = engines.SparkEngine()
tally = engines.tally_files(sys.argv[2], Plan.load(sys.argv[1]), engine)
jvm = engine.session.sparkContext._gateway.proc.pid
peak = int(re.search(r"VmHWM:\\s+(\\d+)", Path(f"/proc/{jvm}/status").read_text())[1])
own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([tally.reports, own / 1024, peak / 1024]))
"""


def run(quick: bool) -> Outcome:
    """Times of tallying and privatising, the driver's memory, and Polars on the same file."""
    people = 4_000_000 if quick else 100_000_000
    plan = Plan.of(Schema.of(KEYS, 1, 5), "kvue", 1)
    folder = Path(tempfile.mkdtemp(prefix="keyveil-scale-"))
    try:
        plan.save(folder / "plan.json")
        _write_people(plan, folder / "people.parquet", people)
        tables, figures, missed = _measure(plan, folder, people)
    finally:
        shutil.rmtree(folder)
    return Outcome("scale", tables, figures, missed)


def run_core(quick: bool) -> Outcome:
    """What one core does of both jobs, in its own seconds: other work on the machine matters little."""
    people = 2_000_000 if quick else 8_000_000
    plan = Plan.of(Schema.of(KEYS, 1, 5), "kvue", 1)
    folder, pool = Path(tempfile.mkdtemp(prefix="keyveil-core-")), engines.LocalPool(1)
    try:
        _write_people(plan, folder / "people.parquet", people)
        began = time.process_time()
        engines.privatise_files(folder / "people.parquet", plan, f"{folder}/reports/", pool)
        privatised = time.process_time() - began
        size = sum(file.stat().st_size for file in (folder / "reports").iterdir())
        engines.tally_files(folder / "reports", plan, pool)
        began = time.process_time()
        for _ in range(10):
            engines.tally_files(folder / "reports", plan, pool)
        tallied = (time.process_time() - began) / 10
    finally:
        shutil.rmtree(folder)
    speeds = {"privatise": people / privatised / 1e6, "tally": people / tallied / 1e6}
    shown = Table(
        f"One core, {people:,} people in Parquet files, KVUE, {KEYS} keys, 0 to 2 held",
        ("job", "million a processor second"),
        rows((name, f"{speed:.1f}") for name, speed in speeds.items()),
        f"A report takes {size / people:.2f} bytes in Parquet.",
    )
    return Outcome("core", (shown,), {"speeds": speeds, "bytes": size / people})


def _measure(
    plan: Plan, folder: Path, people: int
) -> tuple[tuple[Table, ...], dict[str, Any], tuple[str, ...]]:
    seconds: dict[str, dict[str, float]] = {"privatise": {}, "tally": {}}
    tallies = []

    def measured(name: str, engine: engines.Engine) -> None:
        output = folder / f"reports of {name}"
        table = folder / "people.parquet"
        seconds["privatise"][name] = _taken(
            lambda: engines.privatise_files(table, plan, f"{output}/", engine)
        )
        for _ in range(2):
            tallies.append(engines.tally_files(folder / "reports of one process", plan, engine))
            took = _taken(lambda: engines.tally_files(folder / "reports of one process", plan, engine))
            seconds["tally"][name] = min(took, seconds["tally"].get(name, took))
        if name != "one process":
            shutil.rmtree(output)

    measured("one process", engines.LocalPool(1))
    measured("local pool", engines.LocalPool())
    with _cluster(folder) as (master, add_worker):
        began = time.perf_counter()
        add_worker()
        session = _session(master, folder)
        engine = engines.SparkEngine(session)
        engines.tally_files(next((folder / "reports of one process").glob("*.parquet")), plan, engine)
        start = time.perf_counter() - began
        measured("Spark, 1 worker", engine)
        add_worker()
        executors = session.sparkContext._jsc.sc().getExecutorMemoryStatus
        _wait(lambda: executors().size() == 3)  # the driver is one of them
        engines.tally_files(folder / "reports of one process", plan, engine)  # both are warm
        measured("Spark, 2 workers", engine)
        session.stop()
        memory = [_driver_memory(folder, part) for part in (0.1, 1.0)]
    beside = _beside_polars(plan, folder, min(people // 2, 50_000_000))
    same = all(tally == tallies[0] for tally in tallies)
    figures = {"seconds": seconds, "start": start, "memory": memory, "polars": beside, "same": same}
    tables = (*_tables(people, seconds, start, same), _memory_table(memory), _polars_table(beside))
    missed = [] if same else ["scale: the tallies of the engines differ"]
    if beside["keyveil"] > beside["polars"]:
        missed.append("scale: the local pool is slower than Polars' group-by count")
    return tables, figures, tuple(missed)


def _taken(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _write_people(plan: Plan, path: Path, people: int) -> None:
    """People in order with 0 to 2 of the keys each; who holds nothing has a row without a key."""
    draw = np.random.default_rng(1)
    names = pa.array(plan.schema.keys)
    writer = None
    for first in range(0, people, AT_ONCE):
        number = min(AT_ONCE, people - first)
        held = draw.integers(0, 3, number)
        persons = np.repeat(np.arange(first, first + number), np.maximum(held, 1))
        places = draw.integers(0, KEYS // 2, len(persons))
        second = np.concatenate([[False], persons[1:] == persons[:-1]])
        places = places + KEYS // 2 * second  # two different keys
        nothing = np.repeat(held, np.maximum(held, 1)) == 0
        keys = pa.DictionaryArray.from_arrays(pa.array(places, pa.int32(), mask=nothing), names)
        values = pa.array(draw.integers(1, 6, len(persons)).astype(np.float32), mask=nothing)
        table = pa.table({"person": persons, "key": keys, "value": values})
        writer = writer or pq.ParquetWriter(path, table.schema, compression="zstd")
        writer.write_table(table)
    assert writer is not None
    writer.close()


# -- Spark -----------------------------------------------------------------------------------------


@contextmanager
def _cluster(folder: Path) -> Iterator[tuple[str, Callable[[], None]]]:
    """A master on loopback; its address, and a function that adds a worker with one core."""
    import pyspark

    home = Path(pyspark.__file__).parent
    os.environ.update(SPARK_HOME=str(home), SPARK_LOCAL_IP="127.0.0.1", PYSPARK_PYTHON=sys.executable)
    processes: list[subprocess.Popen[bytes]] = []
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        port = place.getsockname()[1]
    here = ("--host", "127.0.0.1", "--webui-port", "0", "--port")
    master = f"spark://127.0.0.1:{port}"

    def start(kind: str, *words: str) -> None:
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}", *words]
        with (folder / f"log-{len(processes)}").open("wb") as log:
            processes.append(subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True))

    def add_worker() -> None:
        room = ("--cores", "1", "--memory", "2g", "--work-dir", str(folder / f"work-{len(processes)}"))
        start("worker.Worker", *here, "0", *room, master)

    try:
        start("master.Master", *here, str(port))
        _wait(lambda: _answers(port))
        yield master, add_worker
    finally:
        for process in reversed(processes):
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _answers(port: int) -> bool:
    with socket.socket() as place:
        return place.connect_ex(("127.0.0.1", port)) == 0


def _wait(holds: Callable[[], bool]) -> None:
    give_up = time.monotonic() + WAIT
    while not holds():
        if time.monotonic() > give_up:
            raise SystemExit("the cluster does not start")
        time.sleep(0.05)


def _session(master: str, folder: Path) -> Any:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("keyveil bench").master(master)
    options = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "512m",
        "spark.executor.memory": "1g",
        "spark.local.dir": str(folder),
    }
    for name, value in options.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


def _driver_memory(folder: Path, share: float) -> tuple[int, float, float]:
    """Reports counted, and the peak memory of a fresh driver in MiB: of Python, and of its JVM."""
    files = sorted((folder / "reports of one process").glob("*.parquet"))
    share_folder = folder / f"share-{share}"
    share_folder.mkdir()
    for file in files[: max(1, round(share * len(files)))]:
        (share_folder / file.name).symlink_to(file)
    words = [sys.executable, "-c", MEMORY, str(folder / "plan.json"), str(share_folder)]
    options = "--master local[2] --driver-memory 512m pyspark-shell"
    env = {**os.environ, "PYSPARK_SUBMIT_ARGS": f"--conf spark.ui.enabled=false {options}"}
    done = subprocess.run(words, env=env, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    reports, python, jvm = json.loads(done.stdout.splitlines()[-1])
    return int(reports), float(python), float(jvm)


# -- Polars ----------------------------------------------------------------------------------------


def _beside_polars(plan: Plan, folder: Path, reports: int) -> dict[str, float]:
    """The shortest of several turns over one file: the local pool, and a group-by count."""
    import polars as pl

    path, writer, rest = folder / "one file.parquet", None, reports
    for part in sorted((folder / "reports of one process").glob("*.parquet")):
        rows_of = pq.read_table(part).slice(0, rest)
        writer = writer or pq.ParquetWriter(path, rows_of.schema, compression="zstd")
        writer.write_table(rows_of, row_group_size=AT_ONCE)
        rest -= rows_of.num_rows
        if not rest:
            break
    assert writer is not None
    writer.close()
    forms: dict[str, Callable[[], object]] = {
        "keyveil": lambda: engines.tally_files(path, plan),
        "polars": lambda: pl.scan_parquet(path).group_by("code").len().collect(engine="streaming"),
        "polars, in memory": lambda: pl.scan_parquet(path).group_by("code").len().collect(),
    }
    best: dict[str, float] = {"reports": reports}
    for _ in range(7):
        for name, work in forms.items():
            took = _taken(work)
            best[name] = min(took, best.get(name, took))
    return best


# -- tables ----------------------------------------------------------------------------------------


def _tables(
    people: int, seconds: dict[str, dict[str, float]], start: float, same: bool
) -> Iterator[Table]:
    identical = "Every tally is identical." if same else "THE TALLIES DIFFER."
    titles = {
        "privatise": f"Privatising {people:,} people of a Parquet file, KVUE, {KEYS} keys, 0 to 2 held",
        "tally": f"Tallying {people:,} reports from Parquet files",
    }
    more = {
        "privatise": "",
        "tally": f" {identical} The start of Spark, with one small job, took "
        f"{start:.0f} s and is not included.",
    }
    for task, title in titles.items():
        taken = seconds[task]
        single = taken["one process"]
        lines = [
            (name, times(single / took), f"{took:.1f}", f"{people / took / 1e6:.1f}")
            for name, took in taken.items()
        ]
        gain = taken["Spark, 1 worker"] / taken["Spark, 2 workers"]
        yield Table(
            title,
            ("engine", "speed against one process", "seconds", "million a second"),
            rows(lines),
            f"Spark with two workers against one: {gain:.1f} x." + more[task],
        )


def _memory_table(memory: list[tuple[int, float, float]]) -> Table:
    lines = [(f"{reports:,}", f"{python:.0f}", f"{jvm:.0f}") for reports, python, jvm in memory]
    return Table(
        "Peak memory of Spark's driver in a fresh process, MiB",
        ("reports tallied", "Python", "JVM (local mode, heap limit 512)"),
        rows(lines),
    )


def _polars_table(best: dict[str, float]) -> Table:
    ours = best["keyveil"]
    names = {
        "keyveil": "keyveil, local pool",
        "polars": "Polars, group-by count, streaming",
        "polars, in memory": "Polars, group-by count",
    }
    lines = [(words, times(best[name] / ours), f"{best[name]:.2f}") for name, words in names.items()]
    return Table(
        f"Counting {int(best['reports']):,} reports in one Parquet file, both cores",
        ("form", "time against keyveil", "seconds"),
        rows(lines),
        "Aim: at least as fast as Polars. keyveil also refuses codes that the plan does not have.",
    )
