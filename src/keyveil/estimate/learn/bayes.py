"""Naive Bayes and the Chow-Liu tree, from released laws of two keys, freed of what is only noise."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from itertools import combinations
from math import inf
from typing import NamedTuple

import numpy as np

from ...foundation.arrays import Floats, Integers
from ...foundation.coins import Coins, address
from ...foundation.errors import QueryError
from ...people.people import People, place_type
from ...people.schema import Record
from .classifier import Classes, Classifier, digit_chances
from .released import Released, Source, check_chance, chi_square_tail


class Bond(NamedTuple):
    """How two keys go together: their joint law after shrinkage, and how sure it is."""

    law: Floats
    p_value: float
    """The chance of a tally this far from independence, were the keys independent."""
    information: float
    """Mutual information at that law, in nats."""


def bond(released: Released, first: int, second: int) -> Bond:
    """The law of two keys, its dependence shrunk by what noise alone would show.

    Dependence is the joint law less the product of its margins, and has two parts: whether both are
    held, and how the levels go together beyond that. A part whose squared size in standard errors is
    no more than its degrees of freedom is what noise alone shows; so that much is taken off each
    (James and Stein). The margins are those that all views together know.
    """
    states = released.states
    margins = released.single(first), released.single(second)
    apart = np.outer(*margins)
    found = released.evidence.moments((first, second), np.eye(states**2).reshape(states, states, -1))
    if found is None:
        return Bond(apart, 1.0, 0.0)
    whole, spread = _dependence(found.values.reshape(states, states), found.covariance)
    # Presence: the excess of people who hold both, spread over the levels as they are apart.
    shape = np.kron(_contrast(margins[0]), _contrast(margins[1]))
    both = np.kron(np.arange(states) > 0, np.arange(states) > 0).astype(np.float64)
    presence = shape * (both @ whole)
    keep = np.eye(len(whole)) - np.outer(shape, both)
    tests = [
        _size(np.array([both @ whole]), np.array([[both @ spread @ both]])),
        _size(whole - presence, keep @ spread @ keep.T),
    ]
    kept = [_kept(*test) for test in tests]
    p_value = min(1.0, 2 * min(chi_square_tail(*test) for test in (tests[0], _size(whole, spread))))
    if not any(kept):
        return Bond(apart, p_value, 0.0)
    law = apart + (kept[0] * presence + kept[1] * (whole - presence)).reshape(states, states)
    # A cell that noise could have emptied is not taken to be empty.
    noise = np.sqrt(np.maximum(spread.diagonal(), 0.0)).reshape(states, states)
    law = _raked(np.maximum(law, np.clip(noise / 2, 1e-6 * apart, apart)), *margins)
    some = law > 0
    return Bond(law, p_value, float((law[some] * np.log(law[some] / apart[some])).sum()))


def _dependence(joint: Floats, covariance: Floats) -> tuple[Floats, Floats]:
    """A joint law less the product of its margins, flat, and the covariance by the delta method."""
    rows, columns = joint.sum(axis=1), joint.sum(axis=0)
    one, ones = np.eye(len(joint)), np.ones((1, len(joint)))
    slope = np.eye(joint.size)
    slope -= np.kron(one, columns[:, None] * ones) + np.kron(rows[:, None] * ones, one)
    return (joint - np.outer(rows, columns)).reshape(-1), slope @ covariance @ slope.T


def _contrast(law: Floats) -> Floats:
    """One more holder and one fewer without, the levels in their proportion."""
    held = law[1:].sum()
    levels = law[1:] / held if held > 0 else np.full(len(law) - 1, 1 / (len(law) - 1))
    return np.concatenate([[-1.0], levels])


def _kept(size: float, freedom: int) -> float:
    """The part of a noisy vector that is kept: 1 where nothing is noise."""
    if size == inf:
        return 1.0
    return max(0.0, 1.0 - freedom / size) if size > 0 else 0.0


def _size(values: Floats, spread: Floats) -> tuple[float, int]:
    """The squared length of noisy values in standard errors, and in how many directions."""
    sizes, axes = np.linalg.eigh(spread)
    if sizes[-1] <= 0:
        return (inf if np.abs(values).max() > 1e-12 else 0.0), 0
    sure = sizes > 1e-9 * sizes[-1]
    return float(((values @ axes[:, sure]) ** 2 / sizes[sure]).sum()), int(sure.sum())


def _raked(law: Floats, rows: Floats, columns: Floats, rounds: int = 30) -> Floats:
    """The law with given margins that is nearest in relative entropy."""
    for _ in range(rounds):
        law = law * _over(rows, law.sum(axis=1))[:, None]
        law = law * _over(columns, law.sum(axis=0))[None, :]
    return law / law.sum()


def _over(above: Floats, below: Floats) -> Floats:
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)


class NaiveBayes(Classifier):
    """Predicts ``target`` as if, given its class, all other keys were independent."""

    def __init__(self, target: str, levels: bool = False) -> None:
        self.target, self.levels = target, levels

    def fit(self, conditionals: Source) -> NaiveBayes:
        """Read the law of the target with every other key."""
        released = Released(conditionals)
        classes = Classes(released, self.target, self.levels)
        self.schema = released.schema
        self.prior = released.single(classes.place) @ classes.digits
        keys, states = len(self.schema.keys), released.states
        # Pr[digit | class] / Pr[digit]: how much a digit speaks for a class; 1 says nothing.
        self.votes = np.ones((keys, states, len(self.prior)))
        for key in range(keys):
            if key != classes.place and released.speaks_of(key):
                joint = bond(released, key, classes.place).law @ classes.digits
                self.votes[key] = _ratios(joint, released.single(key), self.prior)
        self.classes = classes
        return self

    def _chances(self, digits: Floats) -> Floats:
        votes = np.einsum("nds,dsc->ndc", digits, self.votes)
        logs = np.log(np.maximum(votes, 1e-12)).sum(axis=1) + np.log(np.maximum(self.prior, 1e-12))
        return _normal(logs)


def _ratios(joint: Floats, rows: Floats, columns: Floats) -> Floats:
    """A joint law over the product of its margins; 1 where a margin is empty."""
    apart = np.outer(rows, columns)
    return np.divide(joint, apart, out=np.ones_like(joint), where=apart > 0)


def _normal(logs: Floats) -> Floats:
    chances = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(chances / chances.sum(axis=1, keepdims=True))


class ChowLiu:
    """The tree-shaped law of all keys with the most mutual information along its edges.

    Chow and Liu, IEEE Trans. Information Theory, 1968. An edge has to be above noise at
    ``significance`` over all pairs of keys; keys without one stand alone, so the tree may be several.
    """

    def __init__(self, significance: float = 0.05) -> None:
        self.significance = check_chance(significance, "significance")
        self.released: Released | None = None

    def fit(self, conditionals: Source) -> ChowLiu:
        """Find the tree and the laws along it."""
        released = Released(conditionals)
        keys = range(len(released.schema.keys))
        pairs = list(combinations(keys, 2))
        bonds = {pair: bond(released, *pair) for pair in pairs}
        worth = {
            pair: found.information
            for pair, found in bonds.items()
            if found.p_value * len(pairs) < self.significance and found.information > 1e-9
        }
        self.singles = np.array([released.single(key) for key in keys])
        self.places = _spanning(worth, len(keys))
        self.ratios = {
            (a, b): _ratios(bonds[a, b].law, self.singles[a], self.singles[b]) for a, b in self.places
        }
        self.information = {pair: worth[pair] for pair in self.places}
        self.released, self.schema = released, released.schema
        self.__dict__.pop("_order", None)
        return self

    @property
    def edges(self) -> list[tuple[str, str]]:
        """The edges of the tree by name, the most informative first."""
        self._fitted()
        return [(self.schema.keys[a], self.schema.keys[b]) for a, b in self.places]

    def _fitted(self) -> Released:
        if self.released is None:
            raise QueryError("fit comes before all else")
        return self.released

    def _ratio(self, one: int, other: int) -> Floats:
        """The law of two neighbours over the product of their own, rows the first's digits."""
        return self.ratios[one, other] if (one, other) in self.ratios else self.ratios[other, one].T

    def _walk(self, root: int) -> list[tuple[int, int]]:
        """(key, the neighbour it was reached from) for all keys of the root's tree, from the root on."""
        near: dict[int, list[int]] = {}
        for a, b in self.places:
            near.setdefault(a, []).append(b)
            near.setdefault(b, []).append(a)
        walk = [(root, -1)]
        for key, parent in walk:
            walk += [(other, key) for other in near.get(key, ()) if other != parent]
        return walk

    @cached_property
    def _order(self) -> list[tuple[int, int]]:
        """All keys, each after the neighbour it hangs on."""
        order: list[tuple[int, int]] = []
        seen: set[int] = set()
        for key in range(len(self.singles)):
            if key not in seen:
                order += self._walk(key)
                seen |= {k for k, _ in order}
        return order

    # -- using -----------------------------------------------------------------------------------

    def predict_proba(
        self, people: People | Iterable[Record], target: str, levels: bool = False
    ) -> Floats:
        """Each person's chance of each class of the target, given all other keys."""
        classes = Classes(self._fitted(), target, levels)
        parts = [self._chances(part, classes) for part in digit_chances(self.schema, people)]
        return np.vstack(parts) if parts else np.empty((0, len(classes.labels)))

    def predict(
        self, people: People | Iterable[Record], target: str, levels: bool = False
    ) -> np.ndarray:
        """Each person's likeliest class of the target, given all other keys."""
        labels = np.array(Classes(self._fitted(), target, levels).labels)
        return np.asarray(labels[self.predict_proba(people, target, levels).argmax(axis=1)])

    def _chances(self, digits: Floats, classes: Classes) -> Floats:
        """Messages from the leaves to the target; a value between levels is a little of both."""
        walk = self._walk(classes.place)
        says = {key: digits[:, key] for key, _ in walk}
        says[classes.place] = np.tile(self.singles[classes.place], (len(digits), 1))
        for key, parent in reversed(walk[1:]):
            message = says[key] @ self._ratio(key, parent)
            says[parent] = says[parent] * message
            says[parent] /= np.maximum(says[parent].sum(axis=1, keepdims=True), 1e-300)
        chances = np.maximum(says[classes.place], 1e-300) @ classes.digits
        return np.asarray(chances / chances.sum(axis=1, keepdims=True))

    def log_likelihood(self, people: People | Iterable[Record]) -> Floats:
        """Each person's log-likelihood under the tree, the mean over how values may round."""
        self._fitted()
        parts = []
        for digits in digit_chances(self.schema, people):
            logs = np.einsum("nds,ds->n", digits, np.log(np.maximum(self.singles, 1e-12)))
            for a, b in self.places:
                worth = np.log(np.maximum(self.ratios[a, b], 1e-12))
                logs += np.einsum("ns,st,nt->n", digits[:, a], worth, digits[:, b])
            parts.append(logs)
        return np.concatenate(parts) if parts else np.empty(0)

    def sample(self, people: int, coins: Coins) -> People:
        """Synthetic people drawn from the tree, each value one of the levels."""
        self._fitted()
        draw = coins.generator()
        digits = np.zeros((people, len(self.singles)), np.int64)
        for key, parent in self._order:
            law = np.tile(self.singles[key], (len(self.singles[key]), 1))
            if parent >= 0:
                law = law * self._ratio(parent, key)
            steps = np.cumsum(law, axis=1)
            steps /= np.maximum(steps[:, -1:], 1e-300)
            given = digits[:, parent] if parent >= 0 else np.zeros(people, np.int64)
            # The last step is 1 and a draw is below it, so the digit is always in range.
            digits[:, key] = (draw.random(people)[:, None] >= steps[given, :-1]).sum(axis=1)
        return self._people(digits)

    def _people(self, digits: Integers) -> People:
        who, keys = np.nonzero(digits)
        schema = self.schema
        level = (digits[who, keys] - 1) / max(schema.levels - 1, 1)
        return People(
            address(np.arange(len(digits))),
            np.concatenate([[0], np.cumsum(np.bincount(who, minlength=len(digits)), dtype=np.int64)]),
            keys.astype(place_type(schema)),
            schema.low[keys] + level * (schema.high[keys] - schema.low[keys]),
        )


def _spanning(worth: dict[tuple[int, int], float], keys: int) -> list[tuple[int, int]]:
    """The edges of the heaviest forest (Kruskal 1956)."""
    tree = list(range(keys))

    def top(key: int) -> int:
        while tree[key] != key:
            tree[key] = tree[tree[key]]
            key = tree[key]
        return key

    kept = []
    for a, b in sorted(worth, key=lambda pair: -worth[pair]):
        if top(a) != top(b):
            tree[top(a)] = top(b)
            kept.append((a, b))
    return kept
