"""The planner's side part: a few people tell one held value without its key, where that pays."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

from keyveil import Coins, Plan, Schema
from keyveil.estimate.forecast.by_draws import forecast_by_draws
from keyveil.estimate.forecast.key_forecast import forecast
from keyveil.people.beliefs import Belief, Beliefs
from keyveil.people.prior import Prior
from keyveil.people.synthetic import of_keys, uniform_values
from keyveil.planner import side_part
from keyveil.planner.competitor import competitor_name, parse_competitor
from keyveil.planner.curves import curves
from keyveil.planner.options import Option, options_for
from keyveil.planner.planner import advise
from keyveil.planner.side_part import (
    GAIN,
    may_gain,
    with_side_part,
    with_side_part_over_beliefs,
)
from keyveil.simulate.contest import Contest

KEYS, PEOPLE = 60, 100_000
MEANS = np.clip(0.5 + 0.15 * np.random.default_rng(3).normal(size=KEYS), -0.95, 0.95)
SPARSE = of_keys(np.full(KEYS, 0.03), MEANS, uniform_values)
PRIOR = SPARSE.prior()


@pytest.fixture(scope="module")
def advice():
    return advise(SPARSE.schema, "0.3", PEOPLE, prior=PRIOR, brief=True)


def test_a_sparse_table_gets_a_side_part(advice):
    plan, plain = advice.plan, advice.options[1]
    assert plan.parts is not None
    first, side = plan.parts
    assert (first.plan, side.plan.mechanism_name) == (plain.plan, "sign")
    assert round(side.share, 6) in {0.05, 0.1, 0.2}
    assert advice.best.score * GAIN <= plain.score
    assert advice.best.estimator == "best"
    assert plan.proven <= plan.promised
    assert side.plan.promised == plain.plan.promised, "all of epsilon, since a person answers one part"


def test_its_name_says_so_and_can_be_read_back(advice):
    share = round(100 * advice.plan.parts[1].share)
    assert advice.best.name == f"{advice.options[1].name} + sign {share} %"
    assert advice.best.name in str(advice) or not advice.answers
    mechanism, stated = parse_competitor(competitor_name(advice.plan))
    again = Plan.of_document(SPARSE.schema, mechanism, "0.3", "tight", stated)
    assert again.hash == advice.plan.hash
    assert "sign" in str(advice.document()["chosen"])


def test_the_share_has_the_least_predicted_score(advice):
    """The gain is that of the estimator on draws, not of a formula beside it."""

    def errors(plan: Plan):
        return forecast_by_draws(plan, forecast(plan, PEOPLE, PRIOR), PEOPLE, ("best",))["best"]

    plain, whole = errors(advice.options[1].plan), errors(advice.plan)
    assert whole.mean < 0.7 * plain.mean
    assert whole.frequency < 1.3 * plain.frequency


@pytest.mark.parametrize(
    ("epsilon", "ask", "held"), [("0.3", "frequency", 0.03), ("4", "both", 0.03), ("2", "both", 0.5)]
)
def test_no_one_is_asked_where_it_does_not_pay(epsilon, ask, held):
    crowd = of_keys(np.full(KEYS, held), MEANS, uniform_values)
    advice = advise(crowd.schema, epsilon, PEOPLE, ask=ask, prior=crowd.prior(), brief=True)
    assert not any("sign" in option.family.split("+") for option in advice.options)


def test_plans_whose_answers_do_not_use_it_have_none():
    schema = Schema.of(KEYS)
    assert may_gain(Plan.of(schema, "kvue", 1), "both")
    assert may_gain(Plan.of(schema, "kvue", 1), "mean")
    assert not may_gain(Plan.of(schema, "kvue", 1), "frequency")
    assert not may_gain(Plan.of(schema, "rr", 1), "both")
    assert not may_gain(Plan.of(schema, "privkvm", 1), "both")
    assert not may_gain(Plan.of(schema, "parts", 1, parts="kvue/sign@0.1"), "both")
    assert not may_gain(Plan.of(Schema.of(4), "kvue", 1), "both"), "too few keys to learn from"


def test_a_gain_below_the_threshold_changes_nothing(monkeypatch):
    options = options_for(SPARSE.schema, Decimal("0.3"), PEOPLE, "both", (), PRIOR, ("kvue",))
    assert with_side_part(options, PEOPLE, "both", PRIOR)[1:] == options
    monkeypatch.setattr(side_part, "GAIN", 100.0)
    assert with_side_part(options, PEOPLE, "both", PRIOR) == options


def test_curves_leave_it_out(advice):
    few = replace(advice, options=advice.options[:3])
    drawn = curves(SPARSE.schema, few, most=2, epsilons=("0.3",))
    assert not any("sign" in family.split("+") for family in drawn.by_epsilon)
    assert next(iter(drawn.by_epsilon)) == advice.options[1].family


@pytest.mark.sampled
@pytest.mark.long
def test_auto_measures_what_it_predicts():
    """Within 15 %: three standard errors of 40 tallies."""
    contest = Contest(SPARSE, PEOPLE, 40, Coins.stated("auto side"), estimators=("best",))
    auto = contest.rows("auto", "0.3")[0]
    assert "/sign@" in auto.chosen
    assert 0.85 < auto.predicted_mean / auto.mse_mean < 1.15
    plain = contest.rows(auto.chosen.removeprefix("parts:").partition("/")[0], "0.3")[0]
    assert plain.mse_mean > 1.3 * auto.mse_mean


def over_beliefs(
    *held: float, weights: np.ndarray | None = None, epsilon: str = "0.3"
) -> tuple[Option, ...]:
    """The options of KVUE's plan alone, if people hold one of these numbers of keys."""
    possible = tuple(Belief(f"{each} keys", Prior.of(KEYS, held=each, mean=0.5)) for each in held)
    plan = Plan.of(SPARSE.schema, "kvue", epsilon, "tight")
    regrets = tuple(1.0 + 0.1 * place for place in range(len(held)))
    alone = Option(plan, 1.0, 1.0, max(regrets), 0.5, "best", regrets, (0.5,) * len(held))
    return with_side_part_over_beliefs(
        [alone], PEOPLE, "both", Beliefs(possible, possible[0].prior, weights)
    )


