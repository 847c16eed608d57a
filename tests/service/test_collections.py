"""Collections: made from plans, opened, paused, closed, deleted; rounds; new versions."""

from __future__ import annotations

import json
import re
from decimal import Decimal

import pytest
from desk import KEYS, PLAN, fresh, plan_of
from process import keyveil

from keyveil import BudgetError, Coins, Plan, Schema, Tally
from keyveil.foundation.errors import FinishedError
from keyveil.foundation.exact import text
from keyveil.service.client import Ledger
from keyveil.service.client.client_core import EPOCHS
from keyveil.service.collector.engine.plan_difference import compare_plans
from keyveil.service.collector.process.problems import Problem
from keyveil.service.collector.store.collection import Terms


def reason(answer):
    return answer.status_code, answer.json()["reason"]


def test_a_collection_is_made_listed_and_shown(desk):
    document = desk.create(people=100)
    assert document["state"] == "open"
    assert document["plan"] == PLAN.hash
    assert document["epoch"]["now"] == desk.epoch()
    assert document.pop("warnings") == []
    assert desk.get("/v1/collections/menu").json() == document
    assert desk.get("/v1/collections").json() == {"collections": [document]}
    status = desk.get("/v1/collections/menu/status").json()
    assert status["terms"]["people"] == 100
    assert status["rounds"][0]["reports"] == 0


def test_the_plan_is_served_as_it_was_made(desk):
    desk.create()
    answer = desk.get("/v1/collections/menu/plan")
    assert answer.text == PLAN.dumps()
    assert Plan.parse(answer.content) == PLAN
    again = desk.get("/v1/collections/menu/plan", headers={"if-none-match": answer.headers["etag"]})
    assert again.status_code == 304


def test_a_name_is_taken_once(desk):
    desk.create()
    again = desk.post("/v1/collections", json={"name": "menu", "plan": PLAN.document()})
    assert reason(again) == (409, "exists")


def tampered(**change):
    document = PLAN.document()
    document.update(change)
    return document


@pytest.mark.parametrize(
    "body",
    [
        {"name": "a", "plan": tampered(hash="0" * 64)},
        {"name": "a", "plan": tampered(epsilon={"promised": "0.5", "proven": "0.5"})},
        {"name": "a", "plan": {}},
        {"name": "a", "plan": None},
        {"name": "a", "plan": "x"},
        {"name": "A", "plan": PLAN.document()},
        {"name": "a/b", "plan": PLAN.document()},
        {"name": "", "plan": PLAN.document()},
        {"name": "-a", "plan": PLAN.document()},
        {"name": "a" * 65, "plan": PLAN.document()},
        {"name": "a", "plan": PLAN.document(), "state": "closed"},
        {"name": "a", "plan": PLAN.document(), "extra": 1},
        {"name": "a", "plan": PLAN.document(), "terms": {"people": 0}},
        {"name": "a", "plan": PLAN.document(), "terms": {"epoch": 0}},
        {"name": "a", "plan": PLAN.document(), "terms": {"epoch": 1, "grace": 100}},
        {"name": "a", "plan": PLAN.document(), "terms": {"opens": 5, "closes": 5}},
        {"name": "a", "plan": PLAN.document(), "terms": {"origins": ["shop.example"]}},
        {"name": "a", "plan": PLAN.document(), "terms": {"origins": ["https://shop.example/"]}},
        {"name": "a", "plan": PLAN.document(), "terms": {"origins": ["https://a@shop.example"]}},
        {"name": "a", "plan": PLAN.document(), "terms": {"token": 1}},
        {"name": "a", "plan": PLAN.document(), "terms": {"unknown": 1}},
    ],
)
def test_what_cannot_be_made_is_refused(file_desk, body):
    answer = file_desk.post("/v1/collections", json=body)
    assert answer.status_code == 400, answer.text
    assert file_desk.get("/v1/collections").json() == {"collections": []}


