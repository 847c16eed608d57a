"""Batches of reports in the body of a request: decode them, and check each report against its plan.

A batch is JSON or has this compact binary form::

    KVBATCH1 | plan's hash, 32 bytes | u32 epoch | u32 reports | reports: id, 16 bytes, row
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

import msgspec
import numpy as np

from ....foundation.coins import fresh_bytes
from ....plan.packing import Packing
from ..process.problems import Problem
from ..store.collection import MOST_EPOCH
from .body_faults import fault_in

JSON = "application/json"
BINARY = "application/vnd.keyveil.batch"
MAGIC = b"KVBATCH1"
_HEAD = 48

Hash = Annotated[str, msgspec.Meta(min_length=64, max_length=64, pattern="^[0-9a-f]{64}$")]
Id = Annotated[str, msgspec.Meta(min_length=32, max_length=32, pattern="^[0-9a-f]{32}$")]
Epoch = Annotated[int, msgspec.Meta(ge=0, le=MOST_EPOCH)]
Cell = Annotated[int, msgspec.Meta(ge=0, le=(1 << 24) + 1)]


class WireReport(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """One report: its id, drawn once, and the cells it marks, its view's own cell first."""

    id: Id
    cells: Annotated[list[Cell], msgspec.Meta(min_length=1)]


class WireBatch(msgspec.Struct, forbid_unknown_fields=True):
    """Reports of one plan and one epoch."""

    plan: Hash
    epoch: Epoch
    reports: Annotated[list[WireReport], msgspec.Meta(min_length=1)]


class SingleReport(msgspec.Struct, forbid_unknown_fields=True):
    """One report as ``Report.dumps`` gives it. It counts in the present epoch; without an id, each time
    that it is sent."""

    format: Literal["keyveil/report/1"]
    plan: Hash
    cells: Annotated[list[Cell], msgspec.Meta(min_length=1)]
    id: Id | None = None


class _Report(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """As ``WireReport``. Ids are checked all at once, which is faster."""

    id: str
    cells: list[int]


class _Batch(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    plan: str
    epoch: Epoch
    reports: list[_Report]


_decoder = msgspec.json.Decoder(_Batch)
_single_decoder = msgspec.json.Decoder(SingleReport)


@dataclass(slots=True)
class Batch:
    """Reports of one plan and epoch, decoded but not yet checked against the plan."""

    plan: str
    epoch: int
    count: int
    ids: bytes
    cells: list[list[int]] | None = None
    body: bytes = b""
    named: bool = True
    """Whether the sender named the ids. Then sending the batch again changes nothing."""


NOW = -1
"""The epoch of a batch that names none; the receiver fills in the current one."""


@dataclass(slots=True)
class Packed:
    """What a plan admits of a batch, and the places of what it does not."""

    ids: bytes
    rows: bytes
    count: int
    impossible: list[int] = field(default_factory=list)


def decode_json(body: bytes, most: int) -> Batch:
    """A JSON batch, or a report alone; a problem that names what is wrong, never what was sent."""
    try:
        read = _decoder.decode(body)
    except (ValueError, RecursionError):
        return _decode_single(body)
    count = len(read.reports)
    _check_count(count, most)
    names = "".join([report.id for report in read.reports])
    try:
        ids = bytes.fromhex(names)
    except ValueError:
        ids = b""
    if len(ids) != 16 * count or ids.hex() != names or any(len(r.id) != 32 for r in read.reports):
        raise Problem("malformed", "a report's id must have 32 hexadecimal digits")
    return Batch(read.plan, read.epoch, count, ids, [report.cells for report in read.reports])


def _decode_single(body: bytes) -> Batch:
    try:
        read = _single_decoder.decode(body)
    except (ValueError, RecursionError):
        # msgspec's errors are ValueErrors; their text may quote, so it is not passed on
        raise Problem("malformed", _fault_in(body)) from None
    name = fresh_bytes(16) if read.id is None else bytes.fromhex(read.id)
    return Batch(read.plan, NOW, 1, name, [read.cells], named=read.id is not None)


def _fault_in(body: bytes) -> str:
    """What is wrong with a body that is neither a batch nor a report alone."""
    if b'"reports"' in body or b'"epoch"' in body:
        return fault_in(body, WireBatch) or "the body cannot be read"
    if b'"cells"' in body or b'"format"' in body:
        return fault_in(body, SingleReport) or "the body cannot be read"
    return "the body must be a JSON batch of plan, epoch and reports, or a single report"


def decode_binary(body: bytes, most: int) -> Batch:
    """A binary batch; the rows are looked at when the plan is known."""
    if len(body) < _HEAD or body[:8] != MAGIC:
        raise Problem("malformed", "the body is not a binary batch of reports")
    epoch = int.from_bytes(body[40:44], "little")
    count = int.from_bytes(body[44:48], "little")
    _check_count(count, most)
    if len(body) < _HEAD + count * (16 + 1):
        raise Problem("malformed", "the batch is not as long as its reports")
    if epoch > MOST_EPOCH:
        raise Problem("malformed", "the batch has no such epoch")
    return Batch(body[8:40].hex(), epoch, count, b"", None, body)


def encode_binary(plan: str, epoch: int, ids: bytes, rows: bytes) -> bytes:
    """A binary batch of concatenated ids and concatenated packed rows."""
    count = len(ids) // 16
    width = len(rows) // count if count else 0
    parts = np.concatenate(
        [
            np.frombuffer(ids, np.uint8).reshape(count, 16),
            np.frombuffer(rows, np.uint8).reshape(count, width),
        ],
        axis=1,
    )
    head = MAGIC + bytes.fromhex(plan) + epoch.to_bytes(4, "little") + count.to_bytes(4, "little")
    return head + parts.tobytes()


def pack(batch: Batch, packing: Packing) -> Packed:
    """What the plan admits, as rows."""
    if batch.cells is not None:
        return _pack_cells(batch, batch.cells, packing)
    size = 16 + packing.width
    if len(batch.body) != _HEAD + batch.count * size:
        raise Problem("malformed", "the batch is not as long as its reports")
    parts = np.frombuffer(batch.body, np.uint8, offset=_HEAD).reshape(batch.count, size)
    ids, rows = parts[:, :16], parts[:, 16:]
    batch.ids = ids.tobytes()
    good = packing.admitted(rows)
    if good.all():
        return Packed(batch.ids, rows.tobytes(), batch.count)
    bad = np.flatnonzero(~good).tolist()
    return Packed(ids[good].tobytes(), rows[good].tobytes(), batch.count - len(bad), bad)


def _pack_cells(batch: Batch, cells: list[list[int]], packing: Packing) -> Packed:
    rows = [packing.row(marked) for marked in cells]
    if None not in rows:
        return Packed(batch.ids, b"".join(rows), batch.count)  # type: ignore[arg-type]
    bad = [place for place, row in enumerate(rows) if row is None]
    good = [place for place, row in enumerate(rows) if row is not None]
    ids = b"".join([batch.ids[16 * place : 16 * place + 16] for place in good])
    return Packed(ids, b"".join([row for row in rows if row is not None]), len(good), bad)


def _check_count(count: int, most: int) -> None:
    if count == 0:
        raise Problem("malformed", "a batch has at least one report")
    if count > most:
        raise Problem("too_many", f"a request carries at most {most} reports")
