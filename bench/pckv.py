"""PCKV's own setting, and people with several pairs: ``python -m bench.pckv [--write] [--repeat 20]``.

The first table is the synthetic data of Gu et al. (USENIX Security 2020): a million people with one pair
each, a hundred keys, a key's value the same for all its holders; keys and values uniform (UU) or normal
(GG). Figures in brackets are from a single run of a reference, written from the paper and the authors'
MATLAB code. In the second table people have several pairs. There every mechanism is padded or capped
in two ways: to the number of pairs that nine in ten people do not exceed, as the reference is, and to
its length of least predicted error. Errors are mean squares over keys; frequencies are clipped to
[0, 1] and means to [-1, 1].
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from math import exp

import numpy as np

from keyveil import Coins, People, Plan, Schema
from keyveil.estimate import bands
from keyveil.foundation.coins import address
from keyveil.mechanisms.signed_ue import signed_symbols
from keyveil.people.prior import Prior
from keyveil.people.synthetic import pckv_gaussian, pckv_uniform
from keyveil.planner.padding import padded_plan, padding_parameter
from keyveil.simulate.tallies import Population, simulate_runs

from .__main__ import machine
from .table import Outcome, Table

PEOPLE = 1_000_000
EPSILONS = ("1", "2", "4", "6")
KEYS = 100

REFERENCE = {
    "UU pckv_ue": ((9.8e-6, 0.066), (1.5e-6, 0.0135), (1.3e-7, 0.0020), (2.7e-8, 0.0003)),
    "UU pckv_grr": ((7.5e-5, 0.59), (1.1e-5, 0.126), (2.1e-7, 0.0033), (1.7e-8, 0.0002)),
    "UU kvue": ((1.4e-4, 0.80), (3.8e-5, 0.35), (5.0e-6, 0.060), (1.7e-6, 0.0096)),
    "UU unary": ((5.4e-6, 0.094), (1.4e-6, 0.0158), (1.6e-7, 0.0019), (2.7e-8, 0.0003)),
    "GG pckv_ue": ((1.0e-5, 0.174), (1.8e-6, 0.040), (1.8e-7, 0.0046), (2.9e-8, 0.0007)),
    "GG unary": ((8.0e-6, 0.083), (1.8e-6, 0.045), (1.3e-7, 0.0047), (2.6e-8, 0.0012)),
}
"""Errors of frequency and mean in one run of the reference at each epsilon."""

ROWS = (
    ("pckv_ue", "baseline"),
    ("pckv_ue", "published"),
    ("pckv_grr", "baseline"),
    ("kvue", "least_squares"),
    ("unary", "least_squares"),
    ("signed_ue", "least_squares"),
    ("coco", "least_squares"),
)

SEVERAL = (
    ("100 keys, 8 held", 100, 8, 0.8, "1"),
    ("100 keys, 8 held", 100, 8, 0.8, "4"),
    ("100 keys, 20 held", 100, 20, 0.8, "1"),
    ("20 keys, 4 held", 20, 4, 0.0, "1"),
)
"""Name, keys, keys held on average, exponent of the falling frequencies, epsilon."""

OF_SEVERAL = {
    "kvue": ((2.2e-3, 0.147), (1.9e-4, 0.0066), (1.4e-3, 0.031), (3.8e-4, 0.017)),
    "pckv_ue": ((1.4e-2, 0.229), (3.3e-4, 0.0175), (5.9e-2, 0.30), (4.5e-3, 0.083)),
    "pckv_grr": ((2.2e-3, 0.130), (4.4e-5, 0.0011), (2.9e-3, 0.029), (6.2e-4, 0.021)),
    "collision": ((1.1e-3, 0.048), (6.0e-5, 0.0023), (1.9e-3, 0.019), (9.2e-4, 0.028)),
}
"""Errors in three runs of the reference in each setting."""


def plan_of(name: str, epsilon: str, keys: int = KEYS, cap: int = 1) -> Plan:
    """A plan with this padding length or cap."""
    schema = Schema.of(keys)
    if name == "unary":
        plan = Plan.of(schema, "signed_ue", epsilon, length=cap)
        odds = exp(float(epsilon))
        fake = 1 / (odds + 1)
        return replace(plan, channels=(signed_symbols(keys + cap, plan.promised, fake, fake**2),))
    if name == "kvue":
        return Plan.of(schema, name, epsilon)
    return Plan.of(schema, name, epsilon, **{"cap" if name in ("collision", "coco") else "length": cap})


def errors(
    plan: Plan, estimator: str, counts: np.ndarray, truth: tuple[np.ndarray, np.ndarray], of: np.ndarray
) -> tuple[float, float]:
    """Mean squared errors of frequency and mean over some keys."""
    answers = bands(plan, counts, estimator)
    frequency, mean = (band.value for band in (answers.frequency, answers.mean))
    mean = np.where(np.isnan(mean), 0.0, mean)
    if estimator != "published":  # as the reference does: a frequency is at least one person's
        mass = plan.mechanism.moments(plan, counts).values[..., 1]
        mean = mass / np.maximum(frequency, 1 / counts[..., plan.layout.own].sum(axis=-1)[..., None])
    off = np.clip(frequency, 0, 1) - truth[0], np.clip(mean, -1, 1) - truth[1]
    return float((off[0][..., of] ** 2).mean()), float((off[1][..., of] ** 2).mean())


def shown(measured: tuple[float, float], reference: tuple[float, float] | None) -> str:
    """Errors of frequency and mean, with the reference's in brackets."""
    brackets = f" ({reference[0]:.1e}, {reference[1]:.2g})" if reference else ""
    return f"{measured[0]:.1e}, {measured[1]:.2g}{brackets}"


