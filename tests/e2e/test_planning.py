"""``plan --mechanism auto`` and ``compare`` for single keys, at the terminal."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest

from keyveil import Coins, Plan
from keyveil.cli.command import run


@pytest.fixture
def at(tmp_path, monkeypatch, capsys):
    """The command in a folder of its own: what it prints, and the one line of a refusal."""
    monkeypatch.chdir(tmp_path)
    draw = Coins.stated("planning").generator()
    lines = ["user,key,value"]
    for person in range(400):
        for key in range(6):
            if draw.random() < 0.2 + 0.1 * key:
                lines.append(f"{person},k{key},{draw.integers(1, 6)}")
    (tmp_path / "people.csv").write_text("\n".join(lines))

    def command(*arguments: object, code: int = 0) -> str:
        capsys.readouterr()
        assert run([str(a) for a in arguments]) == code
        said = capsys.readouterr()
        if code:
            assert len(said.err.strip().splitlines()) == 1
            return said.err
        return said.out

    command.folder = tmp_path
    return command


AUTO = ("plan", "--keys", 20, "--range", "1,5", "--mechanism", "auto")


def test_auto_makes_a_plan_that_names_what_was_chosen_and_says_why(at):
    said = at(
        *AUTO, "--epsilon", 2, "--people", "1e6", "--held", 3, "--explain", "--plot", "e.png", "-o", "p"
    )
    plan = Plan.load(at.folder / "p")
    assert plan.mechanism in said
    assert "least predicted error" in said
    assert "kvue" in said
    assert "shuffler" in said
    assert "fake" in said
    assert (at.folder / "e.png").stat().st_size > 10_000


def test_auto_as_json(at):
    made = json.loads(at(*AUTO, "--epsilon", 1, "--people", "1e6", "--ask", "frequency", "--json"))
    assert made["advice"]["chosen"]["mechanism"] == made["mechanism"]
    assert made["advice"]["answers"] is True
    scores = [option["score"] for option in made["advice"]["options"]]
    assert scores == sorted(scores)


def test_auto_answers_queries(at):
    made = json.loads(
        at(*AUTO, "--epsilon", 2, "--people", "1e6", "--ask", "mean(0 | 1); mean(2 | 3)", "--json")
    )
    assert made["mechanism"] == "workload"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--epsilon", 1), 2, "needs --people"),
        (("--epsilon", "0.1", "--people", 1000), 1, "it takes about"),
        (("--epsilon", 1, "--people", 0), 1, "whole number of at least 1"),
        (("--epsilon", 1, "--people", 1000, "--ask", "all"), 1, "--ask is one of"),
        (("--epsilon", 1, "--people", 1000, "--held", 21), 1, "at most 20"),
        (("--epsilon", 1, "--people", 1000, "--set", "levels=3"), 1, "auto sets the parameters"),
        (("--epsilon", 1, "--people", 1000, "--spread", "wide"), 1, "spread"),
    ],
)
def test_auto_refuses_in_one_line(at, arguments, code, said):
    assert said in at(*AUTO, *arguments, code=code)


def test_force_makes_the_best_plan_all_the_same(at):
    at(*AUTO, "--epsilon", "0.1", "--people", 1000, "--force", "-o", "p")
    plan = Plan.load(at.folder / "p")
    assert plan.proven <= plan.promised == Decimal("0.1")


def test_explain_is_for_auto(at):
    said = at("plan", "--keys", 3, "--epsilon", 1, "--mechanism", "kvue", "--explain", code=2)
    assert "for --mechanism auto" in said


TABLE = ("compare", "--data", "people.csv", "--person", "user", "--range", "1,5", "--people", 5000)


def test_compare_measures_single_keys(at):
    said = at(*TABLE, "--mechanism", "kvue,graded:levels=3,auto", "--epsilon", "1,3", "--repeat", 3,
              "--json", "rows.json", "--plot", "rows.png", "--coins", "x")  # fmt: skip
    rows = json.loads((at.folder / "rows.json").read_text())
    assert {row["mechanism"] for row in rows} == {"kvue", "graded:levels=3", "auto"}
    for name in ("estimator", "true_epsilon", "mse_frequency", "mse_mean", "coverage_frequency"):
        assert all(row[name] is not None for row in rows)
    assert "auto (" in said
    assert (at.folder / "rows.png").stat().st_size > 10_000
    again = at(*TABLE, "--mechanism", "kvue,graded:levels=3,auto", "--epsilon", "1,3", "--repeat", 3,
               "--coins", "x", "--processes", 1)  # fmt: skip
    assert again == said


def test_compare_everything_on_a_stated_population(at):
    at("compare", "--population", "gaussian", "--top", 5, "--people", 2000, "--mechanism", "all",
       "--repeat", 2, "--json", "rows.json")  # fmt: skip
    seen = {row["mechanism"] for row in json.loads((at.folder / "rows.json").read_text())}
    assert {"privkv", "privkvm", "f2m", "kvue", "kvoh", "pckv_ue", "pckv_grr", "coco", "auto"} <= seen


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("compare",), 2, "needs --data"),
        ((*TABLE, "--population", "gaussian"), 2, "needs --data"),
        ((*TABLE, "--mechanism", "kvueue"), 1, "unknown mechanism"),
        ((*TABLE, "--mechanism", "graded:levels=99"), 1, "between"),
        ((*TABLE, "--conditional", 2, "--mechanism", "all"), 1, "for single keys"),
        ((*TABLE, "--repeat", 0), 1, "at least 1"),
        ((*TABLE, "--epsilon", "one"), 1, "epsilon"),
    ],
)
def test_compare_refuses_in_one_line(at, arguments, code, said):
    assert said in at(*arguments, code=code)
