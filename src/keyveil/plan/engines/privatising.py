"""Privatise tables of any size on any engine: each segment's people at a time."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from ...foundation.coins import Coins
from ...foundation.compiled import KnownLength
from ...foundation.errors import TableError
from ...foundation.files import starts_with, whole_file, whole_folder
from ...people.tables import read_people
from ...people.tables.everyone import absent_people, number_absent
from ...people.tables.frames import Columns, arrow
from ..plan import Plan
from ..report import Reports
from ..report_file import writing
from .engine import Engine, Progress
from .local_pool import LocalPool
from .report_columns import to_batch
from .report_segments import PARQUET, check_path, files_in
from .shipped_plan import check_plan, job_coins, ship, unship
from .table_segments import ParquetTable, PersonRange, SegmentRows, SortedPart, SortRows

FORMAT = "keyveil/reports/1"
RETURNED = 1 << 24
"""Bytes of packed reports that a segment returns in memory."""
Segment = PersonRange | SortedPart


@dataclass(frozen=True)
class Privatised:
    """What was privatised: the number of reports, and of rows that were mapped, by rule."""

    reports: int = 0
    mapped: Counter[str] = field(default_factory=Counter)
    holding_nothing: int = 0
    """The number of people with a row who hold none of the keys."""
    blocks: tuple[bytes | StoredBlock, ...] = field(default=(), repr=False)
    """Packed reports, if they go into one file of the caller."""

    def __add__(self, other: Privatised) -> Privatised:
        return Privatised(
            self.reports + other.reports,
            self.mapped + other.mapped,
            self.holding_nothing + other.holding_nothing,
            self.blocks + other.blocks,
        )


class StoredBlock(NamedTuple):
    """A block of packed reports in a file."""

    path: str
    place: int
    size: int

    def read(self) -> bytes:
        """Its bytes."""
        with Path(self.path).open("rb") as file:
            file.seek(self.place)
            return file.read(self.size)


@dataclass(frozen=True)
class PrivatiseSegment:
    """Privatises everyone in a segment. A retried segment has the same reports: its coins repeat."""

    plan: str
    coins: Coins = field(repr=False)
    columns: Columns
    folder: str | None
    """Where each segment's reports are written as Parquet; None if they are returned."""
    segments: int = 1
    """The number of all segments."""
    workers: int = 1
    """How many of them are worked on at a time."""
    scratch: str | None = None
    """Where packed reports wait that are too many to be returned."""

    def __call__(self, numbered: tuple[int, Segment]) -> Privatised:
        number, segment = numbered
        plan, mapped, empty = unship(self.plan), Counter[str](), Counter[str]()
        rows = SegmentRows(segment, self.columns)
        with KnownLength(tables=max(0, self.segments - 1 - number) / self.workers):
            stream = privatised_rows(plan, rows, self.columns, self.coins, mapped, empty=empty)
            if self.folder is None:
                packed = self._packed(number, plan, stream, mapped)
                return replace(packed, holding_nothing=empty.total())
            batches = list(stream)
        if batches:
            write_reports(plan, batches, Path(self.folder) / f"part-{number:06d}.parquet")
        return Privatised(sum(map(len, batches)), mapped, empty.total())

    def _packed(
        self, number: int, plan: Plan, stream: Iterator[Reports], mapped: Counter[str]
    ) -> Privatised:
        """The reports as blocks, in memory while they are few."""
        reports, returned = 0, 0
        blocks: list[bytes | StoredBlock] = []
        path = None if self.scratch is None else Path(self.scratch) / f"blocks-{number:06d}"
        for batch in stream:
            reports += len(batch)
            block = plan.packing.block(batch)
            if path is None or returned + len(block) <= RETURNED:
                returned += len(block)
                blocks.append(block)
                continue
            with path.open("ab") as file:
                blocks.append(StoredBlock(str(path), file.tell(), len(block)))
                file.write(block)
        return Privatised(reports, mapped, blocks=tuple(blocks))


