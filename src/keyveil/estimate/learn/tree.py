"""A decision tree grown from released laws; every split is statistically significant."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

import numpy as np

from ...foundation.arrays import Floats
from ...foundation.errors import QueryError, choices
from ..answer import Estimate
from .classifier import Classes, Classifier
from .independence import AnswerPair, independence, law_with_lift
from .leaves import Path, along, class_estimates
from .released import Released, Source, check_chance, shown
from .showing import html_text, interval_columns

if TYPE_CHECKING:
    from ...plot.style import Axes

CRITERIA = ("gini", "entropy")
"""Names of the impurity measures."""
DEEPEST = 6
"""Largest depth of a tree."""
TRIED = 5
"""Number of the best splits of a node that are tested before it becomes a leaf."""
OF_A_TREE = (
    "a guess below the first question: no view holds these keys together, and their law is the one of "
    "maximum entropy; intervals there are the range that the views leave open"
)
"""What the leaves rest on if no view holds the keys of a path."""


class TreeSplit(NamedTuple):
    """A question: whether the digit of a key is one of those marked with 1."""

    key: int
    digits: Floats
    words: str


@dataclass(frozen=True)
class Node:
    """People with the same answers: their share of all, the shares of their classes, and a split."""

    share: float
    estimates: tuple[Estimate, ...]
    """The share of each class among them, shrunk and with its interval."""
    path: Path
    split: TreeSplit | None = None
    yes: Node | None = None
    no: Node | None = None

    @property
    def law(self) -> tuple[float, ...]:
        """The share of each class among them."""
        return tuple(estimate.value for estimate in self.estimates)

    def leaves(self) -> Iterator[Node]:
        """The leaves below, from yes to no."""
        if self.yes is None or self.no is None:
            yield self
        else:
            yield from self.yes.leaves()
            yield from self.no.leaves()


class TreeOptions(TypedDict, total=False):
    """The parameters of ``DecisionTree`` but its target, for type checkers."""

    max_depth: int
    min_share: float
    criterion: str
    levels: bool
    significance: float


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
        self.target, self.max_depth, self.min_share = target, max_depth, min_share
        self.criterion, self.levels, self.significance = criterion, levels, significance

    def _check(self) -> None:
        """Refuses parameters that are out of range."""
        if self.criterion not in CRITERIA:
            words = choices(self.criterion, CRITERIA)
            raise QueryError(f"unknown criterion {self.criterion!r}; {words}")
        if not isinstance(self.max_depth, Integral) or not 0 <= self.max_depth <= DEEPEST:
            raise QueryError(f"max_depth is a whole number from 0 to {DEEPEST}")
        if not isinstance(self.min_share, Real) or not 0 <= self.min_share < 0.5:
            raise QueryError("min_share is from 0 to below 0.5, like 0.02")
        check_chance(self.significance, "significance")

    def fit(self, tally: Source, y: None = None) -> DecisionTree:
        """Grows the tree; ``y`` is not used."""
        self._check()
        released = Released(tally)
        classes = self._learn_classes(released, self.target)
        self.how_ = "view"
        law = released.single(classes.place) @ classes.digits
        self.root_ = self._grown(released, classes, {}, law, 0, None)
        return self

    # -- growing ---------------------------------------------------------------------------------

    def _grown(
        self,
        released: Released,
        classes: Classes,
        path: Path,
        law: Floats,
        depth: int,
        before: Floats | None,
    ) -> Node:
        """The subtree of people on a path; ``law`` holds the shares of their classes of all people."""
        share = float(law.sum())
        estimates = class_estimates(released, classes, path, law / share, before)
        leaf = Node(share, estimates, path)
        if depth == self.max_depth:
            return leaf
        own = np.array(leaf.law)
        splits = list(self._splits(released, classes, path))
        for gain, split, sides in sorted(splits, key=lambda candidate: -candidate[0])[:TRIED]:
            if gain > 1e-9 and self._clear(released, classes, path, split, len(splits)):
                keys = (*(k for k in path if k != split.key), split.key, classes.place)
                if released.view_law(keys) is None:
                    self.how_ = "maximum entropy"
                yes, no = (
                    self._grown(
                        released, classes, _narrowed(path, split.key, digits), side, depth + 1, own
                    )
                    for digits, side in zip((split.digits, 1 - split.digits), sides, strict=True)
                )
                return replace(leaf, split=split, yes=yes, no=no)
        return leaf

    def _splits(
        self, released: Released, classes: Classes, path: Path
    ) -> Iterator[tuple[float, TreeSplit, tuple[Floats, Floats]]]:
        """Every split with enough people on both sides: its gain, and the classes on both sides."""
        for key in range(len(released.schema.keys)):
            if key == classes.place or not released.speaks_of(key):
                continue
            order = (*(k for k in path if k != key), key, classes.place)
            law = released.law(order).law
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

        The smallest p-value over classes is multiplied by the number of classes and of splits tried.
        """
        keys = (*(k for k in path if k != split.key), split.key, classes.place)
        everyone = np.ones((released.states,) * len(keys))
        inside = everyone
        for axis, key in enumerate(keys[:-1]):
            inside = inside * along(path.get(key, np.ones(released.states)), axis, len(keys))
        yes = everyone * along(split.digits, len(keys) - 2, len(keys))
        law, reports = released.law(keys).law, released.reports(keys)
        smallest = 1.0
        for digits in classes.digits.T[1:]:
            asked = AnswerPair(inside, yes, everyone * along(digits, len(keys) - 1, len(keys)))
            null = law_with_lift(law, asked, reports)
            smallest = min(smallest, independence(released, keys, asked, null))
        return smallest * tried * (len(classes.labels) - 1) < self.significance

    # -- using -----------------------------------------------------------------------------------

    def _chances(self, digits: Floats) -> Floats:
        """The laws of the leaves, weighted by the chance that rounding leads a person there."""
        total = np.zeros((len(digits), len(self.classes_)))
        for leaf in self.root_.leaves():
            reach = np.ones(len(digits))
            for key, allowed in leaf.path.items():
                reach = reach * (digits[:, key] @ allowed)
            total += reach[:, None] * np.array(leaf.law)
        return total

    # -- showing -----------------------------------------------------------------------------------

    def text(self) -> str:
        """The tree as text, with one line for each question or leaf."""
        self._check_fitted()
        return "\n".join(self._lines(self.root_, ""))

    def __str__(self) -> str:
        if not self.__sklearn_is_fitted__():
            return repr(self)
        return self.text() if self.how_ == "view" else f"{self.text()}\n{OF_A_TREE}"

    def _repr_html_(self) -> str:
        return html_text(str(self))

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draws the tree with the estimate and interval of every leaf, and returns the axes."""
        from ...plot.learner_plots import draw_tree

        self._check_fitted()
        return draw_tree(self, ax)

    def paths(self) -> list[tuple[str, Node]]:
        """The leaves, each with its conditions in words."""
        self._check_fitted()
        return [(" and ".join(words) or "everyone", leaf) for words, leaf in self._paths(self.root_, ())]

    def _paths(self, node: Node, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Node]]:
        if node.split is None or node.yes is None or node.no is None:
            yield words, node
            return
        question = self.question(node)
        yield from self._paths(node.yes, (*words, question))
        yield from self._paths(node.no, (*words, f"not {question}"))

    def question(self, node: Node) -> str:
        """The question of a node in words: "Hamburger is high"."""
        assert node.split is not None
        return f"{self.released_.schema.keys[node.split.key]} is {node.split.words}"

    def columns(self) -> dict[str, list[Any]]:
        """The leaves as columns: conditions, share of all people, share of each class."""
        paths = self.paths()
        columns: dict[str, list[Any]] = {
            "people": [words for words, _ in paths],
            "share": [leaf.share for _, leaf in paths],
        }
        for number, name in self.told_classes():
            columns |= interval_columns(name.replace(" ", "_"), [n.estimates[number] for _, n in paths])
        return columns

    def told_classes(self) -> list[tuple[int, str]]:
        """The classes that are shown: of held and not held, only held."""
        named = list(enumerate(self._classes.names))
        return named[1:] if len(named) == 2 else named

    def document(self) -> dict[str, Any]:
        """The tree as a JSON object: nodes with share of all people, estimates of classes, and split."""
        self._check_fitted()
        return {
            "target": self._classes.target,
            "how": self.how_,
            "classes": self._classes.names,
            "root": self._node(self.root_),
        }

    def _node(self, node: Node) -> dict[str, Any]:
        document: dict[str, Any] = {
            "share": node.share,
            "law": list(node.law),
            "estimates": [estimate.document() for estimate in node.estimates],
        }
        if node.split is not None and node.yes is not None and node.no is not None:
            keys = self.released_.schema.keys
            document["key"], document["is"] = keys[node.split.key], node.split.words
            document["yes"], document["no"] = self._node(node.yes), self._node(node.no)
        return document

    def _lines(self, node: Node, indent: str) -> Iterator[str]:
        if node.split is None or node.yes is None or node.no is None:
            parts = [f"{name} {shown(node.estimates[number])}" for number, name in self.told_classes()]
            yield f"{indent}{self.target} {', '.join(parts)} ({100 * node.share:.0f} % of people)"
            return
        yield f"{indent}if {self.question(node)}:"
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


def _gini(shares: Floats) -> float:
    total = float(shares.sum())
    return total - float((shares**2).sum()) / total if total > 0 else 0.0


def _entropy(shares: Floats) -> float:
    total, positive = float(shares.sum()), shares[shares > 0]
    return float(-(positive * np.log(positive / total)).sum()) if total > 0 else 0.0
