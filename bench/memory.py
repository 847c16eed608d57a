"""Peak memory of commands on tables of one, four and sixteen million rows, of every form.

``python -m bench.memory [--write] [--rows 1,4,16]`` makes the tables, runs each command in a process of
its own, and reads every few milliseconds how much memory that process has allocated beyond its imports:
``VmData`` of Linux, in which mapped files do not count. ``--write`` puts the table into docs/scale.md.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from keyveil import Plan, Schema

from .table import DOCS, Table, rows

PAGE = DOCS.parent / "scale.md"
BATCH = 1 << 16
GROUP = 16
"""Batches in a row group: about a million rows, as Arrow writes them."""
FORMS = {"csv": "CSV", "jsonl": "JSON lines", "arrow": "Arrow", "parquet": "Parquet"}
ORDERS = ("in order of people", "in no order")
CHILD = """
import sys
import pyarrow.csv, pyarrow.ipc, pyarrow.json, pyarrow.parquet
import keyveil.cli.privatise_command, keyveil.cli.tally_command, keyveil.plan.batch
import keyveil.people.tables.table_reader, keyveil.plan.engines.privatising
from keyveil.cli.command import run

sys.stdin.readline()
sys.exit(run(sys.argv[1:]))
"""
FEW_THREADS = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "ARROW_IO_THREADS": "1",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "1",
    "KEYVEIL_FAST": "0",
}
"""Threads, pools of allocators and compiled loops take memory of their own, whatever the table is."""


def batches(number: int, in_order: bool) -> Iterator[Any]:
    """Rows of people with two of ten keys each."""
    places = np.arange(number)
    if not in_order:
        places = np.random.default_rng(1).permutation(number)
    names = pa.array([str(key) for key in range(10)])
    for first in range(0, number, BATCH):
        rows = places[first : first + BATCH]
        keys = names.take(pa.array(rows % 2 * 5 + rows // 2 % 5))
        columns = [pa.array(rows // 2), keys, pa.array(rows % 5 + 1.0)]
        yield pa.record_batch(columns, names=["person", "key", "value"])


def write_table(path: Path, number: int, in_order: bool) -> None:
    """A table in the form that its name ends with."""
    stream = batches(number, in_order)
    first = next(stream)
    everything = (batch for part in ([first], stream) for batch in part)
    if path.suffix == ".csv":
        plain = pyarrow.csv.WriteOptions(quoting_style="none")
        with pyarrow.csv.CSVWriter(path, first.schema, write_options=plain) as file:
            for batch in everything:
                file.write_batch(batch)
    elif path.suffix == ".arrow":
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, first.schema) as file:
            for batch in everything:
                file.write_batch(batch)
    elif path.suffix == ".parquet":
        with pq.ParquetWriter(path, first.schema) as file:
            while group := list(islice(everything, GROUP)):
                file.write_table(pa.Table.from_batches(group))
    else:
        with path.open("w", encoding="utf-8") as lines:
            for batch in everything:
                person, key, value = (column.cast(pa.string()) for column in batch.columns)
                parts = ['{"person": ', person, ', "key": "', key, '", "value": ', value, "}\n"]
                lines.writelines(pc.binary_join_element_wise(*parts, "").to_pylist())


def peak(folder: Path, *words: str) -> float:
    """The most memory in MiB that a command allocates beyond its imports."""
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, *words],
        cwd=folder,
        env={**os.environ, **FEW_THREADS},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    before = most = _settled(child.pid)
    assert child.stdin is not None
    child.stdin.write("\n")
    child.stdin.close()
    while child.poll() is None:
        most = max(most, _allocated(child.pid))
        time.sleep(0.002)
    if child.returncode:
        raise SystemExit(f"keyveil {' '.join(words)} ended with code {child.returncode}")
    return (most - before) / 1024


def _settled(process: int) -> int:
    """What a process has allocated when it waits for its first line."""
    while True:
        before = _allocated(process)
        time.sleep(0.5)
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        if state == "S" and before and before == _allocated(process):
            return before


def _allocated(process: int) -> int:
    """Private memory of a process in KiB; 0 if it has ended."""
    match = re.search(r"VmData:\s+(\d+)", Path(f"/proc/{process}/status").read_text())
    return int(match[1]) if match else 0


def measured(folder: Path, millions: list[int]) -> dict[str, list[float]]:
    """The peak of each command for each number of rows."""
    Plan.of(Schema.of(10, 1, 5), "kvue", 1).save(folder / "plan.json")
    figures: dict[str, list[float]] = {}
    for many in millions:
        for form, name in FORMS.items():
            for order in ORDERS:
                table = folder / f"table.{form}"
                write_table(table, many * 1_000_000, order == ORDERS[0])
                words = ("privatise", "plan.json", table.name, "--processes", "1", "--force")
                row = f"privatise, {name} {order}"
                figures.setdefault(row, []).append(peak(folder, *words, "-o", "reports.kv"))
                print(f"{row}, {many} million: {figures[row][-1]:.0f} MiB", file=sys.stderr, flush=True)
                table.unlink()
        words = ("tally", "plan.json", "reports.kv", "--processes", "1", "--force")
        figures.setdefault("tally", []).append(peak(folder, *words, "-o", "tally.kv"))
    return figures


def shown(figures: dict[str, list[float]], millions: list[int]) -> str:
    """The figures as the docs have them."""
    lines = [(name, *(f"{peak:.0f}" for peak in peaks)) for name, peaks in figures.items()]
    heads = [f"{many} million rows" for many in millions]
    return Table("Peak private memory, MiB", ("command, one process", *heads), rows(lines)).markdown()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.memory", description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the table into docs/scale.md")
    parser.add_argument("--rows", default="1,4,16", help="millions of rows, like 1,4,16")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures as JSON")
    given = parser.parse_args()
    millions = [int(many) for many in given.rows.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        figures = measured(Path(folder), millions)
    if given.json:
        given.json.write_text(json.dumps({"millions": millions, "mebibytes": figures}, indent=1))
    body = shown(figures, millions)
    print(body)
    if given.write:
        page = PAGE.read_text("utf-8")
        place = re.compile("(<!-- memory -->).*?(<!-- /memory -->)", re.DOTALL)
        PAGE.write_text(place.sub(lambda m: f"{m[1]}\n\n{body}\n\n{m[2]}", page), "utf-8")


if __name__ == "__main__":
    main()
