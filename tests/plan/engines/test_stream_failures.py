"""A stream leaves out files for their content alone; all else that fails ends it and loses nothing."""

from __future__ import annotations

import errno
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest
from engine_cases import COINS, mechanism_plan, table, written
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from keyveil import KeyveilError, PlanError, ReportError
from keyveil.plan.engines import LocalPool, privatise_files, spark_stream, tally_files
from keyveil.plan.engines.report_files import ReportFiles
from keyveil.plan.engines.spark_engine import plain_errors
from keyveil.plan.engines.stream_state import StreamState
from keyveil.plan.tally import Tally

PLAN = mechanism_plan("kvue")


@dataclass
class FailingEngine(LocalPool):
    """A cluster whose next jobs fail, as Spark says it; then they are done here."""

    failures: list[Exception] = field(default_factory=list)
    jobs: int = 0
    on_one_machine = False
    _workers = 1

    def sum(self, work, segments, progress=None):
        self.jobs += 1
        with plain_errors():
            if self.failures:
                raise self.failures.pop(0)
            return super().sum(work, segments, progress)


@pytest.fixture
def engine(monkeypatch):
    made = FailingEngine()
    monkeypatch.setattr(spark_stream, "SparkEngine", lambda _session: made)
    return made


@pytest.fixture
def inbox(tmp_path):
    """Three files of 50 reports each."""
    folder = tmp_path / "inbox"
    folder.mkdir()
    for number in range(3):
        rows = written(table(50, seed=number), tmp_path / "rows.parquet")
        privatise_files(rows, PLAN, folder / f"{number}.kv", LocalPool(1))
    return folder


def add(state: StreamState, folder: Path) -> None:
    """Give the stream all files of a folder as its first batch, as Spark does after each restart."""
    rows = [SimpleNamespace(path=path.as_uri()) for path in sorted(folder.iterdir())]
    batch = SimpleNamespace(sparkSession=None, collect=lambda: rows)
    spark_stream.AddFiles(state, folder)(batch, 0)


