"""Spark on a real cluster: the identical tally, also if a worker or the driver is lost on the way."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from base64 import b64encode
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from engine_cases import (
    COINS,
    KEYS,
    PEOPLE,
    library_tally,
    mechanism_plan,
    rows_for,
    table,
    written,
)
from spark_cluster import environment, wait_until

import keyveil as kv
from keyveil import (
    REGISTRY,
    Coins,
    KeyveilError,
    Plan,
    PlanError,
    RecordError,
    ReportError,
    Schema,
    TableError,
    Tally,
)
from keyveil.cli.command import run
from keyveil.people.population import Population
from keyveil.people.tables import people_of
from keyveil.plan.engines import (
    LocalPool,
    SparkEngine,
    privatise_files,
    spark_frames,
    table_segments,
    tally_files,
)
from keyveil.plan.engines.spark_engine import map_in_arrow
from keyveil.service.collector.operations.export import export
from keyveil.simulate import simulate_on, simulation_segments
from keyveil.testing import example_plan


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_every_mechanism_has_the_tally_of_the_library(name, frame):
    plan = mechanism_plan(name)
    lenient = len(plan.schema.keys) < len(KEYS)
    reports = kv.spark.privatise(frame, plan, coins=COINS, lenient=lenient)
    assert kv.spark.tally(reports, plan) == library_tally(plan, rows_for(plan, table()))


def test_columns_may_have_any_names(spark):
    """Also names with a dot, or those that a join within ``broken_rows`` uses."""
    plan, rows = mechanism_plan("pairs"), table(200)
    names = {"person": "name", "key": "person.key", "value": "`low"}
    frame = spark.createDataFrame(rows.rename_columns([*names.values()]))
    assert kv.spark.broken_rows(frame, plan, **names) == {}
    made = kv.spark.privatise(frame, plan, lenient=True, coins=COINS, **names)
    assert kv.spark.tally(made, plan) == library_tally(plan, rows)


def test_keys_need_no_values_where_these_do_not_matter(spark, tmp_path):
    plan, rows = Plan.of(Schema.of(KEYS), "rr", 1), table(200)
    made = kv.spark.privatise(spark.createDataFrame(rows), plan, value=None, coins=COINS)
    path = written(rows, tmp_path / "table.parquet")
    privatise_files(path, plan, tmp_path / "reports.kv", LocalPool(1), value=None, coins=COINS)
    assert kv.spark.tally(made, plan) == tally_files(tmp_path / "reports.kv", plan)


@pytest.mark.parametrize("form", ["long", "named", "pairs", "twice"])
def test_forms_of_tables(form, spark):
    """Text names, records in an array of structs, and people whose pairs are in several arrays."""
    plan, rows = mechanism_plan("pairs"), table(200, named=form == "named")
    records: dict[object, list[dict[str, object]]] = {}
    for person, key, value in zip(*(column.to_pylist() for column in rows.columns), strict=True):
        pair = [] if key is None else [{"key": key, "value": value}]
        records.setdefault(person, []).extend(pair)
    if form in ("long", "named"):
        made = kv.spark.privatise(spark.createDataFrame(rows).repartition(5), plan, coins=COINS)
    else:
        people = list(records.items())
        if form == "twice":
            people = [(p, part) for p, held in people for part in (held[:1], held[1:])]
        kind = "person long, held array<struct<key: string, value: double>>"
        frame = spark.createDataFrame(people, kind)
        made = kv.spark.privatise(frame, plan, pairs="held", coins=COINS)
    assert kv.spark.tally(made, plan) == library_tally(plan, rows)


def test_files_go_by_path_and_frames_by_parquet(spark, tmp_path, monkeypatch):
    """What Spark writes the local pool reads, and the other way round; unordered rows are sorted."""
    monkeypatch.setattr(table_segments, "SEGMENT_ROWS", 500)
    plan, engine = mechanism_plan("pckv_ue"), SparkEngine(spark)
    expected = library_tally(plan, table())
    (tmp_path / "tables").mkdir()
    for place, first in enumerate(range(0, table().num_rows, 400)):
        written(table().slice(first, 400), tmp_path / "tables" / f"{place}.parquet")
    made = privatise_files(tmp_path / "tables", plan, f"{tmp_path}/reports/", engine, coins=COINS)
    assert made.reports == PEOPLE
    assert len(list((tmp_path / "reports").iterdir())) > 1
    assert tally_files(tmp_path / "reports", plan, engine) == expected
    assert tally_files(tmp_path / "reports", plan, LocalPool(1)) == expected
    rows = spark.read.parquet(str(tmp_path / "reports"))
    assert kv.spark.tally(rows, plan) == expected
    frame = spark.read.parquet(str(tmp_path / "tables"))
    kv.spark.privatise(frame, plan, coins=COINS).write.parquet(str(tmp_path / "frames"))
    assert tally_files(tmp_path / "frames", plan) == expected
    again = spark.read.parquet(str(tmp_path / "frames"))
    assert kv.spark.tally(again, plan) == expected
    other = mechanism_plan("signed_ue")
    for refused in (
        lambda: kv.spark.tally(again, other),
        lambda: tally_files(tmp_path / "frames", other),
    ):
        with pytest.raises(ReportError, match="the reports belong to another plan"):
            refused()


@pytest.mark.parametrize("name", ["kvue", "pckv_ue"])
def test_reports_of_two_plans_are_never_counted_as_one(name, spark, tmp_path):
    """A union of frames, and files in one folder, have the columns of one of both plans."""
    plan, other = mechanism_plan(name), example_plan(Schema.of(KEYS, 1, 5), name, 1)
    frame, folder = spark.createDataFrame(table(100)), str(tmp_path / "reports")
    own, foreign = kv.spark.privatise(frame, plan), kv.spark.privatise(frame, other)
    expected = kv.spark.tally(own, plan)
    own.write.parquet(folder)
    foreign.write.mode("append").parquet(folder)
    union = own.union(foreign)
    with pytest.raises(ReportError, match=f"belong to another plan .not {plan.hash[:12]}") as refused:
        kv.spark.tally(union, plan)
    assert "\n" not in str(refused.value)
    with pytest.raises(ReportError, match="belong to another plan"):
        tally_files(folder, plan)
    in_folder = spark.read.parquet(folder)
    for each in (plan, other):
        with pytest.raises(ReportError, match="belong to another plan"):
            kv.spark.tally(in_folder, each)
    rejected: Counter[str] = Counter()
    assert kv.spark.tally(union, plan, rejected=rejected) == expected
    assert rejected == {"impossible": 100}


def test_the_command_runs_on_spark(spark, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    plan = mechanism_plan("kvue")
    plan.save("plan.json")
    written(table(), tmp_path / "people.parquet")
    words = ["privatise", "plan.json", "people.parquet", "--coins", "engines", "--engine", "spark"]
    assert run([*words, "-o", "reports.kv"]) == 1
    assert "a cluster writes a folder of reports: end its name with a slash" in capsys.readouterr().err
    assert run([*words, "-o", "reports/"]) == 0
    assert run(["tally", "plan.json", "reports", "-o", "tally.kv", "--engine", "spark"]) == 0
    assert "tally.kv: 600 reports" in capsys.readouterr().out
    assert Tally.load(plan, "tally.kv") == library_tally(plan, table())
    assert run(["estimate", "plan.json", "tally.kv"]) == 0


def test_a_bad_row_ends_the_command_in_one_line_and_leaves_nothing(spark, tmp_path, monkeypatch, capsys):
    """Rows of one segment are good, so its task has written reports when the other one fails."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(table_segments, "SEGMENT_ROWS", 500)
    mechanism_plan("kvue").save("plan.json")
    rows = table().sort_by("person")
    bad = pa.table({"person": [PEOPLE, 0], "key": ["Tea", "Tea"], "value": [1.0, 1.0]})
    written(pa.concat_tables([rows, bad]), tmp_path / "people.parquet")
    words = ["privatise", "plan.json", "people.parquet", "-o", "reports/", "--engine", "spark"]
    assert run(words) == 1
    shown = capsys.readouterr()
    assert len(shown.err.splitlines()) == 1
    counted = "people.parquet has 2 rows with a key that the plan does not list; --lenient drops unknown"
    assert counted in shown.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["people.parquet", "plan.json"]
    assert run([*words, "--lenient"]) == 0
    assert "2 rows with a key that the plan does not list" in capsys.readouterr().err


