"""Patterns: the columns that channels are made of, and the best channel as a convex program.

Every column of a channel that keeps epsilon is a sum of *patterns*: columns with two weights, low, and
e^epsilon times low on the states that the pattern favours. An output for each part gives at least as
much information as their sum. So the best of all channels for a linear purpose is a mixture of patterns,
and the purpose's variance is convex in the weights of the mixture. A pattern is stored as a number whose
bit x is set if it favours state x.

States may have symmetries that keep law and purpose: swap two keys, or reverse values. Patterns that
such moves map onto each other have the same weight. Rows sum to one exactly if the patterns that favour
a state have the same total weight for every state. That does not depend on epsilon, so a mixture of
patterns solved at one epsilon is a tight channel at any other.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from functools import cache
from importlib import import_module
from importlib.resources import files
from itertools import combinations_with_replacement, permutations, product
from typing import Any

import numpy as np

from ...foundation.arrays import WORD, Floats
from ...foundation.errors import ChannelError, PlanError, installation
from ...foundation.exact import own_context, text
from ...people.views import digits
from .. import Channel, Table
from ..law_arrays import nan_where_biased

Move = tuple[int, ...]
"""Where each state goes."""

TINY = 1e-5
"""Smallest share of reports of a pattern. Smaller ones are rounding errors of the solver."""

FINE = 10**6
"""Largest weight of a mixture's patterns. Coarser weights leave more of a row to the blank."""


# -- states, moves, patterns -----------------------------------------------------------------------


@cache
def moves(levels: int, keys: int, turned: bool) -> tuple[Move, ...]:
    """All orders of the keys, each with every choice of keys whose values are reversed if ``turned``."""
    rows, base = digits(levels, keys), levels + 1
    place_values = base ** np.arange(keys)[::-1]
    group = []
    for order in permutations(range(keys)):
        for turns in product((False, True), repeat=keys) if turned else [(False,) * keys]:
            other = np.where(np.array(turns) & (rows > 0), base - rows, rows)
            group.append(tuple((other[:, order] @ place_values).tolist()))
    return tuple(dict.fromkeys(group))


def image_of(pattern: int, move: Move) -> int:
    """The pattern that favours the states to which the favoured states of this one go."""
    return sum(1 << move[state] for state in range(pattern.bit_length()) if pattern >> state & 1)


def orbit(pattern: int, group: Iterable[Move]) -> tuple[int, ...]:
    """All patterns that the moves map this one onto, in ascending order."""
    return tuple(sorted({image_of(pattern, move) for move in group}))


def every(states: int) -> list[int]:
    """All patterns except those that favour no state or all states."""
    return list(range(1, (1 << states) - 1))


@cache
def intervals(levels: int, keys: int) -> tuple[int, ...]:
    """Patterns of adjacent levels, with or without "not held", and their complements.

    For several keys, a pattern combines one such pattern of each key: the state fits all of them, or at
    least one. Complements are included.
    """
    states = levels + 1
    whole = (1 << states) - 1
    single = {1, whole}
    for first, last in combinations_with_replacement(range(1, states), 2):
        run = (1 << (last + 1)) - (1 << first)
        single |= {run, run | 1}
    single |= {whole ^ pattern for pattern in single} - {0}
    rows, all_states = digits(levels, keys), (1 << states**keys) - 1
    patterns = set()
    for chosen in product(sorted(single), repeat=keys):
        favoured = np.stack([(np.array(p) >> rows[:, k]) & 1 for k, p in enumerate(chosen)], axis=1)
        for fits in (favoured.all(axis=1), favoured.any(axis=1)):
            pattern = sum(1 << int(state) for state in np.flatnonzero(fits))
            patterns |= {pattern, all_states ^ pattern}
    return tuple(sorted(patterns - {0, all_states}))


def classes_of(patterns: Iterable[int], group: Sequence[Move]) -> list[tuple[int, ...]]:
    """The classes of patterns that the moves map onto each other."""
    return sorted({orbit(pattern, group) for pattern in patterns})


def independent_keys(law: Floats, keys: int) -> Floats:
    """The law of the states of several independent keys, from the law of one key's states."""
    together = np.ones(1)
    for _ in range(keys):
        together = np.outer(together, law).ravel()
    return together


def favours(patterns: Sequence[int], states: int) -> Floats:
    """1 if a pattern (row) favours a state (column), else 0."""
    return np.array([[p >> x & 1 for x in range(states)] for p in patterns], np.float64)


# -- exact channels --------------------------------------------------------------------------------


