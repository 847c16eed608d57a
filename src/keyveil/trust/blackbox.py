"""A black-box audit: what reports alone prove against a device, without reading its plan or code.

Two records are put to a device many times. Whatever it sends with different frequency for the two
is evidence, and Clopper-Pearson intervals turn it into a lower bound on epsilon that holds at a
stated confidence. A bound above the promise convicts; a bound below it proves nothing. Events are
picked on one half of the sample and bounded on the other, so that only the few that were picked
share the chance of an error. Needs SciPy: ``keyveil[testing]``.

An event is one of: a whole report (the tuple of its cells); one cell marked; one cell not marked; an
output whatever its view (cells relative to the view's own); the number of bytes on the wire. A
ratio *within* a view would be no bound: it may reach twice epsilon unless the view is drawn
independently of the record, which is what is under audit.

Ids, headers and all else that leaves with the cells are audited by ``messageaudit``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import Any

from scipy import special

from ..foundation.errors import PlanError, ReportError
from ..people.schema import Record
from ..plan.report import Report

Sent = Report | str | bytes
"""What a device sends: a report, or its text on the wire."""

Device = Callable[[Any], Sent]

Batch = Mapping[Sent, int]
"""How often each thing was sent."""

PICKED = 8
"""How many events are carried from the first half of the sample to the second."""

Event = tuple[str, Hashable]


@dataclass(frozen=True)
class Leak:
    """The most that was proven: ``epsilon`` is a lower bound on the device's true one."""

    epsilon: float
    event: str
    pair: int
    """Which pair of records shows it, counted from 0; the records themselves are not repeated."""
    confidence: float
    seen: tuple[int, int]
    """How often the event occurred for the record it speaks for, and for the other."""
    draws: tuple[int, int]

    def __str__(self) -> str:
        return (
            f"epsilon is at least {self.epsilon:.4f} (confidence {self.confidence}): {self.event} in "
            f"{self.seen[0]} of {self.draws[0]} against {self.seen[1]} of {self.draws[1]} reports, "
            f"pair {self.pair}"
        )


def audit_device(
    device: Device,
    pairs: Sequence[tuple[Record, Record]],
    draws: int,
    confidence: float = 0.999,
) -> Leak:
    """The best lower bound from ``draws`` reports for each record of each pair."""
    half = draws // 2

    def put(record: Record, count: int) -> Counter[Sent]:
        return Counter(device(record) for _ in range(count))

    def halves(record: Record) -> tuple[Batch, Batch]:
        return put(record, half), put(record, draws - half)

    return audit_batches([(halves(one), halves(two)) for one, two in pairs], confidence)


def audit_batches(pairs: Iterable[Sequence[tuple[Batch, Batch]]], confidence: float = 0.999) -> Leak:
    """The same for reports already drawn: of each record a batch to pick by and one to bound by."""
    listed = [tuple((_events(pick), _events(bound)) for pick, bound in pair) for pair in pairs]
    if not 0 < confidence < 1:
        raise PlanError("a confidence lies between 0 and 1, like 0.999")
    # Two one-sided bounds for every picked event share the chance of an error.
    alpha = (1 - confidence) / (2 * PICKED)
    found = []
    for number, (one, two) in enumerate(listed):
        for likely, other in ((one, two), (two, one)):
            rows = _most_telling(likely[0], other[0], alpha)
            found += [(value, number, event, likely[1], other[1]) for value, event in rows]
    found.sort(key=lambda row: -row[0])
    best = Leak(0.0, "nothing", 0, confidence, (0, 0), (0, 0))
    for _, number, event, told, against in found[:PICKED]:
        value = _bound(event, told, against, alpha)
        if value > best.epsilon:
            seen, draws = (told.count(event), against.count(event)), (told.draws, against.draws)
            best = Leak(value, _NAMES[event[0]].format(event[1]), number, confidence, seen, draws)
    return best


_NAMES = {
    "report": "the report {}",
    "marked": "cell {} marked",
    "unmarked": "cell {} not marked",
    "output": "the output {} of any view",
    "length": "a report of {} bytes",
}


@dataclass(frozen=True)
class _Events:
    """How often each event occurred in a batch."""

    counts: Counter[Event]
    draws: int

    def count(self, event: Event) -> int:
        kind, what = event
        if kind == "unmarked":  # counted by what it is not, also where the cell was never marked
            return self.draws - self.counts["marked", what]
        return self.counts[event]


def _events(batch: Batch) -> _Events:
    counts: Counter[Event] = Counter()
    for sent, times in batch.items():
        cells, length = _read(sent)
        counts["report", cells] += times
        counts["output", tuple(cell - cells[0] for cell in cells[1:])] += times
        counts["length", length] += times
        for cell in set(cells):
            counts["marked", cell] += times
    return _Events(counts, sum(batch.values()))


def _read(sent: Sent) -> tuple[tuple[int, ...], int]:
    """The cells of a report, and how many bytes it has; other members are not judged."""
    if isinstance(sent, Report):
        return sent.cells, len(sent.dumps().encode())
    raw = sent.encode() if isinstance(sent, str) else sent
    try:
        cells = tuple(int(cell) for cell in json.loads(raw)["cells"])
    except (ValueError, TypeError, KeyError):
        raise ReportError("a device sends JSON text with the cells that it marks") from None
    if not cells:
        raise ReportError("a report marks at least its view's own cell")
    return cells, len(raw)


def _most_telling(likely: _Events, other: _Events, alpha: float) -> list[tuple[float, Event]]:
    """The events of one ordered pair of records with the highest bounds."""
    events = set(likely.counts) | set(other.counts)
    events |= {("unmarked", what) for kind, what in events if kind == "marked"}
    rows = [(_bound(event, likely, other, alpha), event) for event in events]
    rows.sort(key=lambda row: (-row[0], repr(row[1])))
    return rows[:PICKED]


def _bound(event: Event, likely: _Events, other: _Events, alpha: float) -> float:
    """ln of the least that Clopper and Pearson allow for one record, over the most for the other."""
    seen, against = likely.count(event), other.count(event)
    if seen == 0 or against == other.draws:
        return 0.0
    least = float(special.betaincinv(seen, likely.draws - seen + 1, alpha))
    most = float(special.betainccinv(against + 1, other.draws - against, alpha))
    return max(log(least / most), 0.0)
