"""The local pool: the identical tally, whatever the segments, the order of rows and the processes."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from engine_cases import COINS, KEYS, PEOPLE, library_tally, mechanism_plan, rows_for, table, written
from hypothesis import given
from hypothesis import strategies as st

from keyveil import (
    REGISTRY,
    Budget,
    Coins,
    CoinsError,
    KeyveilError,
    Plan,
    PlanError,
    ReportError,
    Schema,
    TableError,
    Tally,
)
from keyveil.cli.command import run
from keyveil.people.tables import read_people
from keyveil.people.tables.frames import Columns, readable
from keyveil.plan.engines import (
    Engine,
    LocalPool,
    broken_rows,
    privatise_files,
    privatising,
    report_segments,
    table_segments,
    tally_files,
)
from keyveil.plan.engines.privatising import PrivatiseSegment, StoredBlock
from keyveil.plan.engines.shipped_plan import ship
from keyveil.plan.engines.table_segments import RowGroups, SegmentRows, SortedPart, SortRows
from keyveil.plan.report_file import reading, writing

READ = StoredBlock.read
TWO = LocalPool(2)
HERE = LocalPool(1)


@pytest.fixture
def small_segments(monkeypatch):
    """Segments of a few hundred rows, so that a small table has many."""
    monkeypatch.setattr(table_segments, "SEGMENT_ROWS", 256)
    monkeypatch.setattr(table_segments, "READ_ROWS", 100)
    monkeypatch.setattr(report_segments, "SEGMENT_REPORTS", 100)


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_every_mechanism_has_the_tally_of_the_library(name, tmp_path, small_segments):
    plan = mechanism_plan(name)
    rows = rows_for(plan, table())
    path = written(rows, tmp_path / "table.parquet")
    made = privatise_files(path, plan, f"{tmp_path}/reports/", HERE, coins=COINS)
    packed = privatise_files(path, plan, tmp_path / "reports.kv", HERE, coins=COINS)
    expected = library_tally(plan, rows)
    assert made.reports == packed.reports == expected.reports == 600
    assert tally_files(tmp_path / "reports", plan, TWO) == expected
    assert tally_files(tmp_path / "reports.kv", plan, TWO) == expected
    assert len(list((tmp_path / "reports").iterdir())) > 3


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("order", ["sorted", "mixed", "categories"])
def test_processes_make_the_same_reports(named, order, tmp_path, small_segments):
    plan = mechanism_plan("kvue")
    rows = table(named=named)
    if order == "sorted":
        rows = rows.sort_by("person")
    elif order == "categories":
        rows = rows.set_column(1, "key", rows["key"].dictionary_encode())
    path = written(rows, tmp_path / "table.parquet")
    privatise_files(path, plan, f"{tmp_path}/two/", TWO, coins=COINS)
    assert tally_files(tmp_path / "two", plan) == library_tally(plan, rows)


def test_a_table_in_several_files_is_one_table(tmp_path, small_segments):
    """One person's rows are in several files, whether these are in order of people or not."""
    plan, rows = mechanism_plan("several"), table()
    for name, whole in (("mixed", rows), ("sorted", rows.sort_by("person"))):
        folder = tmp_path / name
        folder.mkdir()
        for place, first in enumerate(range(0, whole.num_rows, 333)):
            written(whole.slice(first, 333), folder / f"{9 - place}.parquet", 90)
        privatise_files(folder, plan, f"{tmp_path}/{name}.reports/", HERE, coins=COINS)
        assert tally_files(tmp_path / f"{name}.reports", plan, HERE) == library_tally(plan, rows)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=30), st.integers(1, 12), st.integers(1, 12))