@dataclass(frozen=True)
class CountBrokenRows:
    """Counts the rows of a segment that break a rule, by rule."""

    plan: str
    columns: Columns

    def __call__(self, segment: Segment) -> Counter[str]:
        schema, mapped = unship(self.plan).schema, Counter[str]()
        rows = SegmentRows(segment, self.columns)
        for _ in read_people(schema, rows, **_arguments(self.columns), mapped=mapped):
            pass
        return +mapped


def privatised_rows(
    plan: Plan,
    rows: Any,
    columns: Columns,
    coins: Coins,
    mapped: Counter[str] | None = None,
    chunk: int = 1 << 16,
    empty: Counter[str] | None = None,
) -> Iterator[Reports]:
    """The reports of everyone in a table or a segment, which has all rows of each of its people.

    ``mapped`` counts rows by rule, and ``empty`` the people who hold none of the keys.
    """
    how = {**_arguments(columns), "chunk": chunk, "mapped": mapped}
    for people in read_people(plan.schema, rows, **how):
        if empty is not None:
            empty["people"] += people.number_empty
        yield plan.privatise(people, coins)


def _arguments(columns: Columns) -> dict[str, Any]:
    """The columns as arguments of ``read_people``."""
    names = {"person": columns.person, "key": columns.key, "value": columns.value}
    return {**names, "lenient": columns.lenient}


def write_reports(plan: Plan, batches: list[Reports], path: Path) -> None:
    """Write reports as a Parquet file, whole or not at all, also if two tasks write the same one."""
    packing = plan.packing
    table = arrow().Table.from_batches([to_batch(batch, packing) for batch in batches])
    table = table.replace_schema_metadata({"format": FORMAT, "plan": plan.hash, "kind": packing.kind})
    with whole_file(path) as file:
        arrow("parquet").write_table(table, file, compression="zstd")


def privatise_files(
    sources: Iterable[str | Path] | str | Path,
    plan: Plan,
    output: str | Path,
    engine: Engine | None = None,
    *,
    person: str = "person",
    key: str = "key",
    value: str | None = "value",
    lenient: bool = False,
    coins: Coins | None = None,
    everyone: int | None = None,
    progress: Progress | None = None,
) -> Privatised:
    """Privatise everyone in Parquet files and folders into ``output``, however large they are.

    ``output`` is one packed file, or a folder of Parquet files if it ends with a slash; a cluster writes
    folders only. It appears when it is complete. Rows of tables that are not in order of people are
    sorted by person on disk: in TMPDIR, or on a cluster next to the output. ``everyone`` is the number
    of all people, if some have no row and so hold nothing.

    Everyone's coins come from one secure key that is made here for this job, so reports depend neither
    on segments nor on order nor on retries. The engine is the processors of this machine unless another
    is given.
    """
    check_plan(plan)
    engine = engine or LocalPool()
    columns, in_folder = Columns(person, key, value, lenient), str(output).endswith("/")
    if value is None and plan.schema.levels != 1:
        raise TableError("name the column of values; only a schema of one level needs none")
    if not in_folder and not engine.on_one_machine:
        raise TableError(f"a cluster writes a folder of reports: end its name with a slash, {output}/")
    check_path(output)
    table = parquet_table(sources, columns, engine)
    coins = job_coins(coins)
    if in_folder:
        with whole_folder(Path(output).absolute()) as folder, _scratch(engine, folder) as scratch:
            segments = list(enumerate(_segments(table, engine, scratch)))
            sizes = len(segments), engine.workers
            work = PrivatiseSegment(ship(plan), coins, columns, str(folder), *sizes)
            privatised = engine.sum(work, segments, progress) or Privatised()
            for begun in folder.glob(".*"):  # by a task that was lost while it wrote
                begun.unlink(missing_ok=True)
            for number, batch in enumerate(_absent(plan, everyone, privatised, coins), len(segments)):
                write_reports(plan, [batch], folder / f"part-{number:06d}.parquet")
                privatised = privatised + Privatised(len(batch))
            return privatised
    with _scratch(engine) as scratch:
        segments = list(enumerate(_segments(table, engine, scratch)))
        sizes = len(segments), engine.workers
        work = PrivatiseSegment(ship(plan), coins, columns, None, *sizes, scratch)
        return _into_file(plan, engine.each(work, segments, progress), output, coins, everyone)


