"""Patterns: the columns that channels are made of, and the best channel as a convex program.

Every column of a channel that keeps epsilon is a sum of *patterns*, columns with only two weights: low,
and e^epsilon times low on the states that the pattern favours. Sending each part as an output of its
own tells at least as much, so of all channels the best for a linear purpose is one made of patterns:
the purpose's variance is convex in how often each pattern is sent. A pattern is held as a number whose
bit x is set where state x is favoured.

Where states can be moved without changing law and purpose (swap two keys, turn values round), patterns
that the moves map onto each other have the same weight. Rows sum to one exactly if every state is
favoured by patterns of the same weight in all; that does not depend on epsilon, so a mixture of
patterns found at one epsilon is a tight channel at any other.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from functools import cache
from importlib import import_module
from itertools import permutations, product
from typing import Any

import numpy as np

from ...foundation.arrays import WORD, Floats
from ...foundation.errors import ChannelError, PlanError
from ...foundation.exact import own_context, text
from ...people.views import digits
from .. import Channel, Table
from ..law import nan_where_biased

Move = tuple[int, ...]
"""Where each state goes."""

TINY = 1e-5
"""Patterns that fewer reports than this would show are a solver's noise."""

FINE = 10**6
"""The largest weight of a mixture's patterns. Coarser ones leave more of a row to the blank."""


# -- states, moves, patterns -----------------------------------------------------------------------


@cache
def moves(levels: int, keys: int, turned: bool) -> tuple[Move, ...]:
    """Every order of the keys and, if values may be ``turned`` round, each key's values both ways."""
    rows, base = digits(levels, keys), levels + 1
    worth = base ** np.arange(keys)[::-1]
    made = []
    for order in permutations(range(keys)):
        for turns in product((False, True), repeat=keys) if turned else [(False,) * keys]:
            other = np.where(np.array(turns) & (rows > 0), base - rows, rows)
            made.append(tuple((other[:, order] @ worth).tolist()))
    return tuple(dict.fromkeys(made))


def moved(pattern: int, move: Move) -> int:
    """The pattern that favours the states where this one's states go."""
    return sum(1 << move[state] for state in range(pattern.bit_length()) if pattern >> state & 1)


def orbit(pattern: int, group: Iterable[Move]) -> tuple[int, ...]:
    """All patterns that the moves make of this one, in order."""
    return tuple(sorted({moved(pattern, move) for move in group}))


def every(states: int) -> list[int]:
    """All patterns but those that favour none or all."""
    return list(range(1, (1 << states) - 1))


@cache
def intervals(levels: int, keys: int) -> tuple[int, ...]:
    """Patterns of one key: neighbouring levels, with or without "not held", and all but these.

    Of several keys: all of one such pattern for each key, at least one of them, and all but these.
    """
    states = levels + 1
    whole = (1 << states) - 1
    single = {1, whole}
    for first, last in product(range(1, states), repeat=2):
        if first <= last:
            run = (1 << (last + 1)) - (1 << first)
            single |= {run, run | 1}
    single |= {whole ^ pattern for pattern in single} - {0}
    rows, every_one = digits(levels, keys), (1 << states**keys) - 1
    found = set()
    for chosen in product(sorted(single), repeat=keys):
        favoured = np.stack([(np.array(p) >> rows[:, k]) & 1 for k, p in enumerate(chosen)], axis=1)
        for one in (favoured.all(axis=1), favoured.any(axis=1)):
            pattern = sum(1 << int(state) for state in np.flatnonzero(one))
            found |= {pattern, every_one ^ pattern}
    return tuple(sorted(found - {0, every_one}))


def classes_of(patterns: Iterable[int], group: Sequence[Move]) -> list[tuple[int, ...]]:
    """The patterns, parted into what the moves make of each."""
    return sorted({orbit(pattern, group) for pattern in patterns})


def favours(patterns: Sequence[int], states: int) -> Floats:
    """1 where a pattern (row) favours a state (column), else 0."""
    return np.array([[p >> x & 1 for x in range(states)] for p in patterns], np.float64)


# -- exact channels --------------------------------------------------------------------------------


