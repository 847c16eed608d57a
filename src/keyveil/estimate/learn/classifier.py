"""The base of all classifiers: the classes of a target, and people as probabilities of digits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ...foundation.arrays import Floats
from ...foundation.errors import QueryError, RecordError
from ...people.people import People
from ...people.population import Population
from ...people.schema import Record, Schema
from .released import Released

CHUNK = 1 << 14
"""Number of people classified at a time."""


class Classes:
    """The classes of a target: not held and held, or with ``levels`` absent and each level."""

    def __init__(self, released: Released, target: str, levels: bool) -> None:
        self.target, self.place = target, released.place(target)
        states = released.states
        if levels:
            self.labels: tuple[Any, ...] = released.names
            self.digits = np.eye(states)
        else:
            self.labels = (False, True)
            self.digits = np.zeros((states, 2))
            self.digits[0, 0] = self.digits[1:, 1] = 1.0
        """1 for the class of each digit, ``(digits, classes)``."""

    def name(self, label: object) -> str:
        """A class in words."""
        return {False: "absent", True: "held"}[label] if isinstance(label, bool) else str(label)


def digit_chances(schema: Schema, people: People | Iterable[Record]) -> Iterable[Floats]:
    """Probabilities of digits after rounding, ``(people, keys, digits)``, in chunks of people."""
    if isinstance(people, Mapping):
        raise RecordError("give a list of records, one for each person")
    table = people if isinstance(people, People) else People.of_records(schema, people)
    for part in table.chunks(CHUNK):
        yield Population(schema, part, schema.levels).chances


class Classifier(ABC):
    """A classifier: ``fit`` on released laws, then ``predict`` for people with known records."""

    classes: Classes | None = None
    schema: Schema

    def predict_proba(self, people: People | Iterable[Record]) -> Floats:
        """Probability of each class, ``(people, classes)``; the target itself is not used."""
        classes = self._fitted()
        parts = [self._chances(part) for part in digit_chances(self.schema, people)]
        return np.vstack(parts) if parts else np.empty((0, len(classes.labels)))

    def predict(self, people: People | Iterable[Record]) -> np.ndarray:
        """The most likely class of each person."""
        labels = np.array(self._fitted().labels)
        return np.asarray(labels[self.predict_proba(people).argmax(axis=1)])

    def score(self, people: People | Iterable[Record]) -> float:
        """The share of people whose most likely class is their true class (``true_classes``)."""
        table = people if isinstance(people, People) else People.of_records(self.schema, people)
        return float((self.predict(table) == true_classes(self.schema, self._fitted(), table)).mean())

    def _fitted(self) -> Classes:
        if self.classes is None:
            raise QueryError("call fit before predict")
        return self.classes

    @abstractmethod
    def _chances(self, digits: Floats) -> Floats:
        """Class probabilities ``(people, classes)`` from the probabilities of digits."""


def true_classes(schema: Schema, classes: Classes, people: People) -> np.ndarray:
    """The true class of each person; a value between two levels counts as the nearest one."""
    parts = [part[:, classes.place] @ classes.digits for part in digit_chances(schema, people)]
    return np.array(classes.labels)[np.vstack(parts).argmax(axis=1)]
