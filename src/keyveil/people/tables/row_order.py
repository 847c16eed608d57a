"""Tables sorted by person: recognise them, and cut them between people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from ...foundation.errors import TableError
from .frames import Batch, arrow
from .spill import joined


class Ascent:
    """Whether names, seen a batch at a time, are in ascending order."""

    def __init__(self) -> None:
        self.holds = True
        self._last: Any = None

    def see(self, names: Any) -> None:
        """Look at the next names."""
        if not (self.holds and len(names)):
            return
        compute = arrow("compute")
        if self._last is not None and compute.less(names[0], self._last).as_py():
            self.holds = False
        if compute.any(compute.less(names[1:], names[:-1])).as_py():
            self.holds = False
        self._last = names[-1]


def cut(batches: Iterable[Batch], chunk: int) -> Iterator[Batch]:
    """Cut sorted rows into batches of about ``chunk``; the rows of the last person wait for more."""
    ascent, waiting, held = Ascent(), list[Batch](), 0
    for batch in batches:
        persons = batch.column("person")
        ascent.see(persons)
        if not ascent.holds:
            raise changed()
        waiting.append(batch)
        held += batch.num_rows
        if held > chunk and waiting[0].column("person")[0] != persons[-1]:
            *parts, rest = _chunks(joined(waiting), chunk)
            yield from parts
            waiting, held = [rest], rest.num_rows
    if waiting:
        yield from _chunks(joined(waiting), chunk)


def _chunks(rows: Batch, chunk: int) -> Iterator[Batch]:
    """The rows in chunks, cut where ``_ends`` says."""
    for first, last in pairwise((0, *_ends(rows, chunk), rows.num_rows)):
        yield rows.slice(first, last - first)


def _ends(rows: Batch, chunk: int) -> Iterator[int]:
    """Where chunks end: between people, after at most ``chunk`` rows unless one person has more."""
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
    """The error if the second pass does not find what the first one saw."""
    return TableError("the table changed while it was read; read it again")
