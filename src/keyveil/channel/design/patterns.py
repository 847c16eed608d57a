"""Patterns: the columns that channels consist of, and the best channel as a convex program.

Every column of a channel that keeps epsilon is a sum of *patterns*. A pattern is a column with only two
weights: low, and e^epsilon times low on the states that the pattern favours. Sending each pattern as
its own output loses no information, so the best channel for a linear answer consists of patterns. The
variance of the answer is convex in how often each pattern is sent. A pattern is stored as an integer
whose bit x is set if state x is favoured.

Some moves of the states (swapping two keys, reversing values) change neither law nor answer. Patterns
that such moves map onto each other have the same weight. Rows sum to one if every state is favoured by
the same total weight. That does not depend on epsilon, so a mixture of patterns that was found at one
epsilon is a tight channel at any other.
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

from ...foundation.arrays import WORD, Floats, Integers
from ...foundation.errors import ChannelError, PlanError
from ...foundation.exact import own_context, text
from .. import Channel, Table
from ..law import nan_where_biased

Move = tuple[int, ...]
"""The image of each state."""

TINY = 1e-5
"""Patterns with a smaller share of reports are noise of the solver."""

FINE = 10**6
"""The largest weight of a pattern in a mixture. Smaller ones would leave more weight to the blank."""


# -- states, moves, patterns -----------------------------------------------------------------------


def digits(levels: int, keys: int) -> Integers:
    """The digits of every state, ``(states, keys)``: 0 is "not held", then the levels."""
    return np.array(list(product(range(levels + 1), repeat=keys)), np.int64).reshape(-1, keys)


@cache
def moves(levels: int, keys: int, turned: bool) -> tuple[Move, ...]:
    """All orders of the keys and, if ``turned``, all reversals of the keys' values."""
    rows, base = digits(levels, keys), levels + 1
    place_values = base ** np.arange(keys)[::-1]
    images = []
    for order in permutations(range(keys)):
        for turns in product((False, True), repeat=keys) if turned else [(False,) * keys]:
            other = np.where(np.array(turns) & (rows > 0), base - rows, rows)
            images.append(tuple((other[:, order] @ place_values).tolist()))
    return tuple(dict.fromkeys(images))


def moved(pattern: int, move: Move) -> int:
    """The pattern with its favoured states moved."""
    return sum(1 << move[state] for state in range(pattern.bit_length()) if pattern >> state & 1)


def orbit(pattern: int, group: Iterable[Move]) -> tuple[int, ...]:
    """All images of the pattern under the moves, sorted."""
    return tuple(sorted({moved(pattern, move) for move in group}))


def every(states: int) -> list[int]:
    """All patterns except those that favour no state or all states."""
    return list(range(1, (1 << states) - 1))


@cache
def intervals(levels: int, keys: int) -> tuple[int, ...]:
    """Patterns of one key: adjacent levels, with or without "not held", and the complements.

    For several keys: intersections and unions of one such pattern per key, and the complements.
    """
    states = levels + 1
    whole = (1 << states) - 1
    single = {1, whole}
    for first, last in product(range(1, states), repeat=2):
        if first <= last:
            run = (1 << (last + 1)) - (1 << first)
            single |= {run, run | 1}
    single |= {whole ^ pattern for pattern in single} - {0}
    rows, all_states = digits(levels, keys), (1 << states**keys) - 1
    patterns = set()
    for chosen in product(sorted(single), repeat=keys):
        favoured = np.stack([(np.array(p) >> rows[:, k]) & 1 for k, p in enumerate(chosen)], axis=1)
        for chosen_states in (favoured.all(axis=1), favoured.any(axis=1)):
            pattern = sum(1 << int(state) for state in np.flatnonzero(chosen_states))
            patterns |= {pattern, all_states ^ pattern}
    return tuple(sorted(patterns - {0, all_states}))


def classes_of(patterns: Iterable[int], group: Sequence[Move]) -> list[tuple[int, ...]]:
    """The classes of patterns that the moves map onto each other."""
    return sorted({orbit(pattern, group) for pattern in patterns})


def favours(patterns: Sequence[int], states: int) -> Floats:
    """1 if a pattern (row) favours a state (column), else 0."""
    return np.array([[p >> x & 1 for x in range(states)] for p in patterns], np.float64)


# -- exact channels --------------------------------------------------------------------------------


def table_of(weights: Mapping[int, int], states: int, epsilon: Decimal) -> Table:
    """The channel of a mixture at an epsilon. The weight that rounding leaves in a row sends a blank.

    ``weights`` are relative. Outputs are in the order of the patterns, the blank is last. Its units
    start at 16 or e^epsilon and double until the blank keeps epsilon too.
    """
    mixed = sorted(weights.items())
    with own_context(100):  # as exact as ``at_most``, with e^epsilon computed once
        odds = epsilon.exp()
        cover = [sum(weight for pattern, weight in mixed if pattern >> x & 1) for x in range(states)]
        most = sum(weights.values()) + (odds - 1) * max(cover)
        for power in range(max(4, int(odds).bit_length()), 24):
            scale = (WORD - (1 << power)) / most
            lows = [int(weight * scale) for _, weight in mixed]
            if min(lows) < 1:
                break
            highs = [int(low * odds) for low in lows]
            rows = [
                [
                    high if p >> x & 1 else low
                    for (p, _), low, high in zip(mixed, lows, highs, strict=True)
                ]
                for x in range(states)
            ]
            left = [WORD - sum(row) for row in rows]
            if min(left) > 0 and max(left) <= int(min(left) * odds):
                return Table(tuple((*row, rest) for row, rest in zip(rows, left, strict=True)))
    raise ChannelError(f"2^32 is too coarse for this channel at epsilon {text(epsilon)}")


