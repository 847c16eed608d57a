"""Default answers to queries: shrunk associations of pairs, and one answer from every door."""

from __future__ import annotations

from itertools import islice, permutations

import numpy as np
import pytest

from keyveil import Coins, People, Plan, Query, Schema, Tally, estimate
from keyveil.estimate import bands
from keyveil.estimate.answer import quantile
from keyveil.estimate.assisted import Mixture
from keyveil.estimate.forecast import query_draws
from keyveil.estimate.forecast.query_draws import drawn_counts
from keyveil.estimate.forecast.query_forecast import QueryForecast, expected_tally
from keyveil.estimate.together import association_posterior, pair_moments
from keyveil.estimate.together.association_posterior import posterior as posterior_of
from keyveil.estimate.together.association_posterior import posterior_of_few
from keyveil.estimate.together.averaged_views import pooled_moments
from keyveil.estimate.together.conditional import Conditionals, query_weights
from keyveil.estimate.together.joint import evidence
from keyveil.estimate.together.placed_queries import PlacedQueries
from keyveil.estimate.together.shrunk_conditionals import ShrunkConditionals
from keyveil.people.synthetic import of_keys, tied, uniform_values
from keyveil.simulate.conditional_questions import true_value
from keyveil.simulate.tallies import Population, simulate

CROWD = tied(6, frequency=0.5, mean=0.2, apart=0.2)
"""Keys that go together."""


def plan_for(population: Population, mechanism: str = "pairs", epsilon: float = 2) -> Plan:
    return Plan.of(population.schema, mechanism, epsilon)


def tally_for(plan: Plan, people: int = 100_000, run: int = 0, population=CROWD) -> Tally:
    return simulate(plan, population, people, Coins.stated("shrunk conditionals"), run)


@pytest.mark.parametrize("mechanism", ["pairs", "triples", "ioh", "coefficients"])
@pytest.mark.parametrize(
    "text",
    [
        *("frequency(0 | 1)", "mean(0 | 1)", "frequency(2 | !3)", "mean(2 | !3)", "lift(4 | 5)"),
        *("frequency(4)", "mean(4)"),
    ],
)
def test_without_noise_answers_are_the_truth(mechanism, text):
    """2^50 reports: what is left is rounding and the spacing of grids."""
    plan = plan_for(CROWD, mechanism)
    answer = Conditionals(plan, expected_tally(plan, CROWD.law)).answer(text)
    query = Query.parse(text)
    if query.kind == "lift":
        parts = (Query("frequency", query.target, query.given), Query("frequency", query.target))
        truth = true_value(CROWD, parts[0]) / true_value(CROWD, parts[1])
    else:
        truth = true_value(CROWD, query)
    assert answer.estimator == "best"
    assert answer.estimate.value == pytest.approx(truth, abs=2e-3)
    assert answer.estimate.low - 2e-3 <= truth <= answer.estimate.high + 2e-3


def test_without_noise_three_keys_are_the_truth():
    plan = plan_for(CROWD, "triples")
    source = Conditionals(plan, expected_tally(plan, CROWD.law))
    for text in ("frequency(0 | 1, 2)", "mean(3 | 4, !5)"):
        truth = true_value(CROWD, Query.parse(text))
        assert source.answer(text).estimate.value == pytest.approx(truth, abs=2e-3)


@pytest.mark.sampled
def test_values_without_intervals_are_those_of_the_answers():
    plan = plan_for(CROWD, "triples")
    source = Conditionals(plan, tally_for(plan, 20_000))
    texts = ["frequency(0 | 1)", "mean(1 | 0)", "mean(2 | !3)", "frequency(0 | 1, 2)", "mean(3 | 4, !5)"]
    queries = [Query.parse(text) for text in texts]
    placed = PlacedQueries.of(queries, CROWD.schema)
    values = source._shrunk.values(placed)
    assert values == pytest.approx(
        [answer.estimate.value for answer in source.answers(queries)], rel=1e-12
    )
    pairs = plan_for(CROWD, "pairs")
    unknown = Conditionals(pairs, tally_for(pairs, 20_000))._shrunk.values(placed)
    assert np.isnan(unknown).tolist() == [False, False, False, True, True]


def test_drawn_tallies_are_the_same_on_every_call_and_hold_all_people():
    plan = plan_for(CROWD, "triples")
    first, second = (next(drawn_counts(plan, CROWD.law, 5000, 4)) for _ in range(2))
    assert np.array_equal(first, second)
    assert not np.array_equal(first[0], first[1])
    assert [Tally(plan, row).reports for row in first] == [5000] * 4


