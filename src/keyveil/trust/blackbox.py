"""A black-box audit: what reports alone prove against a device, without its plan or code.

A device reports two records many times. An event with different frequencies for the two records is
evidence, and Clopper-Pearson intervals turn it into a lower bound on epsilon with a stated confidence. A
bound above the promise proves that the device breaks it; a bound below proves nothing. Events are picked
on one half of the sample and bounded on the other half, so only the picked events share the error
probability. Needs SciPy: ``keyveil[testing]``.

An event is one of: a whole report (the tuple of its cells); one cell marked; one cell not marked; an
output of any view (cells relative to the view's own cell); the number of bytes on the wire. A ratio
*within* a view is not a bound. It may reach twice epsilon unless the view is drawn independently of the
record, and the audit must not assume that.

``message_audit`` audits ids, headers and everything else that leaves with the cells.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import Any

from ..foundation.errors import PlanError, ReportError
from ..foundation.scipy_library import scipy
from ..people.schema import Record
from ..plan.report import Report

Sent = Report | str | bytes
"""What a device sends: a report, or its text on the wire."""

Device = Callable[[Any], Sent]

Batch = Mapping[Sent, int]
"""The number of times that each report was sent."""

PICKED = 8
"""Number of events that are picked on the first half of the sample."""

Event = tuple[str, Hashable]


@dataclass(frozen=True)
class Leak:
    """The best bound of an audit: ``epsilon`` is a lower bound on the device's true epsilon."""

    epsilon: float
    event: str
    pair: int
    """Number of the pair of records that shows it, from 0. The records themselves are not stored."""
    confidence: float
    seen: tuple[int, int]
    """Counts of the event for the record that makes it likelier, and for the other."""
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
    """The best lower bound on epsilon from ``draws`` reports for each record of each pair."""
    scipy("special", "audit_device")

    def halves(record: Record) -> tuple[Batch, Batch]:
        counts = draws // 2, draws - draws // 2
        pick, bound = (Counter(device(record) for _ in range(count)) for count in counts)
        return pick, bound

    return audit_batches([(halves(first), halves(second)) for first, second in pairs], confidence)


def audit_batches(pairs: Iterable[Sequence[tuple[Batch, Batch]]], confidence: float = 0.999) -> Leak:
    """The best lower bound from drawn reports: per record a batch to pick events, and one to bound."""
    event_pairs = [tuple((_events(pick), _events(bound)) for pick, bound in pair) for pair in pairs]
    if not 0 < confidence < 1:
        raise PlanError("a confidence lies between 0 and 1, like 0.999")
    # Two one-sided bounds for every picked event share the chance of an error.
    alpha = (1 - confidence) / (2 * PICKED)
    bounds = []
    for number, (first, second) in enumerate(event_pairs):
        for likely, other in ((first, second), (second, first)):
            rows = _most_telling(likely[0], other[0], alpha)
            bounds += [(value, number, event, likely[1], other[1]) for value, event in rows]
    bounds.sort(key=lambda row: -row[0])
    best = Leak(0.0, "nothing", 0, confidence, (0, 0), (0, 0))
    for _, number, event, likely_events, against in bounds[:PICKED]:
        value = _bound(event, likely_events, against, alpha)
        if value > best.epsilon:
            seen = likely_events.count(event), against.count(event)
            name, draws = _NAMES[event[0]].format(event[1]), (likely_events.draws, against.draws)
            best = Leak(value, name, number, confidence, seen, draws)
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
        if kind == "unmarked":  # the complement, also for cells that were never marked
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
    """The cells of a report and its number of bytes; other members are ignored."""
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
    """The lower bound on epsilon from one event: ln of the ratio of two Clopper-Pearson limits."""
    seen, against = likely.count(event), other.count(event)
    if seen == 0 or against == other.draws:
        return 0.0
    special = scipy("special", "an audit of reports")
    least = float(special.betaincinv(seen, likely.draws - seen + 1, alpha))
    most = float(special.betainccinv(against + 1, other.draws - against, alpha))
    return max(log(least / most), 0.0)
