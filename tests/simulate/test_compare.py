"""What ``keyveil compare`` prints and draws: cells, footnotes, notes, pictures."""

from __future__ import annotations

import gzip
import json
import warnings
from collections import Counter
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyveil import Schema, compare
from keyveil.cli.compare_command import CompareOptions, read_contest, read_estimators, read_mechanisms
from keyveil.cli.compare_command import compare as compare_command
from keyveil.cli.output import counted
from keyveil.foundation.errors import KeyveilError, PlanError
from keyveil.people.tables.top_keys import read_top
from keyveil.plot import plot_rows, spread_out
from keyveil.plot.comparison_plots import all_series
from keyveil.simulate.comparison import competitors_of
from keyveil.simulate.comparison_table import cells, footnotes, headings, row_name, with_standard_error
from keyveil.simulate.contest_row import measure_errors
from keyveil.simulate.planner_ways import WAYS, all_competitors, way_named


def row(mechanism="kvue", estimator="least_squares", epsilon=1.0, **more):
    document = {
        "mechanism": mechanism,
        "chosen": mechanism,
        "estimator": estimator,
        "epsilon": epsilon,
        "true_epsilon": epsilon,
        "d": 10,
        "n": 1000,
        "repetitions": 20,
        "bias_from_cap": False,
        "left_out": 0.0,
        "skipped": [],
    }
    for of, size in (("frequency", 1e-4), ("mean", 1e-3)):
        document |= {f"mse_{of}": size / epsilon, f"mse_{of}_se": size / epsilon / 25}
        document |= {f"mae_{of}": size**0.5, f"mae_{of}_se": size**0.5 / 50}
        document |= {f"coverage_{of}": 0.951, f"bounded_{of}": 1.0, f"predicted_{of}": size}
    return document | more


# -- the table ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "error", "said"),
    [
        (1.234e-4, 1.234e-4 * 0.04, "1.23e-04 ±4%"),
        (1.0, 0.004, "1.00e+00 ±0.4%"),
        (2e-3, None, "2.00e-03"),
        (0.0, 0.0, "0.00e+00"),
        (None, None, "-"),
    ],
)
def test_errors_are_shown_with_their_standard_error(value, error, said):
    assert with_standard_error(value, error) == said


def test_a_row_has_a_cell_for_each_heading():
    for error in ("squared", "absolute"):
        assert len(cells(row(), error)) == len(headings(error))
    assert "3.16e-02 ±2%" in cells(row(), "absolute")


def test_coverage_says_how_many_intervals_were_bounded():
    assert cells(row(bounded_mean=0.83), "squared")[-1] == "95.1%, 95.1% (83% bounded)"
    assert cells(row(bounded_mean=0.9999), "squared")[-1] == "95.1%, 95.1% (>99% bounded)"
    assert cells(row(coverage_mean=None, bounded_mean=0.0), "squared")[-1] == "95.1%, -"
    assert not any("bounded" in line for line in footnotes([row()]))
    assert any("bounded" in line for line in footnotes([row(), row(bounded_mean=0.83)]))
    assert any("bounded" in line for line in footnotes([row(coverage_mean=1.0, bounded_mean=0.0)]))
    assert not any("bounded" in line for line in footnotes([row(coverage_mean=None, bounded_mean=0.0)]))


def test_an_unbounded_interval_covers_and_an_estimator_without_intervals_has_no_coverage():
    truth, value = np.array([0.5, 0.5, 0.5, np.nan]), np.full((1, 4), 0.4)
    low, high = np.array([[0.3, 0.6, -np.inf, 2.0]]), np.array([[0.7, 0.9, np.inf, 3.0]])
    errors = measure_errors(value, low, high, truth, 0.0)
    assert (errors.coverage, errors.bounded) == (pytest.approx(2 / 3), pytest.approx(2 / 3))
    none = np.full((1, 4), np.nan)
    assert measure_errors(value, none, none, truth, 0.0).coverage is None


def test_a_cap_that_leaves_keys_out_is_marked_and_told():
    cut = row("collision", bias_from_cap=True, left_out=0.25)
    assert cells(cut, "squared")[-1].endswith(" *")
    assert not cells(row(), "squared")[-1].endswith("*")
    notes = [line for line in footnotes([row(), cut]) if line.startswith("*")]
    assert len(notes) == 1
    assert "collision 25%" in notes[0]
    assert "kvue" not in notes[0]
    more = {**cut, "left_out": 0.5}
    assert "collision 25% to 50%." in footnotes([cut, more])[-1]
    assert "collision 25%." in footnotes([cut, {**cut, "left_out": 0.2500001}])[-1]


