"""What caps leave out: the share that counts, corrected answers, their intervals and forecasts."""

from __future__ import annotations

from dataclasses import astuple, replace
from itertools import combinations

import numpy as np
import pytest

from keyveil import Coins, People, Plan, Schema, Tally, estimate
from keyveil.estimate import bands, size_law
from keyveil.estimate.cap_correction import (
    CapCorrection,
    CountedShare,
    caps_of,
    holding_chances,
)
from keyveil.estimate.forecast.by_draws import forecast_by_draws
from keyveil.estimate.forecast.cap_forecast import corrected_forecast, least_coverage
from keyveil.estimate.forecast.key_forecast import forecast
from keyveil.estimate.side import SizeAnswer, moments_with_side, side_information
from keyveil.estimate.size_law import SizeLaw
from keyveil.estimate.together.conditional import Conditionals
from keyveil.people.population import Population
from keyveil.people.prior import Prior
from keyveil.people.size_buckets import bucket_of, bucket_shares
from keyveil.simulate import simulate_runs

KEYS = 12
SCHEMA = Schema.of(KEYS)


def answer(sizes, reports=10**9, keys=KEYS):
    """The answer to the size question of very many people, or of none."""
    buckets = int(bucket_of(keys)) + 1
    shares = bucket_shares(np.asarray(sizes, np.float64), buckets)
    nothing = np.zeros((buckets, buckets))
    return SizeAnswer(np.asarray(reports), shares, nothing, np.zeros(0, np.int64), np.array([1.0, 0.5]))


def crowd(seed=1, people=4000, uneven=0.7):
    """People of whom half hold one key and some hold many, of keys that differ in frequency."""
    draw = np.random.default_rng(seed)
    weight = np.arange(1, KEYS + 1) ** -uneven
    sizes = np.minimum(draw.geometric(0.5, people), KEYS)
    records = [
        {str(k): float(draw.uniform(-1, 1)) for k in draw.choice(KEYS, h, False, weight / weight.sum())}
        for h in sizes.tolist()
    ]
    return Population(SCHEMA, People.of_records(SCHEMA, records))


def plan_of(listed, epsilon=3):
    return Plan.of(SCHEMA, "parts", epsilon, "tight", parts=listed)


@pytest.mark.parametrize("cap", [1, 2, 3])
def test_the_share_that_counts_is_enumerated_exactly(cap):
    """Every set of six equal keys with a law of sizes: each key counts as the average pair does."""
    keys, sizes = 6, np.array([0.1, 0.4, 0.2, 0.15, 0.1, 0.05])
    frequency = capped_frequency = 0.0
    for held in range(1, len(sizes)):
        sets = list(combinations(range(keys), held))
        for chosen in sets:
            if 0 in chosen:
                frequency += sizes[held] / len(sets)
                capped_frequency += sizes[held] / len(sets) * min(1.0, cap / held)
    law = SizeLaw.of(answer(sizes, keys=keys), keys, [cap])
    share = CapCorrection(law, np.ones(keys)).counted_share(np.full(keys, capped_frequency))
    assert share.value == pytest.approx(capped_frequency / frequency, rel=1e-4)
    assert law.average == pytest.approx(capped_frequency / frequency, rel=1e-4)
    assert capped_frequency / share.value == pytest.approx(frequency, rel=1e-4)
    number = np.arange(1, len(sizes))
    pairs = sizes[1:] * number / (sizes[1:] @ number)
    counted = np.minimum(1.0, cap / number)
    spread = np.sqrt(pairs @ counted**2 - (pairs @ counted) ** 2)
    assert share.holders == pytest.approx(spread, rel=1e-3)


def test_people_of_a_size_hold_so_many_keys_with_odds_of_the_frequencies():
    frequency = np.array([[0.9, 0.5, 0.1, 0.02, 0.3]])
    held = np.array([[0.0, 1.0, 2.0, 4.5]])
    chance = holding_chances(frequency, np.ones(5), held)
    assert chance.sum(axis=-1) == pytest.approx(held, abs=1e-6)
    odds = chance[0, 1:] / (1 - chance[0, 1:])
    ratio = odds / (frequency / (1 - frequency))
    assert ratio == pytest.approx(ratio[:, :1].repeat(5, axis=1), rel=1e-6)