def test_ranges_hold_everyone_once(held, group, segment):
    """Whatever the row groups and segments are, each person's rows are in one segment, all of them."""
    persons = np.repeat(np.arange(len(held)), held)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_segments, "SEGMENT_ROWS", segment)
        path = "/dev/shm/keyveil-ranges.parquet" if os.path.isdir("/dev/shm") else "ranges.parquet"
        path = f"{path}.{os.getpid()}"
        try:
            pq.write_table(pa.table({"person": persons, "key": persons}), path, row_group_size=group)
            columns = Columns("person", "key", None)
            ranges = table_segments.ParquetTable([path], columns).ranges()
            parts = [
                [
                    p
                    for batch in SegmentRows(part, columns).batches()
                    for p in batch["person"].to_pylist()
                ]
                for part in ranges
            ]
        finally:
            os.unlink(path)
    assert [p for part in parts for p in part] == persons.tolist()
    assert all(count == 1 for count in Counter(p for part in parts for p in set(part)).values())


def test_a_retried_segment_has_the_same_reports(tmp_path, small_segments):
    """Also after its coins went through pickle, as on their way to a worker."""
    plan, columns = mechanism_plan("pckv_ue"), Columns("person", "key", "value")
    path = str(written(table().sort_by("person"), tmp_path / "table.parquet"))
    segment = table_segments.ParquetTable([path], columns).ranges()[1]
    work = PrivatiseSegment(ship(plan), Coins.for_job(), columns, None)
    once, again = work((1, segment)), pickle.loads(pickle.dumps(work))((1, segment))
    assert once.blocks == again.blocks
    assert once.reports > 10
    other = PrivatiseSegment(ship(plan), Coins.for_job(), columns, None)((1, segment))
    assert other.blocks != once.blocks
    assert "coins" not in repr(work)


def test_reports_that_are_too_many_to_be_returned_wait_on_disk(tmp_path, small_segments, monkeypatch):
    """The file is the same, byte for byte, and nothing is left of what waited."""
    plan, scratch = mechanism_plan("pckv_ue"), tmp_path / "scratch"
    path = written(table(), tmp_path / "table.parquet")
    privatise_files(path, plan, tmp_path / "returned.kv", HERE, coins=COINS)
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(privatising, "RETURNED", 100)
    made = []
    monkeypatch.setattr(StoredBlock, "read", lambda block: made.append(block) or READ(block))
    privatise_files(path, plan, tmp_path / "stored.kv", HERE, coins=COINS)
    assert (tmp_path / "stored.kv").read_bytes() == (tmp_path / "returned.kv").read_bytes()
    assert len(made) > 2
    assert not list(scratch.iterdir())


class Retrying(Engine):
    """An engine that loses the first results of all work, which goes through pickle as to a worker."""

    def __init__(self):
        self.lost = []

    def each(self, work, segments, progress=None):
        for segment in segments:
            self.lost.append(pickle.loads(pickle.dumps(work))(segment))
            yield pickle.loads(pickle.dumps(work))(segment)


class OnExecutor(Engine):
    """Any executor as an engine, as the docs have it."""

    def __init__(self, executor, shared):
        self.executor, self.on_one_machine = executor, not shared

    @property
    def workers(self):
        return 3

    def each(self, work, segments, progress=None):
        return iter(self.executor.map(work, segments))


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("order", ["sorted", "mixed"])
def test_an_engine_is_one_method(order, shared, tmp_path, small_segments, monkeypatch):
    """``each`` in threads, and results added up as they come, give what the local pool gives."""
    plan, rows = mechanism_plan("kvue"), table()
    path = written(
        rows.sort_by("person") if order == "sorted" else rows, tmp_path / "table.parquet", 100
    )
    monkeypatch.chdir(tmp_path)
    with ThreadPoolExecutor(3) as pool:
        engine = OnExecutor(pool, shared)
        made = privatise_files("table.parquet", plan, "reports/", engine, coins=COINS)
        assert made.reports == PEOPLE
        assert len(list((tmp_path / "reports").iterdir())) > 1
        assert tally_files("reports", plan, engine) == library_tally(plan, rows)
        assert broken_rows(path, plan, engine) == broken_rows(path, plan, HERE)
        assert engine.sum(len, []) is None
    assert sorted(name.name for name in tmp_path.iterdir()) == ["reports", "table.parquet"]


