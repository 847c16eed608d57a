"""The dashboard's files and the routes that it adds, in process."""

from __future__ import annotations

import json

import pytest
from desk import PLAN, fresh, plan_of

from keyveil import Tally, estimate
from keyveil.estimate.learn.rules import rules
from keyveil.estimate.together.conditional import Conditionals
from keyveil.estimate.together.people_needed import people_needed
from keyveil.estimate.together.query import Query
from keyveil.planner.error_curve import error_curve, error_so_far
from keyveil.service.collector.engine import admin
from keyveil.service.collector.http.dashboard_route import FOLDER, POLICY, dashboard_files

MENU = "/v1/collections/menu"


def bearer(token):
    return {"authorization": f"Bearer {token}"}


@pytest.fixture
def pairs(file_desk):
    plan = plan_of("pairs", 4, 8)
    file_desk.create(plan=plan)
    records = {"both": {"k1": 2, "k2": 5}, "first": {"k0": 4}, "last": {"k3": 1}}
    reports = [report for key, record in records.items() for report in fresh(100, plan, record, key)]
    file_desk.send(reports, plan=plan.hash)
    file_desk.plan = plan
    file_desk.tally = Tally.parse(plan, file_desk.get(f"{MENU}/tally").content)
    return file_desk


# -- files -----------------------------------------------------------------------------------------


def test_the_page_and_its_files_have_a_strict_policy(file_desk):
    for name in (None, *dashboard_files()):
        answer = file_desk.get("/" if name is None else f"/dashboard/{name}")
        assert answer.status_code == 200
        assert answer.headers["content-security-policy"] == POLICY
        assert answer.headers["x-content-type-options"] == "nosniff"
        expected = FOLDER / (name or "index.html")
        assert answer.content == expected.read_bytes()
    assert "unsafe" not in POLICY
    assert "default-src 'none'" in POLICY
    assert "*" not in POLICY


