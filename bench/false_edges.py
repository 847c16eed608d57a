"""How often learners find something among independent keys; used by ``python -m bench.learn``."""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.stats import chi2

from keyveil import Coins, Plan
from keyveil.estimate.learn import DecisionTree, rules
from keyveil.estimate.learn.bonds import dependence, squared_size
from keyveil.estimate.learn.independence import keys_independence
from keyveil.estimate.learn.released import Released
from keyveil.estimate.together.conditional import Conditionals
from keyveil.people.synthetic import of_keys, uniform_values
from keyveil.simulate.tallies import simulate

from .table import Table

LEVEL = 0.05


class Setting(NamedTuple):
    """Independent keys, held by ``share`` of people each, and reports for each view (or pair)."""

    mechanism: str
    keys: int
    share: float
    epsilon: float
    reports: int


SETTINGS = (
    Setting("pairs", 6, 0.5, 4, 75),
    Setting("pairs", 6, 0.5, 1, 75),
    Setting("pairs", 6, 0.5, 4, 1000),
    Setting("pairs", 6, 0.1, 4, 75),
    Setting("ioh", 6, 0.5, 4, 75),
    Setting("ioh", 6, 0.1, 4, 75),
    Setting("pairs", 12, 0.5, 4, 75),
    Setting("pairs", 12, 0.1, 4, 75),
    Setting("triples", 12, 0.5, 4, 75),
    Setting("triples", 12, 0.1, 4, 75),
    Setting("coefficients", 12, 0.5, 4, 75),
    Setting("coefficients", 12, 0.1, 4, 75),
    Setting("pair_collision", 12, 0.5, 4, 75),
    Setting("pair_collision", 12, 0.5, 4, 1000),
    Setting("pair_collision", 12, 0.1, 4, 75),
    Setting("pair_collision", 12, 0.1, 1, 75),
    Setting("pair_collision", 12, 0.03, 4, 30),
)


def wald(released: Released, first: int, second: int) -> float:
    """The p-value of independence from the estimated covariance and the tail of chi-square."""
    states = released.states
    moments = released.evidence.moments((first, second), np.eye(states**2).reshape(states, states, -1))
    if moments is None:
        return 1.0
    joint = moments.values.reshape(states, states)
    return float(chi2.sf(*squared_size(*dependence(joint, moments.covariance))))


def false_findings(setting: Setting, runs: int) -> tuple[float, float, float, float]:
    """Shares of runs with an edge, a split and a rule, and with an edge by ``wald``; all are false."""
    population = of_keys(np.full(setting.keys, setting.share), np.zeros(setting.keys), uniform_values)
    plan = Plan.of(population.schema, setting.mechanism, setting.epsilon)
    pairs = list(combinations(range(setting.keys), 2))
    views = len(plan.views) if len(plan.views) > 1 else len(pairs)
    counts = np.zeros(4)
    for run in range(runs):
        coins = Coins.stated(f"false edges {setting}")
        source = Conditionals(plan, simulate(plan, population, setting.reports * views, coins, run))
        released = Released(source)
        edge = min(keys_independence(released, *pair) for pair in pairs) * len(pairs) < LEVEL
        split = (
            DecisionTree(population.schema.keys[0], 1, 0.0, significance=LEVEL).fit(source).root_.split
        )
        old = min(wald(released, *pair) for pair in pairs) * len(pairs) < LEVEL
        counts += (edge, split is not None, bool(rules(source, false_discovery=LEVEL)), old)
    edges, splits, listed, old = (counts / runs).tolist()
    return edges, splits, listed, old


def false_finding_table(runs: int) -> Table:
    """A row for each setting."""
    rows = []
    for setting in SETTINGS:
        shares = false_findings(setting, runs)
        rows.append(
            (
                setting.mechanism,
                *(f"{part:g}" for part in setting[1:]),
                *(f"{100 * share:.1f}" for share in shares),
            )
        )
        print(*rows[-1], flush=True)
    return Table(
        f"independent keys: % of {runs} runs with a false finding at a level of 5 %",
        (
            "mechanism",
            "keys",
            "frequency",
            "ε",
            "reports per view",
            "edge (Chow-Liu)",
            "split (tree)",
            "rule",
            "edge, Wald test",
        ),
        tuple(rows),
    )
