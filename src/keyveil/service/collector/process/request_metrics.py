"""How long requests take and how they end, by route."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
DURATION = "keyveil_request_seconds"
STATUS = "keyveil_requests_total"


class RequestMetrics:
    """Counters of requests since the start. A route is its pattern, never a path that someone sent."""

    def __init__(self) -> None:
        self._buckets: dict[tuple[str, str], list[int]] = {}
        self._seconds: dict[tuple[str, str], float] = {}
        self._statuses: Counter[tuple[str, str, int]] = Counter()

    def add(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count one request, with the time until its response began."""
        at = route, method
        buckets = self._buckets.get(at)
        if buckets is None:
            buckets = self._buckets[at] = [0] * (len(BOUNDS) + 1)
            self._seconds[at] = 0.0
        buckets[bisect_left(BOUNDS, seconds)] += 1
        self._seconds[at] += seconds
        self._statuses[route, method, status] += 1

    def lines(self) -> list[str]:
        """The lines of the Prometheus text format."""
        out = [f"# HELP {DURATION} Time until a response began.", f"# TYPE {DURATION} histogram"]
        for (route, method), buckets in sorted(self._buckets.items()):
            labels, below = f'route="{route}",method="{method}"', 0
            for bound, seen in zip((*map(str, BOUNDS), "+Inf"), buckets, strict=True):
                below += seen
                out.append(f'{DURATION}_bucket{{{labels},le="{bound}"}} {below}')
            out.append(f"{DURATION}_sum{{{labels}}} {self._seconds[route, method]:.6f}")
            out.append(f"{DURATION}_count{{{labels}}} {below}")
        out += [f"# HELP {STATUS} Requests answered.", f"# TYPE {STATUS} counter"]
        out += [
            f'{STATUS}{{route="{route}",method="{method}",status="{status}"}} {number}'
            for (route, method, status), number in sorted(self._statuses.items())
        ]
        return out
