"""Report: the tally cells that one device marks; and a batch of them, packed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..foundation.arrays import Bits, Integers
from ..foundation.errors import ReportError

FORMAT = "keyveil/report/1"


@dataclass(frozen=True)
class Report:
    """What a device sends: the plan's hash and the cells it marks, its view's own cell first."""

    plan: str
    cells: tuple[int, ...]
    id: str | None = None
    """Sixteen random bytes in hexadecimal, drawn once; sending again under it is harmless."""

    def dumps(self) -> str:
        """The wire format of one report."""
        body: dict[str, Any] = {"format": FORMAT, "plan": self.plan, "cells": list(self.cells)}
        if self.id is not None:
            body["id"] = self.id
        return json.dumps(body, sort_keys=True, separators=(",", ":"))

    @classmethod
    def parse(cls, text: str | bytes) -> Report:
        """A report from the wire. Whether its plan admits it is checked by ``Packing``."""
        body = json_object(text)
        if body is None:
            raise ReportError("a report is a JSON object that has each member once")
        if body.get("format") != FORMAT:
            raise ReportError(f"a report has the format {FORMAT!r}")
        if set(body) - {"format", "plan", "cells", "id"}:
            raise ReportError("a report has only format, plan, cells and id")
        plan, cells, name = body.get("plan"), body.get("cells"), body.get("id")
        if not is_hex(plan, 64):
            raise ReportError("a report names its plan by 64 hexadecimal digits")
        if (
            not isinstance(cells, list)
            or not cells
            or any(isinstance(c, bool) or not isinstance(c, int) or c < 0 for c in cells)
        ):
            raise ReportError("a report's cells are whole numbers, the view's own cell first")
        if name is not None and not is_hex(name, 32):
            raise ReportError("a report's id has 32 hexadecimal digits")
        return cls(str(plan), tuple(cells), name)


@dataclass(frozen=True)
class Reports:
    """A batch of one plan's reports: a code each, or packed bits if reports mark many cells."""

    plan: str
    codes: np.ndarray | None = None
    views: Integers | None = None
    bits: Bits | None = None

    def __repr__(self) -> str:
        return f"Reports({len(self):,} of plan {self.plan[:12]})"

    def __len__(self) -> int:
        if self.codes is not None:
            return len(self.codes)
        return 0 if self.views is None else len(self.views)

    def __getitem__(self, rows: slice) -> Reports:
        """Some of the reports, as a batch."""
        if self.codes is not None:
            return Reports(self.plan, codes=self.codes[rows])
        assert self.views is not None
        assert self.bits is not None
        return Reports(self.plan, views=self.views[rows], bits=self.bits[rows])


def is_hex(value: object, digits: int) -> bool:
    """Whether a value is a string of ``digits`` lower-case hexadecimal digits."""
    return (
        isinstance(value, str) and len(value) == digits and all(c in "0123456789abcdef" for c in value)
    )


def check_plan_name(name: object, plan: str, belongs: str) -> None:
    """Refuse what names its plan by anything but ``plan``, the plan's hash.

    ``belongs`` begins the message, such as "the tally belongs".
    """
    if not is_hex(name, 64):
        raise ReportError(
            f"{belongs} to no known plan: 'plan' must be a hash of 64 lower-case hexadecimal digits"
        )
    if name != plan:
        raise other_plan(belongs, str(name), plan)


def other_plan(belongs: str, name: str, plan: str) -> ReportError:
    """The error for what belongs to the plan with the hash ``name``, and not to ``plan``."""
    return ReportError(f"{belongs} to another plan ({name[:12]}, not {plan[:12]})")


def json_object(text: str | bytes) -> dict[str, Any] | None:
    """The JSON object of a text; None if it is not one, or has a member twice."""
    try:
        body = json.loads(text, object_pairs_hook=_each_once)
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


def same_json(document: object, other: object) -> bool:
    """Whether two documents have the same JSON text: 1 is neither 1.0 nor true."""
    return json.dumps(document, sort_keys=True) == json.dumps(other, sort_keys=True)


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError
    return members
