"""An audit of whole messages: everything that leaves a device, for any way to make a report.

``audit_messages(make, plan)`` calls ``make(plan, record)`` for each of many new devices with random
records, and examines everything that they send:

- *Exact checks.* All parts of a message except cells and id are the same in all messages: number and
  order of requests, addresses, headers, epoch, length, order of members. Messages with equal cells have
  equal bytes, apart from their ids. No record makes a device silent.
- *Cells.* The lower bound on epsilon that ``blackbox`` finds must not exceed the promise, and an
  attacker who learns from half of the messages which records go with which cells must not guess the
  others better than epsilon allows.
- *Ids.* Each bit is a fair coin: for every record, for all cells, and for both together. Ids and their
  32-bit words do not repeat.
- *Cells and ids together.* An attacker uses the id as words of the coins, redraws the report of every
  record with them, and guesses the record whose report was sent. Also, ids must not reproduce the cells
  from the true record more often than unrelated ids do.

Any attacker who sees a message of a device with epsilon e guesses one of k equally likely records with
a probability of at most e^e / (e^e + k - 1). The sampled checks share ``false_alarm``, the probability
that any of them rejects an honest device. Needs SciPy: ``keyveil[testing]``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import exp, factorial
from typing import Any

import numpy as np

from ..foundation.coins import Coins
from ..foundation.errors import KeyveilError, PlanError
from ..foundation.scipy_library import scipy
from ..people.schema import Record
from ..plan.plan import Plan
from ..plan.report import Report
from .blackbox import Leak, audit_batches
from .messages import Message, Sent, read_message
from .replay import Replay, binomials_tail

Make = Callable[[Plan, Any], Sent]
"""Sends one report of a new device with a record; returns everything that the device sent."""

DEVICES = 200
FALSE_ALARM = 1e-9
"""The probability that the audit rejects an honest device."""
CHECKS = 5
"""Number of sampled checks, which share the false alarm: cells, bits, repeats, guesses, redraws."""
MOST_RECORDS = 24
MOST_OFFSETS = 16
"""Maximum number of places in the stream where an id is tried."""


@dataclass(frozen=True)
class Guesses:
    """How often an attacker guessed a device's record from its message."""

    attack: str
    right: int
    messages: int
    allowed: float
    """The largest mean share of right guesses that the plan's epsilon allows."""
    chance: float
    """The probability of at least ``right`` right guesses against an honest device."""

    def __str__(self) -> str:
        return (
            f"{self.attack}: the record is guessed right for {self.right} of {self.messages} messages; "
            f"epsilon allows {self.allowed:.1%} on average"
        )


Redrawn = tuple[float, str]
"""How often ids, used as coins, reproduce the cells from the true record: a p-value and a sentence.

The p-value is the probability of as many matches if ids are unrelated to cells.
"""


@dataclass(frozen=True)
class MessageAudit:
    """The result of an audit of messages."""

    findings: tuple[str, ...]
    """One sentence per finding, none if all checks passed. Records are named by number only."""
    messages: int
    cells: Leak
    """The lower bound on epsilon that cells alone prove."""
    guesses: Guesses
    """The attack that guessed best: from cells alone, or from cells and id together."""
    false_alarm: float

    @property
    def sound(self) -> bool:
        """Whether there are no findings."""
        return not self.findings

    def __str__(self) -> str:
        alarm = f"an honest device is flagged with a chance of at most {self.false_alarm:g}"
        lines = [f"{self.messages} messages; {alarm}"]
        lines += [f"found: {finding}" for finding in self.findings] or ["sound"]
        return "\n".join(lines)


