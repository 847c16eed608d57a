"""Files of reports: packed batches of one plan, block by block, with a check on each.

::

    KVREPRT1 | u32 header length | header {"kind", "plan", "width"} |
    blocks: u32 reports | u32 crc32 | codes, or u32 views then packed bits |
    u32 0 | u32 crc32 of the next eight bytes | u64 reports in all

All numbers are little-endian. A file without its last line was cut short and is refused.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import SEEK_CUR, BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from ..foundation.errors import KeyveilError, ReportError
from ..foundation.files import named, named_content, whole_file
from .report import Report, Reports, check_plan_name, json_object, same_json

if TYPE_CHECKING:
    from .plan import Plan

MAGIC = b"KVREPRT1"
LINES_AT_ONCE = 4096
MOST_REPORTS = 1 << 20
"""Maximum number of reports in a block."""


class ReportWriter:
    """Appends batches of one plan's reports to an open file."""

    def __init__(self, plan: Plan, file: BinaryIO) -> None:
        self._plan, self._file = plan, file
        self.reports = 0
        text = json.dumps(_header(plan), sort_keys=True, separators=(",", ":")).encode()
        file.write(MAGIC + len(text).to_bytes(4, "little") + text)

    def add(self, batch: Reports) -> None:
        """Write a batch, in blocks."""
        check_plan_name(batch.plan, self._plan.hash, "the reports belong")
        for first in range(0, len(batch), MOST_REPORTS):
            part = batch[first : first + MOST_REPORTS]
            self._block(len(part), self._plan.packing.block(part))
        self.reports += len(batch)

    def _block(self, count: int, payload: bytes) -> None:
        self._file.write(count.to_bytes(4, "little") + zlib.crc32(payload).to_bytes(4, "little"))
        self._file.write(payload)

    def close(self) -> None:
        """Write the end, without which the file counts as cut short."""
        self._block(0, self.reports.to_bytes(8, "little"))


@contextmanager
def writing(plan: Plan, path: str | Path) -> Iterator[ReportWriter]:
    """A file of reports that appears under its name only when it is complete."""
    with whole_file(Path(path)) as file:
        writer = ReportWriter(plan, file)
        yield writer
        writer.close()


def reading(plan: Plan, path: str | Path) -> Iterator[Reports]:
    """Read a file batch by batch, with one block in memory; lines of JSON reports are read, too."""
    try:
        with named(path), Path(path).open("rb") as file:
            start = file.read(1 << 12)
            if (what := named_content(start)) not in (None, "a file of reports", "an empty file"):
                raise ReportError(f"this is {what}, not a file of reports")
            file.seek(0)
            if file.read(len(MAGIC)) == MAGIC:
                yield from _blocks(plan, file)
            else:
                file.seek(0)
                yield from _lines(plan, file)
    except OSError as error:
        raise KeyveilError(f"cannot read the reports {path}: {error.strerror}") from None


def parse(plan: Plan, content: bytes) -> Iterator[Reports]:
    """The batches of a packed file's bytes."""
    file = BytesIO(content)
    if file.read(len(MAGIC)) != MAGIC:
        raise ReportError("this is no packed file of reports")
    yield from _blocks(plan, file)


def block_places(plan: Plan, path: str | Path) -> list[tuple[int, int]]:
    """Where each block of a packed file begins, and its number of reports. No block is read."""
    places: list[tuple[int, int]] = []
    total = 0
    with named(path), Path(path).open("rb") as file:
        file.seek(len(MAGIC))
        width = _read_header(plan, file)
        while True:
            place = file.tell()
            count, check = _block_start(file)
            if count == 0:
                _check_end(file, check, total)
                return places
            places.append((place, count))
            total += count
            file.seek(count * width, SEEK_CUR)


def read_blocks(plan: Plan, path: str | Path, place: int, blocks: int) -> Iterator[Reports]:
    """Read some blocks of a packed file, from the one that begins at ``place``."""
    with named(path), Path(path).open("rb") as file:
        file.seek(place)
        for _ in range(blocks):
            yield _block(plan, file, *_block_start(file))


def _blocks(plan: Plan, file: BinaryIO) -> Iterator[Reports]:
    _read_header(plan, file)
    total = 0
    while True:
        count, check = _block_start(file)
        if count == 0:
            _check_end(file, check, total)
            return
        total += count
        yield _block(plan, file, count, check)


def _block_start(file: BinaryIO) -> tuple[int, int]:
    """The number of reports in a block, and its check sum."""
    count, check = (int.from_bytes(_exactly(file, 4), "little") for _ in range(2))
    if count > MOST_REPORTS:
        raise ReportError("the file of reports is broken: a block is too large")
    return count, check


def _block(plan: Plan, file: BinaryIO, count: int, check: int) -> Reports:
    payload = _exactly(file, count * plan.packing.width)
    if zlib.crc32(payload) != check:
        raise ReportError("the file of reports is broken: a block does not match its check")
    return plan.packing.from_block(payload)


def _check_end(file: BinaryIO, check: int, total: int) -> None:
    end = _exactly(file, 8)
    if zlib.crc32(end) != check:
        raise ReportError("the file of reports is broken: a block does not match its check")
    if total != int.from_bytes(end, "little") or file.read(1):
        raise ReportError("the file of reports is broken: its end does not match")


def _header(plan: Plan) -> dict[str, int | str]:
    """The header of a plan's files: the kind of blocks, the plan, and the bytes of one report."""
    return {"kind": plan.packing.kind, "plan": plan.hash, "width": plan.packing.width}


def _read_header(plan: Plan, file: BinaryIO) -> int:
    """Read the header; the bytes of one report. Every member must be the plan's."""
    size = int.from_bytes(_exactly(file, 4), "little")
    header = json_object(_exactly(file, min(size, 4096)))
    if header is None:
        raise ReportError("the file of reports is broken: its header cannot be read")
    check_plan_name(header.get("plan"), plan.hash, "the reports belong")
    if not same_json(header, _header(plan)):
        raise ReportError("the file of reports is broken: its header does not fit the plan")
    return int(header["width"])


def _exactly(file: BinaryIO, size: int) -> bytes:
    content = file.read(size)
    if len(content) != size:
        raise ReportError("the file of reports was cut short; make or fetch it again")
    return content


def _lines(plan: Plan, file: BinaryIO) -> Iterator[Reports]:
    """One JSON report a line, as devices send them."""
    packing = plan.packing
    ready: list[tuple[int, ...]] = []
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        if not ready and not line.lstrip().startswith(b"{"):
            raise ReportError("this is not a file of reports; keyveil privatise makes one")
        try:
            report = Report.parse(line)
            packing.check(report)
        except ReportError as error:
            raise ReportError(f"line {number} of the reports: {error}") from None
        ready.append(report.cells)
        if len(ready) == LINES_AT_ONCE:
            yield packing.batch_of(ready)
            ready = []
    if ready:
        yield packing.batch_of(ready)
