"""Errors, coverage and forecasts of the default answers where each key has few reports.

``python -m bench.few_reports [--write] [--repeat 100]``: the paper's normal population with 100 keys, as
often as needed for 5, 10, 20 and 50 reports a key; the variance of frequencies is known to be hardest to
estimate for keys that most people hold, so a population of such keys is measured beside it.
"""

from __future__ import annotations

import argparse

import numpy as np

from bench.estimators import write
from keyveil import Coins, People, Schema
from keyveil.people.synthetic import gaussian
from keyveil.simulate.contest import Contest
from keyveil.simulate.tallies import Population

KEYS, PEOPLE = 100, 5_000
REPORTS = (5, 10, 20, 50)
PLANS = ("kvue", "optimal:frequency=0.7+spread=0.6", "several:spread=0.3")
EPSILONS = ("2", "4")
NEAR_ALL = (0.85, 0.99)
"""The smallest and the largest frequency of keys that most people hold."""
HEADER = [
    "| population | reports a key | plan | epsilon | covered, f | m | best / raw, f | m | "
    "predicted / measured, f | m |",
    "| --- | --: | --- | --: | --: | --: | --: | --: | --: | --: |",
]


def near_all() -> Population:
    """Keys that most people hold, each at one end of the range for everyone."""
    draw = Coins.stated("bench few reports").generator()
    frequency, value = np.linspace(*NEAR_ALL, KEYS), draw.choice([-1.0, 1.0], KEYS)
    held = draw.random((PEOPLE, KEYS)) < frequency
    records = [{str(key): float(value[key]) for key in np.flatnonzero(row)} for row in held]
    schema = Schema.of(KEYS)
    return Population(schema, People.of_records(schema, records))


def line(contest: Contest, name: str, reports: int, plan: str, epsilon: str) -> str:
    """One setting: how often truths are covered, the error beside that of raw answers, the forecast."""
    raw, best = (row.document() for row in contest.rows(plan, epsilon))
    cells = [name, str(reports), plan, epsilon]
    cells += [f"{best[f'coverage_{of}']:.1%}" for of in ("frequency", "mean")]
    cells += [f"{best[f'mse_{of}'] / raw[f'mse_{of}']:.2f}" for of in ("frequency", "mean")]
    for of in ("frequency", "mean"):
        ratio = best[f"predicted_{of}"] / best[f"mse_{of}"]
        cells.append(f"{ratio:.2f} ± {ratio * best[f'mse_{of}_se'] / best[f'mse_{of}']:.2f}")
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Measure, print, and with ``--write`` put the table into the docs."""
    parser = argparse.ArgumentParser(prog="python -m bench.few_reports", description=__doc__)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--repeat", type=int, default=100)
    given = parser.parse_args()
    lines = list(HEADER)
    populations = {"gaussian": gaussian(KEYS).on_unit_scale(), "most people": near_all()}
    for name, population in populations.items():
        for reports in REPORTS:
            contest = Contest(
                population, reports * KEYS, given.repeat, Coins.stated("bench few reports").under(name),
                estimators=("least_squares", "best"),
            )  # fmt: skip
            for plan in PLANS:
                for epsilon in EPSILONS:
                    lines.append(line(contest, name, reports, plan, epsilon))
                    print(lines[-1], flush=True)
    if given.write:
        write("few-reports", lines)


if __name__ == "__main__":
    main()
