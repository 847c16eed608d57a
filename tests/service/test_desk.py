"""The tests' own tools: nothing that they start outlives them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

HERE = Path(__file__).parent
START = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
from desk import Postgres, postgres_binaries
server = Postgres(postgres_binaries())
if os.fork() == 0:
    os.close(1)
    for _ in range(6000):
        if not server.folder.exists():
            break
        time.sleep(0.01)
    os._exit(0)
print(server.folder, flush=True)
time.sleep(600)
"""
"""Starts a server and forks a process that lives as long as the server does, or a minute."""
PATIENCE = 40


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_postgresql_ends_with_whoever_started_it(postgres, how):
    """A test run that is told to end, or is killed, has no time to stop anything itself; and a process
    that it forked may outlive it."""
    run = subprocess.Popen([sys.executable, "-c", START, str(HERE)], stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    folder = Path(run.stdout.readline().strip())
    number = int((folder / "data" / "postmaster.pid").read_text().splitlines()[0])
    assert is_running(number)
    os.kill(run.pid, how)
    run.wait(60)
    run.stdout.close()
    ends = time.monotonic() + PATIENCE
    while folder.exists() or is_running(number):
        assert time.monotonic() < ends, "the server outlives whoever started it"
        time.sleep(0.02)


def is_running(number: int) -> bool:
    """Whether a process is there, and is not merely one that nobody has waited for."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(number)], stdout=subprocess.PIPE, text=True)
    return bool(state.stdout.strip()) and not state.stdout.startswith("Z")
