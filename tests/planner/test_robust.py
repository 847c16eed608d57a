"""Told nothing: beliefs, regrets, the smallest worst regret, and whether a first round pays."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest

from keyveil import Plan, PlanError, PlannerWarning, Schema
from keyveil.people.beliefs import Belief, Beliefs
from keyveil.people.prior import Prior
from keyveil.planner import first_round as rounds
from keyveil.planner import planner
from keyveil.planner.first_round import FirstRound, best_round, share_regrets
from keyveil.planner.helpful_fact import HelpfulFact
from keyveil.planner.key_scores import people_factor
from keyveil.planner.options import ALIKE
from keyveil.planner.planner import advise
from keyveil.planner.robust import NEAR_WORST, BeliefComparison, RegretTable

SCHEMA = Schema.of(20, 1, 5)


@pytest.fixture(scope="module")
def comparison():
    return BeliefComparison(SCHEMA, Decimal(2), 100_000, "both", Beliefs.of(SCHEMA))


@pytest.fixture(scope="module")
def nothing():
    return advise(SCHEMA, 2, 100_000)


# -- beliefs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("keys", [1, 2, 7, 8, 16, 60, 100, 10_000])
def test_beliefs_reach_from_one_key_to_most(keys):
    beliefs = Beliefs.of(Schema.of(keys))
    held = [prior.held for prior in beliefs.priors]
    assert held[0] == 1
    assert held[-1] == pytest.approx(0.7 * keys, rel=0.01) or keys > 4096
    if keys >= 7:
        assert held == sorted(held)
    assert beliefs.prior.sizes == pytest.approx(Prior.of(keys).sizes)
    assert beliefs.keys == keys


def test_beliefs_take_the_stated_mean_and_spread():
    beliefs = Beliefs.of(SCHEMA, mean=4, spread=0.5)
    assert all("means near 4, spread 0.5 on [1, 5]" in prior.source for prior in beliefs.priors)
    assert "from one key to most keys, means near 4" in beliefs.source


def test_beliefs_without_sense_are_refused():
    three_keys, four_keys = (Belief("some", Prior.of(keys)) for keys in (3, 4))
    with pytest.raises(PlanError, match="same keys"):
        Beliefs((three_keys, four_keys), three_keys.prior)
    with pytest.raises(PlanError, match="one weight each"):
        Beliefs((three_keys,), three_keys.prior, np.array([0.5, 0.5]))
    with pytest.raises(PlanError, match="for 3 keys, the plan for 20"):
        advise(SCHEMA, 1, 1e5, prior=Beliefs((three_keys,), three_keys.prior))


# -- regrets ---------------------------------------------------------------------------------------


def table(costs, weights=None, names=("optimal", "several", "graded")):
    costs = np.array(costs, float)
    return RegretTable(names[: len(costs)], costs, costs.min(axis=0), weights)


def test_a_regret_is_the_cost_over_the_least_cost_under_that_belief():
    regrets = table([[2, 2], [1, 8], [4, 1]])
    assert regrets.regrets.tolist() == [[2, 2], [1, 8], [4, 1]]
    assert regrets.worst.tolist() == [2, 8, 4]
    assert regrets.average == pytest.approx([2, 8**0.5, 2])
    assert regrets.choice() == 0
    weighed = table([[2, 2], [1, 8], [4, 1]], np.array([0.1, 0.9]))
    assert weighed.average == pytest.approx([2, 8**0.9, 4**0.1])
    assert weighed.choice() == 2


def test_options_with_nearly_the_same_worst_regret_are_chosen_between_by_all_beliefs():
    others = [1.0, 1.0, 1.0]
    assert table([[3.0, 2.0, 2.0], [3.2, 1.0, 1.0], others]).worst.tolist() == [3.0, 3.2, 1.0]
    costs = [[3.0, 2.0, 2.0], [3.2, 1.0, 1.0], [1.0, 9.0, 9.0]]
    assert table(costs).choice() == 1
    costs[1][0] = 3.0 * NEAR_WORST + 0.01
    assert table(costs).choice() == 0


def test_a_simple_option_comes_first_where_it_is_hardly_worse():
    costs = [[1.0, 1.0], [1.0 + 0.9 * (ALIKE - 1), 1.0]]
    assert table(costs, names=("optimal", "kvue")).choice() == 1
    costs[1] = [1.2, 1.0]
    assert table(costs, names=("optimal", "kvue")).choice() == 0


def test_the_choice_is_the_minimiser_over_all_options(comparison):
    regrets, options = comparison.simulated, comparison.options()
    assert len(options) == len(comparison.pool) == len(regrets.costs)
    assert {option.plan.hash for option in options} == {
        option.plan.hash
        for name in comparison.pool
        if (option := comparison.option(name, 0)) is not None
    }
    worst = [max(option.regrets) for option in options]
    assert worst == pytest.approx([option.score for option in options])
    assert worst[0] <= NEAR_WORST * min(worst)
    assert worst[1:] == sorted(worst[1:])
    near = [option for option in options if option.score <= NEAR_WORST * min(worst)]
    averages = [np.log(option.regrets).mean() for option in near]
    assert np.log(options[0].regrets).mean() <= min(averages) + np.log(ALIKE) + 1e-12
    for place in range(len(comparison.priors)):
        assert regrets.least[place] <= regrets.costs[:, place].min()
        assert comparison.own[place][0] in comparison.pool, "the best under a belief can be chosen"


def test_a_plan_that_cannot_answer_costs_at_most_twice(comparison):
    assert np.isfinite(comparison.in_closed_form.costs).all()


# -- advice ----------------------------------------------------------------------------------------


def test_it_answers_only_if_it_does_under_every_belief(nothing, monkeypatch):
    assert nothing.answers == all(factor <= 1 for factor in nothing.best.people_factors)
    few = advise(SCHEMA, 1, 20_000, brief=True)
    factors = few.best.people_factors
    assert min(factors) <= 1 < max(factors)
    assert not few.answers
    assert few.may_answer
    assert "answers are useful only if people hold" in str(few)
    states = [belief["answers"] for belief in few.document()["beliefs"]]
    assert states == [factor <= 1 for factor in factors]
    assert few.document()["answers"] is False
    calls = []
    monkeypatch.setattr(planner, "advise", lambda *a, **more: calls.append((a, more)) or few)
    with pytest.warns(PlannerWarning) as warned:
        assert Plan.choose(SCHEMA, 1, 20_000, force=True) == few.plan
    assert [str(each.message) for each in warned] == [few.warning]
    assert few.warning.startswith(f"{few.why}. If you know how many keys people hold on average, pass")
    assert warned[0].filename == __file__
    assert calls == [((SCHEMA, 1, 20_000), {"ask": "both", "held": None, "prior": None, "brief": True})]


def test_a_refusal_says_what_it_takes_if_people_hold_a_third():
    advice = advise(SCHEMA, "0.1", 1000, brief=True)
    assert not advice.may_answer
    assert (
        "no plan can answer; if people hold 6 keys (assumed: nothing is known), it takes about"
        in str(advice)
    )
    assert advice.people_needed > 1000


def test_one_belief_is_one_prior():
    prior = Prior.of(SCHEMA, held=1)
    single = Beliefs((Belief("one key", prior),), prior, np.ones(1))
    advice = advise(SCHEMA, 2, 100_000, prior=single, brief=True)
    assert advice.first_round is None
    assert advice.best.regrets[0] <= ALIKE
    assert advice.plan.encode in ("items", "padded")


@pytest.mark.parametrize(
    ("keys", "epsilon", "people", "ask"),
    [(50, 2, 34_105, "conditional"), (24, 4, 10**6, "conditional"), (6, 1, 3000, ["mean(0 | 1, !2)"])],
)
def test_conditionals_are_chosen_over_beliefs_of_several_keys(keys, epsilon, people, ask):
    schema = Schema.of(keys)
    robust = advise(schema, epsilon, people, ask=ask, brief=True)
    single = advise(schema, epsilon, people, ask=ask, prior=Prior.of(schema), brief=True)
    assert robust.plan == single.plan, "as with the prior that three in ten hold each key"
    assert robust.beliefs is not None
    assert all(belief.prior.sizes[2:].any() for belief in robust.beliefs.possible)
    for option in robust.options:
        assert option.score == max(option.regrets) >= 1
        assert option.people_factor == max(option.people_factors)
    factors = [people_factor(robust.plan, people, "conditional", p) for p in robust.beliefs.priors]
    assert robust.best.people_factors == pytest.approx(factors)


def test_conditionals_are_not_promised_to_people_who_mostly_hold_one_key():
    """With two keys as the sparsest belief, the planner promised answers here."""
    schema = Schema.of(20)
    advice = advise(schema, 2, 100_000, ask="conditional", brief=True)
    assert advice.beliefs is not None
    sparse = advice.beliefs.possible[0]
    assert sparse.words == "one key or two"
    assert sparse.prior.held == pytest.approx(1.3, rel=0.01)
    assert advice.best.people_factors[0] > 1 > max(advice.best.people_factors[1:])
    assert advice.why.endswith("only if people hold two keys or more (on average 2 of 20)")
    schema = Schema.of(5)
    assert Beliefs.of(schema).about_several_keys(schema).possible[0].words == "a third of the keys"


def test_conditionals_of_unknown_people_warn_if_few_keys_are_not_enough():
    """50 keys of which people hold two: some 310,000 people would have to answer."""
    schema = Schema.of(50, 0, 10)
    with pytest.warns(PlannerWarning) as warned:
        Plan.choose(schema, 2, 34_105, ask="conditional")
    (message,) = (str(each.message) for each in warned)
    assert "useful only if people hold a third of the keys or more (on average 15 of 50)" in message
    assert "pass held=..." in message
    assert "prior=Prior.of_people(schema, people)" in message
    advice = advise(schema, 2, 34_105, ask="conditional")
    assert advice.may_answer
    assert not advice.answers
    assert advice.fact is not None
    assert "(--held N)" in str(advice.fact)
    with pytest.raises(
        PlanError, match=r"if people hold 2.11 keys on average, it takes about 310,000 people"
    ):
        Plan.choose(schema, 2, 34_105, ask="conditional", held=2.112)


def test_conditionals_that_any_people_can_answer_have_no_warning():
    advice = advise(Schema.of(5), 2, 60_000, ask="conditional")
    assert advice.answers
    assert advice.why == (
        "pairs is the best plan, whatever number of keys people hold, from a third of the keys on"
    )
    assert advice.fact is None
    with pytest.raises(PlanError, match="need at least 2 keys"):
        advise(Schema.of(1), 2, 60_000, ask="conditional")


def test_a_number_of_keys_held_is_a_prior():
    advice = advise(SCHEMA, 2, 20_000, held=2, brief=True)
    assert advice.plan == advise(SCHEMA, 2, 20_000, prior=Prior.of(SCHEMA, held=2), brief=True).plan
    assert advice.beliefs is None
    with pytest.raises(PlanError, match="held or prior, not both"):
        advise(SCHEMA, 2, 20_000, held=2, prior=Prior.of(SCHEMA))


def test_the_fact_that_helps_most_is_named(nothing):
    assert isinstance(nothing.fact, HelpfulFact)
    assert nothing.fact.question == "how many keys do people hold?"
    assert nothing.fact.regret == max(nothing.best.regrets)
    assert "--held N" in str(nothing.fact)
    assert advise(Schema.of(1), 1, 1e5, prior=Beliefs.of(Schema.of(1), mean=0)).fact is None
    assert advise(SCHEMA, 2, 100_000, prior=Prior.of(SCHEMA)).fact is None


# -- the first round -------------------------------------------------------------------------------


def test_a_first_round_is_recommended_where_it_pays(nothing):
    first = nothing.first_round
    assert isinstance(first, FirstRound)
    assert first.plan == Plan.of(SCHEMA, "sized", 2, "tight")
    assert first.people + first.others == 100_000
    assert first.regret <= rounds.GAIN * nothing.best.score
    assert nothing.document()["first_round"]["people"] == first.people
    assert advise(SCHEMA, 2, 1, brief=True).first_round is None, "no one is left to answer"


def test_no_first_round_where_one_plan_is_good_enough(comparison):
    assert rounds.first_round(comparison, rounds.PAYS_ABOVE) is None
    regret = best_round(Plan.of(SCHEMA, "sized", 2, "tight"), comparison).regret
    assert rounds.first_round(comparison, regret) is None or regret <= rounds.GAIN * regret


def test_a_share_costs_its_people_and_gains_what_it_tells():
    """Two options, each right under one of two beliefs that are easy to tell apart."""
    pilot = Plan.of(SCHEMA, "sized", 4, "tight")
    laws = [np.eye(21)[1], np.eye(21)[20]]
    regrets = share_regrets(pilot, np.array([[1.0, 9.0], [9.0, 1.0]]), laws, 10**9)
    costs = [1 / (1 - share) for share in rounds.SHARES]
    assert regrets == pytest.approx(np.array([costs, costs]).T)
    alike = share_regrets(pilot, np.array([[1.0, 9.0], [9.0, 1.0]]), [laws[0], laws[0]], 10**9)
    assert alike.max(axis=1) == pytest.approx([9 * cost for cost in costs]), "nothing can be told"
