"""Sealed epochs where an engine reads them, and tallies of an engine where a collector reads them."""

from __future__ import annotations

import json

import pytest
from desk import PLAN, fresh, plan_of
from process import keyveil

from keyveil import KeyveilError, Plan, Tally
from keyveil.plan.engines import LocalPool, tally_files
from keyveil.service.collector.http.routes import TALLY
from keyveil.service.collector.operations.export import Exported, export

DAY = 86_400


def seal(desk, number, plan=PLAN):
    """Collect reports for a day, and seal that day."""
    assert desk.send(fresh(number, plan), plan=plan.hash).status_code == 200
    desk.clock.advance(3 * DAY)
    desk.keep()


def sent(desk, target):
    return export(desk.store, desk.folder / "segments", "menu", target)


@pytest.mark.parametrize("mechanism", ["kvue", "pckv_ue"])
def test_an_engine_counts_what_the_collector_sends(mechanism, file_desk, tmp_path):
    plan, target = plan_of(mechanism), tmp_path / "lake"
    file_desk.create("menu", plan)
    seal(file_desk, 30, plan)
    assert sent(file_desk, target) == Exported(1, 30)
    seal(file_desk, 20, plan)
    assert sent(file_desk, target) == Exported(1, 20, before=1)
    assert sent(file_desk, target) == Exported(before=2)
    tally = tally_files(target / "round-0001", plan, LocalPool(2))
    there = Tally.parse(plan, file_desk.get("/v1/collections/menu/tally").content)
    assert tally == there
    assert tally.reports == 50
    assert Plan.load(target / "round-0001" / "_plan.json") == plan

    file_desk.create("sum", plan)
    tally.save(tmp_path / "tally.kv")
    brought = file_desk.post(
        "/v1/collections/sum/tallies",
        content=(tmp_path / "tally.kv").read_bytes(),
        headers={"content-type": TALLY},
    )
    assert brought.json() == {"added": True, "reports": 50}
    assert Tally.parse(plan, file_desk.get("/v1/collections/sum/tally").content) == tally


def test_the_command_says_what_was_sent(file_desk, tmp_path):
    file_desk.create("menu")
    words = ("collection", "export", "menu", str(tmp_path / "lake"), "--store", file_desk.address)
    words += ("--segments", str(tmp_path / "segments"))
    assert keyveil(*words).stdout == "menu: nothing is sealed yet: it has no reports\n"
    file_desk.send(fresh(1))
    assert "1 epoch is open; an epoch is sealed about 25 h after its end" in keyveil(*words).stdout
    seal(file_desk, 6)
    assert "1 new epoch with 7 reports, 0 there before" in keyveil(*words).stdout
    assert json.loads(keyveil(*words, "--json").stdout)["before"] == 1
    PLAN.save(tmp_path / "plan.json")
    done = keyveil(
        "tally", str(tmp_path / "plan.json"), str(tmp_path / "lake"), "-o", str(tmp_path / "tally.kv")
    )
    assert "7 reports" in done.stdout


def test_a_damaged_or_foreign_epoch_is_not_sent(file_desk, tmp_path):
    file_desk.create("menu")
    seal(file_desk, 5)
    (part,) = (tmp_path / "segments").rglob("part-*.parquet")
    content = part.read_bytes()
    part.write_bytes(content[:-1] + b"x")
    with pytest.raises(KeyveilError, match="does not match its check; see 'keyveil verify'"):
        sent(file_desk, tmp_path / "lake")
    part.unlink()
    with pytest.raises(KeyveilError, match="is missing; see 'keyveil verify'"):
        sent(file_desk, tmp_path / "lake")
    assert not list((tmp_path / "lake").rglob("*.parquet"))
    part.write_bytes(content)
    sent(file_desk, tmp_path / "lake")
    (manifest,) = (tmp_path / "lake").rglob("manifest.json")
    manifest.write_text("{}")
    with pytest.raises(KeyveilError, match="an epoch of another collection"):
        sent(file_desk, tmp_path / "lake")
