"""What ``keyveil plan`` says to a newcomer: of conditionals, of names that are not known, of rounds."""

from __future__ import annotations

import json

import pytest

from keyveil.cli.command import run
from keyveil.people.prior import Prior
from keyveil.people.schema import Schema
from keyveil.plan.plan import Plan
from keyveil.planner.outlook import outlook
from keyveil.planner.planner import advise

FILMS = ["plan", "--keys", "50", "--range", "0,10", "--epsilon", "2", "--people", "34105"]
SHORT = ["plan", "--keys", "5", "--range", "1,5", "--epsilon", "2"]
TOGETHER = [*FILMS, "--mechanism", "auto", "--ask", "conditional"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def said_by(capsys, *words: str, code: int = 0) -> str:
    """Both streams of a command."""
    assert run([*words, "-o", "p.json", "--force"]) == code
    output = capsys.readouterr()
    return output.out + output.err


# -- what to expect of conditionals ----------------------------------------------------------------


def test_conditionals_say_for_whom_they_answer_and_what_would_help(capsys):
    output = said_by(capsys, *TOGETHER)
    assert "useful only if people hold a third of the keys or more (on average 15 of 50)" in output
    assert "what would help most: how many keys do people hold? (--held N)" in output
    assert "first round" not in output
    refusal = said_by(capsys, *TOGETHER, "--held", "2.11", code=1)
    assert "if people hold 2.11 keys on average, it takes about 311,000 people" in refusal


def test_a_named_plan_has_the_outlook_that_it_has_as_the_planners_choice():
    schema = Schema.of(50, 0, 10)
    for held, people in ((None, 10_000), (15, 10_000), (25, 3000)):
        prior = Prior.of(schema, held=held)
        advice = advise(schema, 2, people, ask="conditional", prior=prior)
        expected = outlook(advice.plan, people, prior)
        assert expected.answers == advice.answers
        assert expected.people_needed == advice.people_needed
        assert expected.epsilon_needed == advice.epsilon_needed
    assert outlook(Plan.of(schema, "pairs", 2), 10_000) == outlook(
        Plan.of(schema, "pairs", 2), 10_000, Prior.of(schema)
    )


@pytest.mark.parametrize(("held", "answers"), [("2.11", False), ("15", True), ("30", True)])
def test_a_named_plan_is_told_how_many_keys_people_hold(capsys, held, answers):
    words = [*FILMS, "--mechanism", "pairs", "--calibrate", "tight", "--held", held]
    output = said_by(capsys, *words)
    assert f"if people hold {held} keys on average" in output
    assert ("this plan cannot answer" in output) is not answers
    assert run([*words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)["outlook"]
    assert document["answers"] is answers
    assert document["held"] == pytest.approx(float(held))


# -- names, parameters and queries -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("graded:levels=5", {"levels": 5}),
        ("pairs:grr", {"channel": "grr"}),
        ("optimal:mean=4+spread=0.8", {"mean": 4, "spread": "0.8"}),
        ("parts:pckv_grr:length=3/size@0.05", {"parts": "pckv_grr:length=3/size@0.05"}),
        ("workload:queries=mean(0 | 1); mean(2 | 3)", {"queries": "mean(0 | 1); mean(2 | 3)"}),
    ],
)
def test_parameters_stand_in_the_name_as_in_compare(capsys, name, parameters):
    schema = Schema.of(5, 1, 5)
    plan = Plan.of(schema, name.partition(":")[0], 2, **parameters)
    assert Plan.of(schema, name, 2) == plan
    said_by(capsys, *SHORT, "--mechanism", name)
    assert Plan.load("p.json") == plan


def test_workload_takes_its_queries_from_ask(capsys):
    said_by(capsys, *SHORT, "--mechanism", "workload", "--ask", "mean(0 | 1); frequency(2 | !3)")
    plan = Plan.of(Schema.of(5, 1, 5), "workload", 2, queries="mean(0 | 1); frequency(2 | !3)")
    assert Plan.load("p.json") == plan


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("--mechanism graded:levels=5 --set levels=4", "levels is given twice: in 'graded:levels=5'"),
        ("--mechanism grdaed:levels=5", "did you mean graded? keyveil mechanisms lists all"),
        ("--mechanism kvu", "'kvu'; did you mean kvue? keyveil mechanisms lists all"),
        ("--mechanism zzz", "known: rr, grr, privkv"),
        ("--mechanism workload", "like 'workload:queries=mean(A | B); frequency(C | !D)'"),
        ("--mechanism workload --ask conditional", "like --ask 'mean(A | B)'"),
        ("--mechanism workload --ask mean(0|1) --set queries=mean(0|2)", "give the queries once"),
        ("--mechanism workload --ask mean(0|9)", "the plan has no key '9'"),
        ("--mechanism kvue --ask conditional", "--ask: only for --mechanism auto or workload"),
        ("--mechanism auto --people 9 --ask conditionals", "did you mean conditional?"),
        ("--mechanism privkvm --rounds 3", "a mechanism's parameter is --set rounds=VALUE"),
        ("--mechanism auto --one-rounds", "did you mean --one-round?"),
    ],
)
def test_a_slip_is_refused_with_what_is_right(capsys, words, hint):
    assert run([*SHORT, *words.split(), "-o", "p.json"]) in (1, 2)
    message = capsys.readouterr().err
    assert hint in message
    assert message.count("\n") == 1
    assert ("signed_ue" in message) is (hint == "known: rr, grr, privkv"), "a near name is enough"


def test_a_round_promises_its_part_of_the_whole(capsys):
    output = said_by(capsys, *SHORT, "--mechanism", "privkvm", "--set", "rounds=3")
    assert "round 1 of 3 promises epsilon 1.333 of 2 in all, proves 1.153" in output
    assert "sized, 5 keys, promises epsilon 2, proves" in said_by(capsys, *SHORT, "--mechanism", "sized")
