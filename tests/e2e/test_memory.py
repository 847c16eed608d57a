"""Memory does not grow with the number of people: tables and files larger than a process may use.

The limit is on private memory (``RLIMIT_DATA``): what a process allocates, not what it maps from files.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from keyveil import People, Plan, Schema, Tally
from keyveil.plan.report_file import writing

SPARE = 64 << 20
"""Bytes that a command may allocate after its imports."""
ROWS = 1 << 16

LIMITED = """
import json, re, resource, sys
from pathlib import Path
import pyarrow.csv, pyarrow.ipc
import keyveil.cli.privatise_command, keyveil.people.tables.table_reader, keyveil.plan.batch
import keyveil.cli.tally_command, keyveil.estimate.linear, keyveil.simulate.contest
from keyveil.cli.command import run

used = int(re.search(r"VmData:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) << 10
limit = used + int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
try:
    code = run(sys.argv[2:])
except MemoryError:
    code = "out of memory"
print(json.dumps([code, limit]), file=sys.stderr)
"""
FEW_THREADS = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "ARROW_IO_THREADS": "1",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "1",
    "KEYVEIL_FAST": "0",
}
"""Threads and compiled loops take memory of their own, whatever the number of people."""


def limited(folder, *words, spare=SPARE):
    """The exit code of a command in a process with limited memory, and its limit in bytes."""
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(spare), *words],
        cwd=folder,
        env={**os.environ, **FEW_THREADS},
        capture_output=True,
        text=True,
        check=True,
    )
    code, limit = json.loads(done.stderr.splitlines()[-1])
    return code, limit


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table of 5 million people and a file of reports, each larger than the limit of a process."""
    place = tmp_path_factory.mktemp("large")
    kinds = pa.schema({"person": pa.int64(), "key": pa.string(), "value": pa.float64()})
    keys, values = [str(row % 10) for row in range(ROWS)], np.arange(ROWS) % 5 + 1.0
    with pa.OSFile(str(place / "people.arrow"), "wb") as file, pa.ipc.new_file(file, kinds) as writer:
        for batch in range(153):
            persons = (np.arange(ROWS) + batch * ROWS) // 2
            writer.write_batch(pa.record_batch([persons, keys, values], schema=kinds))
    Plan.of(Schema.of(10, 1, 5), "kvue", 1).save(place / "plan.json")
    wide = Plan.of(Schema.of(6_561), "rappor", 1)
    wide.save(place / "wide.json")
    some = wide.privatise(People.of_records(wide.schema, [{str(key): 0.0} for key in range(200)]))
    with writing(wide, str(place / "wide.kv")) as reports:
        for _ in range(1_200):
            reports.add(some)
    return place


def test_a_table_larger_than_memory_is_privatised(folder):
    words = ("privatise", "plan.json", "people.arrow", "-o", "reports.kv", "--processes", "1")
    code, limit = limited(folder, *words)
    assert code == 0
    assert (folder / "people.arrow").stat().st_size > limit
    plan = Plan.load(folder / "plan.json")
    assert limited(folder, "tally", "plan.json", "reports.kv", "-o", "tally.kv")[0] == 0
    assert Tally.load(plan, folder / "tally.kv").reports == 153 * ROWS // 2
    assert limited(folder, "estimate", "plan.json", "tally.kv")[0] == 0


@pytest.mark.long
@pytest.mark.parametrize(("kind", "rows"), [("csv", 16_000_000), ("parquet", 20_000_000)])
def test_tables_of_other_kinds_are_larger_than_memory(folder, tmp_path, kind, rows):
    """Persons in no order: all rows of a person are brought together on disk.

    A process holds about two million rows of a Parquet table, which take more than a chunk.
    """
    file, draw = tmp_path / f"people.{kind}", np.random.default_rng(1)
    kinds = pa.schema({"person": pa.int64(), "key": pa.string(), "value": pa.float64()})
    writer = {"csv": pa_csv.CSVWriter, "parquet": pq.ParquetWriter}[kind](str(file), kinds)
    with writer:
        for _ in range(rows // 1_000_000):
            persons = draw.integers(0, 1 << 40, 1_000_000)
            keys = pa.array([str(key) for key in range(10)] * 100_000)
            batch = pa.record_batch([persons, keys, draw.uniform(1, 5, 1_000_000)], schema=kinds)
            writer.write_table(pa.Table.from_batches([batch]))
    words = ("privatise", folder / "plan.json", file, "-o", tmp_path / "some.kv", "--processes", "1")
    spare = SPARE if kind == "csv" else 240 << 20
    code, limit = limited(tmp_path, *map(str, words), spare=spare)
    assert code == 0
    assert file.stat().st_size > limit


def test_reports_larger_than_memory_are_tallied(folder):
    words = ("tally", "wide.json", "wide.kv", "-o", "wide_tally.kv", "--processes", "1")
    code, limit = limited(folder, *words)
    assert code == 0
    assert (folder / "wide.kv").stat().st_size > limit
    tally = Tally.load(Plan.load(folder / "wide.json"), folder / "wide_tally.kv")
    assert tally.reports == 200 * 1_200


def test_simulated_people_take_no_memory(folder):
    """A record of each of them would take a terabyte."""
    words = "compare --population gaussian --top 10 --epsilon 1 --repeat 2 --processes 1 --people"
    for mechanisms in ("privkv,kvue", "pckv_grr"):
        wanted = (*words.split(), "1e11", "--mechanism", mechanisms)
        assert limited(folder, *wanted, spare=512 << 20)[0] == 0


def test_the_limit_is_felt(folder):
    """The broken twin: a process that holds the whole table at once does not get through."""
    code = LIMITED.replace(
        "run(sys.argv[2:])",
        "len(pyarrow.ipc.open_file('people.arrow').read_all()['value'].to_numpy())",
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(SPARE)],
        cwd=folder,
        env={**os.environ, **FEW_THREADS},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "out of memory" in done.stderr or "MemoryError" in done.stderr
