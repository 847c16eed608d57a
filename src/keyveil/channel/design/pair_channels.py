"""Workload-optimal channels for a pair of two-level keys: solved once, shipped as integers.

A channel is a mixture of patterns (see ``patterns``). So the best channel for the conditionals of a pair
is a convex program over the weights of the 2^9 - 2 patterns. Its solution is symmetric: swapping the two
keys, or reversing the values of one, does not change it. Patterns that these moves map onto each other
have the same weight, which leaves 100 variables. A linear program then picks one with few outputs among
all channels with the same information.

The objective is the larger of two errors, of conditional frequencies and of conditional means, each
relative to subset selection (``over_subset``). If V views hold each key, an answer combines the reports
of a view with what V - 1 other views say about its single keys. Let M be the Fisher information of the
states, T that of one key's levels if the rest is unknown, and P the columns that pick the key's levels.
Then an answer w has the variance

    w' (M + (V - 1) sum over keys of P T P')^-1 w.

T is the largest matrix with M - P T P' positive semidefinite, so the program stays convex with T as
variables. The more views hold a key, the more a channel should say about the two keys together, and the
less about each alone. So channels are shipped for the numbers of views in ``DESIGNED``, and every plan
takes the one with the least predicted error.

No conditional frequency or mean depends on E[v_a v_b], so the workload alone would leave it unknown, and
with it the single states. Its error is added with a weight of 1/100. That costs the workload 2 to 3 %,
and every state can be estimated, although E[v_a v_b] only coarsely.

``optimal_pairs.json`` holds the solutions for ``default_prior``: for each number of views and each
epsilon one pattern of each class, with its low weight over 2^32.
``python -m keyveil.channel.design.pair_channels`` (extra ``design``) writes it in about two minutes,
with the same bytes each time for the same solver.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ...foundation.arrays import WORD, Floats
from ...foundation.errors import ChannelError, PlanError
from ...foundation.exact import at_most, text
from .. import Table
from .patterns import (
    classes_of,
    every,
    favours,
    minimise,
    moves,
    orbit,
    rows_with_blank,
    shipped,
    solving,
)
from .view_channels import best_subset, checked_prior, default_prior, held_levels, workload

STATES = 9
DESIGNED = (1, 3, 15)
"""Numbers of views that hold each key in the shipped channels: all pairs of 2, 4 and 16 keys."""

SMALLEST_TABLED = Decimal("0.1")
LARGEST_SOLVED = Decimal(10)
TINY = 1e-6
"""Smallest share of reports of a class of patterns. Smaller ones are rounding errors of the solver."""

ASIDE = 0.01
"""Weight of the error of E[v_a v_b], relative to subset selection, in the objective."""

MOVES = moves(2, 2, True)
"""Swap the keys, reverse the values of the first, of the second: eight moves in all."""


def pair_table(weights: Mapping[int, int], epsilon: Decimal) -> Table:
    """The channel that sends each pattern with its low weight, and a blank with the rest of a row.

    ``weights`` lists all patterns, not one of each class. Outputs are in the order of patterns, the
    blank last.
    """
    patterns, lows = zip(*sorted(weights.items()), strict=True)
    return Table(rows_with_blank(patterns, lows, [at_most(low, epsilon) for low in lows], STATES))


# -- the shipped table ---------------------------------------------------------------------------


@cache
def tabled() -> dict[int, dict[Decimal, list[list[int]]]]:
    """One pattern of each class with its low weight, by number of views and epsilon, which ascends."""
    solutions = shipped("optimal_pairs.json", "views")
    return {int(views): channels for views, channels in solutions.items()}


@cache
def tabled_pair(epsilon: Decimal, views: int) -> Table:
    """The channel at a tabled epsilon and number of views."""
    known = tabled()[views][epsilon]
    return pair_table({p: low for first, low in known for p in orbit(first, MOVES)}, epsilon)


def designs(epsilon: Decimal) -> list[Table]:
    """For each tabled number of views, the channel at the largest tabled epsilon within the promise.

    The list is empty below the smallest tabled epsilon.
    """
    below = {views: [e for e in channels if e <= epsilon] for views, channels in tabled().items()}
    return [tabled_pair(max(known), views) for views, known in below.items() if known]


# -- the solver ----------------------------------------------------------------------------------


def solve_pair(epsilon: Decimal, prior: ArrayLike | None = None, views: float = 1) -> Table:
    """The channel with the least ``over_subset`` at the prior, apart from the error of E[v_a v_b]."""
    law = default_prior(2, 2) if prior is None else checked_prior(prior, STATES)
    weights = {p: low for members, low in _solved(epsilon, law, views) for p in members}
    table = pair_table(weights, epsilon)
    table.check(epsilon)
    return table


def _solved(epsilon: Decimal, law: Floats, views: float) -> list[tuple[tuple[int, ...], int]]:
    """The classes of patterns that are sent, each with its low weight."""
    if epsilon > LARGEST_SOLVED:
        raise PlanError(f"optimal channels are solved up to epsilon {LARGEST_SOLVED}; use grr above")
    # Only moves that do not change the prior leave the best channel unchanged.
    group = [m for m in MOVES if np.allclose(law[list(m)], law, rtol=0, atol=1e-12)]
    classes = classes_of(every(STATES), group)
    odds = float(epsilon.exp())
    # The columns of each class with low weight 1, their sum, and its probability at the prior.
    columns = [np.where(favours(members, STATES) == 1, odds, 1.0) for members in classes]
    sums = np.array([column.sum(axis=0) for column in columns])
    seen = sums @ law
    information = np.array([_information(column.T, law) for column in columns])
    states = sorted({min(move[state] for move in group) for state in range(STATES)})
    shares = _minimise(
        information / seen[:, None, None],
        sums[:, states] / seen[:, None],
        np.array([float(len(members)) for members in classes]),
        ErrorScale.of(_information(best_subset(STATES, epsilon).expected(), law), law, views),
    )
    sent = np.flatnonzero(shares > TINY)
    lows = _whole(shares[sent] / seen[sent], sums[sent], [classes[i] for i in sent], epsilon)
    return [(classes[i], low) for i, low in zip(sent, lows, strict=True)]


def _information(given: Floats, law: Floats) -> Floats:
    """The Fisher information of one report on the states. ``given`` has a column for each output."""
    return np.asarray((given / (law @ given)) @ given.T)


class ErrorScale(NamedTuple):
    """The program's coordinates, in which the information of subset selection is the identity.

    Near epsilon 0 all channels have little information; on this scale it is near one.
    """

    states: Floats
    """States to coordinates, a symmetric matrix."""
    singles: list[Floats]
    """For each key an orthonormal basis of the directions of its levels."""
    others: float
    """Number of other views that hold each key."""
    total: Floats
    """Coordinates to those in which subset selection's information of all views is the identity."""
    wanted: list[Floats]
    """Weights of frequencies, means and E[v_a v_b], each scaled to error 1 for subset selection."""

    @classmethod
    def of(cls, information: Floats, law: Floats, views: float) -> ErrorScale:
        states = _inverse_root(information)
        # Shares sum to one, so every channel knows this direction.
        certain = np.linalg.solve(states, law)
        free = np.eye(STATES) - np.outer(certain, certain)
        singles = [np.linalg.qr(free @ states @ levels)[0] for levels in held_levels(2, 2)]
        total = _inverse_root(np.eye(STATES) + (views - 1) * sum(basis @ basis.T for basis in singles))
        value = np.array([0.0, -1.0, 1.0])
        wanted = []
        for columns in (*workload(law, 2), np.outer(value, value).reshape(-1, 1)):
            scaled = total @ free @ states @ columns
            wanted.append(scaled / np.linalg.norm(scaled))
        return cls(states, singles, views - 1, total, wanted)


