"""Random sequences of operations on one stated clock, each answer and each count foretold."""

from __future__ import annotations

import numpy as np
import pytest
from faults import LONG
from faults.scratch import forgetful, stale
from faults.sequences import LENGTH, Sequence
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from keyveil.service.collector.store import seen_ids as ids
from keyveil.service.collector.store.sqlite import SqliteStore


class Operations(RuleBasedStateMachine):
    """What clients, whoever runs the collector, the disk and the clock may do, in any order."""

    sequence: Sequence | None = None

    @initialize(cap=st.sampled_from([None, None, 3, 12]), guarded=st.booleans())
    def begin(self, cap, guarded):
        self.sequence = Sequence(cap, guarded)

    def some(self, data, most=6):
        reports = self.sequence.sent
        if not reports:
            return []
        first = data.draw(st.integers(0, len(reports) - 1))
        epoch = reports[first].epoch
        return [report for report in reports[first : first + most] if report.epoch == epoch]

    @rule(number=st.integers(1, 5), behind=st.integers(-1, 3), binary=st.booleans())
    def upload(self, number, behind, binary):
        self.sequence.upload(self.sequence.fresh(number, behind), binary)

    @rule(number=st.integers(1, 5))
    def upload_now(self, number):
        self.sequence.upload(self.sequence.fresh(number))

    @rule(data=st.data(), binary=st.booleans())
    def replay(self, data, binary):
        self.sequence.upload(self.some(data), binary)

    @rule(data=st.data())
    def replay_with_new_ones(self, data):
        old = self.some(data, 3)
        now = int(self.sequence.clock.now()) // LENGTH
        if old:
            self.sequence.upload([*old, *self.sequence.fresh(2, now - old[0].epoch)])

    @rule(number=st.integers(1, 3), times=st.integers(2, 4))
    def duplicate_at_once(self, number, times):
        self.sequence.upload(self.sequence.fresh(number), times=times)

    @rule(number=st.integers(1, 3), how=st.sampled_from(["unsent", "cancelled"]))
    def response_dropped(self, number, how):
        self.sequence.drop(self.sequence.fresh(number), how)

    @rule()
    def wrong_token(self):
        self.sequence.wrong_token(self.sequence.fresh(1))

    @rule(seconds=st.sampled_from([1, 50, 100, 150, 250]))
    def time_passes(self, seconds):
        self.sequence.clock.advance(seconds)
        self.sequence.keep()

    @rule(seconds=st.sampled_from([100, 250]), step=st.integers(1, 6))
    def crash_while_sealing(self, seconds, step):
        self.sequence.clock.advance(seconds)
        self.sequence.keep(crash_at=step)

    @rule(seconds=st.sampled_from([-10_000, -150, -60, 60, 150, 10_000]))
    def clock_jumps(self, seconds):
        self.sequence.clock.jump(seconds)
        self.sequence.keep()

    @rule(state=st.sampled_from(["open", "open", "paused"]))
    def pause(self, state):
        self.sequence.set_state(state)

    @precondition(lambda self: self.sequence and len(self.sequence.sent) > 25)
    @rule()
    def close_for_good(self):
        self.sequence.set_state("closed")

    @rule()
    def rotate(self):
        self.sequence.rotate()

    @rule(again=st.booleans())
    def bring_in(self, again):
        self.sequence.bring_in(again)

    @rule()
    def back_up(self):
        self.sequence.back_up()

    @precondition(lambda self: self.sequence and self.sequence.backups)
    @rule()
    def restore(self):
        self.sequence.restore()

    @rule(full=st.booleans())
    def disk_full(self, full):
        self.sequence.trouble.full = full

    @rule(kind=st.sampled_from(["sync", "write", "read"]), nth=st.integers(1, 12))
    def io_error(self, kind, nth):
        self.sequence.trouble.fail(kind, nth)

    @rule(which=st.integers(0, 1000))
    def scratch_spoiled(self, which):
        self.sequence.spoil(which)

    @rule(graceful=st.booleans())
    def restart(self, graceful):
        self.sequence.restart(graceful)

    @invariant()
    def the_tally_is_what_was_answered(self):
        if self.sequence is not None:
            self.sequence.check()

    def teardown(self):
        if self.sequence is not None:
            self.sequence.close()