def table_of(weights: Mapping[int, int], states: int, epsilon: Decimal) -> Table:
    """The channel of a mixture at an epsilon; what whole numbers leave of a row sends a blank.

    ``weights`` are relative. Outputs stand in the patterns' order, the blank last; it gets twice as
    many units, from 16 or e^epsilon on, until what the rows leave keeps epsilon too.
    """
    mixed = sorted(weights.items())
    with own_context(100):  # as exact as ``at_most``, with e^epsilon found but once
        odds = epsilon.exp()
        cover = [sum(weight for pattern, weight in mixed if pattern >> x & 1) for x in range(states)]
        most = sum(weights.values()) + (odds - 1) * max(cover)
        for power in range(max(4, int(odds).bit_length()), 24):
            scale = (WORD - (1 << power)) / most
            lows = [int(weight * scale) for _, weight in mixed]
            if min(lows) < 1:
                break
            highs = [int(low * odds) for low in lows]
            rows = rows_with_blank([pattern for pattern, _ in mixed], lows, highs, states)
            left = [row[-1] for row in rows]
            if min(left) > 0 and max(left) <= int(min(left) * odds):
                return Table(rows)
    raise ChannelError(f"2^32 is too coarse for this channel at epsilon {text(epsilon)}")


def rows_with_blank(
    patterns: Sequence[int], lows: Sequence[int], highs: Sequence[int], states: int
) -> tuple[tuple[int, ...], ...]:
    """Rows of a channel that sends each pattern with its two weights; a blank has the rest of a row."""
    rows = []
    for state in range(states):
        weights = zip(patterns, lows, highs, strict=True)
        row = [high if pattern >> state & 1 else low for pattern, low, high in weights]
        rows.append((*row, WORD - sum(row)))
    return tuple(rows)


def decoder_at(channel: Channel, weights: Floats, law: Floats) -> Floats:
    """Unbiased weights on the outputs for ``weights`` on the states, with the least variance at a law.

    ``Channel.decoder`` does the same for the even law. A column of NaN where none is unbiased.
    """
    given = channel.expected()
    root = np.sqrt(np.maximum(law @ given, 1e-300))
    solved = (np.linalg.pinv(given / root) @ weights) / root[:, None]
    return nan_where_biased(given, solved, weights)


# -- the best mixture ------------------------------------------------------------------------------


def best_mixture(
    epsilon: Decimal, law: Floats, wanted: Floats, patterns: Sequence[int], group: Sequence[Move]
) -> dict[int, int]:
    """Relative whole weights of the patterns that make the channel with the least error.

    The error is the sum of the variances of the ``wanted`` columns for one report, at the ``law`` of
    the states, under the best weights on outputs that are unbiased for every law. ``law`` must not
    change under the group; of columns that it maps onto each other, one is enough.
    """
    program = _Program(epsilon, law, patterns, group)
    shares, sums, _ = _least(program, wanted)
    return program.whole(_fewest(program, shares, sums))


def least_error(
    epsilon: Decimal, law: Floats, wanted: Floats, patterns: Sequence[int], group: Sequence[Move]
) -> float:
    """The error of ``best_mixture`` before its weights are rounded."""
    program = _Program(epsilon, law, patterns, group)
    return _least(program, wanted)[2] / program.gap**2


class _Program:
    """The patterns in their classes, and what is linear in how often they are sent."""

    def __init__(
        self, epsilon: Decimal, law: Floats, patterns: Sequence[int], group: Sequence[Move]
    ) -> None:
        classes = classes_of(patterns, group)
        self.members = [pattern for each in classes for pattern in each]
        self.sizes = np.array([float(len(each)) for each in classes])
        self.of = np.repeat(np.arange(len(classes)), [len(each) for each in classes])
        self.favoured = favours(self.members, len(law))
        odds = float(epsilon.exp())
        columns = 1.0 + (odds - 1.0) * self.favoured
        self.seen = columns @ law
        # Each column is 1 + gap * tilt where it is seen once: near epsilon 0 only the tilt differs.
        self.gap = min(1.0, odds - 1.0)
        self.tilt = (columns / self.seen[:, None] - 1.0) / self.gap

    def summed(self, values: Floats) -> Floats:
        """The sum of the members' rows, for each class."""
        made = np.zeros((len(self.sizes), values.shape[1]))
        np.add.at(made, self.of, values)
        return made

    def whole(self, shares: Floats) -> dict[int, int]:
        """Whole relative weights, after the smallest relative change that makes every row sum alike."""
        sent = np.flatnonzero(shares > TINY)
        cover = self.summed(self.favoured)[sent]
        first = np.searchsorted(self.of, sent)
        low = shares[sent] / self.seen[first]
        off = cover - cover.mean(axis=1, keepdims=True)
        low *= 1.0 - off @ (np.linalg.pinv((off.T * low) @ off, hermitian=True) @ (low @ off))
        weights = np.round(FINE * low / low.max()).astype(int).tolist()
        made = dict(zip(sent.tolist(), weights, strict=True))
        of = self.of.tolist()
        return {p: made[k] for p, k in zip(self.members, of, strict=True) if made.get(k, 0) > 0}