def test_over_sparse_beliefs_a_side_part_pays():
    best, alone = over_beliefs(1.5, 2.5)
    assert [own.mechanism_name for own in best.plan.part_plans] == ["kvue", "sign"]
    ratios = np.array(best.regrets) / alone.regrets
    assert np.exp(np.log(ratios).mean()) <= 1 / GAIN
    assert best.score == max(best.regrets) <= max(alone.regrets)
    key_share = best.plan.parts[0].share
    assert best.people_factor == pytest.approx(0.5 / key_share), "fewer people are left for the keys"


def test_over_dense_beliefs_or_if_these_are_likely_it_does_not():
    assert len(over_beliefs(40, 50, epsilon="4")) == 1
    assert len(over_beliefs(1.5, 50, weights=np.array([0.0, 1.0]), epsilon="4")) == 1
    assert len(over_beliefs(1.5, 2.5, weights=np.array([0.5, 0.5]))) == 2


def chosen_by_regret(monkeypatch, *ratios: list[list[float]]) -> tuple[Option, ...]:
    """The options if each share of the side question has these ratios (places of values, beliefs)."""

    def stated(plan, *_):
        plans = list(side_part.with_shares(plan))[: len(ratios)]
        yield from zip(plans, (np.array(each).ravel() for each in ratios), strict=True)

    monkeypatch.setattr(side_part, "score_ratios", stated)
    return over_beliefs(1.5, 2.5)  # KVUE's plan, with regrets 1 and 1.1


def test_regrets_are_relative_to_the_best_share_under_each_belief(monkeypatch):
    """The gain near an end counts where the worst regret is, not only what the middle loses."""
    best, alone = chosen_by_regret(monkeypatch, [[1, 1], [1, 1]], [[0.9, 1.05], [0.5, 1]])
    assert round(best.plan.parts[1].share, 6) == 0.1
    assert best.regrets == pytest.approx((1, 1.1 * 1.05))
    assert alone.regrets == pytest.approx((1 / 0.5, 1.1))
    assert best.score == max(best.regrets) <= alone.score == max(alone.regrets)


def test_of_shares_that_are_alike_the_largest_is_taken(monkeypatch):
    alike = [[0.8, 0.8], [0.5, 0.7]], [[0.8, 0.82], [0.51, 0.7]], [[0.81, 0.83], [0.5, 0.71]]
    assert round(chosen_by_regret(monkeypatch, *alike)[0].plan.parts[1].share, 6) == 0.2
    costly = (*alike[:2], [[0.9, 0.95], [0.6, 0.8]])
    assert round(chosen_by_regret(monkeypatch, *costly)[0].plan.parts[1].share, 6) == 0.1


def test_no_share_is_taken_that_raises_the_worst_regret(monkeypatch):
    """The broken twin: by the average alone it would pay."""
    assert len(chosen_by_regret(monkeypatch, [[0.8, 1.4], [0.8, 1.4]])) == 1
    assert len(chosen_by_regret(monkeypatch, [[0.8, 0.9], [0.8, 0.9]])) == 2


def test_told_nothing_the_side_question_is_asked_for_values_that_may_lie_near_an_end():
    """Around the middle of the range alone, it would not pay under most beliefs."""
    unknown = advise(Schema.of(50), "0.1", PEOPLE, brief=True)
    assert unknown.best.family.endswith("sign")
    assert max(unknown.best.regrets) <= max(unknown.options[1].regrets)