def test_a_frequent_key_counts_more_than_a_rare_one():
    sizes = np.array([0.0, 0.5, 0.2, 0.1, 0.1, 0.1])
    law = SizeLaw.of(answer(sizes), KEYS, [1])
    share = CapCorrection(law, np.ones(KEYS)).counted_share(np.linspace(0.3, 0.02, KEYS))
    assert (np.diff(share.value) < 0).all()


@pytest.mark.parametrize("listed", ["pckv_grr:length=1/size@0.2", "collision:cap=2+pool=64/size@0.2"])
def test_moments_are_those_of_kept_keys(listed):
    """Exactly: frequency times E[min(1, cap / h) | the key is held], from the law of the reports."""
    people, plan = crowd(people=300), plan_of(listed)
    prior = Prior.of_people(SCHEMA, people.people)
    cap = caps_of(plan)[0]
    number = np.diff(people.people.starts)
    counted = np.repeat(np.minimum(1.0, cap / np.maximum(number, 1)), number)
    capped_frequency = np.bincount(people.people.keys, counted, KEYS) / len(people.people)
    assert prior.capped(cap)[:, 0] == pytest.approx(capped_frequency)
    predicted = forecast(plan, 10**6, prior)
    assert prior.frequency + predicted.left_out[:, 0] == pytest.approx(capped_frequency)
    assert predicted.caps is not None


def test_without_noise_the_corrected_bias_is_that_of_unusual_keys():
    prior = Prior.of_people(SCHEMA, crowd().people)
    plain = forecast(plan_of("pckv_grr:length=1/sign@0.1"), 10**6, prior)
    sized = forecast(plan_of("pckv_grr:length=1/size@0.1"), 10**9, prior)
    corrected = corrected_forecast(sized)
    off = np.abs(plain.bias[:, 0] / prior.frequency)
    assert off.min() > 0.3
    assert np.abs(corrected.noise.bias[:, 0] / prior.frequency).max() < 0.12
    assert least_coverage(sized) >= 0.93 > least_coverage(plain)


@pytest.mark.sampled
@pytest.mark.parametrize("odd", ["frequency", "mean"])
def test_with_a_table_the_least_covered_answer_of_all_keys_is_predicted(odd):
    """The rarest key is held beside many others, or rated low there; the most held ones are usual."""
    draw = np.random.default_rng(5)
    records = []
    for h in np.minimum(draw.geometric(0.5, 4000), KEYS - 1).tolist():
        record = {str(k): 0.5 for k in draw.choice(KEYS - 1, h, replace=False)}
        if (h >= 4) if odd == "frequency" else draw.random() < 0.15:
            record[str(KEYS - 1)] = -0.9 if odd == "mean" and h >= 2 else 0.9
        records.append(record)
    population = Population(SCHEMA, People.of_records(SCHEMA, records))
    prior = Prior.of_people(SCHEMA, population.people)
    plan, people = plan_of("pckv_grr:length=1/size@0.1", 5), 200_000
    predicted = forecast(plan, people, prior)
    assert predicted.caps is not None
    least = least_coverage(predicted)
    assert least < 0.9
    assert least_coverage(replace(predicted, caps=predicted.caps._replace(known=False))) > 0.94
    counts = simulate_runs(plan, population, people, Coins.stated("odd cap"), 300)
    band, truth = getattr(bands(plan, counts), odd), getattr(prior, odd)[-1]
    covered = ((band.low[:, -1] <= truth) & (truth <= band.high[:, -1])).mean()
    assert covered == pytest.approx(least, abs=0.1)


def test_ends_stay_within_what_is_possible():
    share = CountedShare(*(np.array([x]) for x in (0.4, 0.3, 0.1, 0.25)))
    below, above = share.arms(2.0)
    assert 0 < below <= 1 - 0.4, "a frequency is never below what the reports say"
    assert 0 < above <= 0.4 / 0.25 - 1, "nor above what a person with every key would make of it"
    sure = CountedShare(*(np.array([x]) for x in (1.0, 0.0, 0.0, 0.25)))
    assert sure.arms(2.0) == (0.0, 0.0)


@pytest.mark.sampled
def test_without_reports_about_sizes_the_interval_says_so():
    plan, people = plan_of("pckv_grr:length=1/size@0.2"), crowd()
    counts = simulate_runs(plan, people, 10**6, Coins.stated("no sizes"), range(1))[0]
    known = estimate(plan, Tally(plan, counts))
    silent = counts.copy()
    silent[-plan.part_plans[1].layout.cells :] = 0
    unknown = estimate(plan, Tally(plan, silent))
    for key in SCHEMA.keys[:3]:
        wide, narrow = (a[key].frequency.high - a[key].frequency.low for a in (unknown, known))
        assert wide > 2 * narrow


