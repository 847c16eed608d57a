"""A collector as a process of its own, on a free loopback port."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import IO

import httpx

from keyveil.cli.command import run

KEYVEIL = str(Path(sys.executable).parent / "keyveil")


def user_environment(**more: str) -> dict[str, str]:
    """The variables for a process as a user starts it: it chooses by itself whether to load Numba."""
    own = {name: value for name, value in os.environ.items() if name != "KEYVEIL_FAST"}
    return own | more


@dataclass
class Done:
    """How a command ended."""

    returncode: int
    stdout: str
    stderr: str


def keyveil(*words: str, check: bool = True) -> Done:
    """Run a command to its end, in this process: it has connections of its own."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run(words)
    done = Done(code, out.getvalue(), err.getvalue())
    assert not check or code == 0, done
    return done


class Process:
    """``keyveil serve``, started and ready."""

    def __init__(self, store: str, folder: Path, *more: str) -> None:
        self.store = store
        self.log = folder / f"log-{time.monotonic_ns()}"
        self._log: IO[bytes] = self.log.open("wb")
        begun = time.monotonic()
        words = [KEYVEIL, "serve", "--store", store, "--segments", str(folder / "segments")]
        self.process = subprocess.Popen(
            [*words, "--port", "0", "--reopen-seconds", "0", *more],
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        assert self.process.stdout is not None
        self.said = line = self.process.stdout.readline()
        """What it printed; the rest when it has ended."""
        match = re.search(r"http://[^ ]+", line)
        if match is None:
            self.kill()
            raise RuntimeError(self.log.read_text())
        self.url = match[0]
        self.port = int(self.url.rsplit(":", 1)[1])
        self.client = httpx.Client(base_url=self.url, timeout=30)
        while self.client.get("/ready").status_code != 200:
            time.sleep(0.02)
        self.seconds = time.monotonic() - begun
        """From start to ready."""

    def kill(self) -> None:
        """kill -9."""
        self.end(signal.SIGKILL)

    def end(self, how: int = signal.SIGTERM) -> int:
        """Tell it to end; its exit code."""
        if self.process.poll() is None:
            os.kill(self.process.pid, how)
        code = self.process.wait(30)
        if self.process.stdout is not None:
            self.said += self.process.stdout.read()
            self.process.stdout.close()
        self._log.close()
        if hasattr(self, "client"):
            self.client.close()
        return code
