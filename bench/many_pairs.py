"""Coverage of thousands of pairs, and how much of the differences between them is chance.

Of 9,900 pairs that are all covered 95 % of the time, some are covered far less often in 50 tallies. So
``bench.pair_coverage`` compares with chance, and takes the tallies in two halves: pairs that are covered
least in one half by chance alone are covered as often as all others in the other half.
"""

from __future__ import annotations

from functools import cache
from math import lgamma, log
from typing import Any, NamedTuple

import numpy as np

from keyveil import Schema
from keyveil.foundation.arrays import Flags, Floats, Integers
from keyveil.foundation.coins import address
from keyveil.people.people import People
from keyveil.simulate.tallies import Population

LEVEL = 0.95
NEAR = (0.93, 0.97)
"""Coverage that every pair should have."""
EXTREME = 0.01
"""Share of the pairs that are called the least covered ones, and of the most covered ones."""
PEOPLE, COUPLES = 20_000, 10
"""Number of made-up people, and of pairs of their keys that go together."""
FREQUENCY = 0.2
"""Frequency of every made-up key; half of the holders give it a low value."""
SAME, OPPOSITE = 0.9, 0.9
"""Chance that the second key of a couple is held as the first one is, and has the opposite value."""
ROUNDING = 1e-9
HEADER = [
    "| table | people | epsilon | tallies | answer | pairs | covered, all | least | chance "
    "| below 93 % | chance | above 97 % | chance "
    "| least covered 1 %, anew | most covered 1 %, anew | spread | unbounded |",
    "| --- | --: | --: | --: | --- | --: | --: | --: | --- | --: | --: | --: | --: | --: | --: | --: "
    "| --: |",
]
Row = dict[str, Any]


class Coverage(NamedTuple):
    """Which intervals cover."""

    keys: Integers
    """Target and condition of each pair."""
    covered: Flags
    """``(tallies, pairs)``."""
    asked: Flags
    """Whether the tally has reports of the pair, ``(tallies, pairs)``."""
    unbounded: float
    """Share of intervals that are unbounded."""
    inside: Flags
    """Whether a pair's interval lies inside the range in nearly all tallies, ``(pairs,)``."""

    @property
    def average(self) -> float:
        """Share of the intervals that cover."""
        return float((self.covered & self.asked).sum() / self.asked.sum())

    def of_pairs(self, pairs: Flags) -> Coverage:
        """The same for some of the pairs."""
        return self._replace(
            keys=self.keys[pairs],
            covered=self.covered[:, pairs],
            asked=self.asked[:, pairs],
            inside=self.inside[pairs],
        )

    def shares(self, tallies: slice) -> Floats:
        """How often each pair is covered in these tallies; NaN without reports."""
        with np.errstate(invalid="ignore"):
            asked = self.asked[tallies]
            return np.asarray((self.covered[tallies] & asked).sum(axis=0) / asked.sum(axis=0))


def odd_couples(keys: int) -> Population:
    """People with independent keys, all alike, but for a few couples that are held together.

    Whoever holds both keys of a couple gives them opposite values.
    """
    draw = np.random.default_rng(16)
    held = draw.random((PEOPLE, keys)) < FREQUENCY
    high = draw.random((PEOPLE, keys)) < 0.5
    for first in range(0, 2 * COUPLES, 2):
        same, opposite = draw.random(PEOPLE) < SAME, draw.random(PEOPLE) < OPPOSITE
        held[:, first + 1] = np.where(same, held[:, first], held[:, first + 1])
        high[:, first + 1] = np.where(opposite, ~high[:, first], high[:, first + 1])
    schema, (who, places) = Schema.of(keys), np.nonzero(held)
    values = np.where(high[held], 1.0, -1.0)
    return Population(schema, People.of_places(schema, address(np.arange(PEOPLE)), who, places, values))


