"""One raw value for one question: beside ``best``, and by itself as ``least_squares``."""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import pytest

from keyveil import REGISTRY, Coins, Plan, Query, Tally
from keyveil.cli.command import run
from keyveil.estimate.together.conditional import Conditionals
from keyveil.people.synthetic import tied
from keyveil.simulate.conditional_questions import true_value
from keyveil.simulate.tallies import simulate

CROWD = tied(5, frequency=0.4, mean=0.2, apart=0.2)
PLANS = ["pairs", "triples", "workload", "ioh", "ioh_optimal", "split", "coefficients", "pair_collision"]
QUERIES = [
    *("frequency(1 | 0)", "frequency(1 | !0)", "mean(2 | 3)", "mean(2 | !3)"),
    *("lift(1 | 0)", "lift(1 | !0)", "frequency(0 | 1, 2)", "mean(0 | 1, !2)", "lift(0 | 1, 2)"),
    *("frequency(4)", "mean(4)"),
]


@cache
def tally_for(name: str, people: int = 20_000, run: int = 0) -> Tally:
    plan = Plan.of(CROWD.schema, name, 1, **REGISTRY[name].example(CROWD.schema))
    return simulate(plan, CROWD, people, Coins.stated("raw"), run)


@pytest.mark.sampled
@pytest.mark.parametrize("name", PLANS)
def test_the_raw_value_is_that_of_least_squares(name):
    tally = tally_for(name)
    best, raw = (
        tally.conditionals(estimator).answers(QUERIES) for estimator in ("best", "least_squares")
    )
    compared = 0
    for beside, alone in zip(best, raw, strict=True):
        assert beside.how == alone.how
        if beside.raw is not None:
            assert beside.raw.document() == alone.estimate.document(), str(beside.query)
            compared += 1
    assert compared >= 2


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["pairs", "triples"])
def test_the_command_prints_one_raw_value(name, tmp_path, capsys):
    tally = tally_for(name)
    tally.plan.save(tmp_path / "p.json")
    tally.save(tmp_path / "t.kv")
    paths = [str(tmp_path / "p.json"), str(tmp_path / "t.kv"), *QUERIES]
    documents = []
    for options in ([], ["--estimator", "least_squares"]):
        assert run(["query", *paths, "--json", *options]) == 0
        documents.append(json.loads(capsys.readouterr().out))
    for beside, alone in zip(*documents, strict=True):
        if beside["how"] == "view":
            assert beside["raw"] == {member: alone[member] for member in beside["raw"]}


@pytest.mark.sampled
def test_the_raw_value_uses_all_views_and_a_single_view_only_its_own():
    """30 tallies: other views of the two keys halve the squared error, and intervals stay right.

    The coverage of 20 pairs in 30 tallies has a standard error of about 1 %.
    """
    queries = [Query("frequency", k, ((c, True),)) for k in "01234" for c in "01234" if k != c]
    truth = np.array([true_value(CROWD, query) for query in queries])
    off, inside = {}, {}
    for name in ("least_squares", "single_view"):
        runs = [
            tally_for("pairs", 100_000, run).conditionals(name).answers(queries) for run in range(30)
        ]
        values, low, high = (
            np.array([[getattr(answer.estimate, part) for answer in answers] for answers in runs])
            for part in ("value", "low", "high")
        )
        off[name] = float(np.mean((values - truth) ** 2))
        inside[name] = float(np.mean((low <= truth) & (truth <= high)))
    assert off["least_squares"] < 0.7 * off["single_view"]
    assert all(0.91 < share < 0.98 for share in inside.values())


@pytest.mark.sampled
def test_a_plan_with_one_view_has_one_unbiased_value():
    tally = tally_for("ioh")
    answers = [tally.conditionals(name).answers(QUERIES) for name in ("single_view", "least_squares")]
    for answer, other in zip(*answers, strict=True):
        assert answer.interval == pytest.approx(other.interval)
        assert answer.value == pytest.approx(other.value)
    assert Conditionals(tally.plan, tally, "single_view").estimator == "single_view"
