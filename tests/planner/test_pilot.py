"""The pilot: a few people tell how many keys they hold, and the planner chooses for everyone else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyveil import Coins, People, Plan, PlanError, ReportError, Schema, Tally, estimate
from keyveil.mechanisms.sized import noise_of, shares_of
from keyveil.people.prior import Prior
from keyveil.people.prior_laws import beta_binomial
from keyveil.people.size_buckets import bucket_of
from keyveil.people.size_guesses import AVERAGES, guesses_for
from keyveil.people.synthetic import pckv_uniform
from keyveil.planner.first_round import SHARES, pilot_people
from keyveil.planner.pilot import (
    SAME,
    bucket_shares,
    learned,
    pilot_beliefs,
    pilot_prior,
    posterior_laws,
)
from keyveil.planner.planner import advise
from keyveil.simulate.contest import Contest
from keyveil.simulate.parallel import measure
from keyveil.simulate.tallies import Population, simulate_runs

MANY = 10**12
pytestmark = pytest.mark.usefixtures("few_draws")  # choices differ by far more than draws


def pilot(keys=30, epsilon="1"):
    return Plan.of(Schema.of(keys), "sized", epsilon, "tight")


def told(plan, sizes, people=MANY):
    """The counts of people of these sizes without any noise, as near as whole numbers are."""
    channel = plan.channels[0]
    buckets = np.minimum(bucket_of(np.arange(len(sizes))), channel.states - 1)
    law = np.bincount(buckets, sizes, channel.states)
    cells = law @ channel.expected()
    cells = cells if channel.one_cell else cells[: channel.cells]
    return Tally(plan, np.concatenate([[people], np.rint(people * cells)]).astype(np.int64))


def of_buckets(sizes, states):
    return np.bincount(np.minimum(bucket_of(np.arange(len(sizes))), states - 1), sizes, states)


# -- what is learned, exactly ------------------------------------------------------------------------

LAWS = {
    "one each": np.eye(31)[1],
    "all of them": np.eye(31)[30],
    "one or thirty": np.eye(31)[1] * 0.8 + np.eye(31)[30] * 0.2,
    "even": np.full(31, 1 / 31),
    "mostly none": np.array([0.9, 0.0, 0.05, 0.05]),
}


@pytest.mark.parametrize("epsilon", ["0.1", "1", "4"])
@pytest.mark.parametrize("name", LAWS)
def test_without_noise_the_law_of_buckets_is_the_one_that_was_told(name, epsilon):
    plan, sizes = pilot(epsilon=epsilon), LAWS[name]
    states = plan.channels[0].states
    law = learned(plan, told(plan, sizes))
    assert law.sum() == pytest.approx(1)
    assert of_buckets(law, states) == pytest.approx(of_buckets(sizes, states), abs=2e-3)
    assert shares_of(plan, told(plan, sizes).counts) == pytest.approx(
        of_buckets(sizes, states), abs=1e-6
    )


@pytest.mark.parametrize("keys", [1, 2, 3, 30, 100, 5000])
def test_who_knows_nothing_stays_at_the_default(keys):
    """At epsilon 0.001 one person's word weighs nothing, whatever it is."""
    plan = pilot(keys, "0.001")
    default = Prior.of(keys)
    for size in (0, 1, min(keys, 40)):
        prior = pilot_prior(plan, told(plan, np.eye(keys + 1)[size], 1))
        length = len(default.sizes)
        assert prior.sizes[:length] == pytest.approx(default.sizes, abs=1e-4)
        assert prior.held == pytest.approx(default.held, rel=1e-2)


def test_few_people_are_believed_less_than_many():
    """One key each is told without noise, by ever more people: the average falls towards one."""
    plan = pilot(epsilon="0.5")
    held = [pilot_prior(plan, told(plan, LAWS["one each"], n)).held for n in (10, 1000, 10**5, MANY)]
    assert held == sorted(held, reverse=True)
    assert held[0] == pytest.approx(Prior.of(30).held, rel=0.1)
    assert held[-1] == pytest.approx(1, abs=0.01)


def test_who_holds_many_is_not_taken_for_noise():
    """A tenth of people hold all keys, a bucket's share is known to 0.05: a rare tail is kept."""
    plan = pilot(epsilon="0.5")
    law = learned(plan, told(plan, 0.9 * LAWS["one each"] + 0.1 * LAWS["all of them"], 5000))
    assert 0.05 < law[8:].sum() < 0.2


