"""Tallies and files of reports name their plan by its hash; every other name is refused."""

from __future__ import annotations

import json
import zlib
from typing import Any

import pytest

from keyveil import Coins, People, Plan, Report, ReportError, Reports, Schema, Tally
from keyveil.cli.command import run
from keyveil.plan.report_file import reading, writing

KEYS = ["Fries", "Pepsi", "Salad"]
PLAN = Plan.of(Schema.of(KEYS, 1, 5), "kvue", 1)
OTHER = Plan.of(Schema.of(KEYS, 1, 5), "kvue", 4)
assert PLAN.layout.cells == OTHER.layout.cells, "another plan's counts would fit"

NAMES: list[Any] = [
    "not a hash",
    "",
    None,
    0,
    True,
    [PLAN.hash],
    {"hash": PLAN.hash},
    PLAN.hash.upper(),
    PLAN.hash + "\n",
    PLAN.hash[:-1],
    " " * 64,
    "\N{ARABIC-INDIC DIGIT ZERO}" * 64,
    "0" * 64,
    OTHER.hash,
]


def reports_of(plan: Plan, people: int = 50) -> Reports:
    held = People.of_records(plan.schema, [{"Pepsi": 4.5}] * people)
    return plan.privatise(held, Coins.stated("headers"))


def with_header(content: bytes, **changes: Any) -> bytes:
    """A tally or file of reports with other members in its header; a removed one is ``...``."""
    size = int.from_bytes(content[8:12], "little")
    header = {**json.loads(content[12 : 12 + size]), **changes}
    text = json.dumps({name: value for name, value in header.items() if value is not ...}).encode()
    return content[:8] + len(text).to_bytes(4, "little") + text + content[12 + size :]


def with_doubled(content: bytes, name: str, value: Any) -> bytes:
    """The same with a first member of this name before the true one."""
    size = int.from_bytes(content[8:12], "little")
    text = b"{" + json.dumps({name: value})[1:-1].encode() + b"," + content[13 : 12 + size]
    return content[:8] + len(text).to_bytes(4, "little") + text + content[12 + size :]


@pytest.mark.parametrize("name", NAMES, ids=repr)
def test_a_tally_by_any_other_name_is_refused(name, tmp_path, capsys):
    """Its counts fit this plan, and would be decoded to wrong answers."""
    content = with_header(Tally(OTHER).add(reports_of(OTHER)).dumps(), plan=name)
    with pytest.raises(ReportError, match="plan"):
        Tally.parse(PLAN, content)
    (tmp_path / "t.kv").write_bytes(content)
    PLAN.save(tmp_path / "plan.json")
    plan, tally, total = (str(tmp_path / file) for file in ("plan.json", "t.kv", "total.kv"))
    for command in (["estimate", plan, tally], ["tally", plan, tally, "-o", total]):
        assert run(command) == 1
        assert len(capsys.readouterr().err.strip().splitlines()) == 1
    assert not (tmp_path / "total.kv").exists()


@pytest.mark.parametrize("name", NAMES, ids=repr)
def test_reports_by_any_other_name_are_refused(name, tmp_path):
    batch = reports_of(OTHER)
    for reports in (Reports(name, codes=batch.codes), Report(name, PLAN.report({}).cells)):
        with pytest.raises(ReportError, match="plan"):
            Tally(PLAN).add(reports)
    with pytest.raises(ReportError), writing(PLAN, tmp_path / "never.kv") as writer:
        writer.add(Reports(name, codes=batch.codes))
    with writing(OTHER, tmp_path / "r.kv") as writer:
        writer.add(batch)
    (tmp_path / "r.kv").write_bytes(with_header((tmp_path / "r.kv").read_bytes(), plan=name))
    with pytest.raises(ReportError, match="plan"):
        list(reading(PLAN, tmp_path / "r.kv"))
    line = {**json.loads(PLAN.report({}).dumps()), "plan": name}
    with pytest.raises(ReportError, match="plan"):
        Tally(PLAN).add(Report.parse(json.dumps(line)))


