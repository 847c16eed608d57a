"""The state of a running tally: the total after each batch, whole on disk, next to Spark's checkpoint.

A batch that runs again finds its own total and is not added twice. A folder that has lost only its
checkpoint, or only its totals, is refused, because batches would be counted twice or lost.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...foundation.coins import fresh_bytes
from ...foundation.errors import KeyveilError
from ...foundation.files import write_whole
from ..plan import Plan
from ..tally import Tally

LATEST = "tally.kv"
MARK = "mark"
"""The file by which a server of Spark Connect shows that it sees the folder of the client."""
REJECTED = "rejected.json"


class StreamState:
    """The totals of a running tally in a folder of their own."""

    def __init__(self, folder: str | Path, plan: Plan) -> None:
        self.folder, self.plan = Path(folder), plan
        self.folder.mkdir(parents=True, exist_ok=True)
        self.checkpoint = self.folder / "checkpoint"
        self._mark: str | None = None

    def mark(self) -> None:
        """Mark the folder anew. A copy of this state adds nothing in a folder without its mark."""
        self._mark = fresh_bytes(16).hex()
        write_whole(self.folder / MARK, self._mark.encode())

    def check_mark(self) -> None:
        """Refuse a folder of the same name on another machine, and one that a later start has marked."""
        if self._mark is None:
            return
        try:
            seen = (self.folder / MARK).read_text()
        except OSError:
            seen = ""
        if seen != self._mark:
            raise KeyveilError(
                f"the server of Spark Connect sees another folder {self.folder} than this machine, or a "
                "later start counts there; name a folder on storage that both see under one path"
            )

    def check(self) -> None:
        """Refuse a folder whose checkpoint and totals do not belong together."""
        counted = self.batch
        committed = max((int(p.name) for p in self._notes("commits")), default=-1)
        planned = max((int(p.name) for p in self._notes("offsets")), default=-1)
        if counted > planned:
            raise KeyveilError(
                f"{self.folder} has totals that its checkpoint does not know of, so reports would count "
                "twice; bring the checkpoint back, or name a new folder"
            )
        if committed > counted:
            raise KeyveilError(
                f"{self.folder} lacks the total of batch {committed}, so reports would be lost; bring "
                "it back, or name a new folder"
            )
        _ = self.tally  # of another plan, or broken: refused here

    def _notes(self, kind: str) -> list[Path]:
        return [path for path in (self.checkpoint / kind).glob("*") if path.name.isdigit()]

    @property
    def batch(self) -> int:
        """The number of the last batch that was added; -1 if there is none."""
        return max((int(path.stem.partition("-")[2]) for path in self._totals()), default=-1)

    def _totals(self) -> list[Path]:
        return list(self.folder.glob(f"total-{'[0-9]' * 12}.kv"))

    def _path(self, batch: int, ending: str) -> Path:
        return self.folder / f"total-{batch:012d}.{ending}"

    @property
    def tally(self) -> Tally:
        """The tally of all batches so far."""
        batch = self.batch
        return Tally(self.plan) if batch < 0 else Tally.load(self.plan, self._path(batch, "kv"))

    @property
    def rejected(self) -> dict[str, Any]:
        """What was left out of all batches so far: counts by reason, or reasons by file."""
        batch = self.batch
        return {} if batch < 0 else json.loads(self._path(batch, "json").read_text())

    def has(self, batch: int) -> bool:
        """Whether a batch was added before."""
        return batch <= self.batch

    def add(self, batch: int, tally: Tally, rejected: Mapping[str, int | str]) -> None:
        """Add a batch, once; its total is on disk when this returns."""
        total, left_out = self.tally + tally, self.rejected
        for reason, number in rejected.items():
            left_out[reason] = number if isinstance(number, str) else left_out.get(reason, 0) + number
        text = json.dumps(left_out, indent=1, sort_keys=True).encode() + b"\n"
        write_whole(self._path(batch, "json"), text)
        total.save(self._path(batch, "kv"))  # from here on the batch counts as added
        write_whole(self.folder / REJECTED, text)
        total.save(self.folder / LATEST)
        for path in self._totals():
            if int(path.stem.partition("-")[2]) < batch - 1:
                with suppress(FileNotFoundError):
                    path.with_suffix(".json").unlink()
                    path.unlink()