def _inverse_root(matrix: Floats) -> Floats:
    sizes, axes = np.linalg.eigh(matrix)
    return np.asarray((axes / np.sqrt(sizes)) @ axes.T)


def _minimise(information: Floats, sums: Floats, sizes: Floats, scale: ErrorScale) -> Floats:
    """The share of reports of each class at the prior that minimises the workload's error."""
    cvxpy = solving()

    def solve(objective: Any, constraints: list[Any], solver: str) -> Floats:
        minimise(cvxpy, objective, constraints, solver)
        return np.maximum(np.asarray(shares.value, np.float64), 0.0)

    flattened = (scale.states @ information @ scale.states).reshape(len(information), -1)
    shares = cvxpy.Variable(len(information), nonneg=True)
    own = cvxpy.reshape(flattened.T @ shares, (STATES, STATES), order="C")
    own = (own + own.T) / 2
    constraints, known = [sums.T @ shares == 1], own
    for single in scale.singles if scale.others > 0 else []:
        alone = cvxpy.Variable((2, 2), symmetric=True)
        constraints.append(own - single @ alone @ single.T >> 0)
        known = known + scale.others * (single @ alone @ single.T)
    known = scale.total @ known @ scale.total
    errors = [cvxpy.matrix_frac(wanted, (known + known.T) / 2) for wanted in scale.wanted]
    best = solve(cvxpy.maximum(*errors[:2]) + ASIDE * errors[2], constraints, "CLARABEL")
    # A corner of the channels with the same information: the one with the smallest classes.
    entries = np.unique(np.round(flattened, 9), axis=1, return_index=True)[1]
    alike = flattened[:, entries].T @ shares == flattened[:, entries].T @ best
    return solve(sizes @ shares, [sums.T @ shares == sums.T @ best, alike], "SCIPY")


