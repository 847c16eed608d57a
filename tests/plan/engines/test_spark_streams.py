"""Streams of Spark: a restart counts nothing twice and loses nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from engine_cases import (
    COINS,
    mechanism_plan,
    table,
    written,
)
from pyspark.errors import StreamingQueryException
from spark_cluster import HERE, environment, wait_until
from topic_source import Broker, Topic

import keyveil as kv
from keyveil import Plan, ReportError, Tally
from keyveil.plan.engines import LocalPool, privatise_files, tally_files
from keyveil.plan.engines.report_files import CountReports
from keyveil.plan.engines.stream_state import StreamState
from keyveil.plan.report_file import writing


def report_files(plan: Plan, folder: Path, numbers: range) -> None:
    """Files of reports, each moved into the folder when it is complete."""
    folder.mkdir(exist_ok=True)
    for number in numbers:
        rows = written(table(50, seed=number), folder.parent / "rows.parquet")
        privatise_files(rows, plan, folder / f"{number:03d}.kv", LocalPool(1))


def forget_last_commit(state: Path) -> None:
    """As if it was killed after the total was written and before Spark knew."""
    last = max((state / "checkpoint" / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)


def test_a_stream_that_is_killed_goes_on_where_it_was(spark, cluster, tmp_path):
    """kill -9 of the driver and its JVM between batches; another one goes on from the checkpoint.

    Both count on the cluster, where an executor of each worker works for the killed one.
    """
    plan, inbox, state = mechanism_plan("kvue"), tmp_path / "inbox", tmp_path / "state"
    plan.save(tmp_path / "plan.json")
    report_files(plan, inbox, range(12))
    others = cluster.applications()
    words = [
        sys.executable,
        HERE / "streaming_driver.py",
        tmp_path,
        cluster.url,
        tmp_path / "plan.json",
        inbox,
        state,
    ]
    with (tmp_path / "log").open("wb") as log:
        env = {**environment(), "PYTHONPATH": str(HERE)}
        driver = subprocess.Popen(words, env=env, stdout=log, stderr=log, start_new_session=True)
    try:
        wait_until(
            lambda: len(list(state.glob("total-*.kv"))) > 1 or driver.poll() is not None, "no batch"
        )
        assert driver.poll() is None, (tmp_path / "log").read_text()
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    assert {worker for worker, _ in cluster.applications() - others} == {"work-1", "work-2"}
    before = StreamState(state, plan)
    assert 0 < before.tally.reports < 600, "it was killed in the middle"

    report_files(plan, inbox, range(12, 14))
    (inbox / "bad.kv").write_bytes((inbox / "000.kv").read_bytes()[:-20])
    privatise_files(tmp_path / "rows.parquet", plan, f"{tmp_path}/parts/", LocalPool(1))
    pages = (tmp_path / "parts" / "part-000000.parquet").read_bytes()
    (inbox / "bad.parquet").write_bytes(pages[:4] + bytes(40) + pages[44:])
    (inbox / "_note").write_text("not data")
    running = kv.spark.running_tally(inbox, plan, state, session=spark, available_now=True)
    running.query.awaitTermination()
    expected = tally_files(sorted(inbox.glob("0*.kv")), plan)
    assert running.tally == expected
    assert expected.reports == 14 * 50
    left_out = {Path(name).name: reason for name, reason in running.rejected.items()}
    assert set(left_out) == {"bad.kv", "bad.parquet"}
    assert "cut short" in left_out["bad.kv"]
    assert str(inbox) not in left_out["bad.kv"], "its path is said once"
    assert "damaged" in left_out["bad.parquet"]
    assert Tally.load(plan, state / "tally.kv") == expected

    forget_last_commit(state)
    running = kv.spark.running_tally(inbox, plan, state, session=spark, available_now=True)
    running.query.awaitTermination()
    assert running.tally == expected


@dataclass(frozen=True)
class DyingCount(CountReports):
    """Ends the process of Python that it runs in, as the kernel does when memory is short."""

    def __call__(self, segment):
        os._exit(9)


def test_a_stream_whose_workers_die_ends_and_loses_nothing(spark, tmp_path, monkeypatch):
    plan, inbox, state = mechanism_plan("kvue"), tmp_path / "inbox", tmp_path / "state"
    report_files(plan, inbox, range(3))
    (inbox / "bad.kv").write_bytes((inbox / "000.kv").read_bytes()[:-20])
    with monkeypatch.context() as dying:
        dying.setattr("keyveil.plan.engines.report_files.CountReports", DyingCount)
        running = kv.spark.running_tally(inbox, plan, state, session=spark, available_now=True)
        with pytest.raises(StreamingQueryException, match="a worker was ended several times"):
            running.query.awaitTermination()
    assert running.tally == Tally(plan)
    running = kv.spark.running_tally(inbox, plan, state, session=spark, available_now=True)
    running.query.awaitTermination()
    assert running.tally == tally_files(sorted(inbox.glob("0*.kv")), plan)
    assert running.tally.reports == 3 * 50
    assert [Path(name).name for name in running.rejected] == ["bad.kv"]


def test_messages_are_counted_and_bad_ones_reported(spark, tmp_path):
    plan = mechanism_plan("pckv_ue")
    reports = [plan.report({"Pepsi": 4}, COINS, n) for n in range(30)]
    other = mechanism_plan("rr").report({}).dumps()
    folder = tmp_path / "texts"
    folder.mkdir()
    lines = [*(report.dumps() for report in reports), "no report", other]
    (folder / "messages.txt").write_text("\n".join(lines) + "\n")
    source = spark.readStream.format("text").load(str(folder))
    running = kv.spark.running_tally(source, plan, tmp_path / "state", available_now=True)
    running.query.awaitTermination()
    assert running.tally == Tally(plan).add(reports)
    assert running.rejected == json.loads((tmp_path / "state" / "rejected.json").read_text())
    assert running.rejected == {"impossible": 2}
    numbers = spark.readStream.format("rate").load()
    with pytest.raises(ReportError, match="'value' of messages holds bigint; it must be text or binary"):
        kv.spark.running_tally(numbers, plan, tmp_path / "never")
    assert not (tmp_path / "never").exists()


def test_a_topic_counts_each_message_once(spark, tmp_path):
    """On a broker of Kafka's protocol: a restart reads a batch again, and goes on after it."""
    plan, broker, state = mechanism_plan("kvue"), Broker(), tmp_path / "state"
    reports = [plan.report({"Pepsi": 4}, COINS, n) for n in range(60)]
    single = [report.dumps().encode() for report in reports[:20]]
    lines = b"\n".join(report.dumps().encode() for report in reports[20:40])
    with writing(plan, tmp_path / "packed.kv") as packed:
        packed.add(plan.packing.batch_of([report.cells for report in reports[40:]]))

    def count(tries: int = 10) -> kv.spark.RunningTally:
        """Spark gives the Python of a source ten seconds to start, which a busy machine exceeds."""
        source = spark.readStream.format(Topic.name()).option("broker", broker.address).load()
        running = kv.spark.running_tally(source, plan, state, available_now=True)
        try:
            running.query.awaitTermination()
        except StreamingQueryException as error:
            if tries == 1 or "Python worker failed to connect back" not in str(error):
                raise
            return count(tries - 1)
        return running

    spark.dataSource.register(Topic)
    broker.send(0, *single)
    broker.send(1, lines, None, b"no report")
    first = Tally(plan).add(reports[:40])
    assert count().tally == first
    forget_last_commit(state)
    broker.send(1, (tmp_path / "packed.kv").read_bytes())
    broker.send(0, single[0])  # a producer that is not idempotent: this is another message
    assert count().tally == first, "the first offsets were read again, and no others"
    running = count()
    assert running.tally == Tally(plan).add([*reports, reports[0]])
    assert running.rejected == {"impossible": 2}
