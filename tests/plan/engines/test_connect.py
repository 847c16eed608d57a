"""Sessions of Spark Connect, which have neither a SparkContext nor RDDs, on a server of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from base64 import b64encode
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from engine_cases import COINS, KEYS, library_tally, mechanism_plan, rows_for, table, written
from spark_cluster import HERE, ConnectServer, environment, wait_until, without_pandas_warning

import keyveil as kv
from keyveil import Coins, KeyveilError, Plan, RecordError, ReportError, Schema, TableError, Tally
from keyveil.people.population import Population
from keyveil.people.tables import people_of
from keyveil.plan.engines import (
    LocalPool,
    SparkEngine,
    privatise_files,
    spark_engine,
    spark_frames,
    table_segments,
    tally_files,
)
from keyveil.plan.engines.spark_engine import context_of
from keyveil.plan.engines.stream_state import StreamState
from keyveil.simulate import simulate_on, simulation_segments
from keyveil.testing import example_plan

ROWS = "person int, key string, value double"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    started = ConnectServer(tmp_path_factory.mktemp("connect"))
    yield started
    started.stop()


@pytest.fixture(scope="module")
def remote(server):
    """A session of the server, also if this process has a classic one for other tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")  # as SparkSession.builder.remote does
        with without_pandas_warning():
            from pyspark.sql.connect.session import SparkSession
        session = SparkSession.builder.remote(server.url).getOrCreate()
        assert context_of(session) is None
        yield session
        session.stop()


@pytest.fixture(scope="module")
def frame(remote):
    """Everyone's rows as a DataFrame of several partitions."""
    return remote.createDataFrame(table()).repartition(3)


# -- DataFrames ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["kvue", "pckv_ue", "several", "pairs"])
def test_a_frame_has_the_tally_of_the_library(name, frame):
    plan = mechanism_plan(name)
    lenient = len(plan.schema.keys) < len(KEYS)
    reports = kv.spark.privatise(frame, plan, coins=COINS, lenient=lenient)
    assert kv.spark.tally(reports, plan) == library_tally(plan, rows_for(plan, table()))


