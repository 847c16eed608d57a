"""The tasks whose speed is compared, by group; each is measured when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...channel import Symbols
from ...channel.design.view_channels import optimal_bits
from ...foundation.coins import WORDS_PER_BLOCK, Coins
from ...people.people import People
from ...people.schema import Schema
from ...people.synthetic import gaussian
from ...plan.plan import Plan
from ...plan.report import Reports
from ...plan.tally import Tally
from ..tallies import simulate
from .machine_limits import seconds_per_byte, seconds_per_word
from .peer_packages import Peers
from .plain_numpy import (
    PlainForm,
    batch_form,
    k_rr_form,
    kvue_form,
    sums_of_bytes,
    supports_of_hashes,
    tuned_k_rr,
    tuned_kvue,
    tuned_unary,
    unary_form,
)
from .speed_table import FASTEST, KVUE, LIMIT, NUMPY, TUNED, SpeedRow
from .stopwatch import TURNS, seconds_of, shortest
from .timed_people import KEYS, many_held, one_each, ten_held

STATES = (3, 100, 300, 6_561)
MOST_PEOPLE = 1_000_000
IOH_AIM = 0.004
"""Ten times the rate of the first loops, which was 0.05 million people a second where KVUE had 125."""
POOL = 1 << 16
"""Seeds whose own error is below 5 % of the sampling error: ``python -m bench tallies`` measures it."""
_FEW = 500


@dataclass(frozen=True)
class Timing:
    """How long to measure, and the other packages if they are asked for."""

    seconds: float
    """Processor time of one form in all of its turns."""
    peers: Peers | None = None

    @property
    def people(self) -> int:
        """The number of people at hand."""
        return int(min(MOST_PEOPLE, max(1_000, self.seconds * 3_500_000)))

    def count(self, seconds: float, most: int, least: int = 1) -> int:
        """How many of what takes ``seconds`` each fit into a turn."""
        return max(min(least, most), min(most, int(self.seconds / TURNS / seconds)))

    def packages(self, task: str, states: int, own: float) -> dict[str, float]:
        """Times of other packages divided by ours."""
        times = self.peers.seconds(task, states) if self.peers is not None else {}
        return {name: seconds / own for name, seconds in times.items()}


@dataclass(frozen=True)
class Task:
    """Something to privatise: the plan, the people, the NumPy form, what packages call it."""

    name: str
    plan: Plan
    people: People
    plain: PlainForm
    peer: tuple[str, int] | None
    aims: dict[str, float]
    tuned: PlainForm | None = None


def tasks(people: int) -> Iterator[Task]:
    """All rows about privatising."""
    schema, held = Schema.of(KEYS), ten_held(people)[0]
    kvue = Plan.of(schema, "kvue", 1)
    limits = {NUMPY: 5.0, FASTEST: 100.0}
    yield Task(
        f"KVUE, {KEYS} keys", kvue, held, kvue_form(kvue), ("KVUE", KEYS), limits, tuned_kvue(kvue)
    )
    for name, title, aims in (
        ("f2m", f"F2M, {KEYS} keys", {}),
        ("kvoh", f"KVOH, {KEYS} keys", {}),
        ("pairs", f"pair views, {KEYS} keys", {KVUE: 0.28}),
        ("collision", f"collision, {KEYS} keys", {KVUE: 1 / 15}),
        ("pckv_ue", f"PCKV-UE, {KEYS} keys", {KVUE: 1 / 40}),
    ):
        plan = Plan.of(schema, name, 1)
        yield Task(title, plan, held, batch_form(plan), None, dict(aims))
    ioh = Plan.of(Schema.of(8), "ioh", 1)
    dense = many_held(people // 10, 8)
    yield Task("IOH, 8 keys", ioh, dense, batch_form(ioh), None, {KVUE: IOH_AIM})
    for states in (2, *STATES):
        plan, crowd = Plan.of(Schema.of(states - 1), "grr", 1), one_each(people, states - 1)
        limits = {NUMPY: 3.0, FASTEST: 100.0, LIMIT: 0.4}
        plain, tuned = k_rr_form(plan, states), tuned_k_rr(plan, states)
        yield Task(f"k-RR, {states:,} states", plan, crowd, plain, ("k-RR", states), limits, tuned)
    for bits in STATES:
        crowd = one_each(people, bits)
        wanted = {NUMPY: 10.0, "pure-ldp": 100.0} if bits in (100, 6_561) else {}
        for name, plan in (("SUE", Plan.of(Schema.of(bits), "rappor", 1)), ("OUE", optimal_unary(bits))):
            plain, tuned = unary_form(plan, bits), tuned_unary(plan, bits)
            title, peer = f"unary ({name}), {bits:,} bits", (name, bits)
            yield Task(title, plan, crowd, plain, peer, dict(wanted), tuned)
    hashed = Plan.of(schema, "collision", 1, cap=1)
    name, crowd = f"hashed, one of {KEYS} items", one_each(people, KEYS)
    yield Task(name, hashed, crowd, batch_form(hashed), ("hashing", KEYS), {})
    few = Schema.of(4)
    rotated = Plan.of(few, "workload", 1, queries="mean(0 | 1, 2, 3)", channel="hadamard")
    name, crowd = "Hadamard response, 81 states", many_held(people, 4)
    yield Task(name, rotated, crowd, batch_form(rotated), ("Hadamard", 81), {})


def optimal_unary(bits: int) -> Plan:
    """Reports like those of ``rappor`` with optimal bits (OUE): the true bit is set half the time."""
    plan = Plan.of(Schema.of(bits), "rappor", 1)
    channel = optimal_bits(bits, plan.promised, silent=1)
    return Plan(plan.schema, plan.views, plan.encode, (channel,), plan.promised, plan.mechanism_name)


def privatise_rows(timing: Timing) -> Iterator[SpeedRow]:
    """Seconds of a person in batches, in turns with KVUE and with NumPy; and of one record."""
    coins, draw = Coins.secure(), Coins.secure().generator()
    base, kvue = ten_held(timing.people)[0], Plan.of(Schema.of(KEYS), "kvue", 1)
    for task in tasks(timing.people):
        yield _privatise_row(timing, task, lambda: kvue.privatise(base, coins), len(base), coins, draw)
    record = next(base.records(kvue.schema))
    kvue.report(record)
    many = timing.count(1e-4, 1_000, 5)
    own = shortest({"": lambda: [kvue.report(record) for _ in range(many)]})[""] / many
    packages = timing.packages("k-RR", KEYS, own)
    yield SpeedRow(f"one record, KVUE, {KEYS} keys", own, "call", packages, {"seconds": 50e-6})


def _privatise_row(
    timing: Timing,
    task: Task,
    kvue: Callable[[], object],
    kvue_people: int,
    coins: Coins,
    draw: np.random.Generator,
) -> SpeedRow:
    plan, people, plain, tuned = task.plan, task.people, task.plain, task.tuned
    few = people[:_FEW]
    plan.privatise(people[:2_000], coins)  # compiled loops are loaded here
    person_seconds = seconds_of(lambda: plan.privatise(people[:2_000], coins)) / min(2_000, len(people))
    crowd = people[: timing.count(person_seconds, len(people), 2_000)]
    forms: dict[str, Callable[[], object]] = {"own": lambda: plan.privatise(crowd, coins), KVUE: kvue}
    plain_seconds = seconds_of(lambda: plain(few, draw)) / len(few)
    fewer = people[: timing.count(plain_seconds, min(1 << 14, len(people)), _FEW)]
    forms[NUMPY] = lambda: plain(fewer, draw)
    if tuned is not None:
        forms[TUNED] = lambda: tuned(fewer, draw)
    taken = shortest(forms)
    own = taken["own"] / len(crowd)
    ratios = {name: taken[name] / len(fewer) / own for name in (NUMPY, TUNED) if name in taken}
    ratios[KVUE] = taken[KVUE] / kvue_people / own
    ratios[LIMIT] = blocks_taken(plan) * WORDS_PER_BLOCK * seconds_per_word() / own
    if task.peer is not None:
        ratios |= timing.packages(*task.peer, own)
    return SpeedRow(task.name, own, "person", ratios, task.aims)


def blocks_taken(plan: Plan) -> int:
    """The blocks of words that everyone's report takes; of bits in planes, those of the first eight."""
    channel: Any = plan.channels[0]
    if plan.layout.one_cell or len(plan.channels) > 1 or not isinstance(channel, Symbols):
        return -(-plan.most_words // WORDS_PER_BLOCK)
    whole, last = divmod(channel.positions, 32)
    return -(-plan.channel_start(0) // WORDS_PER_BLOCK) + 2 * whole + -(-12 * last // 128)


def tally_rows(timing: Timing) -> Iterator[SpeedRow]:
    """Seconds of a report: codes, packed bits, and hashes until items are estimated."""
    plan, draw = Plan.of(Schema.of(KEYS), "kvue", 1), Coins.stated("tally").generator()
    count = timing.count(1e-9, 10_000_000, 10_000)
    codes = draw.integers(0, plan.layout.codes, count).astype(plan.layout.code_type)
    reports, wide = Reports(plan.hash, codes=codes), codes.astype(np.int64)
    forms: dict[str, Callable[[], object]] = {
        "own": lambda: Tally(plan).add(reports),
        NUMPY: lambda: np.bincount(codes, minlength=plan.layout.codes),
        TUNED: lambda: np.bincount(wide, minlength=plan.layout.codes),
    }
    yield _tally_row("tally, codes of 16 bits", forms, count, codes.nbytes, {NUMPY: 3})
    bits = STATES[-1]
    plan = Plan.of(Schema.of(bits), "rappor", 1)
    rows = timing.count(1e-5, 5_000, 20)
    unary = plan.privatise(one_each(rows, bits), Coins.secure())
    packed = plan.packing.packed(unary)
    marks = np.unpackbits(packed, axis=1, bitorder="little")
    forms = {
        "own": lambda: Tally(plan).add(unary),
        NUMPY: lambda: marks.sum(axis=0),
        TUNED: lambda: sums_of_bytes(marks),
    }
    yield _tally_row(f"tally, unary, {bits:,} bits", forms, rows, packed.nbytes, {NUMPY: 10})
    yield _decoding_row(timing, bits)


def _tally_row(
    name: str, forms: dict[str, Callable[[], object]], count: int, size: int, aims: dict[str, float]
) -> SpeedRow:
    for form in forms.values():
        form()
    taken = shortest(forms)
    ratios = {name: taken[name] / taken["own"] for name in (NUMPY, TUNED)}
    ratios[LIMIT] = size * seconds_per_byte() / taken["own"]
    return SpeedRow(name, taken["own"] / count, "report", ratios, aims)


def _decoding_row(timing: Timing, items: int) -> SpeedRow:
    """Reports of collision until all items are estimated, beside every report's hash of every item."""
    plan = Plan.of(Schema.of(items), "collision", 1, cap=1, pool=POOL)
    draw = Coins.stated("hashes").generator()
    count = timing.count(5e-7, 100_000, 500)
    reports = plan.privatise(one_each(count, items), Coins.secure())
    few = timing.count(5e-5, 512, 64)
    seeds = draw.integers(0, 1 << 32, few, dtype=np.uint32)
    cells = draw.integers(0, 4, few, dtype=np.uint32)
    forms: dict[str, Callable[[], object]] = {
        "own": lambda: Tally(plan).add(reports).estimate(estimator="least_squares"),
        NUMPY: lambda: supports_of_hashes(seeds, cells, items, 4),
    }
    taken = shortest(forms, 2)
    own = taken["own"] / count
    ratios = {NUMPY: taken[NUMPY] / few / own, **timing.packages("decoding", items, own)}
    name = f"hashes decoded, {items:,} items"
    return SpeedRow(name, own, "report", ratios, {"pure-ldp": 1_000})


def estimate_rows(timing: Timing) -> Iterator[SpeedRow]:
    """Seconds until a tally of a million people is answered, and of a comparison."""
    world = gaussian(KEYS, Coins.stated("speed"))
    schema, coins = Schema.of(KEYS), Coins.stated("estimates")
    for name, seconds in (("kvue", None), ("pairs", None), ("triples", 1.0), ("coefficients", 1.0)):
        tally = simulate(Plan.of(schema, name, 1), world, 1_000_000, coins)
        aims = {} if seconds is None else {"seconds": seconds}
        taken = _answered(tally.estimate)
        yield SpeedRow(f"estimate, {name}, {KEYS} keys", taken, "call", {}, aims)
        if name == "pairs":
            yield from _together_rows(tally)


def _together_rows(tally: Tally) -> Iterator[SpeedRow]:
    """Every key given every other, and the most likely law of every view."""
    matrix = _answered(lambda: tally.conditionals().matrix("frequency"))
    yield SpeedRow(f"conditional matrix, {KEYS} keys", matrix, "call")
    likely = _answered(lambda: tally.conditionals("likelihood"))
    yield SpeedRow(f"likelihood, {len(tally.plan.views):,} views", likely, "call")


def _answered(call: Callable[[], object]) -> float:
    """Seconds of a call, the shorter of two."""
    return shortest({"": call}, 2)[""]