@pytest.mark.parametrize("coins", [None, COINS, Coins.secure()])
def test_secure_coins_have_one_key_for_all_tasks_of_a_job(coins, tmp_path, small_segments):
    """Else a task that runs again would send second, different reports of its people."""
    plan, engine = mechanism_plan("kvue"), Retrying()
    path = written(table().sort_by("person"), tmp_path / "table.parquet")
    privatise_files(path, plan, tmp_path / "reports.kv", engine, coins=coins)
    lost = b"".join(block for result in engine.lost for block in result.blocks)
    kept = b"".join(plan.packing.block(b) for b in reading(plan, tmp_path / "reports.kv"))
    assert len(engine.lost) > 3
    assert lost == kept
    stated = tally_files(tmp_path / "reports.kv", plan) == library_tally(plan, table())
    assert stated == (coins is COINS)


def test_coins_of_a_job_are_not_for_devices(tmp_path):
    with pytest.raises(CoinsError):
        Budget(tmp_path / "ledger.json", cap=4).answer(mechanism_plan("kvue"), {}, Coins.for_job())
    one, other = Coins.for_job(), Coins.for_job()
    assert one.words("a", 0, 4).tolist() == pickle.loads(pickle.dumps(one)).words("a", 0, 4).tolist()
    assert one.words("a", 0, 4).tolist() != other.words("a", 0, 4).tolist()


def test_a_group_larger_than_a_segment_is_sorted_on_disk(tmp_path, small_segments, monkeypatch):
    monkeypatch.setattr(table_segments, "LARGEST_GROUP", 300)
    plan, rows = mechanism_plan("kvue"), table().sort_by("person")
    path = written(rows, tmp_path / "table.parquet", 10_000)
    assert table_segments.ParquetTable([str(path)], Columns("person", "key", "value")).ranges() is None
    privatise_files(path, plan, tmp_path / "out.kv", HERE, coins=COINS)
    assert tally_files(tmp_path / "out.kv", plan) == library_tally(plan, rows)


@pytest.mark.parametrize("named", [False, True])
def test_people_of_a_sorted_part_come_a_few_at_a_time(named, tmp_path):
    """However many parts there are: the part of a person must not decide the chunk within it."""
    path = written(table(2_000, named=named), tmp_path / "people.parquet")
    columns, parts = Columns("person", "key", "value"), 16
    groups = RowGroups(str(path), 0, 1), RowGroups(str(path), 1, 9)
    counts = tuple(map(SortRows(str(tmp_path), columns, parts), enumerate(groups)))
    assert counts == (1, 1)
    for part in range(parts):
        rows = SegmentRows(SortedPart(str(tmp_path), counts, part), columns)
        chunks = list(read_people(Schema.of(KEYS, 1, 5), rows, chunk=20))
        assert sum(map(len, chunks)) > 60
        assert max(map(len, chunks)) < 40


def test_a_sorted_part_is_small_however_many_files_there_are():
    """Else what the driver of a cluster sends grows with the square of the rows."""
    few, many = (len(pickle.dumps(SortedPart("/lake", (2,) * n, 7))) for n in (1_000, 11_000))
    assert many - few < 3 * 10_000


def test_rows_that_are_sorted_into_several_files_are_all_read(tmp_path, small_segments, monkeypatch):
    monkeypatch.setattr(table_segments, "SORTED_BYTES", 2_000)
    plan, rows = mechanism_plan("kvue"), table()
    path = written(rows, tmp_path / "table.parquet")
    counts, sort = [], SortRows.__call__

    def counted(self, groups):
        counts.append(sort(self, groups))
        return counts[-1]

    monkeypatch.setattr(SortRows, "__call__", counted)
    privatise_files(path, plan, tmp_path / "out.kv", HERE, coins=COINS)
    assert min(counts) > 1
    assert tally_files(tmp_path / "out.kv", plan) == library_tally(plan, rows)


