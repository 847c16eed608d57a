"""A whole analysis in a notebook, from a frame to rules; on a real table if there is one beside."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import matplotlib
import matplotlib.pyplot
import numpy as np
import pandas as pd
import polars as pl
import pytest

import keyveil as kv

ROOT = Path(__file__).parents[2]

SCRIPT = """
import keyveil as kv

schema = kv.Schema.from_frame(df, person="user", key="film", value="stars", top=20)
kv.compare(df, schema=schema, mechanisms=["kvue", "auto"], epsilon=[1, 2, 4], people=100_000).plot()
plan = kv.Plan.choose(schema, epsilon=2, people=100_000, ask="conditional")
tally = plan.collect(df, everyone=users)          # privatise and tally; secure coins by default
tally.estimate().to_frame()
tally.conditionals().plot()
tally.query("mean(Alien | Blade Runner, !Cats)")  # shows itself as a small table
rules = tally.rules(); rules.to_frame()
"""


SMALLER = {
    "word for word": {},
    "pandas": {"top=20": "top=6", "[1, 2, 4], people=100_000": "[2, 4], people=20_000, repeat=2"},
    "polars": {"top=20": "top=4", "[1, 2, 4], people=100_000": "[4], people=5_000, repeat=2"},
}
"""The numbers of the script that are smaller in each run, to save time."""


def shared_tables() -> Path | None:
    """The folder of real tables beside a clone, or beside a folder that it is in."""
    folders = (parent / "shared" / "data" for parent in ROOT.parents)
    return next((folder for folder in folders if folder.is_dir()), None)


def films() -> pd.DataFrame:
    """Ratings of films by 3,000 of 4,000 users: the most popular of a real table, or made up."""
    folder, names = shared_tables(), ["Alien", "Blade Runner", "Cats", *(f"Film {i}" for i in range(40))]
    if folder is not None:
        table = pd.read_parquet(folder / "ml-25m-recent.parquet")
        labels = json.loads((folder / "ml-25m-recent.json").read_text())
        assert labels
        table = table[(table.user % 9 == 0) & (table.key < len(names))]
        film = [names[key] for key in table.key]
        return pd.DataFrame(
            {"user": table.user.to_numpy(), "film": film, "stars": table.value.to_numpy()}
        )
    draw = np.random.default_rng(5)
    likes = draw.random((4000, 1)) * 1.6
    held = draw.random((4000, len(names))) < likes * 0.6 / (1 + np.arange(len(names)) / 4)
    user, film = np.nonzero(held & (np.arange(4000) < 3000)[:, None])
    stars = draw.integers(1, 11, len(user)) / 2
    return pd.DataFrame({"user": user, "film": [names[key] for key in film], "stars": stars})


@pytest.fixture(
    params=[
        pytest.param("word for word", marks=pytest.mark.long),
        "pandas",
        "polars",
    ],
    scope="module",
)
def analysis(request):
    """The names of the script after it has run; one line, and no change of the backend."""
    matplotlib.use("svg")
    frame = films()
    users = frame.user.unique()
    df = pl.from_pandas(frame) if request.param == "polars" else frame
    script = SCRIPT
    for large, small in SMALLER[request.param].items():
        assert script.count(large) == 1
        script = script.replace(large, small)
    names = {"df": df, "users": users}
    with warnings.catch_warnings(record=True) as lines:
        warnings.simplefilter("always")
        exec(script, names)
    words = [str(line.message).partition(",")[0] for line in lines]
    assert words[0] == "the range is taken from the data"
    assert "the frame names" in words[1], "compare is not told everyone"
    assert len(words) == 2
    assert matplotlib.get_backend() == "svg"
    yield names
    matplotlib.pyplot.close("all")


@pytest.mark.sampled
def test_the_analysis_runs_as_it_is_written(analysis):
    tally, plan = analysis["tally"], analysis["plan"]
    assert plan.schema.keys[:1] == analysis["schema"].keys[:1]
    assert tally.reports == len(analysis["users"])
    assert set(plan.schema.keys) > {"Alien", "Blade Runner", "Cats"}
    rules = analysis["rules"]
    assert isinstance(rules, kv.learn.Rules)
    assert {rule.consequent for rule in rules} <= set(plan.schema.keys)


@pytest.mark.sampled
def test_whatever_is_learned_starts_at_the_tally(analysis):
    tally = analysis["tally"]
    learned = [
        tally.rules(false_discovery=0.5),
        tally.tree("Alien", max_depth=1),
        tally.bayes("Alien"),
        tally.chow_liu(significance=0.5),
        tally.cube(["Alien", "Cats"], people=1000),
    ]
    kinds = [kv.learn.Rules, kv.learn.DecisionTree, kv.learn.NaiveBayes, kv.learn.ChowLiu, kv.learn.Cube]
    assert [type(result) for result in learned] == kinds
    for result in learned:
        assert isinstance(result.to_frame(), type(analysis["df"]))
        assert result.plot().figure is not result.plot().figure, "each picture is a new one"
    matplotlib.pyplot.close("all")


@pytest.mark.sampled
def test_frames_come_out_as_they_went_in(analysis):
    kind = type(analysis["df"])
    tally = analysis["tally"]
    answers = tally.estimate()
    assert isinstance(answers.to_frame(), kind)
    assert isinstance((tally + tally).query("lift(Alien | Cats)").to_frame(), kind)
    for library, other in (("pandas", pd.DataFrame), ("polars", pl.DataFrame)):
        assert isinstance(answers.to_frame(library), other)
    table = answers.to_arrow()
    assert table.column("key").to_pylist() == list(analysis["schema"].keys)
    assert table.column("frequency").to_pylist() == [a.frequency.value for a in answers]
    assert tally.conditionals().to_arrow().num_rows == 3 * len(answers) * (len(answers) - 1)


@pytest.mark.sampled
def test_pictures_are_drawn_on_the_axes_that_are_given(analysis):
    from matplotlib import pyplot

    tally, plan = analysis["tally"], analysis["plan"]
    query = "frequency(Alien | Cats)"
    shown = [
        plan,
        tally,
        tally.estimate(),
        tally.estimate()["Alien"],
        tally.conditionals(),
        tally.conditionals().matrix("lift"),
        tally.query(query),
        tally.query(query, "mean(Cats)", "lift(Cats | Alien)"),
    ]
    for result in shown:
        figure, axes = pyplot.subplots()
        assert result.plot(ax=axes) is axes
        assert axes.has_data()
        assert result.plot().figure is not figure
        html = result._repr_html_()
        assert html.count("<table") == 1
        assert 0 < len(str(result).splitlines()) < 40
        pyplot.close("all")


@pytest.mark.sampled
def test_auto_has_the_rows_of_the_command():
    """Told the table, told nothing, and after a pilot; ``told`` asks for one of them."""
    frame = pd.DataFrame({"person": range(40), "key": ["a", "b"] * 20, "value": [1.0, 2, 3, 5] * 10})
    schema = kv.Schema.from_frame(frame, low=1, high=5)
    few = {"mechanisms": "auto", "epsilon": 4, "people": 500, "repeat": 2, "everyone": "frame"}
    names_by_way = {
        None: {"auto", "auto:one_round", "auto:pilot"},
        "nothing": {"auto"},
    }
    for words, names in names_by_way.items():
        rows = kv.compare(frame, schema=schema, told=words, processes=1, progress=False, **few)
        assert set(rows.to_frame()["mechanism"]) == names
