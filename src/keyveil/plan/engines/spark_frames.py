"""DataFrames of Spark: everyone's report as a column, and the tally of such a column."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...foundation.coins import Coins
from ...foundation.errors import RecordError, ReportError, TableError
from ...people.tables.frames import Columns, arrow
from ...people.tables.row_order import cut
from ..packing import Packing
from ..plan import Plan
from ..report import check_plan_name
from ..tally import Tally
from .privatising import privatised_rows
from .report_columns import BITS, check_columns, column_names, from_batch, split_batch, to_batch
from .shipped_plan import check_plan, job_coins, ship, unship
from .spark_engine import (
    ADDERS,
    OWN_ERRORS,
    PICKLED,
    add_in_tasks,
    contents,
    map_in_arrow,
    needing_pyspark,
    pickled,
    plain_errors,
)

CHUNK = 1 << 16
"""Number of rows that a task privatises at a time."""
LARGE = 1 << 17
"""Bytes of a tally above which more than one task adds up those of tasks: ten thousand in a second."""
PERSON, KEY, VALUE = ROLES = ("person", "key", "value")
"""What the columns of rows are called here, whatever they are called in the user's frame."""
PLAN = "plan_hash"
"""The column in which every report names its plan. It is one value, so files have it once a page."""
WHOLE = {"tinyint", "smallint", "int", "bigint"}
NUMBERS = WHOLE | {"float", "double"}
HOW_TO_MAP = "; kv.spark.broken_rows(df, plan) counts rows that break a rule, lenient=True maps them"


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

    The column ``plan_hash`` names the plan, so that reports of several plans are never counted as one.
    ``frame`` is a long table with a row per pair, or has an array of structs in the column ``pairs``,
    whose fields are ``key`` and ``value``; who has an empty array holds nothing. All rows of a person
    are brought to one task and joined. The coins have one secure key that is made here, on the driver,
    so reports depend neither on partitions nor on retries.

    Columns and their types are checked at once; a row that breaks a rule ends the job. ``lenient`` maps
    such rows as the plan states for clients, and ``broken_rows`` counts them. A DataFrame has no order,
    so the lowest of a person's values of one key counts then.
    """
    check_frame(frame, plan)
    columns = Columns(person, key, value, lenient)
    if value is None and plan.schema.levels != 1:
        raise TableError("name the column of values; only a schema of one level needs none")
    rows = long_rows(frame, columns, pairs)
    work = PrivatiseRows(ship(plan), job_coins(coins), columns)
    together = rows.repartition(PERSON).sortWithinPartitions(*(rows.columns if lenient else [PERSON]))
    return _naming_plan(map_in_arrow(together, work, report_schema(plan.packing)), plan)


def tally(frame: Any, plan: Plan, *, rejected: Counter[str] | None = None) -> Tally:
    """The tally of a DataFrame of reports: one tally per task, added up as a tree.

    A report that is empty, that no honest device could send or that names another plan ends the job;
    with ``rejected`` it is left out, and counted there by reason: ``empty`` or ``impossible``.
    """
    check_frame(frame, plan)
    check_reports(frame, plan)
    work = CountRows(ship(plan), rejected is not None)
    with plain_errors():
        parts = map_in_arrow(_of_plan(frame, plan, lenient=work.lenient), work, PICKLED)
        nothing = np.zeros(len(REASONS) + plan.layout.cells, np.int64)
        adders = min(ADDERS, 1 + nothing.nbytes // LARGE)
        total = sum(contents(add_in_tasks(parts, adders)), nothing)
    if rejected is not None:
        rejected.update({rule: int(n) for rule, n in zip(REASONS, total, strict=False) if n})
    return Tally(plan, total[len(REASONS) :])


REASONS = ("empty", "impossible")
"""Why a report is left out; a task's numbers begin with how many were."""


def check_reports(frame: Any, plan: Plan) -> None:
    """Refuse a DataFrame without the columns of reports, of other types, or that names another plan."""
    check_columns(frame.columns, plan.packing)
    kinds = dict(frame.dtypes)
    for name in column_names(plan.packing):
        if name == BITS and kinds[name] != "binary":
            raise ReportError(f"the column {name!r} of reports holds {kinds[name]}; it must be binary")
        if name != BITS and kinds[name] not in WHOLE:
            raise ReportError(
                f"the column {name!r} of reports holds {kinds[name]}; it must be whole numbers"
            )
        stated = frame.schema[name].metadata.get("plan")
        if stated is not None:
            check_plan_name(stated, plan.hash, "the reports belong")


