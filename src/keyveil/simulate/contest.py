"""A contest: what mechanisms' answers for single keys are worth on a population, by repeated simulation.

Errors are on the [-1, 1] scale, values clipped to their range, averaged over keys; a mean that is
unknown counts as the middle of its range. Coverage is over bounded intervals.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..estimate import KeyBands, bands, estimators_of
from ..estimate.answer import Band
from ..estimate.forecast.by_draws import DRAWN_ESTIMATORS, forecast_by_draws
from ..estimate.forecast.key_forecast import forecast
from ..estimate.forecast.result import Forecast
from ..foundation.arrays import Floats, Integers
from ..foundation.coins import Coins
from ..foundation.errors import PlanError
from ..mechanisms import REGISTRY, mechanism_named
from ..mechanisms.mechanism import CALIBRATIONS
from ..people.population import Population
from ..people.prior import Prior
from ..people.schema import Schema
from ..plan.plan import Plan
from ..plan.tally import Tally
from ..planner.options import CORRECTED, SHRUNK
from ..planner.padding import NAMES as PADDING_NAMES
from ..planner.padding import PADDED_FOR, padded_plan
from ..planner.pilot import pilot_people, pilot_prior
from ..planner.planner import Advice, advise
from .chains import chain_bands
from .measured_row import AnyRow, Measured, measured
from .tallies import simulate_runs

TOGETHER = (
    *("ioh", "ioh_optimal", "split", "pairs", "triples", "workload", "coefficients", "pair_collision"),
)
"""Made for conditionals; ``all`` leaves them out."""
USUAL = ("published", "likelihood", SHRUNK, CORRECTED)
"""Beside the mechanism's own first estimator, those that are measured where they exist. The planner
takes one of these or the first, so every mechanism has a row with the estimator of ``auto``."""
MOST_COUNTS = 1 << 24
DIGITS = 3
"""Pilots that tell the same up to so many digits get the same advice."""
CAPPED = ("item", "items", "pair_items", "padded")
"""How records are encoded where only so many of a person's keys count."""


@dataclass(frozen=True, kw_only=True)
class ContestRow(AnyRow):
    """One mechanism, estimator and epsilon: its error and coverage over all repetitions."""

    mse_frequency: float | None
    mse_frequency_se: float | None
    """Standard errors are over repetitions; None for one repetition alone."""
    mse_mean: float | None
    mse_mean_se: float | None
    mae_frequency: float | None
    mae_frequency_se: float | None
    mae_mean: float | None
    mae_mean_se: float | None
    predicted_frequency: float | None
    """The mean squared error that the plan's channel and the prior predict: for the plan's first
    estimator, for ``published`` where its law is known, for ``shrunk`` and ``corrected``; None for
    others."""
    predicted_mean: float | None
    bias_from_cap: bool
    """Whether people hold more keys than the plan counts: then answers are biased, and intervals,
    which do not know of it, hold the truth less often than they say."""
    left_out: float
    """Of all keys that people hold, the share that the plan's cap or padding length leaves out."""
    refused: bool = False
    """Whether this is a plan of the planner's that it would not give unless told to (``--anyway``)."""
    planner_estimator: str | None = None
    """For ``auto``: the estimator that the planner takes. Rows of this estimator compare mechanisms
    alone; rows of different estimators compare estimators too."""
    pilot: float | None = None
    """The share of people who told how many keys they hold before the planner chose for the others."""
    choices: Mapping[str, int] | None = None
    """After a pilot: in how many repetitions the planner took what; ``chosen`` is the most frequent."""


class _Taken(NamedTuple):
    """A plan that is answered, by how many people and in how many repetitions."""

    plan: Plan
    people: int
    repetitions: int
    refused: bool = False
    estimator: str | None = SHRUNK
    """The planner's, where it is a plan of the planner's."""