@pytest.mark.parametrize("epsilon", ["0.5", "1", "4"])
@pytest.mark.parametrize("share", [0.55, 0.65, 0.75, 0.8, 0.85, 0.95, 1.0])
def test_averages_between_half_of_the_keys_and_all_are_known(share, epsilon):
    """Of 30 keys to a twentieth of them: told by so many people that a bucket is known to 0.03."""
    plan = pilot(epsilon=epsilon)
    people = round(float(noise_of(plan, np.zeros(1))[0]) / 0.03**2)
    law = beta_binomial(share, 30, np.inf, 30) if share < 1 else LAWS["all of them"]
    assert pilot_prior(plan, told(plan, law, people)).held == pytest.approx(30 * share, abs=1.5)


@pytest.mark.parametrize("epsilon", ["1", "4"])
def test_what_lies_in_the_last_bucket_is_said_to_be_vague(epsilon):
    """Of 100 keys people hold 80, or all: 64 and more are one bucket, and neither end is believed."""
    plan = pilot(100, epsilon)
    for law in (beta_binomial(0.8, 100, np.inf, 100), np.eye(101)[100]):
        prior = pilot_prior(plan, told(plan, law, 9000))
        assert 80 < prior.held < 95
        assert "from a pilot of 9,000 people, which does not tell 64 keys from more" in prior.source
    few = pilot_prior(plan, told(plan, np.eye(101)[3], 9000))
    assert few.held == pytest.approx(3, abs=0.2)
    assert few.source.endswith("(from a pilot of 9,000 people)")
    most = pilot(64, epsilon)  # the last bucket is 64 keys and nothing else
    assert "from more" not in pilot_prior(most, told(most, np.eye(65)[64], 9000)).source


@pytest.mark.parametrize("keys", [5, 30, 100])
def test_more_averages_up_there_are_none_the_likelier_together(keys):
    """Laws of few keys keep their share: those of half the keys and more weigh as equal factors do."""
    guesses = guesses_for(keys, pilot(keys).channels[0].states)
    single = guesses.part == 0
    held = guesses.laws @ np.arange(keys + 1)
    weight = guesses.weight[single]
    equal = np.geomspace(0.5, 0.97 * keys, AVERAGES) >= 0.5 * keys
    ratio = weight[3:][held[3:] >= 0.5 * keys - 1e-9].sum() / weight[1]
    assert ratio == pytest.approx(10 * equal.sum())  # five shapes each, with and without no key


@pytest.mark.parametrize("epsilon", ["0.5", "2", "5"])
def test_what_was_told_has_its_buckets_and_intervals(epsilon):
    plan = pilot(20, epsilon)
    law = np.bincount([1, 1, 1, 2, 9, 20, 20, 0], minlength=21) / 8
    buckets = bucket_shares(plan, told(plan, law, 10**9), 0.9)
    ends = [(each.least, each.most) for each in buckets]
    assert ends == [(n, n) for n in range(8)] + [
        (8, 9),
        (10, 11),
        (12, 13),
        (14, 15),
        (16, 19),
        (20, 20),
    ]
    for each in buckets:
        assert each.share.value == pytest.approx(law[each.least : each.most + 1].sum(), abs=1e-5)
        assert each.share.high - each.share.low == pytest.approx(
            2 * 1.6449 * each.share.stderr, rel=1e-4
        )
    shares = of_buckets(law, plan.channels[0].states)
    exact = np.sqrt(noise_of(plan, shares) / 10**9)
    assert [each.share.stderr for each in buckets] == pytest.approx(exact, rel=1e-3)
    assert bucket_shares(pilot(100), told(pilot(100), np.eye(101)[70]))[-1][:2] == (64, 100)
    with pytest.raises(PlanError, match="tally is empty"):
        bucket_shares(plan, Tally(plan))


@pytest.mark.parametrize("epsilon", ["0.1", "1", "2", "5"])
def test_the_noise_is_that_of_the_channel(epsilon):
    plan = pilot(epsilon=epsilon)
    channel = plan.channels[0]
    law = np.random.default_rng(1).dirichlet(np.ones(channel.states))
    exact = channel.covariance(channel.decoder(np.eye(channel.states)), law)
    assert noise_of(plan, law) == pytest.approx(np.diag(exact), rel=1e-6)


@given(st.floats(0.01, 0.99), st.integers(1, 80), st.sampled_from([0.5, 1.0, 6.0, np.inf]))
def test_a_guess_is_a_law_with_its_average(share, keys, even):
    law = beta_binomial(share, keys, even, keys)
    assert law.sum() == pytest.approx(1)
    assert law @ np.arange(keys + 1) == pytest.approx(share * keys, rel=1e-6)