def test_a_later_round_cannot_begin_a_collection(file_desk):
    plan = plan_of("privkvm", rounds=2)
    later = plan.next(Tally(plan))
    answer = file_desk.post("/v1/collections", json={"name": "a", "plan": later.document()})
    assert reason(answer) == (400, "invalid")


def test_there_is_no_way_to_change_a_plan(file_desk):
    file_desk.create()
    file_desk.send(fresh(1))
    other = plan_of(epsilon=2)
    for method, path in (("PATCH", ""), ("PUT", "/plan"), ("POST", "/plan"), ("PATCH", "/plan")):
        answer = file_desk.ask(method, "/v1/collections/menu" + path, json={"plan": other.document()})
        assert answer.status_code in (400, 405)
    assert file_desk.get("/v1/collections/menu").json()["plan"] == PLAN.hash


def test_terms_change_but_for_those_that_ids_hang_on(desk):
    desk.create(people=5)
    answer = desk.ask("PATCH", "/v1/collections/menu", json={"people": 7, "origins": ["https://a.org"]})
    assert answer.status_code == 200
    terms = desk.get("/v1/collections/menu/status").json()["terms"]
    assert (terms["people"], terms["origins"]) == (7, ["https://a.org"])
    assert desk.ask("PATCH", "/v1/collections/menu", json={"people": None}).status_code == 200
    for fixed in ({"epoch": 5}, {"grace": 5}, {"early": 5}, {"replaces": "menu"}):
        answer = desk.ask("PATCH", "/v1/collections/menu", json=fixed)
        assert reason(answer) == (400, "invalid")


def test_closed_is_for_good_and_only_closed_ones_are_deleted(desk):
    desk.create()
    desk.send(fresh(3))
    assert reason(desk.ask("DELETE", "/v1/collections/menu")) == (409, "state")
    for state in ("paused", "open", "closed", "closed"):
        assert desk.post("/v1/collections/menu/state", json={"state": state}).json()["state"] == state
    for state in ("open", "paused"):
        assert reason(desk.post("/v1/collections/menu/state", json={"state": state})) == (409, "state")
    assert desk.post("/v1/collections/menu/state", json={"state": "gone"}).status_code == 400
    assert desk.ask("DELETE", "/v1/collections/menu").status_code == 204
    assert desk.get("/v1/collections/menu").status_code == 404
    desk.create()
    assert desk.reports() == 0


def test_a_deleted_collection_s_segments_are_gone_too(file_desk):
    file_desk.create()
    file_desk.send(fresh(3))
    file_desk.clock.advance(3 * 86_400)
    file_desk.keep()
    assert list(file_desk.folder.rglob("*.parquet"))
    file_desk.post("/v1/collections/menu/state", json={"state": "closed"})
    file_desk.ask("DELETE", "/v1/collections/menu")
    assert not list(file_desk.folder.rglob("*.parquet"))


# -- rounds ----------------------------------------------------------------------------------------


def test_one_collection_that_cannot_be_sealed_holds_up_no_other(file_desk):
    """Its folder cannot be made; the other's ids expire all the same, and the operator is told."""
    for name in ("first", "second"):
        file_desk.create(name)
        file_desk.send(fresh(4), name=name)
    collection = file_desk.store.control.named("first")
    (file_desk.folder / "segments" / f"first.{collection.id}").write_text("in the way")
    file_desk.clock.advance(3 * 86_400)
    with pytest.raises(OSError, match="exists"):
        file_desk.keep()
    second = file_desk.status("second")["rounds"][0]
    assert [sealed["reports"] for sealed in second["sealed_epochs"]] == [4]
    assert file_desk.status("first")["rounds"][0]["sealed_epochs"] == []
    (file_desk.folder / "segments" / f"first.{collection.id}").unlink()
    file_desk.keep()
    first = file_desk.status("first")["rounds"][0]
    assert [sealed["reports"] for sealed in first["sealed_epochs"]] == [4]


