"""The base of all classifiers: the classes of a target, and predictions for rows of people."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...foundation.arrays import Floats
from ...foundation.errors import TableError
from ...people.people import People
from .learner import Learner
from .released import Released
from .rows import Rows, digit_chances


class Classes:
    """The classes of a target: not held and held, or with ``levels`` absent and each level."""

    def __init__(self, released: Released, target: str, levels: bool) -> None:
        self.place = released.place(target)
        self.target = released.schema.keys[self.place]
        states = released.states
        if levels:
            self.labels: tuple[Any, ...] = released.names
            self.digits = np.eye(states)
        else:
            self.labels = (False, True)
            self.digits = np.zeros((states, 2))
            self.digits[0, 0] = self.digits[1:, 1] = 1.0
        """1 for the class of each digit, ``(digits, classes)``."""

    @property
    def names(self) -> list[str]:
        """The classes in words."""
        words = {False: "absent", True: "held"}
        return [words[label] if isinstance(label, bool) else str(label) for label in self.labels]


class Classifier(Learner):
    """A classifier: ``fit`` on released statistics, then ``predict`` for people with known records.

    After ``fit``, ``classes_`` holds the classes, ``feature_names_in_`` the keys that predictions are
    made from, and ``n_features_in_`` their number.
    """

    levels: bool
    classes_: np.ndarray
    feature_names_in_: np.ndarray
    n_features_in_: int

    def _learn_classes(self, released: Released, target: str) -> Classes:
        """Sets the attributes that scikit-learn knows, and returns the classes."""
        self.released_, self.frame_library = released, released.frame_library
        self._classes = Classes(released, target, self.levels)
        self.classes_ = np.array(self._classes.labels)
        names = [key for key in released.schema.keys if key != self._classes.target]
        self.feature_names_in_ = np.array(names, dtype=object)
        self.n_features_in_ = len(names)
        return self._classes

    def predict_proba(self, people: Rows) -> Floats:
        """Probability of each class, ``(people, classes)``; the target itself is not used.

        ``people`` are records, ``People``, a frame (pandas, Polars or Arrow) with a row for each person
        and a column for each key, or an array with the columns of ``feature_names_in_``. An empty cell
        is a key not held. A column of True and False says who holds the key, at a value not known.
        """
        self._check_fitted()
        parts = [self._chances(part) for part in self._digits(people)]
        return np.vstack(parts) if parts else np.empty((0, len(self.classes_)))

    def predict(self, people: Rows) -> np.ndarray:
        """The most likely class of each person."""
        chances = self.predict_proba(people)
        return np.asarray(self.classes_[chances.argmax(axis=1)])

    def score(self, people: Rows, y: Sequence[Any] | None = None) -> float:
        """The share of people whose most likely class is their true one.

        True classes are ``y``, or those of the people themselves; then a value between two levels
        counts as the nearest one.
        """
        guesses = self.predict(people)
        true = self.true_classes(people) if y is None else np.asarray(y)
        if true.shape != guesses.shape:
            raise TableError(f"y has one class for each of the {len(guesses):,} people, in a list")
        if len(true) and not np.isin(true, self.classes_).any():
            known = ", ".join(map(repr, self.classes_.tolist()))
            raise TableError(f"no label in y is one of the classes, which are {known}")
        return float((guesses == true).mean())

    def true_classes(self, people: Rows) -> np.ndarray:
        """The class of each person by their own record, which must hold the target if they do."""
        self._check_fitted()
        chances = [
            part[:, self._classes.place] @ self._classes.digits for part in self._digits(people, True)
        ]
        if not chances:
            return self.classes_[:0]
        return np.asarray(self.classes_[np.vstack(chances).argmax(axis=1)])

    def _digits(self, people: Rows, with_target: bool = False) -> Any:
        needed = None if with_target else self._classes.target
        return digit_chances(self.released_, people, list(self.feature_names_in_), needed)

    @abstractmethod
    def _chances(self, digits: Floats) -> Floats:
        """Class probabilities ``(people, classes)`` from the probabilities of digits."""


def true_classes(released: Released, classes: Classes, people: People) -> np.ndarray:
    """The true class of each person; a value between two levels counts as the nearest one."""
    chunks = digit_chances(released, people, [], None)
    parts = [part[:, classes.place] @ classes.digits for part in chunks]
    return np.array(classes.labels)[np.vstack(parts).argmax(axis=1)]
