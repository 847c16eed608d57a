"""Group rows by person, on disk if they do not fit in memory."""

from __future__ import annotations

import os
import tempfile
from array import array
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import chain, pairwise
from typing import Any
from zlib import crc32

import numpy as np

from ...foundation.arrays import Integers
from ...foundation.errors import TableError
from .frames import BATCH, Batch, arrow

HELD = 1 << 19
"""Number of rows that are grouped in memory; more are grouped on disk."""

MOST_PARTS = 256
"""Maximum number of parts made at a time. A part that is too large for memory is divided again."""

FEW_PARTS = 64
"""Number of parts up to which all numbers of parts are looked at for each of them."""

SORTED = 1
"""Number of divisions that the rows of a held segment went through before; they need another."""

DEEPEST = 3
"""Number of divisions after which a part holds one person's rows, or nearly so."""


def joined(batches: list[Batch]) -> Batch:
    """Join batches of one schema, and empty the list: only one column at a time is held twice."""
    if len(batches) == 1:
        return batches.pop()
    schema = batches[0].schema
    columns = [[batch.column(place) for batch in batches] for place in range(len(schema))]
    batches.clear()
    arrays = [arrow().concat_arrays(columns.pop(0)) for _ in schema]
    return arrow().RecordBatch.from_arrays(arrays, schema=schema)


def together(batches: Iterable[Batch], rows: int | None, chunk: int, depth: int = 0) -> Iterator[Batch]:
    """The rows in batches of about ``chunk``. All rows of a person are in one batch, in their order."""
    runs = _runs(batches)
    first = next(runs, None)
    if first is None:
        return
    if first.num_rows < HELD:
        yield from parted(first, chunk, depth)
        return
    if depth == DEEPEST:
        yield from parted(joined([first, *runs]), chunk, depth)
        return
    parts = MOST_PARTS if rows is None else min(MOST_PARTS, 1 + 2 * rows // HELD)
    with closing(_Spill(parts, first.schema)) as spill:
        for run in chain([first], runs):
            spill.add(run, depth)
        del first, run
        for part in range(parts):
            yield from together(spill.batches(part), spill.rows[part], chunk, depth + 1)


def parted(rows: Batch, chunk: int, depth: int = 0) -> Iterator[Batch]:
    """Rows in memory, in batches of about ``chunk``, with all rows of a person in one."""
    parts = min(-(-rows.num_rows // chunk), 1 << 16)
    persons = rows.column("person")
    if _is_text(persons):
        coded = persons.dictionary_encode()
        codes = coded.indices.to_numpy().astype(np.int64)
        part = (codes * parts // len(coded.dictionary)).astype(np.uint16)
    else:
        part = person_parts(persons, parts, depth)
    for own in _rows_by_part(part, parts):
        if len(own):
            yield rows.take(arrow().array(own))


def _rows_by_part(part: np.ndarray, parts: int) -> Iterator[Integers]:
    """The rows of each part, ascending. A few parts are found one by one, which takes less memory."""
    if parts <= FEW_PARTS:
        yield from (np.flatnonzero(part == number) for number in range(parts))
        return
    order, ends = order_by_part(part, parts)
    yield from (order[first:last] for first, last in pairwise(ends.tolist()))


def _runs(batches: Iterable[Batch]) -> Iterator[Batch]:
    """The rows in batches of at least HELD, except the last."""
    waiting: list[Batch] = []
    held = 0
    for batch in batches:
        waiting.append(batch)
        held += batch.num_rows
        if held >= HELD:
            yield joined(waiting)
            waiting, held = [], 0
    if held:
        yield joined(waiting)


def _is_text(persons: Any) -> bool:
    return not arrow().types.is_integer(persons.type)


def person_parts(persons: Any, parts: int, depth: int = 0) -> np.ndarray:
    """A part number for each row that depends only on the person."""
    if _is_text(persons):
        coded = persons.dictionary_encode()  # most people have several rows
        names = coded.dictionary.cast(arrow().large_binary()).to_pylist()
        codes = np.fromiter(map(crc32, names), np.uint64, len(names))
        return _spread(codes[coded.indices.to_numpy()], parts, depth)
    codes, part = persons.to_numpy().view(np.uint64), np.empty(len(persons), np.uint16)
    for first in range(0, len(codes), BATCH):  # numbers that are mixed take three times their memory
        part[first : first + BATCH] = _spread(codes[first : first + BATCH], parts, depth)
    return part


def order_by_part(part: np.ndarray, parts: int) -> tuple[Integers, Integers]:
    """The order of rows by part, stable, and where each part ends."""
    ends = np.concatenate([[0], np.cumsum(np.bincount(part, minlength=parts))])
    return np.argsort(part, kind="stable"), ends  # a radix sort: parts have 16 bits


def _spread(codes: np.ndarray, parts: int, depth: int) -> np.ndarray:
    """SplitMix64; its top bits scaled to the number of parts. Each depth uses another start."""
    mixed = codes + np.uint64(0x9E3779B97F4A7C15 * (depth + 1) % (1 << 64))
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return ((mixed >> np.uint64(32)) * np.uint64(parts) >> np.uint64(32)).astype(np.uint16)


class _Spill:
    """Parts as Arrow messages in one unnamed temporary file, so that no file is left behind."""

    def __init__(self, parts: int, schema: Any) -> None:
        self.rows = [0] * parts
        self._schema = schema
        self._places = [array("q") for _ in range(parts)]
        """Where each message of a part begins, and its length."""
        self._end = 0
        folder = _folder()
        try:
            self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115
        except OSError as error:
            raise _no_room(error) from None

    def close(self) -> None:
        """Remove the file."""
        self._file.close()

    def add(self, rows: Batch, depth: int) -> None:
        """Append each row to the part of its person."""
        parts = len(self.rows)
        order, ends = order_by_part(person_parts(rows.column("person"), parts, depth), parts)
        rows = rows.take(arrow().array(order))
        for part in np.flatnonzero(np.diff(ends)).tolist():
            first, last = int(ends[part]), int(ends[part + 1])
            message = memoryview(rows.slice(first, last - first).serialize())
            self._places[part].extend((self._end, len(message)))
            self.rows[part] += last - first
            self._end += len(message)
            try:
                while message:
                    message = message[self._file.write(message) :]
            except OSError as error:
                raise _no_room(error) from None

    def batches(self, part: int) -> Iterator[Batch]:
        """The rows of one part in their original order."""
        places = self._places[part]
        for place, length in zip(places[::2], places[1::2], strict=True):
            self._file.seek(place)
            message = arrow().py_buffer(self._file.read(length))
            yield arrow("ipc").read_record_batch(message, self._schema)


def _folder() -> str:
    """The folder for temporary files. Never the current folder, unless the environment names it."""
    folder = tempfile.gettempdir()
    named = {os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP")}
    if folder == os.getcwd() and folder not in named | {"/tmp", "/var/tmp", "/usr/tmp"}:
        raise TableError("there is no folder for temporary files; set TMPDIR to one")
    return folder


def _no_room(error: OSError) -> TableError:
    return TableError(
        f"cannot write temporary files: {error.strerror}; set TMPDIR to a folder with room"
    )