def test_an_interactive_mechanism_runs_in_rounds(desk):
    plan = plan_of("privkvm", rounds=2)
    desk.create(plan=plan)
    nothing = desk.post("/v1/collections/menu/rounds")
    assert reason(nothing) == (409, "state")
    assert "round 1 has no reports" in nothing.json()["detail"]
    reports = fresh(400, plan)
    assert desk.send(reports, plan=plan.hash).json()["accepted"] == 400
    tally = Tally.parse(plan, desk.get("/v1/collections/menu/tally").content)
    answer = desk.post("/v1/collections/menu/rounds")
    assert answer.status_code == 201
    assert answer.json()["round"] == 2
    second = Plan.parse(desk.get("/v1/collections/menu/plan").content)
    assert second == plan.next(tally), "the feedback is made from exactly what was collected"
    assert second.chain["parent"] == plan.hash
    late = desk.send(fresh(1, plan), plan=plan.hash)
    assert reason(late) == (410, "closed_round")
    assert desk.send(reports[:5], plan=plan.hash).status_code == 200, "it was counted"
    assert desk.send(fresh(50, second), plan=second.hash).json()["accepted"] == 50
    estimates = desk.get("/v1/collections/menu/estimates").json()
    assert (estimates["round"], estimates["reports"]) == (2, 50)
    assert desk.get("/v1/collections/menu/estimates?round=1").json()["reports"] == 400
    assert desk.get("/v1/collections/menu/plan?round=1").text == plan.dumps()
    assert reason(desk.post("/v1/collections/menu/rounds")) == (409, "finished")
    assert desk.send(fresh(1, second), plan=second.hash).status_code == 200, (
        "asking too much closes nothing"
    )
    for wrong in ("3", "x", "0", "-1", "9" * 30):
        assert desk.get(f"/v1/collections/menu/plan?round={wrong}").status_code in (400, 404)


def test_a_cap_that_people_tell_opens_the_second_round(file_desk):
    plan = plan_of("sized")
    file_desk.create(plan=plan)
    assert reason(file_desk.post("/v1/collections/menu/rounds"))[0] == 409, (
        "the first plan has no reports yet"
    )
    file_desk.send(fresh(200, plan), plan=plan.hash)
    assert file_desk.post("/v1/collections/menu/rounds").json()["round"] == 2
    assert Plan.parse(file_desk.get("/v1/collections/menu/plan").content).chain["parent"] == plan.hash


def test_a_mechanism_with_one_round_has_no_next(file_desk):
    file_desk.create()
    assert reason(file_desk.post("/v1/collections/menu/rounds")) == (409, "finished")
    assert file_desk.send(fresh(1)).status_code == 200


def test_a_round_that_was_closed_before_a_crash_goes_on(desk, monkeypatch):
    plan = plan_of("privkvm", rounds=2)
    desk.create(plan=plan)
    desk.send(fresh(20, plan), plan=plan.hash)

    counted, calls = desk.store.counts_stored, []

    def crash(*given):
        calls.append(given)
        if len(calls) == 2:  # once before the round is closed, once after
            raise RuntimeError("crash")
        return counted(*given)

    with monkeypatch.context() as patch:
        patch.setattr(desk.store, "counts_stored", crash)
        assert desk.post("/v1/collections/menu/rounds").status_code == 500
    assert reason(desk.send(fresh(1, plan), plan=plan.hash)) == (410, "closed_round")
    assert desk.post("/v1/collections/menu/rounds").json()["round"] == 2


def test_an_epoch_that_devices_would_refuse_is_said_when_it_is_made(tmp_path):
    PLAN.save(tmp_path / "plan.json")
    words = ("collection", "create"), (str(tmp_path / "plan.json"), "--store", str(tmp_path / "s"))
    for number, seconds in enumerate((1, 60, 3599, 7200, 86_401)):
        done = keyveil(*words[0], f"short{number}", *words[1], "--epoch", str(seconds), "--grace", "0",
                       "--early", "0")  # fmt: skip
        assert f"allow_epoch={seconds}" in done.stderr
    for number, seconds in enumerate(EPOCHS):
        done = keyveil(*words[0], f"usual{number}", *words[1], "--epoch", str(seconds))
        assert "allow_epoch" not in done.stderr
    assert "allow_epoch" not in keyveil(*words[0], "day", *words[1]).stderr


