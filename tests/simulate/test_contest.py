"""A contest compares like with like: the same estimator, and every mechanism's best padding length."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from keyveil import Coins, People, Plan, PlanError, Schema
from keyveil.estimate import estimators_of
from keyveil.mechanisms import REGISTRY
from keyveil.people.synthetic import gaussian
from keyveil.planner.competitor import competitor_name, parse_competitor
from keyveil.planner.padding import NAMES, best_length, forecast_errors, padded_plan, padding_parameter
from keyveil.plot.comparison_plots import all_series
from keyveil.simulate.contest import Contest
from keyveil.simulate.parallel import measure
from keyveil.simulate.tallies import Population

KEYS = 20
SETS = ("pckv_ue", "pckv_grr", "signed_ue", "collision", "coco")


pytestmark = pytest.mark.usefixtures("few_draws")  # rows are checked here, not choices


@pytest.fixture(scope="module")
def shoppers():
    """Most people hold one or two of twenty keys, one in eight holds up to twelve."""
    draw = np.random.default_rng(14)
    sizes = np.where(draw.random(4000) < 0.125, draw.integers(6, 13, 4000), draw.integers(1, 3, 4000))
    weights = 1 / np.arange(1, KEYS + 1) ** 0.7
    records = [
        {
            str(key): float(draw.choice([-0.5, 0.0, 1.0]))
            for key in draw.choice(KEYS, size, replace=False, p=weights / weights.sum())
        }
        for size in sizes
    ]
    schema = Schema.of(KEYS)
    return Population(schema, People.of_records(schema, records))


def contest(population, people=50_000, repetitions=4, **more):
    return Contest(population, people, repetitions, Coins.stated("contest"), **more)


# -- padding lengths ---------------------------------------------------------------------------------


def scores(each, name, epsilon, estimator):
    """By padding length, the predicted error of frequency and mean relative to KVUE's."""
    base = forecast_errors(
        Plan.of(each.schema, "kvue", epsilon, "tight"), each.people, each.table_prior, estimator
    )
    scores = {}
    for length in range(1, 13):
        plan = Plan.of(each.schema, name, epsilon, "tight", **{padding_parameter(name): length})
        f, m = forecast_errors(plan, each.people, each.table_prior, estimator)
        scores[length] = f / base[0] + m / base[1]
    return scores


@pytest.mark.sampled
@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("epsilon", ["0.2", "1", "4"])
def test_a_mechanism_for_sets_has_the_length_of_least_predicted_error(shoppers, name, epsilon):
    """Within 1 % of the least over all lengths."""
    each = contest(shoppers)
    by_length = scores(each, name, epsilon, None)
    plan = each.plan(name, epsilon)
    assert by_length[plan.parameters[padding_parameter(name)]] <= 1.01 * min(by_length.values())


@pytest.mark.sampled
def test_the_length_that_nine_in_ten_do_not_exceed_is_far_from_the_best(shoppers):
    each = contest(shoppers)
    usual = each.table_prior.quantile(0.9)
    assert usual == 7
    for epsilon, times in (("0.2", 1.5), ("1", 2.0)):
        by_length = scores(each, "pckv_ue", epsilon, "published")
        assert by_length[usual] > times * min(by_length.values())


@pytest.mark.sampled
def test_every_estimator_has_its_own_best_length(shoppers):
    """Shrinkage takes noise away and leaves bias, so it wants longer lengths than the raw estimator."""
    each = contest(shoppers)
    rows = {row.estimator: row for row in each.rows("pckv_ue", "2")}
    lengths = {name: parse_competitor(row.chosen)[1]["length"] for name, row in rows.items()}
    assert int(lengths["best"]) > int(lengths["published"])
    for name in ("published", "best"):
        by_length = scores(each, "pckv_ue", "2", name)
        assert by_length[int(lengths[name])] <= 1.05 * min(by_length.values())
        assert rows[name].left_out > 0
    assert rows["best"].left_out < rows["published"].left_out


@pytest.mark.sampled
def test_measured_errors_fall_with_the_best_length(shoppers):
    """20 repetitions; the errors differ by a factor, their standard errors are a few per cent."""
    each = contest(shoppers, repetitions=20)
    usual = f"pckv_ue:length={each.table_prior.quantile(0.9)}"
    best, before, base = (
        next(row for row in each.rows(name, "1") if row.estimator in ("published", "least_squares"))
        for name in ("pckv_ue", usual, "kvue")
    )
    score, usual_score = (
        row.mse_frequency / base.mse_frequency + row.mse_mean / base.mse_mean for row in (best, before)
    )
    assert score < usual_score / 1.5


@pytest.mark.sampled
def test_a_stated_length_stays_and_is_always_said(shoppers):
    each = contest(shoppers)
    assert each.plan("pckv_ue:length=7", "1", "shrunk").parameters["length"] == 7
    default = REGISTRY["pckv_ue"].parameters["length"].default
    row = each.rows(f"pckv_ue:length={default}", "1")[0]
    assert row.chosen == f"pckv_ue:length={default}", "the default is said too: it was not taken unasked"
    for name in SETS:
        assert any(f"{called}=" in competitor_name(each.plan(name, "1")) for called in NAMES)


