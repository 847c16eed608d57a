"""The planner's choice and every published mechanism, on random populations ("worlds").

``python -m bench.worlds [--write] [--first 101] [--count 40] [--repeat 40] [--epsilon 0.2,1,3]``: each
world draws its number of keys and people, how many keys people hold, how popular keys are, and where
their means and values lie. Nothing was tuned on them.
"""

from __future__ import annotations

import argparse
from time import perf_counter

import numpy as np

from bench.planner import OURS, PUBLISHED, summary, verdict, write
from keyveil import Coins, Schema
from keyveil.foundation.coins import address
from keyveil.people.people import People
from keyveil.simulate.contest import Contest
from keyveil.simulate.contest_row import ContestRow
from keyveil.simulate.parallel import measure
from keyveil.simulate.tallies import Population

PEOPLE = 20_000
"""Number of different people that simulations draw from."""
KEYS = (6, 10, 16, 30, 60, 100, 200)
ANSWERING = (20_000, 100_000, 1_000_000)
ABOVE, FAR_ABOVE = 1.03, 1.1
"""Ratios of shrunk to raw error from which a case is counted, and named."""


def sizes(draw: np.random.Generator, keys: int) -> tuple[str, np.ndarray]:
    """How many keys each person holds."""
    name = str(draw.choice(["one", "few", "uneven", "some", "most"]))
    by_name = {
        "one": lambda: np.ones(PEOPLE, int),
        "few": lambda: draw.integers(1, min(4, keys) + 1, PEOPLE),
        "uneven": lambda: np.minimum(draw.geometric(1 / min(6, keys / 3), PEOPLE), keys),
        "some": lambda: draw.binomial(keys, draw.beta(1, 3, PEOPLE)),
        "most": lambda: draw.binomial(keys, draw.beta(6, 3, PEOPLE)),
    }
    return name, by_name[name]()


def popularity(draw: np.random.Generator, keys: int) -> tuple[str, np.ndarray]:
    """Relative probability with which each key is held."""
    name = str(draw.choice(["flat", "sloped", "steep"]))
    rank = np.arange(1, keys + 1)
    by_name = {"flat": np.exp(0.3 * draw.normal(size=keys)), "sloped": rank**-0.7, "steep": rank**-1.4}
    return name, by_name[name]


def means(draw: np.random.Generator, keys: int) -> tuple[str, np.ndarray]:
    """Where keys' means lie, on [-1, 1]."""
    name = str(draw.choice(["alike", "anywhere", "camps", "trend", "end", "middle"]))
    wobble, side = draw.normal(size=keys), draw.choice([-1, 1])
    by_name = {
        "alike": draw.uniform(-0.7, 0.7) + 0.1 * wobble,
        "anywhere": draw.uniform(-0.95, 0.95, keys),
        "camps": np.where(draw.random(keys) < draw.uniform(0.2, 0.8), 0.8, -0.8) + 0.05 * wobble,
        "trend": side * np.linspace(0.8, -0.8, keys) + 0.1 * wobble,
        "end": 0.9 * side + 0.03 * wobble,
        "middle": 0.3 * wobble,
    }
    return name, np.clip(by_name[name], -0.97, 0.97)


def values(draw: np.random.Generator, mean: np.ndarray) -> tuple[str, np.ndarray]:
    """Holders' values around their key's mean."""
    name = str(draw.choice(["stars", "continuous", "two", "constant"]))
    spread = np.clip(mean + draw.choice([0.2, 0.5]) * draw.normal(size=len(mean)), -1, 1)
    by_name = {
        "stars": np.round((spread + 1) * 2) / 2 - 1,
        "continuous": spread,
        "two": np.where(draw.random(len(mean)) < (1 + mean) / 2, 1.0, -1.0),
        "constant": mean,
    }
    return name, by_name[name]