def test_spark_reads_what_a_collector_sends(spark, file_desk, tmp_path):
    from desk import fresh, plan_of

    plan, day = plan_of("pckv_ue"), 86_400
    file_desk.create("menu", plan)
    assert file_desk.send(fresh(40, plan), plan=plan.hash).status_code == 200
    file_desk.clock.advance(3 * day)
    file_desk.keep()
    export(file_desk.store, file_desk.folder / "segments", "menu", tmp_path / "lake")
    expected = Tally.parse(plan, file_desk.get("/v1/collections/menu/tally").content)
    assert expected.reports == 40
    lake = tmp_path / "lake"
    assert tally_files(lake, plan, SparkEngine(spark)) == expected
    options = {"recursiveFileLookup": True, "pathGlobFilter": "*.parquet"}
    rows = spark.read.options(**options).parquet(str(lake / "round-0001"))
    assert kv.spark.tally(rows, plan) == expected
    running = kv.spark.running_tally(lake, plan, tmp_path / "state", session=spark, available_now=True)
    running.query.awaitTermination()
    assert (running.tally, running.rejected) == (expected, {})


# -- what goes to the driver, and to Python ----------------------------------------------------------


def bytes_to_driver(spark, work) -> int:
    """Bytes that all tasks of the work sent to the driver, as Spark counts them."""
    context, gateway = spark.sparkContext._jsc.sc(), spark.sparkContext._gateway

    def stages():
        context.listenerBus().waitUntilEmpty()
        none, quantiles = gateway.jvm.java.util.ArrayList(), gateway.new_array(gateway.jvm.double, 0)
        listed = context.statusStore().stageList(none, False, False, quantiles, none)
        own = [listed.apply(place) for place in range(listed.size())]
        return {stage.stageId(): stage.resultSize() for stage in own}

    before = stages()
    work()
    after = stages()
    assert set(before) < set(after)
    return sum(size for stage, size in after.items() if stage not in before)