def broken_rows(
    frame: Any,
    plan: Plan,
    *,
    person: str = "person",
    key: str = "key",
    value: str | None = "value",
    pairs: str | None = None,
) -> Counter[str]:
    """Number of rows that break each rule.

    A lenient ``privatise`` maps ``unknown_key``, ``no_key`` (a value without one), ``no_number``,
    ``outside_range``, and ``repeated`` for rows that name a key of their person again. It refuses
    ``no_person``.
    """
    from pyspark.sql import functions as f

    check_frame(frame, plan)
    columns = Columns(person, key, value, lenient=True)
    rows = long_rows(frame, columns, pairs)
    of_key = f.col(KEY).cast("string")
    ends = [
        (name, *map(float, ends))
        for name, ends in zip(plan.schema.keys, plan.schema.ranges, strict=True)
    ]
    known = f.broadcast(rows.sparkSession.createDataFrame(ends, "name string, low double, high double"))
    joined = rows.join(known, of_key == f.col("name"), "left")
    number = f.lit(0.0) if value is None else f.col(VALUE).cast("double")
    missing = number.isNull() | f.isnan(number)
    listed, keyless = f.col("name").isNotNull(), f.col(KEY).isNull()
    outside = f.lit(False) if value is None else (number < f.col("low")) | (number > f.col("high"))
    usable = f.when(listed & ~missing, f.struct(PERSON, "name"))
    with plain_errors():
        (counts,) = joined.agg(
            f.count_if(f.col(PERSON).isNull()).alias("no_person"),
            f.count_if(~listed & ~keyless).alias("unknown_key"),
            f.count_if(keyless & ~missing & f.lit(value is not None)).alias("no_key"),
            f.count_if(listed & missing).alias("no_number"),
            f.count_if(listed & ~missing & outside).alias("outside_range"),
            (f.count(usable) - f.count_distinct(usable)).alias("repeated"),
        ).collect()
    return Counter({rule: n for rule, n in counts.asDict().items() if n})


def long_rows(frame: Any, columns: Columns, pairs: str | None) -> Any:
    """The rows (person, key, value); columns and types are checked before any job starts."""
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as f

    asked = columns if pairs is None else Columns(columns.person, pairs, None)
    asked.check(frame.columns)
    try:
        rows = frame.select(*(f.col(_quoted(name)).alias(role) for name, role in _roles(asked)))
        if pairs is not None:
            rows = _opened(rows, columns, pairs)
        kinds = dict(zip(columns.names, dict(rows.dtypes).values(), strict=True))
    except AnalysisException as error:
        raise TableError(f"Spark cannot read the columns: {str(error).splitlines()[0]}") from None
    person, key, value = columns.person, columns.key, columns.value
    if kinds[person] not in WHOLE | {"string"}:
        raise TableError(
            f"column {person!r} holds {kinds[person]}; a person is named by a whole number or by text"
        )
    if kinds[key] not in WHOLE | {"string"}:
        raise TableError(f"column {key!r} holds {kinds[key]}; a key is text or a whole number")
    if value is not None and kinds[value] not in NUMBERS and not kinds[value].startswith("decimal"):
        raise TableError(f"column {value!r} holds {kinds[value]}; values must be numbers, so cast it")
    return rows


def check_frame(frame: Any, plan: Plan, streams: bool = False) -> None:
    """Refuse what is no plan, and what is no DataFrame of Spark, such as a path, or is a stream."""
    check_plan(plan)
    with needing_pyspark():
        from pyspark.sql import DataFrame
    if not isinstance(frame, DataFrame):
        raise TableError(
            f"this takes a DataFrame of Spark, not {type(frame).__name__}: spark.read.parquet(path) "
            "reads files, spark.createDataFrame(frame) takes a table of pandas"
        )
    if frame.isStreaming and not streams:
        raise TableError(
            "this takes a stored DataFrame, not a stream, because all rows of a person must be there; "
            "kv.spark.running_tally counts a stream of reports"
        )


