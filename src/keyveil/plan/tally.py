"""Tally: how often each cell was marked. Tallies add up, so any engine that sums can make one."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..foundation.arrays import Integers
from ..foundation.errors import KeyveilError, ReportError
from ..foundation.exact import text
from ..foundation.files import named, named_content, write_whole
from .front_door import TallyDoor
from .report import Report, Reports, check_plan_name, json_object, other_plan, same_json

if TYPE_CHECKING:
    from .plan import Plan

MAGIC = b"KVTALLY2"
EARLIER = b"KVTALLY1"
"""The first bytes of an earlier form, whose check sum left out the plan; only stores read it."""
MOST_REPORTS = 1 << 53
"""The largest number of reports in a tally: a double holds it exactly, and no sum overflows."""
SPARSE_ABOVE = 1 << 16
"""Tallies with more cells are written as pairs of cell and count."""
BROKEN = "the tally is broken or cut short; make it again from its reports"


class Tally(TallyDoor):
    """Counts per cell of one plan. ``add`` reports and batches; ``+`` joins tallies.

    ``counts`` are those to begin with. ``estimate`` answers for every key, and ``query`` answers one or
    more queries. Both take the name of an ``estimator``, by default ``best``, and the ``level`` of the
    intervals.
    """

    def __init__(self, plan: Plan, counts: Integers | None = None) -> None:
        if not hasattr(plan, "layout"):
            raise ReportError("a tally counts the reports of a Plan: Tally(plan)")
        self.plan = plan
        self.counts = np.zeros(plan.layout.cells, np.int64) if counts is None else counts
        self.frame_library = None if plan.schema.frame is None else plan.schema.frame.library

    @property
    def reports(self) -> int:
        """How many reports were added."""
        return total_of(self.counts[self.plan.layout.own])

    @property
    def origin(self) -> str:
        """What answers from this tally rest on, for titles: "60,000 reports at epsilon 2, pairs"."""
        reports = f"{self.reports:,} report{'' if self.reports == 1 else 's'}"
        return f"{reports} at epsilon {text(self.plan.promised)}, {self.plan.mechanism_name}"

    def belongs_to(self, plan: Plan) -> None:
        """Refuse a tally of another plan."""
        if self.plan.hash != plan.hash:
            raise other_plan("the tally belongs", self.plan.hash, plan.hash)

    def add(self, report: Report | Reports | Iterable[Report | Reports]) -> Tally:
        """Count a report, a batch, or a list of them; refused whole if one report is impossible."""
        if isinstance(report, Tally):
            raise ReportError("tallies join with +, as in tally + other; add counts reports")
        if isinstance(report, Reports):
            check_plan_name(report.plan, self.plan.hash, "the reports belong")
            check_total(self.reports + len(report))
            self.plan.packing.count(report, self.counts)
        elif isinstance(report, Report):
            self.plan.packing.check(report)
            check_total(self.reports + 1)
            self.counts[list(report.cells)] += 1
        else:
            self._add_all(report)
        return self

    def _add_all(self, reports: Iterable[Report | Reports]) -> None:
        """Count every one of several reports and batches, or none."""
        if isinstance(reports, str | bytes | Mapping) or not isinstance(reports, Iterable):
            raise ReportError("add takes a report, a batch of reports, or a list of them")
        together = Tally(self.plan)
        for report in reports:
            if not isinstance(report, Report | Reports):
                raise ReportError("a list of reports holds reports and batches of them alone")
            together.add(report)
        self.counts += together.counts

    def __add__(self, other: Tally) -> Tally:
        if not isinstance(other, Tally):
            return NotImplemented
        other.belongs_to(self.plan)
        check_total(self.reports + other.reports)
        joined = Tally(self.plan, self.counts + other.counts)
        joined.frame_library = self.frame_library
        return joined

    def __radd__(self, other: object) -> Tally:
        """``sum(tallies)`` begins with 0."""
        return self + Tally(self.plan) if isinstance(other, int) and other == 0 else NotImplemented

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Tally)
            and self.plan.hash == other.plan.hash
            and np.array_equal(self.counts, other.counts)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Tally({self.plan!r}, {self.reports} reports)"

    __str__ = __repr__

    def view_counts(self, view: int) -> tuple[int, Integers]:
        """Reports of a view, and the counts of its channel's cells."""
        own, size = int(self.plan.layout.own[view]), int(self.plan.layout.sizes[view])
        return int(self.counts[own]), self.counts[own + 1 : own + 1 + size]

    # -- files -----------------------------------------------------------------------------------

    def dumps(self) -> bytes:
        """The tally as bytes: a header, then counts, compressed; pairs if cells are many."""
        sparse = len(self.counts) > SPARSE_ABOVE
        if sparse:
            cells = np.flatnonzero(self.counts)
            body = cells.astype("<i8").tobytes() + self.counts[cells].astype("<i8").tobytes()
        else:
            body = self.counts.astype("<i8").tobytes()
        text = json.dumps(self._header(body, sparse), sort_keys=True, separators=(",", ":")).encode()
        return MAGIC + len(text).to_bytes(4, "little") + text + zlib.compress(body)

    def _header(self, body: bytes, sparse: bool, named: bool = True) -> dict[str, int | str]:
        """The header of the file; its check sum is over the plan's hash and then the body."""
        return {
            "plan": self.plan.hash,
            "cells": len(self.counts),
            "reports": self.reports,
            "sparse": sparse,
            "crc": zlib.crc32(body, zlib.crc32(self.plan.hash.encode()) if named else 0),
        }

    @classmethod
    def parse(cls, plan: Plan, content: bytes, *, stored: bool = False) -> Tally:
        """A tally of ``plan`` from bytes, refused if broken or of another plan.

        Every member of the header must be the one that these counts give. A tally that was ``stored``
        by a collector may have an earlier form.
        """
        start = content[: len(MAGIC)]
        if start == EARLIER and not stored:
            raise ReportError(
                "the tally is of an earlier version, whose check sum left out the plan; make it again "
                "from its reports with 'keyveil tally'"
            )
        if start not in (MAGIC, EARLIER):
            raise ReportError("this is not a tally; make one with 'keyveil tally'")
        size = int.from_bytes(content[8:12], "little")
        header = json_object(content[12 : 12 + size])
        if header is None:
            raise ReportError(BROKEN)
        check_plan_name(header.get("plan"), plan.hash, "the tally belongs")
        sparse, cells = header.get("sparse") is True, plan.layout.cells
        body = _unpacked(content[12 + size :], 16 * cells)
        tally = cls(plan, _counts(body, cells, sparse))
        if not same_json(header, tally._header(body, sparse, start == MAGIC)):
            raise ReportError(BROKEN)
        tally._check_possible()
        return tally

    def _check_possible(self) -> None:
        """Refuse counts that no set of possible reports adds up to."""
        outside = bool(((self.counts < 0) | (self.counts > MOST_REPORTS)).any())
        if outside or not self.plan.packing.adds_up(self.counts):
            raise ReportError("no set of honest reports adds up to this tally")
        check_total(self.reports)

    def save(self, path: str | Path) -> None:
        """Write the tally as a file, whole or not at all."""
        write_whole(Path(path), self.dumps())

    @classmethod
    def load(cls, plan: Plan, path: str | Path) -> Tally:
        """Read a tally of ``plan``."""
        try:
            content = Path(path).read_bytes()
        except OSError as error:
            raise KeyveilError(f"cannot read the tally {path}: {error.strerror}") from None
        with named(path):
            if (what := named_content(content)) not in (None, "a tally"):
                raise ReportError(f"this is {what}, not a tally; make one with 'keyveil tally'")
            return cls.parse(plan, content)


