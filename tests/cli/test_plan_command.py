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
    said = capsys.readouterr()
    return said.out + said.err


# -- what to expect of conditionals ----------------------------------------------------------------


def test_conditionals_say_for_whom_they_answer_and_what_would_help(capsys):
    said = said_by(capsys, *TOGETHER)
    assert "useful only if people hold a third of the keys or more (on average 15 of 50)" in said
    assert "what would help most: how many keys do people hold? (--held N)" in said
    assert "first round" not in said
    refusal = said_by(capsys, *TOGETHER, "--held", "2.11", code=1)
    assert "if people hold 2.11 keys on average, it takes about 310," in refusal


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
    said = said_by(capsys, *words)
    assert f"if people hold {held} keys on average" in said
    assert ("this plan cannot answer" in said) is not answers
    assert run([*words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)["outlook"]
    assert document["answers"] is answers
    assert document["held"] == pytest.approx(float(held))
