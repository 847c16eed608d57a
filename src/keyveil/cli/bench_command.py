"""``keyveil bench``: speed on this machine, beside NumPy, other packages and the limit."""

from __future__ import annotations

from pathlib import Path

import click

from .arguments import read_names
from .output import as_json, print_json, print_table, progress
from .output_files import PICTURE, writes_files


@click.command()
@click.option(
    "--only",
    help="Groups of rows with commas: privatise, tally, estimate, start.  [default: all]",
)
@click.option(
    "--seconds",
    type=click.FloatRange(0, 60, min_open=True),
    default=0.3,
    help="Processor time for each form of a row.",
)
@click.option(
    "--peers",
    type=click.Path(),
    metavar="FOLDER",
    help="Also pure-ldp, multi-freq-ldpy, OpenDP and diffprivlib. They are installed into an "
    "environment in this folder (1 GB, from the package index) unless it has them.",
)
@click.option("--plot", type=PICTURE, help="Draw the ratios and their aims in a file.")
@as_json
@writes_files
def bench(only: str | None, seconds: float, peers: str | None, plot: str | None, machine: bool) -> None:
    """Speed on this machine, compared with NumPy, other packages and the limit of the processor.

    A ratio like "8 x" says that the other form takes eight times as long. The limit is the time of
    AES-256 for the words of the reports, of reading the reports from memory, or of importing the
    packages that a command needs. Forms take turns on one core, and processor time is what counts.
    """
    from ..simulate.speed.measure_speed import measure_speed

    groups = None if only is None else read_names(only)
    with progress("measuring", "rows") as on_progress:
        table = measure_speed(groups, seconds, None if peers is None else Path(peers), on_progress)
    if plot is not None:
        from ..plot.speed_plots import draw_speed

        draw_speed([row.document() for row in table.rows], plot, table.words)
    if machine:
        print_json(table.document())
        return
    print_table(*table.cells())
    click.echo(f"\n{table.words}")
    missed = sum(bool(row.missed) for row in table.rows)
    click.echo(f"{len(table.rows)} rows, {missed} with an aim that is missed on this machine")
    if plot is not None:
        click.echo(f"{plot}: the picture")
