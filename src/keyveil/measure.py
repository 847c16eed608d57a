"""Measure: what mechanisms' answers for single keys are worth on a population, by repeated simulation.

Errors are on the [-1, 1] scale, values clipped to their range, averaged over keys; a mean that is
unknown counts as the middle of its range. Coverage is over bounded intervals.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from multiprocessing import get_context
from typing import Any

import numpy as np

from .arrays import Floats, Integers
from .coins import Coins
from .errors import ChannelError, FinishedError, PlanError
from .estimate import KeyBands, bands, estimators_of
from .estimate.answer import Band
from .estimate.forecast import clipped, forecast
from .mechanism import CALIBRATIONS
from .mechanisms import REGISTRY, mechanism_named
from .plan import Plan
from .planner import MOST_CAP, advise
from .prior import Prior
from .schema import Schema
from .simulate import Population, simulate, simulate_runs
from .tally import Tally

TOGETHER = (
    *("ioh", "ioh_optimal", "split", "pairs", "triples", "workload", "coefficients", "pair_collision"),
)
"""Made for conditionals; ``all`` leaves them out."""
SHRUNK = "shrunk"
USUAL = ("published", "likelihood", SHRUNK)
"""Beside the mechanism's own first estimator, those that are measured where they exist."""
PAD = 0.9
"""Where a cap or padding length is not stated: what this share of people does not exceed."""
MOST_COUNTS = 1 << 24


