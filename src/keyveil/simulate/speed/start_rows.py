"""Processor time and memory of fresh processes: imports, commands and a comparison."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from ...foundation.coins import Coins
from ...people.schema import Schema
from ...plan.plan import Plan
from ...plan.report_file import writing
from .speed_rows import Timing
from .speed_table import LIMIT, SpeedRow
from .stopwatch import fresh_processes, peak_memory, process_cost, python
from .timed_people import one_each

START_AIM = 1 / 1.5
"""A command takes at most 1.5 times as long as Python with NumPy and click."""

DEVICE_NEEDS = "import numpy; from cryptography.hazmat.primitives.ciphers import Cipher"
COMMAND = "from keyveil.cli import main; main()"
COMMAND_NEEDS = "import numpy, click"
ONE_RECORD = """
from keyveil import Plan, Schema
Plan.of(Schema.of(["Fries", "Pepsi"], 1, 5), "kvue", 1).report({"Pepsi": 4.5})
"""
MANY_PEOPLE = """
import sys
from keyveil import Coins, Plan, Schema, Tally
from keyveil.simulate.speed.timed_people import one_each
plan, coins = Plan.of(Schema.of(100), "kvue", 1), Coins.secure()
tally = Tally(plan)
for first in range(0, int(sys.argv[1]), 100_000):
    tally.add(plan.privatise(one_each(100_000, 100), coins))
"""
COMPARISON = "compare --population gaussian --people 1e6 --epsilon 1 --mechanism privkv,kvue,pckv_grr"


def commands(folder: Path) -> dict[str, list[str]]:
    """Small commands by their name; their inputs are written into the folder."""
    plan = Plan.of(Schema.of(10, 1, 5), "kvue", 1)
    plan.save(folder / "plan.json")
    with writing(plan, str(folder / "reports.kv")) as writer:
        writer.add(plan.privatise(one_each(100, 10), Coins.secure()))
    keyveil = python(COMMAND)
    stated, reports = str(folder / "plan.json"), str(folder / "reports.kv")
    plan_words = ["--keys", "10", "--range", "1,5", "--epsilon", "1", "--mechanism", "kvue"]
    return {
        "keyveil --help": [*keyveil, "--help"],
        "keyveil plan": [*keyveil, "plan", *plan_words, "-o", f"{folder}/new.json", "--force"],
        "keyveil audit": [*keyveil, "audit", stated],
        "keyveil tally": [*keyveil, "tally", stated, reports, "-o", f"{folder}/tally.kv", "--force"],
    }


def start_rows(timing: Timing) -> Iterator[SpeedRow]:
    """Import, the start of commands on small input, peak memory, and a comparison."""
    turns = max(1, min(10, round(timing.seconds * 30)))
    with TemporaryDirectory() as folder:
        measured = {
            "needs of a device": python(DEVICE_NEEDS),
            "import and one record": python(ONE_RECORD),
            "needs of a command": python(COMMAND_NEEDS),
            **commands(Path(folder)),
        }
        taken = fresh_processes(measured, turns)
    for name, seconds in taken.items():
        if name.startswith("needs"):
            continue
        is_command = name.startswith("keyveil")
        needs = taken["needs of a command" if is_command else "needs of a device"]
        aims = {LIMIT: START_AIM} if is_command else {}
        yield SpeedRow(f"start: {name}", seconds, "process", {LIMIT: needs / seconds}, aims)
    least, many = peak_memory(DEVICE_NEEDS), 100_000 * max(1, round(timing.seconds * 100))
    peak = peak_memory(MANY_PEOPLE, str(many))
    yield SpeedRow(f"peak memory, {many:,} people", peak, "MiB", {LIMIT: least / peak})
    repeat = max(1, round(timing.seconds * 60))
    words = [*python(COMMAND), *COMPARISON.split(), "--repeat", str(repeat)]
    seconds, _ = process_cost(words)
    yield SpeedRow(f"compare, 1,000,000 people, {repeat} times", seconds, "process")
