"""Frames and streams as Arrow batches of the three columns, with one-line errors."""

from __future__ import annotations

import re
import zlib
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...foundation.arrays import Floats
from ...foundation.errors import KeyveilError, TableError, nearest
from ...foundation.key_names import key_name
from .arrow_library import arrow as arrow
from .delimiters import DELIMITERS

BATCH = 1 << 16
"""Number of rows in a batch."""

MOST_NAMES = 20
"""Maximum number of columns that an error lists."""

NOT_UTF_8 = "{} is not UTF-8 text; save it as UTF-8"

Batch = Any
"""A ``pyarrow.RecordBatch``. Pyarrow has no types and is imported at first use."""


@dataclass(frozen=True)
class Columns:
    """The columns of the person, the key and, if values are read, the value."""

    person: str
    key: str
    value: str | None
    lenient: bool = False
    """Whether text in the column of values counts as a missing value."""

    def __post_init__(self) -> None:
        if len(set(self.names)) != len(self.names):
            raise TableError("person, key and value must be different columns")

    @property
    def names(self) -> list[str]:
        """The columns to read."""
        return [self.person, self.key] + ([] if self.value is None else [self.value])

    def check(self, there: Sequence[object], *, text: bool = False) -> None:
        """Refuse a table that lacks a column or has it twice.

        The first line of a ``text`` file may be a person's row. It is shown only if no cell of it is
        empty or contains a digit.
        """
        listed = [str(name) for name in there]
        for name in self.names:
            if listed.count(name) > 1:
                raise TableError(f"column {name!r} is in the table twice; name each column once")
            if name in listed:
                continue
            if text and not all(other and not any(map(str.isdigit, other)) for other in listed):
                raise TableError(
                    f"column {name!r} is not in the table; its first line must name the columns"
                )
            more = len(listed) - MOST_NAMES
            shown = ", ".join(listed[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
            near = nearest(name, listed)
            hint = "" if near is None else f"did you mean {near!r}? "
            if text and len(listed) == 1 and all(wanted in listed[0] for wanted in self.names):
                hint = f"{', '.join(DELIMITERS.values())} are the known delimiters; "
            raise TableError(
                f"column {name!r} is not in the table; {hint}it has: {shown or 'no columns'} "
                f"({self._role(name)}= or --{self._role(name)} names another column)"
            )

    def _role(self, name: str) -> str:
        """What a column is for, as options call it."""
        return {self.person: "person", self.key: "key"}.get(name, "value")

    def read(self, persons_only: bool) -> list[str]:
        """The columns to read, or only that of people."""
        return [self.person] if persons_only else self.names


def numbers_of(column: Any) -> Floats | None:
    """A column as doubles, NaN for empty cells; None if it holds something else than numbers."""
    pa, types, kind = arrow(), arrow().types, column.type
    if types.is_null(kind):
        return np.full(len(column), np.nan)
    if not (types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)):
        return None
    return np.asarray(column.cast(pa.float64(), safe=False).fill_null(np.nan).to_numpy(), np.float64)


class Source(ABC):
    """A table that can be read from its start; more than once, unless ``once`` is true."""

    once = False
    held = False
    """Whether the table is in memory."""
    untyped = False
    """Whether all cells are text, so that a person's number must be recognised by its form."""

    @abstractmethod
    def batches(self, *, persons_only: bool = False) -> Iterator[Batch]:
        """The rows in order. ``persons_only`` reads only the column of people."""

    def line_without(self, column: str, present: str | None = None) -> int | None:
        """The line of the first row without a cell in ``column``, but with one in ``present``.

        None if there is none, or if the table has no lines.
        """
        return None


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn Arrow's errors about a damaged file into one line that quotes nothing."""
    try:
        yield
    except (KeyveilError, MemoryError):
        raise
    except OSError as error:
        raise TableError(f"cannot read {path}: {error.strerror or 'it is damaged'}") from None
    except UnicodeDecodeError:
        raise TableError(NOT_UTF_8.format(path)) from None
    except (arrow().ArrowException, EOFError, ValueError, zlib.error):
        raise TableError(f"cannot read {path}: it is cut short, or not what its name says") from None


@contextmanager
def of_file(path: str | Path) -> Iterator[None]:
    """Put the table's name before an error message that does not contain it."""
    try:
        yield
    except KeyveilError as error:
        if re.search(rf"(?:^|read |what |of ){re.escape(str(path))}(?:$|[ :])", str(error)):
            raise
        raise type(error)(f"{path}: {error}") from None


class Frame(Source):
    """A frame in memory. Only its three columns are converted to Arrow."""

    held = True

    def __init__(self, source: Any, columns: Columns) -> None:
        names: list[Any] = []
        with suppress(Exception):  # a frame that cannot be narrowed is read in full
            source = flat_frame(source, columns.names)
            names = list(source.column_names if hasattr(source, "column_names") else source.columns)
            if set(columns.names) <= set(names):
                narrow = source.select if hasattr(source, "select") else source.__getitem__
                source = narrow(columns.names)
        self._table = _arrow_table(source)
        if hasattr(source, "assign") and columns.key in names and not self._has_known_keys(columns.key):
            # A pandas column of Python objects, such as numbers and text: each key has a name.
            with suppress(Exception):
                keys = source[columns.key].astype(object)
                by_name = keys.map(key_name)
                if by_name.isna().equals(keys.isna()):  # lists have no name
                    self._table = _arrow_table(source.assign(**{columns.key: by_name}))
        if self._table is None:
            columns.check(names)
            mixed = _mixed(source, names)
            raise TableError(
                f"the frame cannot be turned into Arrow columns{mixed}; give each column one type"
            )
        columns.check(self._table.column_names)
        self._table = _with_key_names(self._table, columns.key)
        self._columns = columns

    def _has_known_keys(self, key: str) -> bool:
        """Whether the frame is an Arrow table whose keys are of a type that Arrow counts."""
        if self._table is None:
            return False
        pa, kind = arrow(), self._table.schema.field(key).type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        return not (pa.types.is_nested(kind) or isinstance(kind, pa.BaseExtensionType))

    def batches(self, *, persons_only: bool = False) -> Iterator[Batch]:
        return iter(self._table.select(self._columns.read(persons_only)).to_batches(max_chunksize=BATCH))


def flat_frame(source: Any, wanted: Collection[str | None]) -> Any:
    """A pandas frame whose columns are named by text, with the wanted levels of its index as columns.

    The rest of the index is left out: it is no column. Sparse columns, which Arrow does not have, are
    filled. Any other frame is returned unchanged.
    """
    if not (hasattr(source, "reset_index") and hasattr(source, "columns")):
        return source
    source = source.set_axis([key_name(name) or str(name) for name in source.columns], axis=1)
    levels = [name for name in source.index.names if name is not None and name in wanted]
    if levels:
        source = source.reset_index(level=[name for name in levels if name not in source.columns])
    frame = source.reset_index(drop=True)
    sparse = [name for name, kind in frame.dtypes.items() if type(kind).__name__ == "SparseDtype"]
    return frame.assign(**{name: frame[name].sparse.to_dense() for name in sparse}) if sparse else frame


def _with_key_names(table: Any, key: str) -> Any:
    """The table with keys that are fractions or truth values by their names; any other unchanged."""
    pa, kind = arrow(), table.schema.field(key).type
    if not (pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        return table
    coded = table.column(key).combine_chunks().dictionary_encode()
    names = [key_name(value) for value in coded.dictionary.to_numpy(zero_copy_only=False)]
    by_name = pa.DictionaryArray.from_arrays(coded.indices, pa.array(names, pa.string()))
    return table.set_column(table.schema.get_field_index(key), key, by_name)


def _mixed(source: Any, names: list[Any]) -> str:
    """The first column of a frame that has no type of Arrow, for an error."""
    for name in names:
        with suppress(Exception):  # a frame of a kind that has no columns by name
            if _arrow_table(source[[name]]) is None:
                return f": column {name!r} mixes types"
    return ""


def _arrow_table(source: Any) -> Any:
    """A frame as an Arrow table; None if it cannot be one."""
    pa = arrow()
    with suppress(Exception):
        native = isinstance(source, pa.Table)
        return source if native else pa.RecordBatchReader.from_stream(source).read_all()
    return None


class RowStream(Source):
    """An Arrow stream. Its rows can be read once."""

    once = True

    def __init__(self, source: Any, columns: Columns) -> None:
        with unbroken("the Arrow stream cannot be read"):
            self._reader = arrow().RecordBatchReader.from_stream(source)
        columns.check(self._reader.schema.names)

    def batches(self, *, persons_only: bool = False) -> Iterator[Batch]:
        with unbroken("the Arrow stream broke off"):
            for batch in self._reader:
                yield from slices(batch)


def slices(batch: Batch) -> Iterator[Batch]:
    """A batch in slices of the usual size."""
    return (batch.slice(first, BATCH) for first in range(0, batch.num_rows, BATCH))


@contextmanager
def unbroken(trouble: str) -> Iterator[None]:
    """Replace another library's error by ``trouble`` and its type, because its text may quote a cell."""
    try:
        yield
    except KeyveilError:
        raise
    except Exception as error:
        raise TableError(f"{trouble} ({type(error).__name__})") from None