def decoder_at(channel: Channel, weights: Floats, law: Floats) -> Floats:
    """Unbiased weights on the outputs for ``weights`` on the states, with the least variance at a law.

    ``Channel.decoder`` does the same for the uniform law. A column is NaN if none is unbiased.
    """
    given = channel.expected()
    root = np.sqrt(np.maximum(law @ given, 1e-300))
    solved = (np.linalg.pinv(given / root) @ weights) / root[:, None]
    return nan_where_biased(given, solved, weights)


# -- the best mixture ------------------------------------------------------------------------------


def best_mixture(
    epsilon: Decimal, law: Floats, wanted: Floats, patterns: Sequence[int], group: Sequence[Move]
) -> dict[int, int]:
    """Relative integer weights of the patterns of the channel with the least error.

    The error is the sum of the variances of the ``wanted`` columns for one report, at the ``law`` of
    the states, for the best unbiased weights on outputs. ``law`` must be invariant under the group. Of
    columns that the group maps onto each other, one is enough.
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
    """The classes of patterns, and the quantities that are linear in their shares."""

    def __init__(
        self, epsilon: Decimal, law: Floats, patterns: Sequence[int], group: Sequence[Move]
    ) -> None:
        classes = classes_of(patterns, group)
        self.members = [pattern for members in classes for pattern in members]
        self.sizes = np.array([float(len(members)) for members in classes])
        self.of = np.repeat(np.arange(len(classes)), [len(members) for members in classes])
        self.favoured = favours(self.members, len(law))
        odds = float(epsilon.exp())
        columns = 1.0 + (odds - 1.0) * self.favoured
        self.seen = columns @ law
        # Each column is 1 + gap * tilt, relative to its share; near epsilon 0 only the tilt differs.
        self.gap = min(1.0, odds - 1.0)
        self.tilt = (columns / self.seen[:, None] - 1.0) / self.gap

    def summed(self, values: Floats) -> Floats:
        """The sums of the members' rows, ``(classes, columns)``."""
        sums = np.zeros((len(self.sizes), values.shape[1]))
        np.add.at(sums, self.of, values)
        return sums

    def whole(self, shares: Floats) -> dict[int, int]:
        """Integer relative weights, after the smallest relative change that equalises row sums."""
        sent = np.flatnonzero(shares > TINY)
        cover = self.summed(self.favoured)[sent]
        first = np.searchsorted(self.of, sent)
        low = shares[sent] / self.seen[first]
        off = cover - cover.mean(axis=1, keepdims=True)
        low *= 1.0 - off @ (np.linalg.pinv((off.T * low) @ off, hermitian=True) @ (low @ off))
        weights = np.round(FINE * low / low.max()).astype(int).tolist()
        weight_of = dict(zip(sent.tolist(), weights, strict=True))
        of = self.of.tolist()
        return {
            p: weight_of[k] for p, k in zip(self.members, of, strict=True) if weight_of.get(k, 0) > 0
        }


def _least(program: _Program, wanted: Floats) -> tuple[Floats, Floats, float]:
    """The share of one member of each class, the sums, and the least error times gap^2.

    With shares t and sums u = t * (weight on the output) the error is the sum of u^2 / t. Unbiasedness
    is linear in u, so this is a second-order cone program.
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
        classes = np.flatnonzero(sizes == size)
        parts = sums[np.flatnonzero(np.isin(of, classes))]
        parts = cvxpy.reshape(parts, (len(classes), size * columns), order="C")
        apart = cvxpy.reshape(shares[classes] - errors[classes], (len(classes), 1), order="C")
        cone = cvxpy.hstack([2 * parts, apart])
        constraints.append(cvxpy.SOC(shares[classes] + errors[classes], cone, axis=1))
    minimise(cvxpy, cvxpy.sum(errors), constraints, "CLARABEL")
    return np.maximum(shares.value, 0.0), sums.value, float(np.sum(errors.value))


def _fewest(program: _Program, shares: Floats, sums: Floats) -> Floats:
    """A vertex of the mixtures with the same error and weights on outputs; it has fewer outputs."""
    cvxpy = solving()
    classes = np.flatnonzero(shares > TINY / 10)
    cells = sums / np.maximum(shares[program.of], TINY / 10)[:, None]
    moments = np.einsum("px,pj->pxj", program.tilt, cells).reshape(len(cells), -1)
    facts = np.concatenate([program.tilt, moments, (cells**2).sum(axis=1, keepdims=True)], axis=1)
    facts = np.concatenate([program.sizes[:, None], program.summed(facts)], axis=1)[classes]
    base, size, _ = np.linalg.svd(facts, full_matrices=False)
    base = base[:, size > 1e-9 * size[0]]
    corner = cvxpy.Variable(len(classes), nonneg=True)
    same_error = base.T @ corner == base.T @ shares[classes]
    minimise(cvxpy, program.sizes[classes] @ corner, [same_error], "SCIPY")
    vertex = np.zeros(len(shares))
    vertex[classes] = np.maximum(corner.value, 0.0)
    return vertex


def solving() -> Any:
    """The module CVXPY. Raises ``PlanError`` with the command that installs it."""
    try:
        return import_module("cvxpy")
    except ImportError:
        raise PlanError("solving for a channel needs CVXPY: pip install 'keyveil[design]'") from None


def minimise(cvxpy: Any, objective: Any, constraints: list[Any], solver: str) -> None:
    """Solve the program in place: the variables hold the solution."""
    problem = cvxpy.Problem(cvxpy.Minimize(objective), constraints)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an inaccurate last digit is acceptable
            problem.solve(solver=solver)
    except cvxpy.SolverError:
        problem = None
    if problem is None or any(variable.value is None for variable in problem.variables()):
        raise PlanError("the solver found no optimal channel here; use a closed form")
