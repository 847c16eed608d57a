"""The ids of an open epoch: exact membership in little memory, for any number of ids.

The newest ids lie in an array. When it is full it becomes a run, and runs of similar size are merged.
Large runs lie in an unnamed file. Memory holds where each bucket begins, a checksum of each bucket, and
one filter of fixed size that recognises nearly every new id as new.

All of them hold the images of ids under a cipher whose key is in memory only. So images are spread
evenly for any choice of ids, and nobody can read a file once the set is gone.
"""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from io import RawIOBase
from pathlib import Path
from typing import Protocol, cast

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes

from ....foundation.arrays import Integers
from ....foundation.coins import fresh_bytes
from .id_filter import IdFilter
from .packed_ids import SIZE, PackedIds, split, words_of

RECENT = 1 << 14
"""Maximum number of the newest ids, which are in no run yet."""
FAN = 4
"""Number of runs of similar size that are merged into one."""
HELD = 1 << 19
"""Number of ids from which a run is written to a file."""
BUCKET = 128
"""Maximum average number of ids in a bucket."""
PART = 1 << 16
"""Number of ids merged at a time.

A merge proceeds while ids come in, so no request waits for all of it.
"""
WORDS = 1 << 22
"""Number of words in the filter of a set that is too large for memory."""
LOOKED = 256
"""Number of buckets read from a file before its pages are released."""

_LET_GO = getattr(mmap, "MADV_DONTNEED", None)


class Spoiled(Exception):
    """A file does not hold what was written to it; the set must be rebuilt."""


class Scratch(Protocol):
    """Creates unnamed files that disappear when they are closed."""

    def new(self) -> RawIOBase:
        """An empty file."""


