"""What all classifiers share: a target's classes, and people as chances of digits."""

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
    """A target's classes: not held and held, or with ``levels`` absent and each level."""

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
        """Which class each digit is in, one column a class."""

    def name(self, label: object) -> str:
        """A class in words."""
        return {False: "absent", True: "held"}[label] if isinstance(label, bool) else str(label)


def digit_chances(schema: Schema, people: People | Iterable[Record]) -> Iterable[Floats]:
    """Person by key by digit, the chance of each digit after rounding; some people at a time."""
    if isinstance(people, Mapping):
        raise RecordError("give a list of records, one for each person")
    table = people if isinstance(people, People) else People.of_records(schema, people)
    for part in table.chunks(CHUNK):
        yield Population(schema, part, schema.levels).chances


class Classifier(ABC):
    """``fit`` on released laws, then ``predict`` for people whose records are at hand."""

    classes: Classes | None = None
    schema: Schema

    def predict_proba(self, people: People | Iterable[Record]) -> Floats:
        """Each person's chance of each class; what they hold of the target itself is not looked at."""
        classes = self._fitted()
        parts = [self._chances(part) for part in digit_chances(self.schema, people)]
        return np.vstack(parts) if parts else np.empty((0, len(classes.labels)))

    def predict(self, people: People | Iterable[Record]) -> np.ndarray:
        """Each person's likeliest class."""
        labels = np.array(self._fitted().labels)
        return np.asarray(labels[self.predict_proba(people).argmax(axis=1)])

    def score(self, people: People | Iterable[Record]) -> float:
        """The share of people whose likeliest class is their own, the level nearest to the value."""
        table = people if isinstance(people, People) else People.of_records(self.schema, people)
        return float((self.predict(table) == true_classes(self.schema, self._fitted(), table)).mean())

    def _fitted(self) -> Classes:
        if self.classes is None:
            raise QueryError("fit comes before predict")
        return self.classes

    @abstractmethod
    def _chances(self, digits: Floats) -> Floats:
        """Each class's chance for some people, from the chances of their keys' digits."""


def true_classes(schema: Schema, classes: Classes, people: People) -> np.ndarray:
    """The class of each person: of the nearest level where the target's value lies between two."""
    parts = [part[:, classes.place] @ classes.digits for part in digit_chances(schema, people)]
    return np.array(classes.labels)[np.vstack(parts).argmax(axis=1)]
