"""DataFrames of Spark: everyone's report as a column, and the tally of such a column."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ...foundation.coins import Coins
from ...foundation.errors import ReportError, TableError
from ...people.tables import read_people
from ...people.tables.frames import Columns, arrow
from ...people.tables.row_order import cut
from ..packing import Packing
from ..plan import Plan
from ..report import check_plan_name
from ..tally import Tally
from .counting import plan_of
from .report_columns import column_names, from_batch, to_batch
from .spark_engine import said_plainly

CHUNK = 1 << 16
"""Number of rows that a task privatises at a time."""
WHOLE = {"tinyint", "smallint", "int", "bigint"}
NUMBERS = WHOLE | {"float", "double"}


def privatise(
    frame: Any,
    plan: Plan,
    *,
    person: str = "person",
    key: str = "key",
    value: str | None = "value",
    pairs: str | None = None,
    lenient: bool = False,
    coins: Coins | None = None,
) -> Any:
    """Everyone's report: a DataFrame with a row per person, column ``code`` or ``view`` and ``bits``.

    ``frame`` is a long table with a row per pair, or has an array of structs in the column ``pairs``,
    whose fields are ``key`` and ``value``; who has an empty array holds nothing. All rows of a person
    are brought to one task. The coins have one secure key that is made here, on the driver: the reports
    depend neither on partitions nor on retries, and a retried task sends the same reports again.
    """
    columns = Columns(person, key, value, lenient)
    if value is None and plan.schema.levels != 1:
        raise TableError("name the column of values; only a schema of one level needs none")
    rows = _long(frame, columns, pairs)
    work = _PrivatiseRows(plan.dumps(), coins or Coins.for_job(), columns)
    together = rows.repartition(person).sortWithinPartitions(person)
    return together.mapInArrow(work, _schema(plan.packing))


def tally(frame: Any, plan: Plan) -> Tally:
    """The tally of a DataFrame of reports: one tally per task, added up as a tree."""
    names = column_names(plan.packing)
    lacking = [name for name in names if name not in frame.columns]
    if lacking:
        raise ReportError(
            f"reports of this plan have the columns {', '.join(names)}; {lacking[0]!r} is missing"
        )
    if "plan" in frame.columns:
        with said_plainly():
            for row in frame.select("plan").distinct().limit(2).collect():
                check_plan_name(row[0], plan.hash, "the reports belong")
    with said_plainly():
        parts = frame.select(*names).mapInArrow(_CountRows(plan.dumps()), "tally binary")
        add = _AddTallies(plan.dumps())
        counted = parts.rdd.map(add.read)
        if counted.getNumPartitions() == 0:
            return Tally(plan)
        total: Tally = counted.treeAggregate(None, add, add)
    return Tally(plan) if total is None else Tally(plan, total.counts)


def _long(frame: Any, columns: Columns, pairs: str | None) -> Any:
    """The rows (person, key, value); columns and types are checked before any job starts."""
    from pyspark.sql import functions as f

    if pairs is not None:
        if columns.person not in frame.columns or pairs not in frame.columns:
            Columns(columns.person, pairs, None).check(frame.columns)
        opened = frame.select(columns.person, f.explode_outer(pairs).alias("pair"))
        try:
            names = [f.col(f"pair.{name}").alias(name) for name in columns.names[1:]]
            frame = opened.select(columns.person, *names)
        except Exception:
            fields = " and ".join(map(repr, columns.names[1:]))
            raise TableError(
                f"column {pairs!r} must be an array of structs with the fields {fields}"
            ) from None
    columns.check(frame.columns)
    kinds = dict(frame.dtypes)
    person, key, value = columns.person, columns.key, columns.value
    if kinds[person] not in WHOLE | {"string"}:
        raise TableError(
            f"column {person!r} holds {kinds[person]}; a person is named by a whole number or by text"
        )
    if kinds[key] not in WHOLE | {"string"}:
        raise TableError(f"column {key!r} holds {kinds[key]}; a key is text or a whole number")
    if value is not None and kinds[value] not in NUMBERS and not kinds[value].startswith("decimal"):
        raise TableError(f"column {value!r} holds {kinds[value]}; values must be numbers")
    return frame.select(*columns.names)


def _schema(packing: Packing) -> str:
    """The columns of reports in Spark's types, which are signed."""
    if not packing.one_cell:
        return "view bigint, bits binary"
    return "code " + {1: "smallint", 2: "int"}.get(packing.width, "bigint")


@dataclass(frozen=True)
class _PrivatiseRows:
    """Privatises the rows of a partition, which are in order of people."""

    plan: str
    coins: Coins
    columns: Columns

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        plan, columns, pa = plan_of(self.plan), self.columns, arrow()
        for rows in cut(_named(batches, columns), CHUNK):
            table = pa.Table.from_batches([rows]).rename_columns(columns.names)
            people = read_people(
                plan.schema,
                table,
                person=columns.person,
                key=columns.key,
                value=columns.value,
                lenient=columns.lenient,
                chunk=2 * rows.num_rows,
            )
            for chunk in people:
                yield to_batch(plan.privatise(chunk, self.coins), plan.packing, signed=True)


def _named(batches: Iterable[Any], columns: Columns) -> Iterator[Any]:
    """Batches whose first column is called person, as ``cut`` wants it."""
    pa = arrow()
    for batch in batches:
        if batch.num_rows:
            if batch.column(0).null_count:
                raise TableError(
                    f"column {columns.person!r} has an empty cell; every row must name its person"
                )
            names = ["person", *columns.names[1:]]
            yield pa.RecordBatch.from_arrays(batch.columns, names=names)


@dataclass(frozen=True)
class _CountRows:
    """Counts the reports of a partition."""

    plan: str

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        pa, total = arrow(), Tally(plan_of(self.plan))
        for batch in batches:
            total.add(from_batch(batch, total.plan.packing))
        yield pa.RecordBatch.from_arrays([pa.array([total.dumps()], pa.binary())], names=["tally"])


@dataclass(frozen=True)
class _AddTallies:
    """Adds tallies of one plan, of which any may be missing."""

    plan: str

    def read(self, row: Any) -> Tally:
        """The tally of a row."""
        return Tally.parse(plan_of(self.plan), bytes(row[0]))

    def __call__(self, one: Tally | None, other: Tally | None) -> Tally | None:
        if one is None or other is None:
            return other if one is None else one
        return operator.add(one, other)
