"""What the planner says of its choice: in a line, as JSON, in a picture; and what it refuses to hear."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from matplotlib.figure import Figure

from keyveil import KeyveilError, Plan, Schema
from keyveil.people.beliefs import Belief, Beliefs
from keyveil.people.prior import Prior
from keyveil.planner.advice_table import ratio_cell
from keyveil.planner.curves import curves
from keyveil.planner.planner import Advice, advise
from keyveil.plot import plain_number, plot_curves

SCHEMA = Schema.of(6, 1, 5)
PAIR = np.array([0.5, 0.5])
pytestmark = pytest.mark.usefixtures("few_draws")


@pytest.fixture
def few(monkeypatch):
    """Two epsilons are enough to draw."""
    monkeypatch.setattr("keyveil.planner.planner.EPSILONS", ("0.5", "5", "8", "10"))


@cache
def usual_advice() -> Advice:
    return advise(SCHEMA, 2, 1e6, prior=Prior.of(SCHEMA))


def advice(*ratios: float) -> Advice:
    """The best option, and others whose errors are so many times its own."""
    template = usual_advice()
    best = template.runners_up()
    options = [
        replace(option, score=best[0].score * ratio) for option, ratio in zip(best, ratios, strict=False)
    ]
    return replace(template, options=tuple(options))


@pytest.mark.parametrize("ratio", [0.995, 1.0, 1.004, 1.0099])
def test_options_within_a_hundredth_are_as_good(ratio):
    text = str(advice(1.0, ratio, 3.0))
    assert "as little within 3 %" in text
    assert "times below" not in text


def test_a_simple_plan_is_not_said_to_have_less_error_than_it_has():
    text = str(advice(1.0, 0.99, 3.0))
    assert text.endswith("has 1 % less, and predictions are no more exact than 3 %")
    assert "nearly the least predicted error" in text


def test_large_numbers_of_keys_are_written_out():
    prior = Prior.of(4000, held=2520)
    assert "2,520 keys held on average" in prior.source
    assert "2,520" in repr(prior)
    hopeless = replace(usual_advice().best, people_factor=2.0)
    refused = replace(usual_advice(), prior=prior, ask="conditional", options=(hopeless,))
    assert "if people hold 2,520 keys on average" in refused.why


def test_a_pilots_choice_that_cannot_answer_says_who_can():
    prior, template = Prior.of(SCHEMA), usual_advice()
    pilot = Beliefs((Belief("1 key on average", prior), Belief("4 keys on average", prior)), prior, PAIR)
    first, second = template.runners_up()[:2]
    factors = {"people_factor": 3.0, "regrets": (1.0, 1.0)}
    options = (
        replace(first, people_factors=(2.0, 3.0), **factors),
        replace(second, people_factors=(3.0, 1.0), **factors),
    )
    reason = replace(template, options=options, beliefs=pilot, people=100).why
    assert "its answers are not useful with 100 people: it takes about " in reason
    assert reason.endswith(f"those of {second.name} are if people hold 4 keys on average")


def test_a_real_difference_is_said_in_numbers():
    assert "1.04 times below" in str(advice(1.0, 1.04, 3.0))
    assert "2.50 times below" in str(advice(1.0, 2.5))
    assert str(advice(1.0)).endswith("has the least predicted error")


def test_many_queries_are_counted_in_a_name():
    one_query, two_queries = (
        advise(SCHEMA, 2, 1e6, ask=queries)
        for queries in (["mean(0 | 1)"], ["mean(0 | 1)", "mean(2 | 3)"])
    )
    assert one_query.best.name == "workload (mean(0 | 1))"
    assert two_queries.best.name == "workload (2 queries)"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"people": "many"}, "people must be a number"),
        ({"people": None}, "people must be a number"),
        ({"people": float("nan")}, "people must be a number"),
        ({"people": float("inf")}, "people must be a number"),
        ({"people": True}, "people must be a number"),
        ({"people": 0.5}, "at least 1"),
        ({"people": "60000"}, "like 100_000 or 1e6; this is text, so leave out the quotation marks"),
        ({"prior": "dense"}, "prior must be a Prior"),
        ({"prior": Prior.of(7)}, "the prior is for 7 keys"),
        ({"schema": 100}, "needs a Schema"),
        ({"epsilon": "one"}, "epsilon must be a number"),
        ({"ask": 3}, "ask is one of"),
        ({"ask": [3]}, "ask is one of"),
        ({"ask": None}, "ask is one of"),
        ({"ask": ["frequency(9)"]}, "no key"),
        ({"ask": ["mean(0 | 9)"]}, "no key"),
    ],
)
def test_what_cannot_be_chosen_from_is_refused_in_one_line(wrong, said):
    given = {"schema": SCHEMA, "epsilon": 1, "people": 1e5, **wrong}
    with pytest.raises(KeyveilError, match=said) as caught:
        Plan.choose(**given)
    assert "\n" not in str(caught.value)


def test_a_text_may_be_queries():
    """As at the terminal: one query, or several with semicolons between them."""
    listed = Plan.choose(SCHEMA, 4, 1e5, ask=["mean(0 | 1)", "lift(2 | 1)"], held=2)
    assert Plan.choose(SCHEMA, 4, 1e5, ask="mean(0 | 1); lift(2 | 1)", held=2) == listed
    with pytest.raises(KeyveilError, match="no key '9'"):
        Plan.choose(SCHEMA, 4, 1e5, ask="mean(0 | 9)")


@pytest.mark.parametrize(("ratio", "cell"), [(1.004, "1.00"), (12.345, "12.35"), (120605.06, "120,605")])
def test_a_large_ratio_has_no_decimals(ratio, cell):
    assert ratio_cell(ratio) == cell


def test_numbers_of_numpy_are_numbers():
    chosen = Plan.choose(SCHEMA, 1, np.int64(100_000), prior=Prior.of(np.int64(6), held=np.float64(2)))
    assert chosen == Plan.choose(SCHEMA, 1, 1e5, prior=Prior.of(6, held=2))


def test_a_workload_has_its_line_at_every_epsilon(few):
    lines = curves(SCHEMA, advise(SCHEMA, 2, 1e6, ask=["mean(0 | 1)"]))
    assert "workload" in lines.by_epsilon
    assert np.isfinite(lines.by_epsilon["workload"]["mean"]).all()


@pytest.mark.parametrize(
    ("ask", "labels"),
    [
        ("both", ["a key's frequency", "a key's mean, on [1, 5]"]),
        ("frequency", ["a key's frequency"]),
        ("mean", ["a key's mean, on [1, 5]"]),
        ("conditional", ["a conditional frequency", "a conditional mean, on [1, 5]"]),
    ],
)
def test_the_picture_says_what_it_shows(ask, labels, tmp_path, few):
    """The axes of the figure as it is written."""
    advice = advise(SCHEMA, 2, 1e6, ask=ask, prior=Prior.of(SCHEMA), brief=True)
    axes = plot_curves(curves(SCHEMA, advice), tmp_path / "error.png", 2.0, 10**6).figure.axes
    shown = [panel.get_ylabel() for panel in axes[: len(labels)]]
    assert shown == [f"root mean squared error\nof {label}" for label in labels]
    assert [panel.get_xlabel() for panel in axes[:: len(labels)]] == ["epsilon", "people who answer"]
    first = axes[0].get_legend_handles_labels()[1][0]
    assert first == f"{advice.best.family}, chosen"
    ticks = [tick.get_text() for tick in axes[0].get_xticklabels()]
    assert "0.5" in ticks
    assert not any("^" in tick for tick in ticks)
    height = np.sqrt(advice.best.frequency if "frequency" in labels[0] else 4 * advice.best.mean)
    line = axes[0].lines[0]
    assert dict(zip(line.get_xdata(), line.get_ydata(), strict=True))[2.0] == pytest.approx(height)


def test_numbers_on_axes_are_written_as_people_write_them():
    values = (2e-5, 0.00012, 0.05, 2, 100_000, 1e-9)
    assert [plain_number(value) for value in values] == [
        "0.00002",
        "0.00012",
        "0.05",
        "2",
        "100 k",
        "1e-09",
    ]


def test_pictures_of_options_say_for_what_they_are_predicted(few):
    advice = advise(SCHEMA, 2, 1e6, prior=Prior.of(SCHEMA), brief=True)
    setting = f"{len(SCHEMA.keys)} keys, 1,000,000 people, epsilon 2"
    title = advice.plot(Figure().add_subplot()).get_title("left")
    assert title.startswith("Predicted error of the best plans, the first is taken")
    assert title.endswith(f"\n{setting}")
    title = advice.plot(Figure().add_subplot(), against="epsilon").get_title("left")
    assert title.split("\n")[1] == setting.removesuffix(", epsilon 2")
    title = advice.plot(Figure().add_subplot(), against="people").get_title("left")
    assert title.split("\n")[1] == setting.replace(" 1,000,000 people,", "")


def test_a_refusals_picture_does_not_call_anything_chosen():
    advice = advise(SCHEMA, "0.1", 100)
    assert not advice.answers
    assert "is taken" not in advice.plot(Figure().add_subplot()).get_title("left")
    assert curves(SCHEMA, advice, 1, ["1"]).first == "least error"