def test_a_script_without_a_guard_runs_once(tmp_path):
    """Processes of the pool do not run the caller's script again."""
    path = written(table(), tmp_path / "table.parquet")
    mechanism_plan("kvue").save(tmp_path / "plan.json")
    script = tmp_path / "script.py"
    script.write_text(
        "from keyveil import Plan, engines\n"
        "from keyveil.plan.engines import table_segments\n"
        "print('begins')\n"
        "table_segments.SEGMENT_ROWS = 300\n"
        "plan = Plan.load('plan.json')\n"
        f"made = engines.privatise_files({str(path)!r}, plan, 'out.kv', engines.LocalPool(2))\n"
        "print(made.reports, engines.tally_files('out.kv', plan).reports)\n"
    )
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.split() == ["begins", "600", "600"], done.stderr
    assert done.stderr == ""


# -- what it refuses -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Dies:
    """Work that ends its process, as the kernel does where memory is short."""

    def __call__(self, segment: int) -> int:
        os._exit(9)


def test_a_killed_process_is_one_clear_line():
    with pytest.raises(KeyveilError, match="ended from outside, most often for lack of memory"):
        TWO.sum(Dies(), [1, 2, 3])


@dataclass(frozen=True)
class LacksMemory:
    """Work that is in a file when memory runs out, in a process or in a thread."""

    in_threads: bool

    def __call__(self, path: Path) -> None:
        with readable(path):
            raise pa.ArrowMemoryError("malloc failed")


@pytest.mark.parametrize("in_threads", [False, True])
def test_short_memory_is_not_taken_for_a_damaged_file(in_threads, tmp_path):
    with pytest.raises(KeyveilError, match="memory is too short for 2 processes at once; take fewer"):
        TWO.sum(LacksMemory(in_threads), [tmp_path] * 2)


def test_there_is_at_least_one_process():
    with pytest.raises(KeyveilError, match="at least one process"):
        LocalPool(0)
    assert LocalPool().workers >= 1
    assert HERE.sum(len, []) is None
    assert issubclass(LocalPool, Engine)


BAD_TABLES = {
    "a column is missing": (table().drop_columns("value"), "column 'value' is not in the table"),
    "a person is missing": (
        pa.table({"person": [1, None], "key": ["Pepsi"] * 2, "value": [1.0, 2.0]}),
        "column 'person' has an empty cell",
    ),
    "a key twice": (
        pa.table({"person": [1, 1], "key": ["Pepsi"] * 2, "value": [1.0, 2.0]}),
        "a key appears twice",
    ),
    "an unknown key": (
        pa.table({"person": [1], "key": ["Tea"], "value": [1.0]}),
        "a key is not in the plan",
    ),
    "people are lists": (
        pa.table({"person": [[1]], "key": ["Pepsi"], "value": [1.0]}),
        "a person is named by a whole number or by text",
    ),
    "people are fractions": (
        pa.table({"person": [1.5], "key": ["Pepsi"], "value": [1.0]}),
        "a person is named by a whole number or by text",
    ),
}


@pytest.mark.parametrize("case", BAD_TABLES)
def test_bad_tables_are_refused_in_one_line_and_leave_nothing(case, tmp_path):
    rows, words = BAD_TABLES[case]
    path = written(rows, tmp_path / "table.parquet")
    for output in (f"{tmp_path}/reports/", tmp_path / "reports.kv"):
        with pytest.raises(KeyveilError, match=words) as refused:
            privatise_files(path, mechanism_plan("kvue"), output, HERE)
        assert "\n" not in str(refused.value)
    assert [p.name for p in tmp_path.iterdir()] == ["table.parquet"]


def test_lenient_rows_are_counted(tmp_path, small_segments):
    plan = mechanism_plan("kvue")
    rows = pa.table(
        {
            "person": [1, 1, 2, 3, 3, 4],
            "key": ["Tea", "Soup", "Soup", "Soup", "Soup", None],
            "value": [1.0, 9.0, None, 2.0, 3.0, 4.0],
        }
    )
    path = written(rows, tmp_path / "table.parquet")
    made = privatise_files(path, plan, tmp_path / "out.kv", TWO, lenient=True)
    assert made.reports == 4
    rules = ("unknown_key", "no_number", "outside_range", "no_key", "repeated")
    assert made.mapped == dict.fromkeys(rules, 1)
    for engine in (HERE, TWO):
        assert broken_rows(path, plan, engine) == made.mapped
    assert broken_rows(written(table(), tmp_path / "good.parquet"), plan, HERE) == {}


