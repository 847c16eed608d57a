"""Order: whether people come in ascending order, and rows that do cut between people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from ...foundation.errors import TableError
from .frames import Batch, arrow
from .spill import joined


class Ascent:
    """Whether names, seen a batch at a time, never descend."""

    def __init__(self) -> None:
        self.holds = True
        self._last: Any = None

    def see(self, names: Any) -> None:
        """Take note of the next names."""
        if not (self.holds and len(names)):
            return
        compute = arrow("compute")
        if self._last is not None and compute.less(names[0], self._last).as_py():
            self.holds = False
        if compute.any(compute.less(names[1:], names[:-1])).as_py():
            self.holds = False
        self._last = names[-1]


def cut(batches: Iterable[Batch], chunk: int) -> Iterator[Batch]:
    """Ascending rows in batches of about ``chunk``; what may not yet be all of a person waits."""
    ascent, waiting, held = Ascent(), list[Batch](), 0
    for batch in batches:
        persons = batch.column("person")
        ascent.see(persons)
        if not ascent.holds:
            raise changed()
        waiting.append(batch)
        held += batch.num_rows
        if held <= chunk or waiting[0].column("person")[0] == persons[-1]:
            continue
        rows, first = joined(waiting), 0
        for last in _ends(rows, chunk):
            yield rows.slice(first, last - first)
            first = last
        waiting, held = [rows.slice(first)], rows.num_rows - first
    if waiting:
        rows, first = joined(waiting), 0
        for last in (*_ends(rows, chunk), rows.num_rows):
            yield rows.slice(first, last - first)
            first = last


def _ends(rows: Batch, chunk: int) -> Iterator[int]:
    """Where chunks end: before a person, and after at most ``chunk`` rows unless one person has more."""
    persons = rows.column("person")
    changes = arrow("compute").not_equal(persons[1:], persons[:-1])
    edges = np.flatnonzero(changes.to_numpy(zero_copy_only=False)) + 1
    first = 0
    while rows.num_rows - first > chunk:
        at = int(np.searchsorted(edges, first + chunk, "right")) - 1
        if at < 0 or edges[at] <= first:
            at += 1
        if at == len(edges):
            return
        first = int(edges[at])
        yield first


def changed() -> TableError:
    """The second pass did not find what the first had seen."""
    return TableError("the table changed while it was read; read it again")
