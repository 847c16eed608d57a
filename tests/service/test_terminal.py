"""What someone who runs a collection reads and types: answers at the terminal, and plain first steps."""

from __future__ import annotations

import json

import pytest
from desk import KEYS, PLAN, Desk, fresh, plan_of
from process import Process, keyveil
from stated_clock import StatedClock

from keyveil import Coins, Report, Tally
from keyveil.foundation.errors import ReportError
from keyveil.service.collector.engine import admin
from keyveil.service.collector.store import store_at

PAIRS = plan_of("pairs", ["Fries", "Pepsi"], 4)


def collected(address, tmp_path, plan=PLAN, number=300):
    """A store with reports of one collection; its tally as a file, and its plan."""
    desk = Desk(address, tmp_path)
    desk.create("menu", plan)
    record = {"Pepsi": 4, "Fries": 2}
    assert desk.send(fresh(number, plan, record, "menu"), plan=plan.hash).status_code == 200
    (tmp_path / "tally").write_bytes(desk.get("/v1/collections/menu/tally").content)
    plan.save(tmp_path / "plan.json")
    desk.close()
    return str(tmp_path / "plan.json"), str(tmp_path / "tally")


# -- answers ---------------------------------------------------------------------------------------


def test_answers_are_those_of_estimate_and_query(address, tmp_path):
    files = collected(address, tmp_path, PAIRS)
    queries = ("mean(Pepsi | Fries)", "frequency(Fries)")
    plain = keyveil("collection", "answers", "menu", "--store", address).stdout
    assert plain.startswith("menu: round 1, 300 reports\n")
    assert plain.partition("\n")[2] == keyveil("estimate", *files).stdout
    for more in ((), ("--level", "0.8")):
        answers = keyveil("collection", "answers", "menu", "--store", address, "--json", *more)
        assert json.loads(answers.stdout) == json.loads(
            keyveil("estimate", *files, "--json", *more).stdout
        )
        answers = keyveil("collection", "answers", "menu", *queries, "--store", address, "--json", *more)
        wanted = keyveil("query", *files, *queries, "--json", *more)
        assert json.loads(answers.stdout) == json.loads(wanted.stdout)


def test_answers_over_http_are_those_of_the_store(tmp_path):
    address = str(tmp_path / "store.sqlite")
    collected(address, tmp_path, PAIRS)
    served = Process(address, tmp_path)
    store = store_at(address)
    store.open(serving=False)
    token = admin.add_token(store, "analyst", "menu")
    store.close()
    try:
        local = keyveil("collection", "answers", "menu", "--store", address).stdout
        there = ("collection", "answers", "menu", "--url", served.url)
        while (refused := keyveil(*there, check=False)).returncode == 0:
            pass  # another process's change is seen within half a second
        assert (refused.returncode, len(refused.stderr.splitlines())) == (1, 1)
        assert "--token" in refused.stderr
        assert keyveil(*there, "--token", token).stdout == local
        assert keyveil(*there, "--token", token, "--round", "1").stdout == local
        arguments = (*there, "lift(Pepsi | Fries)", "--token", token, "--json")
        assert json.loads(keyveil(*arguments).stdout)[0]["query"] == "lift(Pepsi | Fries)"
        unknown = keyveil(*there, "--token", token, "--round", "7", check=False)
        assert "rounds 1 to 1" in unknown.stderr
    finally:
        served.end()
    gone = keyveil(*there, "--token", token, check=False)
    assert (gone.returncode, len(gone.stderr.splitlines())) == (1, 1)
    assert "cannot reach" in gone.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("menuu",), "there is no collection 'menuu'; did you mean menu?"),
        (("menu", "mean(Pespi)"), "Pepsi"),
        (("menu", "mean(Pepsi", "--json"), ""),
        (("menu", "--estimator", "oracle"), "oracle"),
        (("menu", "mean(Pepsi)", "--estimator", "oracle"), "oracle"),
        (("menu", "--level", "95"), "between 0 and 1"),
        (("menu", "mean(Pepsi)", "--level", "95"), "between 0 and 1"),
        (("menu", "--round", "2"), "rounds 1 to 1"),
        (("empty",), "no reports yet"),
        (("menu", "--url", "http://192.0.2.1", "--store", "x"), "--url and --store exclude each other"),
        (("menu", "--certificates", "x"), "--certificates is for --url"),
    ],
)
def test_what_cannot_be_answered_is_said_in_a_line(tmp_path, words, said):
    address = str(tmp_path / "store.sqlite")
    collected(address, tmp_path, number=20)
    store = store_at(address)
    store.open(serving=False)
    admin.create(store, "empty", plan_of("kvoh").dumps(), {}, StatedClock().time)
    store.close()
    done = keyveil("collection", "answers", "--store", address, *words, check=False)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("keyveil: ")
    assert len(done.stderr.splitlines()) == 1
    assert said in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("menu", "--url", "http://192.0.2.1"), "https"),
        (("../menu", "--url", "http://127.0.0.1:9"), "lower-case letters"),
    ],
)
def test_what_cannot_be_asked_over_http_is_said_in_a_line(words, said):
    done = keyveil("collection", "answers", *words, check=False)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert said in done.stderr


