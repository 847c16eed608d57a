"""An audit of whole messages: everything that leaves a device, for any way to make a report.

``audit_messages(make, plan)`` has ``make(plan, record)`` send one report for each of many new devices,
whose records are drawn at random, and looks at all that was sent:

- *Exact checks.* All parts of a message but cells and id are the same in all messages: number and
  order of requests, addresses, headers, epoch, length, order of members. Messages with equal cells are
  the same to the last byte, their ids aside. No record makes a device silent.
- *Cells.* The lower bound on epsilon that ``blackbox`` finds must not exceed the promise, and an
  attacker who learns from half of the messages which records go with which cells must not guess the
  others better than epsilon allows.
- *Ids.* Each bit is a fair coin, for every record, for all cells and for both together; ids and their
  32-bit words do not repeat.
- *Cells and ids together.* An attacker takes the id for words of the coins, draws the report of every
  record again with them, and guesses the record whose report was sent. Ids also must not draw the
  cells again from the true record more often than unrelated ids do.

Whatever an attacker does with a message, a device with epsilon e lets it guess one of k equally likely
records with a chance of at most e^e / (e^e + k - 1). Sampled checks share ``false_alarm``, the chance
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
from scipy import special

from ..foundation.coins import Coins
from ..foundation.errors import KeyveilError, PlanError
from ..people.schema import Record
from ..plan.plan import Plan
from ..plan.report import Report
from .blackbox import Leak, audit_batches
from .messages import Message, Sent, read_message
from .replay import Replay, binomials_tail

Make = Callable[[Plan, Any], Sent]
"""Sends one report of a new device that holds a record; returns all that left it."""

DEVICES = 200
FALSE_ALARM = 1e-9
"""The chance that the audit rejects an honest device."""
CHECKS = 5
"""Number of sampled checks, which share the false alarm: cells, bits, repeats, guesses, redraws."""
MOST_RECORDS = 24
MOST_OFFSETS = 16
"""Number of places in the stream where an id is tried."""


@dataclass(frozen=True)
class Guesses:
    """How often an attacker guessed a device's record from its message."""

    attack: str
    right: int
    messages: int
    allowed: float
    """The share that may be right on average, by the plan's epsilon."""
    chance: float
    """Of so many right guesses or more, against an honest device."""

    def __str__(self) -> str:
        return (
            f"{self.attack}: the record is guessed right for {self.right} of {self.messages} messages; "
            f"epsilon allows {self.allowed:.1%} on average"
        )


@dataclass(frozen=True)
class Redrawn:
    """How often the id, taken for coins, draws the cells again from the record that the device held."""

    attack: str
    again: int
    messages: int
    expected: float
    """Messages for which an unrelated id draws the cells again."""
    chance: float
    """Of so many or more, if ids are unrelated to cells."""

    def __str__(self) -> str:
        return (
            f"{self.attack}: they draw the same cells again for {self.again} of {self.messages} "
            f"messages; unrelated ids do so for {self.expected:.1f}"
        )


