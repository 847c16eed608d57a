"""Questions: what a contest asks of every plan. Single keys and conditionals each have a class."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from ..estimate.answer import Band
from ..foundation.arrays import Floats
from ..foundation.coins import Coins
from ..people.population import Population
from ..people.prior import Prior
from ..people.schema import Schema
from ..plan.plan import Plan

StatisticBands = Mapping[str, Band | None]
"""By statistic: answers of shape ``(repetitions, questions)``; None without answers."""


class AnswerGroup(NamedTuple):
    """Answers of several repetitions, by estimator."""

    plan: Plan
    """A plan that was answered in these repetitions."""
    repetitions: int
    bands: Mapping[str, StatisticBands]


@dataclass(frozen=True)
class Questions(ABC):
    """The questions, their true answers in a population, and how a plan's tallies answer them."""

    population: Population
    coins: Coins

    @property
    def schema(self) -> Schema:
        return self.population.schema

    @cached_property
    def table_prior(self) -> Prior:
        """The population as a prior: what predictions are made at."""
        return Prior.of_people(self.schema, self.population.people)

    @property
    @abstractmethod
    def ask(self) -> str | Sequence[str]:
        """The questions as the planner takes them."""

    @property
    @abstractmethod
    def truth(self) -> Mapping[str, Floats]:
        """By statistic: the true answer to every question, means on [-1, 1]; NaN if there is none."""

    @abstractmethod
    def plan(
        self,
        mechanism: str,
        parameters: Mapping[str, Any],
        epsilon: str,
        calibrate: str,
        people: int,
        estimator: str | None,
    ) -> Plan:
        """The plan of a mechanism for these questions and, where that matters, for one estimator."""

    @abstractmethod
    def estimators(self, plan: Plan) -> tuple[str, ...]:
        """Every estimator that answers the questions from a plan's tally."""

    @abstractmethod
    def usual_estimators(self, plan: Plan, known: Sequence[str]) -> tuple[str, ...]:
        """The known estimators that are measured if none is requested."""

    @abstractmethod
    def planner_estimators(self, known: Sequence[str]) -> tuple[str, ...]:
        """The same for the planner's choice, whose own estimator ``best`` comes first."""

    @abstractmethod
    def answers(
        self, plan: Plan, people: int, repetitions: int, estimators: Sequence[str]
    ) -> Iterator[AnswerGroup]:
        """Simulated answers of all repetitions, some at a time."""

    @abstractmethod
    def predicted(
        self, plan: Plan, people: int, estimators: Sequence[str]
    ) -> dict[str, dict[str, float | None]]:
        """By estimator and statistic: the predicted mean squared error; None without a forecast."""
