"""SQLite's log, read frame by frame as it reads it after a crash; and what its check cannot see.

Each frame is a head, and the page that belongs to it, written one after the other. The check in the
head is a sum of the page's words, weighted so weakly that three changes ``-D, +D, +D`` at neighbouring
words leave it as it is. A list of free pages that becomes two shorter changes in just this way. So if
the log held that page at the same place in its round before, and power is lost after the head and
before the page, the old page passes for the new one. Nothing that uses SQLite's log can tell; it was
found once in ten thousand losses of power here, all of them made on purpose at such moments.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Iterator

from .disk import Event

HEAD, FRAME = 32, 24


def check(data: bytes, first: int = 0, second: int = 0) -> tuple[int, int]:
    """The sums of words two by two, each also adding the other."""
    words = struct.unpack(f"<{len(data) // 4}I", data)
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & 0xFFFFFFFF
        second = (second + odd + first) & 0xFFFFFFFF
    return first, second


def frames(log: bytes) -> Iterator[bytes]:
    """The frames that pass: those that a database is recovered from."""
    if len(log) < HEAD or log[:4] != b"\x37\x7f\x06\x82":
        return
    size = int.from_bytes(log[8:12], "big")
    sums = check(log[:24])
    if sums != struct.unpack(">2I", log[24:32]):
        return
    for at in range(HEAD, len(log) - FRAME - size + 1, FRAME + size):
        frame = log[at : at + FRAME + size]
        sums = check(frame[FRAME:], *check(frame[:8], *sums))
        if frame[8:16] != log[16:24] or sums != struct.unpack(">2I", frame[16:24]):
            return
        yield frame


def written(events: Iterable[Event]) -> set[bytes]:
    """Every frame that was written, head and page together."""
    names, head = set(), b""
    for event in events:
        if event.kind == "write" and len(event.data) == FRAME:
            head = event.data
        elif event.kind == "write" and head:
            names.add(_name(head + event.data))
            head = b""
    return names


def deceived(log: bytes, names: set[bytes]) -> bool:
    """Whether a frame passes that was never written."""
    return any(_name(frame) not in names for frame in frames(log))


def _name(frame: bytes) -> bytes:
    return hashlib.sha256(frame).digest()