def _roles(columns: Columns) -> list[tuple[str, str]]:
    """Each column with what it is called here."""
    return list(zip(columns.names, ROLES, strict=False))


def _quoted(name: str) -> str:
    """A name as Spark takes it, also with a dot in it."""
    return "`" + name.replace("`", "``") + "`"


def _opened(rows: Any, columns: Columns, pairs: str) -> Any:
    """A row for each pair in an array of structs; one without key and value for an empty array."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import ArrayType, StructType

    kind = rows.schema[KEY].dataType
    pair = kind.elementType if isinstance(kind, ArrayType) else None
    if not (isinstance(pair, StructType) and set(columns.names[1:]) <= set(pair.names)):
        wanted = " and ".join(map(repr, columns.names[1:]))
        raise TableError(f"column {pairs!r} must be an array of structs with the fields {wanted}")
    opened = rows.select(PERSON, f.explode_outer(KEY).alias("pair"))
    inner = (f.col("pair").getField(name).alias(role) for name, role in _roles(columns)[1:])
    return opened.select(PERSON, *inner)


def report_schema(packing: Packing) -> str:
    """The columns of reports in Spark's types, which are signed."""
    if not packing.one_cell:
        return "view bigint, bits binary"
    return "code " + {1: "smallint", 2: "int"}.get(packing.width, "bigint")


def _naming_plan(reports: Any, plan: Plan) -> Any:
    """Columns that name their plan, and so does each report: a union has the columns of one side."""
    from pyspark.sql import functions as f

    names, stated = column_names(plan.packing), {"plan": plan.hash}
    own = (f.col(name).alias(name, metadata=stated) for name in names)
    return reports.select(*own, f.lit(plan.hash).alias(PLAN))


def _of_plan(frame: Any, plan: Plan, lenient: bool) -> Any:
    """The columns of reports. One that names another plan ends the job, or becomes an impossible one."""
    from pyspark.sql import functions as f

    first, *others = column_names(plan.packing)
    if PLAN not in frame.columns:
        return frame.select(first, *others)
    refusal = (
        f"\n{OWN_ERRORS}ReportError: some of the reports belong to another plan (not {plan.hash[:12]})"
    )
    foreign = f.lit(-1) if lenient else f.raise_error(f.lit(refusal + "\n"))
    kind = dict(frame.dtypes)[first]
    own = f.when(f.col(PLAN) != plan.hash, foreign.cast(kind)).otherwise(f.col(first))
    return frame.select(own.alias(first), *others)


@dataclass(frozen=True)
class PrivatiseRows:
    """Privatises the rows of a partition, which are in order of people."""

    plan: str
    coins: Coins = field(repr=False)
    columns: Columns

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        plan, columns, pa = unship(self.plan), self.columns, arrow()
        for rows in cut(_named(batches, columns), CHUNK):
            table = pa.Table.from_batches([rows]).rename_columns(columns.names)
            people = privatised_rows(plan, table, columns, self.coins, chunk=2 * rows.num_rows)
            try:
                yield from (to_batch(reports, plan.packing, signed=True) for reports in people)
            except RecordError as error:
                raise RecordError(f"{error}{HOW_TO_MAP}") from None


def _named(batches: Iterable[Any], columns: Columns) -> Iterator[Any]:
    """Batches whose columns have the names that ``cut`` wants."""
    pa = arrow()
    for batch in batches:
        if batch.num_rows:
            if batch.column(0).null_count:
                raise TableError(
                    f"column {columns.person!r} has an empty cell; every row must name its person"
                )
            yield pa.RecordBatch.from_arrays(batch.columns, names=ROLES[: len(columns.names)])


@dataclass(frozen=True)
class CountRows:
    """Counts the reports of a partition: how many are left out by reason, then all cells."""

    plan: str
    lenient: bool

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        total, left_out = Tally(unship(self.plan)), np.zeros(len(REASONS), np.int64)
        packing = total.plan.packing
        for batch in batches:
            if self.lenient:
                reports, *numbers = split_batch(batch, packing)
                left_out += numbers
                total.add(reports)
            else:
                total.add(from_batch(batch, packing))
        content = pickled(np.concatenate([left_out, total.counts]))
        yield arrow().RecordBatch.from_pydict({"content": [content]})