def table_of(weights: Mapping[int, int], states: int, epsilon: Decimal) -> Table:
    """The channel of a mixture at an epsilon, with a blank output for what rounding leaves of a row.

    ``weights`` are relative. Outputs are in the order of patterns, the blank last. The number of units
    left to the blank is doubled, from 16 or e^epsilon on, until the blank keeps epsilon too.
    """
    mixed = sorted(weights.items())
    with own_context(100):  # as exact as ``at_most``, but e^epsilon is computed only once
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

    ``Channel.decoder`` does the same for the uniform law. A column is NaN if no weights are unbiased.
    """
    given = channel.expected()
    root = np.sqrt(np.maximum(law @ given, 1e-300))
    solved = (np.linalg.pinv(given / root) @ weights) / root[:, None]
    return nan_where_biased(given, solved, weights)


# -- the best mixture ------------------------------------------------------------------------------


def best_mixture(
    epsilon: Decimal, law: Floats, wanted: Floats, patterns: Sequence[int], group: Sequence[Move]
) -> dict[int, int]:
    """Relative integer weights of the patterns in the channel with the least error.

    The error is the sum of the variances of the ``wanted`` columns for one report, at the ``law`` of
    the states, under the best weights on outputs that are unbiased for every law. The group must leave
    ``law`` unchanged. If it maps columns onto each other, one of them is enough.
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
        sizes = [len(members) for members in classes]
        self.members = [pattern for members in classes for pattern in members]
        self.sizes = np.array(sizes, np.float64)
        self.of = np.repeat(np.arange(len(classes)), sizes)
        self.favoured = favours(self.members, len(law))
        odds = float(epsilon.exp())
        columns = 1.0 + (odds - 1.0) * self.favoured
        self.seen = columns @ law
        # A column, divided by its probability, is 1 + gap * tilt. Near epsilon 0 only tilts differ.
        self.gap = min(1.0, odds - 1.0)
        self.tilt = (columns / self.seen[:, None] - 1.0) / self.gap

    def summed(self, values: Floats) -> Floats:
        """The sum of the members' rows, for each class."""
        sums = np.zeros((len(self.sizes), values.shape[1]))
        np.add.at(sums, self.of, values)
        return sums

    def whole(self, shares: Floats) -> dict[int, int]:
        """Integer relative weights, after the smallest relative change that makes all row sums equal."""
        sent = np.flatnonzero(shares > TINY)
        cover = self.summed(self.favoured)[sent]
        first = np.searchsorted(self.of, sent)
        low = shares[sent] / self.seen[first]
        off = cover - cover.mean(axis=1, keepdims=True)
        low *= 1.0 - off @ (np.linalg.pinv((off.T * low) @ off, hermitian=True) @ (low @ off))
        weights = np.round(FINE * low / low.max()).astype(int).tolist()
        by_class = dict(zip(sent.tolist(), weights, strict=True))
        of = self.of.tolist()
        return {p: by_class[k] for p, k in zip(self.members, of, strict=True) if by_class.get(k, 0) > 0}


def _least(program: _Program, wanted: Floats) -> tuple[Floats, Floats, float]:
    """The share of one member of each class, the sums u, and the least error times gap^2.

    With shares t and sums u = t * (weight on the output), the error is the sum of u^2 / t, and the
    condition that weights are unbiased is linear in u. That is a second-order cone program.
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
        equal = np.flatnonzero(sizes == size)
        parts = sums[np.flatnonzero(np.isin(of, equal))]
        parts = cvxpy.reshape(parts, (len(equal), size * columns), order="C")
        apart = cvxpy.reshape(shares[equal] - errors[equal], (len(equal), 1), order="C")
        cone = cvxpy.hstack([2 * parts, apart])
        constraints.append(cvxpy.SOC(shares[equal] + errors[equal], cone, axis=1))
    minimise(cvxpy, cvxpy.sum(errors), constraints, "CLARABEL")
    return np.maximum(shares.value, 0.0), sums.value, float(np.sum(errors.value))


def _fewest(program: _Program, shares: Floats, sums: Floats) -> Floats:
    """A mixture with few outputs and the same error and weights on outputs: a corner of all such."""
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
    fewest = np.zeros(len(shares))
    fewest[kept] = np.maximum(corner.value, 0.0)
    return fewest


# -- shipped solutions -----------------------------------------------------------------------------

Solutions = dict[str, dict[Decimal, list[list[int]]]]
"""By name and epsilon: one pattern of each class, and its weight."""


def shipped(file: str, member: str) -> Solutions:
    """The solutions under ``member`` of a file next to this module."""
    document = json.loads(files(__package__).joinpath(file).read_text("utf-8"))
    return {
        name: {Decimal(epsilon): classes for epsilon, classes in known.items()}
        for name, known in document[member].items()
    }


# -- the solver ------------------------------------------------------------------------------------


def solving() -> Any:
    """CVXPY. Raises ``PlanError`` with the command that installs it."""
    try:
        return import_module("cvxpy")
    except ImportError:
        raise PlanError(f"solving for a channel needs CVXPY: {installation('design')}") from None


def minimise(cvxpy: Any, objective: Any, constraints: list[Any], solver: str) -> None:
    """Solve the program. Its variables then hold the solution."""
    problem = cvxpy.Problem(cvxpy.Minimize(objective), constraints)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # solvers warn of errors in the last digits
            problem.solve(solver=solver)
    except cvxpy.SolverError:
        problem = None
    if problem is None or any(variable.value is None for variable in problem.variables()):
        raise PlanError("the solver found no optimal channel here; use a closed form")
