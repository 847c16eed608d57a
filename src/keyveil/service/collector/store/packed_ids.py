"""Ids of reports one after the other in memory, so that no step makes an object for each of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from mmap import mmap
from typing import overload

import numpy as np

SIZE = 16
"""Bytes of an id."""
_FEW = 64
"""Number of ids up to which a set of Python finds out faster whether one occurs twice."""


class PackedIds(Sequence[bytes]):
    """Ids as one string of bytes."""

    __slots__ = ("packed",)

    def __init__(self, packed: bytes) -> None:
        if len(packed) % SIZE:  # a cipher would keep the rest, and shift all ids after it
            raise ValueError(f"an id has {SIZE} bytes")
        self.packed = packed

    @classmethod
    def of(cls, ids: Sequence[bytes]) -> PackedIds:
        """The same ids, packed."""
        return ids if isinstance(ids, PackedIds) else cls(b"".join(ids))

    def __len__(self) -> int:
        return len(self.packed) // SIZE

    def __iter__(self) -> Iterator[bytes]:
        return iter(split(self.packed))

    @overload
    def __getitem__(self, place: int) -> bytes: ...
    @overload
    def __getitem__(self, place: slice) -> PackedIds: ...
    def __getitem__(self, place: int | slice) -> bytes | PackedIds:
        if isinstance(place, slice):
            return PackedIds(b"".join(list(self)[place]))
        at = range(0, len(self.packed), SIZE)[place]
        return self.packed[at : at + SIZE]

    def at(self, places: Sequence[int]) -> PackedIds:
        """The ids at these places."""
        return PackedIds(np.frombuffer(self.packed, f"V{SIZE}")[np.asarray(places, np.int64)].tobytes())

    def differ(self) -> bool:
        """Whether no id occurs twice."""
        number = len(self)
        if number > _FEW:
            first = np.sort(words_of(self.packed)[:, 0])
            if (first[1:] != first[:-1]).all():
                return True  # their first halves differ already
        return len(set(self)) == number


def split(packed: bytes) -> list[bytes]:
    """Packed ids as a list."""
    return [packed[at : at + SIZE] for at in range(0, len(packed), SIZE)]


def words_of(packed: bytes | mmap) -> np.ndarray:
    """Packed ids as an array of two words each."""
    return np.frombuffer(packed, np.uint64).reshape(-1, 2)