def in_couples(keys: Integers) -> Flags:
    """Which ordered pairs of ``odd_couples`` go together."""
    return np.asarray((keys[:, 0] // 2 == keys[:, 1] // 2) & (keys[:, 0] < 2 * COUPLES))


@cache
def at_most(tallies: int) -> Floats:
    """The chance that at most 0, 1, 2, ... of ``tallies`` intervals cover."""
    ways = np.array([lgamma(k + 1) for k in range(tallies + 1)])
    k = np.arange(tallies + 1)
    chances = np.exp(ways[-1] - ways - ways[::-1] + k * log(LEVEL) + (tallies - k) * log(1 - LEVEL))
    return np.asarray(np.cumsum(chances))


def chance_of_at_most(share: float, asked: Integers) -> Floats:
    """The chance that at most this share of each number of intervals covers."""
    numbers, place = np.unique(asked, return_inverse=True)
    chances = [at_most(int(m))[int(np.floor(share * m + ROUNDING))] for m in numbers]
    return np.asarray(np.array(chances)[place])


def expected_least(asked: Integers) -> tuple[float, float]:
    """The range of the smallest of independent shares, 95 % of the time."""
    shares = np.arange(0.0, 1.0, 0.005)
    least = np.array(
        [-np.expm1(np.log1p(-np.minimum(chance_of_at_most(x, asked), 1 - 1e-16)).sum()) for x in shares]
    )
    low, high = (
        shares[min(int(np.searchsorted(least, end)), len(shares) - 1)] for end in (0.025, 0.975)
    )
    return float(low), float(high)


def anew(measured: Coverage, most: bool) -> tuple[float, float] | tuple[None, None]:
    """Coverage, in one half of the tallies, of the pairs that stand out in the other half.

    With its standard error, over tallies; None if a hundredth of the pairs is less than one pair.
    ``most`` takes the pairs that are covered most.
    """
    by_tally, number = [], round(EXTREME * measured.asked.shape[1])
    if not number:
        return None, None
    for chosen_in, other in ((0, 1), (1, 0)):
        shares = measured.shares(slice(chosen_in, None, 2))
        ranked = np.argsort(np.where(np.isnan(shares), LEVEL, shares), kind="stable")
        pairs = ranked[-number:] if most else ranked[:number]
        asked = measured.asked[other::2, pairs]
        inside = (measured.covered[other::2, pairs] & asked).sum(axis=1)
        number_asked = asked.sum(axis=1)
        by_tally.append(inside[number_asked > 0] / number_asked[number_asked > 0])
    shares = np.concatenate(by_tally)
    return float(shares.mean()), float(shares.std(ddof=1) / np.sqrt(len(shares)))


def spread(measured: Coverage) -> float:
    """Standard deviation of the pairs' coverage without chance: both halves have it in common."""
    first, second = (measured.shares(slice(start, None, 2)) for start in (0, 1))
    both = np.isfinite(first) & np.isfinite(second)
    return float(np.sqrt(max(np.cov(first[both], second[both])[0, 1], 0.0)))


def row_of_many(measured: Coverage) -> Row:
    """The figures of one row."""
    low, high = NEAR
    asked = measured.asked.sum(axis=0)
    shares, number = measured.shares(slice(None))[asked > 0], asked[asked > 0]
    return {
        "tallies": len(measured.asked),
        "pairs": len(shares),
        "all": measured.average,
        "least": float(shares.min()),
        "expected_least": expected_least(number),
        "below": float((shares < low - ROUNDING).mean()),
        "below_by_chance": float(chance_of_at_most(low - 2 * ROUNDING, number).mean()),
        "above": float((shares > high + ROUNDING).mean()),
        "above_by_chance": float(1.0 - chance_of_at_most(high, number).mean()),
        "least_anew": anew(measured, most=False),
        "most_anew": anew(measured, most=True),
        "spread": spread(measured),
        "unbounded": measured.unbounded,
    }


def line_of_many(row: Row) -> str:
    """A row as a line of the table."""
    facts = (row["table"], f"{row['people']:,}", row["epsilon"], str(row["tallies"]), row["answer"])
    low, high = row["expected_least"]
    shares = [f"{row[part]:.0%}" for part in ("below", "below_by_chance", "above", "above_by_chance")]
    fresh = [
        "-" if value is None else f"{value:.1%} ± {error:.1%}"
        for value, error in (row["least_anew"], row["most_anew"])
    ]
    ends = f"{row['all']:.1%}", f"{row['least']:.0%}", f"{low:.0%} to {high:.0%}"
    cells = [*facts, f"{row['pairs']:,}", *ends, *shares, *fresh, f"{row['spread']:.1%}"]
    return f"| {' | '.join(cells)} | {row['unbounded']:.0%} |"


def verdict_of_many(rows: list[Row]) -> list[str]:
    """For each answer: coverage of all pairs and of the least covered ones."""
    lines = []
    for answer in dict.fromkeys(row["answer"] for row in rows):
        here = [row for row in rows if row["answer"] == answer]
        average = [row["all"] for row in here]
        below = sum(row["least"] < row["expected_least"][0] - ROUNDING for row in here)
        sentences = [
            f"{min(average):.1%} to {max(average):.1%} of intervals cover.",
            f"At {below} of {len(here)} settings the least covered pair lies below the range of chance.",
        ]
        known = [row for row in here if row["least_anew"][0] is not None]
        if known:
            least = min(known, key=lambda row: float(row["least_anew"][0]))
            value, error = least["least_anew"]
            sentences.append(
                "The hundredth of pairs that is covered least in one half of the tallies is covered "
                f"{value:.1%} ± {error:.1%} of the time or more in the other half ({least['table']}, "
                f"{least['people']:,} people, epsilon {least['epsilon']})."
            )
        lines.append(f"- {answer.capitalize()}: {' '.join(sentences)}")
    return lines