def test_the_forecast_falls_with_people_and_lies_below_that_of_unbiased_answers():
    """The draws are fixed. Means do not shift in this crowd, so that their shrinkage always pays."""
    plan = plan_for(CROWD)
    keys = CROWD.schema.keys
    queries = {
        kind: [Query(kind, k, ((c, True),)) for k in keys for c in keys if k != c]
        for kind in ("frequency", "mean")
    }
    few, many = (QueryForecast(plan, CROWD.law, people, "best").errors(queries) for people in PEOPLE)
    unbiased = QueryForecast(plan, CROWD.law, PEOPLE[1], "pooled").errors(queries)
    assert few.frequency > 10 * many.frequency
    assert few.mean > 10 * many.mean
    assert many.frequency < unbiased.frequency
    assert many.mean < 0.5 * unbiased.mean
    assert np.isnan(QueryForecast(plan, CROWD.law, 1000, "best").errors({})).all()


@pytest.mark.sampled
def test_the_control_of_a_forecast_is_centred_where_views_have_few_reports():
    """Twelve reports a view, fixed draws. A twin takes the expected number of reports for the real one.

    The error of unbiased answers is then a tenth larger than it expects.
    """
    plan, people = plan_for(CROWD), 12 * 15
    keys = CROWD.schema.keys
    queries = [Query("frequency", k, ((c, True),)) for k in keys for c in keys if k != c]
    true = QueryForecast(plan, CROWD.law, people, "best")._true_queries(queries)
    placed = PlacedQueries.of(queries, CROWD.schema)
    together = query_draws.ReportsTogether(plan)
    expected = together.of(people * plan.views.shares)
    (counts,) = islice(drawn_counts(plan, CROWD.law, people, 900), 1)
    drawn, twin = [], []
    for own, source in zip(counts, query_draws.sources(plan, counts), strict=True):
        with np.errstate(invalid="ignore"):  # a key and itself
            scarcer = expected / together.of(own[plan.layout.own])
        for part, ratio in ((drawn, scarcer), (twin, np.ones_like(scarcer))):
            part.append(query_draws.squared_errors(source, true, "frequency", placed, ratio)[1])
    away, of_twin = (np.mean(part) / (np.std(part) / np.sqrt(len(part))) for part in (drawn, twin))
    assert abs(away) < 4
    assert of_twin > 4


PEOPLE = (2000, 200_000)
THREE = tied(3, frequency=0.5, mean=0.2, apart=0.2)


@pytest.mark.sampled
@pytest.mark.parametrize("mechanism", ["kvue", "pairs", "triples", "pair_collision"])
def test_a_query_of_one_key_has_the_answer_of_estimate(mechanism):
    plan = Plan.of(Schema.of([str(k) for k in range(6)], 1, 5), mechanism, 1)
    tally = tally_for(plan, 20_000)
    answers, source = estimate(plan, tally), Conditionals(plan, tally)
    raw = Conditionals(plan, tally, "least_squares")
    for key in plan.schema.keys:
        for kind in ("frequency", "mean"):
            query, own = source.answer(f"{kind}({key})"), getattr(answers[key], kind)
            assert query.estimate.value == pytest.approx(own.value)
            assert (query.estimate.low, query.estimate.high) == pytest.approx((own.low, own.high))
            unbiased = raw.answer(f"{kind}({key})").estimate.value
            assert query.raw.value == pytest.approx(unbiased, nan_ok=True)


@pytest.mark.sampled
def test_shares_with_and_without_a_condition_add_up_to_the_share_of_all():
    plan = plan_for(CROWD, epsilon=1)
    source = Conditionals(plan, tally_for(plan, 10_000))
    f = {key: source.answer(f"frequency({key})").estimate.value for key in plan.schema.keys}
    for k, c in (("0", "1"), ("3", "2"), ("4", "5")):
        held, absent = (
            source.answer(f"frequency({k} | {sign}{c})").estimate.value for sign in ("", "!")
        )
        assert f[c] * held + (1 - f[c]) * absent == pytest.approx(f[k], abs=1e-9)
        lift = source.answer(f"lift({k} | {c})").estimate.value
        assert lift == pytest.approx(held / f[k])


