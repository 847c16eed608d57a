"""The time that a fresh process takes to import keyveil and privatise one record."""

from __future__ import annotations

import json
import subprocess
import sys
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median
from time import perf_counter

from .table import Outcome, Table, rows, times

AIM = 0.25
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

ONE_RECORD = """
from keyveil import Plan, Schema
plan = Plan.of(Schema.of(["Fries", "Pepsi"], 1, 5), "kvue", 1)
plan.report({"Pepsi": 4.5})
"""
ITS_NEEDS = """
import numpy
from cryptography.hazmat.primitives.ciphers import Cipher
"""
FORMS = {"keyveil, one record": ONE_RECORD, "numpy and cryptography": ITS_NEEDS, "nothing": ""}


def run(quick: bool) -> Outcome:
    """Median times over fresh processes, and the heavy packages that were loaded."""
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in FORMS}
    for _ in range(3 if quick else 10):
        for name, code in FORMS.items():
            taken[name].append(_one(code))
    seconds = {name: median(wall for wall, _ in runs) for name, runs in taken.items()}
    work = {name: median(cpu for _, cpu in runs) for name, runs in taken.items()}
    loaded = _loaded()
    ours, theirs, _ = seconds.values()
    lines = [(n, times(s / theirs), f"{s:.3f}", f"{work[n]:.3f}") for n, s in seconds.items()]
    shown = Table(
        "A fresh process, median",
        ("what it does", "time against its needs", "seconds", "CPU seconds"),
        rows(lines),
        f"Aim: under {AIM} s, with none of {', '.join(HEAVY)} loaded"
        f" (loaded: {', '.join(loaded) or 'none'}).",
    )
    missed = [] if ours < AIM else [f"start: {ours:.3f} s, aim under {AIM} s"]
    missed += [f"start: {name} is loaded" for name in loaded]
    figures = {"seconds": seconds, "cpu": work, "loaded": loaded}
    return Outcome("start", (shown,), figures, tuple(missed))


def _one(code: str) -> tuple[float, float]:
    """Wall seconds and CPU seconds (all threads) of a fresh process."""
    before, start = getrusage(RUSAGE_CHILDREN), perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    wall, after = perf_counter() - start, getrusage(RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _loaded() -> list[str]:
    code = f"{ONE_RECORD}\nimport json, sys\nprint(json.dumps([n for n in {HEAVY} if n in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return [str(name) for name in json.loads(done.stdout)]