@dataclass(frozen=True)
class MessageAudit:
    """What an audit of messages found."""

    findings: tuple[str, ...]
    """Each a sentence; none if all checks passed. Records are named by their number alone."""
    messages: int
    cells: Leak
    """The lower bound on epsilon that cells alone prove."""
    guesses: Guesses
    """The attack that guessed best: from cells alone, or from cells and id together."""
    false_alarm: float

    @property
    def sound(self) -> bool:
        """Whether nothing was found."""
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
    """
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
    guesses, redrawn = [_learned(plan, len(held), sample)], list[Redrawn]()
    if sample.with_id:
        findings += _bit_findings(sample, level)
        findings += _repeat_findings(sample, level)
        more, redrawn = _replay_attacks(plan, held, sample, draw)
        guesses += more
    for attacks in (guesses, redrawn):
        findings += [str(found) for found in attacks if found.chance < level / len(attacks)]
    best = min(guesses, key=lambda found: found.chance)
    return MessageAudit(tuple(findings), len(sample.messages), cells, best, false_alarm)


def example_records(plan: Plan) -> list[Record]:
    """Records that a report tells apart: each has another state, in every view where that can be."""
    names = plan.schema.keys
    records = plan.encoding.telling_records(plan.schema)[: MOST_RECORDS - 1]
    return [{}, *({names[place]: value for place, value in held.items()} for held in records)]


# -- capture ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Sample:
    """Messages, and the number of the record that each was sent for; the first ``known`` are drawn."""

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
        """The first record beside each other one: a half to pick events by, a half to bound them by."""
        found: dict[int, list[Report]] = defaultdict(list)
        for number, message in self.drawn:
            found[number].append(Report("", message.cells))
        for other in range(1, self.known):
            halves = [(found[one][::2], found[one][1::2]) for one in (0, other)]
            if all(half for pair in halves for half in pair):
                yield [(Counter(pick), Counter(bound)) for pick, bound in halves]


def _capture(
    make: Make, plan: Plan, cast: Sequence[tuple[int, object]], known: int
) -> tuple[_Sample, list[str]]:
    """Have every device send its message. A record that makes a device fail is a finding."""
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
    """The text of our own errors, which name no record; of others only the kind."""
    return str(error) if isinstance(error, KeyveilError) else type(error).__name__


# -- exact checks ----------------------------------------------------------------------------------


def _exact_findings(sample: _Sample) -> list[str]:
    """Parts that are not the same in all messages."""
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
        if any(len(found) > 1 for found in texts.values()):
            findings.append("bytes: messages with equal cells differ in more than their id")
    return findings


# -- ids -------------------------------------------------------------------------------------------


def _bit_findings(sample: _Sample, level: float) -> list[str]:
    """Bits of the id that are no fair coins, in all messages or in those of a record or of cells."""
    bits = np.array([np.unpackbits(np.frombuffer(m.id or b"", np.uint8)) for _, m in sample.drawn])
    groups: dict[tuple[str, object], list[int]] = defaultdict(list)
    for row, (number, message) in enumerate(sample.drawn):
        groups["all messages", None].append(row)
        groups["messages of one record", number].append(row)
        groups["messages with equal cells", message.cells].append(row)
        groups["messages of one record with equal cells", (number, message.cells)].append(row)
    tests = bits.shape[1] * len(groups)
    found: Counter[str] = Counter()
    for (name, _), rows in groups.items():
        ones = bits[rows].sum(axis=0)
        fewer = np.minimum(ones, len(rows) - ones)
        chances = 2 * special.bdtr(fewer, len(rows), 0.5)
        found[name] += int((chances < level / tests).sum())
    return [f"id: {count} bits are no fair coins in {name}" for name, count in found.items() if count]


def _repeat_findings(sample: _Sample, level: float) -> list[str]:
    """Ids, or 32-bit words of ids, that occur more often than once by chance."""
    ids = [message.id or b"" for _, message in sample.drawn]
    pieces = {"id: ids repeat": (0, 16)}
    pieces |= {f"id: bytes {at} to {at + 3} repeat": (at, at + 4) for at in range(0, 16, 4)}
    findings = []
    for text, (first, last) in pieces.items():
        repeats = len(ids) - len({one[first:last] for one in ids})
        # The i-th repeats an earlier one with a chance below i / 2^bits, whatever came before.
        mean = len(ids) * (len(ids) - 1) / 2 / 2.0 ** (8 * (last - first))
        most = min(repeats, 100)
        if repeats and mean**most / factorial(most) < level / len(pieces):
            findings.append(f"{text} in {repeats} of {len(ids)} messages")
    return findings


# -- guesses ---------------------------------------------------------------------------------------


def guess_bound(epsilon: float, records: int) -> float:
    """The most that anyone guesses right, of equally likely records, from one report."""
    return exp(epsilon) / (exp(epsilon) + records - 1)


def _judged(plan: Plan, records: int, attack: str, right: int, messages: int) -> Guesses:
    allowed = guess_bound(float(plan.promised), records)
    chance = float(special.bdtrc(right - 1, messages, allowed)) if right else 1.0
    return Guesses(attack, right, messages, allowed, chance)


def _learned(plan: Plan, records: int, sample: _Sample) -> Guesses:
    """Guess from cells alone: the record that they came from most often in the other half."""
    seen: dict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
    for number, message in sample.drawn[::2]:
        seen[message.cells][number] += 1
    tested = sample.drawn[1::2]
    right = sum(
        seen[message.cells].most_common(1)[0][0] == number
        for number, message in tested
        if message.cells in seen
    )
    return _judged(plan, records, "cells alone", right, len(tested))


def _replay_attacks(
    plan: Plan, records: Sequence[Record], sample: _Sample, draw: np.random.Generator
) -> tuple[list[Guesses], list[Redrawn]]:
    """Take ids for words of the coins, in several ways: guess the record, and draw the cells again."""
    truth = np.array([number for number, _ in sample.drawn])
    replay = Replay(plan, records, [message.cells for _, message in sample.drawn], draw)
    guesses, redrawn = [], []
    for kind, ends in (("<u4", "little"), (">u4", "big")):
        ids = np.array([np.frombuffer(message.id or b"", kind) for _, message in sample.drawn])
        ids = ids.astype(np.uint32)
        for offset in range(-3, min(replay.words, MOST_OFFSETS)):
            name = f"cells and id, read as {ends}-endian words {offset} to {offset + 3} of the coins"
            right = int((replay.guessed(ids, offset) == truth).sum())
            guesses.append(_judged(plan, len(records), name, right, len(truth)))
            again, expected = replay.redrawn(truth, ids, offset)
            chance = binomials_tail(int(again.sum()), expected)
            redrawn.append(Redrawn(name, int(again.sum()), len(truth), float(expected.sum()), chance))
    return guesses, redrawn