@pytest.mark.parametrize("ends", [(-3.0, 3.0), (-0.05, 0.4), (0.2, 0.6)])
def test_a_posterior_is_that_of_the_mixture_cut_to_what_is_possible(ends):
    """Against sums on a fine grid."""
    at = np.linspace(*ends, 60_001)
    value, loading, variance = np.array([0.05, -0.3]), np.array([0.2, 0.5]), np.array([0.01, 0.02])
    prior = Mixture(np.array([0.1, 0.1]), np.array([[0.1, 0.4], [0.1, 0.4]]), np.array([0.7, 0.3]))
    low, high = (np.full(2, end) for end in ends)
    posterior = posterior_of(value, loading, variance, prior, low, high)
    for row in range(2):
        laws = [np.exp(-((at - prior.centre[row]) ** 2) / (2 * s**2)) for s in prior.scales[row]]
        density = sum(w * law / law.sum() for w, law in zip(prior.weights, laws, strict=True))
        density *= np.exp(-((value[row] - loading[row] * at) ** 2) / (2 * variance[row]))
        density /= density.sum()
        mean = float(density @ at)
        assert posterior.mean[row] == pytest.approx(mean, abs=1e-5)
        assert posterior.stderr[row] == pytest.approx(np.sqrt(density @ (at - mean) ** 2), rel=1e-3)


def few_associations(noise: float) -> np.ndarray:
    """The posterior means of three associations, of which one is unlike the others."""
    loading, limits = np.full(3, 0.1), (np.full(3, -0.5), np.full(3, 0.9))
    values, variance = loading * np.array([0.0, 0.02, 0.3]), (loading * noise) ** 2
    return posterior_of_few(values, loading, variance, np.ones(3, bool), 0.3, 0.1, limits).mean


def test_few_associations_are_shrunk_only_as_far_as_their_noise_says():
    assert few_associations(1e-4) == pytest.approx([0.0, 0.02, 0.3], abs=1e-3)
    assert few_associations(0.05)[2] > 0.25, "two pairs that agree do not make a law"
    faint = few_associations(2.0)
    assert np.ptp(faint) < 0.02, "no pair tells anything of its own"
    assert np.abs(faint).max() < 0.05


def test_the_posterior_of_few_is_averaged_over_scales_by_their_likelihood(monkeypatch):
    """Against the posteriors at single scales, whose likelihoods are those of a normal vector."""
    loading, noise = np.array([0.1, 0.2]), np.array([0.08, 0.05])
    x, known = np.array([0.1, -0.05]), np.ones(2, bool)
    rest = (loading * x, loading, (loading * noise) ** 2, known, 0.3, 0.1)
    limits = (np.full(2, -0.9), np.full(2, 0.9))
    means, weights = [], []
    for relative in association_posterior.SCALES:
        scale = 0.3 * relative
        with monkeypatch.context() as patch:
            patch.setattr(association_posterior, "SCALES", np.array([relative]))
            means.append(posterior_of_few(*rest, limits).mean)
        law = np.diag(noise**2 + scale**2) + 0.1**2
        density = np.exp(-0.5 * x @ np.linalg.solve(law, x)) / np.sqrt(np.linalg.det(law))
        weights.append(density * scale / (1 + (scale / association_posterior.USUAL_SCALE) ** 2))
    expected = np.average(means, axis=0, weights=weights)
    assert posterior_of_few(*rest, limits).mean == pytest.approx(expected, rel=1e-9)


def test_a_posterior_far_outside_the_limits_is_at_the_nearest_one():
    prior = Mixture(np.zeros(1), np.full((1, 1), 0.1), np.ones(1))
    far = posterior_of(*(np.array([x]) for x in (9.0, 1.0, 1e-6)), prior, np.zeros(1), np.full(1, 0.5))
    assert far.mean[0] == pytest.approx(0.5)
    assert far.stderr[0] == pytest.approx(0, abs=1e-3)


@pytest.mark.sampled
def test_an_answer_does_not_depend_on_what_else_is_asked(monkeypatch):
    """Priors are learned from a fixed sample of pairs, also of a plan whose pairs decode slowly."""
    monkeypatch.setattr(pair_moments, "MOST_PAIRS", 5)
    plan = plan_for(CROWD, "triples")
    tally = tally_for(plan)
    alone = Conditionals(plan, tally).answer("mean(0 | 3)")
    matrix = Conditionals(plan, tally).matrix("mean")
    for name, value in alone.document().items():
        other = matrix[0][3].document()[name]
        same = pytest.approx(other, rel=1e-12) if isinstance(value, float) else other  # rounding
        assert value == same or name == "raw"


