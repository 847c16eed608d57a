"""The workload-optimal channel for a pair of two-level keys: solved once, shipped as integers.

Every column of a channel that keeps epsilon is a sum of patterns, columns with only two weights, low
and e^epsilon * low, and splitting a column loses nothing. So the best channel for the conditionals of
a pair is a convex program over how often each of the 2^9 - 2 patterns is sent: minimise the sum of
w' M^-1 w over the workload, M the Fisher information of the states. It does not change when the two
keys are swapped or either one's values are turned round; patterns that these moves map onto each
other have the same weight, which leaves 100 variables and makes the solution exactly symmetric. Of
all channels with the same M, one with few outputs is then picked by a linear program.

The workload alone would leave E[v_a v_b] unseen below epsilon 2.5, and with it the single states: no
conditional frequency or mean needs it. It is added with a weight of 1/100, which costs the workload
1 to 2 % and lets every state be estimated, though how values go together only coarsely.

``optimal_pairs.json`` holds the solutions for ``default_prior``: for each epsilon one pattern of each
class, as a number whose bit x is set where state x is favoured, with its low weight over 2^32. It is
made by ``python -m keyveil.optimal`` (extra ``design``), the same bytes each time with the same
solver, in about 15 seconds.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Mapping
from decimal import Decimal
from functools import cache
from importlib import import_module
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .arrays import WORD, Floats
from .channel import Table
from .errors import ChannelError, PlanError
from .exact import at_most, text
from .viewchannels import checked_prior, default_prior, workload

STATES = 9
SMALLEST_TABLED = Decimal("0.1")
LARGEST_SOLVED = Decimal(10)
TINY = 1e-6
"""A class of patterns that fewer reports than this would show is a solver's noise."""

ASIDE = 0.01
"""The weight of E[v_a v_b] beside the workload."""

Move = tuple[int, ...]
"""Where each state goes."""


def _moves() -> tuple[Move, ...]:
    """Swap the keys, turn round the values of the first, of the second: eight moves in all."""
    turned = (0, 2, 1)
    moves = []
    for first, second, swap in product((False, True), repeat=3):
        move = []
        for a, b in product(range(3), repeat=2):
            a_, b_ = turned[a] if first else a, turned[b] if second else b
            move.append(3 * b_ + a_ if swap else 3 * a_ + b_)
        moves.append(tuple(move))
    return tuple(moves)


MOVES = _moves()


def moved(pattern: int, move: Move) -> int:
    """The pattern that favours the states where this one's states go."""
    return sum(1 << move[state] for state in range(STATES) if pattern >> state & 1)


def orbit(pattern: int, moves: Iterable[Move] = MOVES) -> tuple[int, ...]:
    """All patterns that the moves make of this one, in order."""
    return tuple(sorted({moved(pattern, move) for move in moves}))


def table_of(weights: Mapping[int, int], epsilon: Decimal) -> Table:
    """The channel that sends each pattern with its low weight; what is left of a row sends a blank.

    ``weights`` are of all patterns, not of one in each class. Outputs stand in the patterns' order,
    the blank last.
    """
    lows = sorted(weights.items())
    highs = [at_most(low, epsilon) for _, low in lows]
    rows = []
    for state in range(STATES):
        row = [
            high if pattern >> state & 1 else low
            for (pattern, low), high in zip(lows, highs, strict=True)
        ]
        rows.append((*row, WORD - sum(row)))
    return Table(tuple(rows))


# -- the shipped table ---------------------------------------------------------------------------


@cache
def tabled() -> dict[Decimal, list[list[int]]]:
    """One (pattern, low weight) of each class, for each tabled epsilon in rising order."""
    document = json.loads(files("keyveil").joinpath("optimal_pairs.json").read_text("utf-8"))
    return {Decimal(epsilon): classes for epsilon, classes in document["channels"].items()}


@cache
def tabled_pair(epsilon: Decimal) -> Table:
    """The channel at a tabled epsilon."""
    return table_of({p: low for one, low in tabled()[epsilon] for p in orbit(one)}, epsilon)


def optimal_pair(epsilon: Decimal, *, solve: bool = False) -> Table | None:
    """The optimal channel at the largest tabled epsilon not above the promise; None below them all.

    With ``solve`` it is found anew, at the promise itself; that takes CVXPY and a tenth of a second.
    """
    if solve:
        return solve_pair(epsilon)
    below = [each for each in tabled() if each <= epsilon]
    return tabled_pair(max(below)) if below else None


# -- the solver ----------------------------------------------------------------------------------


