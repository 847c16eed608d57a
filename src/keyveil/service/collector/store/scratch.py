"""Unnamed files next to the store, for an index that is too large for memory."""

from __future__ import annotations

import tempfile
from io import RawIOBase
from pathlib import Path
from typing import cast


class FolderScratch:
    """Creates unnamed files in a folder. Each disappears when it is closed or the process ends."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def new(self) -> RawIOBase:
        return cast(RawIOBase, tempfile.TemporaryFile(buffering=0, dir=self.folder))
