"""A contest: the errors of mechanisms on a population, measured by repeated simulation.

Errors are on the [-1, 1] scale, of values that are clipped to their range, averaged over keys or
queries. An unknown value counts as the middle of its range. An unbounded interval covers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..estimate import GENERAL
from ..estimate.decoding import Decoding
from ..estimate.together.conditional import ESTIMATORS
from ..foundation.arrays import Floats
from ..foundation.coins import Coins
from ..foundation.errors import PlanError, nearest
from ..mechanisms import REGISTRY, mechanism_named
from ..mechanisms.mechanism import CALIBRATIONS
from ..people.beliefs import Beliefs
from ..people.population import Population
from ..people.prior import Prior
from ..people.scale import ExactScale
from ..people.schema import Schema
from ..plan.plan import Plan
from ..plan.recipe import written
from ..plan.tally import Tally
from ..planner.advice import Advice
from ..planner.competitor import competitor_name, parse_competitor
from ..planner.first_round import pilot_people
from ..planner.padding import PADDED_FOR
from ..planner.pilot import pilot_beliefs
from ..planner.planner import advise
from .conditional_questions import ConditionalQuestions
from .contest_row import STATISTICS, ContestRow, MeasuredErrors, measure_errors
from .key_questions import KeyQuestions
from .planner_ways import WAYS, is_auto
from .questions import AnswerGroup, Questions, StatisticBands
from .tallies import simulate_runs

DIGITS = 3
"""Pilots whose shares agree in this many digits get the same advice."""


class NoEstimator(PlanError):
    """A mechanism has none of the requested estimators."""


class _Entry(NamedTuple):
    """A plan in the contest, the number of people who answer it, and in how many repetitions."""

    plan: Plan
    people: int
    repetitions: int
    refused: bool = False
    estimator: str | None = None
    """The planner's estimator, for a plan of the planner's."""


@dataclass(frozen=True)
class Contest:
    """A population, the questions, the number of people and repetitions, and the meaning of epsilon."""

    population: Population
    people: int
    repetitions: int
    coins: Coins
    calibrate: str = "tight"
    """"tight": equal true epsilon; "paper": parameters as published, which may prove less."""
    estimators: tuple[str, ...] | None = None
    """The estimators to measure; None for the usual ones."""
    prior: Prior | None = None
    """The planner's prior; the population itself by default."""
    nothing: bool = False
    """Whether the planner is told nothing. It then has a first round where that pays."""
    one_round: bool = False
    """Whether a planner that is told nothing must do without a first round."""
    ask: str = "both"
    """What the planner is asked about single keys: "both", "frequency" or "mean"."""
    pilot: bool = False
    """Whether the planner's prior comes from a pilot among the same people, one in each repetition."""
    pilots: int | None = None
    """The most pilots that are drawn at one epsilon; repetitions are split between them. By default,
    each repetition has its own."""
    keys_together: int | None = None
    """The number of keys in a conditional, target included; None for single keys."""
    named_on: ExactScale | None = None
    """The scale of values and spreads in the names of competitors; the population's by default."""

    def __post_init__(self) -> None:
        if self.people < 1 or self.repetitions < 1:
            raise PlanError("people and repetitions must be at least 1")
        if self.pilot and self.people < 2:
            raise PlanError("with a pilot people must be at least 2: one tells, and one answers")
        if self.pilot and self.keys_together is not None:
            raise PlanError("a pilot is for single keys; it does not tell what goes together")
        if self.nothing and self.prior is not None:
            raise PlanError("a planner that is told nothing has no prior")
        if self.calibrate not in CALIBRATIONS:
            raise PlanError(f"unknown calibration; known: {', '.join(CALIBRATIONS)}")
        self._check_estimators()

    def _check_estimators(self) -> None:
        """Refuse an estimator that no mechanism has before anything is computed."""
        known: tuple[str, ...] = ESTIMATORS
        if self.keys_together is None:
            decodings = [mechanism for mechanism in REGISTRY.values() if isinstance(mechanism, Decoding)]
            own = (name for mechanism in decodings for name in mechanism.estimators)
            known = tuple(dict.fromkeys((*GENERAL, *own)))
        for name in self.estimators or ():
            if name not in known:
                near = nearest(name, known)
                hint = "" if near is None else f"did you mean {near}? "
                raise PlanError(
                    f"no mechanism has the estimator {name!r}; {hint}known: {', '.join(known)}"
                )

    @property
    def schema(self) -> Schema:
        return self.questions.schema

    @cached_property
    def questions(self) -> Questions:
        """What is asked of every plan."""
        if self.keys_together is None:
            return KeyQuestions(self.population, self.coins, self.ask)
        return ConditionalQuestions(self.population.on_unit_scale(), self.coins, self.keys_together)

    @cached_property
    def _scale(self) -> ExactScale:
        """The scale of names."""
        return ExactScale.of(self.population.schema) if self.named_on is None else self.named_on

    @property
    def table_prior(self) -> Prior:
        """The population as a prior."""
        return self.questions.table_prior

    # -- plans -------------------------------------------------------------------------------------

    def plan(self, name: str, epsilon: str, estimator: str | None = None) -> Plan:
        """The plan of a competitor, with the best cap or padding length if none is stated.

        It is the best for one estimator, by default the mechanism's first.
        """
        if is_auto(name):
            return self.for_auto(name).advice(epsilon).plan
        mechanism, typed = parse_competitor(name)
        chosen = written(mechanism_named(mechanism).chosen(typed, self._scale))
        parameters = {parameter: chosen[parameter] for parameter in typed}
        return self.questions.plan(
            mechanism, parameters, epsilon, self.calibrate, self.people, estimator
        )

    def advice(self, epsilon: str) -> Advice:
        """The planner's advice at an epsilon. A workload is left out: it fits only some queries."""
        prior = None if self.nothing else self.prior or self.questions.table_prior
        return self._advice(epsilon, prior)

    def _advice(self, epsilon: str, prior: Prior | Beliefs | None) -> Advice:
        advice = advise(
            self.schema, epsilon, self.people, ask=self.questions.ask, prior=prior, brief=True
        )
        options = tuple(option for option in advice.options if option.mechanism != "workload")
        if not options:
            raise PlanError("the planner has no plan for every conditional; name mechanisms, like ioh")
        return replace(advice, options=options)

    def for_auto(self, name: str) -> Contest:
        """The contest as a competitor like ``auto:nothing`` sees it."""
        way = name.partition(":")[2]
        return replace(self, prior=None, **WAYS[way]) if way else self  # type: ignore[arg-type]

    def _planner_entries(self, epsilon: str) -> list[_Entry]:
        """The planner's plans, the most frequent first."""
        if self.pilot:
            pilot = Plan.of(self.schema, "sized", epsilon, "tight")
            return self._entries_after_pilots(epsilon, pilot, pilot_people(pilot, self.people))
        advice = self.advice(epsilon)
        first = None if self.one_round else advice.first_round
        if first is not None:
            return self._entries_after_pilots(epsilon, first.plan, first.people)
        refused = not advice.answers
        return [_Entry(advice.plan, self.people, self.repetitions, refused, advice.estimator)]

    def _entries_after_pilots(self, epsilon: str, pilot: Plan, asked: int) -> list[_Entry]:
        """The planner's plans after pilots of ``asked`` people."""
        others = self.people - asked
        after = replace(self, people=others)
        advices: dict[bytes, Advice] = {}
        entries: dict[str, _Entry] = {}
        pilots = min(self.repetitions, self.pilots or self.repetitions)
        runs = simulate_runs(pilot, self.population, asked, self.coins, pilots)
        for number, counts in enumerate(runs):
            beliefs = pilot_beliefs(pilot, Tally(pilot, counts))
            shares = beliefs.prior.sizes.round(DIGITS).tobytes()
            if shares not in advices:
                advices[shares] = after._advice(epsilon, beliefs)
            advice = advices[shares]
            plan = advice.plan
            before = entries[plan.hash].repetitions if plan.hash in entries else 0
            own = len(range(number, self.repetitions, pilots))
            entries[plan.hash] = _Entry(plan, others, before + own, not advice.answers)
        first, *rest = sorted(entries.values(), key=lambda entry: -entry.repetitions)
        advice = next(advice for advice in advices.values() if advice.plan.hash == first.plan.hash)
        return [first._replace(estimator=advice.estimator), *rest]

    # -- rows of one competitor at one epsilon -----------------------------------------------------

    def rows(self, name: str, epsilon: str) -> list[ContestRow]:
        """The rows of one competitor at one epsilon, one for each estimator.

        Without a stated cap or padding length, each estimator has a plan with the best one.
        """
        if is_auto(name):
            entries = self.for_auto(name)._planner_entries(epsilon)
            known = self._common_estimators(entries)
            usual = self.questions.planner_estimators(known)[: 1 if ":" in name else None]
            estimators = self._requested(entries[0].plan, known) or usual
            return self._planner_rows(name, epsilon, entries, estimators)
        own = self.plan(name, epsilon)
        known = self.questions.estimators(own)
        estimators = self._requested(own, known) or self.questions.usual_estimators(own, known)
        plans = {
            estimator: self.plan(name, epsilon, estimator) if estimator in PADDED_FOR else own
            for estimator in estimators
        }
        rows: dict[str, ContestRow] = {}
        for plan in dict.fromkeys(plans.values()):
            entry = _Entry(plan, self.people, self.repetitions)
            measured = [estimator for estimator in estimators if plans[estimator] == plan]
            rows |= self._rows_of_plans(name, epsilon, [entry], measured)
        return [rows[estimator] for estimator in estimators]

    def _common_estimators(self, entries: Sequence[_Entry]) -> tuple[str, ...]:
        """The estimators that the plans of all entries have."""
        first, *others = (self.questions.estimators(entry.plan) for entry in entries)
        return tuple(name for name in first if all(name in names for names in others))

    def _requested(self, plan: Plan, known: Sequence[str]) -> tuple[str, ...]:
        """The requested estimators that are known; none if none is requested."""
        if self.estimators is None:
            return ()
        estimators = tuple(name for name in self.estimators if name in known)
        if not estimators:
            requested = ", ".join(map(repr, self.estimators))
            raise NoEstimator(
                f"{plan.mechanism_name} has no estimator {requested}; known: {', '.join(known)}"
            )
        return estimators

    def _planner_rows(
        self, name: str, epsilon: str, entries: Sequence[_Entry], estimators: Sequence[str]
    ) -> list[ContestRow]:
        """The rows of the planner's choices."""
        first = entries[0]
        rows = self._rows_of_plans(name, epsilon, entries, estimators)
        refused = sum(entry.repetitions for entry in entries if entry.refused) > self.repetitions / 2
        facts: dict[str, Any] = {"planner_estimator": first.estimator, "refused": refused}
        if first.people < self.people:
            facts |= {
                "pilot": (self.people - first.people) / self.people,
                "choices": {
                    competitor_name(entry.plan, self._scale): entry.repetitions for entry in entries
                },
                "true_epsilon": float(max(entry.plan.proven for entry in entries)),
            }
        return [replace(rows[estimator], **facts) for estimator in estimators]

    def _rows_of_plans(
        self, name: str, epsilon: str, entries: Sequence[_Entry], estimators: Sequence[str]
    ) -> dict[str, ContestRow]:
        """By estimator: the row over all repetitions of the entries."""
        groups = [
            group
            for entry in entries
            for group in self.questions.answers(entry.plan, entry.people, entry.repetitions, estimators)
        ]
        plan, predicted = entries[0].plan, self._predicted(entries, estimators)
        return {
            estimator: self._row(name, epsilon, plan, estimator, groups, predicted[estimator])
            for estimator in estimators
        }

    def _predicted(
        self, entries: Sequence[_Entry], estimators: Sequence[str]
    ) -> dict[str, dict[str, float | None]]:
        """By estimator and statistic: the predicted error, averaged over all repetitions."""
        forecasts = [self.questions.predicted(entry.plan, entry.people, estimators) for entry in entries]
        shares = [entry.repetitions / self.repetitions for entry in entries]

        def average(estimator: str, statistic: str) -> float | None:
            parts = [forecast[estimator][statistic] for forecast in forecasts]
            known = [part for part in parts if part is not None]
            return float(np.dot(shares, known)) if len(known) == len(parts) else None

        return {
            estimator: {statistic: average(estimator, statistic) for statistic in STATISTICS}
            for estimator in estimators
        }

    def _row(
        self,
        name: str,
        epsilon: str,
        plan: Plan,
        estimator: str,
        groups: Sequence[AnswerGroup],
        predicted: dict[str, float | None],
    ) -> ContestRow:
        bands = [group.bands[estimator] for group in groups]
        frequency, mean = (self._errors(bands, statistic) for statistic in STATISTICS)
        left_out = self._left_out(groups)
        keep_name = is_auto(name) or ":" in name
        return ContestRow(
            mechanism=name if keep_name else plan.mechanism_name,
            chosen=competitor_name(plan, self._scale),
            estimator=estimator,
            epsilon=float(epsilon),
            true_epsilon=float(_true_epsilon(plan)),
            d=len(self.schema.keys),
            n=self.people,
            repetitions=self.repetitions,
            mse_frequency=frequency.mse,
            mse_frequency_se=frequency.mse_se,
            mse_mean=mean.mse,
            mse_mean_se=mean.mse_se,
            mae_frequency=frequency.mae,
            mae_frequency_se=frequency.mae_se,
            mae_mean=mean.mae,
            mae_mean_se=mean.mae_se,
            coverage_frequency=frequency.coverage,
            coverage_mean=mean.coverage,
            bounded_frequency=frequency.bounded,
            bounded_mean=mean.bounded,
            predicted_frequency=predicted["frequency"],
            predicted_mean=predicted["mean"],
            bias_from_cap=left_out > 0,
            left_out=left_out,
            skipped=self._skipped(plan),
            runs={"frequency": frequency.runs, "mean": mean.runs},
            keys_together=self.keys_together,
        )

    def _errors(self, bands: Sequence[StatisticBands], statistic: str) -> MeasuredErrors:
        """The measured errors of one statistic over all groups of repetitions."""
        known = [band for group in bands if (band := group[statistic]) is not None]
        if not known:
            return MeasuredErrors()
        value, low, high = (
            np.concatenate([getattr(band, end) for band in known]) for end in ("value", "low", "high")
        )
        truth = self.questions.truth[statistic]
        return measure_errors(value, low, high, truth, STATISTICS[statistic])

    def _left_out(self, groups: Sequence[AnswerGroup]) -> float:
        """The share of held keys that the plans leave out, averaged over repetitions."""
        sizes = self.population.sizes
        return sum(
            group.repetitions / self.repetitions * left_out_by(group.plan, sizes) for group in groups
        )

    def _skipped(self, plan: Plan) -> tuple[str, ...]:
        if self.estimators is None:
            return ()
        known = self.questions.estimators(plan)
        return tuple(name for name in self.estimators if name not in known)


def left_out_by(plan: Plan, sizes: Floats) -> float:
    """The share of held keys beyond the plan's cap; ``sizes[j]`` is the share of people with j keys.

    A plan of several parts has the smallest cap of them.
    """
    held = np.arange(len(sizes))
    total = float(sizes @ held)
    parts = [(own.encoding.most_counted(own.cap), own.mechanism.answers) for own in plan.part_plans]
    caps = [most for most, answers in parts if most is not None and answers]
    if not caps or not total:
        return 0.0
    return float(sizes @ np.maximum(held - min(caps), 0)) / total


def _true_epsilon(plan: Plan) -> Decimal:
    """The proven epsilon; of a chain the sum over its rounds, unless people are split between rounds."""
    if plan.chain is None or "share" in plan.chain:
        return plan.proven
    total = Decimal(plan.chain["total"])
    return total if plan.calibrate == "tight" else plan.mechanism.true_epsilon(total)