@pytest.mark.parametrize("order", ["sorted", "mixed"])
def test_a_refusal_of_a_large_table_says_how_many_rows_break_each_rule(
    order, tmp_path, small_segments, monkeypatch, capsys
):
    """In all segments, not only in the one that failed first; the sorted rows leave nothing behind."""
    monkeypatch.chdir(tmp_path)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    monkeypatch.setattr(tempfile, "tempdir", None)
    mechanism_plan("kvue").save("plan.json")
    names = {"person": [1, 599, 599, 2], "key": ["Tea", "Tea", "Soup", "Soup"], "value": [1.0, 2, 9, 0]}
    rows = pa.concat_tables([table(), pa.table(names)])
    written(rows.sort_by("person") if order == "sorted" else rows, tmp_path / "people.parquet")
    assert run(["privatise", "plan.json", "people.parquet", "-o", "reports/", "--processes", "2"]) == 1
    assert capsys.readouterr().err.splitlines()[-1] == (
        "keyveil: people.parquet has 2 rows with a key that the plan does not list, 2 rows with a value "
        "outside 1 to 5, 2 rows with a key that its person has already; --lenient drops unknown keys, "
        "clips values, takes the first of repeated rows"
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["people.parquet", "plan.json", "scratch"]
    assert not list(scratch.glob("*keyveil*"))


def test_files_that_name_people_in_two_ways_are_refused(tmp_path):
    written(table(20), tmp_path / "a.parquet")
    written(table(20, named=True), tmp_path / "b.parquet")
    with pytest.raises(TableError, match="numbers in some files and text in others"):
        privatise_files(tmp_path, mechanism_plan("kvue"), tmp_path / "out.kv")


def test_a_folder_with_files_is_not_written_into(tmp_path):
    path = written(table(20), tmp_path / "table.parquet")
    with pytest.raises(KeyveilError, match="is not an empty folder"):
        privatise_files(path, mechanism_plan("kvue"), f"{tmp_path}/")


def report_file(plan: Plan, tmp_path):
    path = written(table(50), tmp_path / "table.parquet")
    privatise_files(path, plan, f"{tmp_path}/reports/", HERE)
    (part,) = (tmp_path / "reports").glob("*.parquet")
    return part


def test_reports_of_another_plan_are_refused_before_any_work(tmp_path):
    part, other = report_file(mechanism_plan("kvue"), tmp_path), mechanism_plan("rr")
    with pytest.raises(ReportError, match="the reports belong to another plan"):
        tally_files(part, other, NoWork())


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_a_plan_of_another_version_is_refused_before_an_engine_starts(
    engine, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    part = report_file(mechanism_plan("kvue"), tmp_path)
    text = mechanism_plan("kvue").dumps()
    assert text.count("keyveil/plan/1") == 1
    (tmp_path / "plan.json").write_text(text.replace("keyveil/plan/1", "keyveil/plan/9"))
    monkeypatch.setitem(sys.modules, "pyspark", None)  # a start of Spark would fail, in another line
    for words in (("privatise", "plan.json", "table.parquet"), ("tally", "plan.json", str(part))):
        assert run([*words, "-o", "out/", "--engine", engine]) == 1
        lines = capsys.readouterr().err.strip().splitlines()
        assert len(lines) == 1
        assert "keyveil/plan/9" in lines[0]
        assert "pyspark" not in lines[0]
    assert not (tmp_path / "out").exists()


class NoWork(Engine):
    """An engine that must not be asked."""

    def sum(self, work, segments, progress=None):
        raise AssertionError("work began")

    each = sum


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"cell": [1, 2]}, "columns code; 'code' is missing"),
        ({"code": [1, None]}, "has an empty cell"),
        ({"code": ["1", "2"]}, "it must be whole numbers"),
        ({"code": [0, 1 << 20]}, "no honest device"),
        ({"code": [0, -1]}, "no honest device"),
    ],
)
def test_bad_columns_of_reports_are_refused(columns, words, tmp_path):
    pq.write_table(pa.table(columns), tmp_path / "reports.parquet")
    with pytest.raises(ReportError, match=rf"^{tmp_path}/reports.parquet: .*{words}"):
        tally_files(tmp_path / "reports.parquet", mechanism_plan("kvue"))


