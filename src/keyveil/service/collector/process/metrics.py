"""Metrics for operators in the Prometheus text format."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache, partial

from .request_metrics import RequestMetrics

SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
SIZES = (1, 4, 16, 64, 256, 1024, 4096, 16384)


Gauges = Mapping[str, tuple[str, float | Mapping[str, float]]]
"""Metrics by name: what each is, and its value, or its values by labels."""
CHANGED = "Reports sent again soon after, with other cells: the first stands."


class Histogram:
    """A histogram: how many values fell below each bound."""

    def __init__(self, name: str, what: str, bounds: tuple[float, ...]) -> None:
        self.name, self.what, self.bounds = name, what, bounds
        self.buckets = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        """Count one value."""
        self.buckets[bisect_left(self.bounds, value)] += 1
        self.total += value

    def lines(self) -> list[str]:
        """The lines of the Prometheus text format."""
        out = [f"# HELP {self.name} {self.what}", f"# TYPE {self.name} histogram"]
        below = 0
        for bound, seen in zip((*map(str, self.bounds), "+Inf"), self.buckets, strict=True):
            below += seen
            out.append(f'{self.name}_bucket{{le="{bound}"}} {below}')
        return [*out, f"{self.name}_sum {self.total:.6f}", f"{self.name}_count {below}"]


class Refusals:
    """Counters of refused reports, or of refused requests that carry none, by collection and reason."""

    def __init__(self) -> None:
        self.refused: Counter[tuple[str, str]] = Counter()
        self.requests: RequestMetrics | None = None
        """How long requests took and how they ended; None for a relay, whose crowds must not be counted
        while they gather."""

    def refuse(self, collection: str, reason: str, number: int) -> None:
        """Count refused reports or requests."""
        self.refused[collection, reason] += number

    def refusals(self) -> list[str]:
        """The lines of the Prometheus text format."""
        rows = {
            f'collection="{name}",reason="{reason}"': number
            for (name, reason), number in sorted(self.refused.items())
        }
        return family("refused_total", "Reports or requests refused.", rows, "counter")

    @staticmethod
    def by_collection(name: str, what: str, counter: Counter[str]) -> list[str]:
        """The lines of a counter by collection."""
        rows = {f'collection="{label}"': number for label, number in sorted(counter.items())}
        return family(name, what, rows, "counter")


class Metrics(Refusals):
    """Counters of one collector process since its start."""

    def __init__(self) -> None:
        super().__init__()
        self.requests = RequestMetrics()
        self.accepted: Counter[str] = Counter()
        """Reports acknowledged, by collection; repeated reports included."""
        self.changed: Counter[str] = Counter()
        """Repeated reports whose cells differ from the first, which stays counted, by collection."""
        self.store_errors: Counter[str] = Counter()
        """Errors of the store, by SQLSTATE or, without one, by a word."""
        self.outages = self.reconnects = self.seal_errors = self.epochs_closed = 0
        self.commits = Histogram("keyveil_commit_seconds", "Time to make a group durable.", SECONDS)
        self.lock_waits = Histogram("keyveil_lock_wait_seconds", "Time to begin a transaction.", SECONDS)
        self.groups = Histogram("keyveil_group_reports", "Reports in one transaction.", SIZES)
        self.group_requests = Histogram("keyveil_group_requests", "Requests in one transaction.", SIZES)
        self.estimates = Histogram("keyveil_estimate_seconds", "Time to make an answer.", SECONDS)

    def committed(self, requests: int, reports: int, seconds: float) -> None:
        """Count a durable transaction."""
        self.commits.add(seconds)
        self.groups.add(reports)
        self.group_requests.add(requests)

    def text(self, gauges: Gauges, reports: Mapping[tuple[str, int], int]) -> str:
        """All metrics as text.

        ``gauges`` maps a name to its description and value, or values by label, ``reports``
        (collection, round) to the number of reports.
        """
        counted = {
            f'collection="{name}",round="{round_}"': number
            for (name, round_), number in sorted(reports.items())
        }
        out = [
            *self.by_collection("acknowledged_total", "Reports acknowledged.", self.accepted),
            *self.by_collection("changed_total", CHANGED, self.changed),
            *self.refusals(),
            *family("reports", "Reports counted.", counted),
            *family(
                "store_errors_total",
                "Errors of the store, by SQLSTATE or a word.",
                {f'kind="{kind}"': number for kind, number in sorted(self.store_errors.items())},
                "counter",
            ),
        ]
        for name, what, value in (
            ("outages_total", "Times that the store could not be written.", self.outages),
            ("reconnects_total", "Lost connections to the database opened again.", self.reconnects),
            ("epochs_closed_total", "Epochs that this process closed.", self.epochs_closed),
            ("seal_errors_total", "Attempts to seal that failed and are repeated.", self.seal_errors),
        ):
            out += family(name, what, {"": value}, "counter")
        for name, (what, given) in gauges.items():
            out += family(name, what, given if isinstance(given, Mapping) else {"": given})
        histograms = (self.commits, self.lock_waits, self.groups, self.group_requests, self.estimates)
        for histogram in histograms:
            out += histogram.lines()
        if self.requests is not None:
            out += self.requests.lines()
        return "\n".join(out) + "\n"


class RelayMetrics(Refusals):
    """Counters of one relay since its start.

    A crowd is counted when it has left, never while it gathers.
    """

    def __init__(self) -> None:
        super().__init__()
        self.forwarded: Counter[str] = Counter()
        """Reports that the collector has acknowledged, by collection."""
        self.lonely: Counter[str] = Counter()
        """Reports that found too few others before their epoch ended, by collection."""
        self.crowds = Histogram("keyveil_relay_crowd_reports", "Reports that left together.", SIZES)

    def text(self, gauges: Mapping[str, tuple[str, float]]) -> str:
        """All metrics as text. ``gauges`` maps a name to its description and value."""
        out = self.refusals()
        out += self.by_collection(
            "relay_forwarded_total", "Reports that the collector has.", self.forwarded
        )
        out += self.by_collection(
            "relay_lonely_total", "Reports that found too few others.", self.lonely
        )
        for name, (what, value) in gauges.items():
            out += family(f"relay_{name}", what, {"": value})
        return "\n".join([*out, *self.crowds.lines()]) + "\n"


@cache
def _process_writer() -> Callable[[], bytes]:
    from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest

    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    return partial(generate_latest, registry)


def process_text() -> str:
    """Processor time, memory, open files and start of this process, as text."""
    return _process_writer()().decode()


def family(
    name: str, what: str, rows: Mapping[str, int] | Mapping[str, float], kind: str = "gauge"
) -> list[str]:
    """The lines of one metric, one per set of labels."""
    return [
        f"# HELP keyveil_{name} {what}",
        f"# TYPE keyveil_{name} {kind}",
        *(
            f"keyveil_{name}{{{labels}}} {int(value)}" if labels else f"keyveil_{name} {value:.12g}"
            for labels, value in rows.items()
        ),
    ]
