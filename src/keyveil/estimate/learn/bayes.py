"""Naive Bayes from released laws of two keys, shrunk towards independence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...foundation.arrays import Floats
from ...foundation.shown_result import MOST_SHOWN
from .bonds import bond, law_ratios
from .classifier import Classifier
from .released import Released, Source
from .showing import html_text, table_of

if TYPE_CHECKING:
    from ...foundation.result_table import ResultTable
    from ...plot.style import Axes


class NaiveBayes(Classifier):
    """Predicts ``target`` as if all other keys were independent given its class.

    With ``levels`` the classes are absent and the levels, otherwise held and not held. After ``fit``,
    ``class_prior_`` is the law of the classes and ``votes_`` holds Pr[digit | class] / Pr[digit] for
    every key, digit and class; 1 is neutral.
    """

    def __init__(self, target: str, levels: bool = False) -> None:
        self.target, self.levels = target, levels

    def fit(self, tally: Source, y: None = None) -> NaiveBayes:
        """Reads the joint law of the target and every other key; ``y`` is not used."""
        released = Released(tally)
        classes = self._learn_classes(released, self.target)
        self.class_prior_ = released.single(classes.place) @ classes.digits
        keys, states = len(released.schema.keys), released.states
        self.votes_ = np.ones((keys, states, len(self.class_prior_)))
        for key in range(keys):
            if key != classes.place and released.speaks_of(key):
                joint = bond(released, key, classes.place).law @ classes.digits
                self.votes_[key] = law_ratios(joint, released.single(key), self.class_prior_)
        return self

    def _chances(self, digits: Floats) -> Floats:
        votes = np.einsum("nds,dsc->ndc", digits, self.votes_)
        prior = np.log(np.maximum(self.class_prior_, 1e-12))
        logs = np.log(np.maximum(votes, 1e-12)).sum(axis=1) + prior
        chances = np.exp(logs - logs.max(axis=1, keepdims=True))
        return np.asarray(chances / chances.sum(axis=1, keepdims=True))

    # -- showing -----------------------------------------------------------------------------------

    def columns(self) -> dict[str, list[Any]]:
        """A row for each digit of each key: the factor on every class; the keys that say most first."""
        self._check_fitted()
        names = self.released_.names
        keys = [key for key in self.by_strength() if key != self._classes.place]
        rows = [(key, digit) for key in keys for digit in range(len(names))]
        columns: dict[str, list[Any]] = {
            "key": [self.released_.schema.keys[key] for key, _ in rows],
            "is": [names[digit] for _, digit in rows],
        }
        for number, name in enumerate(self._classes.names):
            columns[name.replace(" ", "_")] = [float(self.votes_[k, d, number]) for k, d in rows]
        return columns

    def by_strength(self) -> list[int]:
        """The places of the keys, the one with the largest or smallest factor first."""
        strength = np.abs(np.log(np.maximum(self.votes_, 1e-12))).max(axis=(1, 2))
        return [int(key) for key in np.argsort(-strength, kind="stable")]

    def document(self) -> dict[str, Any]:
        """The classifier as a JSON object: the law of the classes, and the factors of every key."""
        columns = self.columns()
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        prior = dict(zip(self._classes.names, self.class_prior_.tolist(), strict=True))
        factors = [
            {
                "key": row["key"],
                "is": row["is"],
                "factors": {name: row[name.replace(" ", "_")] for name in self._classes.names},
            }
            for row in rows
        ]
        return {
            "target": self._classes.target,
            "classes": self._classes.names,
            "prior": prior,
            "keys": factors,
        }

    def headings_and_rows(self) -> tuple[list[str], list[list[str]]]:
        """The factors as a table of words."""
        columns = self.columns()
        cells = [
            [f"{cell:.3f}" if isinstance(cell, float) else str(cell) for cell in column]
            for column in columns.values()
        ]
        headings = ["key", "is", *(f"{self.target} {name}" for name in self._classes.names)]
        return headings, [list(row) for row in zip(*cells, strict=True)]

    def __str__(self) -> str:
        if not self.__sklearn_is_fitted__():
            return repr(self)
        return str(self.table())

    def table(self, most: int | None = MOST_SHOWN) -> ResultTable:
        """The first factors as a table, of the key that says most first; ``most=None`` shows all."""
        self._check_fitted()
        return table_of(*self.headings_and_rows(), self.prior_text()).first(most, "factors")

    def prior_text(self) -> str:
        """The law of the classes in words."""
        shares = zip(self._classes.names, self.class_prior_, strict=True)
        listed = ", ".join(f"{name} {share:.3f}" for name, share in shares)
        return f"{self.target} before anything is known: {listed}; then multiply by the factors"

    def _repr_html_(self) -> str:
        if not self.__sklearn_is_fitted__():
            return html_text(repr(self))
        return self.table()._repr_html_()

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draws how much each key says about the target, and returns the axes."""
        from ...plot.learner_plots import draw_bayes

        self._check_fitted()
        return draw_bayes(self, ax)
