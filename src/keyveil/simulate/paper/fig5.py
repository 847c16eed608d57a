"""Fig. 5: F2M against its default value, at equal nominal and at equal true epsilon."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from ...people.prior_laws import GRID
from ...people.synthetic import KnownPopulation, normal_values, of_keys
from . import figures
from .compared import Line, measure
from .epsilon_splits import by_default
from .evidence import averages, below, listed, number, only_row, select_rows, verdict
from .experiment import Claim, Experiment, Figure, Job, Row, Setup

ABOUT = (
    "100,000 reports for each key, the paper's estimator. Nominal: epsilon / 2 each for key and "
    "value, as the paper has it, which proves less than epsilon unless the default is -1 or 1. True: "
    "budgets raised until the proof uses all of epsilon."
)

NAME = "fig5"
CSV = f"numbers/{NAME}.csv"
DEFAULTS = (-1.0, -0.75, -0.5, -0.25, 0.0, 0.25, 0.5, 0.75, 1.0)
QUICK = (-1.0, -0.5, 0.0, 0.5, 1.0)
EPSILONS = (0.5, 1.0)
REPORTS = 100_000
KINDS = {"Gaussian": None, "low average": -0.8, "high average": 0.8}
LOOK = {"Gaussian": ("#0072B2", "o"), "low average": ("#D55E00", "s"), "high average": ("#009E73", "D")}
CALIBRATIONS = {"paper": "nominal", "tight": "true"}
FLAT = 1.1
"""Errors that stay within a tenth of each other do not fluctuate."""
SAME = 1e-6
"""Variances that differ by less are the same: laws are multiples of 2^-32."""
NEGLIGIBLE = 0.1
"""The share of the squared error below which noise is negligible."""


def jobs(setup: Setup) -> list[Job]:
    return [
        Job({"data": data, "epsilon": epsilon, "calibrate": calibrate}, 2.0)
        for data in KINDS
        for epsilon in EPSILONS
        for calibrate in CALIBRATIONS
    ]


def work(setup: Setup, what: dict[str, Any]) -> list[Row]:
    average = KINDS[what["data"]]
    population: KnownPopulation = setup.gaussian
    if average is not None:
        population = of_keys(np.full(20, 0.6), np.full(20, average), normal_values)
    people = REPORTS * len(population.schema.keys)
    runs = range(setup.pick(50, 30))
    rows = []
    for default in setup.pick(DEFAULTS, QUICK):
        line = Line("F2M", "f2m", "published", what["calibrate"], {"default": f"{default:g}"})
        coins = setup.coins(NAME, *what.values(), default)
        (errors,) = measure([line], population, what["epsilon"], people, coins, runs)
        rows.append(
            {
                **what,
                "default": default,
                "true_epsilon": errors.epsilon,
                "reports": REPORTS,
                "repetitions": len(runs),
                **averages("mean", errors.mean),
                "rounding": rounding(population, default),
            }
        )
    return rows


def rounding(population: KnownPopulation, default: float) -> float:
    """The part of a mean's squared error that rounding to -1 or 1 makes, averaged over keys; exact.

    F2M's value bit is the rounded value of a held key and, for absent keys, the rounded default. Its
    mean is f m + (1 - f) times the default, and dividing by f gives m. Rounding v to -1 or 1 has
    variance 1 - v^2.
    """
    prior = population.prior()
    f = prior.frequency
    held = f * (1 - prior.values @ GRID**2)
    spread = (held + (1 - f) * (1 - default**2)) / (REPORTS * f**2)
    return float(prior.count @ spread / prior.count.sum())


def draw(setup: Setup, rows: list[Row]) -> list[Figure]:
    figure, grid = figures.panels(1, 2, 10.5, 4.6, top=0.9, bottom=0.75)
    for panel, epsilon in zip(grid[0], EPSILONS, strict=True):
        for (data, (colour, mark)), calibrate in product(LOOK.items(), CALIBRATIONS):
            own = select_rows(rows, data=data, epsilon=epsilon, calibrate=calibrate)
            panel.plot(
                [row["default"] for row in own],
                [row["mae_mean"] for row in own],
                marker=mark,
                color=colour,
                linestyle="-" if calibrate == "paper" else "--",
                label=f"{data}, {CALIBRATIONS[calibrate]} epsilon",
            )
        panel.set_title(f"epsilon {epsilon:g}")
        panel.set_xlabel("default value of absent keys")
        panel.set_ylabel("absolute error of the mean")
        panel.set_ylim(0, 1.08 * max(row["mae_mean"] for row in select_rows(rows, epsilon=epsilon)))
    size = f"{REPORTS:,} reports for each key, {rows[0]['repetitions']} repetitions"
    note = f"{size}. Gaussian: 100 keys, others: 20 keys of f = 0.6, m = -0.8 or 0.8."
    caption = (
        "Fig. 5: F2M's mean error against its default value, as published and at equal true "
        f"epsilon; {size}."
    )
    return [figures.finished(NAME, caption, figure, grid, columns=3, note=note)]


# -- claims ------------------------------------------------------------------------------------------


def claims(setup: Setup, rows: list[Row]) -> list[Claim]:
    return [_flat(rows), _avoids(rows), _discretization(rows), only_the_mean(setup.gaussian)]


def _flat(rows: list[Row]) -> Claim:
    """The error does not depend on the default."""
    ends = {}
    for data in KINDS:
        by_epsilon = [select_rows(rows, data=data, epsilon=e, calibrate="paper") for e in EPSILONS]
        ends[data] = [sorted(own, key=lambda row: float(row["mae_mean"])) for own in by_epsilon]

    def moves(data: str, times: float = 1.0) -> bool:
        """Whether the error clearly changes by more than a factor."""
        return any(below(best, worst, "mae_mean", 1 / times) for best, *_, worst in ends[data])

    ranges = {
        data: max(worst["mae_mean"] / best["mae_mean"] for best, *_, worst in by_epsilon)
        for data, by_epsilon in ends.items()
    }
    condition = "keys' means lie around 0; a default on the far side of the mean costs"
    return Claim(
        "Sec. VI-C",
        "The performance of F2M does not fluctuate when the default value changes.",
        verdict(not any(moves(data, FLAT) for data in KINDS), None if moves("Gaussian") else condition),
        "Largest mean absolute error over the smallest among the defaults, at equal nominal "
        f"epsilon: {listed(ranges, '{:.2f}'.format)}.",
        NAME,
    )


def _avoids(rows: list[Row]) -> Claim:
    """A default of 1 is better than 0."""

    def at(epsilon: float, default: float, calibrate: str = "paper") -> Row:
        setting = {"epsilon": epsilon, "default": default, "calibrate": calibrate}
        return only_row(rows, data="Gaussian", **setting)

    rounded = at(1.0, 0.0)["mae_mean"] / at(1.0, 1.0)["mae_mean"]
    proven = {e: at(e, 0.0)["true_epsilon"] for e in EPSILONS}
    gains = {e: at(e, 1.0)["mse_mean"] / at(e, 0.0, "tight")["mse_mean"] for e in EPSILONS}
    return Claim(
        "Sec. VI-C",
        "A default of 1 avoids additional errors, as it is always rounded to 1.",
        verdict(below(at(1.0, 1.0), at(1.0, 0.0), "mae_mean")),
        f"At epsilon 1 on Gaussian data the error with default 0 is {rounded:.2f} times that with "
        "1 at equal nominal epsilon; but default 0 proves only "
        + ", ".join(f"{number(p)} of {e:g}" for e, p in proven.items())
        + ", and with all of epsilon used its squared error is "
        + ", ".join(f"{g:.2f} times smaller at epsilon {e:g}" for e, g in gains.items())
        + " than default 1's.",
        NAME,
    )


def only_the_mean(population: KnownPopulation) -> Claim:
    """Computed from the channels: how far the frequency's variance depends on the default."""
    same, least = {}, {}
    for calibrate in CALIBRATIONS:
        spreads = []
        for epsilon in EPSILONS:
            by_value = by_default(epsilon, population, calibrate)
            variances = [variance.frequency for variance in by_value.values()]
            spreads.append(max(variances) / min(variances) - 1)
            least[calibrate, epsilon] = by_value["0"].frequency / by_value["1"].frequency
        same[calibrate] = max(spreads) < SAME
    condition = "epsilon is the nominal one; a default of 0 proves less and leaves room"
    return Claim(
        "Sec. VI-C",
        "Setting the default only affects the process of mean estimation.",
        verdict(all(same.values()), condition if any(same.values()) else None),
        "Computed from the channels, the paper's estimator, Gaussian: at equal nominal epsilon the "
        f"frequency's variance is the same for all defaults (to {SAME:g}), since the key's bit does not "
        "see the default. With all of epsilon used, default 0's is "
        + ", ".join(f"{least['tight', e]:.2f} times default 1's at epsilon {e:g}" for e in EPSILONS)
        + ".",
        CSV,
    )


