"""Estimators on KVUE: error, coverage and bias of raw, corrected, likely and default answers.

``python -m bench.estimators [--write] [--data DIR] [--repeat 50] [--odd]`` measures the paper's
populations and PCKV's, and with ``--data`` also real ratings. Errors are on [-1, 1], clipped to their
range and averaged over keys.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from math import inf, lgamma
from pathlib import Path

import numpy as np

from keyveil import Coins, Plan, Schema
from keyveil.estimate import KeyBands, bands
from keyveil.people.synthetic import of_keys, uniform_values
from keyveil.simulate.tallies import Population, simulate_runs

from .planner import populations

PAGE = Path(__file__).parents[1] / "docs" / "estimators.md"
EPSILONS = ("0.1", "0.2", "0.4", "1", "2", "5")
SETTINGS = (
    *(("0.5", 1000, 0.6, 0.5), ("1", 400, 0.3, 0.5), ("1", 400, 0.5, 0.5), ("1", 400, 0.8, 0.8)),
    *(("2", 200, 0.3, 0.8), ("2", 400, 0.3, -0.6), ("5", 100, 0.2, 0.5)),
)
"""Settings for the exact bias: epsilon, reports of the key, frequency and mean."""


def truth(population: Population) -> tuple[np.ndarray, np.ndarray]:
    """Frequency and mean of every key; the mean is NaN if no one holds the key."""
    laws = np.array([population.law((key,)) for key in range(len(population.schema.keys))])
    held = laws[:, 1:].sum(axis=1)
    with np.errstate(invalid="ignore"):
        return held, (laws[:, 2] - laws[:, 1]) / held


def errors(answers: KeyBands, held: np.ndarray, means: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Squared errors of clipped values; an unknown value counts as the middle of the range."""
    assert answers.frequency is not None
    assert answers.mean is not None
    f = np.clip(np.nan_to_num(answers.frequency.value, nan=0.5), 0, 1)
    m = np.clip(np.nan_to_num(answers.mean.value, nan=0.0), -1, 1)
    return (f - held) ** 2, (m - means) ** 2