def audit_messages(
    make: Make,
    plan: Plan,
    records: Sequence[Record] | None = None,
    *,
    others: Sequence[object] = (),
    devices: int = DEVICES,
    false_alarm: float = FALSE_ALARM,
    coins: Coins | None = None,
) -> MessageAudit:
    """Audit what ``make`` sends for ``devices`` new devices that hold one of ``records``, at random.

    ``records`` are valid records of the plan, by default one for each state as far as possible.
    ``others`` may break rules; exact checks hold for them too. ``coins`` draw who holds which record.
    An honest device is rejected with a probability of at most ``false_alarm``.
    """
    scipy("special", "audit_messages")
    held = list(example_records(plan) if records is None else records)
    if len(held) < 2 or devices < 2:
        raise PlanError("an audit compares at least two records over at least two devices")
    if not 0 < false_alarm < 1:
        raise PlanError("a false alarm is a chance between 0 and 1, like 1e-9")
    draw = (coins or Coins.secure()).generator()
    numbers = draw.integers(len(held), size=devices)
    cast: list[tuple[int, object]] = [(int(number), held[number]) for number in numbers]
    cast += [(len(held) + number, record) for number, record in enumerate(others)]
    order = draw.permutation(len(cast))
    sample, silent = _capture(make, plan, [cast[place] for place in order], len(held))
    level = false_alarm / CHECKS
    cells = audit_batches(sample.pairs(), 1 - level)
    findings = [*silent, *_exact_findings(sample)]
    if cells.epsilon > float(plan.promised):
        findings.append(f"cells: {cells}")
    guesses, redrawn = [_cell_guesses(plan, len(held), sample)], list[Redrawn]()
    if sample.with_id:
        findings += _bit_findings(sample, level)
        findings += _repeat_findings(sample, level)
        more, redrawn = _replay_attacks(plan, held, sample, draw)
        guesses += more
    for attacks in ([(attack.chance, str(attack)) for attack in guesses], redrawn):
        findings += [text for chance, text in attacks if chance < level / len(attacks)]
    best = min(guesses, key=lambda attack: attack.chance)
    return MessageAudit(tuple(findings), len(sample.messages), cells, best, false_alarm)


def example_records(plan: Plan) -> list[Record]:
    """Records with different states, in every view where that is possible."""
    names = plan.schema.keys
    records: list[dict[int, float]] = []
    for own in plan.part_plans:
        records += [r for r in own.encoding.telling_records(own.schema) if r not in records]
    records = records[: MOST_RECORDS - 1]
    return [{}, *({names[place]: value for place, value in held.items()} for held in records)]


# -- capture ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Sample:
    """Messages with the numbers of their records. Records below ``known`` were drawn at random."""

    messages: tuple[Message, ...]
    numbers: tuple[int, ...]
    known: int

    @cached_property
    def drawn(self) -> list[tuple[int, Message]]:
        """Messages of records that were drawn at random, with the number of the record."""
        both = zip(self.numbers, self.messages, strict=True)
        return [(number, message) for number, message in both if number < self.known]

    @property
    def with_id(self) -> bool:
        """Whether all reports have an id."""
        return all(message.id is not None for message in self.messages)

    def pairs(self) -> Iterator[list[tuple[Counter[Any], Counter[Any]]]]:
        """Pairs of the first record with another; per record one half picks events, one bounds them."""
        reports_of: dict[int, list[Report]] = defaultdict(list)
        for number, message in self.drawn:
            reports_of[number].append(Report("", message.cells))
        for other in range(1, self.known):
            halves = [(reports_of[record][::2], reports_of[record][1::2]) for record in (0, other)]
            if all(half for pair in halves for half in pair):
                yield [(Counter(pick), Counter(bound)) for pick, bound in halves]


def _capture(
    make: Make, plan: Plan, cast: Sequence[tuple[int, object]], known: int
) -> tuple[_Sample, list[str]]:
    """The messages of all devices, and a finding for each record that makes a device fail."""
    messages, numbers, errors = [], [], []
    for number, record in cast:
        try:
            messages.append(read_message(plan, make(plan, record)))
            numbers.append(number)
        except Exception as error:
            errors.append((number, error))
    if not any(number < known for number in numbers):
        raise errors[0][1]
    failed: dict[tuple[int, str], int] = Counter((number, _reason(error)) for number, error in errors)
    silent = [
        f"record {number}: no valid report was sent, {count} times ({reason})"
        for (number, reason), count in sorted(failed.items())
    ]
    return _Sample(tuple(messages), tuple(numbers), known), silent


def _reason(error: Exception) -> str:
    """The text of our own errors, which never name a record, or only the type of other errors."""
    return str(error) if isinstance(error, KeyveilError) else type(error).__name__


# -- exact checks ----------------------------------------------------------------------------------


def _exact_findings(sample: _Sample) -> list[str]:
    """Findings on parts that are not the same in all messages."""
    messages = sample.messages
    names = dict.fromkeys(name for message in messages for name in message.parts)
    findings = []
    for name in names:
        values = len({message.parts.get(name) for message in messages})
        if values > 1:
            findings.append(f"{name}: has {values} values, and must be the same in all messages")
    if len({message.id is None for message in messages}) > 1:
        findings.append("id: some reports have one, and some have none")
    if not findings:
        texts: dict[tuple[int, ...], set[bytes]] = defaultdict(set)
        for message in messages:
            texts[message.cells].add(message.exact)
        if any(len(variants) > 1 for variants in texts.values()):
            findings.append("bytes: messages with equal cells differ in more than their id")
    return findings