@pytest.mark.sampled
def test_keys_that_have_nothing_to_do_with_each_other_show_no_sign():
    """60 tallies of 15 independent pairs: of 900 tests at 5 % more than 80 are shown, or fewer than 20,
    less than once in 1,000 such checks. Keys that go together are shown."""
    apart = of_keys(np.full(6, 0.5), np.full(6, 0.2), uniform_values)
    plan = plan_for(apart)
    shown = 0
    for run in range(60):
        matrix = Conditionals(plan, tally_for(plan, 50_000, run, apart)).matrix("frequency")
        shown += sum(matrix[k][c].shown for k in range(6) for c in range(k))
    assert 20 <= shown <= 80
    together = Conditionals(plan, tally_for(plan, 1_000_000)).matrix("frequency")
    assert all(together[k][c].shown for k in range(6) for c in range(k))


@pytest.mark.sampled
def test_shrunk_conditionals_err_less_and_their_intervals_cover_each_pair():
    """40 tallies of 30 ordered pairs. A pair's coverage has a standard error of 3.4 %, so that one of
    30 falls below 80 % less than once in 5,000 such checks."""
    plan = plan_for(CROWD, epsilon=1)
    queries = [Query("mean", k, ((c, True),)) for k in "012345" for c in "012345" if k != c]
    truth = np.array([true_value(CROWD, query) for query in queries])
    errors, inside = {"best": [], "pooled": []}, []
    for run in range(40):
        tally = tally_for(plan, 30_000, run)
        for name, part in errors.items():
            answers = [a.estimate for a in Conditionals(plan, tally, name).answers(queries)]
            part.append((np.array([a.value for a in answers]) - truth) ** 2)
            if name == "best":
                inside.append([a.low <= t <= a.high for a, t in zip(answers, truth, strict=True)])
    assert np.mean(errors["best"]) < np.nanmean(errors["pooled"]) / 2
    assert np.mean(inside, axis=0).min() >= 0.8
    assert 0.93 < np.mean(inside) < 0.98


def test_a_document_has_the_raw_answer_and_the_sign():
    plan = Plan.of(Schema.of(["Pepsi", "Fries"], 1, 5), "pairs", 1)
    people = People.of_records(plan.schema, [{"Pepsi": 4, "Fries": 2}, {}] * 500)
    tally = Tally(plan).add(plan.privatise(people, Coins.stated("document")))
    document = Conditionals(plan, tally).answer("mean(Pepsi | Fries)").document()
    assert document["estimator"] == "best"
    assert document["shown"] in (True, False)
    assert set(document["raw"]) >= {"value", "low", "high"}


def held_by_all(keys: int = 4) -> Population:
    """Keys that everyone holds."""
    return of_keys(np.ones(keys), np.full(keys, 0.2), uniform_values)


@pytest.mark.sampled
def test_few_keys_that_all_hold_err_no_more_than_the_nearest_proper_laws():
    """The sums of 20 tallies, which were 1.4 times those of ``pooled`` before limits were used."""
    population = held_by_all()
    plan = plan_for(population)
    queries = [Query("frequency", k, ((c, True),)) for k in "0123" for c in "0123" if k != c]
    off = {"best": 0.0, "pooled": 0.0}
    for run in range(20):
        tally = tally_for(plan, 20_000, run, population)
        for name in off:
            answers = Conditionals(plan, tally, name).answers(queries)
            off[name] += sum((1.0 - answer.estimate.value) ** 2 for answer in answers)
    assert off["best"] < 1.15 * off["pooled"]


@pytest.mark.sampled
def test_three_keys_err_no_more_than_the_nearest_proper_laws():
    """The sums of 30 tallies. All keys are rare, and each two go together differently."""
    pairs = [{"0": 1, "1": 0.5}] * 4 + [{"0": 1, "2": 0.6}] * 2 + [{"1": 1, "2": 1}]
    alone = [{"0": 0.8}] * 6 + [{"1": 0.9}] * 6 + [{"2": 0.8}] * 6
    schema = Schema.of(3)
    population = Population(schema, People.of_records(schema, [*pairs, *alone, *[{}] * 75]))
    plan = plan_for(population)
    queries = [Query("frequency", k, ((c, True),)) for k, c in permutations("012", 2)]
    truth = np.array([true_value(population, query) for query in queries])
    off = {"best": 0.0, "pooled": 0.0}
    for run in range(30):
        tally = tally_for(plan, 50_000, run, population)
        for name in off:
            answers = Conditionals(plan, tally, name).answers(queries)
            values = np.array([answer.estimate.value for answer in answers])
            off[name] += float(((values - truth) ** 2).sum())
    assert off["best"] < 1.05 * off["pooled"]


