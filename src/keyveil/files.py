"""Files written whole or not at all, and by one process at a time."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from .errors import KeyveilError

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


def open_lock(path: Path) -> int:
    """The handle of the lock file beside a file, which is made readable by its owner alone.

    In a folder that others may write to, the lock file may have been planted. So no symbolic link is
    followed, and the lock must be a plain file of this user or of the folder's owner.
    """
    lock = path.with_name(path.name + ".lock")
    planted = KeyveilError(f"the lock file {lock} is no plain file of your own; remove it")
    try:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise planted from None
        raise
    facts = os.fstat(handle)
    owners = (os.geteuid(), lock.parent.stat().st_uid)
    if not stat.S_ISREG(facts.st_mode) or facts.st_uid not in owners:
        os.close(handle)
        raise planted
    return handle


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """One process at a time for a file, by a lock file beside it."""
    import fcntl

    handle = open_lock(path)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        fcntl.flock(handle, fcntl.LOCK_UN)  # a process that was forked meanwhile shares the handle
        os.close(handle)