def solve_pair(epsilon: Decimal, prior: ArrayLike | None = None) -> Table:
    """The channel with the least ``conditional_error`` at the prior (and a little more, see above)."""
    law = default_prior(2, 2) if prior is None else checked_prior(prior, STATES)
    weights = {p: low for members, low in _solved(epsilon, law) for p in members}
    table = table_of(weights, epsilon)
    table.check(epsilon)
    return table


def _solved(epsilon: Decimal, law: Floats) -> list[tuple[tuple[int, ...], int]]:
    """The classes of patterns that are sent, each with its low weight."""
    if epsilon > LARGEST_SOLVED:
        raise PlanError(f"optimal channels are solved up to epsilon {LARGEST_SOLVED}; use grr above")
    # Only moves that leave the prior as it is leave the best channel as it is.
    moves = [m for m in MOVES if np.allclose(law[list(m)], law, rtol=0, atol=1e-12)]
    classes = sorted({orbit(pattern, moves) for pattern in range(1, (1 << STATES) - 1)})
    odds = float(epsilon.exp())
    # For each class the sum over its members of their columns with low weight 1, and their seen share.
    columns = [_columns(members, odds) for members in classes]
    sums = np.array([column.sum(axis=0) for column in columns])
    seen = sums @ law
    information = np.array([(c.T / (c @ law)) @ c for c in columns])
    states = sorted({min(move[state] for move in moves) for state in range(STATES)})
    shares = _minimise(
        information / seen[:, None, None],
        sums[:, states] / seen[:, None],
        np.array([float(len(members)) for members in classes]),
        min(1.0, odds - 1.0),
    )
    sent = np.flatnonzero(shares > TINY)
    lows = _whole(shares[sent] / seen[sent], sums[sent], [classes[i] for i in sent], epsilon)
    return [(classes[i], low) for i, low in zip(sent, lows, strict=True)]


def _columns(members: tuple[int, ...], odds: float) -> Floats:
    favoured = (np.array(members)[:, None] >> np.arange(STATES)) & 1
    return np.where(favoured == 1, odds, 1.0)


def _wanted() -> Floats:
    """The workload's columns, and the product of the two values."""
    value = np.array([0.0, -1.0, 1.0])
    return np.column_stack([workload(2, 2), np.sqrt(ASIDE) * np.outer(value, value).ravel()])


def _minimise(information: Floats, sums: Floats, sizes: Floats, gap: float) -> Floats:
    """How often each class is seen at the prior, so that the workload's error is least."""
    try:
        cvxpy: Any = import_module("cvxpy")
    except ImportError:
        raise PlanError("solving for a channel needs CVXPY: pip install 'keyveil[design]'") from None

    def solve(objective: Any, constraints: list[Any], solver: str) -> Floats:
        problem = cvxpy.Problem(cvxpy.Minimize(objective), constraints)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a solver that doubts its last digits is near enough
                problem.solve(solver=solver)
        except cvxpy.SolverError:
            problem = None
        if problem is None or shares.value is None:
            raise PlanError("the solver found no optimal channel here; use a closed form")
        return np.maximum(np.asarray(shares.value, np.float64), 0.0)

    # Near epsilon 0 all columns are nearly flat: stretch what differs to the size of what does not.
    flat = np.full((STATES, STATES), 1.0 / STATES)
    stretch = flat + (np.eye(STATES) - flat) / gap
    flattened = (stretch @ information @ stretch).reshape(len(information), -1)
    shares = cvxpy.Variable(len(information), nonneg=True)
    matrix = cvxpy.reshape(flattened.T @ shares, (STATES, STATES), order="C")
    error = cvxpy.matrix_frac(gap * stretch @ _wanted(), (matrix + matrix.T) / 2)
    whole = sums.T @ shares == 1
    found = solve(error, [whole], "CLARABEL")
    # A corner of the channels that tell as much, the one that shows small classes most.
    entries = np.unique(np.round(flattened, 12), axis=1, return_index=True)[1]
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


def _grid() -> list[Decimal]:
    """0.1 to 1 by 0.01, to 3 by 0.02, to 6 by 0.1: from about 3 on k-RR is optimal."""
    hundredths = [*range(10, 100), *range(100, 300, 2), *range(300, 601, 10)]
    return [Decimal(number) / 100 for number in hundredths]


def main() -> None:
    """Solve for the whole grid and write the table beside this module."""
    law, lines = default_prior(2, 2), []
    for epsilon in _grid():
        classes = sorted([members[0], low] for members, low in _solved(epsilon, law))
        lines.append(f"  {json.dumps(text(epsilon))}: {json.dumps(classes, separators=(',', ':'))}")
    whole = '{"states": 9, "channels": {\n' + ",\n".join(lines) + "\n}}\n"
    Path(__file__).with_name("optimal_pairs.json").write_text(whole, "utf-8")


if __name__ == "__main__":
    main()
