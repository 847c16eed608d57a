"""Files written whole or not at all, over no other file, and by one process at a time."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from .errors import KeyveilError

_BEGINNINGS = {
    b"KVTALLY": "a tally",
    b"KVREPRT": "a file of reports",
    b"PAR1": "a Parquet table",
    b"ARROW1": "an Arrow table",
    b"SQLite format 3": "a database",
    b"PK\x03\x04": "a spreadsheet or an archive",
}
_MASK = os.umask(0o077)
os.umask(_MASK)


_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
"""How a file is opened that must not exist yet."""


@contextmanager
def whole_file(path: Path, *, private: bool = False) -> Iterator[BinaryIO]:
    """A file that appears under its name, complete and on disk, only if the block succeeds."""
    from .coins import fresh_bytes

    name = path.parent / f".{path.name[:32]}.{fresh_bytes(8).hex()}"
    try:
        handle = os.open(name, _NEW, 0o600)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            if not private and sys.platform != "win32":
                os.fchmod(file.fileno(), 0o666 & ~_MASK)
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(name)
        raise
    if sys.platform == "win32":
        return  # a folder cannot be opened there, and need not be: NTFS logs its names
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """A new folder that appears under its name, complete, only if the block succeeds.

    A folder that has files is refused, because old files would pass as new ones.
    """
    import shutil
    import tempfile

    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise KeyveilError(f"{path} exists and is not an empty folder; name a new one")
    path.parent.mkdir(parents=True, exist_ok=True)
    waiting = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name[:32]}."))
    try:
        waiting.chmod(0o777 & ~_MASK)
        yield waiting
        os.replace(waiting, path)
    except BaseException:
        shutil.rmtree(waiting, ignore_errors=True)
        raise


@contextmanager
def named(path: str | Path) -> Iterator[None]:
    """Put a file's name before what is wrong with its content."""
    try:
        yield
    except KeyveilError as error:
        raise type(error)(f"{path}: {error}") from None


def named_content(start: bytes) -> str | None:
    """What a file is, by its first bytes; None if they do not show it."""
    if not start.strip():
        return "an empty file"
    for magic, what in _BEGINNINGS.items():
        if start.startswith(magic):
            return what
    is_plan = start.lstrip().startswith(b"{") and (b'"channel' in start or b'"chain"' in start)
    return "a plan" if is_plan else None


def starts_with(path: str | Path, magic: bytes) -> bool:
    """Whether a file has these first bytes; False if it cannot be read."""
    try:
        with Path(path).open("rb") as file:
            return file.read(len(magic)) == magic
    except OSError:
        return False


def write_whole(path: Path, content: bytes, *, private: bool = False) -> None:
    """Replace a file's content at once; ``private`` keeps it readable by its owner alone."""
    with whole_file(path, private=private) as file:
        file.write(content)


def open_lock(path: Path) -> int:
    """Open the lock file next to a file and return its handle; only its owner can read a new one.

    In a folder that others may write to, the lock file may have been planted. So no symbolic link is
    followed, and the lock must be a plain file of this user or of the folder's owner. On Windows links
    need a privilege, and a file's owner is left to the folder's access rights.
    """
    lock = path.with_name(path.name + ".lock")
    planted = KeyveilError(f"the lock file {lock} is no plain file of your own; remove it")
    try:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise planted from None
        raise
    facts = os.fstat(handle)
    foreign = False
    if sys.platform != "win32":
        foreign = facts.st_uid not in (os.geteuid(), lock.parent.stat().st_uid)
    if foreign or not stat.S_ISREG(facts.st_mode) or lock.is_symlink():
        os.close(handle)
        raise planted
    return handle


if sys.platform == "win32":
    import msvcrt
    from time import sleep

    def take_lock(handle: int, *, wait: bool = True) -> bool:
        """Lock an open lock file for this handle alone; False if another has it and we do not wait."""
        while True:
            os.lseek(handle, 0, os.SEEK_SET)
            try:
                msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
            except OSError:
                if not wait:
                    return False
                sleep(0.01)
            else:
                return True

    def release_lock(handle: int) -> None:
        """Give a lock back."""
        os.lseek(handle, 0, os.SEEK_SET)
        msvcrt.locking(handle, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def take_lock(handle: int, *, wait: bool = True) -> bool:
        """Lock an open lock file for this handle alone; False if another has it and we do not wait."""
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except OSError:
            if wait:
                raise
            return False
        return True

    def release_lock(handle: int) -> None:
        """Give a lock back, also for a process that was forked meanwhile and shares the handle."""
        fcntl.flock(handle, fcntl.LOCK_UN)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Let one process at a time work on a file, by a lock file next to it."""
    handle = open_lock(path)
    try:
        take_lock(handle)
        try:
            yield
        finally:
            release_lock(handle)
    finally:
        os.close(handle)


def same_file(path: Path, other: Path) -> bool:
    """Whether two paths lead to the same file, links included; the files need not exist."""
    try:
        return path.samefile(other)
    except OSError:
        return os.path.realpath(path) == os.path.realpath(other)


def check_output(path: Path, inputs: Iterable[Path], *, replace: bool) -> None:
    """Refuse to write ``path`` over an input, over another file unless ``replace``, or nowhere.

    For the start of a command: what it would refuse at its end is refused before its work.
    """
    if any(same_file(path, source) for source in inputs):
        raise KeyveilError(f"{path} is an input of this command; write the output to another file")
    if path.is_dir():
        raise KeyveilError(f"{path} is a folder; name a file")
    if path.exists() and not path.is_file():
        raise KeyveilError(f"{path} is not a regular file; name another")
    if os.path.lexists(path) and not replace:
        raise KeyveilError(f"{path} exists; give another name, or --force to replace it")
    if not path.parent.is_dir():
        raise KeyveilError(f"cannot write {path}: there is no folder {path.parent}")
    with suppress(FileNotFoundError):
        path.lstat()  # its name may be too long
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise KeyveilError(f"cannot write {path}: files may not be created in its folder")