@pytest.mark.parametrize("keys", [1, 2, 5, 100, 5000])
def test_guesses_are_laws_and_the_default_is_the_first(keys):
    states = pilot(keys).channels[0].states
    guesses = guesses_for(keys, states)
    assert guesses.buckets.sum(axis=1) == pytest.approx(1)
    assert guesses.weight.sum() == pytest.approx(1)
    assert guesses.buckets[0] == pytest.approx(of_buckets(Prior.of(keys).sizes, states))
    within = guesses.within(np.arange(len(guesses.weight)))
    for row in within[:: max(1, len(within) // 20)]:
        assert np.bincount(guesses.bucket, row) == pytest.approx(np.ones(states))


# -- how many people it asks --------------------------------------------------------------------------


def test_a_pilot_asks_a_share_of_the_people():
    plan = pilot(20, "1")
    assert pilot_people(plan, 2) == 1
    assert pilot_people(plan, 10**6) in [round(share * 10**6) for share in SHARES]


def test_with_a_larger_epsilon_fewer_are_asked():
    few, many = (pilot_people(pilot(100, epsilon), 10**5) for epsilon in ("5", "0.5"))
    assert few < many


# -- bad input ---------------------------------------------------------------------------------------


def test_a_plan_that_asks_no_sizes_is_refused():
    plan = Plan.of(Schema.of(5), "kvue", 1)
    with pytest.raises(PlanError, match="the first one of sized, not kvue"):
        pilot_prior(plan, Tally(plan))
    first = pilot(5)
    second = first.next(told(first, np.eye(6)[1], 1000))
    with pytest.raises(PlanError, match="the first one of sized; this is its second"):
        pilot_prior(second, Tally(second))


def test_another_plans_tally_and_an_empty_one_are_refused():
    plan = pilot(5)
    with pytest.raises(ReportError, match="another plan"):
        pilot_prior(plan, Tally(pilot(6)))
    with pytest.raises(PlanError, match="tally is empty"):
        pilot_prior(plan, Tally(plan))


def test_people_who_hold_nothing_are_nothing_to_plan_for():
    plan = pilot(5, "5")
    with pytest.raises(PlanError, match="no one holds a key"):
        pilot_prior(plan, told(plan, np.eye(6)[0]))


# -- the whole way -----------------------------------------------------------------------------------


def test_people_are_split_and_every_plan_keeps_the_promise():
    """40,000 people of one key each among 20, one in twenty of them asked first; fixed coins.

    Frequencies are 0.05; the largest of 20 errors lies within 4.5 standard errors (odds 1 in 7,000).
    """
    schema = Schema.of(20, 1, 5)
    number = np.arange(40_000)
    keys, values = number % 20, 1 + 4 * (number % 7) / 6
    records = [{str(k): float(v)} for k, v in zip(keys.tolist(), values.tolist(), strict=True)]
    order = np.random.default_rng(1).permutation(len(records)).tolist()
    pilot, others = ([records[place] for place in part] for part in (order[:2000], order[2000:]))
    coins = Coins.stated("pilot")
    first = Plan.of(schema, "sized", 4)
    tally = Tally(first).add(first.privatise(People.of_records(schema, pilot), coins.under("few")))
    prior = pilot_prior(first, tally)
    assert prior.held == pytest.approx(1, abs=0.2)
    assert "from a pilot of 2,000 people" in prior.source
    plan = Plan.choose(schema, 4, len(others), prior=prior)
    assert max(first.proven, plan.proven) <= 4  # everyone answers one of the two
    reports = plan.privatise(People.of_records(schema, others), coins.under("others"))
    answers = estimate(plan, Tally(plan).add(reports))
    frequencies = [answers[str(key)].frequency for key in range(20)]
    off = [abs(each.value - 0.05) / each.stderr for each in frequencies]
    assert max(off) < 4.5
    blind = Plan.choose(schema, 4, len(others))
    assert blind.mechanism_name != plan.mechanism_name  # told nothing, the planner takes another


def test_the_planner_takes_what_the_pilot_tells():
    schema = Schema.of(30)
    plan = pilot()
    for name, encoded in (("one each", {"items", "padded"}), ("all of them", {"views"})):
        for learn in (pilot_prior, pilot_beliefs):
            prior = learn(plan, told(plan, LAWS[name], 10**5), mean=0.2, spread=0.3)
            assert "means near 0.2, spread 0.3" in prior.source
            assert advise(schema, 1, 1_000_000, prior=prior).plan.encode in encoded


@pytest.mark.parametrize("name", LAWS)
def test_beliefs_after_a_pilot_are_laws_with_probabilities(name):
    plan = pilot()
    weights, laws = posterior_laws(plan, told(plan, LAWS[name], 2000))
    assert weights.sum() == pytest.approx(1)
    assert (weights > 0).all()
    assert laws.sum(axis=1) == pytest.approx(1)
    held = laws @ np.arange(laws.shape[1])
    assert held.tolist() == sorted(held.tolist())
    assert (np.abs(np.diff(laws, axis=0)).sum(axis=1) >= 2 * SAME - 1e-9).all()
    sure, certain = posterior_laws(plan, told(plan, LAWS[name]))
    assert len(sure) == 1
    states = plan.channels[0].states
    assert of_buckets(certain[0], states) == pytest.approx(of_buckets(LAWS[name], states), abs=1e-3)


# -- comparisons -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def crowd():
    population = pckv_uniform(20)
    return Population(population.schema, population.people.chosen(np.arange(20_000), np.arange(20_000)))


RUNS = 3
"""Every run asks the planner anew."""


def contest(crowd, **more):
    return Contest(crowd, 100_000, RUNS, Coins.stated("piloted"), **more)


def piloted(crowd, processes):
    both = contest(crowd, pilot=True), ["kvue", "auto"]
    return measure(*both, ["0.2", "3"], processes=processes).rows


@pytest.fixture(scope="module")
def rows(crowd, few_draws):
    return piloted(crowd, 1)


@pytest.mark.sampled
def test_rows_say_what_a_pilot_took_and_what_it_led_to(crowd, rows):
    comparison = contest(crowd)
    for row in rows:
        if row.mechanism == "kvue":
            assert (row.pilot, row.choices) == (None, None)
            continue
        pilot_size = pilot_people(Plan.of(crowd.schema, "sized", str(row.epsilon)), 100_000)
        assert row.pilot == pytest.approx(pilot_size / 100_000)
        assert sum(row.choices.values()) == row.repetitions == len(row.runs["mean"]) == RUNS
        assert row.chosen == max(row.choices, key=lambda name: row.choices[name])
        assert row.true_epsilon <= row.epsilon
        assert row.n == 100_000
        forecasts = [
            comparison.questions.predicted(
                comparison.plan(name, f"{row.epsilon:g}"), 100_000 - pilot_size, (row.estimator,)
            )
            for name in row.choices
        ]
        for statistic in ("frequency", "mean"):
            each = [forecast[row.estimator][statistic] for forecast in forecasts]
            average = np.average(each, weights=list(row.choices.values()))
            assert getattr(row, f"predicted_{statistic}") == pytest.approx(average)
    document = rows[-1].document()
    assert document["choices"] == dict(rows[-1].choices)
    best = next(r for r in rows if r.mechanism == "auto" and r.epsilon == 3)
    assert best.chosen.partition(":")[0] in ("collision", "coco", "signed_ue", "pckv_grr")
    blind = measure(contest(crowd), ["auto:one_round"], ["3"], processes=1).rows[0]
    assert blind.mechanism == "auto:one_round"
    assert blind.pilot is None
    assert best.mse_mean < 0.5 * blind.mse_mean


@pytest.mark.sampled
def test_repetitions_are_split_between_fewer_pilots(crowd, rows):
    row = contest(crowd, pilots=1).rows("auto:pilot", "3")[0]
    assert sum(row.choices.values()) == len(row.runs["mean"]) == RUNS
    assert len(row.choices) == 1, "one pilot leads to one plan"
    assert row.pilot == next(r.pilot for r in rows if r.mechanism == "auto" and r.epsilon == 3)


@pytest.mark.sampled
def test_piloted_rows_are_the_same_whatever_the_number_of_processes(crowd, rows):
    assert [row.document() for row in rows] == [row.document() for row in piloted(crowd, 2)]


@pytest.mark.sampled
def test_a_pilot_needs_someone_left_to_answer(crowd):
    with pytest.raises(PlanError, match="at least 2"):
        replace(contest(crowd, pilot=True), people=1)
    with pytest.raises(PlanError, match="told nothing has no prior"):
        contest(crowd, nothing=True, prior=Prior.of(20))
    with pytest.raises(PlanError, match="auto is told one of: table, nothing, one_round, pilot"):
        contest(crowd).rows("auto:everything", "1")


@pytest.mark.sampled
def test_a_simulated_pilot_scatters_as_it_is_reckoned_to(crowd):
    """400 pilots: the variance of 14 buckets, averaged, lies within a tenth (false alarm below 1e-6)."""
    plan = pilot(20, "1")
    counts = simulate_runs(plan, crowd, 10_000, Coins.stated("scatter"), 400)
    shares = np.array([shares_of(plan, each) for each in counts])
    law = of_buckets(crowd.sizes, plan.channels[0].states)
    ratio = (shares.var(axis=0) / (noise_of(plan, law) / 10_000)).mean()
    assert abs(ratio - 1) < 0.1
    assert abs(1.25 * ratio - 1) > 0.1  # the broken twin
    assert pilot_prior(plan, Tally(plan, counts[0])).held < 2