def test_one_is_not_several():
    assert (counted(1, "repetition"), counted(20, "repetition")) == ("1 repetition", "20 repetitions")
    assert (counted(1, "person", "people"), counted(1000, "person", "people")) == (
        "1 person",
        "1,000 people",
    )


def test_a_name_says_its_parameters_once():
    assert row_name(row("collision", chosen="collision:cap=9")) == "collision:cap=9"
    assert row_name(row("graded:levels=4", chosen="graded")) == "graded:levels=4"
    assert row_name(row("auto", chosen="kvue")) == "auto (kvue)"
    long = [
        row("auto", chosen="kvue", epsilon=0.5),
        row("auto", chosen="optimal:spread=0.3+weight=0.25"),
    ]
    assert row_name(long[1]) == "auto (optimal)"
    assert footnotes(long)[0] == (
        "auto took kvue at epsilon 0.5; optimal:spread=0.3+weight=0.25 at epsilon 1."
    )
    scaled = [{**each, "mean_scale": {"low": 1.0, "high": 5.0, "of": "all keys"}} for each in long]
    assert footnotes(scaled)[0] == footnotes(long)[0], "names are on the scale of the rows already"
    assert not any("took" in line for line in footnotes([row("auto", chosen="kvue")]))


# -- what is asked for -------------------------------------------------------------------------------


def test_mechanisms_are_read_once_each_and_checked():
    assert read_mechanisms("kvue, auto,kvue") == ["kvue", "auto"]
    with pytest.raises(PlanError, match="did you mean auto"):
        read_mechanisms("kvue,atuo")
    with pytest.raises(PlanError, match=r"did you mean kvue\? keyveil mechanisms lists all"):
        read_mechanisms("kvueu")
    with pytest.raises(PlanError, match="at least one"):
        read_mechanisms(" ,")
    with pytest.raises(PlanError, match="at least one"):
        read_estimators(",")
    with pytest.raises(PlanError, match=r"unknown mechanism 'xyz'; known: .*auto, all"):
        read_mechanisms("xyz")


def crowd(keys_together: int | None = None, people: int = 10) -> Any:
    return SimpleNamespace(
        keys_together=keys_together, people=people, schema=SimpleNamespace(keys=range(20))
    )


def test_all_stands_beside_others_and_the_planner_comes_last():
    names = competitors_of(["all", "graded:levels=5", "kvue"], crowd(), ways=False).names
    assert names[-1] == "auto"
    assert sorted(names) == sorted([*all_competitors(20), "graded:levels=5"])
    assert competitors_of(["auto", "kvue"], crowd(), ways=False).names == ["auto", "kvue"]


@pytest.mark.parametrize(
    ("ways", "keys_together", "people", "others"),
    [
        (True, None, 10, ["auto:one_round", "auto:pilot"]),
        (True, None, 1, ["auto:one_round"]),
        (True, 2, 10, ["auto:nothing"]),
        (False, None, 10, []),
    ],
)
def test_auto_stands_for_every_way_to_tell_the_planner(ways, keys_together, people, others):
    competitors = competitors_of(["kvue", "auto"], crowd(keys_together, people), ways)
    assert competitors.names == ["kvue", "auto", *others]
    assert competitors.optional == set(others)


def contest_of(*words: str) -> Any:
    """The contest that a command's options make."""
    common = ["--population", "gaussian", "--top", "4", "--people", "50"]
    context = compare_command.make_context("compare", [*common, *words])
    return read_contest(CompareOptions(**context.params))[2]


@pytest.mark.parametrize("way", ["table", "nothing", "one_round", "pilot"])
def test_ways_to_tell_the_planner_have_one_name_at_the_terminal_and_in_python(way):
    contest = contest_of("--told", way)
    assert {name: getattr(contest, name) for name in WAYS[way]} == WAYS[way]
    assert way_named(way) == way


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        (["--told", "one-round"], "'one-round' is not one of"),
        (["--told", "default"], "'default' is not one of"),
        (["--prior", "table"], "No such option '--prior'"),
        (["--repetitions", "3"], "No such option '--repetitions'"),
    ],
)
def test_no_older_name_is_left(words, refusal):
    with pytest.raises(click.UsageError) as refused:
        contest_of(*words)
    assert refusal in refused.value.format_message()