@dataclass(frozen=True)
class Row:
    """One mechanism, estimator and epsilon: its error and coverage over all repetitions."""

    mechanism: str
    chosen: str
    """What ``auto`` stood for, with its parameters; otherwise the mechanism with its own."""
    estimator: str
    epsilon: float
    true_epsilon: float
    d: int
    n: int
    repetitions: int
    mse_frequency: float | None
    mse_mean: float | None
    mae_frequency: float | None
    mae_mean: float | None
    coverage_frequency: float | None
    coverage_mean: float | None
    bounded_frequency: float | None
    bounded_mean: float | None
    predicted_frequency: float | None
    """The mean squared error that the plan's channel and the prior predict, for its first estimator."""
    predicted_mean: float | None
    runs: Mapping[str, Floats] = field(default_factory=dict, repr=False, compare=False)
    """Each repetition's mean squared error, for ratios with a standard error."""

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {name: value for name, value in self.__dict__.items() if name != "runs"}


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

    def __post_init__(self) -> None:
        if self.people < 1 or self.repetitions < 1:
            raise PlanError("people and repetitions must be at least 1")
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

    def rows(self, name: str, epsilon: str) -> list[Row]:
        """The rows of one mechanism (or ``auto``) at one epsilon, one for each estimator."""
        plan = self.plan(name, epsilon)
        estimators = self._estimators(plan, name)
        made: dict[str, list[KeyBands]] = {estimator: [] for estimator in estimators}
        if plan.chain is not None:
            for run in range(self.repetitions):
                last, counts = self._chain(plan, run)
                for estimator in estimators:
                    made[estimator].append(bands(last, counts[None, :], estimator))
        else:
            for counts in self._counts(plan):
                for estimator in estimators:
                    made[estimator].append(bands(plan, counts, estimator))
        predicted = self._predicted(plan, self.known)
        first, unknown = next(iter(estimators_of(plan))), (None, None)
        return [
            self._row(name, plan, e, epsilon, made[e], predicted if e == first else unknown)
            for e in estimators
        ]

    def plan(self, name: str, epsilon: str) -> Plan:
        """The plan of a mechanism; sets get a cap from the population where none is stated."""
        if name == "auto":
            prior = self.prior or self.known
            found = advise(self.schema, epsilon, self.people, ask=self.ask, prior=prior, hope=False)
            return found.plan
        mechanism, given = parsed(name)
        open_ = REGISTRY[mechanism].parameters
        for called in ("cap", "length"):
            if called in open_ and called not in given:
                sizes = self.known.quantile(PAD)
                given[called] = min(max(1, sizes), MOST_CAP, len(self.schema.keys))
        return Plan.of(self.schema, mechanism, epsilon, self.calibrate, **given)

    def _estimators(self, plan: Plan, name: str) -> tuple[str, ...]:
        have = tuple(estimators_of(plan))
        if self.estimators is not None:
            asked = tuple(e for e in self.estimators if e in have)
            if not asked:
                raise PlanError(
                    f"{plan.mechanism} has no estimator {self.estimators[0]!r}; known: {', '.join(have)}"
                )
            return asked
        if name == "auto" and SHRUNK in have:
            return (SHRUNK, have[0])
        return (*have[:1], *(e for e in USUAL if e in have[1:]))

    def _counts(self, plan: Plan) -> Iterator[Integers]:
        step = max(1, MOST_COUNTS // plan.layout.cells)
        for first in range(0, self.repetitions, step):
            runs = range(first, min(first + step, self.repetitions))
            yield simulate_runs(plan, self.population, self.people, self.coins, runs)

    def _chain(self, plan: Plan, run: int) -> tuple[Plan, Integers]:
        """The last round's plan and counts; everyone answers every round, or people are split."""
        while True:
            people = max(1, round(self.people * float((plan.chain or {}).get("share", 1))))
            tally: Tally = simulate(plan, self.population, people, self.coins, run)
            try:
                plan = plan.next(tally)
            except FinishedError:
                return plan, tally.counts

    def _predicted(self, plan: Plan, known: Prior) -> tuple[float | None, float | None]:
        try:
            told = forecast(plan, self.people, known)
        except PlanError:
            return None, None
        if plan.chain is not None:
            return None, None
        of_mean = clipped(told.mean(known), known.mean, -1.0, 1.0)
        held = known.frequency > 0
        of_frequency = clipped(told.frequency, known.frequency, 0.0, 1.0)
        return _number(of_frequency.mean()), _number(of_mean[held].mean())

    def _row(
        self,
        name: str,
        plan: Plan,
        estimator: str,
        epsilon: str,
        made: list[KeyBands],
        predicted: tuple[float | None, float | None],
    ) -> Row:
        frequency, mean = self.truth
        of_f = _measured([each.frequency for each in made], frequency, 0.0)
        of_m = _measured([each.mean for each in made], mean, -1.0)
        chosen = described(plan)
        keep = name == "auto" or ":" in name
        return Row(
            name if keep else plan.mechanism,
            chosen,
            estimator,
            float(epsilon),
            float(_true_epsilon(plan)),
            len(self.schema.keys),
            self.people,
            self.repetitions,
            *(of_f.mse, of_m.mse, of_f.mae, of_m.mae),
            *(of_f.coverage, of_m.coverage, of_f.bounded, of_m.bounded),
            *predicted,
            {"frequency": of_f.runs, "mean": of_m.runs},
        )

    @cached_property
    def truth(self) -> tuple[Floats, Floats]:
        """Every key's frequency, and its mean on [-1, 1]; NaN where no one holds it."""
        known = self.known
        return known.frequency, np.where(known.frequency > 0, known.mean, np.nan)


@dataclass(frozen=True)
class _Measured:
    mse: float | None
    mae: float | None
    coverage: float | None
    bounded: float | None
    runs: Floats


def _measured(parts: Sequence[Band | None], truth: Floats, low: float) -> _Measured:
    found = [part for part in parts if part is not None]
    if not found:
        return _Measured(None, None, None, None, np.full(0, np.nan))
    known = np.isfinite(truth)
    true = truth[known]
    value, below, above = (
        np.concatenate([getattr(part, end)[..., known] for part in found])
        for end in ("value", "low", "high")
    )
    off = np.clip(np.nan_to_num(value, nan=(low + 1) / 2, posinf=1.0, neginf=low), low, 1.0) - true
    bounded = np.isfinite(below) & np.isfinite(above)
    inside = (below <= true) & (true <= above)
    coverage = float(inside[bounded].mean()) if bounded.any() else None
    runs = (off**2).mean(axis=-1)
    return _Measured(
        float(runs.mean()), float(np.abs(off).mean()), coverage, float(bounded.mean()), runs
    )


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
    """The mechanism with the parameters that are not at their default."""
    known = plan.kind.parameters
    said = [f"{n}={v}" for n, v in plan.parameters.items() if str(v) != str(known[n].default)]
    return plan.mechanism + (":" + "+".join(said) if said else "")


def _true_epsilon(plan: Plan) -> Decimal:
    """Of a chain the sum over its rounds, or one round's where people are split between them."""
    if plan.chain is None or "share" in plan.chain:
        return plan.proven
    total = Decimal(plan.chain["total"])
    return total if plan.calibrate == "tight" else plan.kind.true_epsilon(total)


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


@dataclass(frozen=True)
class Outcome:
    """The rows, in the order of epsilons and mechanisms, and why some mechanism has none."""

    rows: list[Row]
    skipped: dict[tuple[str, str], str]
    """By mechanism and epsilon."""


def measure(
    contest: Contest,
    mechanisms: Sequence[str],
    epsilons: Sequence[str],
    *,
    lenient: bool = False,
    processes: int | None = None,
    moved: Callable[[int, int], None] | None = None,
) -> Outcome:
    """Every mechanism at every epsilon; the same numbers whatever the number of processes.

    With ``lenient`` a mechanism that cannot be had for these keys is skipped, and the outcome says so.
    """
    jobs = [(name, epsilon) for epsilon in epsilons for name in mechanisms]
    found: dict[tuple[str, str], list[Row]] = {}
    skipped: dict[tuple[str, str], str] = {}
    _ = contest.truth  # so that processes share it
    for done, (job, made) in enumerate(_worked(contest, jobs, processes), 1):
        if isinstance(made, str):
            if not lenient or job[0] == "auto":
                raise PlanError(made)
            skipped[job] = made
        else:
            found[job] = made
        if moved is not None:
            moved(done, len(jobs))
    return Outcome([row for job in jobs for row in found.get(job, [])], skipped)


Job = tuple[str, str]


def _worked(
    contest: Contest, jobs: list[Job], processes: int | None
) -> Iterator[tuple[Job, list[Row] | str]]:
    """Each job's rows, or why there are none, as they come."""
    workers = min(processes or os.cpu_count() or 1, len(jobs))
    if workers <= 1:
        for job in jobs:
            yield job, _rows(contest, job)
        return
    _SHARED.append(contest)
    try:
        with ProcessPoolExecutor(workers, mp_context=get_context("fork")) as pool:
            waiting = {pool.submit(_forked, job): job for job in jobs}
            for future in as_completed(waiting):
                yield waiting[future], future.result()
    finally:
        _SHARED.pop()


_SHARED: list[Contest] = []
"""What forked processes find in their memory, so that tables are not sent to them."""


def _forked(job: Job) -> list[Row] | str:
    return _rows(_SHARED[-1], job)


def _rows(contest: Contest, job: Job) -> list[Row] | str:
    try:
        return contest.rows(*job)
    except (PlanError, ChannelError) as error:
        return str(error)
