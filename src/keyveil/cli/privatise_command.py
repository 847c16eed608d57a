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
    "unknown_key": "with a key that the plan does not list: ignored",
    "no_number": "without a number as value: counted as not held",
    "outside_range": "with a value outside the range of its key: clipped to it",
    "no_key": "with a value and no key: ignored",
    "repeated": "with a key that its person has already: the first one counts",
}
"""By rule: what ``--lenient`` does to rows of a table."""


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
        try:
            if _in_segments(table, output, engine):
                from ..plan.engines import privatise_files

                coins = None if stated is None else Coins.stated(stated)
                written = privatise_files(
                    table,
                    plan,
                    output,
                    engine,
                    coins=coins,
                    everyone=everyone,
                    progress=on_progress,
                    **how,
                )
            else:
                written = _one_by_one(plan, table, stated, output, everyone, on_progress, how)
        except RecordError as error:
            raise RecordError(f"{error} (--lenient maps such rows as the plan states)") from None
    if everyone is None:
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
        for people in read_people(plan.schema, table, progress=on_progress, mapped=mapped, **how):
            empty += people.number_empty
            writer.add(plan.privatise(people, coins))
        if everyone is not None:
            for people in absent_people(plan.schema, number_absent(everyone, writer.reports)):
                writer.add(plan.privatise(people, coins))
    return Privatised(writer.reports, mapped, empty)


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
        for rule, words in MAPPED.items():
            if mapped[rule]:
                click.echo(f"{counted(mapped[rule], 'row')} {words}", err=True)
    if machine:
        print_json(facts)
    else:
        sent = "" if bits is None else f" ({bits} bits each)"
        click.echo(f"{output}: {counted(reports, 'report')}, {counted(size, 'byte')}{sent}")
