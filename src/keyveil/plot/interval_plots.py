"""Values with their intervals, a row each: the form of most pictures."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite, isnan
from typing import Any, Protocol

from .style import BLUE, GREY, ORANGE, Axes, lightly, short


class Interval(Protocol):
    """A value and the ends of its interval, like an ``Estimate``."""

    @property
    def value(self) -> float: ...
    @property
    def low(self) -> float: ...
    @property
    def high(self) -> float: ...


def draw_intervals(
    panel: Axes,
    labels: Sequence[str],
    intervals: Sequence[Interval | None],
    possible: tuple[float, float],
    truth: Sequence[float] | None = None,
    raw: Sequence[Interval | None] = (),
    whole: bool = False,
) -> None:
    """Draw a row for each label: the value, its interval, and what it is compared with.

    The axis stays within what is ``possible``, and shows the ``whole`` of it if asked. A value whose
    interval has no end is drawn hollow, with a
    pale line over the whole axis: the data do not bound it.
    """
    rows = list(range(len(labels)))[::-1]
    left, right = _limits(intervals, possible, truth, whole)
    panel.set_xlim(left, right)
    known = [
        (row, interval) for row, interval in zip(rows, intervals, strict=True) if interval is not None
    ]
    bounded = [
        (row, interval) for row, interval in known if isfinite(interval.low) and isfinite(interval.high)
    ]
    open_ended = [
        (row, interval) for row, interval in known if (interval.low == -inf) or (interval.high == inf)
    ]
    biased = [(row, interval) for row, interval in known if isnan(interval.low)]
    if bounded:
        ends = [row for row, _ in bounded], [e.low for _, e in bounded], [e.high for _, e in bounded]
        panel.hlines(*ends, color=BLUE, lw=2.2, alpha=0.55, label="interval")
    _marks(panel, bounded, "o", BLUE, "estimate")
    if open_ended:
        span = [row for row, _ in open_ended], max(left, -1e300), min(right, 1e300)
        panel.hlines(*span, color=GREY, lw=1.0, ls=":", alpha=0.7, label="unbounded interval")
    _marks(panel, open_ended, "o", GREY, "", mfc="white")
    _marks(panel, biased, "s", BLUE, "estimate without interval")
    _marks(panel, [(r, e) for r, e in zip(rows, raw, strict=False) if e is not None], "|", GREY, "raw")
    if truth is not None:
        panel.plot(truth, rows, "|", color=ORANGE, ms=11, mew=2, label="truth")
    panel.set_yticks(rows, [short(label) for label in labels])
    panel.set_ylim(-0.7, len(labels) - 0.3)
    lightly(panel, "x")


def _marks(
    panel: Axes, points: Sequence[tuple[int, Any]], mark: str, colour: str, label: str, **more: Any
) -> None:
    """One mark for each value that is known."""
    shown = [(interval.value, row) for row, interval in points if isfinite(interval.value)]
    if shown:
        size = 7 if mark == "|" else 4.5
        places, rows = zip(*shown, strict=True)
        panel.plot(places, rows, mark, color=colour, ms=size, ls="", label=label or None, **more)


def _limits(
    intervals: Sequence[Interval | None],
    possible: tuple[float, float],
    truth: Sequence[float] | None,
    whole: bool,
) -> tuple[float, float]:
    """The ends of the axis: around what is drawn, and within what is possible."""
    least, most = possible
    numbers = [n for e in intervals if e is not None for n in (e.value, e.low, e.high)]
    shown = [n for n in (*numbers, *(truth or ())) if isfinite(n)]
    low = min(shown, default=least if isfinite(least) else 0.0)
    high = max(shown, default=most if isfinite(most) else 1.0)
    room = 0.04 * ((high - low) or 1.0)
    if (least == 0.0 and low < 0.5 * high) or (whole and isfinite(least)):
        low = least  # a share or a ratio is read against nothing
    if whole and isfinite(most):
        high = most
    low, high = max(low - room, least), min(high + room, most)
    pad = 0.012 * (high - low)  # a mark at the end of what is possible is not cut off
    return (low - pad, high + pad) if high > low else (low - 0.5, low + 0.5)