@pytest.mark.parametrize(
    "changes",
    [
        {"reports": 49},
        {"reports": 50.0},
        {"reports": "50"},
        {"reports": None},
        {"reports": ...},
        {"plan": ...},
        {"cells": ...},
        {"cells": 13},
        {"cells": 12.0},
        {"cells": True},
        {"sparse": True},
        {"sparse": 0},
        {"sparse": ...},
        {"crc": ...},
        {"crc": 1},
        {"crc": None},
        {"note": "more"},
    ],
    ids=repr,
)
def test_every_member_of_a_tally_header_is_compared(changes):
    content = Tally(PLAN).add(reports_of(PLAN)).dumps()
    assert Tally.parse(PLAN, with_header(content)).reports == 50
    with pytest.raises(ReportError):
        Tally.parse(PLAN, with_header(content, **changes))


@pytest.mark.parametrize("changes", [{"kind": "bits"}, {"width": 2}, {"width": True}, {"note": 1}])
def test_every_member_of_a_report_file_header_is_compared(changes, tmp_path):
    path = tmp_path / "r.kv"
    with writing(PLAN, path) as writer:
        writer.add(reports_of(PLAN))
    content = path.read_bytes()
    path.write_bytes(with_header(content))
    assert sum(len(batch) for batch in reading(PLAN, path)) == 50
    path.write_bytes(with_header(content, **changes))
    with pytest.raises(ReportError):
        list(reading(PLAN, path))


def test_a_doubled_member_is_refused_wherever_a_plan_is_named(tmp_path):
    """Readers differ in which of the two they believe."""
    with pytest.raises(ReportError):
        Tally.parse(PLAN, with_doubled(Tally(PLAN).dumps(), "plan", OTHER.hash))
    path = tmp_path / "r.kv"
    with writing(PLAN, path) as writer:
        writer.add(reports_of(PLAN))
    path.write_bytes(with_doubled(path.read_bytes(), "plan", OTHER.hash))
    with pytest.raises(ReportError):
        list(reading(PLAN, path))
    line = '{"plan":"' + OTHER.hash + '",' + PLAN.report({}).dumps()[1:]
    with pytest.raises(ReportError):
        Report.parse(line)


def test_a_tally_whose_check_sum_differs_is_refused():
    """The counts still add up, so that nothing but the check sum tells."""
    tally = Tally(PLAN).add(reports_of(PLAN))
    moved = Tally(PLAN, tally.counts.copy())
    own, cells = tally.view_counts(0)
    assert own
    moved.counts[1:4] = sorted(cells.tolist(), reverse=bool(cells[0] <= cells[-1]))
    assert moved != tally
    assert Tally.parse(PLAN, moved.dumps()) == moved, "with its own check sum it is a tally"
    size = int.from_bytes(tally.dumps()[8:12], "little")
    crc = json.loads(tally.dumps()[12 : 12 + size])["crc"]
    with pytest.raises(ReportError, match="broken"):
        Tally.parse(PLAN, with_header(moved.dumps(), crc=crc))


def test_a_tally_that_was_given_another_name_is_refused():
    """Counts of another plan under this plan's hash: nothing but the check sum tells."""
    content = Tally(OTHER).add(reports_of(OTHER)).dumps()
    with pytest.raises(ReportError, match="broken"):
        Tally.parse(PLAN, with_header(content, plan=PLAN.hash))


def test_a_tally_of_before_is_read_by_stores_alone():
    """Its check sum is of the body alone, so that anyone could rename it."""
    tally = Tally(PLAN).add(reports_of(PLAN))
    content = tally.dumps()
    size = int.from_bytes(content[8:12], "little")
    before = with_header(content, crc=zlib.crc32(zlib.decompress(content[12 + size :])))
    with pytest.raises(ReportError, match="broken"):
        Tally.parse(PLAN, before, stored=True)
    before = b"KVTALLY1" + before[8:]
    assert Tally.parse(PLAN, before, stored=True) == tally
    with pytest.raises(ReportError, match="earlier version"):
        Tally.parse(PLAN, before)