@pytest.mark.sampled
def test_every_door_gives_the_same_number():
    plan, people = plan_of("pair_collision:cap=2+pool=64/size@0.2"), crowd()
    drawn = plan.privatise(people.people, Coins.stated("doors"))
    tally = Tally(plan).add(drawn)
    counts = tally.counts
    answers, arrays = estimate(plan, tally), bands(plan, counts)
    query_answer = Conditionals(plan, tally).answer("frequency(0)")
    first = answers["0"].frequency
    assert first.value == arrays.frequency.value[0] == query_answer.estimate.value
    assert (first.low, first.high) == (query_answer.estimate.low, query_answer.estimate.high)
    assert first.value > answers["0"].raw.frequency.value, "raw values are those of kept keys"


@pytest.mark.sampled
def test_notes_say_what_is_left_out_and_what_is_not_known():
    people = crowd()
    for listed, words in (
        ("size@0.2", "frequencies include what a cap of 2"),
        ("sign@0.2", "no one told"),
    ):
        plan = plan_of(f"collision:cap=2+pool=64/{listed}")
        counts = simulate_runs(plan, people, 10**5, Coins.stated("notes"), range(1))[0]
        note = estimate(plan, Tally(plan, counts)).note
        assert words in note
        assert ("biased downwards" in note) == (listed == "sign@0.2")
    whole = plan_of(f"pckv_grr:length={KEYS}/size@0.2")
    counts = simulate_runs(whole, people, 10**5, Coins.stated("notes"), range(1))[0]
    assert "cap of" not in estimate(whole, Tally(whole, counts)).note, "nothing is left out"
    assert moments_with_side(whole, counts).caps is None


@pytest.mark.sampled
def test_parts_with_several_caps_count_by_their_weights():
    plan, people = plan_of("pckv_grr:length=1/kvue@0.4/size@0.2"), crowd()
    counts = simulate_runs(plan, people, 10**7, Coins.stated("mixed"), range(1))[0]
    moments = moments_with_side(plan, counts)
    weights, law = moments.part_weights, moments.caps.law
    assert caps_of(plan) == [1, None]
    assert weights.sum() == pytest.approx(1)
    prior = Prior.of_people(SCHEMA, people.people)
    expected = weights[0] * prior.kept(1) + weights[1]
    assert law.average == pytest.approx(expected, rel=0.03)
    assert side_information(plan, counts).size is not None


@pytest.mark.sampled
def test_the_most_held_keys_are_covered_and_their_error_is_forecast():
    """60 tallies of ten keys: 600 intervals, of which fewer than 93 % cover in one run of 10,000."""
    people, number = crowd(), 50_000
    prior = Prior.of_people(SCHEMA, people.people)
    top = np.argsort(-prior.frequency)[:10]
    covered, errors = {}, {}
    for listed in ("pckv_grr:length=1/size@0.1", "pckv_grr:length=1/sign@0.1"):
        plan = plan_of(listed)
        counts = simulate_runs(plan, people, number, Coins.stated("covered"), range(60))
        frequency = bands(plan, counts).frequency
        inside = (frequency.low <= prior.frequency) & (prior.frequency <= frequency.high)
        covered[listed] = inside[:, top].mean()
        measured = ((frequency.value - prior.frequency) ** 2).mean()
        predicted = forecast_by_draws(plan, forecast(plan, number, prior), number, ("best",))["best"]
        errors[listed] = predicted.frequency / measured
    sized, uncorrected = covered.values()
    assert sized >= 0.93
    assert uncorrected < 0.1, "without sizes, the same answers do not cover"
    assert all(0.75 < ratio < 1.3 for ratio in errors.values())


def test_guesses_that_are_left_out_change_nothing(monkeypatch):
    sizes = np.zeros(KEYS + 1)
    sizes[[1, 3]] = 0.6, 0.4
    law = SizeLaw.of(answer(sizes, reports=5000), KEYS, [2])
    monkeypatch.setattr(size_law, "UNLIKELY", -1.0)
    every = SizeLaw.of(answer(sizes, reports=5000), KEYS, [2])
    for part, whole in zip(astuple(law), astuple(every), strict=True):
        assert part == pytest.approx(whole, rel=1e-5, abs=1e-7)