# -- new versions ----------------------------------------------------------------------------------


def test_a_new_version_names_what_is_unsafe(desk):
    desk.create("old")
    new = Plan.of(Schema.of([*KEYS[:2], "Tea"], 0, 5), "privkv", 2)
    desk.create("new", new, replaces="old")
    answer = desk.get("/v1/collections/old/compare/new").json()
    assert set(answer["unsafe"]) == {"epsilon", "total epsilon", "keys removed", "ranges", "mechanism"}
    changes = {d["what"]: (d["old"], d["new"]) for d in answer["differences"]}
    assert set(changes) >= {"keys added", "proven epsilon"}
    assert changes["mechanism"] == (PLAN.mechanism_name, "privkv")
    assert not answer["comparable"]
    assert answer["epsilon_of_both"] == str(PLAN.proven + new.proven)
    back = desk.get("/v1/collections/new/compare/old").json()
    assert "epsilon" not in back["unsafe"]
    assert desk.get("/v1/collections/new/compare/nothing").status_code == 404
    missing = desk.post(
        "/v1/collections", json={"name": "x", "plan": new.document(), "terms": {"replaces": "nothing"}}
    )
    assert missing.status_code == 404


def test_the_same_plan_is_answered_once(tmp_path):
    comparison = compare_plans(PLAN, PLAN)
    assert comparison["same_plan"]
    assert comparison["unsafe"] == ["plan"]
    assert "the collection that asks second gets no report" in comparison["differences"][0]["unsafe"]
    assert comparison["epsilon_of_both"] == text(PLAN.proven)
    ledger = Ledger(tmp_path / "ledger.json", 9)
    ledger.answer(PLAN, {"Pepsi": 4}, collection="old")
    with pytest.raises(BudgetError, match="another collection"):
        ledger.answer(PLAN, {"Pepsi": 4}, collection="new")
    assert ledger.spent == PLAN.proven, "as it says"


@pytest.mark.parametrize(
    ("mechanism", "more"),
    [
        ("privkvm", {"rounds": 3}),
        ("privkvm", {"rounds": 5}),
        ("privkvm_plus", {"cost": "0"}),
        ("sized", {}),
    ],
)
def test_what_both_tell_is_what_the_ledger_adds_up_over_all_rounds(tmp_path, mechanism, more):
    first = plan_of(mechanism, epsilon=2, **more)
    ledger = Ledger(tmp_path / "ledger.json", 9)
    plan, rounds = first, 0
    while True:
        rounds += 1
        if mechanism == "sized" and rounds > 1:  # people are split: a device answers one of the plans
            with pytest.raises(BudgetError, match="stated a total of epsilon 2"):
                ledger.answer(plan, {"Pepsi": 4}, collection="rounds")
        else:
            ledger.answer(plan, {"Pepsi": 4}, collection="rounds")
        tally = Tally(plan)
        for person in range(50):
            tally.add(plan.report({"Pepsi": 4}, Coins.stated("compare"), person))
        try:
            plan = plan.next(tally)
        except FinishedError:
            break
    ledger.answer(PLAN, {"Pepsi": 4}, collection="menu")
    assert rounds >= 2
    epsilon = Decimal(compare_plans(first, PLAN)["epsilon_of_both"])
    assert epsilon == Decimal(compare_plans(PLAN, first)["epsilon_of_both"])
    assert ledger.spent <= epsilon <= 2 + PLAN.proven
    if mechanism == "privkvm":
        assert epsilon - ledger.spent < Decimal("1e-6"), "all its rounds are run"
    assert epsilon > first.proven + PLAN.proven, "more than the first round"
    assert Decimal(compare_plans(plan, PLAN)["epsilon_of_both"]) >= ledger.spent