def test_the_driver_gets_tallies_and_no_reports(spark, tmp_path, monkeypatch):
    """Ten times the reports in as many tasks send less than a byte for each of them."""
    monkeypatch.setattr(table_segments, "SEGMENT_ROWS", 1 << 20)
    plan, engine = mechanism_plan("several"), SparkEngine(spark)
    few, many = 300, 3_000
    jobs = {}
    for people in (few, many):
        path = written(table(people).sort_by("person"), tmp_path / f"{people}.parquet", 4 * many)
        output = f"{tmp_path}/{people}/"
        reports = kv.spark.privatise(spark.read.parquet(str(path)), plan)
        jobs[people] = {
            "privatise files": lambda p=path, o=output: privatise_files(p, plan, o, engine),
            "tally files": lambda o=output: tally_files(o, plan, engine),
            "tally": lambda r=reports: kv.spark.tally(r, plan),
            "collect": lambda r=reports: r.collect(),
        }
    more = {
        name: bytes_to_driver(spark, jobs[many][name]) - bytes_to_driver(spark, work)
        for name, work in jobs[few].items()
    }
    assert more.pop("collect") > many - few, "the broken twin: reports that go to the driver are seen"
    assert {name for name, size in more.items() if abs(size) >= 1_000} == set()


def test_rows_go_to_python_in_arrow_batches_alone(frame, monkeypatch):
    """The plans of Spark for all that is done with rows have no other operator of Python."""
    seen = []

    def recorded(rows, work, schema):
        seen.append(map_in_arrow(rows, work, schema))
        return seen[-1]

    monkeypatch.setattr(spark_frames, "map_in_arrow", recorded)
    plan = mechanism_plan("pairs")
    assert kv.spark.tally(kv.spark.privatise(frame, plan), plan).reports == PEOPLE
    kinds = [operators_of_python(rows) for rows in seen]
    assert kinds == [["MapInArrow"], ["MapInArrow"] * 2]
    assert seen[1].count() == seen[1].rdd.getNumPartitions(), "a row for each task"
    from pyspark.sql.functions import udf

    alone = frame.withColumn("key", udf(str, "string", useArrow=False)("key"))
    assert operators_of_python(alone) == ["BatchEvalPython"]