@pytest.mark.sampled
def test_without_a_forecast_nine_in_ten_decide(shoppers, monkeypatch):
    def refuse(*_):
        raise PlanError("no forecast")

    each = contest(shoppers)
    _ = each.table_prior
    monkeypatch.setattr("keyveil.planner.padding.forecast", refuse)
    assert each.plan("pckv_ue", "1").parameters["length"] == 7


@pytest.mark.sampled
def test_a_question_about_means_alone_has_its_own_length(shoppers):
    each = contest(shoppers)
    lengths = {
        ask: padded_plan(
            each.schema, "collision", "1", each.people, each.table_prior, ask=ask
        ).parameters["cap"]
        for ask in ("frequency", "mean", "both")
    }
    assert lengths["mean"] < lengths["both"] <= lengths["frequency"]


@pytest.mark.parametrize("longest", [1, 2, 7, 64])
def test_the_search_finds_the_bottom_of_any_valley(longest):
    for bottom in range(1, longest + 1):
        best = best_length(lambda length: abs(np.log(length / bottom)), 1, longest)  # noqa: B023
        assert abs(best - bottom) <= max(0, 0.1 * bottom)


# -- estimators --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rows():
    population = gaussian(12)
    crowd = Population(population.schema, population.people.chosen(np.arange(3000), np.arange(3000)))
    result = measure(contest(crowd, 20_000), ["kvue", "pckv_ue", "auto"], ["0.5"], processes=1)
    return result.rows


@pytest.mark.sampled
def test_every_mechanism_has_a_row_with_the_planners_estimator(rows):
    auto = next(row for row in rows if row.mechanism == "auto")
    assert auto.document()["planner_estimator"] == auto.estimator
    for name in ("kvue", "pckv_ue"):
        assert auto.estimator in {row.estimator for row in rows if row.mechanism == name}
        assert {row.planner_estimator for row in rows if row.mechanism == name} == {None}


@pytest.mark.sampled
def test_the_picture_shows_no_gain_where_auto_is_kvue(rows):
    """The same plan and the same coins with the same estimator: the same errors, to the last digit."""
    documents = [row.document() for row in rows]
    assert {row["chosen"] for row in documents if row["mechanism"] == "auto"} == {"kvue"}
    lines = {line.label.partition(",")[0]: line for line in all_series(documents, by_estimator=False)}
    for part in ("mse_frequency", "mse_mean", "mae_mean"):
        assert lines["auto"].at(part) == lines["kvue (KVUE)"].at(part)
    for line in lines.values():
        names = [row["estimator"] for row in line.rows]
        assert line.label.endswith(", " + "/".join(dict.fromkeys(names)))
        assert names == [row["estimator"] for row in lines["auto"].rows]
    own = next(row for row in documents if row["mechanism"] == "kvue")
    assert own["estimator"] == "least_squares", "the broken twin: each with its own first estimator"
    assert own["mse_mean"] != lines["auto"].rows[0]["mse_mean"]


# -- conditionals ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def friends():
    """Three keys that go together."""
    schema = Schema.of(3)
    records = [{"0": 1.0, "1": -1.0}, {"1": 0.5, "2": 1.0}, {"0": -0.5, "1": 1.0, "2": 0.0}, {}]
    return Population(schema, People.of_records(schema, records))


def conditionals(population, names, epsilons=("2",), processes=1, **more):
    contest = Contest(population, 5000, 3, Coins.stated("together"), keys_together=2, **more)
    return measure(contest, names, list(epsilons), processes=processes)


@pytest.mark.sampled
def test_conditionals_take_parameters_by_name(friends):
    short, long, best = conditionals(friends, ["pairs:grr", "pairs:channel=grr", "pairs"]).rows[::3]
    assert (short.mechanism, short.chosen) == ("pairs:grr", "pairs:channel=grr")
    assert short.mse_mean == long.mse_mean != best.mse_mean, "the same plan and coins, and another plan"
    row = conditionals(friends, ["pair_collision:cap=2+pool=64"]).rows[0]
    assert parse_competitor(row.chosen) == ("pair_collision", {"cap": "2", "pool": "64"})
    assert row.left_out == pytest.approx(1 / 7), "one person holds three of the seven keys"
    with pytest.raises(PlanError, match="no parameter"):
        conditionals(friends, ["pairs:levels=3"])


