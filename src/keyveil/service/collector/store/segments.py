"""Sealed epochs: Parquet files of reports without ids, and a manifest next to them.

Rows are sorted, so that their order does not show when a report arrived. ``keyveil verify`` and any
engine that reads Parquet can count them again.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from ....foundation.arrays import Bits
from ....foundation.errors import KeyveilError, ReportError
from ....foundation.files import whole_file, write_whole
from ....plan.packing import Packing
from ....plan.plan import Plan
from ....plan.report import Reports, check_plan_name, is_hex
from ....plan.tally import Tally
from .collection import Collection, Round, checked_name

FORMAT = "keyveil/segments/1"
MANIFEST = "manifest.json"
PART_BYTES = 64 << 20
"""Approximate size of the packed rows in one file."""
GROUP_ROWS = 1 << 20
"""Maximum number of reports that a file packs together."""
READ_ROWS = 1 << 18
"""Number of reports read at a time."""
_PART = re.compile(r"part-[0-9]{4,9}\.parquet")


class ManifestError(KeyveilError):
    """A manifest that keyveil did not write."""


def folder_of(
    root: Path, collection: Collection, round_: Round | None = None, epoch: int | None = None
) -> Path:
    """The folder of an epoch's files, of a round, or of a collection.

    It contains the collection's number, so a deleted collection of the same name has another folder. The
    name is checked here too, because a restored store may hold any name.
    """
    path = root / f"{checked_name(collection.name)}.{collection.id:d}"
    if round_ is not None:
        path = path / f"round-{round_.number:04d}"
    return path if epoch is None else path / f"epoch-{epoch:010d}"


def write_epoch(
    folder: Path, facts: Mapping[str, Any], plan: Plan, payloads: Iterable[bytes]
) -> tuple[dict[str, Any], Tally]:
    """Write an epoch's reports and its manifest; the manifest, and the tally of what was written."""
    make_folder(folder)
    packing, tally = plan.packing, Tally(plan)
    files = []
    for number, rows in enumerate(_parts(packing, payloads), 1):
        path = folder / f"part-{number:04d}.parquet"
        _write_part(path, packing, rows)
        for part in read_part(path, packing, len(rows)):
            tally.add(part)  # what is counted is what can be read again
        files.append({"name": path.name, "reports": len(rows), **_stamp(path)})
    manifest = {
        "format": FORMAT,
        **facts,
        "plan": plan.hash,
        "kind": packing.kind,
        "reports": tally.reports,
        "files": files,
    }
    content = json.dumps(manifest, indent=1, sort_keys=True).encode()
    write_whole(folder / MANIFEST, content, private=True)
    return manifest, tally


def make_folder(folder: Path) -> None:
    """Create a private folder and its parents, durably."""
    for path in (*reversed(folder.parents), folder):
        path.mkdir(mode=0o700, exist_ok=True)
    for above in list(folder.parents)[:4]:  # round, collection, segments, and where those lie
        with suppress(PermissionError):
            sync(above)


def sync(path: Path) -> None:
    """Write a file, or the entries of a folder, to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _parts(packing: Packing, payloads: Iterable[bytes]) -> Iterator[Bits]:
    waiting: list[bytes] = []
    size = 0
    for payload in payloads:
        waiting.append(payload)
        size += len(payload)
        if size >= PART_BYTES:
            yield packing.rows(b"".join(waiting))
            waiting, size = [], 0
    if waiting:
        yield packing.rows(b"".join(waiting))


def _write_part(path: Path, packing: Packing, rows: Bits) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    batch = packing.reports(rows)
    if batch.codes is not None:
        columns = {"code": pa.array(np.sort(batch.codes))}
    else:
        order = np.argsort(np.ascontiguousarray(rows).view(f"S{packing.width}")[:, 0])
        batch = packing.reports(rows[order])
        assert batch.views is not None
        assert batch.bits is not None
        kind = pa.binary(packing.bits_width)
        bits = pa.FixedSizeBinaryArray.from_buffers(
            kind, len(rows), [None, pa.py_buffer(batch.bits.tobytes())]
        )
        columns = {"view": pa.array(batch.views.astype(np.uint32)), "bits": bits}
    table = pa.table(columns).replace_schema_metadata(
        {"format": FORMAT, "plan": packing.plan_hash, "kind": packing.kind}
    )
    with whole_file(path, private=True) as file:
        pq.write_table(table, file, compression="zstd", row_group_size=GROUP_ROWS)


def read_part(path: Path, packing: Packing, most: int | None = None) -> Iterator[Reports]:
    """The reports of one file, some at a time.

    It is refused if it belongs to another plan, has other columns or more than ``most`` reports, or
    cannot be read. A file from elsewhere may unpack to any size, so its own statement of its size is
    checked before anything is unpacked.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            metadata = file.schema_arrow.metadata or {}
            check_plan_name(metadata.get(b"plan", b"").decode(), packing.plan_hash, "a segment belongs")
            _check_shape(path, file, packing, most)
            for batch in file.iter_batches(READ_ROWS):
                yield _reports_of(batch, packing)
    except (OSError, pa.ArrowException, KeyError, ValueError) as error:
        if isinstance(error, ReportError):
            raise
        raise ReportError(f"the segment {path.name} cannot be read: {type(error).__name__}") from None