LOST = "Job aborted due to stage failure\n{}\n\tat org.apache.spark"
FAILURES = {
    "executors": RuntimeError(LOST.format("ExecutorLostFailure (executor 1 exited caused by one")),
    "package": RuntimeError(LOST.format("ModuleNotFoundError: No module named 'keyveil'")),
    "folder": RuntimeError(LOST.format("FileNotFoundError: [Errno 2] No such file: '/lake'")),
    "memory": MemoryError(),
    "storage": OSError(errno.EIO, "Input/output error"),
    "version": PlanError("the plan is of another version"),
    "unknown": RuntimeError("anything else"),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_workers_that_fail_end_the_stream_and_lose_nothing(failure, engine, inbox, tmp_path):
    """The batch comes again after a restart, also one with a file that is left out."""
    (inbox / "bad.kv").write_bytes((inbox / "0.kv").read_bytes()[:-20])
    state = StreamState(tmp_path / "state", PLAN)
    engine.failures = [FAILURES[failure]]
    with pytest.raises((KeyveilError, MemoryError, OSError, RuntimeError)):
        add(state, inbox)
    assert not state.has(0)
    assert state.tally.reports == 0
    again = StreamState(tmp_path / "state", PLAN)
    add(again, inbox)
    assert again.tally == tally_files(sorted(inbox.glob("[0-9].kv")), PLAN)
    assert again.tally.reports == 150
    assert [Path(name).name for name in again.rejected] == ["bad.kv"]


@pytest.mark.parametrize("failed", [1, 2])
def test_workers_that_fail_while_bad_files_are_looked_for(failed, engine, inbox, tmp_path):
    """A damaged page shows in a task, so a second job counts each file by itself; it may fail, too."""
    damaged(inbox)
    state = StreamState(tmp_path / "state", PLAN)
    engine.failures = [ReportError("impossible"), FAILURES["executors"]][:failed]
    if failed == 2:
        with pytest.raises(KeyveilError, match="was ended several times"):
            add(state, inbox)
        assert not state.has(0)
    add(state, inbox)
    assert state.tally.reports == 150
    assert [Path(name).name for name in state.rejected] == ["bad.parquet"]


OPENINGS = {"packed": 4, "lines": 4, "tally": 2, "pages": 2}
"""How often a file is opened, by its form."""


@pytest.mark.parametrize(
    ("form", "most"), [(form, most) for form, times in OPENINGS.items() for most in range(times)]
)
def test_a_file_that_cannot_be_read_ends_the_stream(form, most, engine, inbox, tmp_path, monkeypatch):
    """Its storage is away when it is opened for one of the times: nothing is known of it."""
    path = inbox / "0.kv"
    if form == "lines":
        path.write_text(PLAN.report({}, COINS, 1).dumps())
    if form == "tally":
        Tally(PLAN).add(PLAN.report({}, COINS, 1)).save(path)
    if form == "pages":
        path = damaged(inbox, place=None)
    expected, state, opened = tally_files(inbox, PLAN), StreamState(tmp_path / "state", PLAN), []

    def failing(real):
        def opening(name, *arguments, **named):
            if Path(name) == path:
                opened.append(name)
                if len(opened) > most:
                    raise OSError(errno.EIO, "Input/output error", str(name))
            return real(name, *arguments, **named)

        return opening

    with monkeypatch.context() as storage:
        if form == "pages":
            storage.setattr(parquet, "ParquetFile", failing(parquet.ParquetFile))
        else:
            storage.setattr(Path, "open", failing(Path.open))
            storage.setattr(Path, "read_bytes", failing(Path.read_bytes))
        with pytest.raises((KeyveilError, OSError), match="Input/output error") as refused:
            add(state, inbox)
    assert not isinstance(refused.value, ReportError)
    assert len(opened) == most + 1
    assert not state.has(0)
    add(state, inbox)
    assert (state.tally, state.rejected) == (expected, {})


@pytest.mark.parametrize("back", [True, False])
def test_a_file_that_is_gone_ends_the_stream_until_one_is_there(back, engine, inbox, tmp_path):
    state, path = StreamState(tmp_path / "state", PLAN), inbox / "1.kv"
    rows = [SimpleNamespace(path=name.as_uri()) for name in sorted(inbox.iterdir())]
    batch = SimpleNamespace(sparkSession=None, collect=lambda: rows)
    stream = spark_stream.AddFiles(state, inbox)
    content = path.read_bytes()
    path.unlink()
    with pytest.raises(KeyveilError, match=r"cannot read .*1\.kv: No such file"):
        stream(batch, 0)
    path.write_bytes(content if back else b"")
    stream(batch, 0)
    assert state.tally.reports == (150 if back else 100)
    assert state.rejected == {}


def damaged(inbox: Path, place: int | None = 40) -> Path:
    """A Parquet file of reports, with damaged pages if a place is named."""
    privatise_files(inbox.parent / "rows.parquet", PLAN, f"{inbox.parent}/parts/", LocalPool(1))
    pages = bytearray((inbox.parent / "parts" / "part-000000.parquet").read_bytes())
    if place is not None:
        pages[4:44] = bytes(40)
    path = inbox / "bad.parquet"
    path.write_bytes(pages)
    return path


def test_many_bad_files_take_two_jobs(engine, inbox, tmp_path):
    """One job fails, the next one says of each file what is wrong with it."""
    content = damaged(inbox).read_bytes()
    for number in range(20):
        (inbox / f"bad-{number}.parquet").write_bytes(content)
        (inbox / f"short-{number}.kv").write_bytes((inbox / "0.kv").read_bytes()[:-20])
    state = StreamState(tmp_path / "state", PLAN)
    add(state, inbox)
    assert state.tally.reports == 150
    assert len(state.rejected) == 41
    reasons = {Path(name).name: reason for name, reason in state.rejected.items()}
    assert reasons["bad-3.parquet"] == "cannot read the file: it is damaged"
    assert "cut short" in reasons["short-3.kv"]
    assert engine.jobs == 2


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The bytes of files of each form, and a folder to write damaged ones into."""
    folder = tmp_path_factory.mktemp("forms")
    contents = []
    for plan in (PLAN, mechanism_plan("pckv_ue")):
        rows = written(table(50), folder / "rows.parquet")
        privatise_files(rows, plan, f"{folder}/{plan.hash}/", LocalPool(1))
        privatise_files(rows, plan, folder / "packed.kv", LocalPool(1))
        tally_files(folder / "packed.kv", plan).save(folder / "tally.kv")
        lines = "".join(plan.report({"Pepsi": 4}, COINS, n).dumps() + "\n" for n in range(5))
        (folder / "lines").write_text(lines)
        forms = ("packed.kv", "tally.kv", "lines", f"{plan.hash}/part-000000.parquet")
        contents += [(plan, (folder / name).read_bytes()) for name in forms]
    return folder / "damaged", contents


@settings(deadline=None)
@given(data=st.data())
def test_any_damage_is_a_refusal_of_the_content(whole, data):
    """Else one bad file would end the stream after every restart."""
    path, contents = whole
    plan, content = data.draw(st.sampled_from(contents))
    damaged = bytearray(content)
    places = st.tuples(st.integers(0, len(content) - 1), st.integers(0, 255))
    for place, byte in data.draw(st.lists(places, min_size=1, max_size=8)):
        damaged[place] = byte
    path.write_bytes(damaged[: data.draw(st.none() | st.integers(0, len(content)))])
    with suppress(ReportError):
        ReportFiles([path], plan).counted(LocalPool(1))
