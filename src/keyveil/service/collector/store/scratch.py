"""Files without a name beside the store, for an index that is too large for memory."""

from __future__ import annotations

import tempfile
from io import RawIOBase
from pathlib import Path
from typing import cast


class FolderScratch:
    """Makes files in a folder; each is gone when it is closed, or when the process ends."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def new(self) -> RawIOBase:
        return cast(RawIOBase, tempfile.TemporaryFile(buffering=0, dir=self.folder))
