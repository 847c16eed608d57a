"""The mechanisms that figures compare, each with its published estimator, and how they are measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from typing import Any

import numpy as np

from ...estimate import bands, estimators_of, first_estimator
from ...estimate.linear import Decoder, by_least_squares, key_weights, view_counts
from ...foundation.arrays import Floats, Integers
from ...foundation.coins import Coins
from ...mechanisms import REGISTRY
from ...mechanisms.f2m import by_two_bits
from ...mechanisms.kvoh import by_bits
from ...mechanisms.privkv import keeps_of, sign_means
from ...people.prior import Prior
from ...people.schema import Schema
from ...people.synthetic import KnownPopulation, StatedPopulation, TablePopulation
from ...plan.plan import Plan
from ...planner.competitor import stated_parameters
from ...planner.padding import padded_plan, padding_parameter
from ...planner.planner import advise
from ..chains import chain_runs
from ..tallies import simulate_runs

PAPER, OTHERS, OURS = "the paper's", "others'", "ours"


@dataclass(frozen=True)
class Line:
    """One line of a figure."""

    label: str
    mechanism: str
    estimator: str | None = None
    """The estimator's name; None for the mechanism's first."""
    calibrate: str = "paper"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    whose: str = PAPER

    @property
    def source(self) -> str:
        """The name under which reports are drawn. Lines of one source differ only in their estimator."""
        return "auto" if self.mechanism == "auto" else self.label


MOST_DRAWN = 200_000
"""Maximum number of people who are drawn one by one in a repetition."""
ROUNDS = 10
"""The paper's c."""

SIX = (
    Line("PrivKV", "privkv", "published"),
    Line("PrivKVM", "privkvm", "published", parameters={"rounds": ROUNDS}),
    Line("PrivKV-A", "privkv", "unbiased"),
    Line("F2M", "f2m", "published", parameters={"default": "1"}),
    Line("KVUE", "kvue"),
    Line("KVOH", "kvoh", "per_bit"),
)
"""The six mechanisms of the paper, as published."""

MORE = (
    Line("PCKV-UE", "pckv_ue", whose=OTHERS),
    Line("PCKV-GRR", "pckv_grr", whose=OTHERS),
    Line("auto, shrunk across keys", "auto", "shrunk", whose=OURS),
    Line("auto, least squares", "auto", "least_squares", whose=OURS),
)
"""Later mechanisms of others, and ours. Ours is one plan decoded twice: ``shrunk`` pools over keys,
which no other line does, and least squares shows what the mechanism does without it."""
SHRUNK, PLAIN = MORE[-2].label, MORE[-1].label
ABOUT_AUTO = (
    "auto is the planner's choice, decoded twice from the same reports: 'shrunk across keys' pools over "
    "keys, which no other line does, and leans towards what keys have in common; 'least squares' is "
    "decoded key by key like the others, and shows what the mechanism does by itself."
)

TRUE = (
    Line("PrivKV, tight", "privkv", "published", "tight"),
    Line("PrivKVM, tight", "privkvm", "published", "tight", {"rounds": ROUNDS}),
    Line("PrivKV-A, tight", "privkv", "unbiased", "tight"),
    Line("F2M at 0, tight", "f2m", "least_squares", "tight", {"default": "0"}),
    Line("KVOH, least squares", "kvoh", "least_squares", "tight"),
)
"""The paper's other five at KVUE's true epsilon, F2M and KVOH with their best decoders."""


def by_source(lines: Sequence[Line]) -> dict[str, list[Line]]:
    """The lines, those of one source together."""
    sources: dict[str, list[Line]] = {}
    for line in lines:
        sources.setdefault(line.source, []).append(line)
    return sources


def repetitions(rows: Sequence[Mapping[str, Any]]) -> str:
    """The number of repetitions in words, and which lines have fewer."""
    runs: dict[str, set[int]] = {}
    for row in rows:
        source = "auto" if row["line"] in (SHRUNK, PLAIN) else row["line"]
        runs.setdefault(source, set()).add(row["repetitions"])
    usual = max(max(counts) for counts in runs.values())
    fewer = [
        f"{source} {' to '.join(f'{n}' for n in sorted({min(counts), max(counts)}))}"
        for source, counts in runs.items()
        if min(counts) < usual
    ]
    return f"{usual} repetitions" + (f" ({', '.join(fewer)})" if fewer else "")


@dataclass(frozen=True)
class Measurement:
    """Errors of clipped estimates, ``(repetitions, keys)``, and the plan behind them."""

    frequency: Floats
    mean: Floats
    epsilon: float
    """The epsilon that the plan or the whole chain proves."""
    chosen: str
    """The mechanism; for ``auto`` the planner's choice."""