def _least(program: _Program, wanted: Floats) -> tuple[Floats, Floats, float]:
    """How often one member of each class is seen, the sums, and the least error times gap^2.

    With shares t and sums u = t * (weight on the output) the error is the sum of u^2 / t, and that
    the weights are unbiased is linear in u: a second-order cone program.
    """
    cvxpy = solving()
    of, tilt, sizes = program.of, program.tilt, program.sizes
    columns = wanted.shape[1]
    shares = cvxpy.Variable(len(sizes), nonneg=True)
    sums = cvxpy.Variable((len(of), columns))
    errors = cvxpy.Variable(len(sizes))
    offset = cvxpy.Variable((1, columns))
    rows = program.summed(tilt)
    rows = rows[:, np.unique(np.round(rows, 12), axis=1, return_index=True)[1]]
    constraints = [
        sizes @ shares == 1,
        rows.T @ shares == 0,
        tilt.T @ sums + np.ones((tilt.shape[1], 1)) @ offset == wanted,
    ]
    for size in np.unique(sizes).astype(int):
        some = np.flatnonzero(sizes == size)
        parts = sums[np.flatnonzero(np.isin(of, some))]
        parts = cvxpy.reshape(parts, (len(some), size * columns), order="C")
        apart = cvxpy.reshape(shares[some] - errors[some], (len(some), 1), order="C")
        cone = cvxpy.hstack([2 * parts, apart])
        constraints.append(cvxpy.SOC(shares[some] + errors[some], cone, axis=1))
    minimise(cvxpy, cvxpy.sum(errors), constraints, "CLARABEL")
    return np.maximum(shares.value, 0.0), sums.value, float(np.sum(errors.value))


def _fewest(program: _Program, shares: Floats, sums: Floats) -> Floats:
    """A corner of the mixtures that serve as well with the same weights on outputs: fewer outputs."""
    cvxpy = solving()
    kept = np.flatnonzero(shares > TINY / 10)
    cells = sums / np.maximum(shares[program.of], TINY / 10)[:, None]
    moments = np.einsum("px,pj->pxj", program.tilt, cells).reshape(len(cells), -1)
    facts = np.concatenate([program.tilt, moments, (cells**2).sum(axis=1, keepdims=True)], axis=1)
    facts = np.concatenate([program.sizes[:, None], program.summed(facts)], axis=1)[kept]
    base, size, _ = np.linalg.svd(facts, full_matrices=False)
    base = base[:, size > 1e-9 * size[0]]
    corner = cvxpy.Variable(len(kept), nonneg=True)
    alike = base.T @ corner == base.T @ shares[kept]
    minimise(cvxpy, program.sizes[kept] @ corner, [alike], "SCIPY")
    found = np.zeros(len(shares))
    found[kept] = np.maximum(corner.value, 0.0)
    return found


def solving() -> Any:
    """CVXPY, or one line that says how to get it."""
    try:
        return import_module("cvxpy")
    except ImportError:
        raise PlanError("solving for a channel needs CVXPY: pip install 'keyveil[design]'") from None


def minimise(cvxpy: Any, objective: Any, constraints: list[Any], solver: str) -> None:
    """Solve; the variables then hold the solution."""
    problem = cvxpy.Problem(cvxpy.Minimize(objective), constraints)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a solver that doubts its last digits is near enough
            problem.solve(solver=solver)
    except cvxpy.SolverError:
        problem = None
    if problem is None or any(variable.value is None for variable in problem.variables()):
        raise PlanError("the solver found no optimal channel here; use a closed form")