def broken_rows(
    sources: Iterable[str | Path] | str | Path,
    plan: Plan,
    engine: Engine | None = None,
    *,
    person: str = "person",
    key: str = "key",
    value: str | None = "value",
    shared: str | Path = ".",
) -> Counter[str]:
    """Number of rows of Parquet files and folders that break each rule.

    A lenient ``privatise_files`` maps ``unknown_key``, ``no_key`` (a value without one), ``no_number``,
    ``outside_range``, and ``repeated`` for rows that name a key of their person again. On a cluster,
    rows that are not in order of people are sorted in ``shared``, a folder that all workers can write.
    """
    engine, columns = engine or LocalPool(), Columns(person, key, value, lenient=True)
    table = parquet_table(sources, columns, engine)
    with _scratch(engine, Path(shared).absolute()) as scratch:
        work, segments = CountBrokenRows(ship(plan), columns), list(_segments(table, engine, scratch))
        return engine.sum(work, segments) or Counter()


def _scratch(engine: Engine, folder: Path | None = None) -> tempfile.TemporaryDirectory[str]:
    """A folder for sorted rows, removed at the end; on a cluster, within the one that workers share."""
    where = None if engine.on_one_machine else folder
    return tempfile.TemporaryDirectory(dir=where, prefix="_keyveil-rows-")


def parquet_table(
    sources: Iterable[str | Path] | str | Path, columns: Columns, engine: Engine
) -> ParquetTable:
    """The table of Parquet files and folders, which is checked to have the columns."""
    paths = files_in([sources] if isinstance(sources, str | Path) else sources)
    for path in paths:
        if not Path(path).is_file():
            raise TableError(f"cannot read {path}: there is no such file")
        if not starts_with(path, PARQUET):
            raise TableError(
                f"{path} is no Parquet file: other forms are read by keyveil privatise into one file on "
                "this machine; pandas.read_csv(...).to_parquet(...) writes Parquet"
            )
    return ParquetTable(
        paths if engine.on_one_machine else [os.path.abspath(path) for path in paths], columns
    )


def _segments(table: ParquetTable, engine: Engine, scratch: str) -> Iterator[Segment]:
    ranges = table.ranges()
    if ranges is not None:
        yield from ranges
        return
    parts = table.sorted_parts(engine.workers)
    sort = SortRows(scratch, table.columns, parts)
    counts = tuple(engine.each(sort, list(enumerate(table.row_groups))))
    for part in range(parts if any(counts) else 0):
        yield SortedPart(scratch, counts, part)


def _absent(plan: Plan, everyone: int | None, privatised: Privatised, coins: Coins) -> Iterator[Reports]:
    """The reports of the people who have no row."""
    if everyone is None:
        return
    for people in absent_people(plan.schema, number_absent(everyone, privatised.reports)):
        yield plan.privatise(people, coins)


def _into_file(
    plan: Plan,
    results: Iterator[Privatised],
    output: str | Path,
    coins: Coins,
    everyone: int | None,
) -> Privatised:
    total = Privatised()
    with writing(plan, output) as writer:
        for result in results:
            for block in result.blocks:
                content = block if isinstance(block, bytes) else block.read()
                writer.add(plan.packing.from_block(content))
            for stored in {block.path for block in result.blocks if isinstance(block, StoredBlock)}:
                Path(stored).unlink()
            total = total + replace(result, blocks=())
        for batch in _absent(plan, everyone, total, coins):
            writer.add(batch)
            total = total + Privatised(len(batch))
    return total
