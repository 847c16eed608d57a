"""The state of a running tally, at every point where a driver may be killed. No Spark is needed."""

from __future__ import annotations

import pickle
import shutil
import sys
import time

import pytest
from engine_cases import mechanism_plan

from keyveil import KeyveilError, ReportError, Tally
from keyveil.plan.engines import spark_engine
from keyveil.plan.engines.spark_engine import SparkEngine, plain_errors, spark_session
from keyveil.plan.engines.spark_frames import tally
from keyveil.plan.engines.stream_state import StreamState

PLAN = mechanism_plan("kvue")
ONE = Tally(PLAN).add(PLAN.report({"Pepsi": 4}))


def planned(state: StreamState, batch: int, committed: bool = True) -> None:
    """What Spark notes of a batch: its offsets before it runs, its commit after."""
    for kind in ("offsets", *(["commits"] if committed else [])):
        (state.checkpoint / kind).mkdir(parents=True, exist_ok=True)
        (state.checkpoint / kind / str(batch)).touch()


def test_a_batch_counts_once_and_old_totals_go(tmp_path):
    state = StreamState(tmp_path / "state", PLAN)
    for batch in range(5):
        planned(state, batch)
        assert not state.has(batch)
        state.add(batch, ONE, {"empty": 1})
        assert state.has(batch)
        StreamState(tmp_path / "state", PLAN).check()
    assert state.tally.reports == Tally.load(PLAN, tmp_path / "state" / "tally.kv").reports == 5
    assert state.rejected == {"empty": 5}
    assert len(list((tmp_path / "state").glob("total-*"))) == 4, "two totals and what they left out"


def test_a_batch_without_its_commit_is_not_added_again(tmp_path):
    state = StreamState(tmp_path, PLAN)
    planned(state, 0, committed=False)
    state.add(0, ONE, {})
    again = StreamState(tmp_path, PLAN)
    again.check()
    assert again.has(0)


def test_a_total_that_was_not_finished_does_not_count(tmp_path):
    """Killed between the file of rejections and the total."""
    state = StreamState(tmp_path, PLAN)
    planned(state, 0, committed=False)
    (tmp_path / f"total-{0:012d}.json").write_text('{"empty": 7}')
    again = StreamState(tmp_path, PLAN)
    again.check()
    assert not again.has(0)
    again.add(0, ONE, {"empty": 1})
    assert (again.tally, again.rejected) == (ONE, {"empty": 1})


def test_a_checkpoint_and_totals_belong_together(tmp_path):
    state = StreamState(tmp_path / "state", PLAN)
    planned(state, 0)
    state.add(0, ONE, {})
    shutil.copytree(tmp_path / "state", tmp_path / "totals")
    shutil.rmtree(tmp_path / "totals" / "checkpoint")
    with pytest.raises(KeyveilError, match="reports would count twice"):
        StreamState(tmp_path / "totals", PLAN).check()
    shutil.copytree(state.checkpoint, tmp_path / "notes" / "checkpoint")
    with pytest.raises(KeyveilError, match="lacks the total of batch 0, so reports would be lost"):
        StreamState(tmp_path / "notes", PLAN).check()
    with pytest.raises(ReportError, match="belongs to another plan"):
        StreamState(tmp_path / "state", mechanism_plan("rr")).check()


# -- without Spark ---------------------------------------------------------------------------------


def test_without_pyspark_one_line_says_what_to_install(monkeypatch):
    for name in ("pyspark", "pyspark.errors", "pyspark.sql"):
        monkeypatch.setitem(sys.modules, name, None)
    for work in (spark_session, lambda: tally(None, PLAN)):
        with pytest.raises(
            KeyveilError, match=r"Spark is not installed: pip install 'keyveil\[spark\]'"
        ):
            work()