@pytest.mark.sampled
def test_conditionals_take_estimators(friends):
    result = conditionals(friends, ["ioh", "pairs"], estimators=("printed", "likelihood"))
    assert {(row.mechanism, row.estimator): row.skipped for row in result.rows} == {
        ("ioh", "printed"): (),
        ("ioh", "likelihood"): (),
        ("pairs", "likelihood"): ("printed",),
    }
    result = conditionals(friends, ["ioh", "pairs", "auto"], estimators=("simplex",))
    assert [row.mechanism for row in result.rows] == ["ioh"]
    assert result.skipped["auto", "2"] == (
        "pairs has no estimator 'simplex'; known: best, pooled, least_squares, single_view, likelihood"
    )


@pytest.mark.sampled
def test_an_estimator_that_no_mechanism_has_is_refused_before_any_work(friends):
    with pytest.raises(PlanError, match=r"'likelyhood'; did you mean likelihood\? known: best, pooled"):
        conditionals(friends, ["auto"], estimators=("printed", "likelyhood"))


@pytest.mark.sampled
@pytest.mark.parametrize("name", REGISTRY)
def test_every_estimator_of_every_plan_may_be_requested(shoppers, name):
    needed = {"queries": "mean(0 | 1)"} if name == "workload" else {}
    plan = Plan.of(Schema.of(3), name, 2, **needed)
    assert contest(shoppers, estimators=tuple(estimators_of(plan))).estimators


@pytest.mark.sampled
def test_conditionals_are_the_same_whatever_the_number_of_processes(friends):
    names, epsilons = ["ioh", "auto"], ["1", "3"]  # auto takes pairs
    rows = [conditionals(friends, names, epsilons, processes).rows for processes in (1, 2)]
    assert [row.document() for row in rows[0]] == [row.document() for row in rows[1]]
    assert {row.keys_together for row in rows[0]} == {2}
    assert {row.chosen for row in rows[0] if row.mechanism == "auto"} == {"pairs"}


@pytest.mark.sampled
def test_values_of_conditionals_are_measured_on_one_scale(friends):
    """The same people with values from 1 to 5: the same coins, and errors on [-1, 1]."""
    people = friends.people
    schema = Schema.of(3, 1, 5)
    scaled = Population(schema, replace(people, values=3 + 2 * people.values))
    plain, other = (conditionals(each, ["pairs"]).rows[0] for each in (friends, scaled))
    assert other.mse_mean == pytest.approx(plain.mse_mean, rel=1e-9)


@pytest.mark.sampled
@pytest.mark.parametrize("together", [None, 2])
def test_names_of_competitors_are_on_the_populations_scale(friends, together):
    people = friends.people
    schema = Schema.of(3, 1, 5)
    scaled = Population(schema, replace(people, values=3 + 2 * people.values))
    plans = []
    for population, mean, other in ((friends, "0.5", "4"), (scaled, "4", "0.5")):
        contest = Contest(population, 100, 1, Coins.stated("x"), keys_together=together)
        plans.append(contest.plan(f"several:mean={mean}", "1"))
        with pytest.raises(PlanError, match="mean must lie in"):
            contest.plan(f"several:mean={other}", "1")
    assert plans[0].parameters == plans[1].parameters
    assert plans[0].parameters["mean"] == "0.5"
    if together is None:
        row = Contest(scaled, 100, 1, Coins.stated("x")).rows("several:mean=4", "1")[0]
        assert row.chosen == "several:mean=4"


@pytest.mark.sampled
def test_a_pilot_does_not_tell_what_goes_together(friends):
    with pytest.raises(PlanError, match="single keys"):
        conditionals(friends, ["auto"], pilot=True)
    four = Contest(Population(Schema.of(4), friends.people), 100, 1, Coins.stated("x"), keys_together=4)
    with pytest.raises(PlanError, match="no plan for every conditional"):
        four.plan("auto", "1")


@pytest.mark.parametrize("name", ["kvue", "graded:levels=5", "pckv_ue:length=3", "pckv_grr:length=2"])
def test_a_competitors_name_is_read_back(shoppers, name):
    mechanism, parameters = parse_competitor(name)
    plan = Plan.of(shoppers.schema, mechanism, "1", **parameters)
    assert competitor_name(plan) == name


def test_a_plan_of_parts_is_compared_under_a_name_that_makes_it_again():
    name = "parts:collision:cap=3+pool=64/sign@0.1"
    mechanism, parameters = parse_competitor(name)
    plan = Plan.of(Schema.of(5), mechanism, 1, **parameters)
    assert competitor_name(plan) == name
    assert plan == Plan.of(Schema.of(5), "parts", 1, parts=name.removeprefix("parts:"))
    assert competitor_name(Plan.of(Schema.of(5), "parts", 1)) == "parts:kvue/sign@0.1"


def test_a_competitors_name_is_on_the_scale_of_the_values():
    plan = Plan.of(Schema.of(4, 0, 3), "optimal", "1", mean="2", spread="0.4")
    assert competitor_name(plan) == "optimal:spread=0.4+mean=2"
    mechanism, parameters = parse_competitor(competitor_name(plan))
    assert Plan.of(plan.schema, mechanism, "1", **parameters) == plan
