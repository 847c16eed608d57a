"""Metrics for the operator, as Prometheus reads them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping

SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
SIZES = (1, 4, 16, 64, 256, 1024, 4096, 16384)


class Histogram:
    """How often a value fell below each of some bounds."""

    def __init__(self, name: str, what: str, bounds: tuple[float, ...]) -> None:
        self.name, self.what, self.bounds = name, what, bounds
        self.buckets = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        """One more value."""
        self.buckets[bisect_left(self.bounds, value)] += 1
        self.total += value

    def lines(self) -> list[str]:
        """As Prometheus reads it."""
        out = [f"# HELP {self.name} {self.what}", f"# TYPE {self.name} histogram"]
        below = 0
        for bound, seen in zip((*map(str, self.bounds), "+Inf"), self.buckets, strict=True):
            below += seen
            out.append(f'{self.name}_bucket{{le="{bound}"}} {below}')
        return [*out, f"{self.name}_sum {self.total:.6f}", f"{self.name}_count {below}"]


class Refusals:
    """Reports (or requests that carry none) refused, by collection and reason."""

    def __init__(self) -> None:
        self.refused: dict[tuple[str, str], int] = {}

    def refuse(self, collection: str, reason: str, number: int) -> None:
        """Reports or requests refused."""
        key = (collection, reason)
        self.refused[key] = self.refused.get(key, 0) + number

    def refusals(self) -> list[str]:
        """As Prometheus reads them."""
        rows = {
            f'collection="{name}",reason="{reason}"': number
            for (name, reason), number in sorted(self.refused.items())
        }
        return family("refused_total", "Reports or requests refused.", rows, "counter")


class Metrics(Refusals):
    """Counters of one collector process, since it began."""

    def __init__(self) -> None:
        super().__init__()
        self.accepted: dict[str, int] = {}
        """Reports acknowledged by collection, repetitions included."""
        self.changed: dict[str, int] = {}
        """Of those, repetitions with other cells than the report that was counted."""
        self.commits = Histogram("keyveil_commit_seconds", "Time to make a group durable.", SECONDS)
        self.groups = Histogram("keyveil_group_reports", "Reports in one transaction.", SIZES)
        self.requests = Histogram("keyveil_group_requests", "Requests in one transaction.", SIZES)
        self.estimates = Histogram("keyveil_estimate_seconds", "Time to make an answer.", SECONDS)

    def accept(self, collection: str, number: int) -> None:
        """Reports acknowledged."""
        self.accepted[collection] = self.accepted.get(collection, 0) + number

    def change(self, collection: str, number: int) -> None:
        """Reports acknowledged whose id stands for another report, which was counted."""
        self.changed[collection] = self.changed.get(collection, 0) + number

    def committed(self, requests: int, reports: int, seconds: float) -> None:
        """A transaction is durable."""
        self.commits.add(seconds)
        self.groups.add(reports)
        self.requests.add(requests)

    def text(
        self, gauges: Mapping[str, tuple[str, float]], reports: Mapping[tuple[str, int], int]
    ) -> str:
        """Everything, with gauges by name (what they are, their value) and reports per round."""
        accepted, changed = (
            {f'collection="{name}"': number for name, number in sorted(found.items())}
            for found in (self.accepted, self.changed)
        )
        counted = {
            f'collection="{name}",round="{number}"': found
            for (name, number), found in sorted(reports.items())
        }
        out = [
            *family("acknowledged_total", "Reports acknowledged.", accepted, "counter"),
            *family(
                "changed_total",
                "Reports sent again soon after, with other cells: the first stands.",
                changed,
                "counter",
            ),
            *self.refusals(),
            *family("reports", "Reports counted.", counted),
        ]
        for name, (what, value) in gauges.items():
            out += family(name, what, {"": value})
        for histogram in (self.commits, self.groups, self.requests, self.estimates):
            out += histogram.lines()
        return "\n".join(out) + "\n"


class RelayMetrics(Refusals):
    """Counters of one relay, since it began. Crowds are told of whole, never while they gather."""

    def __init__(self) -> None:
        super().__init__()
        self.forwarded: dict[str, int] = {}
        """Reports that the collector has acknowledged, by collection."""
        self.lonely: dict[str, int] = {}
        """Reports that found too few others before their epoch was over."""
        self.crowds = Histogram("keyveil_relay_crowd_reports", "Reports that left together.", SIZES)

    def text(self, gauges: Mapping[str, tuple[str, float]]) -> str:
        """Everything, with gauges by name (what they are, their value)."""
        out = self.refusals()
        for name, what, found in (
            ("forwarded_total", "Reports that the collector has.", self.forwarded),
            ("lonely_total", "Reports that found too few others.", self.lonely),
        ):
            rows = {f'collection="{one}"': number for one, number in sorted(found.items())}
            out += family(f"relay_{name}", what, rows, "counter")
        for name, (what, value) in gauges.items():
            out += family(f"relay_{name}", what, {"": value})
        return "\n".join([*out, *self.crowds.lines()]) + "\n"


def family(
    name: str, what: str, rows: Mapping[str, int] | Mapping[str, float], kind: str = "gauge"
) -> list[str]:
    """One metric as Prometheus reads it: a row for each set of labels."""
    return [
        f"# HELP keyveil_{name} {what}",
        f"# TYPE keyveil_{name} {kind}",
        *(
            f"keyveil_{name}{{{labels}}} {int(value)}" if labels else f"keyveil_{name} {value:g}"
            for labels, value in rows.items()
        ),
    ]
