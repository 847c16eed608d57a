"""The loops that are worth compiling: the same results as their NumPy forms, faster.

Numba takes half a second to load, and a loop that was never compiled on this machine takes seconds more.
So loops are used where Numba is installed (``keyveil[fast]``) and as soon as the work that is known to
come is worth them. Where its size is not known, they are used once the plain form has had as much work
as loading them would have taken: small tasks never wait, and large ones lose little. Set
``KEYVEIL_FAST=0`` to do without loops, ``KEYVEIL_FAST=1`` to use them from the first person on.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from .arrays import Integers
from .kernels import ROOMS

_BLOCK = 1 << 15
_LOAD = 0.5
"""Seconds of processor time until Numba has run its first loop."""
_READ = 0.1
"""Seconds to read the loops of a room that were compiled before."""
_COMPILE = 4.0
"""Seconds to compile the loops of a room."""
_COUNTED = 3e-9
"""Seconds that the plain histogram takes for a code."""

_BYTE_SUMMED = 3e-9
"""Seconds that the plain column sums take for a byte of packed bits."""
_MOST_TOGETHER = 8
"""Maximum number of cells of a position whose marks are compared at once."""
_UNPACKED = 1 << 16
"""Bytes of packed bits that are unpacked at once."""

_INSTEAD = {"bit_planes": "plane_tiles"}
"""Rooms whose work another one does on processors that have the instructions for it."""

_room_of = {name: room for room, names in ROOMS.items() for name in names}
_plain: dict[str, float] = {}
"""Seconds that plain forms have worked so far in this process, by room."""


class KnownLength:
    """A table of known length is read: what comes decides whether loops are loaded, not what was done.

    Plain work on the table counts as done when it ends. This never changes a result.
    """

    _open: ClassVar[list[KnownLength]] = []

    def __init__(self, tables: float | None = None) -> None:
        """``tables`` of the same length come after each one in this process; as outside if None."""
        outside = self._open[-1]._tables if self._open else 0.0
        self._tables: float = outside if tables is None else tables
        self.to_come: float | None = None
        """How many chunks like the one at hand are still to come; None if that is not known."""
        self.plain: dict[str, float] = {}
        """Seconds that plain forms have worked on the table, by room."""

    def __enter__(self) -> Self:
        self._open.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._open.remove(self)
        for room, seconds in self.plain.items():
            _plain[room] = _plain.get(room, 0.0) + seconds

    def see(self, rows: int, done: int, total: int) -> None:
        """A chunk of ``rows`` is at hand; with it ``done`` of all rows are read."""
        self.to_come = (total * (1.0 + self._tables) - done) / max(rows, 1)

    @classmethod
    def at_hand(cls) -> KnownLength | None:
        """The table that is read; None if none is, or none whose length is known."""
        return next((table for table in reversed(cls._open) if table.to_come is not None), None)


class Loops:
    """The compiled loops by name; a room is loaded when one of its loops is first asked for."""

    def __getattr__(self, name: str) -> Any:
        if name not in _room_of:
            raise AttributeError(f"no compiled loop is called {name}")
        loop = getattr(import_module(f".kernels.{_room_of[name]}", __package__), name)
        setattr(self, name, loop)
        return loop


def compiled() -> Loops | None:
    """The compiled loops, or None if Numba is not installed or switched off."""
    return None if os.environ.get("KEYVEIL_FAST") == "0" else _installed()


@cache
def _installed() -> Loops | None:
    return None if find_spec("numba") is None else Loops()


def worthwhile(seconds: float, *rooms: str) -> Loops | None:
    """The compiled loops if they are worth loading for a task that takes plain NumPy ``seconds``.

    ``rooms`` are those that the task would load. None says: do it plainly, which is added to the work
    that the rooms would have saved so far. The rest of a table of known length belongs to the task.
    """
    loops = compiled()
    if loops is None or os.environ.get("KEYVEIL_FAST") == "1":
        return loops
    unread = {room for room in rooms if not any(map(_was_read, _serving(room)))}
    if not unread:
        return loops
    table = KnownLength.at_hand()
    whole = seconds * (1.0 + (table.to_come or 0.0) if table is not None else 1.0)
    cost = sum(_READ if any(map(_was_compiled, _serving(room))) else _COMPILE for room in unread)
    cost += ("numba" not in sys.modules) * _LOAD
    if max(_plain.get(room, 0.0) for room in unread) + whole >= cost:
        return loops
    work = _plain if table is None else table.plain
    for room in unread:
        work[room] = work.get(room, 0.0) + seconds
    return None


def _serving(room: str) -> tuple[str, ...]:
    """The rooms that may do the work of a room; which one, only the loaded loops know."""
    return (room, _INSTEAD[room]) if room in _INSTEAD else (room,)


def _was_read(room: str) -> bool:
    return f"{__package__}.kernels.{room}" in sys.modules


def _was_compiled(room: str) -> bool:
    """Whether Numba has kept the loops of a room on disk since its file was last changed."""
    folder = Path(__file__).parent / "kernels"
    stated = os.environ.get("NUMBA_CACHE_DIR")
    own = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    places = [Path(stated)] if stated else [Path(own) / "numba"]
    kept = [file for place in places for file in place.glob(f"kernels_*/{room}.*.nbi")]
    kept += [] if stated else (folder / "__pycache__").glob(f"{room}.*.nbi")
    changed = (folder / f"{room}.py").stat().st_mtime
    return any(file.stat().st_mtime >= changed for file in kept)


def histogram(codes: np.ndarray, size: int) -> Integers | None:
    """How often each code below ``size`` occurs; None if one lies outside."""
    if codes.dtype.kind == "u":
        loops = worthwhile(len(codes) * _COUNTED, "counting")
        if loops is not None:
            seen = np.zeros(size, np.int64)
            good = loops.count(np.ascontiguousarray(codes), seen)
            return seen if good else None
    seen = np.zeros(size, np.int64)
    for first in range(0, len(codes), _BLOCK):  # blocks that stay in the cache while widened
        block = codes[first : first + _BLOCK]
        if block.min() < 0 or block.max() >= size:
            return None
        seen += np.bincount(block.astype(np.int64), minlength=size)
    return seen


def column_sums(rows: np.ndarray, cells: int) -> Integers | None:
    """How many rows of packed bits set each bit; None if a row marks two cells of a position.

    A position has ``cells`` adjacent bits; with one, every row is possible.
    """
    rooms = ("bit_columns",) if cells == 1 else ("bit_columns", "counting")
    loops = worthwhile(rows.size * _BYTE_SUMMED, *rooms) if cells <= _MOST_TOGETHER else None
    if loops is not None:
        rows = np.ascontiguousarray(rows)
        if cells > 1 and loops.marks_twice(rows, cells):
            return None
        sums = np.zeros(8 * rows.shape[1], np.int64)
        loops.sum_bits(rows, sums)
        return sums
    sums = np.zeros(8 * rows.shape[1], np.int64)
    step = max(1, _UNPACKED // max(rows.shape[1], 1))
    for first in range(0, len(rows), step):  # blocks that stay in the cache while unpacked
        marks = np.unpackbits(rows[first : first + step], axis=1, bitorder="little")
        whole = marks[:, : marks.shape[1] // cells * cells].reshape(len(marks), -1, cells)
        if cells > 1 and (whole.sum(axis=2) > 1).any():
            return None
        sums += marks.sum(axis=0, dtype=np.int64)
    return sums
