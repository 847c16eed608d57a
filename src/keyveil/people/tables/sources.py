"""Open a path, a frame or a stream as a table that has the required columns."""

from __future__ import annotations

import codecs
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...foundation.errors import TableError
from ...foundation.files import named_content
from .delimiters import cells_of, delimiter_of
from .frames import (
    BATCH,
    Batch,
    Columns,
    Frame,
    RowStream,
    Source,
    arrow,
    of_file,
    readable,
    slices,
    unbroken,
)
from .text_tables import JsonLines, Separated


def open_source(source: Any, columns: Columns) -> Source:
    """The table behind a path, a frame or a stream, checked to have the columns."""
    arrow()
    if isinstance(source, Source):
        return source
    if isinstance(source, str | Path):
        with of_file(source):
            return _file(Path(source), columns)
    if hasattr(source, "collect_schema") and hasattr(source, "collect"):  # a Polars LazyFrame
        with unbroken("the lazy frame cannot be collected"):
            columns.check(source.collect_schema().names())
            source = source.select(columns.names).collect()
    if hasattr(source, "to_frame") and not hasattr(source, "columns"):
        raise TableError(
            f"a {type(source).__name__} is one column; pass a frame with the columns "
            f"{', '.join(columns.names)}"
        )
    if not hasattr(source, "__arrow_c_stream__"):
        raise TableError(
            f"cannot read a {type(source).__name__} as a table; give a path, an Arrow, pandas or "
            "Polars frame, or a SciPy sparse matrix"
        )
    return Frame(source, columns) if hasattr(source, "__len__") else RowStream(source, columns)


def _file(path: Path, columns: Columns) -> Source:
    try:
        with path.open("rb") as file:
            start = file.read(_START)
    except OSError as error:
        raise TableError(f"cannot read {path}: {error.strerror}") from None
    if not start.strip():
        raise TableError(f"{path} is empty; a table has at least its column names")
    form = _form_by_content(path, start, columns) or _form_by_ending(path, start)
    return form(path, columns)


def _form_by_content(path: Path, start: bytes, columns: Columns) -> Any:
    """The reader for a file whose first bytes tell its format; None if they do not."""
    for magic, form in _MAGIC.items():
        if start.startswith(magic):
            return form
    if (what := named_content(start)) is not None:
        raise TableError(f"{path} is {what}, not a table of people")
    packed, ends = start.startswith(_GZIP), path.suffix.lower() == ".gz"
    if packed and not ends:
        raise TableError(f"{path} is packed by gzip; end its name in .gz")
    form = _form_of_text(path, _unpacked(start) if packed else start, columns)
    if ends and not packed and form is not None:
        raise TableError(f"{path} is not packed; take .gz off its name")
    return form


def _form_of_text(path: Path, start: bytes, columns: Columns) -> Any:
    """The reader for text that begins as JSON or with a line that names the columns; None otherwise."""
    text = start.removeprefix(codecs.BOM_UTF8).lstrip()
    if text.startswith(b"["):
        raise TableError(f"{path} is one JSON list; write each row as an object on its own line")
    if text.startswith(b"{"):
        return JsonLines
    first = next(iter(text.decode("utf-8", "replace").splitlines()), "")
    there = {cell.strip() for cell in cells_of(first, delimiter_of(first, columns.names))}
    return Separated if there.issuperset(columns.names) else None


def _unpacked(start: bytes) -> bytes:
    """The beginning of a gzip file, decompressed; empty if it is damaged."""
    try:
        return zlib.decompressobj(wbits=31).decompress(start, _START)
    except zlib.error:
        return b""


def _form_by_ending(path: Path, start: bytes) -> Any:
    """The reader by the file's ending. Text with an unknown ending is read as cells."""
    packed = path.suffix.lower() == ".gz"
    ending = Path(path.stem).suffix.lower() if packed else path.suffix.lower()
    known = _TEXT if packed else _TEXT | _BINARY
    if ending not in known and (packed or b"\0" in start):
        raise TableError(
            f"cannot tell what {path} is; known: {', '.join(_TEXT | _BINARY)}, "
            f"and .gz after {', '.join(_TEXT)}"
        )
    return known.get(ending, Separated)


class _Parquet(Source):
    """A Parquet file, read a few pages at a time."""

    def __init__(self, path: Path, columns: Columns) -> None:
        self._path, self._columns = path, columns
        with readable(path), self._opened() as file:
            columns.check(file.schema_arrow.names)

    def _opened(self, **options: Any) -> Any:
        return arrow("parquet").ParquetFile(self._path, buffer_size=1 << 20, pre_buffer=False, **options)

    def batches(self, *, persons_only: bool = False) -> Iterator[Batch]:
        names = self._columns.read(persons_only)
        with readable(self._path), self._opened(read_dictionary=[self._columns.key]) as file:
            yield from file.iter_batches(batch_size=BATCH, columns=names)


class _Ipc(Source):
    """An Arrow IPC file or stream, memory-mapped."""

    def __init__(self, path: Path, columns: Columns) -> None:
        self._path, self._columns = path, columns
        with readable(path), arrow().memory_map(str(path)) as file:
            self._names = self._opened(file, None).schema.names
        columns.check(self._names)

    @staticmethod
    def _opened(file: Any, fields: list[int] | None) -> Any:
        ipc = arrow("ipc")
        options = ipc.IpcReadOptions(included_fields=fields)
        try:
            return ipc.open_file(file, options=options)
        except arrow().ArrowInvalid:
            file.seek(0)
            return ipc.open_stream(file, options=options)

    def batches(self, *, persons_only: bool = False) -> Iterator[Batch]:
        fields = [self._names.index(name) for name in self._columns.read(persons_only)]
        with readable(self._path), arrow().memory_map(str(self._path)) as file:
            reader = self._opened(file, fields)
            if hasattr(reader, "get_batch"):
                reader = map(reader.get_batch, range(reader.num_record_batches))
            for batch in reader:
                yield from slices(batch)


_TEXT: dict[str, Any] = dict.fromkeys((".csv", ".tsv"), Separated)
_TEXT |= dict.fromkeys((".jsonl", ".ndjson"), JsonLines)
_BINARY: dict[str, Any] = {".parquet": _Parquet, ".arrow": _Ipc, ".feather": _Ipc}
_MAGIC: dict[bytes, Any] = {b"PAR1": _Parquet, b"ARROW1": _Ipc}
"""The first bytes of binary formats."""
_GZIP = b"\x1f\x8b"
_START = 1 << 12
"""Number of first bytes that decide the format."""
