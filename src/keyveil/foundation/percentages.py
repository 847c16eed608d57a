"""Shares as percentages, for people."""

from __future__ import annotations


def percent(share: float, digits: int = 3) -> str:
    """A share in percent: "0.4 %"."""
    return f"{100 * share:.{digits}g} %"
