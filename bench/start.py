"""The processor time of fresh processes: an import with one record, and small commands."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from keyveil import Plan, Schema
from keyveil.simulate.speed.start_rows import COMMAND_NEEDS, DEVICE_NEEDS, ONE_RECORD, commands
from keyveil.simulate.speed.stopwatch import fresh_processes, python, shortest
from keyveil.simulate.speed.timed_people import KEYS, ten_held

from .table import Outcome, Table, rows

AIM, AIM_RECORD = 1.5, 50e-6
DEVICE, COMMAND = "numpy and cryptography", "numpy and click"
HEAVY = (
    "numba",
    "llvmlite",
    "matplotlib",
    "click",
    "rich",
    "pyarrow",
    "scipy",
    "starlette",
    "polars",
    "pandas",
)


def run(quick: bool) -> Outcome:
    """Shortest processor times of fresh processes in turns, and the heavy packages that were loaded."""
    with TemporaryDirectory() as folder:
        forms = {
            "import keyveil": python("import keyveil"),
            "keyveil, one record": python(ONE_RECORD),
            **commands(Path(folder)),
            DEVICE: python(DEVICE_NEEDS),
            COMMAND: python(COMMAND_NEEDS),
        }
        taken = fresh_processes(forms, 4 if quick else 15)
    needs = {name: COMMAND if name.startswith("keyveil ") else DEVICE for name in forms} | {
        COMMAND: COMMAND
    }
    ratios = {name: seconds / taken[needs[name]] for name, seconds in taken.items()}
    lines = [(n, f"{ratios[n]:.2f} x {needs[n]}", f"{s * 1000:.0f}") for n, s in taken.items()]
    loaded, record = _loaded(), _one_record()
    shown = Table(
        "A fresh process, shortest processor time",
        ("what it does", "time against its needs", "ms"),
        rows(lines),
        f"Aim: a command takes at most {AIM:g} times as long as Python that imports NumPy and click. "
        f"One record loads none of {', '.join(HEAVY)} (loaded: {', '.join(loaded) or 'none'}). "
        f"After the import, a report of a record with 10 of {KEYS} keys takes {record * 1e6:.0f} "
        f"microseconds (aim: {AIM_RECORD * 1e6:.0f}).",
    )
    missed = [
        f"start: {name} is {ratios[name]:.2f} x its needs" for name in forms if _late(name, ratios)
    ]
    missed += [f"start: {name} is loaded" for name in loaded]
    missed += [f"start: a record takes {record * 1e6:.0f} us"] if record > AIM_RECORD else []
    figures = {"seconds": taken, "ratios": ratios, "loaded": loaded, "record": record}
    return Outcome("start", (shown,), figures, tuple(missed))


def _late(name: str, ratios: dict[str, float]) -> bool:
    return name.startswith("keyveil ") and ratios[name] > AIM


def _one_record() -> float:
    """Seconds of a report after the import."""
    plan = Plan.of(Schema.of(KEYS), "kvue", 1)
    record = next(ten_held(1_000)[0].records(plan.schema))
    return shortest({"": lambda: [plan.report(record) for _ in range(1_000)]}, 10)[""] / 1_000


def _loaded() -> list[str]:
    code = f"{ONE_RECORD}\nimport json, sys\nprint(json.dumps([n for n in {HEAVY} if n in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return [str(name) for name in json.loads(done.stdout)]
