"""A billion people a day, calculated from the measured tables of docs/benchmarks.md.

``python -m bench.billion --write`` puts the tables into docs/scale.md. A test runs this command, so
they never differ from the figures that they come from.
"""

from __future__ import annotations

import argparse
import json
import re
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

from keyveil import Coins, People, Plan, Population, Schema, Tally
from keyveil.service.collector.store.segments import write_epoch
from keyveil.simulate import simulate_on

from .table import DOCS, Table, rows

PAGE = DOCS.parent / "scale.md"
PEOPLE = 1_000_000_000
DAY = 86_400
PEAK = 3
"""The busiest second of a day against its average."""
CORES = 20
"""Cores of the cluster that is compared with the local pool on two."""
ID = 16
"""Bytes of a report's id in a binary batch, in the collector's log and in its index."""
SEALED = 1 << 22
"""Reports of the epoch whose file is measured."""


class Measured(NamedTuple):
    """Figures of docs/benchmarks.md, in reports, people, bytes and seconds."""

    single: float
    batched: float
    tallied: float
    privatised: float
    stored: float
    start: float
    pool_privatised: float
    pool_tallied: float
    spark_privatised: float
    spark_tallied: float


def measured(page: str) -> Measured:
    """The figures of the page."""
    core, scale, collector = (_part(page, name) for name in ("core", "scale", "collector"))
    privatising, tallying = scale.split("**Tallying ")
    return Measured(
        single=_cell(collector, "one report, JSON", 1),
        batched=_cell(collector, "100, binary", 1),
        tallied=1e6 * _cell(core, "tally", 1),
        privatised=1e6 * _cell(core, "privatise", 1),
        stored=_number(r"A report takes ([\d.]+) bytes in Parquet", core),
        start=_number(r"The start of Spark, with one small job, took (\d+) s", scale),
        pool_privatised=1e6 * _cell(privatising, "local pool", 3),
        pool_tallied=1e6 * _cell(tallying, "local pool", 3),
        spark_privatised=1e6 * _cell(privatising, "Spark, 2 workers", 3) / 2,
        spark_tallied=1e6 * _cell(tallying, "Spark, 2 workers", 3) / 2,
    )


def _part(page: str, name: str) -> str:
    """The tables that a benchmark wrote."""
    return page.split(f"<!-- bench:{name} -->")[1].split("<!-- /bench -->")[0]


def _cell(text: str, row: str, column: int) -> float:
    (line,) = re.findall(rf"^\| {re.escape(row)} \|(.*)\|$", text, re.MULTILINE)
    return float(line.split("|")[column - 1].replace(",", ""))


def _number(pattern: str, text: str) -> float:
    (number,) = re.findall(pattern, text)
    return float(number)


def tables(figures: Measured) -> tuple[Table, Table]:
    """What a billion people a day take, and from which size a cluster is worth its start."""
    plan = Plan.of(Schema.of(100, 1, 5), "kvue", 1)
    request, batched = _request_bytes(plan), ID + plan.packing.width
    average = PEOPLE / DAY
    peak = PEAK * average
    machines, relayed = ceil(peak / figures.single), ceil(peak / figures.batched)
    stored, sealed = figures.stored * PEOPLE, _sealed_bytes(plan)
    lines = [
        ("arrival", "", f"{average:,.0f} reports a second, {peak:,.0f} at a peak of {PEAK} times that"),
        (
            "on the wire, a request per report",
            f"{request} bytes of JSON, before HTTP and TLS",
            _bytes(request * PEOPLE),
        ),
        (
            "on the wire, binary batches of a relay",
            f"{batched} bytes: an id and a code",
            _bytes(batched * PEOPLE),
        ),
        (
            "collectors, a request per report",
            f"{figures.single:,.0f} reports a second on 2 cores",
            _machines(machines),
        ),
        (
            "collectors, binary batches of 100",
            f"{figures.batched:,.0f} reports a second on 2 cores",
            _machines(relayed),
        ),
        (
            "the open epoch on disk",
            f"{batched + ID} bytes: id and code in the log, the id in the index",
            f"{_bytes((batched + ID) * PEOPLE)}, and {_bytes(ID * PEOPLE)} more while that is merged",
        ),
        (
            "sealed epochs on disk",
            f"{sealed:.2g} bytes a report: codes in order",
            f"{_bytes(sealed * PEOPLE)} a day, {_bytes(365 * sealed * PEOPLE)} a year",
        ),
        (
            "reports as `privatise` writes them",
            f"{figures.stored} bytes a report",
            f"{_bytes(stored)} a day, {_bytes(365 * stored)} a year",
        ),
        (
            "tally of the day",
            f"{figures.tallied / 1e6:.0f} million reports a second and core",
            f"{PEOPLE / figures.tallied:.1f} s on one core",
        ),
        (
            "privatising a table of them, for a trial",
            f"{figures.privatised / 1e6:.1f} million people a second and core",
            f"{PEOPLE / figures.privatised / 60:.1f} minutes on one core",
        ),
        (
            "size of the tally",
            f"{len(Tally(plan).counts)} cells",
            f"{_tally_bytes(plan) / 1e3:.1f} kB",
        ),
    ]
    day = Table("A day", ("what", "measured figure", "for a billion people a day"), rows(lines))
    return day, _worth(figures)