def covered(answers: KeyBands, held: np.ndarray, means: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which intervals contain the truth; an unbounded one always does."""
    assert answers.frequency is not None
    assert answers.mean is not None
    return tuple(  # type: ignore[return-value]
        (band.low <= true) & (true <= band.high)
        for band, true in ((answers.frequency, held), (answers.mean, means))
    )


def shrinkage(
    populations: dict[str, tuple[Population, int]], repeat: int
) -> tuple[list[str], list[str]]:
    """Ratio of the error to the raw error, and coverage, also by classes of frequency."""
    lines = [
        "| population | people | epsilon | MSE f raw | likelihood | best | MSE m raw | corrected "
        "| likelihood | best | coverage f raw | best | coverage m raw (bounded) | best |",
        "| --- | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: |",
    ]
    classes = [
        "| population | epsilon | answer | most held third, raw | best | middle third, raw | best "
        "| least held third, raw | best |",
        "| --- | --: | --- | --: | --: | --: | --: | --: | --: |",
    ]
    for name, (population, people) in populations.items():
        held, means = truth(population)
        thirds = np.array_split(np.argsort(-held, kind="stable"), 3)
        for epsilon in EPSILONS:
            plan = Plan.of(population.schema, "kvue", epsilon)
            coins = Coins.stated(f"bench estimators {name}")
            counts = simulate_runs(plan, population, people, coins, repeat)
            names = ("least_squares", "corrected", "likelihood", "best")
            answers = {e: bands(plan, counts, e) for e in names}
            off = {e: [part.mean() for part in errors(answers[e], held, means)] for e in names}
            inside = {e: covered(answers[e], held, means) for e in names}
            raw, own = off["least_squares"], answers["least_squares"].mean
            assert own is not None
            bounded = np.isfinite(own.low)
            lines.append(
                f"| {name} | {people:,} | {epsilon} | {raw[0]:.2e} "
                f"| {off['likelihood'][0] / raw[0]:.2f} | {off['best'][0] / raw[0]:.2f} "
                f"| {raw[1]:.2e} | {off['corrected'][1] / raw[1]:.2f} "
                f"| {off['likelihood'][1] / raw[1]:.2f} | {off['best'][1] / raw[1]:.2f} "
                f"| {inside['least_squares'][0].mean():.1%} | {inside['best'][0].mean():.1%} "
                f"| {inside['least_squares'][1][bounded].mean():.1%} ({bounded.mean():.0%}) "
                f"| {inside['best'][1].mean():.1%} |"
            )
            if epsilon in ("0.4", "2"):
                for column, answer in enumerate(("frequency", "mean")):
                    cells = " | ".join(
                        f"{inside[e][column][:, third].mean():.1%}"
                        for third in thirds
                        for e in ("least_squares", "best")
                    )
                    classes.append(f"| {name} | {epsilon} | {answer} | {cells} |")
    return lines, classes


def odd_key(repeat: int) -> Iterator[str]:
    """Coverage and width of the intervals of one odd key among 100, and of the others."""
    yield (
        "| others | odd key | people | epsilon | f: odd | others | least of them | width odd | others "
        "| m: odd | others | least of them | width odd | others |"
    )
    yield "| --- | --- | --: | --: | " + " | ".join(["--:"] * 10) + " |"
    draw = Coins.stated("bench odd keys").generator()
    apart = draw.standard_normal((2, 100))
    for words, spread, odd in (
        ("all at (0.5, 0.5)", 0.0, (0.2, -0.8)),
        ("near (0.5, 0.5)", 0.02, (0.58, 0.2)),
    ):
        held, means = 0.5 + spread * apart[0], 0.5 + 1.5 * spread * apart[1]
        held[0], means[0] = odd
        population = of_keys(held, means, uniform_values)
        for people in (100_000, 1_000_000):
            for epsilon in ("0.5", "1", "2"):
                plan = Plan.of(population.schema, "kvue", epsilon)
                coins = Coins.stated(f"bench odd {words}")
                counts = simulate_runs(plan, population, people, coins, repeat)
                raw, own = (bands(plan, counts, name) for name in ("least_squares", "best"))
                cells = []
                for name, truth in (("frequency", held), ("mean", means)):
                    band, plain = getattr(own, name), getattr(raw, name)
                    inside = ((band.low <= truth) & (truth <= band.high)).mean(axis=0)
                    limits = (0.0, 1.0) if name == "frequency" else (-1.0, 1.0)  # of unbounded ones
                    ends = [np.clip([b.low, b.high], *limits) for b in (band, plain)]
                    widths = [(high - low).mean(axis=0) for low, high in ends]
                    ratio = widths[0][1:].mean() / widths[1][1:].mean()
                    cells += [f"{inside[0]:.1%}", f"{inside[1:].mean():.1%}", f"{inside[1:].min():.1%}"]
                    cells += [f"{widths[0][0] / widths[1][0]:.2f}", f"{ratio:.2f}"]
                yield f"| {words} | {odd} | {people:,} | {epsilon} | {' | '.join(cells)} |"


def biases() -> Iterator[str]:
    """The exact bias of a mean over all counts of its key, given a bounded interval."""
    yield (
        "| epsilon | reports | f | m | f over its error | bounded | ratio: bias, RMSE | corrected "
        "| jackknife |"
    )
    yield "| --: | --: | --: | --: | --: | --: | --- | --- | --- |"
    for epsilon, reports, f, m in SETTINGS:
        plan = Plan.of(Schema.of(1), "kvue", epsilon)
        law = np.array([1 - f, f * (1 - m) / 2, f * (1 + m) / 2]) @ plan.channels[0].expected()
        number = np.arange(reports + 1)
        low, high = np.nonzero(np.add.outer(number, number) <= reports)
        cells = np.stack([reports - low - high, low, high], axis=1)
        logs = np.array([lgamma(i + 1) for i in number])
        chance = np.exp(logs[reports] - logs[cells].sum(axis=1) + cells @ np.log(law))
        counts = np.concatenate([np.full((len(cells), 1), reports), cells], axis=1)
        raw = bands(plan, counts, "least_squares")
        assert raw.mean is not None
        assert raw.frequency is not None
        error = np.sqrt(chance @ (raw.frequency.value[:, 0] - f) ** 2)
        weights = chance * (raw.mean.low[:, 0] > -inf)
        shown = []
        for name in ("least_squares", "corrected", "jackknife"):
            answers = bands(plan, counts, name).mean
            assert answers is not None
            off = np.where(weights > 0, answers.value[:, 0] - m, 0.0)
            bias, square = (weights @ off**power / weights.sum() for power in (1, 2))
            shown.append(f"{bias:+.4f}, {np.sqrt(square):.4f}")
        yield (
            f"| {epsilon} | {reports} | {f} | {m} | {f / error:.1f} | {weights.sum():.4%} "
            f"| {' | '.join(shown)} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.estimators", description=__doc__)
    parser.add_argument("--repeat", type=int, default=50)
    parser.add_argument("--data", type=Path, help="a folder with the tables of ratings")
    parser.add_argument("--only", default="", help="populations by name, with commas between")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--odd", action="store_true", help="only the table of one odd key in 100")
    given = parser.parse_args()
    if given.odd:
        show({"odd": list(odd_key(given.repeat))}, given.write)
        return
    only = {name for name in given.only.split(",") if name}
    lines, classes = shrinkage(populations(given.data, only), given.repeat)
    show({"shrinkage": lines, "classes": classes, "bias": list(biases())}, given.write)


def show(tables: dict[str, list[str]], on_page: bool) -> None:
    """Print tables, and put them on the page if asked."""
    for name, table in tables.items():
        print("\n".join(table))
        if on_page:
            write(name, table)


def write(name: str, lines: list[str]) -> None:
    """Replace a table on the page."""
    page = PAGE.read_text()
    start, end = f"<!-- bench:{name} -->", "<!-- /bench -->"
    before, rest = page.split(start)
    PAGE.write_text(before + start + "\n\n" + "\n".join(lines) + "\n\n" + end + rest.split(end, 1)[1])


if __name__ == "__main__":
    main()