def _discretization(rows: list[Row]) -> Claim:
    shares = {}
    for epsilon in EPSILONS:
        own = select_rows(rows, epsilon=epsilon, calibrate="paper")
        shares[f"epsilon {epsilon:g}"] = [row["rounding"] / row["mse_mean"] for row in own]
    # A value bit has a variance of 1 / sinh(epsilon / 4)^2 by randomized response, and rounding of at
    # most 1: the two are equal where sinh is 1.
    equal = 4 * float(np.arcsinh(1.0))
    return Claim(
        "Sec. VI-C",
        "The noise introduced by discretization is negligible compared to that by the randomized "
        "response.",
        verdict(max(map(max, shares.values())) < NEGLIGIBLE),
        "Share of the mean's squared error that rounding to -1 or 1 makes, over data sets and defaults: "
        + listed(shares, lambda values: f"{min(values):.1%} to {max(values):.1%}")
        + f" (negligible: under {NEGLIGIBLE:.0%}). It rises with epsilon: a value bit's noise by "
        f"randomized response falls to that of rounding a 0 at epsilon {equal:.2f}.",
        CSV,
    )


TITLE = "Fig. 5: F2M against its default value"
EXPERIMENTS = {NAME: Experiment(NAME, TITLE, ABOUT, jobs, work, draw, claims)}
