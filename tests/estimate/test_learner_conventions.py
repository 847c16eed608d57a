"""Learners keep scikit-learn's conventions, take frames and give frames, and draw on any axes."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys
from itertools import combinations

import matplotlib
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from scipy.sparse import csr_matrix
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score
from sklearn.utils import estimator_checks, get_tags
from sklearn.utils.validation import check_is_fitted

from keyveil import Coins, People, Plan, Schema, Tally
from keyveil.estimate.learn import ChowLiu, Cube, DecisionTree, ExactEvidence, NaiveBayes, Rules, rules
from keyveil.estimate.learn.chow_liu import ChowLiuOptions
from keyveil.estimate.learn.rules import RuleOptions
from keyveil.estimate.learn.tree import TreeOptions
from keyveil.foundation.errors import QueryError, RecordError, TableError
from keyveil.foundation.frame_output import frame_of
from keyveil.foundation.shown_result import MOST_SHOWN
from keyveil.simulate.tallies import Population

KEYS = ["Hamburger", "Fries", "Pepsi"]
RECORDS = [{"Hamburger": 5, "Fries": 5}] * 3 + [{"Hamburger": 1, "Pepsi": 4}, {"Fries": 1}] + [{}] * 5


@pytest.fixture(scope="module")
def exact():
    schema = Schema.of(KEYS, 1, 5)
    return ExactEvidence(Population(schema, People.of_records(schema, RECORDS)))


@pytest.fixture(scope="module")
def tally():
    plan = Plan.of(Schema.of(KEYS, 1, 5), "pairs", 4)
    people = People.of_records(plan.schema, RECORDS * 1000)
    return Tally(plan).add(plan.privatise(people, Coins.stated("conventions")))


def learners():
    return [DecisionTree("Fries"), NaiveBayes("Fries"), ChowLiu(target="Fries")]


def named(learner):
    return type(learner).__name__


@pytest.mark.parametrize("learner", learners(), ids=named)
@pytest.mark.parametrize(
    "check",
    [
        "check_estimator_cloneable",
        "check_estimator_tags_renamed",
        "check_valid_tag_types",
        "check_estimator_repr",
        "check_no_attributes_set_in_init",
        "check_mixin_order",
        "check_get_params_invariance",
        "check_set_params",
        "check_do_not_raise_errors_in_init_or_set_params",
        "check_estimators_unfitted",
    ],
)
def test_the_checks_of_scikit_learn_that_need_no_rows_to_fit(learner, check):
    getattr(estimator_checks, check)(named(learner), learner)


@pytest.mark.parametrize("learner", learners(), ids=named)
def test_fit_learns_and_changes_no_parameter(learner, exact):
    before = learner.get_params()
    copied = clone(learner)
    with pytest.raises(NotFittedError):
        check_is_fitted(copied)
    assert copied.fit(exact) is copied
    check_is_fitted(copied)
    assert copied.get_params() == before == clone(copied).get_params()
    assert is_classifier(copied)
    assert get_tags(copied).input_tags.allow_nan
    assert copied.classes_.tolist() == [False, True]
    assert copied.n_features_in_ == 2
    assert copied.feature_names_in_.tolist() == ["Hamburger", "Pepsi"]
    again = pickle.loads(pickle.dumps(copied))
    assert again.predict(RECORDS).tolist() == copied.predict(RECORDS).tolist()
    copied.set_params(levels=True)
    assert copied.fit(exact, None).classes_.tolist() == ["absent", "low", "high"]
    with pytest.raises(QueryError, match="no parameter 'level'; did you mean 'levels'"):
        copied.set_params(level=True)


@pytest.mark.parametrize("learner", learners(), ids=named)
def test_predictions_are_the_same_in_every_form(learner, exact):
    learner = clone(learner).fit(exact)
    rows = {key: [record.get(key) for record in RECORDS] for key in KEYS}
    wide = pd.DataFrame(rows, dtype=float)
    forms = [
        People.of_records(exact.schema, RECORDS),
        wide,
        wide.assign(person="someone").drop(columns="Fries"),
        pl.DataFrame(rows),
        pa.table(rows),
        wide[learner.feature_names_in_].to_numpy(),
    ]
    chances = learner.predict_proba(RECORDS)
    assert chances.shape == (len(RECORDS), 2)
    assert chances.sum(axis=1) == pytest.approx(1)
    for form in forms:
        assert learner.predict_proba(form) == pytest.approx(chances)
    true = ["Fries" in record for record in RECORDS]
    scores = {
        learner.score(wide),
        learner.score(RECORDS),
        learner.score(wide.drop(columns="Fries"), true),
    }
    assert scores == {accuracy_score(true, learner.predict(wide))}


def test_a_column_of_presence_has_the_levels_of_its_key(exact):
    """A hamburger that is held is high in 3 of 4 cases."""
    bayes = NaiveBayes("Fries").fit(exact)
    held = bayes.predict_proba(pd.DataFrame({"Hamburger": [True, False], "Pepsi": [False, False]}))
    votes = bayes.votes_[0]
    mixed = (0.25 * votes[1] + 0.75 * votes[2]) * bayes.votes_[2, 0] * bayes.class_prior_
    assert held[0] == pytest.approx(mixed / mixed.sum())
    assert held[1] == pytest.approx(bayes.predict_proba([{}])[0])


def test_rows_that_cannot_be_read_get_one_line(exact):
    tree = DecisionTree("Fries").fit(exact)
    for people, error, words in (
        (pd.DataFrame({"hamburger": [5.0], "Pepsi": [1.0]}), TableError, "did you mean 'hamburger'"),
        (pd.DataFrame({"Hamburger": ["much"], "Pepsi": [1.0]}), TableError, "must hold numbers"),
        (pd.DataFrame({"Hamburger": [9.0], "Pepsi": [1.0]}), RecordError, "outside 1 to 5"),
        (np.zeros((2, 5)), TableError, "2 columns, in the order of feature_names_in_"),
        (np.zeros(2), TableError, "a row for each person"),
        (np.array([["a", "b"]]), TableError, "must hold numbers"),
        (pd.Series([1.0, 2.0]), TableError, "a row for each person"),
        (csr_matrix(np.eye(2)), TableError, "NaN where a key is not held"),
        (5, TableError, "a row for each person"),
        ("Pepsi", TableError, "a row for each person"),
        ({"Pepsi": 4}, RecordError, "a list of records"),
    ):
        with pytest.raises(error, match=words):
            tree.predict(people)
    rows = pd.DataFrame({"Hamburger": [5.0, np.nan], "Pepsi": [1.0, 1.0]})
    assert tree.score(rows, [1, 0]) in (0, 0.5, 1)
    for labels, words in ((["held", "absent"], "which are False, True"), ([True], "each of the 2 peop")):
        with pytest.raises(TableError, match=words):
            tree.score(rows, labels)
    with pytest.raises(QueryError, match="name the key to predict"):
        ChowLiu().fit(exact).predict([{}])
    with pytest.raises(QueryError, match="never see rows of people"):
        tree.fit(pd.DataFrame({"Hamburger": [5.0]}))


def test_a_tally_is_enough(tally):
    tree = DecisionTree("Fries", max_depth=1).fit(tally)
    assert tree.root_.split is not None
    assert rules(tally)[0].lift.low > 1


def shown(exact):
    return [
        rules(exact),
        DecisionTree("Fries").fit(exact),
        NaiveBayes("Fries").fit(exact),
        ChowLiu().fit(exact),
        Cube(exact, ["Fries", "Hamburger"], people=10),
        Cube(exact, ["Fries"]).slice(Fries="held"),
        Cube(exact, KEYS),
    ]


def test_everything_learned_is_a_frame(exact):
    for learned in shown(exact):
        columns = learned.columns()
        for frame in (learned.to_frame(), learned.to_frame("pandas"), learned.to_frame("polars")):
            assert list(frame.columns) == list(columns)
            assert len(frame) == len(next(iter(columns.values())))
        assert learned.to_arrow().column_names == list(columns)
        assert str(learned)
        html = learned._repr_html_()
        assert html.startswith("<")
    leaves = DecisionTree("Fries").fit(exact).to_frame()
    assert leaves.columns.tolist() == ["people", "share", "held", "held_low", "held_high"]
    assert leaves.share.sum() == pytest.approx(1)
    with pytest.raises(TableError, match="unknown kind of frame 'spark'; known: pandas, polars, arrow"):
        frame_of({"a": [1]}, "spark")


def test_tables_of_what_is_learned_are_short_and_look_like_all_others(exact):
    """Rules, factors, edges and cells are tables like answers, and show few rows of many."""
    schema = Schema.of(40, 1, 5)
    records = [{i: 5, i + 1: 5} for i in range(0, 40, 2)] + [dict.fromkeys(range(39), 1)]
    many = ExactEvidence(Population(schema, People.of_records(schema, records)))
    learned = [rules(many), NaiveBayes("0").fit(many), ChowLiu().fit(many), Cube(many, list("012"))]
    for result in learned:
        rows = len(result.to_arrow())
        assert rows > MOST_SHOWN
        assert len(str(result).splitlines()) == MOST_SHOWN + (
            2 if isinstance(result, ChowLiu | Cube) else 3
        )
        assert str(result).splitlines()[-1].startswith(f"and {rows - MOST_SHOWN:,} more ")
        html = result._repr_html_()
        assert html == result.table()._repr_html_()
        assert 'class="dataframe"' in html
        assert html.count("<tr>") == MOST_SHOWN + 1
        assert len(result.table(most=None).rows) == rows
    assert str(rules(exact)[:1]).splitlines()[0] == "1 rule above noise"
    assert rules(exact)[0].condition in str(rules(exact))
    assert str(rules(exact, min_lift=9)) == "no rule is above noise"


def test_the_frame_of_rules_names_keys_as_other_frames_do(exact):
    """So that a frame of rules joins with one of answers."""
    frame = rules(exact).to_frame()
    assert {*frame.antecedent, *frame.consequent} <= set(KEYS)
    listed = rules(exact, given="either", conditions=2).to_frame().antecedent
    assert {"Pepsi, !Fries", "Fries, !Pepsi", "!Pepsi"} & set(listed)
    assert not any(word in text for text in listed for word in ("with", " and "))


def test_a_guess_is_called_one_wherever_it_is_shown(tally, exact):
    """Reports about two keys leave open how three go together."""
    tree = DecisionTree("Fries", max_depth=3, significance=0.999999, min_share=0).fit(tally)
    assert tree.how_ == "maximum entropy"
    for shown_text in (str(tree), tree._repr_html_()):
        assert "a guess below the first question" in shown_text
    assert "no view holds these keys together" in str(Cube(tally, KEYS))
    for learner in (DecisionTree("Fries").fit(exact), Cube(exact, KEYS)):
        assert "no view" not in str(learner)


def test_cells_of_html_are_escaped():
    schema = Schema.of(["<b>", "a&b"], 1, 5)
    source = ExactEvidence(Population(schema, People.of_records(schema, [{"<b>": 5, "a&b": 5}, {}])))
    for learned in (rules(source), DecisionTree("<b>").fit(source), Cube(source, ["<b>", "a&b"])):
        html = learned._repr_html_()
        assert "&lt;b&gt;" in html
        assert "<b>" not in html
    for unfitted in (DecisionTree("<b>"), NaiveBayes("<b>"), ChowLiu(target="<b>")):
        assert "&lt;b&gt;" in unfitted._repr_html_()


def test_learners_name_keys_as_the_schema_was_given_them():
    schema = Schema.of([1, 2, 3], 1, 5)
    source = ExactEvidence(Population(schema, People.of_records(schema, [{1: 5, 2: 5}, {3: 1}, {}])))
    for own, same in zip((DecisionTree(2), NaiveBayes(2), ChowLiu(target=2)), "222", strict=True):
        named = clone(own).set_params(target=same).fit(source)
        assert own.fit(source).target == 2
        assert own.feature_names_in_.tolist() == named.feature_names_in_.tolist() == ["1", "3"]
        rows = np.array([[5, np.nan], [np.nan, 1]])
        assert own.predict_proba(rows).tolist() == named.predict_proba(rows).tolist()
        assert own.predict(pd.DataFrame(rows, columns=[1, 3])).tolist() == [True, False]
        assert own.plot(Figure().add_subplot()).get_figure() is not None
        assert own.document() == named.document()
    assert rules(source, keys=[1, 2]) == rules(source, keys=["1", "2"])
    assert Cube(source, [1]).cell({1: "held"}) == Cube(source, ["1"]).cell({"1": "held"})
    for call in (lambda: rules(source, keys="1"), lambda: Cube(source, "1")):
        with pytest.raises(QueryError, match="give a list of keys, also for one key"):
            call()


def test_a_part_of_the_rules_is_rules(exact):
    result = rules(exact, given="either")
    assert len(result) > 1
    assert isinstance(result[:1], Rules)
    assert result[:1].to_frame().equals(result.to_frame().head(1))
    assert result[-1] is list(result)[-1]


def test_a_cube_shows_the_numbers_of_people_if_it_knows_them(exact):
    cube = Cube(exact, ["Hamburger", "Fries"], people=1000).slice(Hamburger="held")
    headings, rows = cube.headings_and_rows()
    assert headings == ["Fries", "share", "of these", "people"]
    shares = {row[0]: row for row in rows}
    assert shares["high"][2].startswith(f"{cube.share(Fries='high').value:.4f} [")
    assert shares["high"][3] == f"{cube.count(Fries='high'):,.0f}"


def test_a_key_may_be_called_like_a_column_of_a_cube():
    schema = Schema.of(["share", "count", "tea"], 1, 5)
    records = [{"share": 5, "count": 5}, {"tea": 1}, {}]
    source = ExactEvidence(Population(schema, People.of_records(schema, records)))
    frame = Cube(source, ["share", "count", "tea"], people=3).to_frame()
    assert list(frame.columns[:4]) == ["share (key)", "count (key)", "tea", "share"]
    (held,) = frame[(frame["share (key)"] == "high") & (frame["count (key)"] == "high")].index[:1]
    assert frame["share"][held] == pytest.approx(1 / 3)
    assert frame["count"].sum() == pytest.approx(3)
    assert list(Cube(source, ["count"]).to_frame().columns[:2]) == ["count", "share"]


@pytest.mark.parametrize("size", [(5, 4), (8, 6), (12, 8)])
def test_boxes_of_a_tree_do_not_overlap_on_axes_of_any_size(size):
    """Seven boxes on a quarter of a small, a usual and a large figure."""
    schema = Schema.of(["Hamburger", "Pepsi", "Fries"], 1, 5)
    held = ({"Fries"}, {"Pepsi", "Fries"}, {"Hamburger", "Pepsi"}, {"Hamburger", "Fries"}, {"Hamburger"})
    records = [dict.fromkeys(sorted(keys), 3) for keys in held] + [{}]
    source = ExactEvidence(Population(schema, People.of_records(schema, records)))
    tree = DecisionTree("Fries", 2).fit(source)
    assert len(list(tree.root_.leaves())) == 4
    figure = Figure(figsize=size)
    panel = tree.plot(figure.add_subplot(2, 2, 1))
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    questions_and_leaves = [text for text in panel.texts if text.get_text() not in ("yes", "no")]
    boxes = [text.get_bbox_patch().get_window_extent() for text in questions_and_leaves]
    assert len(boxes) == 7
    for first, second in combinations(boxes, 2):
        assert not first.overlaps(second)


def test_pictures_draw_on_the_axes_and_leave_the_backend(exact):
    backend = matplotlib.get_backend()
    for learned in [*shown(exact), Rules(), ChowLiu(1e-9).fit(exact)]:
        panel = Figure().add_subplot()
        assert learned.plot(panel) is panel
        assert panel.has_data() or panel.texts
    assert matplotlib.get_backend() == backend
    texts = [
        text.get_text() for text in DecisionTree("Fries").fit(exact).plot(Figure().add_subplot()).texts
    ]
    assert "Hamburger\nis high?" in texts
    assert any(text.startswith("held 1.00\n[1.00, 1.00]\n30 % of people") for text in texts)


def test_pictures_of_a_tally_say_what_they_rest_on(tally, exact):
    """How many reports, at which epsilon, and the level of intervals where there are any."""
    origin = "10,000 reports at epsilon 4, pairs"
    cube = tally.cube(["Hamburger", "Fries"])
    intervals = [tally.rules(), tally.rules()[:1], tally.tree("Fries"), cube, cube.slice(Fries="held")]
    for learned in [*intervals, tally.bayes("Fries"), tally.chow_liu()]:
        *_, last = learned.plot(Figure().add_subplot()).get_title("left").split("\n")
        assert last == (f"{origin}, 95% intervals" if learned in intervals else origin)
    assert rules(exact).plot(Figure().add_subplot()).get_title("left") == "Rules above noise"


@pytest.mark.parametrize(
    ("options", "learner", "others"),
    [
        (RuleOptions, rules, {"conditionals", "keys"}),
        (TreeOptions, DecisionTree, {"target"}),
        (ChowLiuOptions, ChowLiu, set()),
    ],
)
def test_type_checkers_see_the_options_of_a_tally(options, learner, others):
    assert set(options.__annotations__) | others == set(inspect.signature(learner).parameters)


def test_scikit_learn_is_not_loaded():
    expression = "[name in sys.modules for name in ('sklearn', 'matplotlib')]"
    line = f"import keyveil.estimate.learn, sys; print(*{expression})"
    done = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
