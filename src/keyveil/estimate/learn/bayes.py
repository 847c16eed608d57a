"""Naive Bayes and the Chow-Liu tree, from released laws of two keys, shrunk towards independence."""

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
    """The dependence of two keys: their joint law after shrinkage, and its significance."""

    law: Floats
    p_value: float
    """p-value of the hypothesis that the keys are independent."""
    information: float
    """Mutual information at that law, in nats."""


def bond(released: Released, first: int, second: int) -> Bond:
    """The law of two keys, with their dependence shrunk by the expected noise.

    Dependence is the joint law minus the product of its margins. It has two parts: presence, and the
    levels given presence. Noise alone has a squared size, in standard errors, equal to the degrees of
    freedom, so each part is shrunk by that share (James and Stein). The margins use all views.
    """
    states = released.states
    margins = released.single(first), released.single(second)
    independent = np.outer(*margins)
    moments = released.evidence.moments((first, second), np.eye(states**2).reshape(states, states, -1))
    if moments is None:
        return Bond(independent, 1.0, 0.0)
    dependence, spread = _dependence(moments.values.reshape(states, states), moments.covariance)
    # Presence: the excess of people who hold both, spread over levels as if these were independent.
    contrast = np.kron(_contrast(margins[0]), _contrast(margins[1]))
    both = np.kron(np.arange(states) > 0, np.arange(states) > 0).astype(np.float64)
    presence = contrast * (both @ dependence)
    rest = np.eye(len(dependence)) - np.outer(contrast, both)
    tests = [
        _size(np.array([both @ dependence]), np.array([[both @ spread @ both]])),
        _size(dependence - presence, rest @ spread @ rest.T),
    ]
    factors = [_shrinkage(*test) for test in tests]
    p_value = min(1.0, 2 * min(chi_square_tail(*test) for test in (tests[0], _size(dependence, spread))))
    if not any(factors):
        return Bond(independent, p_value, 0.0)
    law = independent + (factors[0] * presence + factors[1] * (dependence - presence)).reshape(
        states, states
    )
    # A cell that is empty within its noise gets a small share.
    noise = np.sqrt(np.maximum(spread.diagonal(), 0.0)).reshape(states, states)
    law = _raked(np.maximum(law, np.clip(noise / 2, 1e-6 * independent, independent)), *margins)
    positive = law > 0
    return Bond(
        law, p_value, float((law[positive] * np.log(law[positive] / independent[positive])).sum())
    )


def _dependence(joint: Floats, covariance: Floats) -> tuple[Floats, Floats]:
    """A joint law minus the product of its margins, flat, and its covariance by the delta method."""
    rows, columns = joint.sum(axis=1), joint.sum(axis=0)
    identity, ones = np.eye(len(joint)), np.ones((1, len(joint)))
    slope = np.eye(joint.size)
    slope -= np.kron(identity, columns[:, None] * ones) + np.kron(rows[:, None] * ones, identity)
    return (joint - np.outer(rows, columns)).reshape(-1), slope @ covariance @ slope.T


def _contrast(law: Floats) -> Floats:
    """The change of a law for one more holder, with levels in their proportion."""
    held = law[1:].sum()
    levels = law[1:] / held if held > 0 else np.full(len(law) - 1, 1 / (len(law) - 1))
    return np.concatenate([[-1.0], levels])


def _shrinkage(size: float, freedom: int) -> float:
    """Shrinkage factor of a noisy vector, from 0 to 1; 1 without noise."""
    if size == inf:
        return 1.0
    return max(0.0, 1.0 - freedom / size) if size > 0 else 0.0


def _size(values: Floats, spread: Floats) -> tuple[float, int]:
    """Squared length of noisy values in standard errors, and its degrees of freedom."""
    sizes, axes = np.linalg.eigh(spread)
    if sizes[-1] <= 0:
        return (inf if np.abs(values).max() > 1e-12 else 0.0), 0
    sure = sizes > 1e-9 * sizes[-1]
    return float(((values @ axes[:, sure]) ** 2 / sizes[sure]).sum()), int(sure.sum())


def _raked(law: Floats, rows: Floats, columns: Floats, rounds: int = 30) -> Floats:
    """The law with given margins that is nearest to ``law`` in relative entropy."""
    for _ in range(rounds):
        law = law * _over(rows, law.sum(axis=1))[:, None]
        law = law * _over(columns, law.sum(axis=0))[None, :]
    return law / law.sum()


def _over(above: Floats, below: Floats) -> Floats:
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)


class NaiveBayes(Classifier):
    """Predicts ``target`` as if all other keys were independent given its class."""

    def __init__(self, target: str, levels: bool = False) -> None:
        self.target, self.levels = target, levels

    def fit(self, conditionals: Source) -> NaiveBayes:
        """Reads the joint law of the target and every other key."""
        released = Released(conditionals)
        classes = Classes(released, self.target, self.levels)
        self.schema = released.schema
        self.prior = released.single(classes.place) @ classes.digits
        keys, states = len(self.schema.keys), released.states
        # Pr[digit | class] / Pr[digit]: the evidence of a digit for a class; 1 is neutral.
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
    """A joint law divided by the product of its margins; 1 where a margin is empty."""
    independent = np.outer(rows, columns)
    return np.divide(joint, independent, out=np.ones_like(joint), where=independent > 0)


