"""Processor time of things that take turns, and of fresh processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from resource import RUSAGE_CHILDREN, getrusage
from time import process_time

from ...foundation.errors import KeyveilError

TURNS = 5
"""Turns of every form; the shortest counts."""
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""Environment of a process whose linear algebra starts no threads."""


def shortest(forms: Mapping[str, Callable[[], object]], turns: int = TURNS) -> dict[str, float]:
    """Each form's shortest processor time in seconds; the forms take turns.

    What else runs on the machine then disturbs all of them alike. All threads of the process count.
    """
    best = dict.fromkeys(forms, float("inf"))
    for _ in range(turns):
        for name, form in forms.items():
            began = process_time()
            form()
            best[name] = min(best[name], process_time() - began)
    return best


def seconds_of(form: Callable[[], object]) -> float:
    """Processor time in seconds of one call."""
    return shortest({"": form}, 1)[""]


def fresh_processes(commands: Mapping[str, Sequence[str]], turns: int) -> dict[str, float]:
    """Each command's shortest processor time in seconds, as a new process of one thread each time."""
    best = dict.fromkeys(commands, float("inf"))
    for turn in range(turns + 1):
        for name, words in commands.items():
            taken, _ = process_cost(words)
            if turn:  # the first only fills the caches of the file system
                best[name] = min(best[name], taken)
    return best


def process_cost(words: Sequence[str]) -> tuple[float, str]:
    """Processor time in seconds of a new process with its children, and its output."""
    before = getrusage(RUSAGE_CHILDREN)
    environment = {**os.environ, **ONE_THREAD}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    after = getrusage(RUSAGE_CHILDREN)
    if done.returncode:
        raise KeyveilError(f"a measured process failed: {done.stderr.strip()[-300:]}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def python(code: str, *words: str) -> list[str]:
    """The command that runs code in a new process of this Python."""
    return [sys.executable, "-c", code, *words]


PEAK = """
import re
from pathlib import Path
print(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
"""
"""Prints the largest resident size of its process in KiB; getrusage has that of the parent in it."""


def peak_memory(code: str, *words: str) -> float:
    """Peak memory in MiB of code in a new process."""
    _, said = process_cost(python(code + PEAK, *words))
    return int(said.splitlines()[-1]) / 1024
