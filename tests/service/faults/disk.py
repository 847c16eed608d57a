"""A disk that remembers every write, so that power may be lost at any of them.

What a disk guarantees is modelled per sector. After a sync of a file its content is safe. Until then
each sector of it may show its content as of any moment since the last sync, whatever the others
show: writes are dropped, come in another order, and are torn. A file's name is safe when its folder
is synced; changes of names keep their order among themselves, as journals of file systems do.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field
from pathlib import Path

import apsw

SECTOR = 512


@dataclass
class Event:
    """One thing that happened to the disk."""

    kind: str
    """``write``, ``size``, ``sync``, ``make``, ``remove``, ``folder``; ``mark`` by whoever watches."""
    file: int = -1
    at: int = 0
    data: bytes = b""
    name: str = ""
    mark: object = None


class Recorder(apsw.VFS):
    """The machine's own file system, with everything that is written to one folder noted down."""

    def __init__(self, folder: Path, name: str = "recording") -> None:
        super().__init__(name, "unix")
        self.folder = str(folder)
        self.events: list[Event] = []
        self._names: dict[str, int] = {}
        self._next = 0
        self.made: set[int] = set()
        """Files whose folder is synced with their first sync, as SQLite does for its logs."""

    def mark(self, what: object) -> None:
        """Note something of the watcher's own between two events."""
        self.events.append(Event("mark", mark=what))

    def xOpen(self, name: object, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        new = path is not None and not os.path.exists(str(path))
        opened = _Recorded(self, name, flags)
        if path is not None and os.path.dirname(str(path)) == self.folder:
            short = os.path.basename(str(path))
            if new or short not in self._names:
                self._names[short] = self._next
                if short.endswith(("-wal", "-journal")):
                    self.made.add(self._next)
                self.events.append(Event("make", self._next, name=short))
                self._next += 1
            opened.number = self._names[short]
        return opened

    def xDelete(self, name: str, folder: bool) -> None:  # noqa: N802
        super().xDelete(name, folder)
        short = os.path.basename(name)
        if self._names.pop(short, None) is not None:
            self.events.append(Event("remove", name=short))
            if folder:
                self.events.append(Event("folder"))


class _Recorded(apsw.VFSFile):
    def __init__(self, disk: Recorder, name: object, flags: list[int]) -> None:
        super().__init__("unix", name, flags)  # type: ignore[arg-type]
        self._disk = disk
        self.number: int | None = None

    def _note(self, kind: str, at: int = 0, data: bytes = b"") -> None:
        if self.number is not None:
            self._disk.events.append(Event(kind, self.number, at, data))

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        super().xWrite(data, offset)
        self._note("write", offset, bytes(data))

    def xTruncate(self, size: int) -> None:  # noqa: N802
        super().xTruncate(size)
        self._note("size", size)

    def xSync(self, flags: int) -> None:  # noqa: N802
        super().xSync(flags)
        self._note("sync")
        if self.number in self._disk.made:
            self._disk.made.discard(self.number)
            self._disk.events.append(Event("folder"))


@dataclass
class _File:
    """A file's safe content, and what was done to it since."""

    safe: bytearray = field(default_factory=bytearray)
    since: list[Event] = field(default_factory=list)

    def settle(self) -> None:
        for event in self.since:
            _apply(self.safe, event)
        self.since = []


def _apply(content: bytearray, event: Event) -> None:
    if event.kind == "size":
        del content[event.at :]
        content.extend(bytes(max(0, event.at - len(content))))
        return
    end = event.at + len(event.data)
    content.extend(bytes(max(0, end - len(content))))
    content[event.at : end] = event.data


class Disk:
    """The disk as of some event; play events one by one, and lose power whenever you like."""

    def __init__(self) -> None:
        self._files: dict[int, _File] = {}
        self._safe_names: dict[str, int] = {}
        self._names_since: list[Event] = []

    def play(self, event: Event) -> None:
        if event.kind == "make":
            self._files[event.file] = _File()
            self._names_since.append(event)
        elif event.kind == "remove":
            self._names_since.append(event)
        elif event.kind == "folder":
            for change in self._names_since:
                _rename(self._safe_names, change)
            self._names_since = []
        elif event.kind == "sync":
            self._files[event.file].settle()
        elif event.kind in ("write", "size"):
            self._files[event.file].since.append(event)

    def lose_power(self, coins: random.Random) -> dict[str, bytes]:
        """One of the many states in which the files may be found afterwards."""
        names = dict(self._safe_names)
        for event in self._names_since[: coins.randint(0, len(self._names_since))]:
            _rename(names, event)
        how = coins.choice(["lost", "cut", "all", "sectors", "sectors", "sectors"])
        return {name: _found(self._files[number], how, coins) for name, number in names.items()}


def _rename(names: dict[str, int], event: Event) -> None:
    if event.kind == "make":
        names[event.name] = event.file
    else:
        names.pop(event.name, None)


def _found(file: _File, how: str, coins: random.Random) -> bytes:
    content = bytearray(file.safe)
    count = len(file.since)
    if how == "sectors" and count:
        return _mixed(content, file.since, coins)
    last = {"lost": 0, "cut": coins.randint(0, count), "all": count}.get(how, 0)
    for event in file.since[:last]:
        _apply(content, event)
    return bytes(content)


def _mixed(content: bytearray, since: list[Event], coins: random.Random) -> bytes:
    """Each sector as of a moment of its own; so is the size."""
    count = len(since)
    few = coins.random() < 0.5
    moment: dict[int, int] = {}

    def of(sector: int) -> int:
        if sector not in moment:
            moment[sector] = coins.choice((0, count)) if few else coins.randint(0, count)
        return moment[sector]

    size = len(content)
    size_as_of = coins.randint(0, count)
    for number, event in enumerate(since):
        end = event.at if event.kind == "size" else max(size, event.at + len(event.data))
        if number < size_as_of:
            size = end
        if event.kind == "size":
            for sector in range(-(-event.at // SECTOR), -(-len(content) // SECTOR)):
                if number < of(sector):
                    first = sector * SECTOR
                    content[first : first + SECTOR] = bytes(len(content[first : first + SECTOR]))
            continue
        stop = event.at + len(event.data)
        content.extend(bytes(max(0, stop - len(content))))
        first = event.at
        while first < stop:
            last = min(stop, (first // SECTOR + 1) * SECTOR)
            if number < of(first // SECTOR):
                content[first:last] = event.data[first - event.at : last - event.at]
            first = last
    del content[size:]
    content.extend(bytes(max(0, size - len(content))))
    return bytes(content)