def test_without_java_one_line_says_what_to_install(monkeypatch, tmp_path):
    from pyspark.sql import SparkSession

    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(KeyveilError, match="Spark needs Java 17 or newer"):
        spark_session()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(KeyveilError, match="Spark needs Java 17 or newer"):
        spark_session()


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("sc://127.0.0.1:1/;token=secret", "no server of Spark Connect answers at sc://127.0.0.1:1/"),
        ("sc://here:port/;token=secret", "sc://here:port/ is no address of Spark Connect; one is sc://"),
        ("sc://", "sc:// is no address of Spark Connect"),
    ],
)
@pytest.mark.parametrize("by", ["master", "variable"])
def test_no_server_of_spark_connect_is_one_line(by, address, words, monkeypatch):
    """Without Java, and not only after the ten minutes in which Spark tries again."""
    from pyspark.sql import SparkSession

    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr(spark_engine, "PATIENCE", 0.1)
    monkeypatch.setenv("JAVA_HOME", "/none")
    if by == "variable":
        monkeypatch.setenv("SPARK_REMOTE", address)
    with pytest.raises(KeyveilError, match=words) as refused:
        spark_session(address if by == "master" else None)
    assert "secret" not in str(refused.value)


def test_a_folder_that_another_machine_has_adds_nothing(tmp_path):
    """Nor one that a later start has marked."""
    state = StreamState(tmp_path, PLAN)
    state.check_mark()
    state.mark()
    there = pickle.loads(pickle.dumps(state))
    there.check_mark()
    StreamState(tmp_path, PLAN).mark()
    for sees in ("another mark", "none"):
        with pytest.raises(KeyveilError, match=r"sees another folder .* than this machine, or a later"):
            there.check_mark()
        (tmp_path / "mark").unlink(missing_ok=sees == "none")
    state.mark()
    there = pickle.loads(pickle.dumps(state))
    there.check_mark()


class Waiting:
    """A session of a cluster without workers: its jobs end when a warning was given, or are refused."""

    master = "spark://here:7077"

    def __init__(self) -> None:
        self.sparkContext = self._jsc = self

    def sc(self):
        return self

    getExecutorMemoryStatus = parallelize = map = lambda self, *_: self  # noqa: N815

    def size(self) -> int:
        return 1  # the driver

    def treeReduce(self, add):  # noqa: N802
        time.sleep(0.3)
        return 7


@pytest.mark.parametrize("quiet", [True, False])
def test_a_cluster_that_gives_no_worker_is_said(quiet, monkeypatch, caplog):
    """Where Spark's own log is off."""
    monkeypatch.setattr(spark_engine, "PATIENCE", 0.01)
    assert SparkEngine(Waiting(), quiet=quiet).sum(len, ["a"]) == 7
    assert ["spark://here:7077 has given no worker" in line for line in caplog.messages] == [
        True
    ] * quiet


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        (
            "ModuleNotFoundError: No module named 'keyveil'",
            "No module named 'keyveil' in the Python of the workers: install",
        ),
        (
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in driver: "
            "3.11, PySpark cannot run with different minor versions.",
            "different version: 3.9 than that in driver: 3.11: install",
        ),
        (
            'java.io.IOException: Cannot run program "python9": error=2',
            'Cannot run program "python9": install',
        ),
        (
            "Traceback\nFileNotFoundError: [Errno 2] No such file or directory: '/lake/x.parquet'",
            "No such file or directory: '/lake/x.parquet'; the driver and all workers must read",
        ),
        ("pyarrow.lib.ArrowMemoryError: malloc of size 64 failed", "for lack of memory; give workers"),
        ("ExecutorLostFailure (executor 1 exited caused by one of the", "was ended several times"),
        ("SparkException: Python worker exited unexpectedly (crashed)", "for lack of memory"),
        ("<_InactiveRpcError\n\tstatus = StatusCode.UNAVAILABLE", "Connect does not answer any more"),
    ],
)
def test_workers_that_fail_are_one_line(cause, words):
    with pytest.raises(KeyveilError, match=words) as refused, plain_errors():
        raise RuntimeError(f"Job aborted due to stage failure\n{cause}\n\tat org.apache.spark")
    assert "\n" not in str(refused.value)
    assert ("PYSPARK_PYTHON" in str(refused.value)) == ("install" in words)
    with pytest.raises(RuntimeError, match="anything else"), plain_errors():
        raise RuntimeError("anything else")
