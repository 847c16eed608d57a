"""``keyveil tally``: the collector's side."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click

from ..plan.plan import Plan
from .arguments import plan_argument
from .engine_options import engine_of, engine_options
from .output import as_json, counted, print_json, progress
from .output_files import OUTPUT, writes_files


@click.command()
@plan_argument
@click.argument("sources", metavar="REPORTS...", nargs=-1, required=True, type=click.Path())
@click.option("-o", "--output", required=True, type=OUTPUT, help="Where to write the tally.")
@engine_options
@as_json
@writes_files
def tally(
    plan_path: str,
    sources: tuple[str, ...],
    output: str,
    machine: bool,
    engine: str,
    processes: int | None,
    master: str | None,
) -> None:
    """Count REPORTS (files of reports, folders of them, or tallies) into one tally.

    REPORTS are files of reports, JSON lines, Parquet files, tallies made elsewhere, and folders of
    these, such as the sealed epochs of a collector.
    """
    from ..plan.engines.report_files import ReportFiles

    plan = Plan.load(plan_path)
    files = ReportFiles(sources, plan)
    with progress("tallying", "reports") as on_progress:
        total = files.counted(engine_of(engine, processes, master), on_progress)
    for source in files.empty:
        click.echo(f"warning: {source} has no reports", err=True)
    for source, other in _repeated(files.files):
        warning = f"warning: {source} has the same content as {other}; its reports count twice"
        click.echo(warning, err=True)
    total.save(output)
    if machine:
        print_json({"plan": plan.hash, "reports": total.reports, "cells": len(total.counts)})
    else:
        click.echo(
            f"{output}: {counted(total.reports, 'report')} in {counted(len(total.counts), 'cell')}"
        )


def _repeated(files: list[str]) -> Iterator[tuple[str, str]]:
    """Files with the same bytes as one before them, and that one. Only files of one size are read."""
    sizes = Counter(Path(file).stat().st_size for file in files)
    seen: dict[str, str] = {}
    for name in files:
        if sizes[Path(name).stat().st_size] > 1:
            with Path(name).open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            if digest in seen:
                yield name, seen[digest]
            seen.setdefault(digest, name)
