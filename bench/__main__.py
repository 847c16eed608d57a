"""Run the benchmarks: ``python -m bench [NAME ...] [--quick] [--json FILE] [--write]``."""

from __future__ import annotations

import argparse
import json
import os
import platform
from importlib.metadata import version
from pathlib import Path
from time import perf_counter

from . import (
    answers,
    browser,
    collector,
    coverage,
    curves,
    dashboard,
    fleet,
    hostile,
    many,
    peers,
    rates,
    scale,
    speed,
    start,
    tallies,
)

BENCHMARKS = {
    "speed": speed.run,
    "rates": rates.run,
    "tallies": tallies.run,
    "answers": answers.run,
    "peers": peers.run,
    "start": start.run,
    "coverage": coverage.run,
    "collector": collector.run,
    "fleet": fleet.run,
    "many": many.run,
    "hostile": hostile.run,
    "browser": browser.run,
    "dashboard": dashboard.run,
    "core": scale.run_core,
    "scale": scale.run,
    "curves": curves.run,
}


def machine() -> str:
    """The processor, the Python version and the packages that the figures come from."""
    facts = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    names = [line.split(":")[1].strip() for line in facts.splitlines() if line.startswith("model name")]
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "numba", "cryptography"))
    model = names[0] if names else platform.machine()
    return f"{model}, {os.cpu_count()} cores, Python {platform.python_version()}, {packages}"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description="Speed and accuracy of keyveil."
    )
    parser.add_argument("names", nargs="*", choices=[*BENCHMARKS, []], help="all by default")
    parser.add_argument("--quick", action="store_true", help="smaller sizes, under a minute in all")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures as JSON")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/benchmarks.md")
    given = parser.parse_args()
    if unknown := set(given.names) - set(BENCHMARKS):
        parser.error(f"unknown benchmark {min(unknown)!r}; known: {', '.join(BENCHMARKS)}")
    figures: dict[str, object] = {"machine": machine()}
    print(machine())
    for name in given.names or BENCHMARKS:
        began = perf_counter()
        outcome = BENCHMARKS[name](given.quick)
        for table in outcome.tables:
            print(f"\n{table}")
        for line in outcome.missed:
            print(f"missed: {line}")
        print(f"({name}: {perf_counter() - began:.0f} s)", flush=True)
        figures[name] = {"figures": outcome.figures, "missed": list(outcome.missed)}
        if given.write:
            options = "--quick " if given.quick else ""
            outcome.write(f".venv/bin/python -m bench {name} {options}--write", machine())
    if given.json:
        given.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
