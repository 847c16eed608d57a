"""Fig. 5: F2M against its default value, at equal nominal and, which the paper misses, true epsilon."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...people.prior import GRID
from ...people.synthetic import KnownPopulation, normal_values, of_keys
from . import figures
from .compared import Line, measure
from .epsilon_splits import by_default
from .experiment import (
    Claim,
    Figure,
    Job,
    Row,
    Setup,
    averages,
    below,
    number,
    only_if,
    only_row,
    select_rows,
    verdict,
)

NAME = ROWS_OF = "fig5"
TITLE = "Fig. 5: F2M against its default value"
ABOUT = (
    "100,000 reports for each key, the paper's estimator. Nominal: epsilon / 2 each for key and "
    "value, as the paper has it, which proves less than epsilon unless the default is -1 or 1. True: "
    "budgets raised until the proof uses all of epsilon."
)

CSV = f"numbers/{NAME}.csv"
DEFAULTS = (-1.0, -0.75, -0.5, -0.25, 0.0, 0.25, 0.5, 0.75, 1.0)
QUICK = (-1.0, -0.5, 0.0, 0.5, 1.0)
EPSILONS = (0.5, 1.0)
REPORTS = 100_000
KINDS = {"Gaussian": None, "low average": -0.8, "high average": 0.8}
CALIBRATIONS = {"paper": "nominal", "tight": "true"}
FLAT = 1.1
"""Errors that stay within a tenth of each other do not fluctuate."""


def jobs(setup: Setup) -> list[Job]:
    return [
        Job({"data": data, "epsilon": epsilon, "calibrate": calibrate}, 2.0)
        for data in KINDS
        for epsilon in EPSILONS
        for calibrate in CALIBRATIONS
    ]


def data_set(setup: Setup, data: str) -> KnownPopulation:
    """The Gaussian data, or twenty keys of frequency 0.6 with one average."""
    average = KINDS[data]
    if average is None:
        return setup.gaussian
    return of_keys(np.full(20, 0.6), np.full(20, average), normal_values)


def work(setup: Setup, what: dict[str, Any]) -> list[Row]:
    population = data_set(setup, what["data"])
    people = REPORTS * len(population.schema.keys)
    runs = setup.runs(50, 30)
    rows = []
    for default in QUICK if setup.quick else DEFAULTS:
        line = Line("F2M", "f2m", "published", what["calibrate"], {"default": f"{default:g}"})
        coins = setup.coins(NAME, *what.values(), default)
        errors = measure(line, population, what["epsilon"], people, coins, runs)
        off = errors.mean
        rows.append(
            {
                **what,
                "default": default,
                "true_epsilon": errors.epsilon,
                "reports": REPORTS,
                "repetitions": len(runs),
                **averages("mean", off),
                "rounding": rounding(population, default),
            }
        )
    return rows


def rounding(population: KnownPopulation, default: float) -> float:
    """The part of a mean's squared error that rounding to -1 or 1 makes, averaged over keys; exact.

    F2M's value bit tells the held values and, for absent keys, the default. Its mean is f m + (1 - f)
    times the default, from which m is found by dividing by f. Rounding v to -1 or 1 has variance
    1 - v^2.
    """
    prior = population.prior()
    f = prior.frequency
    held = f * (1 - prior.values @ GRID**2)
    spread = (held + (1 - f) * (1 - default**2)) / (REPORTS * f**2)
    return float(prior.count @ spread / prior.count.sum())


def draw(setup: Setup, rows: list[Row]) -> list[Figure]:
    colours = dict(zip(KINDS, figures.SPARE, strict=False))
    marks = dict(zip(KINDS, "osD", strict=False))
    with figures.look() as pyplot:
        figure, grid = figures.panels(pyplot, 1, 2, 10.5, 4.6, top=0.9, bottom=0.75)
        for panel, epsilon in zip(grid[0], EPSILONS, strict=True):
            for data in KINDS:
                for calibrate, words in CALIBRATIONS.items():
                    own = select_rows(rows, data=data, epsilon=epsilon, calibrate=calibrate)
                    panel.plot(
                        [row["default"] for row in own],
                        [row["mae_mean"] for row in own],
                        marker=marks[data],
                        color=colours[data],
                        linestyle="-" if calibrate == "paper" else "--",
                        label=f"{data}, {words} epsilon",
                    )
            panel.set_title(f"epsilon {epsilon:g}")
            panel.set_xlabel("default value of absent keys")
            panel.set_ylabel("absolute error of the mean")
            panel.set_ylim(0, 1.08 * max(row["mae_mean"] for row in select_rows(rows, epsilon=epsilon)))
        figures.legend(figure, grid, 3)
        note = f"{REPORTS:,} reports for each key, {rows[0]['repetitions']} repetitions"
        figures.note(figure, f"{note}. Gaussian: 100 keys, others: 20 keys of f = 0.6, m = -0.8 or 0.8.")
        caption = (
            "Fig. 5: F2M's mean error against its default value, as published and at equal true "
            f"epsilon; {note}."
        )
        return [Figure(NAME, caption, figure)]


def _ends(rows: list[Row], data: str, epsilon: float) -> tuple[Row, Row]:
    """The defaults with the smallest and the largest error, as published."""
    own = select_rows(rows, data=data, epsilon=epsilon, calibrate="paper")
    return min(own, key=_error), max(own, key=_error)


def _error(row: Row) -> float:
    return float(row["mae_mean"])


def claims(setup: Setup, rows: list[Row]) -> list[Claim]:
    ends = {data: [_ends(rows, data, epsilon) for epsilon in EPSILONS] for data in KINDS}
    ranges = {
        data: max(worst["mae_mean"] / best["mae_mean"] for best, worst in pairs)
        for data, pairs in ends.items()
    }

    def moves(data: str, times: float = 1.0) -> bool:
        """Whether the error clearly changes by more than a factor."""
        return any(below(best, worst, "mae_mean", 1 / times) for best, worst in ends[data])

    gains, proven = {}, {}
    for epsilon in EPSILONS:
        at = {"data": "Gaussian", "epsilon": epsilon}
        best = only_row(rows, **at, calibrate="tight", default=0.0)
        usual = only_row(rows, **at, calibrate="paper", default=1.0)
        gains[epsilon] = usual["mse_mean"] / best["mse_mean"]
        proven[epsilon] = only_row(rows, **at, calibrate="paper", default=0.0)["true_epsilon"]
    nominal = [
        only_row(rows, data="Gaussian", epsilon=1.0, calibrate="paper", default=v) for v in (0.0, 1.0)
    ]
    rounded = nominal[0]["mae_mean"] / nominal[1]["mae_mean"]
    return [
        Claim(
            "Sec. VI-C",
            "The performance of F2M does not fluctuate when the default value changes.",
            verdict(True)
            if not any(moves(data, FLAT) for data in KINDS)
            else only_if("keys' means lie around 0; a default on the far side of the mean costs")
            if not moves("Gaussian")
            else verdict(False),
            "Largest mean absolute error over the smallest among the defaults, at equal nominal "
            "epsilon: " + ", ".join(f"{data} {ratio:.2f}" for data, ratio in ranges.items()) + ".",
            NAME,
        ),
        Claim(
            "Sec. VI-C",
            "A default of 1 avoids additional errors, as it is always rounded to 1.",
            verdict(below(nominal[1], nominal[0], "mae_mean")),
            f"At epsilon 1 on Gaussian data the error with default 0 is {rounded:.2f} times that with "
            "1 at equal nominal epsilon; but default 0 proves only "
            + ", ".join(f"{number(p)} of {e:g}" for e, p in proven.items())
            + ", and with all of epsilon used its squared error is "
            + ", ".join(f"{g:.2f} times smaller at epsilon {e:g}" for e, g in gains.items())
            + " than default 1's.",
            NAME,
        ),
        _discretization(rows),
        default_affects_only_the_mean(setup.gaussian),
    ]


SAME = 1e-6
"""Variances that differ by less are the same: laws are multiples of 2^-32."""


def default_affects_only_the_mean(population: KnownPopulation) -> Claim:
    """Computed from the channels: how far the frequency's variance depends on the default."""
    spread, least = {}, {}
    for calibrate in CALIBRATIONS:
        for epsilon in EPSILONS:
            spreads = {
                default: variance.frequency
                for default, variance in by_default(epsilon, population, calibrate).items()
            }
            spread[calibrate, epsilon] = max(spreads.values()) / min(spreads.values()) - 1
            least[calibrate, epsilon] = spreads["0"] / spreads["1"]
    same = {
        calibrate: all(spread[calibrate, epsilon] < SAME for epsilon in EPSILONS)
        for calibrate in CALIBRATIONS
    }
    return Claim(
        "Sec. VI-C",
        "Setting the default only affects the process of mean estimation.",
        verdict(same["paper"])
        if same["paper"] == same["tight"]
        else only_if("epsilon is the nominal one; a default of 0 proves less and leaves room"),
        "Computed from the channels, the paper's estimator, Gaussian: at equal nominal epsilon the "
        f"frequency's variance is the same for all defaults (to {SAME:g}), since the key's bit does not "
        "see the default. With all of epsilon used, default 0's is "
        + ", ".join(f"{least['tight', e]:.2f} times default 1's at epsilon {e:g}" for e in EPSILONS)
        + ".",
        CSV,
    )


NEGLIGIBLE = 0.1
"""Less than a tenth of the squared error is."""


def _discretization(rows: list[Row]) -> Claim:
    shares = {
        epsilon: [
            row["rounding"] / row["mse_mean"]
            for row in select_rows(rows, epsilon=epsilon, calibrate="paper")
        ]
        for epsilon in EPSILONS
    }
    # A value bit has a variance of 1 / sinh(epsilon / 4)^2 by randomized response, and rounding of at
    # most 1: the two are equal where sinh is 1.
    equal = 4 * float(np.arcsinh(1.0))
    return Claim(
        "Sec. VI-C",
        "The noise introduced by discretization is negligible compared to that by the randomized "
        "response.",
        verdict(max(max(values) for values in shares.values()) < NEGLIGIBLE),
        "Share of the mean's squared error that rounding to -1 or 1 makes, over data sets and defaults: "
        + ", ".join(
            f"epsilon {epsilon:g} {min(values):.1%} to {max(values):.1%}"
            for epsilon, values in shares.items()
        )
        + f" (negligible: under {NEGLIGIBLE:.0%}). It rises with epsilon: a value bit's noise by "
        f"randomized response falls to that of rounding a 0 at epsilon {equal:.2f}.",
        CSV,
    )
