"""A worker of Spark is killed in the middle of jobs. These tests are the last ones of the cluster."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from engine_cases import (
    COINS,
    KEYS,
    library_tally,
    mechanism_plan,
    rows_for,
    table,
    written,
)
from spark_cluster import Gate, GatedCoins, wait_until

import keyveil as kv
from keyveil import REGISTRY, Tally
from keyveil.channel import SHAPES
from keyveil.plan.engines import SparkEngine, privatise_files, table_segments, tally_files


@pytest.fixture(scope="module", autouse=True)
def stopped_after(spark, cluster):
    """The cluster need not run until the end of the session."""
    yield
    spark.stop()
    cluster.stop()


def by_shape() -> dict[str, str]:
    """One mechanism for each shape of a channel."""
    shapes: dict[str, str] = {}
    for name in sorted(REGISTRY):
        for channel in mechanism_plan(name).channels:
            shapes.setdefault(channel.shape, name)
    return shapes


def test_a_worker_is_killed_in_the_middle(spark, cluster, frame, tmp_path, monkeypatch):
    """A job on files for every shape, and one of a DataFrame whose shuffled rows go with the worker.

    All jobs run at once. Each has a task on the worker that is killed, which has read its people and
    waits before it draws their reports. That task runs again on the other worker, while its Python goes
    on for a while, as on a machine that is cut off.
    """
    shapes = by_shape()
    assert set(shapes) == set(SHAPES)
    rows = table().sort_by("person")
    monkeypatch.setattr(table_segments, "SEGMENT_ROWS", rows.num_rows // 2)
    path = written(rows, tmp_path / "table.parquet", 50)
    gate = Gate(tmp_path / "gate")
    Path(gate.folder).mkdir()
    plans = {shape: mechanism_plan(name) for shape, name in shapes.items()}
    kvue = mechanism_plan("kvue")

    def on_files(shape: str) -> Tally:
        plan, coins = plans[shape], GatedCoins(COINS, gate, shape)
        lenient = len(plan.schema.keys) < len(KEYS)
        output = f"{tmp_path}/{shape}/"
        privatise_files(path, plan, output, SparkEngine(spark), coins=coins, lenient=lenient)
        assert len(list(Path(output).iterdir())) == 2
        return tally_files(output, plan, SparkEngine(spark))

    def on_a_frame() -> Tally:
        coins = GatedCoins(COINS, gate, "frame")
        return kv.spark.tally(kv.spark.privatise(frame, kvue, coins=coins), kvue)

    jobs = {**{shape: partial(on_files, shape) for shape in shapes}, "frame": on_a_frame}
    with ThreadPoolExecutor(len(jobs)) as pool:
        tallies = {name: pool.submit(job) for name, job in jobs.items()}
        try:
            wait_until(
                lambda: set(shapes) <= gate.jobs_on(1) & gate.jobs_on(2) and gate.tasks_of("frame") == 2,
                "a job has no task on one of the workers",
            )
            killed = 1 if "frame" in gate.jobs_on(1) else 2
            cluster.kill_worker(killed)
        finally:
            gate.open()
        results = {name: tally.result() for name, tally in tallies.items()}
    assert {shape: gate.tasks_of(shape) for shape in shapes} == dict.fromkeys(shapes, 3)
    assert gate.tasks_of("frame") > 2
    assert results.pop("frame") == library_tally(kvue, rows)
    assert results == {shape: library_tally(plan, rows_for(plan, rows)) for shape, plan in plans.items()}
    log = (cluster.folder / "master.log").read_text()
    assert re.findall("Removing executor|Removing worker", log), "the master lost a worker"
