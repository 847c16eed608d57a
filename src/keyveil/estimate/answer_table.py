"""The answers of keys as columns of a frame, and as a small table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..foundation.result_table import ResultTable, figure, interval_cell

if TYPE_CHECKING:
    from .answer import Estimate, KeyAnswer

PARTS = ("frequency", "mean", "mass")
"""The statistics of a key."""


def key_columns(answers: Sequence[KeyAnswer]) -> dict[str, list[Any]]:
    """A row for each answer."""
    columns: dict[str, list[Any]] = {"key": [answer.key for answer in answers]}
    for part in PARTS:
        estimates = [getattr(answer, part) for answer in answers]
        if all(estimate is None for estimate in estimates):
            continue
        columns |= {
            part: [None if e is None else e.value for e in estimates],
            f"{part}_stderr": [None if e is None else e.stderr for e in estimates],
            f"{part}_low": [None if e is None else e.low for e in estimates],
            f"{part}_high": [None if e is None else e.high for e in estimates],
        }
        raw = [getattr(a.raw, part) if a.raw is not None else getattr(a, part) for a in answers]
        columns[f"{part}_raw"] = [None if e is None else e.value for e in raw]
    known = [a.frequency or a.mean or a.mass for a in answers]
    reports = [None if e is None else e.reports for e in known]
    return {**columns, "reports": reports, "estimator": [answer.estimator for answer in answers]}


def key_table(answers: Sequence[KeyAnswer], interval: str) -> ResultTable:
    """Values and intervals, a row for each answer."""
    parts = [p for p in PARTS if any(getattr(answer, p) is not None for answer in answers)]
    headings = ["key", *(word for part in parts for word in (part, interval))]
    rows = []
    for answer in answers:
        cells = [answer.key]
        for part in parts:
            estimate: Estimate | None = getattr(answer, part)
            if estimate is None:
                cells += ["", ""]
            else:
                cells += [figure(estimate.value), interval_cell(estimate.low, estimate.high)]
        rows.append(tuple(cells))
    return ResultTable(tuple(headings), tuple(rows))
