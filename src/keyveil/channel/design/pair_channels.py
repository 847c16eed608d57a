"""Workload-optimal channels for a pair of two-level keys: solved once, shipped as integers.

Every column of a channel that keeps epsilon is a sum of patterns, columns with only two weights, low
and e^epsilon * low, and splitting a column loses nothing. So the best channel for the conditionals of
a pair is a convex program over how often each of the 2^9 - 2 patterns is sent. It does not change when
the two keys are swapped or either one's values are turned round; patterns that these moves map onto
each other have the same weight, which leaves 100 variables and makes the solution exactly symmetric.
Of all channels with the same information, one with few outputs is then picked by a linear program.

What is least is the larger of two errors, of conditional frequencies and of conditional means, each
over that of subset selection (``over_subset``). Where V views hold each key, an answer is made of a
view's own reports and of what V - 1 others know of its single keys. With M the Fisher information of
the states, and T that of one key's levels when the rest is unknown, an answer w has the variance

    w' (M + (V - 1) sum over keys of P T P')^-1 w,

P the columns that pick the key's levels. T is the largest matrix with M - P T P' positive
semidefinite, so the program stays convex with T as variables. The more views hold a key, the more a
channel should tell how two keys go together, and the less of each alone: channels are shipped for the
numbers of views in ``DESIGNED``, and every plan takes the one with the least predicted error.

The workload alone would leave E[v_a v_b] unseen, and with it the single states: no conditional
frequency or mean needs it. Its error is added with a weight of 1/100, which costs the workload 2 to
3 % and lets every state be estimated, though how values go together only coarsely.

``optimal_pairs.json`` holds the solutions for ``default_prior``: for each number of views and each
epsilon one pattern of each class, as a number whose bit x is set where state x is favoured, with its
low weight over 2^32. ``python -m keyveil.channel.design.pair_channels`` (extra ``design``) makes it in
about two minutes, the same bytes each time with the same solver.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ...foundation.arrays import WORD, Floats
from ...foundation.errors import ChannelError, PlanError
from ...foundation.exact import at_most, text
from .. import Table
from .patterns import minimise, moves, orbit, rows_with_blank, solving
from .view_channels import best_subset, checked_prior, default_prior, held_levels, workload

STATES = 9
DESIGNED = (1, 3, 15)
"""Numbers of views that hold each key: the shipped channels are for pairs of 2, of 4, of 16 keys."""

SMALLEST_TABLED = Decimal("0.1")
LARGEST_SOLVED = Decimal(10)
TINY = 1e-6
"""A class of patterns that fewer reports than this would show is a solver's noise."""

ASIDE = 0.01
"""The weight of the error of E[v_a v_b], over that of subset selection, beside the workload's."""

MOVES = moves(2, 2, True)
"""Swap the keys, turn round the values of the first, of the second: eight moves in all."""


def pair_table(weights: Mapping[int, int], epsilon: Decimal) -> Table:
    """The channel that sends each pattern with its low weight; the rest of a row is a blank.

    ``weights`` are of all patterns, not of one in each class. Outputs stand in the patterns' order,
    the blank last.
    """
    patterns, lows = zip(*sorted(weights.items()), strict=True)
    return Table(rows_with_blank(patterns, lows, [at_most(low, epsilon) for low in lows], STATES))


# -- the shipped table ---------------------------------------------------------------------------


@cache
def tabled() -> dict[int, dict[Decimal, list[list[int]]]]:
    """For each number of views, and each tabled epsilon in rising order: the classes that are sent.

    Of each class one pattern and its low weight.
    """
    document = json.loads(files(__package__).joinpath("optimal_pairs.json").read_text("utf-8"))
    return {
        int(views): {Decimal(epsilon): classes for epsilon, classes in channels.items()}
        for views, channels in document["views"].items()
    }


@cache
def tabled_pair(epsilon: Decimal, views: int) -> Table:
    """The channel at a tabled epsilon and number of views."""
    known = tabled()[views][epsilon]
    return pair_table({p: low for first, low in known for p in orbit(first, MOVES)}, epsilon)


def designs(epsilon: Decimal) -> list[Table]:
    """For each tabled number of views the channel at the largest tabled epsilon within the promise.

    None at all below the smallest.
    """
    below = {views: [e for e in channels if e <= epsilon] for views, channels in tabled().items()}
    return [tabled_pair(max(known), views) for views, known in below.items() if known]


# -- the solver ----------------------------------------------------------------------------------


def solve_pair(epsilon: Decimal, prior: ArrayLike | None = None, views: float = 1) -> Table:
    """The channel with the least ``over_subset`` at the prior (but for E[v_a v_b], see above)."""
    law = default_prior(2, 2) if prior is None else checked_prior(prior, STATES)
    weights = {p: low for members, low in _solved(epsilon, law, views) for p in members}
    table = pair_table(weights, epsilon)
    table.check(epsilon)
    return table


