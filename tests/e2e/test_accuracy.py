"""The errors of the commands in files are those that ``compare`` shows for ``auto``."""

from __future__ import annotations

import json

import numpy as np
import pytest

from keyveil import Coins
from keyveil.cli.command import run
from keyveil.people.synthetic import of_keys, uniform_values
from keyveil.simulate.contest import Contest

KEYS, PEOPLE, RUNS = 12, 2000, 8
CROWD = of_keys(np.full(KEYS, 0.4), np.linspace(0.2, 0.4, KEYS), uniform_values)


def errors_in_files(folder, capsys, estimator: str | None, run_number: int) -> tuple[float, float]:
    """The mean squared errors of frequencies and means of one repetition."""
    drawn = CROWD.draw(PEOPLE, Coins.stated("people in files").generator(run_number))
    who = np.repeat(np.arange(PEOPLE), np.diff(drawn.starts))
    rows = [f"{p},{k},{v}" for p, k, v in zip(who, drawn.keys, drawn.values, strict=True)]
    rows += [f"{p},," for p in np.flatnonzero(np.diff(drawn.starts) == 0)]
    (folder / "people.csv").write_text("\n".join(["person,key,value", *rows]))
    plan, tally, reports = (str(folder / name) for name in ("plan.json", "tally.kv", "reports.kv"))
    coins = ("--coins", f"run {run_number}")
    table = str(folder / "people.csv")
    assert run(["privatise", plan, table, *coins, "-o", reports, "--force"]) == 0
    assert run(["tally", plan, reports, "-o", tally, "--force"]) == 0
    capsys.readouterr()
    named = () if estimator is None else ("--estimator", estimator)
    assert run(["estimate", plan, tally, "--json", *named]) == 0
    document = json.loads(capsys.readouterr().out)
    keys = document["keys"] if isinstance(document, dict) else document
    values = np.array([[key[kind]["value"] for key in keys] for kind in ("frequency", "mean")], float)
    values = np.clip(np.nan_to_num(values), [[0.0], [-1.0]], 1.0)
    frequency, mean = ((values - np.array([CROWD.frequency, CROWD.mean])) ** 2).mean(axis=1).tolist()
    return frequency, mean


@pytest.mark.sampled
def test_commands_have_the_errors_that_compare_shows(tmp_path, capsys):
    """8 repetitions; the mean error lies more than eight standard errors off once in 10^4 or less.

    The twin answers without shrinkage, and is told apart.
    """
    options = ("--keys", str(KEYS), "--epsilon", "0.5", "--people", str(PEOPLE))
    path = str(tmp_path / "plan.json")
    assert run(["plan", "--mechanism", "auto", *options, "--one-round", "--anyway", "-o", path]) == 0
    contest = Contest(CROWD, PEOPLE, 200, Coins.stated("compare"))
    row = contest.rows("auto:one_round", "0.5")[0]
    expected = np.array([row.mse_frequency, row.mse_mean])
    errors = np.array([errors_in_files(tmp_path, capsys, None, number) for number in range(RUNS)])
    spread = errors.std(axis=0, ddof=1) / np.sqrt(RUNS)
    assert (np.abs(errors.mean(axis=0) - expected) < 8 * spread).all()
    raw = [errors_in_files(tmp_path, capsys, "least_squares", number) for number in range(3)]
    assert (np.mean(raw, axis=0) > 2 * expected).all()