def test_the_key_of_a_job_is_in_no_log(spark, cluster, frame):
    """After a job that ended well, and after one whose traceback the executors' logs have."""

    def logs() -> bytes:
        paths = (path for path in cluster.folder.rglob("*") if path.is_file())
        return b"".join(p.read_bytes() for p in paths if p.suffix == ".log" or p.name.startswith("std"))

    def forms(key: bytes) -> set[bytes]:
        return {key, key.hex().encode(), b64encode(key), repr(key).encode()[2:-1]}

    plan, coins, before = mechanism_plan("kvue"), Coins.for_job(), logs().count(b"RecordError")
    assert kv.spark.tally(kv.spark.privatise(frame, plan, coins=coins), plan).reports == PEOPLE
    bad = spark.createDataFrame([BAD_ROWS["a key is not in the plan"]], ROWS)
    with pytest.raises(RecordError):
        kv.spark.tally(kv.spark.privatise(bad, plan, coins=coins), plan)
    wait_until(lambda: logs().count(b"RecordError") > before, "the logs have no traceback")
    twin = os.urandom(32)
    spark.sparkContext.parallelize([twin.hex()], 1).foreach(logging.warning)
    wait_until(lambda: twin.hex().encode() in logs(), "the broken twin: a key that is logged is seen")
    everything = logs()
    assert {form for form in forms(coins._current_key()) if form in everything} == set()


def operators_of_python(rows) -> list[str]:
    text = rows._jdf.queryExecution().executedPlan().toString().split("== Initial Plan ==")[0]
    return re.findall(r"^[\W\d]*(\w*(?:Python|Pandas|InArrow)\w*)", text, re.MULTILINE)


def test_the_line_of_the_docs_runs_on_the_cluster(cluster, spark, tmp_path):
    """As it is written, with this cluster's address in place of the example's."""
    page = (Path(__file__).parents[3] / "docs" / "scale.md").read_text()
    (line,) = re.findall(r"^keyveil tally .*--master spark:\S+$", page, re.MULTILINE)
    plan = mechanism_plan("kvue")
    plan.save(tmp_path / "plan.json")
    rows = written(table(), tmp_path / "people.parquet")
    privatise_files(rows, plan, f"{tmp_path}/reports/", LocalPool(1), coins=COINS)
    words = line.replace("spark://host:7077", cluster.url).split()
    words[0] = str(Path(sys.executable).parent / "keyveil")
    env = {**environment(), "PYSPARK_SUBMIT_ARGS": f"--conf spark.executor.memory=512m {HERE_ONLY}"}
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert Tally.load(plan, tmp_path / "tally.kv") == library_tally(plan, table())


HERE_ONLY = "--conf spark.driver.host=127.0.0.1 --conf spark.ui.enabled=false pyspark-shell"