def total_of(counts: Integers) -> int:
    """The exact sum of counts, however large they are."""
    largest = max(int(counts.max(initial=0)), -int(counts.min(initial=0)))
    if largest * len(counts) < 1 << 63:
        return int(counts.sum())
    return sum(counts.tolist())


def check_total(reports: int) -> None:
    """Refuse more reports than a tally holds."""
    if reports > MOST_REPORTS:
        raise ReportError(f"a tally holds at most {MOST_REPORTS} (2^53) reports")


def _unpacked(content: bytes, most: int) -> bytes:
    """The decompressed body, refused if it is cut short or longer than ``most`` bytes."""
    unpacker = zlib.decompressobj()
    try:
        body = unpacker.decompress(content, most + 1)
    except zlib.error:
        raise ReportError(BROKEN) from None
    if not unpacker.eof or unpacker.unused_data or len(body) > most:
        raise ReportError(BROKEN)
    return body


def _counts(body: bytes, cells: int, sparse: bool) -> Integers:
    """The counts in a body: those of all cells, or cell numbers followed by their counts."""
    if len(body) % (16 if sparse else 8) or (not sparse and len(body) != 8 * cells):
        raise ReportError(BROKEN)
    numbers = np.frombuffer(body, "<i8").astype(np.int64)
    if not sparse:
        return numbers
    marked, values = np.split(numbers, 2)
    if len(marked) and (marked[0] < 0 or marked[-1] >= cells or (np.diff(marked) <= 0).any()):
        raise ReportError(BROKEN)
    counts = np.zeros(cells, np.int64)
    counts[marked] = values
    return counts
