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
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from keyveil import Coins, People, Plan, Schema, Tally
from keyveil.people.tables import read_people
from keyveil.plan.engines import tally_files
from keyveil.plan.engines.report_columns import to_batch
from keyveil.plan.report_file import reading, writing

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


def limited(folder, *words, spare=SPARE, script=LIMITED):
    """The exit code of a command in a process with limited memory, and its limit in bytes."""
    done = subprocess.run(
        [sys.executable, "-c", script, str(spare), *words],
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
    wide_reports = wide.privatise(
        People.of_records(wide.schema, [{str(key): 0.0} for key in range(200)])
    )
    with writing(wide, str(place / "wide.kv")) as reports:
        for _ in range(1_200):
            reports.add(wide_reports)
    columns = pa.Table.from_batches([to_batch(wide_reports, wide.packing)] * 1_200)
    pq.write_table(columns, place / "wide.parquet", compression="none", use_dictionary=False)
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


@pytest.mark.parametrize("file", ["wide.kv", "wide.parquet"])
def test_reports_larger_than_memory_are_tallied(file, folder):
    """Those of the Parquet file are in one row group."""
    words = ("tally", "wide.json", file, "-o", "wide_tally.kv", "--processes", "1", "--force")
    code, limit = limited(folder, *words)
    assert code == 0
    assert (folder / file).stat().st_size > limit
    tally = Tally.load(Plan.load(folder / "wide.json"), folder / "wide_tally.kv")
    assert tally.reports == 200 * 1_200


SMALL_SEGMENTS = LIMITED.replace(
    "try:\n",
    "import keyveil.plan.engines.table_segments as table_segments\n"
    "table_segments.SEGMENT_ROWS = 1 << 14\n"
    "try:\n",
)


def test_a_mixed_table_larger_than_memory_is_privatised_by_all_processes(folder):
    """Each of them has the limit. The rows of Parquet files are in no order and sorted on disk."""
    people, long_names = 100_000, "guest " * 100
    values = np.arange(1 << 13) % 5 + 1.0
    order = np.random.default_rng(1).permutation(5 * people)
    kinds = pa.schema({"person": pa.string(), "key": pa.string(), "value": pa.float64()})
    table = folder / "names.parquet"
    with pq.ParquetWriter(table, kinds, compression="none", use_dictionary=["key"]) as writer:
        for first in range(0, len(order), 1 << 13):
            places = order[first : first + (1 << 13)]
            names = [f"{long_names}{number}" for number in (places % people).tolist()]
            held = [str(number) for number in (places // people).tolist()]
            writer.write_table(pa.table([names, held, values[: len(places)]], schema=kinds))
    words = ("privatise", "plan.json", "names.parquet", "--coins", "memory", "--processes", "2")
    words += ("-o", "parts/")
    code, limit = limited(folder, *words, spare=2 * SPARE, script=SMALL_SEGMENTS)
    assert code == 0
    assert table.stat().st_size > limit
    plan, expected = Plan.load(folder / "plan.json"), Tally(Plan.load(folder / "plan.json"))
    for everyone in read_people(plan.schema, table):
        expected.add(plan.privatise(everyone, Coins.stated("memory")))
    assert tally_files(folder / "parts", plan) == expected
    assert expected.reports == people
    reads_all = "__import__('pyarrow.parquet').parquet.read_table(sys.argv[2])"
    whole = LIMITED.replace("run(sys.argv[2:])", reads_all)
    assert limited(folder, "names.parquet", spare=2 * SPARE, script=whole)[0] == "out of memory", (
        "the broken twin"
    )


LONG_NAME, NAMED = "guest " * 100, 75_000


def named_rows(order):
    """Batches of rows: people with long names, five rows each."""
    places = np.arange(5 * NAMED)
    if order == "mixed":
        places = np.random.default_rng(1).permutation(places)
    for first in range(0, len(places), 1 << 12):
        rows = places[first : first + (1 << 12)]
        names = [f"{LONG_NAME}{number:06d}" for number in (rows // 5).tolist()]
        yield pa.record_batch(
            [names, [str(number) for number in (rows % 5).tolist()], rows % 5 + 1.0],
            names=["person", "key", "value"],
        )


def write_named(path, order):
    """The rows as a table in the form that the file's name ends with."""
    form, kinds = path.suffix[1:], next(named_rows(order)).schema
    if form in ("csv", "jsonl"):
        row = {"csv": "{},{},{}\n", "jsonl": '{{"person": "{}", "key": "{}", "value": {}}}\n'}[form]
        with path.open("w") as file:
            file.write("person,key,value\n" * (form == "csv"))
            for batch in named_rows(order):
                file.writelines(map(row.format, *(column.to_pylist() for column in batch.columns)))
        return
    sink = pa.OSFile(str(path), "wb")
    writer = (
        pa.ipc.new_file(sink, kinds)
        if form == "arrow"
        else pq.ParquetWriter(sink, kinds, compression="none", use_dictionary=["key"])
    )
    with sink, writer:
        for batch in named_rows(order):
            writer.write_batch(batch)


SMALL_ROOMS = SMALL_SEGMENTS.replace(
    "try:\n",
    "import keyveil.people.tables.spill as spill, keyveil.people.tables.text_tables as text_tables\n"
    "spill.HELD, text_tables.BLOCK = 1 << 12, 1 << 20\n"
    "keyveil.people.tables.table_reader.read_people.__kwdefaults__['chunk'] = 1 << 11\n"
    "try:\n",
)
"""What a command holds is as much smaller than usual as the table is."""


@pytest.fixture(scope="module")
def named_tally(folder):
    """The tally of the people with long names, whose table is in memory."""
    tally = Tally(Plan.load(folder / "plan.json"))
    for everyone in read_people(tally.plan.schema, pa.Table.from_batches(named_rows("in order"))):
        tally.add(tally.plan.privatise(everyone, Coins.stated("memory")))
    assert tally.reports == NAMED
    return tally


@pytest.mark.parametrize(
    ("form", "order"),
    [
        ("csv", "in order"),
        ("csv", "mixed"),
        ("jsonl", "mixed"),
        ("arrow", "mixed"),
        ("parquet", "in order"),
    ],
)
def test_every_form_of_table_is_privatised_in_any_order(form, order, folder, named_tally):
    """In one process; what is in no order is sorted on disk.

    JSON lines and Arrow in order are read as CSV is; Parquet in no order has its own test.
    """
    table = folder / f"names in {order}.{form}"
    write_named(table, order)
    words = ("privatise", "plan.json", table.name, "--coins", "memory", "--processes", "1", "--force")
    code, limit = limited(folder, *words, "-o", "named.kv", spare=SPARE * 12 // 8, script=SMALL_ROOMS)
    assert code == 0
    assert table.stat().st_size > limit
    assert tally_files(folder / "named.kv", named_tally.plan) == named_tally
    table.unlink()


MANY = 25_000_000


@pytest.mark.long
@pytest.mark.parametrize("form", ["csv"])
def test_many_rows_in_no_order_are_privatised(form, folder, tmp_path):
    """Nothing is made smaller here: a command that holds 10 bytes a row does not get through."""
    table = tmp_path / f"many.{form}"
    kinds = pa.schema({"person": pa.int64(), "key": pa.string(), "value": pa.float64()})
    draw, names = np.random.default_rng(1), pa.array([str(key) for key in range(10)])
    order = draw.permutation(np.arange(MANY, dtype=np.int32))
    with (
        pyarrow.csv.CSVWriter(table, kinds)
        if form == "csv"
        else pq.ParquetWriter(table, kinds, compression="none", use_dictionary=False)
    ) as writer:
        for first in range(0, MANY, 16 * ROWS):
            rows = order[first : first + 16 * ROWS].astype(np.int64)
            keys = names.take(pa.array(rows % 2 * 5 + rows // 2 % 5))
            writer.write_table(pa.table([rows // 2, keys, rows % 5 + 1.0], schema=kinds))
    del order
    words = ("privatise", str(folder / "plan.json"), table.name, "--processes", "1", "-o", "many.kv")
    code, limit = limited(tmp_path, *words, spare=3 * SPARE)
    assert code == 0
    assert table.stat().st_size > limit
    assert sum(map(len, reading(Plan.load(folder / "plan.json"), tmp_path / "many.kv"))) == MANY // 2


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
