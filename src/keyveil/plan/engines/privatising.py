"""Privatise tables of any size on any engine: each segment's people at a time."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...foundation.coins import Coins
from ...foundation.errors import TableError
from ...foundation.files import whole_file
from ...people.tables import read_people
from ...people.tables.frames import Columns, arrow
from ..plan import Plan
from ..report_file import ReportWriter
from .counting import plan_of
from .engine import Engine, Progress
from .report_columns import to_batch
from .report_segments import files_in, is_parquet
from .table_segments import ParquetTable, SortedPart, SortRows

FORMAT = "keyveil/reports/1"


@dataclass(frozen=True)
class Privatised:
    """What was privatised: the number of reports, and rows that were mapped, by rule."""

    reports: int = 0
    mapped: Counter[str] = field(default_factory=Counter)
    blocks: tuple[bytes, ...] = ()
    """Packed reports, if they go into one file of the caller."""

    def __add__(self, other: Privatised) -> Privatised:
        return Privatised(
            self.reports + other.reports, self.mapped + other.mapped, self.blocks + other.blocks
        )


@dataclass(frozen=True)
class PrivatiseSegment:
    """Privatises everyone in a segment. A retried segment has the same reports: its coins repeat."""

    plan: str
    coins: Coins
    columns: Columns
    folder: str | None
    """Where each segment's reports are written as Parquet; None if they are returned."""

    def __call__(self, numbered: tuple[int, Any]) -> Privatised:
        number, segment = numbered
        plan, mapped = plan_of(self.plan), Counter[str]()
        columns = self.columns
        people = read_people(
            plan.schema,
            segment.table(columns),
            person=columns.person,
            key=columns.key,
            value=columns.value,
            lenient=columns.lenient,
            mapped=mapped,
        )
        batches = [plan.privatise(chunk, self.coins) for chunk in people]
        reports = sum(map(len, batches))
        if self.folder is None:
            return Privatised(reports, mapped, tuple(plan.packing.block(batch) for batch in batches))
        pa, packing = arrow(), plan.packing
        rows = [to_batch(batch, packing) for batch in batches]
        if rows:
            table = pa.Table.from_batches(rows).replace_schema_metadata(
                {"format": FORMAT, "plan": plan.hash, "kind": packing.kind}
            )
            path = Path(self.folder) / f"part-{number:06d}.parquet"
            with whole_file(path) as file:  # whole or not at all, also if two tasks write it
                arrow("parquet").write_table(table, file, compression="zstd")
        return Privatised(reports, mapped)


def privatise_tables(
    plan: Plan,
    sources: list[str],
    engine: Engine,
    output: str,
    columns: Columns,
    coins: Coins | None = None,
    processes: int | None = None,
    progress: Progress | None = None,
) -> Privatised:
    """Privatise everyone in Parquet files into ``output``: one packed file, or a folder of Parquet.

    ``output`` is a folder if it ends with a slash. Everyone's coins come from one secure key that is
    made here for this job, so the reports do not depend on segments, order or retries.
    """
    paths = files_in(sources)
    if not all(map(is_parquet, paths)):
        raise TableError("many processes and clusters read Parquet tables; convert the table to Parquet")
    table = ParquetTable(paths, columns)
    in_folder = output.endswith("/")
    work = PrivatiseSegment(
        plan.dumps(), coins or Coins.for_job(), columns, output if in_folder else None
    )
    if in_folder:
        _new_folder(output)
    with tempfile.TemporaryDirectory(prefix="keyveil-rows-") as scratch:
        segments = list(enumerate(_segments(table, engine, scratch, processes)))
        if in_folder:
            return engine.sum(work, segments, progress) or Privatised()
        with whole_file(Path(output)) as file:
            return _into_file(plan, engine.each(work, segments, progress), file)


def _segments(table: ParquetTable, engine: Engine, scratch: str, processes: int | None) -> Iterator[Any]:
    ranges = table.ranges()
    if ranges is not None:
        yield from ranges
        return
    if not table.row_groups:
        return
    parts = table.sorted_parts(processes or os.cpu_count() or 1)
    sort = SortRows(scratch, table.columns, parts)
    paths = tuple(engine.each(sort, list(enumerate(table.row_groups))))
    for part in range(parts):
        yield SortedPart(paths, part)


def _into_file(plan: Plan, results: Iterator[Privatised], file: Any) -> Privatised:
    writer, total = ReportWriter(plan, file), Privatised()
    for result in results:
        for block in result.blocks:
            writer.add(plan.packing.from_block(block))
        total = total + Privatised(result.reports, result.mapped)
    writer.close()
    return total


def _new_folder(output: str) -> None:
    """Make the folder of reports; one that has files is refused, because old reports would join."""
    folder = Path(output)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise TableError(f"{output} exists and is not an empty folder; name a new one")
    folder.mkdir(parents=True, exist_ok=True)