def test_large_tallies_are_added_up_in_several_tasks(frame, monkeypatch):
    tasks = []
    add_in_tasks = spark_frames.add_in_tasks

    def recorded(results, number):
        tasks.append(number)
        return add_in_tasks(results, number)

    monkeypatch.setattr(spark_frames, "add_in_tasks", recorded)
    plan, reports = mechanism_plan("kvue"), frame.repartition(5)
    for large in (spark_frames.LARGE, 8 * (2 + plan.layout.cells) // 2):
        monkeypatch.setattr(spark_frames, "LARGE", large)
        made = kv.spark.privatise(reports, plan, coins=COINS)
        assert kv.spark.tally(made, plan) == library_tally(plan, table())
    assert tasks == [1, 3]


def test_lenient_rows_are_counted_by_rule(remote):
    plan = mechanism_plan("kvue")
    rows = [(2, "Pepsi", 3.0), (2, "Pepsi", 1.0), (3, None, None), (1, "Tea", 1.0)]
    rows += [(1, "Pepsi", None), (3, None, 2.0), (1, "Pepsi", 6.0)]
    broken = remote.createDataFrame(rows, ROWS)
    expected = {"unknown_key": 1, "no_key": 1, "no_number": 1, "outside_range": 1, "repeated": 1}
    assert kv.spark.broken_rows(broken, plan) == expected
    lowest = remote.createDataFrame([(1, "Pepsi", 5.0), (2, "Pepsi", 1.0), (3, None, None)], ROWS)
    reports = kv.spark.privatise(broken, plan, lenient=True, coins=COINS)
    assert kv.spark.tally(reports, plan) == library_tally(plan, lowest.toArrow())


def test_bad_reports_are_refused_or_counted(remote):
    plan = mechanism_plan("pckv_ue")
    good = [plan.report({"Pepsi": 4}, COINS, n) for n in range(20)]
    expected = Tally(plan).add(good)
    rows = [tuple(row) for row in _columns(plan, good)]
    bad = [(None, b"\0"), (7, b"\0"), (0, b"\0\0\0"), (0, None)]
    mixed = remote.createDataFrame(rows + bad, "view long, bits binary")
    with pytest.raises(ReportError):
        kv.spark.tally(mixed, plan)
    rejected: Counter[str] = Counter()
    assert kv.spark.tally(mixed, plan, rejected=rejected) == expected
    assert rejected == {"empty": 2, "impossible": 2}
    assert kv.spark.tally(remote.createDataFrame([], mixed.schema), plan) == Tally(plan)


def _columns(plan, reports):
    from keyveil.plan.engines.report_columns import to_batch

    cells = plan.packing.batch_of([report.cells for report in reports])
    batch = to_batch(cells, plan.packing, signed=True)
    return zip(*(column.to_pylist() for column in batch.columns), strict=True)


def test_reports_of_another_plan_are_refused(frame):
    plan, other = mechanism_plan("kvue"), example_plan(Schema.of(KEYS, 1, 5), "kvue", 1)
    own, foreign = kv.spark.privatise(frame, plan), kv.spark.privatise(frame, other)
    with pytest.raises(ReportError, match="the reports belong to another plan"):
        kv.spark.tally(foreign, plan)
    with pytest.raises(ReportError, match=f"belong to another plan .not {plan.hash[:12]}") as refused:
        kv.spark.tally(own.union(foreign), plan)
    assert "\n" not in str(refused.value)


def test_columns_are_checked_before_a_job_starts(remote):
    plan = mechanism_plan("kvue")
    both = remote.createDataFrame([], "person int, key string, value double, KEY string")
    with pytest.raises(TableError, match=r"AMBIGUOUS_REFERENCE\] Reference `key` is ambiguous"):
        kv.spark.privatise(both, plan)
    text = remote.createDataFrame([], "person int, key string, value string")
    with pytest.raises(TableError, match="values must be numbers"):
        kv.spark.privatise(text, plan)
    with pytest.raises(ReportError, match="columns code; 'code' is missing"):
        kv.spark.tally(text, plan)
    with pytest.raises(TableError, match="this takes a DataFrame of Spark, not str"):
        kv.spark.tally("reports", plan)
    with pytest.raises(TableError, match="a stored DataFrame, not a stream"):
        kv.spark.tally(remote.readStream.format("rate").load(), plan)


@pytest.mark.parametrize("whole", ["true", "false"])
def test_a_bad_row_ends_the_job_in_one_line(whole, remote):
    """Also if the server sends the beginning of an error alone, with all frames of its traceback."""
    plan, bad = mechanism_plan("kvue"), remote.createDataFrame([(1, "Tea", 1.0)], ROWS)
    names = ("spark.sql.connect.enrichError.enabled",)
    names += ("spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled",)
    before = {name: remote.conf.get(name) for name in names}
    try:
        for name in names:
            remote.conf.set(name, whole)
        with pytest.raises(RecordError, match="a key is not in the plan") as refused:
            kv.spark.tally(kv.spark.privatise(bad, plan), plan)
        with pytest.raises(KeyveilError, match=r"No such file or directory: .*must read and write"):
            SparkEngine(remote).sum(_open_deeply, [50])
    finally:
        for name, value in before.items():
            remote.conf.set(name, value)
    assert "\n" not in str(refused.value)
    assert "Tea" not in str(refused.value)
    assert "kv.spark.broken_rows(df, plan) counts rows" in str(refused.value)


def test_the_key_of_a_job_is_not_in_the_servers_log(remote, server):
    """The client sends it with the job. The log has the job's traceback, so it has what jobs leave."""
    plan, coins = mechanism_plan("kvue"), Coins.for_job()
    before = server.log.read_bytes().count(b"a key is not in the plan")
    bad = remote.createDataFrame([(1, "Tea", 1.0)], ROWS)
    with pytest.raises(RecordError):
        kv.spark.tally(kv.spark.privatise(bad, plan, coins=coins), plan)
    wait_until(
        lambda: server.log.read_bytes().count(b"a key is not in the plan") > before, "no traceback"
    )
    key, log = coins._current_key(), server.log.read_bytes()
    forms = {key, key.hex().encode(), b64encode(key), repr(key).encode()[2:-1]}
    assert {form for form in forms if form in log} == set()


def _open_deeply(depth: int) -> int:
    """An error of the system whose traceback is longer than what a server sends of it."""
    return _open_deeply(depth - 1) if depth else open("/no/such/file").fileno()


# -- the engine ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WhereItRuns:
    """Says where a segment is worked on. The first try of some ends its process."""

    folder: str

    def __call__(self, segment: int) -> list[tuple[int, int]]:
        from pyspark import TaskContext

        first = Path(self.folder, str(segment))
        if segment % 8 == 3 and not first.exists():
            first.touch()
            os._exit(9)
        return [(segment, TaskContext.get().partitionId())]


def test_each_segment_is_a_task_and_a_lost_one_runs_again(remote, tmp_path, monkeypatch):
    """The results are in order, whatever Spark does with partitions; sums have each once."""
    monkeypatch.setattr(spark_engine, "FEW", 6)
    monkeypatch.setattr(spark_engine, "ADDERS", 2)
    engine, work, number = SparkEngine(remote), WhereItRuns(str(tmp_path)), 12
    done: list[tuple[int, int | None]] = []
    results = list(engine.each(work, range(number), lambda *place: done.append(place)))
    assert results == [[(segment, segment)] for segment in range(number)]
    assert done == [(segment + 1, number) for segment in range(number)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["11", "3"], "two tasks were lost"
    assert sorted(engine.sum(work, range(number))) == [(segment, segment) for segment in range(number)]
    assert engine.sum(work, [0, 1]) == [(0, 0), (1, 1)]
    assert (engine.sum(work, []), list(engine.each(work, []))) == (None, [])
    assert engine.workers == 3, "spark.sql.leafNodeDefaultParallelism"


def test_workers_that_die_are_one_line(remote):
    with pytest.raises(KeyveilError, match="a worker was ended several times") as refused:
        SparkEngine(remote).sum(os._exit, [9])
    assert "\n" not in str(refused.value)


def test_files_have_the_tally_of_the_library(remote, tmp_path, monkeypatch):
    monkeypatch.setattr(table_segments, "SEGMENT_ROWS", 500)
    plan, engine = mechanism_plan("pckv_ue"), SparkEngine(remote)
    rows = written(table(), tmp_path / "people.parquet")
    made = privatise_files(rows, plan, f"{tmp_path}/reports/", engine, coins=COINS)
    assert made.reports == 600
    assert len(list((tmp_path / "reports").iterdir())) > 1
    expected = library_tally(plan, table())
    assert tally_files(tmp_path / "reports", plan, engine) == expected
    assert kv.spark.tally(remote.read.parquet(f"{tmp_path}/reports"), plan) == expected
    with pytest.raises(ReportError, match="the columns code; 'code' is missing"):
        tally_files(tmp_path / "reports", mechanism_plan("kvue"), engine)


@pytest.mark.sampled  # compared with itself on another engine, so exactly
def test_simulations_are_the_same_on_every_engine(remote, monkeypatch):
    monkeypatch.setattr(simulation_segments, "SEGMENT_PEOPLE", 3000)
    plan = mechanism_plan("pairs")
    population = Population(plan.schema, people_of(plan.schema, table()))
    made = kv.spark.simulate(plan, population, 10_000, COINS, session=remote)
    assert made == simulate_on(LocalPool(1), plan, population, 10_000, COINS)


# -- streams ---------------------------------------------------------------------------------------


def report_files(plan: Plan, folder: Path, numbers: range) -> None:
    folder.mkdir(exist_ok=True)
    for number in numbers:
        rows = written(table(50, seed=number), folder.parent / "rows.parquet")
        privatise_files(rows, plan, folder / f"{number:03d}.kv", LocalPool(1))


def test_a_stream_counts_files_once(remote, tmp_path, monkeypatch):
    """The batches are added by a Python of the server; the client reads the same folder."""
    plan, inbox = mechanism_plan("kvue"), tmp_path / "inbox"
    report_files(plan, inbox, range(2))
    (inbox / "bad.kv").write_bytes((inbox / "000.kv").read_bytes()[:-20])
    monkeypatch.chdir(tmp_path)  # the server has another one
    for files in (range(2), range(2, 3)):
        report_files(plan, inbox, files)
        running = kv.spark.running_tally("inbox", plan, "state", session=remote, available_now=True)
        running.query.awaitTermination()
        assert running.tally == tally_files(sorted(inbox.glob("0*.kv")), plan)
        assert [Path(name).name for name in running.rejected] == ["bad.kv"]
    assert running.tally.reports == 150


def test_a_stream_of_messages_needs_a_folder_that_both_see(remote, tmp_path, monkeypatch):
    from pyspark.errors import StreamingQueryException

    plan = mechanism_plan("pckv_ue")
    reports = [plan.report({"Pepsi": 4}, COINS, n) for n in range(30)]
    folder, state = tmp_path / "texts", tmp_path / "state"
    folder.mkdir()
    (folder / "messages.txt").write_text("\n".join([*(r.dumps() for r in reports), "no report"]))
    source = remote.readStream.format("text").load(str(folder))
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(StreamState, "mark", lambda own: setattr(own, "_mark", "on another machine"))
        running = kv.spark.running_tally(source, plan, state, available_now=True)
    with pytest.raises(StreamingQueryException) as refused:
        running.query.awaitTermination()
    ours = [line for line in str(refused.value).splitlines() if line.startswith("keyveil.")]
    assert f"KeyveilError: the server of Spark Connect sees another folder {state}" in ours[0]
    assert running.tally == Tally(plan)
    running = kv.spark.running_tally(source, plan, state, available_now=True)
    running.query.awaitTermination()
    assert running.tally == Tally(plan).add(reports)
    assert running.rejected == {"impossible": 1}


# -- as users do -----------------------------------------------------------------------------------


def test_the_lines_of_the_docs_run_without_java(server, tmp_path):
    """The block of code and the command, with this server's address, in processes of their own."""
    page = (HERE.parents[2] / "docs" / "scale.md").read_text()
    section = page.split("### Spark Connect\n")[1].split("\n### ")[0]
    (code,) = re.findall(r"```py\n(.*?)```", section, re.DOTALL)
    (line,) = re.findall(r"^keyveil tally .*--master sc://\S+$", section, re.MULTILINE)
    plan = mechanism_plan("kvue")
    plan.save(tmp_path / "plan.json")
    rows = written(table(), tmp_path / "people.parquet")
    privatise_files(rows, plan, f"{tmp_path}/reports/", LocalPool(1), coins=COINS)
    own = {"/lake": str(tmp_path), "sc://host:15002": server.url}
    code, line = (re.sub("|".join(own), lambda found: own[found[0]], text) for text in (code, line))
    env = {**environment(), "JAVA_HOME": "/none", "SPARK_HOME": ""}
    script = f"import json, keyveil as kv\n{code}\nprint(json.dumps([tally.reports, counted.reports]))\n"
    words = line.split()
    for command in (
        [sys.executable, "-c", script],
        [str(Path(sys.executable).parent / "keyveil"), *words[1:]],
    ):
        done = subprocess.run(
            command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        if command[1] == "-c":
            assert json.loads(done.stdout.splitlines()[-1]) == [600, 600]
    assert Tally.load(plan, tmp_path / "tally.kv") == library_tally(plan, table())
