"""Counting and decoding reports against NumPy, and what a pool of hashes costs in accuracy."""

from __future__ import annotations

import os
from collections.abc import Callable
from math import sqrt
from typing import Any
from unittest.mock import patch

import numpy as np
from numba import njit

from keyveil import Coins, People, Plan, Reports, Schema, Tally
from keyveil.channel.shapes.collision_channel import Collision
from keyveil.channel.shapes.hash import item_words, mixed
from keyveil.channel.shapes.seed_pool import SeedPool, pool_of
from keyveil.estimate.pools.named_keys import named_cells
from keyveil.foundation.arrays import Floats
from keyveil.foundation.coins import address
from keyveil.simulate.speed.plain_numpy import sums_of_bytes
from keyveil.simulate.speed.stopwatch import shortest

from .rates import one_each
from .table import Outcome, Table, rows, times

ITEMS, PEOPLE = 6_561, 100_000
POOL = 1 << 16
"""Seeds whose own error is below 5 % of the sampling error, also if few items are frequent."""
FINE = 1 << 31
"""Reports whose counts have the law of a report up to rounding."""
AIM_BITS, AIM_CODES, AIM_POOL = 10.0, 3.0, 0.05
MANY_PEOPLE = 1_000_000
"""The number of people that a default pool is made for."""


def run(quick: bool) -> Outcome:
    """Tallies of bits and codes, and the error of pools."""
    with patch.dict(os.environ, {"KEYVEIL_FAST": "1"}):
        counted, missed = _counted(3 if quick else 15)
        pools, figures, more = _pools(("uniform", "Zipf"))
    titles = "reports", "against NumPy", "tuned NumPy", "aim", "ns a report"
    first = Table(
        "Tallying reports, one core",
        titles,
        rows(counted),
        "Bits: NumPy's sum over rows with a byte for each bit, which need eight times the memory; "
        "tuned, it sums 255 rows at a time, in a byte each. Codes: `np.bincount` on uint16; tuned, on "
        "int64 that were widened before.",
    )
    second = Table(
        f"The error of a pool of seeds, collision over {ITEMS:,} items, epsilon 1",
        (
            "items",
            "seeds",
            f"pool's error of sampling error, {PEOPLE:,} people",
            "a million",
            "adds for a million",
            "aim",
            "ns a report",
        ),
        rows(pools),
        "The pool's error is exact: the channel's own law of reports, with neither people nor coins, is "
        "decoded, and the root mean square of what is left over is divided by the standard error that "
        "the noise of so many reports has. It adds what it makes the root of both squares larger than "
        "that standard error. The default of a plan is marked. The time is that of tally and estimate "
        f"of {PEOPLE:,} reports together.",
    )
    return Outcome("tallies", (first, second), figures, tuple(missed + more))


def _counted(rounds: int) -> tuple[list[tuple[str, ...]], list[str]]:
    """Rows of the first table, and missed aims."""
    lines, missed = [], []
    for name, aim, ours, plain, tuned, count in (_bits(100), _bits(ITEMS), _codes()):
        forms = {"ours": ours, "plain": plain, "tuned": tuned}
        taken = shortest(forms, rounds)
        ratio = taken["plain"] / taken["ours"]
        if ratio < aim:
            missed.append(f"{name}: {ratio:.1f} x NumPy, aim {aim:.0f} x")
        cost = f"{taken['ours'] / count * 1e9:,.2f}"
        lines.append((name, times(ratio), times(taken["tuned"] / taken["ours"]), f"{aim:.0f} x", cost))
    return lines, missed


Form = Callable[[], object]


def _bits(bits: int) -> tuple[str, float, Form, Form, Form, int]:
    plan = Plan.of(Schema.of(bits), "rappor", 1)
    people = one_each(bits)[: 4_000 if bits > 1_000 else 100_000]
    reports = plan.privatise(people, Coins.secure())
    assert isinstance(reports, Reports)
    assert reports.bits is not None
    marks = np.unpackbits(reports.bits, axis=1, count=bits, bitorder="little")
    return (
        f"unary over {bits:,} bits, packed",
        AIM_BITS,
        lambda: Tally(plan).add(reports),
        lambda: marks.sum(axis=0),
        lambda: sums_of_bytes(marks),
        len(reports),
    )


def _codes() -> tuple[str, float, Form, Form, Form, int]:
    plan = Plan.of(Schema.of(100), "kvue", 1)
    reports = plan.privatise(one_each(100), Coins.secure())
    assert isinstance(reports, Reports)
    assert reports.codes is not None
    codes = np.tile(reports.codes, 50)
    reports = Reports(plan.hash, codes=codes)
    wide = codes.astype(np.int64)
    return (
        "codes of uint16, KVUE, 100 keys",
        AIM_CODES,
        lambda: Tally(plan).add(reports),
        lambda: np.bincount(codes, minlength=300),
        lambda: np.bincount(wide, minlength=300),
        len(reports),
    )


# -- decoding a pool -------------------------------------------------------------------------------


def shares(law: str) -> Floats:
    """The frequencies of all items."""
    weights = np.ones(ITEMS) if law == "uniform" else 1.0 / np.arange(1, ITEMS + 1)
    return np.asarray(weights / weights.sum())