@pytest.mark.parametrize("name", ["kvue", "pckv_ue"])
def test_forms_of_reports_and_tallies_add_up(name, tmp_path):
    """Parquet, packed, JSON lines, signed columns as Spark writes them, and tallies."""
    plan = mechanism_plan(name)
    part = report_file(plan, tmp_path)
    once = tally_files(part, plan)
    rows = pq.read_table(part)
    signed = {n: rows[n].cast(pa.int64()) for n in rows.column_names if n != "bits"}
    signed |= {n: rows[n].cast(pa.binary()) for n in rows.column_names if n == "bits"}
    pq.write_table(pa.table(signed), tmp_path / "signed.parquet")
    with writing(plan, tmp_path / "packed.kv") as writer:
        for segment in report_segments.segments_of(plan, str(part)):
            for batch in segment.reports(plan):
                writer.add(batch)
    once.save(tmp_path / "tally.kv")
    report = plan.report({"Pepsi": 4})
    (tmp_path / "lines.jsonl").write_text(report.dumps() + "\n")
    names = ("signed.parquet", "packed.kv", "tally.kv", "lines.jsonl")
    files = [part, *(tmp_path / name for name in names)]
    assert tally_files(files, plan) == sum([once] * 4, Tally(plan).add(report))


def test_a_damaged_file_is_named(tmp_path):
    part = report_file(mechanism_plan("kvue"), tmp_path)
    whole = part.read_bytes()
    for broken in (
        whole[:-9],
        whole[:4] + bytes(40) + whole[44:],
    ):  # its end, or its pages
        part.write_bytes(broken)
        with pytest.raises(ReportError, match=rf"^{part}: (the Parquet file|cannot .*) .*damaged"):
            tally_files(part, mechanism_plan("kvue"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(ReportError, match="has no files of data"):
        tally_files(tmp_path / "empty", mechanism_plan("kvue"))
    with pytest.raises(KeyveilError, match="No such file") as refused:
        tally_files(tmp_path / "absent", mechanism_plan("kvue"))
    assert refused.type is KeyveilError, "nothing is known of its content"


def test_values_may_be_left_out_only_where_they_do_not_matter(tmp_path):
    path = written(table().drop_columns("value"), tmp_path / "table.parquet")
    with pytest.raises(TableError, match="name the column of values"):
        privatise_files(path, mechanism_plan("kvue"), tmp_path / "out.kv", value=None)
    plan = Plan.of(Schema.of(["Pepsi", "Fries", "Salad", "Soup"]), "rr", 1)
    assert privatise_files(path, plan, tmp_path / "out.kv", HERE, value=None).reports == 600


@pytest.mark.parametrize("place", ["s3a://lake/people", "hdfs://host:9000/people", "file:///people"])
def test_an_address_is_not_taken_for_a_path(place, tmp_path, monkeypatch):
    """Else reports would go into a folder of this machine that is called s3a:."""
    monkeypatch.chdir(tmp_path)
    plan = mechanism_plan("kvue")
    written(table(), tmp_path / "table.parquet")
    for refused in (
        lambda: privatise_files(place, plan, "reports/", HERE),
        lambda: privatise_files("table.parquet", plan, f"{place}/", HERE),
        lambda: broken_rows(place, plan, HERE),
        lambda: tally_files([place], plan, HERE),
    ):
        with pytest.raises(KeyveilError, match="is an address, not a path: mount this storage"):
            refused()
    assert [path.name for path in tmp_path.iterdir()] == ["table.parquet"]


def test_a_path_is_not_taken_for_a_plan(tmp_path):
    path = written(table(), tmp_path / "table.parquet")
    with pytest.raises(PlanError, match=r"this takes a plan, not str: Plan.load\(path\) reads one"):
        privatise_files(path, "plan.json", tmp_path / "reports.kv", HERE)