def world(number: int) -> tuple[str, Population, int]:
    """A population by its number, its name in words, and how many people answer."""
    draw = np.random.default_rng(number)
    keys, answering = int(draw.choice(KEYS)), int(draw.choice(ANSWERING))
    hold, held = sizes(draw, keys)
    popular, weight = popularity(draw, keys)
    order = np.argsort(-(np.log(weight) + draw.gumbel(size=(PEOPLE, keys))), axis=1)
    has = np.zeros((PEOPLE, keys), bool)
    np.put_along_axis(has, order, np.arange(keys) < held[:, None], axis=1)
    where, mean = means(draw, keys)
    _, key = np.nonzero(has)
    kind, value = values(draw, mean[key])
    starts = np.concatenate([[0], np.cumsum(has.sum(axis=1))])
    people = People(address(np.arange(PEOPLE)), starts, key.astype(np.int32), value)
    name = f"{number}: {keys} keys, hold {hold}, {popular}, means {where}, values {kind}, {answering:,}"
    return name, Population(Schema.of(keys), people), answering


def above_raw(rows: list[ContestRow]) -> dict[str, float]:
    """Ratio of shrunk to raw error, for every mechanism with a ratio above ``ABOVE``."""
    ratios = {}
    for shrunk in (row for row in rows if row.estimator == OURS and row.mechanism != "auto"):
        raw = next(
            row
            for row in rows
            if (row.mechanism, row.epsilon) == (shrunk.mechanism, shrunk.epsilon)
            and row.estimator != OURS  # the first is the mechanism's own
        )
        for part in ("frequency", "mean"):
            ratio = getattr(shrunk, f"mse_{part}") / getattr(raw, f"mse_{part}")
            if ratio > ABOVE:
                ratios[f"{shrunk.mechanism} at {shrunk.epsilon:g}, {part}"] = ratio
    return ratios


def short_verdict(settings: list[dict[str, object]]) -> list[str]:
    """The verdict without the settings that the table names anyway."""
    first, *others = verdict(settings)
    return [first.partition(" settings")[0] + " settings.", *others]


def lost_lines(settings: list[dict[str, object]]) -> list[str]:
    """The settings at which a mechanism has a lower sum than auto, one line each."""
    lines = [
        "| world | epsilon | auto took | score | above | best of them | its score |",
        "| --- | --: | --- | --: | --- | --- | --: |",
    ]
    for setting in settings:
        if setting["above"]:
            lines.append(
                f"| {setting['population']} | {setting['epsilon']:g} | {setting['chosen']} "
                f"| {setting['auto']:.3f} | {', '.join(setting['above'])} | {setting['nearest']} "
                f"| {setting['its']:.3f} |"
            )
    return lines if len(lines) > 2 else ["None."]


def main() -> None:
    """Measure, print, and with ``--write`` put the tables into the docs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--first", type=int, default=101)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--repeat", type=int, default=40)
    parser.add_argument("--epsilon", default="0.2,1,3")
    given = parser.parse_args()
    tables: dict[bool, list[dict[str, object]]] = {False: [], True: []}
    drawn, wrong = 0, {}
    for number in range(given.first, given.first + given.count):
        start = perf_counter()
        name, population, answering = world(number)
        contest = Contest(population, answering, given.repeat, Coins.stated("bench worlds").under(name))
        rows = measure(contest, [*PUBLISHED, "auto"], given.epsilon.split(","), lenient=True).rows
        for ours, settings in tables.items():
            settings += [summary(rows, name, e, ours) for e in sorted({row.epsilon for row in rows})]
        drawn += 2 * sum(row.estimator == OURS and row.mechanism != "auto" for row in rows)
        wrong |= {f"{number} {case}": ratio for case, ratio in above_raw(rows).items()}
        print(f"{name}: {perf_counter() - start:.0f} s", flush=True)
    far = [f"{case} {ratio:.2f}" for case, ratio in wrong.items() if ratio > FAR_ABOVE]
    parts = {
        "worlds": [*short_verdict(tables[False]), "", *lost_lines(tables[False])],
        "worlds-ours": [*short_verdict(tables[True]), "", *lost_lines(tables[True])],
        "worlds-raw": [
            f"Shrunk errors above the raw ones by more than 3 %: {len(wrong)} of {drawn}; by more than "
            f"10 %: {len(far)} (world, mechanism, ratio: {'; '.join(far) or 'none'})."
        ],
    }
    for title, lines in parts.items():
        print("\n".join([f"## {title}", *lines]))
    if given.write:
        write(parts)


if __name__ == "__main__":
    main()
