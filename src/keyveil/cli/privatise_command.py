"""``keyveil privatise``: the device's side, for a whole table at once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..foundation.coins import Coins
from ..foundation.errors import RecordError
from ..foundation.files import starts_with
from ..plan.plan import Plan
from ..plan.report_file import writing
from .arguments import everyone_option, plan_argument, read_everyone, tell_who_takes_part
from .engine_options import engine_of, engine_options
from .output import as_json, counted, print_json, progress
from .output_files import OUTPUT_OR_FOLDER, writes_files

if TYPE_CHECKING:
    from ..plan.engines import Engine
    from ..plan.engines.privatising import Privatised

PARQUET = b"PAR1"

MAPPED = {
    "unknown_key": ("with a key that the plan does not list", "ignored", "drops unknown keys"),
    "no_number": (
        "without a number as value",
        "counted as not held",
        "counts a key without a number as not held",
    ),
    "outside_range": ("with a value outside {range}", "clipped to it", "clips values"),
    "no_key": ("with a value and no key", "ignored", "drops values without a key"),
    "repeated": (
        "with a key that its person has already",
        "the first one counts",
        "takes the first of repeated rows",
    ),
}
"""By rule: the rows that break it, what happened to them, and what ``--lenient`` does."""


@click.command()
@plan_argument
@click.argument("table", metavar="TABLE", type=click.Path())
@click.option("--person", default="person", help="Column that names the person.")
@click.option("--key", default="key", help="Column of keys.")
@click.option("--value", default="value", help="Column of values.")
@everyone_option
@click.option(
    "--lenient",
    is_flag=True,
    help="Map records as the plan states for clients (ignore unknown keys, clip values).",
)
@click.option(
    "--coins",
    "stated",
    metavar="KEY",
    help="Repeatable coins from a stated key; for experiments only, it protects no one.",
)
@click.option(
    "-o",
    "--output",
    required=True,
    type=OUTPUT_OR_FOLDER,
    help="Where to write reports: a file, or a folder of Parquet files if it ends with a slash.",
)
@engine_options
@as_json
@writes_files
def privatise(plan_path: str, table: str, stated: str | None, output: str, **how: Any) -> None:
    """Perturb each person's record in TABLE (CSV, JSON lines, Parquet, Arrow) into one report.

    TABLE may also be a folder of Parquet files. Parquet tables of any size use all processors, or Spark.
    """
    plan, machine = Plan.load(plan_path), how.pop("machine")
    everyone = read_everyone(how.pop("everyone"))
    engine = engine_of(how.pop("engine"), how.pop("processes"), how.pop("master"))
    with progress("privatising", "rows") as on_progress:
        if _in_segments(table, output, engine):
            from ..plan.engines import broken_rows, privatise_files

            coins = None if stated is None else Coins.stated(stated)
            more = {"coins": coins, "everyone": everyone, "progress": on_progress}
            try:
                written = privatise_files(table, plan, output, engine, **more, **how)
            except RecordError:
                names = {name: how[name] for name in ("person", "key", "value")}
                counts = broken_rows(table, plan, engine, **names, shared=Path(output).absolute().parent)
                _refuse(plan, table, counts)
                raise
        else:
            written = _one_by_one(plan, table, stated, output, everyone, on_progress, how)
    if everyone is None and not written.reports:
        click.echo(f"{table}: the table has no rows", err=True)
    elif everyone is None:
        tell_who_takes_part(written.reports, written.holding_nothing, len(plan.schema.keys))
    _tell(plan, output, written.reports, written.mapped if how["lenient"] else None, machine)


def _in_segments(table: str, output: str, engine: Engine) -> bool:
    """Whether an engine cuts the table into segments; a table of one segment is read at once."""
    from ..plan.engines.table_segments import SEGMENT_ROWS, opened

    if Path(table).is_dir() or output.endswith("/") or not engine.on_one_machine:
        return True
    if not starts_with(table, PARQUET):
        return False
    with opened(table) as file:
        return bool(file.metadata.num_rows > SEGMENT_ROWS)


def _one_by_one(
    plan: Plan,
    table: str,
    stated: str | None,
    output: str,
    everyone: int | None,
    on_progress: Any,
    how: dict[str, Any],
) -> Privatised:
    """Privatise a table of any form in this process."""
    from ..people.tables import read_people
    from ..people.tables.everyone import absent_people, number_absent
    from ..plan.engines.privatising import Privatised

    mapped, empty = Counter[str](), 0
    coins = Coins.secure() if stated is None else Coins.stated(stated)
    with writing(plan, output) as writer:
        try:
            for people in read_people(plan.schema, table, progress=on_progress, mapped=mapped, **how):
                empty += people.number_empty
                writer.add(plan.privatise(people, coins))
        except RecordError:
            broken = Counter[str]()
            for _ in read_people(plan.schema, table, mapped=broken, **{**how, "lenient": True}):
                pass
            _refuse(plan, table, broken)
            raise
        if everyone is not None:
            for people in absent_people(plan.schema, number_absent(everyone, writer.reports)):
                writer.add(plan.privatise(people, coins))
    return Privatised(writer.reports, mapped, empty)


def _broken_rules(plan: Plan, mapped: Counter[str]) -> list[tuple[str, str, str]]:
    """The number of rows that break each rule, what happened to them, and what ``--lenient`` does."""
    span = plan.schema.range_words()
    return [
        (f"{counted(mapped[rule], 'row')} {words.format(range=span)}", done, does)
        for rule, (words, done, does) in MAPPED.items()
        if mapped[rule]
    ]


def _refuse(plan: Plan, table: str, counts: Counter[str]) -> None:
    """Refuse a table with rows that break a rule, with their number."""
    broken = _broken_rules(plan, counts)
    if broken:
        rows, _, does = map(", ".join, zip(*broken, strict=True))
        raise RecordError(f"{table} has {rows}; --lenient {does}") from None


def _tell(plan: Plan, output: str, reports: int, mapped: Counter[str] | None, machine: bool) -> None:
    """Say what was written; and how many rows were mapped, if some may have been."""
    files = [Path(output)] if Path(output).is_file() else list(Path(output).iterdir())
    size = sum(file.stat().st_size for file in files)
    bits = round(8 * size / reports, 2) if reports else None
    facts = {
        "plan": plan.hash,
        "reports": reports,
        "bytes": size,
        "bits_sent_per_report": bits,
        "bits_per_report": round(plan.bits_per_report, 4),
    }
    if mapped is not None:
        facts["mapped"] = {rule: mapped[rule] for rule in MAPPED}
        for words, done, _ in _broken_rules(plan, mapped):
            click.echo(f"{words}: {done}", err=True)
    if machine:
        print_json(facts)
    else:
        sent = "" if bits is None else f" ({bits} bits each)"
        click.echo(f"{output}: {counted(reports, 'report')}, {counted(size, 'byte')}{sent}")