class FolderScratch:
    """Creates unnamed files in a folder. Each disappears when it is closed or the process ends.

    Without a folder it is the system's for temporary files.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def new(self) -> RawIOBase:
        return cast(RawIOBase, tempfile.TemporaryFile(buffering=0, dir=self.folder))


class IdRun:
    """Images in buckets by their first bits; within a bucket in any order."""

    def __init__(
        self, bits: int, starts: np.ndarray, content: bytes | mmap.mmap, checks: np.ndarray | None = None
    ) -> None:
        self._bits, self._starts, self._checks = bits, starts, checks
        self._content, self._rows = content, words_of(content)

    @classmethod
    def of(cls, rows: np.ndarray, starts: Integers, scratch: Scratch | None = None) -> IdRun:
        """A run of arranged images.

        It is in a file if ``scratch`` is given and can be written, otherwise in memory.
        """
        bits = len(starts).bit_length() - 1
        if scratch is not None:
            with suppress(OSError), scratch.new() as file:
                _write(file, rows)
                content = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
                return cls(bits, starts.astype(np.uint32), content, bucket_sums(rows, starts))
        return cls(bits, starts.astype(np.uint32), rows.tobytes())

    def __len__(self) -> int:
        return int(self._starts[-1])

    def find(self, images: np.ndarray, places: Integers) -> Integers:
        """Those of the given places whose image is in this run."""
        buckets = (images[places, 0] >> np.uint64(64 - self._bits)).astype(np.int64)
        order = np.argsort(buckets)  # neighbouring buckets are read one after the other
        places, buckets = places[order], buckets[order]
        matches = [np.zeros(0, np.int64)]
        for at in range(0, len(places), LOOKED):
            batch = places[at : at + LOOKED]
            matches.append(batch[self.look(images[batch], buckets[at : at + LOOKED])])
            self._let_go()
        return np.concatenate(matches)

    def look(self, images: np.ndarray, buckets: Integers) -> Integers:
        """The indices of images that are in their buckets."""
        begins = self._starts[buckets].astype(np.int64)
        sizes = self._starts[buckets + 1] - begins
        starts = np.append(0, np.cumsum(sizes))
        whose = np.repeat(np.arange(len(images)), sizes)
        rows = self._rows.take(np.arange(starts[-1]) + (begins - starts[:-1])[whose], axis=0)
        if self._checks is not None and (bucket_sums(rows, starts) != self._checks[buckets]).any():
            raise Spoiled
        same = (rows[:, 0] == images[whose, 0]) & (rows[:, 1] == images[whose, 1])
        return np.unique(whose[same])

    def part(self, number: int, bits: int) -> np.ndarray:
        """The images whose first ``bits`` bits equal a number."""
        if bits > self._bits:
            images = self.part(number >> (bits - self._bits), self._bits)
            return images[images[:, 0] >> np.uint64(64 - bits) == number]
        first, last = number << (self._bits - bits), (number + 1) << (self._bits - bits)
        starts = self._starts[first : last + 1].astype(np.int64)
        images = self._rows[int(starts[0]) : int(starts[-1])]
        if self._checks is not None:
            images = images.copy()
            if not np.array_equal(bucket_sums(images, starts - starts[0]), self._checks[first:last]):
                raise Spoiled
            self._let_go()
        return images

    def _let_go(self) -> None:
        """Release pages that were read.

        They stay in the system's cache, not in this process's memory.
        """
        if isinstance(self._content, mmap.mmap) and _LET_GO is not None:
            self._content.madvise(_LET_GO)

    def close(self) -> None:
        """Close the file."""
        self._rows = self._rows[:0].copy()
        if isinstance(self._content, mmap.mmap):
            self._content.close()


class _Writing:
    """A merge of runs into one run in a file, part by part."""

    def __init__(self, sources: list[IdRun], scratch: Scratch) -> None:
        self.sources = sources
        self._number = sum(map(len, sources))
        self._bits = _bits(self._number)
        self._part_bits = min(self._bits, (self._number // PART).bit_length())
        self._parts = iter(range(1 << self._part_bits))
        self._starts = np.zeros((1 << self._bits) + 1, np.uint32)
        self._checks = np.zeros(1 << self._bits, np.uint64)
        self._file = scratch.new()

    def step(self) -> IdRun | None:
        """Write one part; the run once it is complete."""
        bucket_bits = self._bits - self._part_bits
        for part in self._parts:
            images = np.concatenate([run.part(part, self._part_bits) for run in self.sources])
            first, last = part << bucket_bits, (part + 1) << bucket_bits
            rows, starts = _arranged(images, self._bits, first, last)
            self._starts[first + 1 : last + 1] = self._starts[first] + starts[1:].astype(np.uint32)
            self._checks[first:last] = bucket_sums(rows, starts)
            _write(self._file, rows)
            return None
        if self._starts[-1] != self._number:
            raise Spoiled
        content = mmap.mmap(self._file.fileno(), 0, prot=mmap.PROT_READ)
        self._file.close()
        return IdRun(self._bits, self._starts, content, self._checks)

    def close(self) -> None:
        self._file.close()


class IdSet:
    """A growing set of 16-byte ids. Without ``scratch`` it is entirely in memory."""

    def __init__(self, scratch: Scratch | None = None) -> None:
        self._scratch = scratch
        self._cipher = id_cipher(fresh_bytes(SIZE))
        self._recent, self._new = np.zeros((2, 2), np.uint64), 0
        """Room for the newest images, and their number."""
        self._runs: list[IdRun] = []
        self._filter = IdFilter(2)
        self._writings: list[_Writing] = []
        self._spoiled = False

    @classmethod
    def of(cls, packed: Iterable[bytes], scratch: Scratch | None = None) -> IdSet:
        """A set of packed ids, read a part at a time."""
        ids = cls(scratch)
        waiting: list[bytes] = []
        size = 0
        for part in packed:
            waiting.append(part)
            size += len(part)
            if size >= SIZE * HELD:
                ids._load(b"".join(waiting))
                waiting, size = [], 0
        if size:
            ids._load(b"".join(waiting))
        return ids

    def __len__(self) -> int:
        return self._new + sum(map(len, self._runs))

    def __contains__(self, report_id: bytes) -> bool:
        return bool(self.known([report_id]))

    def known(self, ids: Sequence[bytes]) -> set[int]:
        """The places of ids that are in the set."""
        if self._spoiled:
            raise Spoiled
        if not len(self) or not ids:
            return set()
        images = words_of(self._cipher.update(PackedIds.of(ids).packed))
        left = self._filter.maybe(images)
        known: set[int] = set()
        if not len(left):
            return known
        for find in (self._find_new, *(run.find for run in self._runs)):  # the oldest are the largest
            here = find(images, left)
            known.update(here.tolist())
            left = np.setdiff1d(left, here, assume_unique=True)
            if not len(left):
                break
        return known

    def _find_new(self, images: np.ndarray, places: Integers) -> Integers:
        """Those of the given places whose image is one of the newest."""
        newest = self._recent[: self._new]
        near = newest[np.isin(newest[:, 0], images[places, 0])]
        if not len(near):
            return places[:0]
        names = set(split(near.tobytes()))
        asked = split(images[places].tobytes())
        return places[np.array([name in names for name in asked], bool)]

    def add(self, ids: Sequence[bytes]) -> None:
        """Add ids that are not in the set."""
        images = words_of(self._cipher.update(PackedIds.of(ids).packed))
        number = self._new + len(images)
        try:
            if number < RECENT:
                self._add_new(images)
            else:
                newest, self._new = np.concatenate([self._recent[: self._new], images]), 0
                self._add_run(newest)
                self._merge(-(-number // RECENT))
        except Spoiled:  # the next lookup raises it
            self._spoiled = True

    def _add_new(self, images: np.ndarray) -> None:
        """Add images to the newest."""
        number = self._new + len(images)
        self._widen(len(self) + len(images))
        self._filter.add(images)
        if number > len(self._recent):
            self._recent = np.concatenate([self._recent, np.zeros((number, 2), np.uint64)])
        self._recent[self._new : number], self._new = images, number

    def close(self) -> None:
        """Close all files; their content can no longer be read."""
        for writing in self._writings:
            writing.close()
        for run in self._runs:
            run.close()
        self._runs, self._new, self._writings = [], 0, []

    # -- runs --------------------------------------------------------------------------------------

    def _load(self, packed: bytes) -> None:
        """Add a run of packed ids."""
        self._add_run(words_of(self._cipher.update(packed)))

    def _add_run(self, images: np.ndarray) -> None:
        """Add a run."""
        rows, starts = _arranged(images, _bits(len(images)))
        self._widen(len(self) + len(rows))
        self._filter.add(rows)
        self._runs.append(IdRun.of(rows, starts, self._scratch if len(rows) >= HELD else None))

    def _widen(self, number: int) -> None:
        """Enlarge the filter: two ids per word, up to its full size."""
        if 2 * len(self._filter) >= number or len(self._filter) >= WORDS:
            return
        words = WORDS if number >= HELD else min(WORDS, 1 << (2 * number).bit_length())
        self._filter = IdFilter(words)
        self._filter.add(self._recent[: self._new])
        for run in self._runs:
            self._filter.add(run.part(0, 0))

    def _merge(self, steps: int) -> None:
        """Merge small runs, and continue the merges of large runs by ``steps`` parts each."""
        with suppress(OSError):
            while sources := self._enough():
                if self._scratch is None or sum(map(len, sources)) < HELD:
                    images = np.concatenate([run.part(0, 0) for run in sources])
                    self._replace(sources, IdRun.of(*_arranged(images, _bits(len(images)))))
                else:
                    self._writings.append(_Writing(sources, self._scratch))
        for writing in list(self._writings):
            try:
                for _ in range(steps):
                    run = writing.step()
                    if run is not None:
                        self._writings.remove(writing)
                        self._replace(writing.sources, run)
                        break
            except OSError:  # no room: keep the runs, and try again later
                writing.close()
                self._writings.remove(writing)

    def _enough(self) -> list[IdRun]:
        """Runs of similar size that are not being merged; none if there are too few."""
        busy = [run for writing in self._writings for run in writing.sources]
        levels: dict[int, list[IdRun]] = {}
        for run in self._runs:
            if run not in busy:
                levels.setdefault(_level(len(run)), []).append(run)
        return next((levels[at][:FAN] for at in sorted(levels) if len(levels[at]) >= FAN), [])

    def _replace(self, sources: list[IdRun], merged: IdRun) -> None:
        at = self._runs.index(sources[0])
        self._runs = [run for run in self._runs if run not in sources]
        self._runs.insert(at, merged)
        for run in sources:
            run.close()


# -- images ----------------------------------------------------------------------------------------


def id_cipher(key: bytes) -> CipherContext:
    """A permutation of all ids, secret as long as its key."""
    return Cipher(algorithms.AES(key), modes.ECB()).encryptor()


def _bits(number: int) -> int:
    """Number of bits that select a bucket, for this many images."""
    return max(1, (number // BUCKET).bit_length())


def _level(number: int) -> int:
    level = 0
    while number >= RECENT * FAN ** (level + 1):
        level += 1
    return level


def _arranged(
    images: np.ndarray, bits: int, first: int = 0, last: int | None = None
) -> tuple[np.ndarray, Integers]:
    """Images in the order of their buckets, and where each bucket begins; for a range of buckets."""
    number = (1 << bits if last is None else last) - first
    buckets = ((images[:, 0] >> np.uint64(64 - bits)) - np.uint64(first)).astype(np.int64)
    starts = np.zeros(number + 1, np.int64)
    np.cumsum(np.bincount(buckets, minlength=number), out=starts[1:])
    # short integers are sorted faster
    keys = buckets.astype(np.uint16) if number <= 1 << 16 else buckets
    return images.take(np.argsort(keys, kind="stable"), axis=0), starts


def bucket_sums(images: np.ndarray, starts: Integers) -> np.ndarray:
    """A checksum of each bucket: the sum of its words.

    Images are random, so collisions are negligible.
    """
    total = np.zeros(len(images) + 1, np.uint64)
    np.cumsum(images[:, 0] + images[:, 1], out=total[1:])
    return total[starts[1:]] - total[starts[:-1]]


def _write(file: RawIOBase, rows: np.ndarray) -> None:
    left = rows.reshape(-1).view(np.uint8).data
    while len(left):
        left = left[file.write(left) or 0 :]