def test_the_planner_can_be_told_how_many_keys_people_hold():
    contest = contest_of("--held", "2", "--repeat", "3")
    assert contest.repetitions == contest_of("--repeat", "3").repetitions == 3
    assert contest.prior.held == pytest.approx(2)
    assert contest_of().prior is None
    with pytest.raises(click.UsageError, match="--held or --told, not both"):
        contest_of("--held", "2", "--told", "table")
    frame = pd.DataFrame({"person": range(40), "key": ["a", "b"] * 20, "value": [1.0, 2, 3, 5] * 10})
    few = {"mechanisms": "auto", "epsilon": 4, "people": 40, "everyone": "frame"}
    few["schema"] = Schema.from_frame(frame, low=1, high=5)
    few = {**few, "processes": 1, "progress": False, "repeat": 2}
    names = {row["mechanism"] for row in compare(frame, held=1, **few).rows}
    assert names == {"auto"}, "no rows for other ways"
    with pytest.raises(PlanError, match="held or told, not both"):
        compare(frame, held=1, told="table", **few)
    for wrong, words in (
        ({"conditional": "2"}, "conditional is the number of keys together, target included, like 2"),
        ({"conditional": 3}, "conditional takes 2 keys together, target included, not 3"),
        ({"coins": 42}, r"or by Coins\.stated\(42\) to repeat a trial"),
        ({"repeat": 1e15}, "repeat must be a number of at least 1 and below 1e\\+15"),
    ):
        with pytest.raises(KeyveilError, match=words):
            compare(frame, **{**few, **wrong})
    with pytest.raises(PlanError, match="not told 'tabel'; did you mean table"):
        compare(frame, told="tabel", **few)


def test_the_note_on_a_caps_bias_does_not_say_that_coverage_is_low():
    (note,) = (line for line in footnotes([row(bias_from_cap=True, left_out=0.05)]) if line[0] == "*")
    assert "so coverage can be lower." in note


def test_footnotes_say_what_the_planner_is_told_if_that_differs():
    rows = [row("auto", chosen="kvue"), row("auto:one_round", chosen="graded:levels=3")]
    assert footnotes(rows)[:2] == [
        "The planner: auto is told the table, and auto:one_round is told nothing.",
        "auto:one_round took graded:levels=3 at epsilon 1.",
    ]
    assert not any("told" in line for line in footnotes(rows[:1]))


def test_mechanisms_have_the_names_of_papers_next_to_ours():
    rows = [row("pckv_ue:length=2"), row("optimal"), row("auto", chosen="grr"), row("pckv_ue:length=3")]
    assert "In papers: pckv_ue is PCKV-UE, grr is GRR (k-RR)." in footnotes(rows)
    labels = [line.label for line in all_series(rows, by_estimator=False)]
    assert labels[:2] == ["pckv_ue:length=2 (PCKV-UE), least_squares", "optimal, least_squares"]
    assert not any(line.startswith("In papers") for line in footnotes([row("optimal")]))


def test_every_way_of_the_planner_has_its_own_line():
    rows = [row(name, "best", e) for name in ("kvue", "auto", "auto:pilot") for e in (1.0, 2.0)]
    lines = all_series(rows, by_estimator=False)
    assert [line.label for line in lines] == ["kvue (KVUE), best", "auto, best", "auto:pilot, best"]
    assert [line.planner for line in lines] == [False, True, True]
    assert lines[1][3:5] != lines[2][3:5], "marks and dashes tell them apart"


# -- the picture -------------------------------------------------------------------------------------


def crowded(epsilons):
    """As many rows as ``all`` has: 25 mechanisms with three estimators each."""
    names = [*all_competitors(100)[:-1], "graded:levels=5", "graded:levels=7", "auto"]
    return [
        row(name, estimator, epsilon)
        for epsilon in epsilons
        for name in names
        for estimator in (["shrunk", "least_squares"] if name == "auto" else ["least_squares", "shrunk"])
    ]


def test_one_line_for_each_mechanism_and_the_planner_on_top():
    rows = crowded([1.0, 2.0])
    lines = all_series(rows, by_estimator=False)
    assert len(lines) == len({each["mechanism"] for each in rows})
    assert lines[-1].label == "auto, shrunk"
    assert {each["estimator"] for line in lines for each in line.rows} == {"shrunk"}, "like with like"
    assert len({(line.colour, line.mark) for line in lines}) == len(lines)
    assert len(all_series(rows, by_estimator=True)) == 2 * len(lines)
    solid = {line.rows[0]["mechanism"] for line in lines if line.dashes == "-"}
    assert {"kvue", "pckv_ue", "collision", "auto"} <= solid
    assert not solid & {"graded", "graded:levels=5", "optimal", "several", "signed_ue", "sized"}


