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


class Metrics:
    """Counters of one process, since it began."""

    def __init__(self) -> None:
        self.accepted: dict[str, int] = {}
        """Reports acknowledged by collection, repetitions included."""
        self.refused: dict[tuple[str, str], int] = {}
        """Reports (or requests that carry none) refused, by collection and reason."""
        self.commits = Histogram("keyveil_commit_seconds", "Time to make a group durable.", SECONDS)
        self.groups = Histogram("keyveil_group_reports", "Reports in one transaction.", SIZES)
        self.requests = Histogram("keyveil_group_requests", "Requests in one transaction.", SIZES)
        self.estimates = Histogram("keyveil_estimate_seconds", "Time to make an answer.", SECONDS)

    def accept(self, collection: str, number: int) -> None:
        """Reports acknowledged."""
        self.accepted[collection] = self.accepted.get(collection, 0) + number

    def refuse(self, collection: str, reason: str, number: int) -> None:
        """Reports or requests refused."""
        key = (collection, reason)
        self.refused[key] = self.refused.get(key, 0) + number

    def committed(self, requests: int, reports: int, seconds: float) -> None:
        """A transaction is durable."""
        self.commits.add(seconds)
        self.groups.add(reports)
        self.requests.add(requests)

    def text(
        self, gauges: Mapping[str, tuple[str, float]], reports: Mapping[tuple[str, int], int]
    ) -> str:
        """Everything, with gauges by name (what they are, their value) and reports per round."""
        out = ["# HELP keyveil_acknowledged_total Reports acknowledged.", _type("acknowledged_total")]
        for name, number in sorted(self.accepted.items()):
            out.append(f'keyveil_acknowledged_total{{collection="{name}"}} {number}')
        out += ["# HELP keyveil_refused_total Reports or requests refused.", _type("refused_total")]
        for (name, reason), number in sorted(self.refused.items()):
            out.append(f'keyveil_refused_total{{collection="{name}",reason="{reason}"}} {number}')
        out += ["# HELP keyveil_reports Reports counted.", "# TYPE keyveil_reports gauge"]
        for (name, round_), number in sorted(reports.items()):
            out.append(f'keyveil_reports{{collection="{name}",round="{round_}"}} {number}')
        for name, (what, value) in gauges.items():
            out += [f"# HELP keyveil_{name} {what}", f"# TYPE keyveil_{name} gauge"]
            out.append(f"keyveil_{name} {value:g}")
        for histogram in (self.commits, self.groups, self.requests, self.estimates):
            out += histogram.lines()
        return "\n".join(out) + "\n"


def _type(name: str) -> str:
    return f"# TYPE keyveil_{name} counter"