# -- a report as it is -----------------------------------------------------------------------------


def post(desk, text):
    kind = {"content-type": "application/json"}
    return desk.post("/v1/collections/menu/reports", content=text, headers=kind)


def test_a_report_can_be_posted_as_it_is(desk):
    desk.create()
    plain = PLAN.report({"Pepsi": 4}).dumps()
    assert post(desk, plain).json() == {"accepted": 1, "failed": []}
    assert desk.reports() == 1
    named = Report(PLAN.hash, PLAN.report({"Pepsi": 4}).cells, "0123456789abcdef" * 2).dumps()
    for _ in range(3):
        assert post(desk, named).json() == {"accepted": 1, "failed": []}
    assert desk.reports() == 2, "under its id it counts once"
    assert desk.status()["rounds"][0]["open_epochs"] == [{"epoch": desk.epoch(), "reports": 2}]
    assert post(desk, plain).status_code == 200
    assert desk.reports() == 3, "without an id nobody can tell that it was sent before"


def test_a_report_that_is_none_is_refused_as_before(file_desk):
    file_desk.create()
    whole = json.loads(PLAN.report({"Pepsi": 4}).dumps())
    batch = {"plan": PLAN.hash, "epoch": 1, "reports": [{"id": "0" * 32, "cells": [0, 1]}]}
    no_cells = {name: value for name, value in whole.items() if name != "cells"}
    for body, detail in (
        ({**whole, "format": "keyveil/report/2"}, "'format' must be keyveil/report/1"),
        ({**whole, "plan": "x" * 64}, "'plan' must be 64 hexadecimal digits in lower case"),
        ({**whole, "id": "no id"}, "'id' must be 32 hexadecimal digits in lower case or null"),
        ({**whole, "cells": []}, "'cells' must be a list of whole numbers, at least 1"),
        ({**whole, "cells": [-1]}, "'cells' must be a list of whole numbers, at least 1"),
        ({**whole, "Pepsi": 4}, "a member is not known; known: format, plan, cells, id"),
        (no_cells, "'cells' is missing"),
        ({**batch, "epoch": "now"}, "'epoch' must be a whole number from 0 to 4294967295"),
        ({**batch, "epoch": 2**40}, "'epoch' must be a whole number from 0 to 4294967295"),
        ({**batch, "reports": {}}, "'reports' must be a list of objects, at least 1"),
        ({**batch, "reports": [4]}, "a report must be an object"),
        ({**batch, "reports": [{"id": "0" * 32}]}, "'cells' of a report is missing"),
        ({**batch, "reports": [{"id": 5, "cells": [0]}]}, "'id' of a report must be 32 hexadecimal"),
        ({"epoch": 1, "reports": []}, "'plan' is missing"),
        ({"Pepsi": 4}, "the body must be a JSON batch of plan, epoch and reports, or a single report"),
        ([], "the body must be a JSON batch of plan, epoch and reports, or a single report"),
    ):
        answer = post(file_desk, json.dumps(body))
        assert (answer.status_code, answer.json()["reason"]) == (400, "malformed")
        assert answer.json()["detail"].startswith(detail), detail
        assert "Pepsi" not in answer.text
    assert post(file_desk, '{"reports": [').json()["detail"] == "the body is not JSON"
    other = plan_of("kvoh").report({"Pepsi": 4}).dumps()
    assert post(file_desk, other).json()["reason"] == "other_plan"
    impossible = json.dumps({**whole, "cells": [0, 0]})
    assert post(file_desk, impossible).json()["reason"] == "impossible"
    assert file_desk.reports() == 0


# -- first steps -----------------------------------------------------------------------------------


def test_serve_without_collections_says_so(tmp_path):
    address = str(tmp_path / "store.sqlite")
    served = Process(address, tmp_path)
    assert served.end() == 0
    output = served.said
    assert f"keyveil collection create NAME PLAN --store {address}\n" in output
    assert f"keyveil token create --role admin --store {address}\n" in output
    PLAN.save(tmp_path / "plan.json")
    keyveil("collection", "create", "menu", str(tmp_path / "plan.json"), "--store", address)
    served = Process(address, tmp_path)
    assert served.end() == 0
    assert "collection create" not in served.said