def test_a_mechanism_without_the_planners_estimator_is_drawn_with_its_own_and_says_so():
    rows = [
        row("kvue", "least_squares"),
        row("kvue", "shrunk"),
        row("privkvm", "debiased"),
        row("auto", "shrunk", planner_estimator="shrunk"),
        row("kvue", "shrunk", 2.0),
        row("kvue", "corrected", 2.0),
        row("auto", "corrected", 2.0, planner_estimator="corrected"),
    ]
    assert [line.label for line in all_series(rows, by_estimator=False)] == [
        "kvue (KVUE), shrunk/corrected",
        "privkvm (PrivKVM), debiased",
        "auto, shrunk/corrected",
    ]
    alone = [each for each in rows if each["mechanism"] != "auto"]
    assert all_series(alone, by_estimator=False)[0].label == "kvue (KVUE), least_squares/shrunk"
    assert (
        "The planner answers with shrunk at epsilon 1; corrected at epsilon 2. To compare mechanisms "
        "alone, look at rows with the same estimator."
    ) in footnotes(rows)
    assert not any("The planner answers with" in line for line in footnotes(alone))


@pytest.mark.parametrize(("epsilons", "error"), [([0.5, 1.0, 2.0, 4.0], "squared"), ([1.0], "absolute")])
def test_every_name_lies_inside_the_picture(tmp_path, epsilons, error):
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.text import Text

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = plot_rows(crowded(epsilons), tmp_path / "all.png", error).figure
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    whole, drawer = figure.bbox, canvas.get_renderer()
    names = [text for panel in figure.axes for text in (*panel.texts, *panel.get_yticklabels())]
    shown = [text for text in names if text.get_text() and text.get_visible()]
    assert sum("auto" in text.get_text() for text in shown) == (2 if len(epsilons) > 1 else 1)
    for text in shown:
        box = Text.get_window_extent(text, drawer)
        assert whole.x0 <= box.x0 <= box.x1 <= whole.x1
        assert whole.y0 <= box.y0 <= box.y1 <= whole.y1
    for panel in figure.axes:
        boxes = [Text.get_window_extent(text, drawer) for text in panel.texts]  # without its line
        boxes.sort(key=lambda box: box.y0)
        assert all(b.y0 - a.y0 > 0.8 * a.height for a, b in pairwise(boxes))
        assert panel.get_xscale() == "log"


@pytest.mark.parametrize(
    ("scale", "least", "labels"),
    [(1e6, "100 k", None), (1.0, "0.1", None), (1e-4, "0.00001", None), (1e-6, "1e-07", "e-0")],
)
def test_ticks_are_written_in_one_way_whatever_the_scale(tmp_path, scale, least, labels):
    """Errors of large values have ticks, too, and an exponent has all labels or none."""
    errors = {"mse_frequency": 0.12 * scale, "mse_frequency_se": 0.02 * scale}
    rows = [row("rr", epsilon=e, **errors) for e in (1.0, 2.0)]
    rows.append(row("rr", epsilon=4.0, mse_frequency=0.9 * scale, mse_frequency_se=None))
    panel = plot_rows(rows, tmp_path / "ticks.svg", of="frequency")
    words = [tick.get_text() for tick in panel.get_yticklabels()]
    assert len(words) >= 3
    assert least in words
    assert all((labels or "e-0") in word for word in words) == (labels is not None)
    assert labels is not None or not any("e" in word for word in words)


@pytest.mark.parametrize("epsilons", [[0.5, 1.0, 2.0, 4.0], [1.0]])
def test_the_caption_is_above_the_panels_also_of_a_narrow_picture(tmp_path, epsilons):
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    rows = [row(name, epsilon=epsilon) for name in ("rr", "auto") for epsilon in epsilons]
    for of in (None, "mean"):
        figure = plot_rows(rows, tmp_path / "caption.png", of=of).figure
        FigureCanvasAgg(figure).draw()
        caption, titles = figure._suptitle.get_window_extent(), [p._left_title for p in figure.axes]
        assert max(title.get_window_extent().y1 for title in titles) < caption.y0
        assert figure.bbox.x0 <= caption.x0 < caption.x1 <= figure.bbox.x1
        assert caption.y1 <= figure.bbox.y1