def test_changed_parameters_are_shown_on_the_scale_of_the_values():
    stars = Schema.of(3, 1, 5)
    comparison = compare_plans(*(Plan.of(stars, "f2m", 1, default=default) for default in (4, 5)))
    changed = next(each for each in comparison["differences"] if each["what"] == "parameters")
    assert changed["old"] == {"default": "4", "split": "0.5"}
    assert changed["new"] == {"default": "5", "split": "0.5"}


def test_a_safe_change_is_called_safe():
    comparison = compare_plans(plan_of(epsilon=2), plan_of(epsilon=1))
    assert comparison["unsafe"] == []
    assert comparison["comparable"]


def test_terms_say_what_is_wrong():
    with pytest.raises(Problem, match="'colour' is not a term; known: people, opens"):
        Terms.of({"colour": 1})
    with pytest.raises(Problem, match="must close after it opens"):
        Terms.of({"opens": 5, "closes": 4})


@pytest.mark.parametrize("now", [0, 99, 100, 149, 150, 151, 1_000_000_049, 1_000_000_050])
def test_first_open_is_the_first_epoch_that_is_not_over(now):
    terms = Terms.of({"epoch": 100, "grace": 50})
    first = terms.first_open(now)
    assert not terms.over(first, now)
    assert first == 0 or terms.over(first - 1, now)


def test_a_plan_that_is_no_text_at_all_is_refused(file_desk):
    """A lone half of a character pair cannot be written as UTF-8."""
    from keyveil.service.collector.engine import admin

    lone = json.dumps({**PLAN.document(), "hash": "\ud800"})
    answer = file_desk.post(
        "/v1/collections",
        content=('{"name":"a","plan":' + lone + "}").encode(),
        headers={"content-type": "application/json"},
    )
    assert answer.status_code == 400
    with pytest.raises(Problem):
        admin.checked_plan(lone)
    schema = {**PLAN.document()["schema"], "keys": ["\ud800", "a", "b"]}
    with pytest.raises(Problem):
        admin.checked_plan(json.dumps({**PLAN.document(), "schema": schema}))


def test_a_full_collection_says_so_before_anyone_spends(desk):
    desk.create(people=3)
    desk.send(fresh(2))
    assert reason(desk.ask("PATCH", "/v1/collections/menu", json={"people": 1})) == (409, "state")
    assert desk.get("/v1/collections/menu").json()["state"] == "open"
    desk.send(fresh(1))
    desk.clock.advance(3)
    desk.service.writer.tick()
    assert desk.get("/v1/collections/menu").json()["state"] == "full"
    assert desk.status()["state"] == "full"
    assert desk.get("/v1/overview").json()["collections"][0]["state"] == "full"
    raised = desk.ask("PATCH", "/v1/collections/menu", json={"people": 4}).json()
    assert raised["state"] == "open"
    assert desk.send(fresh(2)).json()["accepted"] == 1
    assert desk.get("/v1/collections/menu").json()["state"] == "full", "known with the first refusal"
    lowered = desk.ask("PATCH", "/v1/collections/menu", json={"people": 3})
    assert "people=3 is below the 4 reports" in lowered.json()["detail"]


def test_a_comparison_is_printed_for_people(desk, tmp_path):
    desk.create("old")
    desk.create("new", plan_of("pckv_ue", epsilon=2))
    done = keyveil("collection", "compare", "old", "new", "--store", desk.address)
    assert re.search(r"^parameters +none +length \d", done.stdout, re.MULTILINE)
    assert re.search(r"^proven epsilon +1\.000 +2\.000", done.stdout, re.MULTILINE)
    assert done.stdout.endswith("a person who answers both tells epsilon 3.000 in all\n")