@pytest.mark.sampled  # compared with itself on another engine, so exactly
def test_simulations_are_the_same_on_every_engine(spark, monkeypatch):
    monkeypatch.setattr(simulation_segments, "SEGMENT_PEOPLE", 3000)
    plan = mechanism_plan("pairs")
    population = Population(plan.schema, people_of(plan.schema, table()))
    made = kv.spark.simulate(plan, population, 10_000, COINS, session=spark)
    assert made.reports == 10_000
    assert made == simulate_on(LocalPool(1), plan, population, 10_000, COINS)
    assert made == simulate_on(LocalPool(2), plan, population, 10_000, COINS)
    assert made != simulate_on(None, plan, population, 10_000)


# -- bad input -------------------------------------------------------------------------------------


class NoJob:
    """Fails if a job was started."""

    def __init__(self, spark):
        self.tracker = spark.sparkContext.statusTracker()

    def __enter__(self):
        self.before = set(self.tracker.getJobIdsForGroup(None))

    def __exit__(self, *error):
        assert set(self.tracker.getJobIdsForGroup(None)) == self.before


def test_columns_are_checked_before_a_job_starts(spark):
    plan = mechanism_plan("kvue")

    def frame(kind, *rows):
        return spark.createDataFrame(list(rows), kind)

    both = "person int, key string, value double, KEY string"
    cases = {
        r"AMBIGUOUS_REFERENCE\] Reference `key` is ambiguous": (both, {}),
        "column 'key' is not in the table; did you mean 'keys'": (
            "person int, keys string, value int",
            {},
        ),
        "person is named by a whole number or by text": ("person double, key string, value double", {}),
        "a key is text or a whole number": ("person int, key double, value double", {}),
        "values must be numbers": ("person int, key string, value string", {}),
        "must be an array of structs": ("person int, held array<int>", {"pairs": "held"}),
        "'held' must be an array of structs with": ("person int, held int", {"pairs": "held"}),
        "with the fields 'key' and 'value'": (
            "person int, held array<struct<key: string, v: int>>",
            {"pairs": "held"},
        ),
        "column 'held' is not in the table": ("person int, had array<int>", {"pairs": "held"}),
        "name the column of values": ("person int, key string", {"value": None}),
    }
    with NoJob(spark):
        for words, (kind, more) in cases.items():
            with pytest.raises(TableError, match=words):
                kv.spark.privatise(frame(kind), plan, **more)
        for wrong in ("people.parquet", table().to_pandas(), None):
            for work in (kv.spark.privatise, kv.spark.tally, kv.spark.broken_rows):
                with pytest.raises(TableError, match="this takes a DataFrame of Spark, not"):
                    work(wrong, plan)
        with pytest.raises(TableError, match="this takes a DataFrame of Spark, not DataFrame: spark"):
            kv.spark.running_tally(table().to_pandas(), plan, "never", session=spark)
        stream = spark.readStream.format("rate").load()
        for work in (kv.spark.privatise, kv.spark.tally, kv.spark.broken_rows):
            with pytest.raises(TableError, match="a stored DataFrame, not a stream"):
                work(stream, plan)
            with pytest.raises(PlanError, match="this takes a plan, not str"):
                work(frame(ROWS), "plan.json")
        with pytest.raises(KeyveilError, match="is an address, not a path"):
            kv.spark.running_tally("s3a://lake/reports", plan, "never", session=spark)
        with pytest.raises(ReportError, match="columns code; 'code' is missing"):
            kv.spark.tally(frame("cell int"), plan)
        with pytest.raises(ReportError, match="holds string; it must be whole numbers"):
            kv.spark.tally(frame("code string"), plan, rejected=Counter())
        with pytest.raises(ReportError, match="'bits' of reports holds string; it must be binary"):
            kv.spark.tally(frame("view int, bits string"), mechanism_plan("pckv_ue"))
        with pytest.raises(ReportError, match="needs a streaming DataFrame"):
            kv.spark.running_tally(frame("code int"), plan, "never", session=spark)
    assert kv.spark.tally(frame("code int"), plan) == Tally(plan)
    assert not Path("never").exists()