def test_pictures_of_rows_without_means_or_errors(tmp_path):
    bare = row("rr", mse_mean=None, mse_mean_se=None, mse_frequency=0.0, mse_frequency_se=None)
    for rows in ([bare], [bare, {**bare, "epsilon": 2.0}], [bare, row("auto", epsilon=2.0)]):
        plot_rows(rows, tmp_path / "rr.svg")
        assert (tmp_path / "rr.svg").stat().st_size > 1000


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20), st.floats(0.001, 0.05))
def test_names_are_spread_out_in_order_and_inside(wanted, step):
    wanted = sorted(wanted)
    positions = spread_out(wanted, step, 0.0, 1.0)
    assert (np.diff(positions) >= step - 1e-9).all()
    assert min(positions) >= 0
    assert max(positions) <= 1 + 1e-9
    if len(wanted) == 1 or np.diff(wanted).min() > step:
        assert positions == pytest.approx(wanted)


# -- the keys that most people hold ------------------------------------------------------------------

AGAIN = [
    *[("ann", "Often", value) for value in (1, 2, 3, 4, 5)],
    *[("bob", "Empty", None)] * 4,
    ("bob", "Often", 3),
    ("ann", "Wide", 2),
    ("bob", "Wide", 3),
    ("cid", "Wide", 4),
    ("ann", "Once", 5),
]
"""By rows Often leads with 6, then Empty, then Wide; three people hold Wide, two Often, one Once."""


def written(rows: list[tuple[str, str, float | None]], path: Path) -> str:
    """A table in the form that its ending names."""
    names = ("person", "key", "value")
    if path.suffix in (".parquet", ".arrow"):
        table = pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))
        write = pa.parquet.write_table if path.suffix == ".parquet" else pa.feather.write_feather
        write(table, path)
        return str(path)
    if ".jsonl" in path.name:
        lines = [json.dumps(dict(zip(names, row, strict=True))) for row in rows]
    else:
        mark = "\t" if ".tsv" in path.name else ","
        cells = [names, *((p, k, "" if v is None else str(v)) for p, k, v in rows)]
        lines = [mark.join(row) for row in cells]
    body = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(body) if path.suffix == ".gz" else body)
    return str(path)


@pytest.mark.parametrize("form", ["csv", "tsv", "csv.gz", "jsonl", "parquet", "arrow"])
def test_keys_are_ranked_by_people_not_by_rows(form, tmp_path):
    """Whose rows name a key again and again, or without a number, is still one person, or none."""
    path = written(AGAIN, tmp_path / f"t.{form}")
    columns = (path, "person", "key", "value", (1.0, 5.0))
    named = Counter(key for _, key, _ in AGAIN)
    assert [key for key, _ in named.most_common()] == ["Often", "Empty", "Wide", "Once"]
    for top in (1, 2, 3, 4, 9):
        read = read_top(*columns, top)
        assert read.keys == ["Wide", "Often", "Once", "Empty"][:top]
        holders = [3, 2, 1, 0][:top]
        assert np.bincount(read.people.keys, minlength=len(holders)).tolist() == holders
        assert (read.twice, read.unknown) == (4 * (top > 1), 4 * (top > 3))


@given(
    rows=st.lists(
        st.tuples(
            st.sampled_from("abc"), st.sampled_from("KLMNOP"), st.sampled_from([None, 1.5, 2.5, 3.5])
        ),
        min_size=1,
        max_size=40,
    ),
    top=st.integers(1, 7),
    at_once=st.integers(1, 3),
)
def test_the_top_keys_of_any_table_are_those_with_the_most_holders(tmp_path_factory, rows, top, at_once):
    rows = [*rows, ("z", rows[0][1], 2.0)]
    held = Counter(key for _, key in {(who, key) for who, key, value in rows if value is not None})
    best = sorted({key for _, key, _ in rows}, key=lambda key: (-held[key], key))[:top]
    path = written(rows, tmp_path_factory.mktemp("top") / "t.parquet")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("keyveil.people.tables.top_keys.KEYS_AT_ONCE", at_once)
        read = read_top(path, "person", "key", "value", (1.0, 5.0), top)
    assert read.keys == best
    assert len(read.people.values) == sum(held[key] for key in best)


def test_a_footnote_has_the_typical_error_of_the_planners_row():
    rows = [row(mse_frequency=4e-4), row("auto", chosen="kvue", mse_frequency=1e-4, mse_mean=0.04)]
    notes = [line for line in footnotes(rows) if line.startswith("Typical")]
    sentence = "0.01 for a frequency and 0.2 for a mean at epsilon 1 by auto."
    assert notes == [f"Typical error of an answer, the root of its MSE: {sentence}"]
    worse = {**rows[0], "mechanism": "privkv", "mse_frequency": 9e-4}
    note = footnotes([worse, {**rows[0], "mse_mean": None}])[0]
    assert note.endswith("0.02 for a frequency at epsilon 1 by kvue.")