@dataclass(frozen=True)
class Contest:
    """What is compared: a population, how many people, how often, and how epsilon is meant."""

    population: Population
    people: int
    repetitions: int
    coins: Coins
    calibrate: str = "tight"
    """"tight": equal true epsilon; "paper": parameters as published, which may prove less."""
    estimators: tuple[str, ...] | None = None
    prior: Prior | None = None
    """What the planner believes; the table itself if not said."""
    ask: str = "both"
    pilot: bool = False
    """Whether the planner believes what a pilot tells, one for every repetition, of the same people."""

    def __post_init__(self) -> None:
        if self.people < 1 or self.repetitions < 1:
            raise PlanError("people and repetitions must be at least 1")
        if self.pilot and self.people < 2:
            raise PlanError("with a pilot people must be at least 2: one tells, and one answers")
        if self.calibrate not in CALIBRATIONS:
            raise PlanError(f"unknown calibration; known: {', '.join(CALIBRATIONS)}")

    @property
    def schema(self) -> Schema:
        return self.population.schema

    @cached_property
    def known(self) -> Prior:
        """The table as a prior: what predictions are made at."""
        return Prior.of_people(self.population.schema, self.population.people)

    # -- one mechanism at one epsilon --------------------------------------------------------------

    def rows(self, name: str, epsilon: str) -> list[ContestRow]:
        """The rows of one mechanism (or ``auto``) at one epsilon, one for each estimator.

        A mechanism for sets whose cap or padding length is not stated has the best one for each of them.
        """
        if name == "auto":
            taken = self._advised(epsilon)
            estimators = self._estimators([each.plan for each in taken], name, taken[0].estimator)
            return self._measured(name, epsilon, taken, estimators)
        own = self.plan(name, epsilon)
        estimators = self._estimators([own], name, None)
        plans = {
            estimator: self.plan(name, epsilon, estimator) if estimator in PADDED_FOR else own
            for estimator in estimators
        }
        found: dict[str, ContestRow] = {}
        for plan in dict.fromkeys(plans.values()):
            some = tuple(estimator for estimator in estimators if plans[estimator] == plan)
            taken = [_Taken(plan, self.people, self.repetitions)]
            rows = self._measured(name, epsilon, taken, some)
            found |= zip(some, rows, strict=True)
        return [found[estimator] for estimator in estimators]

    def _measured(
        self, name: str, epsilon: str, taken: Sequence[_Taken], estimators: Sequence[str]
    ) -> list[ContestRow]:
        """One row for each estimator, over all repetitions of the plans that were taken."""
        plan = taken[0].plan
        made: dict[str, list[KeyBands]] = {estimator: [] for estimator in estimators}
        left_out = 0.0
        for each in taken:
            some = replace(self, people=each.people, repetitions=each.repetitions, pilot=False)
            for answered, group in some._groups(each.plan, estimators):
                for estimator in estimators:
                    made[estimator].append(group[estimator])
                share = len(group[estimators[0]].reports) / self.repetitions
                left_out += share * left_out_by(answered, self.known.sizes)
        piloted = name == "auto" and self.pilot
        told = None if piloted else self._told(plan)  # other repetitions may have taken other plans
        rows = [
            self._row(name, plan, e, epsilon, made[e], self._predicted(plan, told, e), left_out)
            for e in estimators
        ]
        if name == "auto":
            rows = [replace(row, planner_estimator=taken[0].estimator) for row in rows]
        if sum(each.repetitions for each in taken if each.refused) > self.repetitions / 2:
            rows = [replace(row, refused=True) for row in rows]
        if not piloted:
            return rows
        asked = (self.people - taken[0].people) / self.people
        choices = {described(each.plan): each.repetitions for each in taken}
        proven = float(max(each.plan.proven for each in taken))
        return [replace(row, pilot=asked, choices=choices, true_epsilon=proven) for row in rows]

    def _advised(self, epsilon: str) -> list[_Taken]:
        """Which of the planner's plans is answered how often, the most frequent first."""
        if self.pilot:
            return self._taken_after_pilot(epsilon)
        advice = self.advice(epsilon)
        plan, many = advice.plan, self.repetitions
        return [_Taken(plan, self.people, many, not advice.answers, advice.estimator)]

    def _taken_after_pilot(self, epsilon: str) -> list[_Taken]:
        """Every repetition has its own pilot, and so perhaps its own plan."""
        pilot = Plan.of(self.schema, "sized", epsilon, "tight")
        asked = pilot_people(pilot, self.people)
        rest, known = self.people - asked, dict[bytes, Advice]()
        found: dict[str, _Taken] = {}
        for counts in simulate_runs(pilot, self.population, asked, self.coins, self.repetitions):
            prior = pilot_prior(pilot, Tally(pilot, counts))
            alike = prior.sizes.round(DIGITS).tobytes()
            if alike not in known:
                known[alike] = replace(self, people=rest, prior=prior).advice(epsilon)
            advice = known[alike]
            often = found[advice.plan.hash].repetitions if advice.plan.hash in found else 0
            found[advice.plan.hash] = _Taken(advice.plan, rest, often + 1, not advice.answers)
        first, *others = sorted(found.values(), key=lambda each: -each.repetitions)
        advice = next(each for each in known.values() if each.plan.hash == first.plan.hash)
        return [first._replace(estimator=advice.estimator), *others]

    def advice(self, epsilon: str) -> Advice:
        """What the planner says at an epsilon."""
        prior = self.prior or self.known
        return advise(self.schema, epsilon, self.people, ask=self.ask, prior=prior, brief=True)

    def _groups(
        self, plan: Plan, estimators: Sequence[str]
    ) -> Iterator[tuple[Plan, dict[str, KeyBands]]]:
        """Bands of all repetitions, some at a time, beside a plan that was answered."""
        if plan.chain is not None:
            yield from chain_bands(
                plan, self.population, self.people, self.coins, self.repetitions, estimators
            )
            return
        for counts in self._counts(plan):
            yield plan, {estimator: bands(plan, counts, estimator) for estimator in estimators}

    def plan(self, name: str, epsilon: str, estimator: str | None = None) -> Plan:
        """The plan of a mechanism; sets get the best cap for the population where none is stated.

        Best for one estimator, the mechanism's first unless named.
        """
        if name == "auto":
            return self.advice(epsilon).plan
        mechanism, given = parsed(name)
        return padded_plan(
            *(self.schema, mechanism, epsilon, self.people, self.known),
            estimator=estimator,
            ask=self.ask,
            calibrate=self.calibrate,
            parameters=given,
        )

    def _estimators(self, plans: Sequence[Plan], name: str, best: str | None) -> tuple[str, ...]:
        """What is measured: estimators that all of the plans have; of ``auto`` the planner's first."""
        plan = plans[0]
        have = tuple(e for e in estimators_of(plan) if all(e in estimators_of(p) for p in plans))
        if self.estimators is not None:
            asked = tuple(e for e in self.estimators if e in have)
            if not asked:
                said = ", ".join(map(repr, self.estimators))
                known = ", ".join(have)
                raise NoEstimator(f"{plan.mechanism_name} has no estimator {said}; known: {known}")
            return asked
        if name == "auto" and SHRUNK in have:
            own = best if best in have else SHRUNK
            return tuple(dict.fromkeys((own, SHRUNK, have[0])))
        return (*have[:1], *(e for e in USUAL if e in have[1:]))

    def _counts(self, plan: Plan) -> Iterator[Integers]:
        step = max(1, MOST_COUNTS // plan.layout.cells)
        for first in range(0, self.repetitions, step):
            runs = range(first, min(first + step, self.repetitions))
            yield simulate_runs(plan, self.population, self.people, self.coins, runs)

    def _told(self, plan: Plan) -> Forecast | None:
        """The forecast of the first estimator; None where there is none."""
        try:
            return forecast(plan, self.people, self.known)
        except PlanError:
            return None

    def _predicted(
        self, plan: Plan, told: Forecast | None, estimator: str
    ) -> tuple[float | None, float | None]:
        """An estimator's error of frequency and mean, where the forecast tells of it."""
        known = self.known
        if estimator == "published":
            told = None if told is None else told.published
        elif told is not None and estimator in DRAWN_ESTIMATORS:
            made = forecast_by_draws(plan, told, self.people, (estimator,))[estimator]
            return _number(made[0]), _number(made[1])
        if told is None or estimator not in (next(iter(estimators_of(plan))), "published"):
            return None, None
        held = known.frequency > 0
        of_frequency, of_mean = told.clipped_frequency, told.clipped_mean
        return _number(of_frequency.mean()), _number(of_mean[held].mean())

    def _row(
        self,
        name: str,
        plan: Plan,
        estimator: str,
        epsilon: str,
        made: list[KeyBands],
        predicted: tuple[float | None, float | None],
        left_out: float,
    ) -> ContestRow:
        frequency, mean = self.truth
        of_f = _joined([each.frequency for each in made], frequency, 0.0)
        of_m = _joined([each.mean for each in made], mean, -1.0)
        keep = name == "auto" or ":" in name
        have = estimators_of(plan)
        return ContestRow(
            mechanism=name if keep else plan.mechanism_name,
            chosen=described(plan),
            estimator=estimator,
            epsilon=float(epsilon),
            true_epsilon=float(_true_epsilon(plan)),
            d=len(self.schema.keys),
            n=self.people,
            repetitions=self.repetitions,
            mse_frequency=of_f.mse,
            mse_frequency_se=of_f.mse_se,
            mse_mean=of_m.mse,
            mse_mean_se=of_m.mse_se,
            mae_frequency=of_f.mae,
            mae_frequency_se=of_f.mae_se,
            mae_mean=of_m.mae,
            mae_mean_se=of_m.mae_se,
            coverage_frequency=of_f.coverage,
            coverage_mean=of_m.coverage,
            bounded_frequency=of_f.bounded,
            bounded_mean=of_m.bounded,
            predicted_frequency=predicted[0],
            predicted_mean=predicted[1],
            bias_from_cap=left_out > 0,
            left_out=left_out,
            skipped=tuple(e for e in self.estimators or () if e not in have),
            runs={"frequency": of_f.runs, "mean": of_m.runs},
        )

    @cached_property
    def truth(self) -> tuple[Floats, Floats]:
        """Every key's frequency, and its mean on [-1, 1]; NaN where no one holds it."""
        known = self.known
        return known.frequency, np.where(known.frequency > 0, known.mean, np.nan)


class NoEstimator(PlanError):
    """None of the estimators that were asked for is one of the mechanism's."""


def _joined(parts: Sequence[Band | None], truth: Floats, least: float) -> Measured:
    """What was measured over all groups of repetitions."""
    found = [part for part in parts if part is not None]
    if not found:
        return Measured()
    value, low, high = (
        np.concatenate([getattr(part, end) for part in found]) for end in ("value", "low", "high")
    )
    return measured(value, low, high, truth, least)


def left_out_by(plan: Plan, sizes: Floats) -> float:
    """Of all keys that people hold, the share beyond the plan's cap; ``sizes`` is how many hold j."""
    if plan.encode not in CAPPED:
        return 0.0
    most = 1 if plan.encode == "item" else plan.cap
    held = np.arange(len(sizes))
    total = float(sizes @ held)
    return float(sizes @ np.maximum(held - most, 0)) / total if total else 0.0


def parsed(name: str) -> tuple[str, dict[str, Any]]:
    """A mechanism and its parameters from text like ``graded:levels=5`` or ``pairs:grr``."""
    mechanism, _, rest = name.partition(":")
    mechanism_named(mechanism)
    given: dict[str, Any] = {}
    for part in filter(None, rest.split("+")):
        parameter, equals, value = part.partition("=")
        if not equals:
            parameter, value = "channel", part
        given[parameter.strip()] = value.strip()
    return mechanism, given


def described(plan: Plan) -> str:
    """The mechanism with the parameters that are not at their default, and always its cap or length."""
    known = plan.mechanism.parameters
    said = [
        f"{name}={value}"
        for name, value in plan.parameters.items()
        if str(value) != str(known[name].default) or name in PADDING_NAMES
    ]
    return plan.mechanism_name + (":" + "+".join(said) if said else "")


def _true_epsilon(plan: Plan) -> Decimal:
    """Of a chain the sum over its rounds, or one round's where people are split between them."""
    if plan.chain is None or "share" in plan.chain:
        return plan.proven
    total = Decimal(plan.chain["total"])
    return total if plan.calibrate == "tight" else plan.mechanism.true_epsilon(total)


def _number(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None


def everything(keys: int) -> list[str]:
    """Every mechanism that answers for single keys, for ``all``; the planner's choice last."""
    return [
        name
        for name, kind in REGISTRY.items()
        if name not in TOGETHER
        and kind.fewest_keys <= keys <= kind.most_keys
        and set(kind.answers) & {"frequency", "mean"}
    ] + ["auto"]
