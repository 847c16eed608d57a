"""The keys for the ids of open epochs: one file each, outside the database.

The store holds no id, only its image under AES with a key of the epoch. The key is destroyed when the
epoch is sealed. So it does not matter what a database leaves behind in its files, its log or its copies.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ....foundation.coins import fresh_bytes
from ....foundation.files import write_whole
from ....plan.report import is_hex
from .packed_ids import SIZE, PackedIds
from .seen_ids import id_cipher
from .segments import make_folder, sync

FOLDER = "keys"
"""Subfolder of the folder of segments."""


class KeyFolder:
    """Files of keys. A file is named by a hash of its key, so a wrong or damaged key is never used."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, name: str) -> Path:
        """The file of a key."""
        if not is_hex(name, 32):
            raise ValueError("a key is named by 32 hexadecimal digits")
        return self.folder / f"{name}.key"

    def make(self) -> tuple[str, bytes]:
        """Create a key on disk; its name and the key."""
        key = fresh_bytes(SIZE)
        name = name_of(key)
        make_folder(self.folder)
        write_whole(self.path(name), key, private=True)
        return name, key

    def read(self, name: str) -> bytes | None:
        """A key by its name; None if it is missing or does not match its name."""
        try:
            key = self.path(name).read_bytes()
        except (OSError, ValueError):
            return None
        return key if name_of(key) == name else None

    def names(self) -> set[str]:
        """The names of all keys in the folder; empty if the folder is missing."""
        with suppress(OSError):
            names = {path.stem for path in self.folder.iterdir() if path.suffix == ".key"}
            return {name for name in names if is_hex(name, 32)}
        return set()

    def destroy(self, name: str) -> bool:
        """Overwrite a key and delete its file; False if there is none."""
        try:
            handle = os.open(self.path(name), os.O_WRONLY | os.O_NOFOLLOW)
        except (OSError, ValueError):
            return False
        try:
            os.write(handle, bytes(SIZE))
            os.fsync(handle)
        finally:
            os.close(handle)
        with suppress(FileNotFoundError):  # another process was faster
            self.path(name).unlink()
        sync(self.folder)
        return True


def name_of(key: bytes) -> str:
    """The name of a key. It reveals nothing about the key."""
    return hashlib.sha256(b"keyveil/id-key/1" + key).hexdigest()[:32]


class Images:
    """The map from ids to stored images. It is a permutation, so distinct ids have distinct images."""

    def __init__(self, key: bytes) -> None:
        self._cipher = id_cipher(key)

    def of(self, ids: Sequence[bytes]) -> PackedIds:
        """The images of ids."""
        return PackedIds(self._cipher.update(PackedIds.of(ids).packed))
