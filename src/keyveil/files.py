"""Files written whole or not at all, and by one process at a time."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

_MASK = os.umask(0o077)
os.umask(_MASK)


@contextmanager
def whole_file(path: Path, *, private: bool = False) -> Iterator[BinaryIO]:
    """A file that appears under its name, complete and on disk, only if the block succeeds."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            if not private:
                os.fchmod(file.fileno(), 0o666 & ~_MASK)
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(name)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def write_whole(path: Path, content: bytes, *, private: bool = False) -> None:
    """Replace a file's content at once; ``private`` keeps it readable by its owner alone."""
    with whole_file(path, private=private) as file:
        file.write(content)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """One process at a time for a file, by a lock file beside it."""
    import fcntl

    handle = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        fcntl.flock(handle, fcntl.LOCK_UN)  # a process that was forked meanwhile shares the handle
        os.close(handle)