def one_pair_each(repeat: int) -> tuple[Table, dict[str, tuple[float, float]]]:
    """The table for UU and GG; every repetition draws the keys' values again."""
    figures: dict[str, tuple[float, float]] = {}
    lines, apart = [], ""
    for kind, make in (("UU", pckv_uniform), ("GG", pckv_gaussian)):
        for name, estimator in ROWS:
            cells = []
            for number, epsilon in enumerate(EPSILONS):
                plan = plan_of(name, epsilon)
                runs = []
                for run in range(repeat if name != "coco" else max(1, repeat // 5)):
                    coins = Coins.stated(f"pckv {run}")
                    population = make(KEYS, coins)
                    counts = simulate_runs(plan, population, PEOPLE, coins, 1)
                    truth = population.frequency, population.mean
                    runs.append(errors(plan, estimator, counts, truth, np.arange(KEYS)))
                measured = tuple(np.mean(runs, axis=0).tolist())
                figures[f"{kind} {name} {estimator} {epsilon}"] = measured
                reference = REFERENCE.get(f"{kind} {name}") if estimator != "published" else None
                cells.append(shown(measured, reference[number] if reference else None))
                apart = apart or "{:.1e} and {:.2g}".format(*np.std(runs, axis=0))
            lines.append((f"{kind} {name}, {estimator}", *cells))
    return Table(
        f"PCKV's data, {PEOPLE:,} people, one pair each, {KEYS} keys, {repeat} repetitions",
        ("mechanism, estimator", *(f"epsilon {epsilon}" for epsilon in EPSILONS)),
        tuple(lines),
        "Mean squared error of frequency, and of mean; in brackets one run of the reference, of which "
        f"the first deviates by {apart} from run to run. Ours is about the population that people are "
        "drawn from, which adds 1e-8 to the frequency's error; the reference's about the people "
        "themselves. `unary` is optimal unary encoding over the signed keys, a member of the family of "
        "`signed_ue`; `coco` has a fifth of the repetitions.",
    ), figures


def crowd(keys: int, held: int, steep: float, people: int = 100_000) -> Population:
    """People who hold a Poisson number of keys, with values around each key's own mean."""
    draw = Coins.stated(f"several {keys} {held}").generator()
    likes = -steep * np.log(np.arange(1, keys + 1)) + draw.gumbel(size=(people, keys))
    most = min(2 * held, keys)
    order = np.argsort(-likes, axis=1)[:, :most]
    sizes = np.clip(draw.poisson(held, people), 1, most)
    has = np.zeros((people, keys), bool)
    np.put_along_axis(has, order, np.arange(most) < sizes[:, None], axis=1)
    means = draw.permutation(np.linspace(-0.8, 0.8, keys))
    places = np.nonzero(has)[1]
    values = np.clip(means[places] + 0.3 * draw.normal(size=len(places)), -1, 1)
    starts = np.concatenate([[0], np.cumsum(has.sum(axis=1))])
    table = People(address(np.arange(people)), starts, places.astype(np.uint16), values)
    return Population(Schema.of(keys), table)


def several_pairs(repeat: int) -> tuple[Table, dict[str, tuple[float, float]]]:
    """The table for people with several pairs, over the 20 most frequent keys."""
    names = ("kvue", "pckv_ue", "signed_ue", "pckv_grr", "collision", "coco")
    figures: dict[str, tuple[float, float]] = {}
    lines = []
    for number, (title, keys, held, steep, epsilon) in enumerate(SEVERAL):
        population = crowd(keys, held, steep)
        prior = Prior.of_people(population.schema, population.people)
        cap, top = prior.quantile(0.9), np.argsort(-prior.frequency)[:20]
        truth = prior.frequency, prior.mean
        cells, best = [], []
        for name in names:
            plan = plan_of(name, epsilon, keys, cap)
            counts = simulate_runs(plan, population, 100_000, Coins.stated("several"), repeat)
            measured = errors(plan, "least_squares", counts, truth, top)
            figures[f"{title} {epsilon} {name}"] = measured
            cells.append(shown(measured, OF_SEVERAL[name][number] if name in OF_SEVERAL else None))
            if padding_parameter(name) is None:
                best.append(shown(measured, None))
                continue
            plan = padded_plan(population.schema, name, epsilon, 100_000, prior)
            counts = simulate_runs(plan, population, 100_000, Coins.stated("several"), repeat)
            measured = errors(plan, "least_squares", counts, truth, top)
            best.append(f"{shown(measured, None)} at {plan.parameters[padding_parameter(name)]}")
        lines.append((f"{title}, cap {cap}, epsilon {epsilon}", *cells))
        lines.append((f"{title}, best caps, epsilon {epsilon}", *best))
    return Table(
        f"Several pairs, 100,000 people, {repeat} repetitions, the 20 most frequent keys",
        ("setting", *names),
        tuple(lines),
        "Mean squared error of frequency, and of mean, by `least_squares`; in brackets the reference, "
        "three runs with each key by itself and on other people of the same kind. Best caps: each "
        "mechanism has the padding length or cap of least predicted error over all keys, which stands "
        "behind its errors, as in `keyveil compare`.",
    ), figures


def run(repeat: int) -> Outcome:
    """Both tables."""
    single, of_single = one_pair_each(repeat)
    several, of_several = several_pairs(repeat)
    missed = []
    for name, references in REFERENCE.items():
        estimator = "baseline" if "pckv" in name else "least_squares"
        for epsilon, goal in zip(EPSILONS, references, strict=True):
            measured = of_single[f"{name} {estimator} {epsilon}"]
            if not all(1 / 2.2 < f / t < 2.2 for f, t in zip(measured, goal, strict=True)):
                missed.append(f"{name} at epsilon {epsilon}: {measured}, the reference has {goal}")
    return Outcome("pckv", (single, several), {**of_single, **of_several}, tuple(missed))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.pckv", description=__doc__)
    parser.add_argument("--repeat", type=int, default=20)
    parser.add_argument("--write", action="store_true", help="put the tables into docs/benchmarks.md")
    given = parser.parse_args()
    outcome = run(given.repeat)
    for table in outcome.tables:
        print(f"{table}\n")
    for line in outcome.missed:
        print(f"missed: {line}")
    if given.write:
        repeat = "" if given.repeat == 20 else f" --repeat {given.repeat}"
        outcome.write(f".venv/bin/python -m bench.pckv{repeat} --write", machine())


if __name__ == "__main__":
    main()
