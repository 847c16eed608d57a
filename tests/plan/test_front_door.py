"""Tallies and answers as an analyst uses them: sums, lists, names, numbers, tables and frames."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from math import inf, nan

import numpy as np
import pandas as pd
import polars as pl
import pytest

import keyveil as kv
from keyveil.foundation.frame_output import frame_of
from keyveil.foundation.result_table import ResultTable

PLAN = kv.Plan.of(kv.Schema.of(["Fries", "Pepsi", "7"], 1, 5), "kvue", 2)
RECORDS = [{"Fries": 2, "Pepsi": 4.5}, {"Pepsi": 4}, {}] * 500
COINS = kv.Coins.stated("front door")
TALLY = PLAN.collect(RECORDS, COINS)
PAIRS = kv.Plan.of(PLAN.schema, "pairs", 4).collect(RECORDS, COINS)
ADVICE = kv.Plan.advise(PLAN.schema, 2, 1e6, ask="frequency", held=1, brief=True)


def test_tallies_add_up():
    parts = [PLAN.collect([record], COINS) for record in RECORDS[:3]]
    assert sum(parts) == parts[0] + parts[1] + parts[2]
    assert sum(parts).reports == 3
    reports = [PLAN.report(record) for record in RECORDS[:5]]
    batch = PLAN.privatise(kv.People.of_records(PLAN.schema, RECORDS[:4]))
    assert kv.Tally(PLAN).add(reports).reports == 5
    assert kv.Tally(PLAN).add(iter([*reports, batch])).reports == 9
    with pytest.raises(TypeError):
        sum([TALLY], start=1)
    with pytest.raises(TypeError):
        TALLY + 1


def test_a_list_with_an_impossible_report_is_refused_whole():
    tally, good = kv.Tally(PLAN), PLAN.report({})
    for bad in (kv.Report(PLAN.hash, (0, 0)), kv.Report("0" * 64, good.cells), "report", {}, TALLY, 3):
        with pytest.raises(kv.ReportError):
            tally.add([good, bad])
    for bad in ("text", {}, 3, TALLY):
        with pytest.raises(kv.ReportError):
            tally.add(bad)
    assert tally == kv.Tally(PLAN)


def test_the_front_door_answers_as_the_functions_do():
    assert TALLY.estimate() == kv.estimate(PLAN, TALLY)
    raw = TALLY.estimate("least_squares", level=0.8, after=["clip"])
    assert raw == TALLY.estimate("least_squares", level=0.8, after="clip")
    assert raw == kv.estimate(PLAN, TALLY, "least_squares", 0.8, ["clip"])
    pairs = kv.Plan.of(PLAN.schema, "pairs", 4).collect(RECORDS, COINS)
    direct = kv.Conditionals(pairs.plan, pairs)
    assert pairs.query("mean(Pepsi | Fries)") == direct.answer("mean(Pepsi | Fries)")
    several = pairs.query("mean(Pepsi)", "lift(Pepsi | Fries)")
    assert list(several) == [direct.answer("mean(Pepsi)"), direct.answer("lift(Pepsi | Fries)")]
    assert len(several[:1].to_frame()) == 1
    cells = pairs.conditionals().matrix().answers, direct.matrix().answers
    assert [cell.document() for cell in cells[0]] == [cell.document() for cell in cells[1]]
    frame = direct.matrix("frequency").to_frame("pandas").set_index(["target", "given"])
    assert frame.value["Pepsi", "Fries"] == direct.answer("frequency(Pepsi | Fries)").estimate.value
    advice = kv.Plan.advise(PLAN.schema, "2", np.int64(100_000), ask="conditional", brief=True)
    assert kv.Plan.choose(PLAN.schema, 2, 1e5, ask="conditional") == advice.plan
    assert advice.to_frame("polars")["mechanism"][0] == advice.plan.mechanism_name
    assert str(advice) in str(advice.table())
    assert advice.table().rows[0][0] == advice.best.name


def test_keys_are_found_by_their_name():
    answers = TALLY.estimate()
    assert answers[7] is answers["7"] is answers[np.int64(7)]
    assert 7 in answers
    assert "Pepsi" in answers
    assert answers["Pepsi"] in answers
    assert "Pespi" not in answers
    assert None not in answers
    for ask in (
        lambda: answers["pepsi"],
        lambda: TALLY.query("mean(Pespi)"),
        lambda: PLAN.schema.place("Pepsy"),
    ):
        with pytest.raises(kv.UnknownKeyError, match="did you mean 'Pepsi'"):
            ask()
    years = kv.Tally(kv.Plan.of(kv.Schema.of([1999, 2001], 1, 5), "kvue", 2))
    for ask in (lambda: years.estimate()[1991], lambda: years.query("mean(2011)")):
        with pytest.raises(kv.UnknownKeyError, match=r"did you mean '(1999|2001)'"):
            ask()
    assert years.plan.check({2011: 3}) == ["key 2011 is not in the plan; did you mean '2001'?"]
    with pytest.raises(kv.UnknownKeyError, match="answers are found by key"):
        years.estimate()[0]
    with pytest.raises(kv.PlanError, match="did you mean best"):
        TALLY.conditionals("bets")
    with pytest.raises(kv.PlanError, match="did you mean clip"):
        TALLY.estimate(after=["klip"])
    with pytest.raises(kv.TableError, match="did you mean 'pandas'"):
        answers.to_frame("panda")


@pytest.mark.parametrize(
    ("mistake", "error", "words"),
    [
        (lambda: kv.Schema.of("Fries", 1, 5), kv.SchemaError, "keys are a list of names, also for one"),
        (lambda: kv.Plan.of(PLAN.schema, "auto", 2), kv.PlanError, "Plan.choose takes the best one"),
        (lambda: PLAN.collect(RECORDS, 42), kv.CoinsError, "made by Coins.secure"),
        (lambda: TALLY.query(), kv.QueryError, "give a query, like"),
        (lambda: TALLY.query(3), kv.QueryError, "a query is text, like"),
        (
            lambda: TALLY.query("mean(Pepsi | Fries)"),
            kv.PlanError,
            'in Python Plan.choose.*"conditional"',
        ),
        (lambda: TALLY.cube("Fries"), kv.QueryError, "give a list of keys"),
        (
            lambda: kv.Query.of("mean", "Pepsi", "Fries"),
            kv.QueryError,
            "lists of keys, also for one key",
        ),
        (lambda: PAIRS.cube(["Fries"], people=-1), kv.QueryError, "people is the number of all people"),
        (lambda: PAIRS.rules(conditions=1.5), kv.QueryError, "conditions is a whole number"),
        (lambda: PAIRS.rules(min_lift="1"), kv.QueryError, "min_lift is a finite number above 0"),
        (
            lambda: PAIRS.rules(false_discovery="1"),
            kv.QueryError,
            "false_discovery lies between 0 and 1",
        ),
        (lambda: PAIRS.tree("7", min_share="0"), kv.QueryError, "min_share is from 0 to below 0.5"),
        (lambda: TALLY.estimate(level="0.9"), kv.PlanError, "a level lies between 0 and 1"),
        (lambda: kv.estimate(TALLY, PLAN), kv.PlanError, "a plan and a tally of it"),
        (lambda: TALLY.estimate()[1:], kv.UnknownKeyError, "answers are found by key"),
        (lambda: TALLY.estimate().plot("mean"), kv.TableError, "ax is the axes of matplotlib"),
        (lambda: PLAN.plot("kvue"), kv.TableError, "ax is the axes of matplotlib"),
        (lambda: ADVICE.plot("epsilon"), kv.TableError, "ax is the axes of matplotlib"),
        (lambda: ADVICE.plot("y", "epsilon"), kv.TableError, "ax is the axes of matplotlib"),
        (lambda: kv.Plan.of(PLAN.schema, 2, "kvue"), kv.PlanError, "a mechanism is named by text"),
        (lambda: kv.Query("lfit", "a"), kv.QueryError, "did you mean lift"),
        (
            lambda: PAIRS.query("mean(7); lift(7 | Fries)"),
            kv.QueryError,
            "the semicolon at position 8 begins another query; give each as a text of its own",
        ),
        (
            lambda: kv.Plan.of(PLAN.schema, "kvue:best", 2),
            kv.PlanError,
            "'best' is no parameter",
        ),
        (lambda: kv.learn.DecisionTree("7", "two").fit(TALLY), kv.KeyveilError, "max_depth is a whole"),
        (lambda: kv.Scheme, AttributeError, "did you mean 'Schema'"),
        (
            lambda: PAIRS.query("mean(7)", "lift(7 | Fries)").plot(of="frequency"),
            kv.QueryError,
            "no query asks for 'frequency'; they ask for mean, lift",
        ),
    ],
)
def test_a_mistake_gets_one_line_that_says_what_would_be_right(mistake, error, words):
    with pytest.raises(error, match=words) as caught:
        mistake()
    assert "\n" not in str(caught.value)


def test_what_is_shown_of_an_object_is_short_and_no_secret():
    shown = [
        (kv.Coins.secure(), r"Coins\(secure\)"),
        (kv.Coins.stated(np.int64(7)), r"Coins\(fixed key\)"),
        (PLAN.privatise(RECORDS[:3], COINS), rf"Reports\(3 of plan {PLAN.hash[:12]}\)"),
        (kv.Prior.of(PLAN.schema, held=2), r"Prior\(3 keys, 2 held on average, .*\)"),
        (TALLY.estimate()["Pepsi"], r"KeyAnswer\('Pepsi', frequency 0\.\d+ \[.*\], mean .*\)"),
    ]
    for thing, words in shown:
        assert re.fullmatch(words, repr(thing)), repr(thing)


def test_an_estimate_is_a_number_with_an_interval():
    estimate = kv.Estimate(0.61, 0.01, 0.59, 0.63, 9)
    assert float(estimate) == 0.61
    assert estimate.interval == (0.59, 0.63)
    assert f"{estimate:.1%}" == "61.0% [59.0%, 63.0%]"
    assert f"{estimate:*>22.2f}" == "*****0.61 [0.59, 0.63]"
    assert f"{estimate:30}" == f"{estimate!s:30}"
    assert f"{estimate}" == str(estimate) == "0.6100 [0.5900, 0.6300]"
    assert str(kv.Estimate(0.5, inf, -inf, inf, 9)) == "0.5000 unbounded"
    assert str(kv.Estimate(0.5, nan, nan, nan, 9)) == "0.5000"
    assert f"{kv.Estimate(nan, nan, 0.25, 0.5, 9):.2f}" == "[0.25, 0.50]"
    assert str(kv.Estimate(nan, nan, nan, nan, 0)) == "unknown"


def test_an_answer_to_a_query_is_a_number_with_an_interval():
    answer = PAIRS.query("frequency(Pepsi)")
    assert answer.value == float(answer) == answer.estimate.value
    assert answer.interval == answer.estimate.interval
    assert f"{answer:.1%}" == f"{answer.estimate:.1%}"
    assert f"{answer}" == str(answer)


def test_a_table_escapes_what_it_shows():
    table = ResultTable(("key", "value"), (("<b>", "1.5"), ("long & name", "[1, 2]")), "a < b")
    html = table._repr_html_()
    assert "&lt;b&gt;" in html
    assert "long &amp; name" in html
    assert "<b>" not in html
    lines = str(table).splitlines()
    assert lines[1:] == ["key           value", "<b>             1.5", "long & name  [1, 2]"]
    assert str(table.first(1, "rows")).endswith("and 1 more rows; table(most=None) shows them")


def test_frames_keep_types_and_say_what_is_unknown():
    columns = {"a": ["x", None], "b": [1, None], "c": [1.5, nan], "d": [True, None], "e": [None, None]}
    frame, polars, arrow = (frame_of(columns, kind) for kind in ("pandas", "polars", "arrow"))
    assert frame.isna().to_numpy().tolist() == [[False] * 4 + [True], [True] * 5]
    assert frame.c.dtype == frame.e.dtype == np.float64
    assert polars.dtypes == [pl.String, pl.Int64, pl.Float64, pl.Boolean, pl.Float64]
    assert polars.null_count().row(0) == (1, 1, 1, 1, 2)
    assert arrow.to_pylist()[1] == dict.fromkeys(columns)
    assert isinstance(frame_of({"a": [1]}), pd.DataFrame)


def test_a_number_is_any_number_of_python():
    schema = kv.Schema.of(["a"], Fraction(-1, 4), Decimal(2))
    assert schema == kv.Schema.of(["a"], "-0.25", 2)
    halves = (0.5, "0.5", Fraction(1, 2), Decimal("0.50"), np.float32(0.5), np.float16(0.5))
    assert {kv.Plan.of(schema, "kvue", half).hash for half in halves} == {
        kv.Plan.of(schema, "kvue", "0.5").hash
    }
    with pytest.raises(kv.PlanError, match=r"^epsilon 1/3 has no end as a decimal"):
        kv.Plan.of(schema, "kvue", Fraction(1, 3))
    counts = (9000, 9e3, Decimal(9000), Fraction(9000), np.int16(9000))
    assert {kv.Plan.advise(schema, 1, count, brief=True).people for count in counts} == {9000}


def test_results_without_rows_have_the_types_of_others():
    """So frames of several tallies can be put below each other."""
    plan = kv.Plan.of(kv.Schema.of(["a", "b", "c"], 1, 5), "pairs", 4)
    nobody, everyone = [{}] * 300, [{"a": 5, "b": 5}, {"c": 1}] * 150
    tallies = [plan.collect(records, kv.Coins.stated("types")) for records in (nobody, everyone)]
    no_query, other = TALLY.query([]), tallies[1].query(["lift(a | b)"])
    pairs = [*zip(*((t.rules(), t.chow_liu(), t.query("frequency(a)")) for t in tallies), strict=True)]
    for none, full in [*pairs, (no_query, other), (pairs[-1][0], other[0])]:
        for library in ("pandas", "polars", "arrow"):
            frames = [result.to_frame(library) for result in (none, full)]
            types = [f.schema if library == "arrow" else list(f.dtypes) for f in frames]
            assert types[0] == types[1]
            assert len(frames[0]) == isinstance(none, kv.QueryAnswer)
            assert len(frames[1]) > 0


def test_several_queries_may_be_a_list():
    queries = [f"{kind}({PLAN.schema.keys[0]})" for kind in ("frequency", "mean")]
    assert list(TALLY.query(queries)) == list(TALLY.query(*queries))
    assert len(TALLY.query(queries[:1])) == 1
    for others in (np.array(queries), pd.Series(queries), (query for query in queries)):
        assert list(TALLY.query(others)) == list(TALLY.query(queries))
    assert len(TALLY.query([]).to_frame()) == len(TALLY.query([]).table().rows) == 0


def test_one_answer_is_read_like_several():
    answer = PAIRS.query("frequency(Pepsi)")
    assert answer[0] is answer[-1] is answer
    assert list(answer) == [answer]
    assert np.array([answer, answer], float).shape == (2,)
    with pytest.raises(IndexError, match="one answer"):
        answer[1]


@pytest.mark.parametrize("estimator", ["best", "least_squares"])
def test_answers_name_their_estimator_wherever_they_are_shown(estimator):
    answers, source = PAIRS.estimate(estimator), PAIRS.conditionals(estimator)
    queries = PAIRS.query("frequency(Pepsi)", "lift(Pepsi | Fries)", estimator=estimator)
    shown = [answers, answers["Pepsi"], queries, queries[1], source.matrix("mean"), source]
    for result in shown:
        assert set(result.columns()["estimator"]) == {estimator}
        assert result.table().notes[-1].partition(";")[0] == f"estimator: {estimator}"
        assert set(result.to_frame("polars")["estimator"]) == {estimator}
    assert PAIRS.query([]).table().notes == ()


def test_a_query_names_keys_as_the_schema_was_given_them():
    query = kv.Query.of("frequency", np.int64(7), ["Fries"], [("a", 1)])
    assert query == kv.Query.parse("""frequency(7 | Fries, !"('a', 1)")""")
    assert PAIRS.query(kv.Query("lift", 7, (("Pepsi", True),))) == PAIRS.query("lift(7 | Pepsi)")


def test_everything_becomes_a_frame_of_the_library_that_came_in():
    frame = pl.DataFrame({"person": [1, 1, 2], "key": ["a", "b", "a"], "value": [1.0, 2.0, 5.0]})
    schema = kv.Schema.from_frame(frame, low=1, high=5)
    tally = kv.Plan.of(schema, "pairs", 4).collect(frame, everyone=100)
    answers = tally.estimate()
    shown = [tally.plan, tally, answers, answers["a"], next(iter(answers)), tally.conditionals()]
    shown += [tally.query("lift(a | b)"), tally.conditionals().matrix(), kv.Plan.advise(schema, 4, 1e5)]
    shown += [tally.rules(), tally.rules()[:1], tally.tree("a"), tally.bayes("a"), tally.chow_liu()]
    shown += [tally.cube(["a"]), tally.cube(["a", "b"]).slice(a="held"), (tally + tally).estimate()]
    for result in shown:
        assert isinstance(result.to_frame(), pl.DataFrame), type(result)


def test_completion_sees_what_is_loaded_later():
    assert {"compare", "Budget", "learn", "Schema"} <= set(dir(kv))
    assert "TYPE_CHECKING" not in dir(kv)


def test_plans_and_tallies_show_themselves():
    assert PLAN.to_frame("pandas").key.tolist() == list(PLAN.schema.keys)
    assert TALLY.to_frame("pandas")["count"].tolist() == TALLY.counts.tolist()
    for result in (PLAN, TALLY):
        assert len(str(result).splitlines()) == 1
        assert "kvue" in result._repr_html_()
    assert "4.5" not in repr(TALLY.estimate().table(0))


def test_pictures_stay_within_what_is_possible_and_leave_the_backend():
    import matplotlib
    from matplotlib import pyplot

    matplotlib.use("svg")
    axes = TALLY.estimate().plot()
    shares, means = axes.figure.axes
    assert -0.02 <= shares.get_xlim()[0] <= shares.get_xlim()[1] <= 1.02
    assert 0.9 <= means.get_xlim()[0] <= means.get_xlim()[1] <= 5.1
    title = axes.figure.get_suptitle()
    assert f"{TALLY.reports:,} reports at epsilon {PLAN.promised}, kvue, 95% intervals" in title
    pairs = kv.Plan.of(PLAN.schema, "pairs", 4).collect(RECORDS, COINS).conditionals()
    assert pairs.plot().images[0].norm.vmin == 0
    title = pairs.plot().get_title("left")
    assert "reports at epsilon 4, pairs" in title
    assert "±: half the 95% interval" in title
    lift = pairs.plot(kind="lift").images[0].norm
    assert (lift.vmin, lift.vcenter) == (0, 1)
    assert pairs.plot(kind="mean").images[0].get_clim() == (1, 5)
    assert matplotlib.get_backend() == "svg"
    pyplot.close("all")


def test_a_picture_on_given_axes_is_named_after_what_it_shows():
    from matplotlib.figure import Figure

    panel = TALLY.estimate().plot(Figure().add_subplot())
    assert panel.get_title("left").startswith("How many people have each key\n")
    assert TALLY.estimate()["Pepsi"].plot(Figure().add_subplot()).get_title("left") == "Pepsi"
    answer = PAIRS.query("frequency(7 | Fries, Pepsi)")
    assert answer.how == "range"
    panel = answer.plot(Figure().add_subplot())
    guess = next(line for line in panel.lines if line.get_marker() == "d")
    assert guess.get_xdata().tolist() == [answer.guess]


def test_axes_show_one_statistic_of_several_queries_and_the_title_names_the_others():
    from matplotlib.figure import Figure

    def labels(panel):
        return [label.get_text() for label in panel.get_yticklabels()]

    answers = PAIRS.query("mean(7)", "frequency(Fries)", "mean(Fries)")
    panel = answers.plot(Figure().add_subplot())
    assert labels(panel) == ["mean(7)", "mean(Fries)"]
    assert panel.get_title("left") == "mean alone; of= draws frequency"
    panel = answers.plot(Figure().add_subplot(), of="frequency")
    assert (labels(panel), panel.get_title("left")) == (["frequency(Fries)"], "")
    panel = answers[::2].plot(Figure().add_subplot())
    assert (labels(panel), panel.get_title("left")) == (["mean(7)", "mean(Fries)"], "")


def test_what_is_asked_of_the_front_door_may_be_text_or_a_plan():
    source = PAIRS.conditionals()
    from_text, parsed = (
        kv.people_needed(source, 600, query) for query in ("mean(7)", kv.Query.parse("mean(7)"))
    )
    assert from_text == parsed
    (finding,) = kv.audit(PLAN).findings
    assert finding.endswith("audit(plan.dumps()) has it")
    assert kv.audit(PLAN.dumps()).findings == ()


def test_dollar_signs_in_names_are_drawn_as_they_are(tmp_path):
    from matplotlib.figure import Figure

    names = ["$5 \\frac{ off", "from $1 to $2", "costs $"]
    schema = kv.Schema.of(names, 1, 5)
    records = [{names[0]: 4, names[1]: 5}, {names[2]: 1}, {}] * 500
    tally = kv.Plan.of(schema, "pairs", 6).collect(records, COINS)
    answers, quoted = tally.estimate(), f'frequency("{names[1]}")'
    shown = [answers, answers[names[1]], tally.conditionals(), tally.query(quoted), tally.rules()]
    shown += [tally.tree(names[0]), tally.bayes(names[0]), tally.chow_liu(), tally.cube(names[:2])]
    for number, result in enumerate(shown):
        figure = Figure()
        ax = result.plot(figure.add_subplot())
        figure.savefig(tmp_path / f"{number}.svg")  # a formula that cannot be read would raise
        words = [*ax.get_xticklabels(), *ax.get_yticklabels(), *ax.texts, ax.xaxis.label, ax.yaxis.label]
        for text in [*words, ax.title, ax._left_title]:
            assert not text._preprocess_math(text.get_text())[1], text.get_text()


LONG_NAMES = [
    f"A rather long name of a key, as shops print it on a bill, number {number} of many"
    for number in range(3)
]


def test_words_of_pictures_are_whole_and_apart():
    """A heading is above its legend in tall pictures, too, and no title or query is cut off."""
    from matplotlib import pyplot

    many = kv.Tally(kv.Plan.of(kv.Schema.of(70, 1, 5), "kvue", 2)).estimate().plot().figure
    few = kv.Plan.of(kv.Schema.of(LONG_NAMES, 1, 5), "pairs", 4)
    tally = few.collect([{LONG_NAMES[0]: 2}] * 90, COINS)
    query = f'lift("{LONG_NAMES[0]}" | "{LONG_NAMES[1]}")'
    axes = tally.query(query).plot()
    matrices = [tally.conditionals().plot(kind=kind) for kind in ("frequency", "mean", "lift")]
    many.canvas.draw()
    heading, legend = many._suptitle.get_window_extent(), many.legends[0].get_window_extent()
    assert legend.y1 <= heading.y0 + 1
    assert many._suptitle.get_in_layout(), "a notebook shows it"
    assert max(panel.get_window_extent().y1 for panel in many.axes) <= legend.y0 + 1
    (label,) = [tick.get_text() for tick in axes.get_yticklabels()]
    assert label.split() == query.split()
    for panel in matrices:
        panel.figure.canvas.draw()
        shown = panel._left_title.get_window_extent()
        assert 0 <= shown.x0 < shown.x1 <= panel.figure.bbox.x1
    key = LONG_NAMES[0]
    learned = [tally.tree(key), tally.bayes(key), tally.cube(LONG_NAMES[:2]), tally.chow_liu()]
    learned += [tally.rules(), tally.cube(LONG_NAMES).slice(dict.fromkeys(LONG_NAMES[:2], "held"))]
    for panel in [result.plot() for result in [*learned, tally.estimate()[key]]]:
        panel.figure.canvas.draw()
        words = [panel._left_title, panel.xaxis.label, panel.yaxis.label, panel.figure._suptitle]
        for text in [text for text in words if text is not None and text.get_text()]:
            box, whole = text.get_window_extent(), panel.figure.bbox
            assert whole.x0 <= box.x0 <= box.x1 <= whole.x1, text.get_text()
            assert whole.y0 <= box.y0 <= box.y1 <= whole.y1, text.get_text()
    names = {tick.get_text() for tick in matrices[0].get_yticklabels()}
    assert len(names) == len(LONG_NAMES), "shortened names stay apart"
    pyplot.close("all")


def test_columns_of_text_are_below_each_other_whatever_the_letters():
    """In a terminal a wide letter takes two columns, and an accent of its own none."""
    rows = (("tea", "1"), ("紅茶", "2"), ("the\u0301", "3"))
    lines = str(ResultTable(("key", "share"), rows)).splitlines()
    assert lines == ["key   share", "tea       1", "紅茶      2", "the\u0301       3"]


def test_a_notebook_shows_few_rows_of_many():
    rules = kv.learn.Rules()
    assert repr(rules) == "no rule is above noise"
    assert "no rule" in rules._repr_html_()
    plan = kv.Plan.of(kv.Schema.of(20, 1, 5), "pairs", 4)
    html = plan.collect(RECORDS[2:3] * 4000, COINS).bayes("0")._repr_html_()
    assert html.count("<tr>") == 21
    assert "and 37 more factors" in html