@pytest.mark.sampled
def test_single_keys_of_two_tallies_average_by_reports():
    """A view's weight is its number of reports, so sums are linear in counts, also for few reports."""
    plan = plan_for(CROWD)
    tallies = [tally_for(plan, people, run) for run, people in enumerate((40, 300))]
    both = Tally(plan, tallies[0].counts + tallies[1].counts)
    moments = [pooled_moments(plan, tally.counts) for tally in (*tallies, both)]
    first, second, together = (m.reports[:, None] * m.values for m in moments)
    assert first + second == pytest.approx(together, rel=1e-9)


@pytest.mark.sampled
def test_many_pairs_of_few_reports_are_unbiased_and_covered():
    """435 pairs of 30 keys with 14 reports each. Frequencies given a key had a bias of 0.2 standard
    errors when weights depended on each view's counts, and were covered 92 %. The average over five
    tallies has a standard error of 0.03, that of the coverage is 0.6 %."""
    draw = np.random.default_rng(5)
    population = of_keys(draw.uniform(0.1, 0.5, 30), draw.uniform(-0.5, 0.5, 30), uniform_values)
    plan = plan_for(population, epsilon=2)
    scores, inside = [], []
    for run in range(5):
        tally = tally_for(plan, 6000, run, population)
        singles = bands(plan, tally.counts, "best")
        pairs = ShrunkConditionals(plan.schema, evidence(plan, tally), singles, 0.95).pairs
        truth = np.array([population.law((int(k),))[1:].sum() for k in pairs.keys[:, 0]])
        above, below = pairs.values[:, pair_moments.BOTH], pairs.values[:, pair_moments.SECOND]
        slopes = np.zeros((len(truth), 7))
        slopes[:, pair_moments.BOTH], slopes[:, pair_moments.SECOND] = 1.0, -truth
        spread = np.einsum("pi,pij,pj->p", slopes, pairs.covariance, slopes)
        scores.append((above - truth * below) / np.sqrt(spread))
        low, high = pairs.frequency_ends
        inside.append((low <= truth) & (truth <= high))
    assert abs(np.mean(scores)) < 0.12
    assert 0.93 < np.mean(inside) < 0.98


def test_a_pair_that_is_known_in_part_has_an_answer():
    """With few reports some coefficients of a pair have none, and a query may do without them."""
    schema = Schema.of(6)
    records = [{str(key): 0.5 for key in range(6) if (person >> key) & 1} for person in range(64)]
    plan = Plan.of(schema, "coefficients", 1)
    tally = plan.collect(People.of_records(schema, records), Coins.stated("part"), progress=False)
    source = Conditionals(plan, tally)
    in_part = 0
    for target, condition in permutations(range(6), 2):
        keys, query = (target, condition), Query("frequency", str(target), ((str(condition), True),))
        is_known = source.evidence.moments(keys, query_weights(schema, query)) is not None
        in_part += is_known and source.evidence.moments(keys, pair_moments.pair_weights(schema)) is None
        answer = source.answer(query)
        assert (answer.how == "view") == is_known
        assert not is_known or 0 <= answer.estimate.value <= 1
    assert in_part, "the case is met"


@pytest.mark.sampled
@pytest.mark.parametrize("level", [0.5, 0.95])
def test_standard_errors_of_shrunk_answers_agree_with_their_intervals(level):
    plan = plan_for(CROWD, epsilon=1)
    tally = tally_for(plan, 20_000)
    queries = [
        f"{kind}({k} | {c})" for kind in ("frequency", "mean") for k, c in permutations("0123", 2)
    ]
    answering = Conditionals(plan, tally, "best", level=level)
    queried = [answer.estimate for answer in answering.answers([*queries, "mean(0)"])]
    keys = estimate(plan, tally, "best", level)
    alone = [part for key in keys for part in (key.frequency, key.mean)]
    bounded = [answer for answer in queried + alone if answer.bounded]
    assert len(bounded) > 20

    def half(low, high):
        return (high - low) / (2 * quantile(level))

    assert all(answer.stderr >= half(answer.low, answer.high) * (1 - 1e-12) for answer in bounded)
    assert queried[-1].stderr == pytest.approx(keys["0"].mean.stderr, rel=1e-9)
    posterior = bands(plan, tally.counts, "best", level).frequency  # would be refused
    assert np.any(posterior.stderr < half(posterior.low, posterior.high))
