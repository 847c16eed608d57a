"""IOH: all keys at once as one of 3^d cells, one-hot bits, each flipped with budget epsilon / 2.

Sun et al. 2019, Sec. V. The paper's index of a record is I = sum_i 3^(d - i) I_i with I_i = 0 for low, 1
for absent and 2 for high; ours has 0 for absent, 1 for low, 2 for high (``paper_index`` translates).
It works up to d = 4 keys and is useless at 8: for conditionals use pairs. ``ioh_optimal`` is the same
with optimal bits (OUE: the true bit is a fair coin, the others are flipped as rarely as epsilon allows).
A device draws 3^d bits and sends 3^d / 8 bytes; tallies of tables are computed in chunks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from itertools import product
from typing import Any

import numpy as np

from ..channel import Symbols
from ..channel.design.view_channels import optimal_bits
from ..estimate.together.averaged_views import pooled_answers
from ..foundation.arrays import Floats
from ..foundation.errors import QueryError
from ..people.schema import Schema
from ..people.views import Views
from .kvoh import flipped_bits
from .mechanism import Draft, Mechanism


class IOH(Mechanism):
    """3^d cells, 3^d bits."""

    name = "ioh"
    paper_name = "IOH"
    source = "Sun et al. 2019, Sec. V"
    speaks_of = "all keys together, as one of 3^d cells"
    bits = "3^d"
    most_keys = 10
    estimators = {"least_squares": pooled_answers}

    def draft(self, schema: Schema, epsilon: Decimal, tight: bool, chosen: Mapping[str, Any]) -> Draft:
        keys = len(schema.keys)
        bits = self._bits(3**keys, epsilon)
        return Draft(schema.at(2), Views.whole(keys), "views", (bits,), epsilon)

    def _bits(self, positions: int, epsilon: Decimal) -> Symbols:
        return flipped_bits(positions, epsilon)


class IOHOptimal(IOH):
    """IOH with optimal bits."""

    name = "ioh_optimal"
    paper_name = "IOH with OUE bits"
    source = "Sun et al. 2019, Sec. V, with the bits of Wang et al., USENIX Security 2017"

    def _bits(self, positions: int, epsilon: Decimal) -> Symbols:
        return optimal_bits(positions, epsilon)


# -- the paper's own operators -----------------------------------------------------------------------

_PAPER = np.array([1, 0, 2])
"""The paper's digit for each of ours (absent, low, high)."""


def paper_index(state: int, keys: int) -> int:
    """The paper's index I of one of our states."""
    index = 0
    for place in range(keys):
        index = index * 3 + int(_PAPER[state // 3 ** (keys - 1 - place) % 3])
    return index


def paper_order(cells: Floats, keys: int) -> Floats:
    """The paper's array A_s, from cells in our order of states."""
    ordered = np.empty_like(cells)
    for state, value in enumerate(cells):
        ordered[paper_index(state, keys)] = value
    return ordered


def condition_vectors(keys: int, given: Mapping[int, bool]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(alpha, beta): the keys of the condition, and whether they are held."""
    if any(not 0 <= place < keys for place in given):
        raise QueryError(f"a condition names a key by its place, from 0 to {keys - 1}")
    alpha = tuple(int(place in given) for place in range(keys))
    return alpha, tuple(int(given.get(place, False)) for place in range(keys))


def index_set(gamma: Sequence[int], signs: Mapping[int, int] | None = None) -> list[int]:
    """I(gamma): the paper's indices of all cells with exactly these keys held.

    ``signs`` fixes the digit of a held key to +1 or -1, which gives the cells of S+ or S-.
    """
    fixed = signs or {}
    choices = []
    for place, held in enumerate(gamma):
        if not held:
            choices.append([1])
        elif place in fixed:
            choices.append([2 if fixed[place] > 0 else 0])
        else:
            choices.append([0, 2])
    return [sum(d * 3 ** (len(gamma) - 1 - i) for i, d in enumerate(c)) for c in product(*choices)]


def _matching(alpha: Sequence[int], beta: Sequence[int]) -> list[tuple[int, ...]]:
    """All gamma with gamma AND alpha = beta."""
    if any(b and not a for a, b in zip(alpha, beta, strict=True)):
        raise QueryError("beta may hold only keys that alpha puts into the condition")
    free = [[b] if a else [0, 1] for a, b in zip(alpha, beta, strict=True)]
    return list(product(*free))


def count_operator(cells: Floats, alpha: Sequence[int], beta: Sequence[int]) -> float:
    """F: the number of people who meet the condition, from A_s in the paper's order."""
    return float(sum(cells[index_set(gamma)].sum() for gamma in _matching(alpha, beta)))


def sum_operator(cells: Floats, key: int, alpha: Sequence[int], beta: Sequence[int]) -> float:
    """S+ - S-: the sum of rounded values of ``key`` over the people who meet the condition."""
    total = 0.0
    for gamma in _matching(alpha, beta):
        if gamma[key]:  # terms without the key have the same cells in S+ and S- and cancel
            total += cells[index_set(gamma, {key: 1})].sum() - cells[index_set(gamma, {key: -1})].sum()
    return float(total)


def paper_conditional(
    cells: Floats, keys: int, target: int, given: Mapping[int, bool]
) -> tuple[float, float]:
    """The paper's conditional frequency and mean (on [-1, 1]), from A_s in the paper's order."""
    if target in given:
        raise QueryError("the target cannot be a condition of itself")
    alpha, beta = condition_vectors(keys, given)
    alpha_, beta_ = condition_vectors(keys, {**given, target: True})
    below, above = count_operator(cells, alpha, beta), count_operator(cells, alpha_, beta_)
    total = sum_operator(cells, target, alpha_, beta_)
    return (above / below if below else np.nan), (total / above if above else np.nan)
