"""Tallies and files of reports: they add up, and refuse what no honest device could send."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest

from keyveil import REGISTRY, Coins, People, Plan, Report, ReportError, Reports, Schema, Tally
from keyveil.channel import Table
from keyveil.foundation.arrays import WORD
from keyveil.people.views import Views
from keyveil.plan.report_file import reading, writing
from keyveil.testing import example_plan

SCHEMA = Schema.of([f"k{i}" for i in range(15)], 0, 10)
RECORDS = [{"k1": 3, "k7": 9.5}, {}, {"k14": 0}, {f"k{i}": i / 2 for i in range(15)}] * 25
PLANS = {
    name: example_plan(Schema.of(SCHEMA.keys[: 15 if kind.most_keys >= 15 else 6], 0, 10), name, 1)
    for name, kind in REGISTRY.items()
}


def records(plan: Plan) -> list[dict[str, float]]:
    """The records, without the keys that a plan for few keys does not have."""
    return [{k: v for k, v in record.items() if k in plan.schema.index} for record in RECORDS]


def batch(plan: Plan) -> Reports:
    return plan.privatise(People.of_records(plan.schema, records(plan)), Coins.stated("batch"))


@pytest.mark.parametrize("name", REGISTRY)
def test_every_door_leads_to_the_same_tally(name, tmp_path):
    """One by one, in a batch, from a file of reports, from JSON lines, from a saved tally."""
    plan, coins = PLANS[name], Coins.stated("batch")
    singles = [plan.report(record, coins, i) for i, record in enumerate(records(plan))]
    one_by_one = Tally(plan)
    for report in singles:
        one_by_one.add(Report.parse(report.dumps()))
    assert Tally(plan).add(batch(plan)) == one_by_one
    assert Tally(plan).add(plan.packing.batch_of(report.cells for report in singles)) == one_by_one
    with writing(plan, tmp_path / "r.kv") as writer:
        writer.add(batch(plan))
    (tmp_path / "r.jsonl").write_text("\n".join(r.dumps() for r in singles))
    for file in ("r.kv", "r.jsonl"):
        read = Tally(plan)
        for part in reading(plan, tmp_path / file):
            read.add(part)
        assert read == one_by_one
    one_by_one.save(tmp_path / "t.kv")
    assert Tally.load(plan, tmp_path / "t.kv") == one_by_one
    assert one_by_one.reports == len(RECORDS)


def test_a_tally_of_a_larger_plan_is_said_to_be_another_plans():
    """Its counts are more than this plan has room for, and are not what is wrong with it."""
    small, large = (Plan.of(Schema.of(keys), "kvue", 1) for keys in (3, 50))
    full = Tally(large).add(large.report({}))
    for plan, tally in ((small, full), (large, Tally(small))):
        with pytest.raises(ReportError, match="belongs to another plan"):
            Tally.parse(plan, tally.dumps())


def test_another_plans_reports_and_tallies_are_refused(tmp_path):
    plan, other = PLANS["kvue"], PLANS["privkv"]
    with pytest.raises(ReportError, match="another plan"):
        Tally(plan).add(other.report({}))
    with pytest.raises(ReportError, match="another plan"):
        Tally(plan).add(batch(other))
    with pytest.raises(ReportError, match="another plan"):
        Tally(plan) + Tally(other)
    Tally(other).save(tmp_path / "t.kv")
    with pytest.raises(ReportError, match="another plan"):
        Tally.load(plan, tmp_path / "t.kv")
    with writing(other, tmp_path / "r.kv") as writer:
        writer.add(batch(other))
    with pytest.raises(ReportError, match="another plan"):
        list(reading(plan, tmp_path / "r.kv"))


def test_a_tally_that_is_added_like_a_report_is_told_to_join_with_plus():
    plan = PLANS["kvue"]
    tally = Tally(plan).add(batch(plan))
    with pytest.raises(ReportError, match=r"join with \+"):
        Tally(plan).add(tally)  # type: ignore[arg-type]
    assert Tally(plan) + tally == tally


@pytest.mark.parametrize(
    "cells",
    [(0,), (1, 2), (0, 1, 2), (0, 0), (0, 5), (4, 1), (10**9, 10**9 + 1), (0, -1), (0, 1, 1)],
)
def test_cells_that_no_honest_device_marks_are_refused(cells):
    plan = PLANS["kvue"]
    tally = Tally(plan)
    with pytest.raises(ReportError):
        tally.add(Report(plan.hash, cells))
    assert not tally.counts.any(), "and nothing was counted"


def test_codes_outside_the_plan_are_refused_whole():
    plan = PLANS["kvue"]
    good = batch(plan).codes
    for bad in (45, 65535):
        tally = Tally(plan)
        with pytest.raises(ReportError):
            tally.add(Reports(plan.hash, codes=np.append(good, np.uint16(bad)).astype(np.uint16)))
        assert not tally.counts.any()


def test_bits_of_the_wrong_width_or_view_are_refused():
    plan = PLANS["rappor"]
    good = batch(plan)
    with pytest.raises(ReportError, match="number of bits"):
        Tally(plan).add(Reports(plan.hash, views=good.views, bits=good.bits[:, :1]))
    with pytest.raises(ReportError):
        Tally(plan).add(Reports(plan.hash, views=good.views + 1, bits=good.bits))
    padded = good.bits.copy()
    padded[0, -1] |= 0x80  # bit 16 of a plan with 15 keys
    with pytest.raises(ReportError):
        Tally(plan).add(Reports(plan.hash, views=good.views, bits=padded))
    with pytest.raises(ReportError):
        Tally(plan).add(Reports(plan.hash, codes=np.zeros(3, np.uint16)))


def test_a_batch_whose_report_names_too_many_states_is_refused_whole():
    plan = Plan.of(Schema.of(40), "sized", "0.2")
    assert plan.channels[0].shape == "subset"
    good = batch(plan)
    Tally(plan).add(good)
    bits = np.unpackbits(good.bits, axis=1, bitorder="little", count=plan.channels[0].cells)
    bits[3] = 1
    bad = np.packbits(bits, axis=1, bitorder="little")
    tally = Tally(plan)
    with pytest.raises(ReportError, match="no honest device"):
        tally.add(Reports(plan.hash, views=good.views, bits=bad))
    assert not tally.counts.any()


@pytest.mark.parametrize("name", ["kvue", "rappor"])
def test_a_file_cut_short_or_changed_anywhere_is_refused(name, tmp_path):
    plan = PLANS[name]
    with writing(plan, tmp_path / "r.kv") as writer:
        writer.add(batch(plan))
    whole = (tmp_path / "r.kv").read_bytes()
    for cut in (9, 40, len(whole) // 2, len(whole) - 16, len(whole) - 1):
        (tmp_path / "cut.kv").write_bytes(whole[:cut])
        with pytest.raises(ReportError):
            list(reading(plan, tmp_path / "cut.kv"))
    for at in range(8, len(whole), 7):
        (tmp_path / "bad.kv").write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        with pytest.raises(ReportError):
            list(reading(plan, tmp_path / "bad.kv"))
    (tmp_path / "long.kv").write_bytes(whole + b"x")
    with pytest.raises(ReportError, match="end"):
        list(reading(plan, tmp_path / "long.kv"))


def test_a_failed_write_leaves_no_file(tmp_path):
    plan = PLANS["kvue"]

    def interrupted() -> None:
        with writing(plan, tmp_path / "r.kv") as writer:
            writer.add(batch(plan))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        interrupted()
    assert list(tmp_path.iterdir()) == []


def test_a_tally_that_does_not_add_up_is_refused():
    plan = PLANS["kvue"]
    tally = Tally(plan).add(batch(plan))
    tally.counts[0] += 1
    with pytest.raises(ReportError, match="adds up"):
        Tally.parse(plan, tally.dumps())
    tally.counts[0] -= 1
    tally.counts[1] = -5
    with pytest.raises(ReportError, match="adds up"):
        Tally.parse(plan, tally.dumps())


def test_a_large_tally_is_written_sparsely():
    schema = Schema.of(30_000)
    plan = Plan.of(schema, "kvue", 1)
    tally = Tally(plan).add(plan.report({}))
    assert len(tally.counts) > 1 << 16
    assert len(tally.dumps()) < 1000
    assert Tally.parse(plan, tally.dumps()) == tally


@pytest.mark.parametrize(
    "line", ["{}", "[]", "x", '{"format":"keyveil/report/1","plan":"00","cells":[0,1]}']
)
def test_a_bad_line_is_named_by_its_number(line, tmp_path):
    plan = PLANS["kvue"]
    (tmp_path / "r.jsonl").write_text(plan.report({}).dumps() + "\n" + line + "\n")
    with pytest.raises(ReportError, match="line 2"):
        list(reading(plan, tmp_path / "r.jsonl"))


QUARTER = WORD // 4
EMPTY_COLUMN = Plan(
    Schema.of(["a", "b"]),
    Views.singles(2),
    "views",
    (Table(((2 * QUARTER, 0, 2 * QUARTER), (QUARTER, 0, 3 * QUARTER), (3 * QUARTER, 0, QUARTER))),),
    Decimal(2),
    "kvue",
)
"""A plan whose output 1 no one ever sends: codes 1 and 4, cells 2 and 6."""


@pytest.mark.parametrize("kind", [np.uint8, np.int64])
def test_an_output_that_no_state_sends_is_refused_in_every_form(kind, tmp_path):
    plan = EMPTY_COLUMN
    good = np.array([0, 2, 3, 5] * 3, kind)
    assert Tally(plan).add(Reports(plan.hash, codes=good)).reports == 12
    for bad in (1, 4):
        tally = Tally(plan)
        with pytest.raises(ReportError, match="no honest device"):
            tally.add(Reports(plan.hash, codes=np.append(good, kind(bad))))
        cells = (0, 2) if bad == 1 else (4, 6)
        with pytest.raises(ReportError, match="no honest device"):
            tally.add(Report(plan.hash, cells))
        assert not tally.counts.any()
        tally.counts[list(cells)] += 1
        with pytest.raises(ReportError, match="adds up"):
            Tally.parse(plan, tally.dumps())


def test_bits_with_more_marks_than_reports_are_no_tally():
    plan = PLANS["rappor"]
    assert not plan.layout.one_cell
    tally = Tally(plan).add(batch(plan))
    own, cells = tally.view_counts(0)
    tally.counts[1] = own
    assert Tally.parse(plan, tally.dumps()) == tally, "everyone may mark one cell"
    tally.counts[1] = own + 1
    with pytest.raises(ReportError, match="adds up"):
        Tally.parse(plan, tally.dumps())
    assert len(cells) == 15