TestOperations = Operations.TestCase
TestOperations.settings = settings(
    max_examples=10_000 if LONG else 60,
    stateful_step_count=30,
    deadline=None,
    derandomize=not LONG,
    suppress_health_check=list(HealthCheck),
)


# -- failures that were found, shrunk; and broken twins --------------------------------------------


@pytest.fixture
def sequence():
    sequence = Sequence(None, False)
    yield sequence
    sequence.close()


def test_a_disk_that_fails_right_after_a_commit_is_told_at_once(sequence):
    """The commit is durable and acknowledged, but nothing after it may be."""
    sequence.desk.store.checkpoint_pages = 1
    sequence.trouble.fail("sync", 2)  # the first is the commit's own
    sequence.upload(sequence.fresh(3))
    assert len(sequence.world.inside) == 3
    assert sequence.broken
    sequence.check()
    sequence.restart()
    sequence.check()


@pytest.mark.parametrize("kind", ["read", "write", "sync"])
def test_a_disk_that_fails_between_two_groups_is_told_before_the_next(kind):
    """Refusals are durable, and then the log cannot be moved into the file."""
    sequence = Sequence(None, True)
    sequence.desk.store.checkpoint_pages = 1
    sequence.wrong_token(sequence.fresh(1))
    sequence.trouble.fail(kind, 1 if kind == "read" else 2)
    sequence.keep()
    if not sequence.broken:  # it was not this disk's turn yet
        assert sequence.trouble.kind
    sequence.trouble.kind = ""
    sequence.check()
    sequence.rotate()
    sequence.upload(sequence.fresh(2))
    sequence.close()


@pytest.mark.parametrize("nth", range(1, 14))
@pytest.mark.parametrize("kind", ["read", "write", "sync"])
def test_a_pause_that_met_a_failing_disk_is_never_half_known(sequence, kind, nth):
    """What is in memory must not be older than what is stored, or reports would pass a pause."""
    sequence.desk.store._session().run("pragma cache_size = 1")
    sequence.trouble.fail(kind, nth)
    sequence.set_state("paused")
    sequence.trouble.clear()
    if not sequence.broken:
        sequence.upload(sequence.fresh(2))
    sequence.restart()
    sequence.upload(sequence.fresh(2))
    sequence.check()


@pytest.mark.parametrize("twin", [forgetful, stale])
def test_the_oracle_sees_ids_that_are_not_read_anew(monkeypatch, twin):
    sequence = Sequence(None, False)
    batch = sequence.fresh(3)
    sequence.upload(batch)
    sequence.restart()
    monkeypatch.setattr(SqliteStore, "_epoch_ids", twin)
    sequence.upload(batch)
    with pytest.raises(AssertionError):
        sequence.check()
    with pytest.raises(AssertionError):
        sequence.close()


def test_an_index_that_is_spoiled_is_made_anew(sequence):
    batch = sequence.fresh(5)
    for _ in range(8):
        sequence.upload(batch)
        batch += sequence.fresh(5)
    assert sequence.scratch.handles
    for which in range(0, 200, 7):
        sequence.spoil(which)
        sequence.upload(batch)
        sequence.check()


def test_the_oracle_sees_an_index_that_is_not_checked(monkeypatch):
    sequence = Sequence(None, False)
    monkeypatch.setattr(ids, "bucket_sums", lambda images, starts: np.zeros(len(starts) - 1, np.uint64))
    batch = sequence.fresh(20)
    sequence.upload(batch)
    sequence.restart()
    sequence.upload(batch[:1])
    for which in range(400):
        sequence.spoil(which)
    sequence.upload(batch)
    with pytest.raises(AssertionError):
        sequence.check()
    with pytest.raises(AssertionError):
        sequence.close()


def test_the_oracle_sees_ids_that_are_remembered_too_early(monkeypatch):
    sequence = Sequence(None, False)
    ask = SqliteStore._known

    def early(self, session, one, epoch, names, sure=True):
        places = ask(self, session, one, epoch, names, sure)
        self._counted(one, epoch, names)
        return places

    monkeypatch.setattr(SqliteStore, "_known", early)
    sequence.trouble.full = True
    batch = sequence.fresh(3)
    sequence.upload(batch)
    sequence.trouble.full = False
    sequence.upload(batch)
    with pytest.raises(AssertionError):
        sequence.check()
    with pytest.raises(AssertionError):
        sequence.close()
