"""What type checkers see of the front door; ``make types`` checks this file, and nothing runs it."""

from decimal import Decimal
from fractions import Fraction
from typing import Any, assert_type

import numpy as np
from matplotlib.axes import Axes

import keyveil as kv


def analysis(frame: Any, users: list[int]) -> None:
    schema = assert_type(
        kv.Schema.from_frame(frame, person="user", key="film", value="stars", top=20), kv.Schema
    )
    people = assert_type(kv.People.from_frame(frame, schema, everyone=users), kv.People)
    comparison = assert_type(
        kv.compare(frame, schema=schema, mechanisms=["kvue", "auto"], epsilon=[1, "2"], people=1e5),
        kv.MechanismComparison,
    )
    assert_type(comparison.plot(), Axes)
    plan = assert_type(kv.Plan.choose(schema, epsilon=2, people=100_000, ask="conditional"), kv.Plan)
    advice = assert_type(kv.Plan.advise(schema, "2", 1e5), kv.Advice)
    assert_type(advice.plot(), Axes)
    assert_type(plan.privatise(people), kv.Reports)
    tally = assert_type(plan.collect(frame, everyone=users), kv.Tally)
    assert_type(tally + tally, kv.Tally)
    assert_type(tally.add([plan.report({"Alien": 5})]), kv.Tally)
    answers = assert_type(tally.estimate(), kv.Answers)
    frequency = answers["Alien"].frequency
    assert frequency is not None
    assert_type(frequency.interval, tuple[float, float])
    assert_type(float(frequency), float)
    assert_type(answers.plot(), Axes)
    conditionals = assert_type(tally.conditionals(), kv.Conditionals)
    assert_type(conditionals.matrix("lift"), kv.ConditionalMatrix)
    assert_type(conditionals.plot(kind="mean"), Axes)
    answer = assert_type(tally.query("mean(Alien)"), kv.QueryAnswer)
    assert_type((answer.value, answer.interval), tuple[float, tuple[float, float]])
    assert_type(tally.query(kv.Query.of("lift", 7, [("a", 1)])), kv.QueryAnswer)
    assert_type(tally.query("mean(Alien)", "lift(Alien | Cats)"), kv.QueryResults)
    assert_type(tally.query(["mean(Alien)"]), kv.QueryResults)
    assert_type(tally.query(("mean(Alien)", "mean(Cats)")), kv.QueryResults)
    assert_type(tally.tree("Alien", max_depth=2), kv.learn.DecisionTree)
    assert_type(tally.bayes("Alien"), kv.learn.NaiveBayes)
    assert_type(tally.chow_liu(), kv.learn.ChowLiu)
    assert_type(tally.cube(["Alien", "Cats"]), kv.learn.Cube)
    rules = assert_type(tally.rules(false_discovery=0.1), kv.learn.Rules)
    assert_type(rules.plot(), Axes)
    assert_type(rules[:10], kv.learn.Rules)
    assert_type(rules[0], kv.learn.Rule)
    for rule in rules:
        assert_type(rule.lift, kv.Estimate)
    assert_type(str(advice.table()), str)


def numbers_of_any_kind(schema: kv.Schema, tally: kv.Tally, frame: Any) -> None:
    """Numbers may be NumPy's, Decimals or fractions."""
    few, number = np.int64(20), np.float32(2)
    kv.Schema.from_frame(frame, person="user", key="film", value="stars", top=few, low=number, high=5)
    kv.Plan.choose(schema, number, few, held=number)
    kv.Plan.advise(schema, Decimal(2), Fraction(9), held=Fraction(1, 2))
    kv.Prior.of(schema, held=number, mean=Decimal(3))
    kv.compare(frame, people=few, repeat=few, held=number)
    tally.cube(["Alien"], people=few)


def shown(tally: kv.Tally, comparison: kv.MechanismComparison, ax: Axes) -> None:
    """Every result is a table, a frame, HTML, text and a picture on axes of one's own."""
    answers, advice = tally.estimate(), kv.Plan.advise(tally.plan.schema, 2, 1e5, held=2)
    listed: list[kv.Answers | kv.Conditionals | kv.ConditionalMatrix | kv.QueryAnswer | kv.QueryResults]
    listed = [answers, tally.conditionals(), tally.conditionals().matrix(), tally.query("mean(Alien)")]
    for result in (*listed, answers["Alien"], comparison, advice, tally, tally.plan):
        assert_type(result._repr_html_(), str)
        assert_type(str(result.table(most=None)), str)
        assert_type(result.plot(ax), Axes)
        result.to_frame("polars"), result.to_arrow()
    learned = (tally.rules(), tally.tree("Alien"), tally.bayes("Alien"), tally.chow_liu())
    for learner in (*learned, tally.cube(["Alien"], people=100)):
        assert_type(learner._repr_html_(), str)
        assert_type(learner.plot(ax=ax), Axes)
        learner.to_frame("arrow"), learner.to_arrow()
    for table in (tally.rules(), tally.bayes("Alien"), tally.chow_liu(), tally.cube(["Alien"])):
        assert_type(str(table.table(most=None)), str)
    total = sum([tally, tally])
    assert isinstance(total, kv.Tally)
    assert_type(total + tally, kv.Tally)


def learners(tally: kv.Tally, frame: Any) -> None:
    """The conventions of scikit-learn."""
    tree = assert_type(kv.learn.DecisionTree("Alien", max_depth=2).fit(tally), kv.learn.DecisionTree)
    bayes = assert_type(kv.learn.NaiveBayes("Alien", levels=True).fit(tally), kv.learn.NaiveBayes)
    model = assert_type(kv.learn.ChowLiu(target="Alien").fit(tally), kv.learn.ChowLiu)
    assert_type(tree.set_params(max_depth=3), kv.learn.DecisionTree)
    for learner in (tree, bayes, model):
        assert_type(learner.get_params(), dict[str, Any])
        assert_type(learner.score(frame), float)
        assert_type(learner.predict_proba(frame).shape, tuple[Any, ...])
        assert_type(learner.predict(frame).tolist(), Any)
        assert_type(learner.classes_.tolist(), Any)


def numbers_of_numpy(schema: kv.Schema) -> None:
    """NumPy's numbers are taken wherever a number is."""
    own = kv.Schema.of(np.arange(3), np.float32(1), np.int64(5))
    assert_type(kv.Plan.of(own, "kvue", np.float32(2)), kv.Plan)
    assert_type(kv.Plan.choose(schema, np.int64(2), np.int64(1000)), kv.Plan)


def misspelt_options(tally: kv.Tally) -> None:
    """An option that a learner does not have is seen before anything runs."""
    tally.rules(fals_discovery=0.1)  # type: ignore[call-arg]
    tally.tree("Alien", max_deph=2)  # type: ignore[call-arg]
    tally.chow_liu(significant=0.1)  # type: ignore[call-arg]
