"""Queries of one key have the answers of ``estimate``, for every plan and from every door."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest

from keyveil import REGISTRY, Answers, Coins, People, Plan, PlanError, Schema, Tally, estimate
from keyveil.cli.command import run
from keyveil.estimate.together.conditional import Conditionals
from keyveil.estimate.together.query_answer import QueryAnswer
from keyveil.people.synthetic import tied
from keyveil.simulate.tallies import simulate

PARTS = (
    "collision:pool=64+cap=3/sign@0.2/size@0.2",
    "pckv_ue:length=3/sign@0.25/kvue@0.25",
    "several/size@0.1",
    "pairs/sign@0.25",
)
SETTINGS = [*((name, {}) for name in REGISTRY), *(("parts", {"parts": parts}) for parts in PARTS)]
KINDS = ("frequency", "mean")


def plan_of(name: str, parameters: dict[str, str]) -> Plan:
    keys = max(5, REGISTRY[name].fewest_keys)
    schema = Schema.of([str(key) for key in range(keys)], 1, 5)
    return Plan.of(schema, name, 2, **({**REGISTRY[name].example(schema), **parameters}))


def tally_for(plan: Plan, people: int = 2000) -> Tally:
    population = tied(len(plan.schema.keys), frequency=0.4, mean=0.2, apart=0.2)
    return simulate(plan, population, people, Coins.stated("single keys"))


@pytest.fixture(scope="module", params=SETTINGS, ids=lambda setting: "-".join(map(str, setting)))
def asked(request) -> tuple[Plan, Tally, Answers]:
    plan = plan_of(*request.param)
    tally = tally_for(plan)
    return plan, tally, estimate(plan, tally)


def document_of(answers: Answers, key: str, kind: str) -> dict[str, object]:
    """What a query has to say about a key."""
    answer = answers[key]
    raw = None if answer.raw is None else getattr(answer.raw, kind).document()
    own = getattr(answer, kind).document()
    return {**own, "raw": raw, "estimator": answers.estimator}


def known(plan: Plan) -> list[str]:
    """The statistics of a single key that queries ask for and that the plan answers."""
    answered = [kind for kind in KINDS if kind in plan.mechanism.answers]
    return [kind for kind in answered if kind != "mean" or plan.schema.levels > 1]


def queries(tally: Tally, asks: Sequence[tuple[str, str]], **options: str) -> list[QueryAnswer]:
    """The answers about statistics of single keys, asked together."""
    return list(tally.query(*(f"{kind}({key})" for kind, key in asks), **options)) if asks else []


@pytest.mark.sampled
def test_a_query_of_one_key_is_the_answer_of_estimate(asked):
    plan, tally, answers = asked
    asks = [(kind, key) for kind in known(plan) for key in plan.schema.keys]
    for (kind, key), query in zip(asks, queries(tally, asks), strict=True):
        document = query.document()
        assert {**document, **document_of(answers, key, kind)} == document
        assert document["how"] == ("view" if document["reports"] else "nothing")
    for kind, key in asks[::7]:
        alone = tally.query(f"{kind}({key})").document()
        assert {**alone, **document_of(answers, key, kind)} == alone


@pytest.mark.sampled
def test_an_unknown_statistic_of_a_key_is_refused(asked):
    plan, tally, _ = asked
    for kind in set(KINDS) - set(known(plan)):
        with pytest.raises(ValueError, match=r"knows no mean|answers .* of each key|no single key"):
            tally.query(f"{kind}({plan.schema.keys[0]})")


@pytest.mark.sampled
def test_raw_values_are_those_of_least_squares(asked):
    plan, tally, answers = asked
    if answers.estimator != "best":
        ends = {"frequency": (0, 1), "mean": (1, 5)}
        for own, kind in product(answers, known(plan)):  # such answers are only put into their range
            raw, shown = getattr(own.raw, kind).value, getattr(own, kind).value
            assert shown == pytest.approx(np.clip(raw, *ends[kind]), nan_ok=True)
        return
    named = "least_squares" in plan.mechanism.estimators
    raw = estimate(plan, tally, "least_squares") if named else None
    asks = [(kind, key) for kind in known(plan) for key in plan.schema.keys]
    usual, first = queries(tally, asks), queries(tally, asks, estimator="least_squares")
    for (kind, key), best, query in zip(asks, usual, first, strict=True):
        assert query.estimator == "least_squares"
        assert query.estimate.document() == best.raw.document()
        if raw is not None:
            assert query.estimate.document() == getattr(raw[key], kind).document()


@pytest.mark.sampled
def test_the_level_is_that_of_estimate(asked):
    plan, tally, _ = asked
    answers = estimate(plan, tally, level=0.8)
    for kind in known(plan):
        query = tally.query(f"{kind}(1)", level=0.8)
        assert query.estimate == getattr(answers["1"], kind)


@pytest.mark.sampled
def test_the_command_prints_the_answer_of_estimate(asked, tmp_path, capsys):
    plan, tally, answers = asked
    plan.save(tmp_path / "p.json")
    tally.save(tmp_path / "t.kv")
    paths = [str(tmp_path / "p.json"), str(tmp_path / "t.kv")]
    for kind in known(plan):
        assert run(["query", *paths, f"{kind}(1)", "--json"]) == 0
        (document,) = json.loads(capsys.readouterr().out)
        assert {**document, **document_of(answers, "1", kind)} == document
        assert run(["query", *paths, f"{kind}(1)"]) == 0
        assert f"estimator: {answers.estimator}" in capsys.readouterr().out


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["collision", "coco", "pckv_grr", "pckv_ue", "signed_ue", "several"])
def test_conditions_are_still_refused(name):
    plan = plan_of(name, {})
    tally = tally_for(plan)
    for ask in (
        lambda: tally.query("frequency(0 | 1)"),
        lambda: tally.query("frequency(0)", "mean(0 | !1)"),
        lambda: tally.conditionals().matrix(),
        lambda: tally.query("frequency(0)", estimator="pooled"),
    ):
        with pytest.raises(PlanError, match=rf"this plan \({name}\) does not ask about keys together"):
            ask()


@pytest.mark.sampled
def test_a_plan_of_parts_answers_one_key_from_all_parts_and_several_from_one():
    plan = plan_of("parts", {"parts": "pairs/kvue@0.5"})
    tally = tally_for(plan, 20_000)
    source = Conditionals(plan, tally)
    own = Conditionals(plan.part_plans[0], plan.part_tallies(tally)[0])
    assert source.answer("mean(0 | 1)") == own.answer("mean(0 | 1)")
    assert source.answer("mean(0)").estimate == estimate(plan, tally)["0"].mean
    assert source.answer("mean(0)").estimate != own.answer("mean(0)").estimate


ALONE = [name for name in REGISTRY if REGISTRY[name].fewest_keys == 1 and known(plan_of(name, {}))]


@pytest.mark.parametrize("name", [*ALONE, "parts"])
def test_a_plan_of_one_key_answers_it_and_has_no_conditionals(name, tmp_path, capsys):
    parts = {"parts": "kvue/sign@0.25"} if name == "parts" else {}
    schema = Schema.of(["Pepsi"], 1, 5)
    plan = Plan.of(schema, name, 2, **({**REGISTRY[name].example(schema), **parts}))
    people = People.of_records(schema, [{"Pepsi": 4}] * 30 + [{}] * 30)
    tally = Tally(plan).add(plan.privatise(people, Coins.stated("one key")))
    answers = estimate(plan, tally)
    for kind in known(plan):
        document = tally.query(f"{kind}(Pepsi)").document()
        assert {**document, **document_of(answers, "Pepsi", kind)} == document
    with pytest.raises(PlanError, match=r"has one key|does not ask about keys together"):
        tally.conditionals().matrix()
    plan.save(tmp_path / "p.json")
    tally.save(tmp_path / "t.kv")
    paths = [str(tmp_path / "p.json"), str(tmp_path / "t.kv")]
    assert run(["query", *paths, f"{known(plan)[0]}(Pepsi)"]) == 0
    assert run(["conditional", *paths]) == 1
    assert "keyveil: this plan" in capsys.readouterr().err