def test_a_plan_alone_is_answered_with_what_is_wanted(file_desk):
    answer = file_desk.post("/v1/collections", json=PLAN.document())
    assert (answer.status_code, answer.json()["reason"]) == (400, "malformed")
    assert '{"name": "a-name", "plan": PLAN}' in answer.json()["detail"]
    other = file_desk.post("/v1/collections", json={"name": "menu"})
    assert "plan" in other.json()["detail"]
    assert "a-name" not in other.json()["detail"]


@pytest.mark.parametrize(
    ("method", "path", "body", "said"),
    [
        (
            "POST",
            "/menu/state",
            {"state": "pause"},
            "'state' must be one of closed, open, paused; did you",
        ),
        ("POST", "/menu/state", {}, "'state' is missing"),
        ("POST", "/menu/state", [], "the body must be an object"),
        ("PATCH", "/menu", {"poeple": 5}, "'poeple' is not known; did you mean people? known: people, "),
        (
            "PATCH",
            "/menu",
            {"people": "5"},
            "'people' must be a whole number from 1 to 9007199254740992",
        ),
        ("PATCH", "/menu", {"token": 1}, "'token' must be true or false"),
        ("PATCH", "/menu", {"origins": "a"}, "'origins' must be a list of texts"),
        (
            "POST",
            "",
            {"name": "Menu!", "plan": {}},
            "'name' must be a name of 1 to 64 lower-case letters",
        ),
        (
            "POST",
            "",
            {"name": "a", "plan": {}, "terms": {"kep": 1}},
            "'kep' of 'terms' is not known; did",
        ),
        ("POST", "", {"name": "a", "plan": 4}, "'plan' must be an object"),
    ],
)
def test_an_admin_s_body_is_refused_in_our_own_words(file_desk, method, path, body, said):
    file_desk.create()
    answer = file_desk.ask(method, f"/v1/collections{path}", json=body)
    assert (answer.status_code, answer.json()["reason"]) == (400, "malformed")
    assert answer.json()["detail"].startswith(said), answer.json()["detail"]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("estimates?levle=0.9", "unknown parameter 'levle'; did you mean level? known: round, "),
        ("estimates?confidence=5", "unknown parameter 'confidence'; known: round, estimator, level"),
        ("status?round=1", "unknown parameter 'round'; this route has none"),
        ("live?estimates=yes", "'estimates' must be true or false"),
    ],
)
def test_a_misspelt_parameter_is_refused(file_desk, path, said):
    file_desk.create()
    answer = file_desk.get(f"/v1/collections/menu/{path}")
    assert (answer.status_code, answer.json()["reason"]) == (400, "invalid")
    assert answer.json()["detail"].startswith(said)


def test_an_epoch_of_another_length_is_answered_with_the_current_one(file_desk):
    file_desk.create()
    answer = file_desk.send(fresh(1), epoch=24 * file_desk.epoch())
    assert (answer.status_code, answer.json()["reason"]) == (425, "early_epoch")
    assert (
        f"the current one is {file_desk.epoch()}, and each has 86400 seconds" in answer.json()["detail"]
    )


def test_a_second_collection_of_one_plan_warns(desk, tmp_path):
    assert desk.create()["warnings"] == []
    assert desk.create("another", plan_of("kvoh"))["warnings"] == []
    (warning,) = desk.create("again")["warnings"]
    assert warning.startswith("this is also the plan of 'menu': ")
    PLAN.save(tmp_path / "plan.json")
    words = ("collection", "create", "third", str(tmp_path / "plan.json"), "--store", desk.address)
    (line,) = keyveil(*words).stderr.splitlines()
    assert line.startswith("warning: this is also the plan of 'again', 'menu': ")


# -- tallies made elsewhere ------------------------------------------------------------------------


def test_a_tally_passes_the_check_that_every_tally_passes(file_desk, monkeypatch):
    """One check of headers for files, commands and the collector: ``Tally.parse``."""
    file_desk.create()
    kind = {"content-type": "application/vnd.keyveil.tally"}
    tally = Tally(PLAN)
    tally.add(PLAN.report(dict.fromkeys(KEYS, 3), Coins.stated("tally"), 1))
    other = Tally(plan_of("kvoh")).dumps()
    path = "/v1/collections/menu/tallies"
    assert file_desk.post(path, content=other, headers=kind).status_code == 400

    def refuse(*_):
        raise ReportError("the check says no")

    with monkeypatch.context() as patch:
        patch.setattr(Tally, "parse", refuse)
        answer = file_desk.post(path, content=tally.dumps(), headers=kind)
    assert (answer.status_code, answer.json()["detail"]) == (400, "the check says no")
    assert file_desk.reports() == 0
    assert file_desk.post(path, content=tally.dumps(), headers=kind).json()["added"]