def people_of(law: str) -> People:
    """People who hold one item each."""
    held = Coins.stated("tallies").generator().choice(ITEMS, PEOPLE, p=shares(law)).astype(np.uint16)
    starts = np.arange(PEOPLE + 1)
    return People(address(starts[:-1]), starts, held, np.zeros(PEOPLE))


def decoding_plan() -> Plan:
    """The plan whose decoding is measured."""
    return Plan.of(Schema.of(ITEMS), "collision", 1, cap=1, pool=POOL)


def decoding_time(plan: Plan, people: People, rounds: int = 3) -> float:
    """Seconds of a report until the frequencies of all items are estimated."""
    reports = plan.privatise(people, Coins.secure())
    assert isinstance(reports, Reports)

    def decode() -> object:
        return Tally(plan).add(reports).estimate(estimator="least_squares")

    return shortest({"": decode}, rounds)[""] / len(reports)


def pool_share(plan: Plan, law: str) -> float:
    """The pool's own error of the frequencies, as a share of the sampling error."""
    channel, truth = pool_of(plan.channels[0]), shares(law)
    halves = np.repeat(truth / 2, 2)  # values are 0: half low, half high
    expected = _law(channel, halves)
    if channel.pool < POOL:  # the channel's own form takes much memory
        np.testing.assert_allclose(expected, channel.mixture(np.arange(2 * ITEMS)[:, None], halves))
    counts = np.rint(np.concatenate([[1.0], expected]) * FINE).astype(np.int64)
    reports = plan.privatise(people_of(law), Coins.secure())
    tally = Tally(plan).add(reports)
    answers = tally.estimate(estimator="least_squares")
    if not np.allclose([a.frequency.value for a in answers], _scores(plan, tally.counts)):
        raise SystemExit("the estimator undoes collisions: its pool error is another one")
    error = _scores(plan, counts) - truth
    return sqrt(float((error**2).mean() / (channel.key_noise[0] / PEOPLE)))


def _law(channel: SeedPool, held: Floats) -> Floats:
    """The law of a report of people who hold one of the items with these shares."""
    assert isinstance(channel, Collision)
    bases = mixed(np.arange(channel.pool, dtype=np.uint32) ^ np.uint32(channel.salt))
    grid = np.zeros((channel.pool, channel.small))
    _spread(bases, item_words(np.arange(len(held))), held, grid)
    low = (1.0 - channel.keep) / (channel.small - 1)
    return np.asarray((low + (channel.keep - low) * grid).ravel() / channel.pool)


@njit
def _spread(bases: Any, words: Any, held: Any, grid: Any) -> None:
    """Add the share of each item to its cell under every seed: ``hash.hashed`` item by item."""
    ones, cells = np.uint64(0xFFFFFFFF), np.uint64(grid.shape[1])
    for seed in range(len(bases)):
        row = grid[seed]
        for i in range(len(words)):
            word = np.uint64(bases[seed] ^ words[i])
            word ^= word >> np.uint64(16)
            word = (word * np.uint64(0x7FEB352D)) & ones
            word ^= word >> np.uint64(15)
            word = (word * np.uint64(0x846CA68B)) & ones
            word ^= word >> np.uint64(16)
            row[(word * cells) >> np.uint64(32)] += held[i]


def _scores(plan: Plan, counts: np.ndarray) -> Floats:
    """Frequencies if collisions are not undone: a linear form of the counts."""
    channel = pool_of(plan.channels[0])
    named = named_cells(channel, ITEMS, counts[None])[0][0].sum(axis=1)
    return np.asarray((named / counts[0] - 2.0 / channel.small) / channel.gains[0])


def _pools(laws: tuple[str, ...]) -> tuple[list[tuple[str, ...]], dict[str, float], list[str]]:
    """Rows of the second table, figures and missed aims."""
    lines, figures, missed = [], {}, []
    usual = Plan.of(Schema.of(ITEMS), "collision", 1, cap=1)
    for plan in (Plan.of(Schema.of(ITEMS), "collision", 1, cap=1, pool=1024), usual, decoding_plan()):
        seeds = pool_of(plan.channels[0]).pool
        for law in laws:
            share = pool_share(plan, law)
            of_many = share * sqrt(MANY_PEOPLE / PEOPLE)
            added = sqrt(1.0 + of_many**2) - 1.0
            figures[f"{law}, {seeds} seeds"] = share
            aim, reached = "", 0.0
            if seeds == POOL:
                aim, reached = f"{AIM_POOL:.0%} of {PEOPLE:,}", share
            elif plan == usual:
                aim, reached = f"adds {AIM_POOL:.0%}", added
            if reached > AIM_POOL:
                missed.append(f"pool of {seeds}, {law}: {reached:.1%}, aim {AIM_POOL:.0%}")
            name = f"{seeds:,} (default)" if plan == usual else f"{seeds:,}"
            cost = decoding_time(plan, people_of(law)) * 1e9
            own = f"{share:.1%}", f"{of_many:.1%}", f"{added:.1%}"
            lines.append((law, name, *own, aim, f"{cost:,.0f}"))
    return lines, figures, missed
