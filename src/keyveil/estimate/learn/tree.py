"""A decision tree grown from released laws; every split is statistically significant."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...foundation.arrays import Floats
from ...foundation.errors import QueryError
from .classifier import Classes, Classifier
from .released import Released, Source, check_chance, score, tail

CRITERIA = ("gini", "entropy")
"""Names of the impurity measures."""
DEEPEST = 6
"""Largest depth of a tree."""
TRIED = 5
"""Number of the best splits of a node that are tested before it becomes a leaf."""

Path = dict[int, Floats]
"""For each key on the path, 1 for every digit that people at the node may have."""


class TreeSplit(NamedTuple):
    """A question: whether the digit of a key is one of those marked with 1."""

    key: int
    digits: Floats
    words: str


@dataclass(frozen=True)
class Node:
    """People with the same answers: their share of all, the law of their classes, and a split."""

    share: float
    law: tuple[float, ...]
    path: Path
    split: TreeSplit | None = None
    yes: Node | None = None
    no: Node | None = None

    def leaves(self) -> Iterator[Node]:
        """The leaves below, from yes to no."""
        if self.yes is None or self.no is None:
            yield self
        else:
            yield from self.yes.leaves()
            yield from self.no.leaves()


class DecisionTree(Classifier):
    """Predicts whether a person holds ``target`` (or, with ``levels``, at which level).

    A split must leave ``min_share`` of all people on both sides and be significant at the level
    ``significance``, corrected for all splits tried at its node. Laws come from a view that holds the
    keys, or else are those of most entropy; ``how`` says which.
    """

    def __init__(
        self,
        target: str,
        max_depth: int = 3,
        min_share: float = 0.02,
        criterion: str = "gini",
        levels: bool = False,
        significance: float = 0.05,
    ) -> None:
        if criterion not in CRITERIA:
            raise QueryError(f"unknown criterion {criterion!r}; known: {', '.join(CRITERIA)}")
        if not 0 <= max_depth <= DEEPEST:
            raise QueryError(f"max_depth is from 0 to {DEEPEST}")
        if not 0 <= min_share < 0.5:
            raise QueryError("min_share is from 0 to below 0.5, like 0.02")
        self.target, self.max_depth, self.min_share = target, max_depth, min_share
        self.criterion, self.levels = criterion, levels
        self.significance = check_chance(significance, "significance")

    def fit(self, conditionals: Source) -> DecisionTree:
        """Grows the tree."""
        released = Released(conditionals)
        classes = Classes(released, self.target, self.levels)
        self.classes, self.schema = classes, released.schema
        self.how = "view"
        law = released.single(classes.place) @ classes.digits
        self.root = self._grown(released, classes, {}, law, 0)
        return self

    # -- growing ---------------------------------------------------------------------------------

    def _grown(self, released: Released, classes: Classes, path: Path, law: Floats, depth: int) -> Node:
        """The subtree of people on a path; ``law`` holds the shares of their classes of all people."""
        share = float(law.sum())
        leaf = Node(share, tuple((law / share).tolist()), path)
        if depth == self.max_depth:
            return leaf
        splits = list(self._splits(released, classes, path))
        for gain, split, sides in sorted(splits, key=lambda candidate: -candidate[0])[:TRIED]:
            if gain > 1e-9 and self._clear(released, classes, path, split, len(splits)):
                yes, no = (
                    self._grown(released, classes, _narrowed(path, split.key, digits), side, depth + 1)
                    for digits, side in zip((split.digits, 1 - split.digits), sides, strict=True)
                )
                return Node(share, leaf.law, path, split, yes, no)
        return leaf

    def _splits(
        self, released: Released, classes: Classes, path: Path
    ) -> Iterator[tuple[float, TreeSplit, tuple[Floats, Floats]]]:
        """Every split with enough people on both sides: its gain, and the classes on both sides."""
        for key in range(len(self.schema.keys)):
            if key == classes.place or not released.speaks_of(key):
                continue
            order = (*(k for k in path if k != key), key, classes.place)
            law, how = released.law(order)
            if how != "view":
                self.how = how
            for allowed in (path[k] for k in order[:-2]):
                law = np.tensordot(allowed, law, axes=(0, 0))
            table = law * path.get(key, np.ones(released.states))[:, None] @ classes.digits
            for split in _questions(released, key, path.get(key)):
                yes = split.digits @ table
                no = table.sum(axis=0) - yes
                if min(yes.sum(), no.sum()) >= max(self.min_share, 1e-9):
                    yield self._gain(yes, no), split, (yes, no)

    def _gain(self, yes: Floats, no: Floats) -> float:
        impurity = _gini if self.criterion == "gini" else _entropy
        return impurity(yes + no) - impurity(yes) - impurity(no)

    def _clear(
        self, released: Released, classes: Classes, path: Path, split: TreeSplit, tried: int
    ) -> bool:
        """Whether answer and class are significantly dependent on this path.

        For each class, (yes and class) * all - yes * class, by the delta method. The smallest p-value is
        multiplied by the number of classes and of splits tried.
        """
        keys = (*(k for k in path if k != split.key), split.key, classes.place)
        on_path = np.ones((1,) * len(keys))
        for axis, key in enumerate(keys[:-1]):
            on_path = on_path * _along(path.get(key, np.ones(released.states)), axis, len(keys))
        on_path = on_path * np.ones((released.states,) * len(keys))
        yes = on_path * _along(split.digits, len(keys) - 2, len(keys))
        worst = 1.0
        for digits in classes.digits.T[1:]:
            inside = _along(digits, len(keys) - 1, len(keys))
            weights = np.stack([yes * inside, on_path, yes, on_path * inside], axis=-1)
            moments = released.moments(keys, weights)
            joint, everyone, yes_share, class_share = moments.values
            slope = np.array([everyone, joint, -class_share, -yes_share])
            z = score(
                float(joint * everyone - yes_share * class_share),
                float(slope @ moments.covariance @ slope),
            )
            worst = min(worst, 2 * tail(abs(z)))
        return worst * tried * (len(classes.labels) - 1) < self.significance

    # -- using -----------------------------------------------------------------------------------

    def _chances(self, digits: Floats) -> Floats:
        """The laws of the leaves, weighted by the chance that rounding leads a person there."""
        total = np.zeros((len(digits), len(self._fitted().labels)))
        for leaf in self.root.leaves():
            reach = np.ones(len(digits))
            for key, allowed in leaf.path.items():
                reach = reach * (digits[:, key] @ allowed)
            total += reach[:, None] * np.array(leaf.law)
        return total

    def text(self) -> str:
        """The tree as text, with one line for each question or leaf."""
        self._fitted()
        return "\n".join(self._lines(self.root, ""))

    def document(self) -> dict[str, Any]:
        """The tree as a JSON object: nodes with share of all people, law of classes, and split."""
        classes = self._fitted()
        return {
            "target": self.target,
            "how": self.how,
            "classes": [classes.name(label) for label in classes.labels],
            "root": self._node(self.root),
        }

    def _node(self, node: Node) -> dict[str, Any]:
        document: dict[str, Any] = {"share": node.share, "law": list(node.law)}
        if node.split is not None and node.yes is not None and node.no is not None:
            document["key"], document["is"] = self.schema.keys[node.split.key], node.split.words
            document["yes"], document["no"] = self._node(node.yes), self._node(node.no)
        return document

    def _lines(self, node: Node, indent: str) -> Iterator[str]:
        classes = self._fitted()
        if node.split is None or node.yes is None or node.no is None:
            laws = zip(classes.labels, node.law, strict=True)
            parts = [f"{classes.name(label)} {share:.2f}" for label, share in laws]
            words = ", ".join(parts[1:] if len(parts) == 2 else parts)
            yield f"{indent}{self.target} {words} ({100 * node.share:.0f} % of people)"
            return
        yield f"{indent}if {self.schema.keys[node.split.key]} is {node.split.words}:"
        yield from self._lines(node.yes, indent + "    ")
        yield f"{indent}else:"
        yield from self._lines(node.no, indent + "    ")


def _questions(released: Released, key: int, allowed: Floats | None) -> Iterator[TreeSplit]:
    """The questions about a key: held, at a level or higher, held below a level."""
    digits, names = np.arange(released.states), released.names
    questions = [("held", digits > 0)]
    for level in range(2, released.states):
        higher = names[level] if level == released.states - 1 else f"{names[level]} or higher"
        lower = names[1] if level == 2 else f"held below {names[level]}"
        questions += [(higher, digits >= level), (lower, (digits > 0) & (digits < level))]
    for words, mask in questions:
        inside = mask if allowed is None else mask[allowed > 0]
        if inside.any() and not inside.all():
            yield TreeSplit(key, mask.astype(np.float64), words)


def _narrowed(path: Path, key: int, digits: Floats) -> Path:
    return {**path, key: path.get(key, np.ones(len(digits))) * digits}


def _along(values: Floats, axis: int, axes: int) -> Floats:
    """A vector as an array that varies along one axis."""
    shape = [1] * axes
    shape[axis] = len(values)
    return values.reshape(shape)


def _gini(shares: Floats) -> float:
    total = float(shares.sum())
    return total - float((shares**2).sum()) / total if total > 0 else 0.0


def _entropy(shares: Floats) -> float:
    total, positive = float(shares.sum()), shares[shares > 0]
    return float(-(positive * np.log(positive / total)).sum()) if total > 0 else 0.0