def _request_bytes(plan: Plan) -> int:
    """The longest body of a request with one report, as clients send it."""
    reports = [plan.report({}, Coins.stated("billion"), person) for person in range(1000)]
    name = "0" * 2 * ID
    bodies = (
        {"plan": plan.hash, "epoch": 20_000, "reports": [{"id": name, "cells": list(report.cells)}]}
        for report in reports
    )
    return max(len(json.dumps(body, separators=(",", ":"))) for body in bodies)


def _tally_bytes(plan: Plan) -> int:
    """The size of the day's tally."""
    return len(_simulated(plan, PEOPLE).dumps())


def _sealed_bytes(plan: Plan) -> float:
    """Bytes of a report in a sealed epoch, which has its codes in order; more reports take less each."""
    counts = _simulated(plan, SEALED).counts[plan.packing.layout.code_cells]
    codes = np.repeat(np.arange(len(counts)), counts).astype(f"<u{plan.packing.width}")
    with TemporaryDirectory() as folder:
        write_epoch(Path(folder) / "epoch", {}, plan, [codes.tobytes()])
        return sum(file.stat().st_size for file in Path(folder).rglob("*.parquet")) / SEALED


def _simulated(plan: Plan, people: int) -> Tally:
    """The tally of people who hold a tenth of the keys each."""
    records = [{plan.schema.keys[n % 100]: 3 for n in range(first, first + 10)} for first in range(100)]
    population = Population(plan.schema, People.of_records(plan.schema, records))
    return simulate_on(None, plan, population, people, Coins.stated("billion"))


def _worth(figures: Measured) -> Table:
    """The number of people or reports from which a cluster is faster than the local pool."""
    lines = []
    for job, core, pool, spark in (
        ("privatise", figures.privatised, figures.pool_privatised, figures.spark_privatised),
        ("tally", figures.tallied, figures.pool_tallied, figures.spark_tallied),
    ):
        many = CORES * spark
        worth = f"{figures.start / (1 / pool - 1 / many) / 1e6:.0f} million on"
        lines.append(
            (
                job,
                f"{figures.start * core / 1e6:,.0f} million",
                f"{pool / 1e6:.1f} million",
                f"{spark / 1e6:.1f} million",
                f"from {worth}" if many > pool else "never",
            )
        )
    return Table(
        f"What Spark's start of {figures.start:.0f} s is worth",
        (
            "job",
            "done by one core while Spark starts",
            "local pool, 2 cores, a second",
            "Spark, a second and core",
            f"Spark on {CORES} cores is faster",
        ),
        rows(lines),
    )


def _bytes(size: float) -> str:
    if size < 1e9:
        return f"{size / 1e6:.0f} MB"
    return f"{size / 1e9:.1f} GB" if size < 1e10 else f"{size / 1e9:.0f} GB"


def _machines(number: int) -> str:
    return f"{number} such machine{'s' if number > 1 else ''} at the peak"


def shown(page: str) -> str:
    """Both tables as the docs have them."""
    return "\n\n".join(table.markdown() for table in tables(measured(page)))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.billion", description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the tables into docs/scale.md")
    body = shown(DOCS.read_text("utf-8"))
    print(body)
    if parser.parse_args().write:
        _write(PAGE, body)


def _write(page: Path, body: str) -> None:
    before, rest = page.read_text("utf-8").split("<!-- billion -->")
    after = rest.split("<!-- /billion -->")[1]
    page.write_text(f"{before}<!-- billion -->\n\n{body}\n\n<!-- /billion -->{after}", "utf-8")


if __name__ == "__main__":
    main()
