"""The Chow-Liu tree: a law of all keys from released laws of two keys, and edges above noise."""

from __future__ import annotations

from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

import numpy as np

from ...foundation.arrays import Floats, Integers
from ...foundation.coins import Coins, address
from ...foundation.errors import QueryError
from ...foundation.shown_result import MOST_SHOWN
from ...people.people import People, place_type
from .bonds import bond, law_ratios
from .classifier import Classes, Classifier
from .independence import keys_independence
from .released import Released, Source, check_chance
from .rows import Rows, digit_chances
from .showing import chance, html_text, table_of

if TYPE_CHECKING:
    from ...foundation.result_table import ResultTable
    from ...plot.style import Axes


class Edge(NamedTuple):
    """Two keys that are dependent beyond noise, and how much."""

    first: str
    second: str
    information: float
    """Mutual information, in nats."""
    lift: float
    """The share who hold both, divided by the product of the shares who hold each."""
    p_value: float
    """p-value of independence, multiplied by the number of pairs that were tested."""


class ChowLiuOptions(TypedDict, total=False):
    """The parameters of ``ChowLiu``, for type checkers."""

    significance: float
    target: str | None
    levels: bool


class ChowLiu(Classifier):
    """The tree-shaped law of all keys with the most mutual information along its edges.

    Chow and Liu, IEEE Trans. Information Theory, 1968. An edge must be significant at the level
    ``significance``, corrected for all pairs of keys. Keys without an edge stand alone, so the result
    may be a forest, in ``edges_``. It predicts any key from all others: ``target``, or the one that
    ``predict`` is asked for.
    """

    column_kinds = {"first": str, "second": str}

    def __init__(
        self, significance: float = 0.05, target: str | None = None, levels: bool = False
    ) -> None:
        self.significance, self.target, self.levels = significance, target, levels

    def fit(self, tally: Source, y: None = None) -> ChowLiu:
        """Finds the tree and the laws along its edges; ``y`` is not used."""
        released = Released(tally)
        check_chance(self.significance, "significance")
        names = released.schema.keys
        pairs = list(combinations(range(len(names)), 2))
        bonds = {pair: bond(released, *pair) for pair in pairs}
        p_values = {
            pair: keys_independence(released, *pair) * len(pairs)
            for pair, key_bond in bonds.items()
            if key_bond.information > 1e-9
        }
        significant = {
            pair: bonds[pair].information for pair, p in p_values.items() if p < self.significance
        }
        self.singles_ = np.array([released.single(key) for key in range(len(names))])
        self._places = _spanning(significant, len(names))
        self._ratios = {
            (a, b): law_ratios(bonds[a, b].law, self.singles_[a], self.singles_[b])
            for a, b in self._places
        }
        self.edges_ = [
            Edge(
                names[a],
                names[b],
                significant[a, b],
                _lift(bonds[a, b].law, self.singles_[a], self.singles_[b]),
                p_values[a, b],
            )
            for a, b in self._places
        ]
        self._learn_classes(released, names[0] if self.target is None else self.target)
        if self.target is None:
            del self.classes_
            self.feature_names_in_ = np.array(names, dtype=object)
            self.n_features_in_ = len(names)
        self.__dict__.pop("_order", None)
        return self

    def _ratio(self, first: int, second: int) -> Floats:
        """The law of two neighbours divided by the product of their laws; rows are the first key."""
        return (
            self._ratios[first, second]
            if (first, second) in self._ratios
            else self._ratios[second, first].T
        )

    def _walk(self, root: int) -> list[tuple[int, int]]:
        """Keys of the tree of ``root``, from the root on, each with its parent; -1 for the root."""
        near: dict[int, list[int]] = {}
        for a, b in self._places:
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
        for key in range(len(self.singles_)):
            if key not in seen:
                order += self._walk(key)
                seen |= {k for k, _ in order}
        return order

    # -- using -----------------------------------------------------------------------------------

    def predict_proba(
        self, people: Rows, target: str | None = None, levels: bool | None = None
    ) -> Floats:
        """Probability of each class of the target given all other keys, ``(people, classes)``.

        ``people`` as for every classifier; ``target`` and ``levels`` are those of the model if they are
        not given.
        """
        classes = self._asked(target, levels)
        parts = [self._messages(part, classes) for part in self._rows(people, classes.target)]
        return np.vstack(parts) if parts else np.empty((0, len(classes.labels)))

    def predict(self, people: Rows, target: str | None = None, levels: bool | None = None) -> np.ndarray:
        """The most likely class of the target of each person, given all other keys."""
        labels = np.array(self._asked(target, levels).labels)
        return np.asarray(labels[self.predict_proba(people, target, levels).argmax(axis=1)])

    def _asked(self, target: str | None, levels: bool | None) -> Classes:
        self._check_fitted()
        chosen = self.target if target is None else target
        if chosen is None:
            raise QueryError("name the key to predict: ChowLiu(target=...), or predict(people, target)")
        return Classes(self.released_, chosen, self.levels if levels is None else levels)

    def _rows(self, people: Rows, not_needed: str | None) -> Any:
        return digit_chances(self.released_, people, list(self.feature_names_in_), not_needed)

    def _chances(self, digits: Floats) -> Floats:
        return self._messages(digits, self._classes)

    def _messages(self, digits: Floats, classes: Classes) -> Floats:
        """Class probabilities, by messages from the leaves to the target."""
        walk = self._walk(classes.place)
        messages = {key: digits[:, key] for key, _ in walk}
        messages[classes.place] = np.tile(self.singles_[classes.place], (len(digits), 1))
        for key, parent in reversed(walk[1:]):
            message = messages[key] @ self._ratio(key, parent)
            messages[parent] = messages[parent] * message
            messages[parent] /= np.maximum(messages[parent].sum(axis=1, keepdims=True), 1e-300)
        chances = np.maximum(messages[classes.place], 1e-300) @ classes.digits
        return np.asarray(chances / chances.sum(axis=1, keepdims=True))

    def log_likelihood(self, people: Rows) -> Floats:
        """Log-likelihood of each person under the tree, averaged over the rounding of values."""
        self._check_fitted()
        parts = []
        for digits in self._rows(people, None):
            logs = np.einsum("nds,ds->n", digits, np.log(np.maximum(self.singles_, 1e-12)))
            for a, b in self._places:
                log_ratios = np.log(np.maximum(self._ratios[a, b], 1e-12))
                logs += np.einsum("ns,st,nt->n", digits[:, a], log_ratios, digits[:, b])
            parts.append(logs)
        return np.concatenate(parts) if parts else np.empty(0)

    def sample(self, people: int, coins: Coins) -> People:
        """Synthetic people drawn from the tree; every value is one of the levels."""
        self._check_fitted()
        draw = coins.generator()
        digits = np.zeros((people, len(self.singles_)), np.int64)
        for key, parent in self._order:
            law = np.tile(self.singles_[key], (len(self.singles_[key]), 1))
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
        schema = self.released_.schema
        level = (digits[who, keys] - 1) / max(schema.levels - 1, 1)
        return People(
            address(np.arange(len(digits))),
            np.concatenate([[0], np.cumsum(np.bincount(who, minlength=len(digits)), dtype=np.int64)]),
            keys.astype(place_type(schema)),
            schema.low[keys] + level * (schema.high[keys] - schema.low[keys]),
        )

    # -- showing -----------------------------------------------------------------------------------

    def columns(self) -> dict[str, list[Any]]:
        """The edges as columns, the most informative first."""
        self._check_fitted()
        return {
            "first": [edge.first for edge in self.edges_],
            "second": [edge.second for edge in self.edges_],
            "information": [edge.information for edge in self.edges_],
            "lift": [edge.lift for edge in self.edges_],
            "p_value": [min(edge.p_value, 1.0) for edge in self.edges_],
        }

    def document(self) -> dict[str, Any]:
        """The tree as a JSON object: its keys with their frequencies, and its edges."""
        self._check_fitted()
        keys = zip(self.released_.schema.keys, self.singles_, strict=True)
        return {
            "significance": self.significance,
            "keys": [{"key": key, "frequency": float(1 - law[0])} for key, law in keys],
            "edges": [edge._asdict() for edge in self.edges_],
        }

    def headings_and_rows(self) -> tuple[list[str], list[list[str]]]:
        """The edges as a table of words."""
        rows = [
            [
                edge.first,
                edge.second,
                f"{edge.information:.4f}",
                f"{edge.lift:.3f}",
                chance(edge.p_value),
            ]
            for edge in self.edges_
        ]
        return ["key", "with", "information", "lift", "p-value"], rows

    def __str__(self) -> str:
        if not self.__sklearn_is_fitted__():
            return repr(self)
        if not self.edges_:
            return f"no two keys are dependent beyond noise at a level of {self.significance:g}"
        return str(self.table())

    def table(self, most: int | None = MOST_SHOWN) -> ResultTable:
        """The first edges as a table, the most informative first; ``most=None`` shows all."""
        self._check_fitted()
        return table_of(*self.headings_and_rows()).first(most, "edges")

    def _repr_html_(self) -> str:
        if not self.__sklearn_is_fitted__() or not self.edges_:
            return html_text(str(self))
        return self.table()._repr_html_()

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draws the keys as points and the edges as lines, wider with more information."""
        from ...plot.learner_plots import draw_chow_liu

        self._check_fitted()
        return draw_chow_liu(self, ax)


def _lift(law: Floats, first: Floats, second: Floats) -> float:
    """The share who hold both keys, divided by the product of the shares who hold each."""
    below = float((1 - first[0]) * (1 - second[0]))
    return float(law[1:, 1:].sum()) / below if below > 0 else 1.0


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
