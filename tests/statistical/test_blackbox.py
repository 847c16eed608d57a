"""The black-box audit: honest devices pass with power to spare, and three planted leaks do not.

Every bound holds with confidence 0.999, so an honest device is flagged with a chance of 0.001 at the
most; coins are stated, so a run repeats.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pytest

from keyveil import Coins, Plan, PlanError, Report, ReportError, Reports, Schema
from keyveil.channel import Symbols, Symmetric
from keyveil.foundation.arrays import WORD
from keyveil.foundation.stream import Stream
from keyveil.people.views import Views
from keyveil.testing import crowd
from keyveil.trust.blackbox import audit_batches, audit_device

SCHEMA = Schema.of(["a", "b"], -1, 1)
PAIRS = [
    ({}, {"a": 1, "b": 1}),
    ({"a": -1, "b": -1}, {"a": 1, "b": 1}),
    ({}, {"a": -1}),
]
PROMISED = 1.0


def batch(plan: Plan, record: dict, draws: int, key: str) -> Counter:
    """Reports of many devices that hold the same record, drawn by the slow, plain path."""
    layout, counts = plan.layout, np.zeros(plan.layout.codes, np.int64)
    for people in crowd(plan.schema, record, draws).chunks(1 << 15):
        views, outputs = plan.perturb(people, Stream(Coins.stated(key), people.addresses))
        counts += np.bincount(layout.first_code[views] + outputs, minlength=layout.codes)
    reports: Counter = Counter()
    codes = np.flatnonzero(counts)
    cells = plan.packing.cells_of(Reports(plan.hash, codes=codes))
    for marked, count in zip(cells, counts[codes].tolist(), strict=True):
        reports[Report(plan.hash, marked)] = count
    return reports


def audited(plan: Plan, draws: int):
    halves = [
        tuple(
            tuple(batch(plan, record, draws, f"{number} {side} {half}") for half in range(2))
            for side, record in enumerate(pair)
        )
        for number, pair in enumerate(PAIRS)
    ]
    return audit_batches(halves)


@pytest.mark.parametrize("name", ["kvue", "kvoh"])
def test_an_honest_device_is_not_flagged_and_its_epsilon_is_nearly_found(name, scale):
    audit = audited(Plan.of(SCHEMA, name, 1), 150_000 * scale)
    assert audit.epsilon <= PROMISED, str(audit)
    assert audit.epsilon > 0.9 * PROMISED, f"the audit has no power: {audit}"


def test_a_wasteful_mechanism_shows_less_than_it_promises(scale):
    audit = audited(Plan.of(SCHEMA, "privkv", 1), 150_000 * scale)
    # 0.7191 is its true epsilon at a nominal 1; 0.65 leaves room for the intervals.
    assert 0.65 < audit.epsilon < 0.7191


# -- planted leaks: all claim epsilon 1 and prove it by their integers, and draw something else -------


def twin(channel) -> Plan:
    return Plan(SCHEMA, Views.singles(2), "views", (channel,), Decimal(1), "kvue")


@dataclass(frozen=True)
class StuckSymmetric(Symmetric):
    """A forgotten bit: of the two lies only the next state is ever told."""

    def draw(self, states, stream):
        word = stream.words(0, 1)[:, 0].astype(np.int64)
        return np.where(word < self.keep, states, (states + 1) % self.states)


@dataclass(frozen=True)
class EagerSymmetric(Symmetric):
    """Tells the truth 5 % too often."""

    def draw(self, states, stream):
        word = stream.words(0, 1)[:, 0].astype(np.int64)
        keep = int(1.05 * self.keep)
        step = 1 + (word - keep) * (self.states - 1) // (WORD - keep)
        return (states + np.where(word < keep, 0, step)) % self.states


@dataclass(frozen=True)
class StuckBits(Symbols):
    """A forgotten bit: the true one is never flipped."""

    def draw(self, states, stream):
        return super().draw(states, stream) | (1 << np.asarray(states))


@dataclass(frozen=True)
class EagerBits(Symbols):
    """Keeps the true bit 5 % too often."""

    def draw(self, states, stream):
        (calm, fake), (_, show) = self.laws
        more = int(1.05 * show)
        return Symbols(self.positions, ((calm, fake), (WORD - more, more))).draw(states, stream)


KVUE, KVOH = (Plan.of(SCHEMA, name, 1).channels[0] for name in ("kvue", "kvoh"))


@pytest.mark.parametrize(
    "leaky",
    [
        StuckSymmetric(3, KVUE.keep, KVUE.lie),
        EagerSymmetric(3, KVUE.keep, KVUE.lie),
        StuckBits(3, KVOH.laws),
        EagerBits(3, KVOH.laws),
    ],
    ids=lambda leaky: type(leaky).__name__,
)
def test_a_leak_in_the_sampler_is_caught(leaky, scale):
    plan = twin(leaky)
    assert plan.proven <= 1, "its integers claim to be honest"
    audit = audited(plan, 150_000 * scale)
    assert audit.epsilon > PROMISED, str(audit)


@pytest.mark.parametrize("name", ["kvue", "kvoh"])
def test_a_length_that_depends_on_the_record_is_caught(name, scale):
    plan, coins = Plan.of(SCHEMA, name, 1), Coins.stated("lengths")
    count = iter(range(10**9))

    def device(record):
        person = next(count)
        body = json.loads(plan.report(record, coins, person).dumps())
        body["padding"] = "0" * (10 + len(record))  # meant to hide the length, and tells the number
        return json.dumps(body)

    audit = audit_device(device, PAIRS[2:], draws=3_000 * scale)
    assert audit.epsilon > PROMISED, str(audit)
    assert "bytes" in audit.event


def test_a_device_that_sends_reports_is_audited_one_by_one(scale):
    plan, coins = Plan.of(SCHEMA, "kvue", 1), Coins.stated("one by one")
    count = iter(range(10**9))
    audit = audit_device(lambda r: plan.report(r, coins, next(count)), PAIRS, draws=4_000 * scale)
    assert 0.5 < audit.epsilon <= PROMISED, str(audit)
    assert audit.draws == (2_000 * scale, 2_000 * scale)


def test_a_device_that_tells_all_is_convicted_of_what_so_few_draws_can_show():
    """Clopper-Pearson in closed form: all of n against none of n."""
    audit = audit_device(lambda r: json.dumps({"cells": [0, 1 + len(r)]}), PAIRS[:1], draws=400)
    alpha = 0.001 / 16  # eight events, two sides each
    least = alpha ** (1 / 200)
    assert audit.epsilon == pytest.approx(np.log(least / (1 - least)), rel=1e-9)  # doubles
    assert audit.seen == (200, 0)
    assert "epsilon is at least" in str(audit)


def test_a_device_that_says_nothing_is_not_flagged():
    audit = audit_device(lambda r: '{"cells":[0,1]}', PAIRS, draws=1_000)
    assert audit.epsilon == 0
    assert audit.event == "nothing"


def test_a_cell_never_marked_by_one_record_is_no_leak_by_itself():
    """Absence is counted by what it is not, also where the cell never appears in a batch."""
    half = Counter({'{"cells":[0,1]}': 1_000})
    other = Counter({'{"cells":[0,1]}': 999, '{"cells":[0,2]}': 1})
    assert audit_batches([((half, half), (other, other))]).epsilon == 0


def test_what_is_no_report_is_refused():
    for text in ("{}", "[]", "x", '{"cells":[]}', '{"cells":"no"}'):
        with pytest.raises(ReportError):
            audit_device(lambda r, text=text: text, PAIRS, draws=2)
    with pytest.raises(PlanError, match="confidence"):
        audit_device(lambda r: '{"cells":[0]}', PAIRS, draws=2, confidence=1)