def errors_of(
    population: KnownPopulation, frequency: Floats, mean: Floats, epsilon: float, chosen: str
) -> Measurement:
    """The errors of estimates; an unknown mean counts as 0, the middle of its range."""
    off_frequency = np.clip(frequency, 0.0, 1.0) - population.frequency
    off_mean = np.clip(np.nan_to_num(mean, nan=0.0), -1.0, 1.0) - population.mean
    return Measurement(off_frequency, off_mean, epsilon, chosen)


def measure(
    lines: Sequence[Line],
    population: KnownPopulation,
    epsilon: float,
    people: int,
    coins: Coins,
    runs: range,
) -> list[Measurement]:
    """The errors of lines of one source: the same reports, decoded by each line's estimator."""
    line = lines[0]
    if line.mechanism == "privkvm":
        rounds = int(line.parameters["rounds"])
        nominal = epsilon if line.calibrate == "paper" else chain_nominal(epsilon)
        frequency, mean = chain_runs(population, nominal, rounds, people, coins, runs)
        true = chain_true(nominal)
        return [errors_of(population, frequency, mean, true, "privkvm")]
    plan = plan_of(line, population, epsilon, people)
    if any(own.encoding.speaks_of_sets for own in plan.part_plans):
        # Whole sets are drawn person by person: from a table, which is quick, and not too often.
        if isinstance(population, StatedPopulation):
            population = TablePopulation(population.schema, population.people)
        runs = runs[: max(1, MOST_DRAWN * len(runs) // people)]
    counts = simulate_runs(plan, population.at(plan.schema.levels), people, coins, runs)
    about = (float(plan.proven), described(plan))
    return [errors_of(population, *decoded(plan, counts, line.estimator), *about) for line in lines]


def chain_true(nominal: float) -> float:
    """The epsilon that all ten rounds of PrivKVM prove together."""
    return float(REGISTRY["privkvm"].true_epsilon(Decimal(str(nominal))))


def chain_nominal(true: float) -> float:
    """The nominal epsilon at which PrivKVM's ten rounds prove this epsilon, to six places."""
    nominal = true
    for _ in range(8):
        nominal = round(nominal * true / chain_true(nominal), 9)
    return nominal


DECODERS: dict[tuple[str, str | None], Decoder] = {
    ("privkv", "unbiased"): by_least_squares,
    ("privkv", "published"): by_least_squares,
    ("f2m", "published"): by_two_bits,
    ("f2m", "least_squares"): by_least_squares,
    ("kvue", None): by_least_squares,
    ("kvoh", "per_bit"): by_bits,
    ("kvoh", "least_squares"): by_least_squares,
}
"""Published estimators that are weights on outputs; they have no intervals."""


def decoded(plan: Plan, counts: Integers, estimator: str | None) -> tuple[Floats, Floats]:
    """Frequencies and means on [-1, 1] of every repetition and key; NaN where a mean is unknown."""
    decoder = DECODERS.get((plan.mechanism_name, estimator))
    if decoder is None:
        named = estimator if estimator in estimators_of(plan) else first_estimator(plan)
        answers = bands(plan, counts, named)
        assert answers.frequency is not None
        assert answers.mean is not None
        return answers.frequency.value, answers.mean.value
    channel = plan.channels[0]
    cells = view_counts(plan, counts, 0)[1]
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = cells / cells.sum(axis=-1, keepdims=True)
        frequency, mass = np.moveaxis(shares @ decoder(channel, key_weights(plan.schema)), -1, 0)
        mean = np.where(frequency > 0, mass / frequency, np.nan)
    if plan.mechanism_name == "privkv" and estimator == "published":
        mean = sign_means(cells, keeps_of(channel)[1])
    return frequency, mean


def plan_of(line: Line, population: KnownPopulation, epsilon: float, people: int) -> Plan:
    """The plan of a line; sets get the padding length of least predicted error on this population."""
    schema = population.schema
    if line.mechanism == "auto":
        sizes = tuple(np.round(population.sizes, 9).tolist())
        return _advised(len(schema.keys), sizes, epsilon, people)
    if padding_parameter(line.mechanism) is None:
        return Plan.of(schema, line.mechanism, epsilon, line.calibrate, **line.parameters)
    return padded_plan(
        *(schema, line.mechanism, str(epsilon), people, population.prior()),
        estimator=line.estimator,
        calibrate=line.calibrate,
        parameters=line.parameters,
    )


@lru_cache(maxsize=64)
def _advised(keys: int, sizes: tuple[float, ...], epsilon: float, people: int) -> Plan:
    """The planner's choice; like PCKV it knows the number of keys that people hold, and nothing else."""
    prior = Prior.of(keys, sizes=sizes)
    return advise(Schema.of(keys), epsilon, people, prior=prior, brief=True).plan


def described(plan: Plan) -> str:
    """The mechanism with the parameters that are not at their default; of parts, each of them."""
    if plan.parts is not None:
        return " + ".join(described(own) for own in plan.part_plans)
    words = ", ".join(f"{name}={value}" for name, value in stated_parameters(plan).items())
    return f"{plan.mechanism_name} ({words})" if words else plan.mechanism_name