# -- ids -------------------------------------------------------------------------------------------


def _bit_findings(sample: _Sample, level: float) -> list[str]:
    """Findings on bits of the id that are not fair coins, overall or for a record or cells."""
    bits = np.array([np.unpackbits(np.frombuffer(m.id or b"", np.uint8)) for _, m in sample.drawn])
    groups: dict[tuple[str, object], list[int]] = defaultdict(list)
    for row, (number, message) in enumerate(sample.drawn):
        groups["all messages", None].append(row)
        groups["messages of one record", number].append(row)
        groups["messages with equal cells", message.cells].append(row)
        groups["messages of one record with equal cells", (number, message.cells)].append(row)
    tests = bits.shape[1] * len(groups)
    unfair: Counter[str] = Counter()
    special = scipy("special", "audit_messages")
    for (name, _), rows in groups.items():
        ones = bits[rows].sum(axis=0)
        fewer = np.minimum(ones, len(rows) - ones)
        chances = 2 * special.bdtr(fewer, len(rows), 0.5)
        unfair[name] += int((chances < level / tests).sum())
    return [f"id: {count} bits are no fair coins in {name}" for name, count in unfair.items() if count]


def _repeat_findings(sample: _Sample, level: float) -> list[str]:
    """Findings on ids, or 32-bit words of ids, that repeat more often than by chance."""
    ids = [message.id or b"" for _, message in sample.drawn]
    pieces = {"id: ids repeat": (0, 16)}
    pieces |= {f"id: bytes {at} to {at + 3} repeat": (at, at + 4) for at in range(0, 16, 4)}
    findings = []
    for text, (first, last) in pieces.items():
        repeats = len(ids) - len({report_id[first:last] for report_id in ids})
        # The i-th repeats an earlier one with probability below i / 2^bits, whatever came before.
        mean = len(ids) * (len(ids) - 1) / 2 / 2.0 ** (8 * (last - first))
        most = min(repeats, 100)
        if repeats and mean**most / factorial(most) < level / len(pieces):
            findings.append(f"{text} in {repeats} of {len(ids)} messages")
    return findings


# -- guesses ---------------------------------------------------------------------------------------


def guess_bound(epsilon: float, records: int) -> float:
    """The largest probability of guessing one of ``records`` equally likely records at ``epsilon``."""
    return exp(epsilon) / (exp(epsilon) + records - 1)


def _guesses(plan: Plan, records: int, attack: str, right: int, messages: int) -> Guesses:
    allowed = guess_bound(float(plan.promised), records)
    special = scipy("special", "audit_messages")
    chance = float(special.bdtrc(right - 1, messages, allowed)) if right else 1.0
    return Guesses(attack, right, messages, allowed, chance)


def _cell_guesses(plan: Plan, records: int, sample: _Sample) -> Guesses:
    """Guesses from cells alone: the record that sent them most often in the other half."""
    seen: dict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
    for number, message in sample.drawn[::2]:
        seen[message.cells][number] += 1
    tested = sample.drawn[1::2]
    right = sum(
        seen[message.cells].most_common(1)[0][0] == number
        for number, message in tested
        if message.cells in seen
    )
    return _guesses(plan, records, "cells alone", right, len(tested))


def _replay_attacks(
    plan: Plan, records: Sequence[Record], sample: _Sample, draw: np.random.Generator
) -> tuple[list[Guesses], list[Redrawn]]:
    """Attacks that use ids as words of the coins, at several offsets: guess the record, or redraw."""
    truth = np.array([number for number, _ in sample.drawn])
    replay = Replay(plan, records, [message.cells for _, message in sample.drawn], draw)
    guesses, redrawn = [], []
    for kind, ends in (("<u4", "little"), (">u4", "big")):
        ids = np.array([np.frombuffer(message.id or b"", kind) for _, message in sample.drawn])
        ids = ids.astype(np.uint32)
        for offset in range(-3, min(replay.words, MOST_OFFSETS)):
            name = f"cells and id, read as {ends}-endian words {offset} to {offset + 3} of the coins"
            right = int((replay.guessed(ids, offset) == truth).sum())
            guesses.append(_guesses(plan, len(records), name, right, len(truth)))
            same, expected = replay.redrawn(truth, ids, offset)
            matches = int(same.sum())
            text = (
                f"{name}: they draw the same cells again for {matches} of {len(truth)} messages; "
                f"unrelated ids do so for {expected.sum():.1f}"
            )
            redrawn.append((binomials_tail(matches, expected), text))
    return guesses, redrawn