ROWS = "person int, key string, value double"
BAD_ROWS = {
    "every row must name its person": (None, "Pepsi", 1.0),
    "a key is not in the plan": (1, "Tea", 1.0),
    "a value is missing": (1, "Pepsi", None),
    "a row has a value and no key": (3, None, 2.0),
    "a value lies outside 1 to 5": (1, "Pepsi", 6.0),
    "a key appears twice": (2, "Pepsi", 2.0),
}


@pytest.mark.parametrize(
    "words",
    ["every row must name its person", "a key appears twice", "a row has a value and no key"],
)
def test_a_bad_row_ends_the_job_in_one_line(words, spark):
    plan = mechanism_plan("kvue")
    frame = spark.createDataFrame([(2, "Pepsi", 1.0), BAD_ROWS[words]], ROWS)
    with pytest.raises(KeyveilError, match=words) as refused:
        kv.spark.tally(kv.spark.privatise(frame, plan), plan)
    assert "\n" not in str(refused.value)
    assert type(refused.value).__module__ == "keyveil.foundation.errors"
    helped = "kv.spark.broken_rows(df, plan) counts rows" in str(refused.value)
    assert helped == (type(refused.value) is RecordError), "lenient=True maps no row without a person"


def test_lenient_rows_are_counted_by_rule(spark):
    plan = mechanism_plan("kvue")
    rows = [(2, "Pepsi", 3.0), (2, "Pepsi", 1.0), (3, None, None)]
    frame = spark.createDataFrame([*rows, *(row for row in BAD_ROWS.values() if row[0])], ROWS)
    assert kv.spark.broken_rows(frame, plan) == {
        "unknown_key": 1,
        "no_key": 1,
        "no_number": 1,
        "outside_range": 1,
        "repeated": 2,
    }
    nobody = frame.union(spark.createDataFrame([BAD_ROWS["every row must name its person"]], ROWS))
    assert kv.spark.broken_rows(nobody, plan)["no_person"] == 1
    tallies = [
        kv.spark.tally(kv.spark.privatise(frame.repartition(n), plan, lenient=True, coins=COINS), plan)
        for n in (1, 4)
    ]
    lowest = [(1, "Pepsi", 5.0), (2, "Pepsi", 1.0), (3, None, None)]
    columns = dict(zip(("person", "key", "value"), zip(*lowest, strict=True), strict=True))
    assert tallies == [library_tally(plan, pa.table(columns))] * 2


@pytest.mark.parametrize(
    ("name", "kind", "bad"),
    [
        ("kvue", "code long", [(None,), (-1,), (99,), (None,)]),
        ("pckv_ue", "view long, bits binary", [(None, b"\0"), (7, b"\0"), (0, b"\0\0\0"), (0, None)]),
    ],
)
def test_bad_reports_are_refused_or_counted(name, kind, bad, spark):
    plan = mechanism_plan(name)
    good = spark.createDataFrame(table()).limit(300)
    reports = kv.spark.privatise(good, plan).drop("plan_hash").cache()
    mixed = spark.createDataFrame(reports.collect() + bad, kind)
    with pytest.raises(ReportError):
        kv.spark.tally(mixed, plan)
    rejected: Counter[str] = Counter()
    assert kv.spark.tally(mixed, plan, rejected=rejected) == kv.spark.tally(reports, plan)
    assert rejected == {"empty": 2, "impossible": 2}


def test_coins_of_two_jobs_differ(frame):
    plan = mechanism_plan("kvue")
    for coins in (None, Coins.secure()):
        jobs = [kv.spark.privatise(frame, plan, coins=coins) for _ in range(2)]
        tallies = [kv.spark.tally(reports, plan) for reports in (*jobs, *jobs)]
        assert tallies[0] != tallies[1]
        assert tallies[:2] == tallies[2:], "Spark reads a frame again when a task is lost"
    assert Schema.of(KEYS, 1, 5).keys == plan.schema.keys
    assert Coins.for_job().secure_source is False