def _normal(logs: Floats) -> Floats:
    chances = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(chances / chances.sum(axis=1, keepdims=True))


class ChowLiu:
    """The tree-shaped law of all keys with the most mutual information along its edges.

    Chow and Liu, IEEE Trans. Information Theory, 1968. An edge must be significant at the level
    ``significance``, corrected for all pairs of keys. Keys without an edge stand alone, so the result
    may be a forest.
    """

    def __init__(self, significance: float = 0.05) -> None:
        self.significance = check_chance(significance, "significance")
        self.released: Released | None = None

    def fit(self, conditionals: Source) -> ChowLiu:
        """Finds the tree and the laws along its edges."""
        released = Released(conditionals)
        keys = range(len(released.schema.keys))
        pairs = list(combinations(keys, 2))
        bonds = {pair: bond(released, *pair) for pair in pairs}
        information = {
            pair: key_bond.information
            for pair, key_bond in bonds.items()
            if key_bond.p_value * len(pairs) < self.significance and key_bond.information > 1e-9
        }
        self.singles = np.array([released.single(key) for key in keys])
        self.places = _spanning(information, len(keys))
        self.ratios = {
            (a, b): _ratios(bonds[a, b].law, self.singles[a], self.singles[b]) for a, b in self.places
        }
        self.information = {pair: information[pair] for pair in self.places}
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
            raise QueryError("call fit first")
        return self.released

    def _ratio(self, first: int, second: int) -> Floats:
        """The law of two neighbours divided by the product of their laws; rows are the first key."""
        return (
            self.ratios[first, second]
            if (first, second) in self.ratios
            else self.ratios[second, first].T
        )

    def _walk(self, root: int) -> list[tuple[int, int]]:
        """Keys of the tree of ``root``, from the root on, each with its parent; -1 for the root."""
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
        """All keys with their parents, each key after its parent."""
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
        """Probability of each class of the target given all other keys, ``(people, classes)``."""
        classes = Classes(self._fitted(), target, levels)
        parts = [self._chances(part, classes) for part in digit_chances(self.schema, people)]
        return np.vstack(parts) if parts else np.empty((0, len(classes.labels)))

    def predict(
        self, people: People | Iterable[Record], target: str, levels: bool = False
    ) -> np.ndarray:
        """The most likely class of the target of each person, given all other keys."""
        labels = np.array(Classes(self._fitted(), target, levels).labels)
        return np.asarray(labels[self.predict_proba(people, target, levels).argmax(axis=1)])

    def _chances(self, digits: Floats, classes: Classes) -> Floats:
        """Class probabilities, by messages from the leaves to the target."""
        walk = self._walk(classes.place)
        messages = {key: digits[:, key] for key, _ in walk}
        messages[classes.place] = np.tile(self.singles[classes.place], (len(digits), 1))
        for key, parent in reversed(walk[1:]):
            message = messages[key] @ self._ratio(key, parent)
            messages[parent] = messages[parent] * message
            messages[parent] /= np.maximum(messages[parent].sum(axis=1, keepdims=True), 1e-300)
        chances = np.maximum(messages[classes.place], 1e-300) @ classes.digits
        return np.asarray(chances / chances.sum(axis=1, keepdims=True))

    def log_likelihood(self, people: People | Iterable[Record]) -> Floats:
        """Log-likelihood of each person under the tree, averaged over the rounding of values."""
        self._fitted()
        parts = []
        for digits in digit_chances(self.schema, people):
            logs = np.einsum("nds,ds->n", digits, np.log(np.maximum(self.singles, 1e-12)))
            for a, b in self.places:
                log_ratios = np.log(np.maximum(self.ratios[a, b], 1e-12))
                logs += np.einsum("ns,st,nt->n", digits[:, a], log_ratios, digits[:, b])
            parts.append(logs)
        return np.concatenate(parts) if parts else np.empty(0)

    def sample(self, people: int, coins: Coins) -> People:
        """Synthetic people drawn from the tree; every value is one of the levels."""
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


def _spanning(weights: dict[tuple[int, int], float], keys: int) -> list[tuple[int, int]]:
    """The edges of the heaviest forest (Kruskal 1956)."""
    tree = list(range(keys))

    def top(key: int) -> int:
        while tree[key] != key:
            tree[key] = tree[tree[key]]
            key = tree[key]
        return key

    edges = []
    for a, b in sorted(weights, key=lambda pair: -weights[pair]):
        if top(a) != top(b):
            tree[top(a)] = top(b)
            edges.append((a, b))
    return edges