def _solved(epsilon: Decimal, law: Floats, views: float) -> list[tuple[tuple[int, ...], int]]:
    """The classes of patterns that are sent, each with its low weight."""
    if epsilon > LARGEST_SOLVED:
        raise PlanError(f"optimal channels are solved up to epsilon {LARGEST_SOLVED}; use grr above")
    # Only moves that leave the prior as it is leave the best channel as it is.
    group = [m for m in MOVES if np.allclose(law[list(m)], law, rtol=0, atol=1e-12)]
    classes = sorted({orbit(pattern, group) for pattern in range(1, (1 << STATES) - 1)})
    odds = float(epsilon.exp())
    # For each class the sum over its members of their columns with low weight 1, and their seen share.
    columns = [_columns(members, odds) for members in classes]
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
    """The Fisher information of the states, from one report whose outputs are the columns."""
    return np.asarray((given / (law @ given)) @ given.T)


class ErrorScale(NamedTuple):
    """The program's coordinates: in them subset selection's own information is the identity.

    Near epsilon 0 all channels tell next to nothing; on this scale they are numbers near one.
    """

    states: Floats
    """States to coordinates, a symmetric matrix."""
    singles: list[Floats]
    """For each key an orthonormal basis of what its levels are."""
    others: float
    """How many other views hold each key."""
    total: Floats
    """Coordinates to those in which subset selection knows all directions alike, other views' part
    included."""
    wanted: list[Floats]
    """Frequencies, means and E[v_a v_b], each with an error of 1 for subset selection."""

    @classmethod
    def of(cls, information: Floats, law: Floats, views: float) -> ErrorScale:
        states = _inverse_root(information)
        # Shares sum to one, so this direction, the same for every channel, is known.
        certain = np.linalg.solve(states, law)
        free = np.eye(STATES) - np.outer(certain, certain)
        singles = [np.linalg.qr(free @ states @ levels)[0] for levels in held_levels(2, 2)]
        total = _inverse_root(np.eye(STATES) + (views - 1) * sum(one @ one.T for one in singles))
        value = np.array([0.0, -1.0, 1.0])
        wanted = []
        for columns in (*workload(law, 2), np.outer(value, value).reshape(-1, 1)):
            scaled = total @ free @ states @ columns
            wanted.append(scaled / np.linalg.norm(scaled))
        return cls(states, singles, views - 1, total, wanted)


def _inverse_root(matrix: Floats) -> Floats:
    sizes, axes = np.linalg.eigh(matrix)
    return np.asarray((axes / np.sqrt(sizes)) @ axes.T)


def _columns(members: tuple[int, ...], odds: float) -> Floats:
    favoured = (np.array(members)[:, None] >> np.arange(STATES)) & 1
    return np.where(favoured == 1, odds, 1.0)


def _minimise(information: Floats, sums: Floats, sizes: Floats, scale: ErrorScale) -> Floats:
    """How often each class is seen at the prior, so that the workload's error is least."""
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
        told = cvxpy.Variable((2, 2), symmetric=True)
        constraints.append(own - single @ told @ single.T >> 0)
        known = known + scale.others * (single @ told @ single.T)
    known = scale.total @ known @ scale.total
    errors = [cvxpy.matrix_frac(wanted, (known + known.T) / 2) for wanted in scale.wanted]
    found = solve(cvxpy.maximum(*errors[:2]) + ASIDE * errors[2], constraints, "CLARABEL")
    # A corner of the channels that tell as much, the one that shows small classes most.
    entries = np.unique(np.round(flattened, 9), axis=1, return_index=True)[1]
    alike = flattened[:, entries].T @ shares == flattened[:, entries].T @ found
    return solve(sizes @ shares, [sums.T @ shares == sums.T @ found, alike], "SCIPY")


def _whole(lows: Floats, sums: Floats, classes: list[tuple[int, ...]], epsilon: Decimal) -> list[int]:
    """Low weights over 2^32 that leave every row a little for the blank, much the same in each.

    First the smallest relative change that makes rows sum to one to the last digit, then round down;
    the blank gets 16, 32, 64, ... units more until what the rows leave keeps epsilon too.
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
    """0.1 to 1 by 0.01, to 3 by 0.02, to 6 by 0.1: from about 3 on k-RR is optimal."""
    hundredths = [*range(10, 100), *range(100, 300, 2), *range(300, 601, 10)]
    return [Decimal(number) / 100 for number in hundredths]


def main() -> None:
    """Solve for the whole grid and write the tables beside this module."""
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