def _columns(packing: Packing) -> Any:
    """The columns of a segment, with their types."""
    import pyarrow as pa

    if packing.one_cell:
        return pa.schema([("code", pa.from_numpy_dtype(packing.layout.code_type))])
    return pa.schema([("view", pa.uint32()), ("bits", pa.binary(packing.bits_width))])


def _check_shape(path: Path, file: Any, packing: Packing, most: int | None) -> None:
    """Refuse a file whose columns, number of rows or unpacked size no segment has."""
    if not file.schema_arrow.equals(_columns(packing), check_metadata=False):
        raise ReportError(f"the segment {path.name} has other columns than the plan's reports")
    facts = file.metadata
    if most is not None and facts.num_rows != most:
        raise ReportError(
            f"the segment {path.name} has another number of reports than its manifest says"
        )
    for group in map(facts.row_group, range(facts.num_row_groups)):
        sizes = [group.column(at).total_uncompressed_size for at in range(facts.num_columns)]
        if group.num_rows > GROUP_ROWS or sum(sizes) > GROUP_ROWS * (packing.width + 8):
            raise ReportError(f"the segment {path.name} unpacks to more than its reports")


def _reports_of(batch: Any, packing: Packing) -> Reports:
    """Rows of a segment as reports."""
    if any(column.null_count for column in batch.columns):
        raise ReportError("a segment has rows without a value")
    if packing.one_cell:
        return Reports(packing.plan_hash, codes=batch.column("code").to_numpy(zero_copy_only=False))
    views = batch.column("view").to_numpy(zero_copy_only=False).astype(np.int64)
    bits = batch.column("bits")
    rows = np.frombuffer(bits.buffers()[1], np.uint8)[bits.offset * packing.bits_width :]
    rows = rows[: len(bits) * packing.bits_width].reshape(-1, packing.bits_width)
    return Reports(packing.plan_hash, views=views, bits=rows)


def files_of(manifest: object) -> list[dict[str, Any]]:
    """The files in a manifest, each with its size and hash.

    Only names that ``write_epoch`` uses are accepted, so none leads out of the epoch's folder.
    """
    files = manifest.get("files") if isinstance(manifest, dict) else None
    if not isinstance(files, list):
        raise ManifestError("a manifest of a sealed epoch must list its files")
    for file in files:
        name = file.get("name") if isinstance(file, dict) else None
        if not isinstance(name, str) or not _PART.fullmatch(name):
            raise ManifestError("a manifest names a file that no segment has: part-0001.parquet is one")
        if type(file.get("bytes")) is not int or not is_hex(file.get("sha256"), 64):
            raise ManifestError("a manifest has no size or no SHA-256 of a file")
    if len({file["name"] for file in files}) < len(files):
        raise ManifestError("a manifest names a file twice")
    return files


def check_files(folder: Path, manifest: Mapping[str, Any]) -> list[str]:
    """What is wrong with an epoch's files; empty if they match the manifest."""
    wrong = []
    for file in files_of(manifest):
        path = folder / file["name"]
        if not path.is_file():
            wrong.append(f"{file['name']} is missing")
        elif _stamp(path) != {"bytes": file["bytes"], "sha256": file["sha256"]}:
            wrong.append(f"{file['name']} does not match its check")
    return wrong


def remove(folder: Path) -> None:
    """Delete the files of an epoch or a collection."""
    shutil.rmtree(folder, ignore_errors=True)


def _stamp(path: Path) -> dict[str, Any]:
    return {"bytes": path.stat().st_size, "sha256": hash_of(path)}


def hash_of(path: Path) -> str:
    """The SHA-256 of a file in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
