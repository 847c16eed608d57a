"""``keyveil privatise``: the device's side, for a whole table at once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import click

from ..foundation.coins import Coins
from ..foundation.errors import RecordError
from ..plan.plan import Plan
from ..plan.report_file import writing
from .arguments import plan_argument
from .output import as_json, counted, print_json, progress
from .output_files import OUTPUT, writes_files

MAPPED = {
    "unknown_key": "with a key that the plan does not list: ignored",
    "no_number": "without a number as value: counted as not held",
    "outside_range": "with a value outside the range of its key: clipped to it",
}
"""By rule: what ``--lenient`` does to rows of a table."""


@click.command()
@plan_argument
@click.argument("table", metavar="TABLE", type=click.Path())
@click.option("--person", default="person", help="Column that names the person.")
@click.option("--key", default="key", help="Column of keys.")
@click.option("--value", default="value", help="Column of values.")
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
@click.option("-o", "--output", required=True, type=OUTPUT, help="Where to write reports.")
@as_json
@writes_files
def privatise(plan_path: str, table: str, stated: str | None, output: str, **how: Any) -> None:
    """Perturb each person's record in TABLE (CSV, JSON lines, Parquet, Arrow) into one report."""
    from ..people.tables import read_people

    plan, machine = Plan.load(plan_path), how.pop("machine")
    coins = Coins.secure() if stated is None else Coins.stated(stated)
    mapped: Counter[str] = Counter()
    with progress("privatising", "rows") as on_progress, writing(plan, output) as writer:
        try:
            for people in read_people(plan.schema, table, progress=on_progress, mapped=mapped, **how):
                writer.add(plan.privatise(people, coins))
        except RecordError as error:
            raise RecordError(f"{error} (--lenient maps such rows as the plan states)") from None
    size = Path(output).stat().st_size
    bits = round(8 * size / writer.reports, 2) if writer.reports else None
    facts = {
        "plan": plan.hash,
        "reports": writer.reports,
        "bytes": size,
        "bits_sent_per_report": bits,
        "bits_per_report": round(plan.bits_per_report, 4),
    }
    if how["lenient"]:
        facts["mapped"] = {rule: mapped[rule] for rule in MAPPED}
        for rule, words in MAPPED.items():
            if mapped[rule]:
                click.echo(f"{counted(mapped[rule], 'row')} {words}", err=True)
    if machine:
        print_json(facts)
    else:
        sent = "" if bits is None else f" ({bits} bits each)"
        click.echo(f"{output}: {counted(writer.reports, 'report')}, {counted(size, 'byte')}{sent}")