def _whole(lows: Floats, sums: Floats, classes: list[tuple[int, ...]], epsilon: Decimal) -> list[int]:
    """Low weights over 2^32 that leave each row a few units for the blank, nearly the same number.

    First comes the smallest relative change that makes rows sum to one to the last digit, then weights
    are rounded down. The blank gets 16, 32, 64, ... more units until it keeps epsilon too.
    """
    spread = (sums.T * lows) @ sums
    lows = lows * (1.0 + sums @ (np.linalg.pinv(spread, hermitian=True) @ (1.0 - lows @ sums)))
    for power in range(4, 24):
        whole = [int(low) for low in np.floor(lows * (WORD - (1 << power)))]
        if min(whole) < 1:
            break
        left = [WORD] * STATES
        for members, low in zip(classes, whole, strict=True):
            high = at_most(low, epsilon)
            for pattern in members:
                left = [rest - (high if pattern >> x & 1 else low) for x, rest in enumerate(left)]
        if min(left) > 0 and max(left) <= at_most(min(left), epsilon):
            return whole
    raise ChannelError(f"2^32 is too coarse for the optimal channel at epsilon {text(epsilon)}")


def epsilon_grid() -> list[Decimal]:
    """Epsilons: 0.1 to 1 by 0.01, to 3 by 0.02, to 6 by 0.1. From about 3 on k-RR is optimal."""
    hundredths = [*range(10, 100), *range(100, 300, 2), *range(300, 601, 10)]
    return [Decimal(number) / 100 for number in hundredths]


def main() -> None:
    """Solve for the whole grid and write the tables next to this module."""
    law, tables = default_prior(2, 2), []
    for views in DESIGNED:
        lines = []
        for epsilon in epsilon_grid():
            classes = sorted([members[0], low] for members, low in _solved(epsilon, law, views))
            lines.append(f"  {json.dumps(text(epsilon))}: {json.dumps(classes, separators=(',', ':'))}")
        tables.append(f' "{views}": {{\n' + ",\n".join(lines) + "\n }")
    whole = '{"states": 9, "views": {\n' + ",\n".join(tables) + "\n}}\n"
    Path(__file__).with_name("optimal_pairs.json").write_text(whole, "utf-8")


if __name__ == "__main__":
    main()