def test_a_file_that_the_browser_has_is_not_sent_again(file_desk):
    first = file_desk.get("/dashboard/app.js")
    again = file_desk.get("/dashboard/app.js", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert first.headers["content-type"] == "text/javascript; charset=utf-8"


@pytest.mark.parametrize(
    "path", ["nothing.js", "../http/app.py", "..%2fhttp%2fapp.py", "vendor", "", "%2e%2e/__init__.py"]
)
def test_no_path_leads_out_of_the_folder(file_desk, path):
    assert file_desk.get(f"/dashboard/{path}").status_code == 404


def test_every_vendored_library_has_its_licence_and_version():
    versions = (FOLDER / "vendor" / "VERSIONS.txt").read_text()
    for folder in (f for f in (FOLDER / "vendor").iterdir() if f.is_dir()):
        assert (folder / "LICENSE").is_file()
        assert f"{folder.name}/LICENSE" in versions


def test_nothing_in_the_dashboard_names_another_host_or_builds_markup_from_text():
    for name, path in dashboard_files().items():
        if name.startswith("vendor/"):
            continue
        text = path.read_text().replace("http://www.w3.org/", "")
        assert "http://" not in text
        assert "https://" not in text
        for unsafe in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
            assert unsafe not in text, name


# -- who -------------------------------------------------------------------------------------------


def test_a_session_says_what_a_token_allows(file_desk):
    file_desk.create()
    assert file_desk.get("/v1/session").json() == {"role": "admin", "collection": None, "token": False}
    store = file_desk.store
    tokens = {
        ("admin", None): admin.add_token(store, "admin"),
        ("analyst", "menu"): admin.add_token(store, "analyst", "menu"),
        ("ingest", None): admin.add_token(store, "ingest"),
    }
    for (role, name), token in tokens.items():
        session = file_desk.get("/v1/session", headers=bearer(token)).json()
        assert session == {"role": role, "collection": name, "token": True}
    for headers in ({}, bearer("kv_0123456789abcdef_" + "a" * 43)):
        session = file_desk.get("/v1/session", headers=headers).json()
        assert session == {"role": None, "collection": None, "token": True}


def test_tokens_are_made_listed_and_revoked(file_desk):
    file_desk.create()
    answer = file_desk.post("/v1/tokens", json={"role": "admin", "label": "me"})
    assert answer.status_code == 201
    mine = bearer(answer.json()["text"])
    assert file_desk.get("/v1/tokens").status_code == 401
    other = file_desk.post("/v1/tokens", json={"role": "analyst", "collection": "menu"}, headers=mine)
    theirs = bearer(other.json()["text"])
    assert file_desk.get(f"{MENU}/estimates", headers=theirs).status_code == 200
    assert file_desk.get("/v1/tokens", headers=theirs).status_code == 403
    rows = file_desk.get("/v1/tokens", headers=mine).json()["tokens"]
    assert {(row["role"], row["collection"], row["revoked"]) for row in rows} == {
        ("admin", None, False),
        ("analyst", "menu", False),
    }
    secret = answer.json()["text"].split("_", 2)[2]
    assert secret not in file_desk.get("/v1/tokens", headers=mine).text
    gone = file_desk.ask("DELETE", f"/v1/tokens/{other.json()['id']}", headers=mine)
    assert gone.status_code == 204
    assert file_desk.get(f"{MENU}/estimates", headers=theirs).status_code == 401
    assert secret not in file_desk.log.getvalue()
    for body in ({"role": "admin", "collection": "menu"}, {"role": "analyst", "collection": "none"}):
        assert file_desk.post("/v1/tokens", json=body, headers=mine).status_code in (400, 404)


# -- what is computed ------------------------------------------------------------------------------


def test_the_overview_tells_state_reports_and_epsilon(desk):
    desk.create()
    desk.create("other", plan_of("pairs", 4, 2), people=50)
    desk.send(fresh(5))
    desk.send([{**fresh(1)[0], "cells": [0, 0]}])
    desk.service.writer.tick()
    menu, other = desk.get("/v1/overview").json()["collections"]
    assert (menu["name"], menu["state"], menu["reports"], menu["refused"]) == ("menu", "open", 5, 1)
    assert (menu["promised"], menu["proven"]) == (str(PLAN.promised), str(PLAN.proven))
    assert (menu["mechanism"], menu["keys"]) == ("kvue", 3)
    assert (other["reports"], other["people"], other["mechanism"]) == (0, 50, "pairs")


def test_rules_are_the_library_s(pairs):
    document = pairs.get(f"{MENU}/rules", params={"false_discovery": 0.5, "given": "either"}).json()
    expected = rules(Conditionals(pairs.plan, pairs.tally), false_discovery=0.5, given="either")
    assert document["rules"] == json.loads(json.dumps([rule.document() for rule in expected]))
    assert document["found"] == len(expected) > 0
    assert document["tested"] == 4 * 3 * 2


def test_people_needed_are_the_library_s(pairs):
    queries = ["frequency(k1 | k2)", "mean(k1 | k2)", "lift(k1 | k2)", "frequency(k1 | k2, !k0)"]
    answers = pairs.get(f"{MENU}/needed", params={"q": queries}).json()["answers"]
    source = Conditionals(pairs.plan, pairs.tally)
    expected = [people_needed(source, 300, Query.parse(text)).document() for text in queries]
    assert answers == expected
    assert answers[0]["people"] == answers[2]["people"] > 0
    assert (answers[3]["people"], answers[3]["why"]) == (None, "no view")


def test_the_forecast_is_the_library_s(pairs):
    forecast = pairs.get(f"{MENU}/forecast").json()
    assert forecast["curve"] == json.loads(json.dumps(error_curve(pairs.plan, 1000)))
    assert forecast["so_far"] == json.loads(json.dumps(error_so_far(pairs.plan, pairs.tally)))
    assert (forecast["scale"]["low"], forecast["scale"]["high"]) == (1.0, 5.0)
    larger_forecast = pairs.get(f"{MENU}/forecast?people=100000").json()
    assert [row["people"] for row in larger_forecast["curve"]][8] == 100_000
    assert larger_forecast["so_far"] is None


def test_facts_about_the_plan(pairs):
    facts = pairs.get(f"{MENU}/plan-facts").json()
    assert facts["mechanism"] == "pairs"
    assert facts["bits"] == pytest.approx(float(pairs.plan.bits_per_report))
    assert facts["cells"] == len(pairs.tally.counts)


@pytest.mark.parametrize(
    "path",
    [
        "rules?conditions=4",
        "rules?conditions=1.5",
        "rules?given=best",
        "rules?lift=0",
        "rules?false_discovery=2",
        "rules?level=1",
        "needed",
        "needed?q=frequency(",
        "needed?q=frequency(nothing)",
        "forecast?people=0",
        "forecast?people=nan",
    ],
)
def test_what_cannot_be_answered_is_a_problem(pairs, path):
    answer = pairs.get(f"{MENU}/{path}")
    assert (answer.status_code, answer.json()["reason"]) == (400, "invalid"), answer.text


def test_too_many_rules_are_refused_before_they_are_tested(file_desk):
    plan = plan_of("pairs", 60)
    file_desk.create(plan=plan)
    answer = file_desk.get(f"{MENU}/rules?conditions=3")
    assert answer.status_code == 400
    assert "40,000 are tested at most" in answer.json()["detail"]


def test_a_collection_without_reports_has_a_forecast_and_needs_no_people(file_desk):
    file_desk.create(plan=plan_of("pairs", 4))
    assert file_desk.get(f"{MENU}/forecast").json()["so_far"] is None
    (answer,) = file_desk.get(f"{MENU}/needed?q=frequency(k1 | k2)").json()["answers"]
    assert (answer["people"], answer["why"]) == (None, "no reports")


def test_answers_that_the_page_reads_are_the_library_s(pairs):
    document = pairs.get(f"{MENU}/estimates").json()
    expected = estimate(pairs.plan, pairs.tally).document()
    assert document["keys"] == json.loads(json.dumps(expected["keys"]))
