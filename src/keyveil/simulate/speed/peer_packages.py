"""Other packages in an environment of their own, which is made on request."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ...foundation.errors import KeyveilError

HERE = Path(__file__).parent
PACKAGES = ("pure-ldp", "multi-freq-ldpy", "OpenDP", "diffprivlib")
_WAIT = 900
"""Seconds that an installation may take."""


def peers_python(folder: Path) -> Path:
    """The Python of the packages' environment in a folder; it is made there if there is none.

    A folder that has something else is refused.
    """
    python, ready = folder / "bin" / "python", folder / ".ready"
    pins = HERE / "peer_pins.txt"
    if ready.exists() and ready.read_text() == pins.read_text():
        return python
    if folder.exists() and not (folder / "pyvenv.cfg").exists() and any(folder.iterdir()):
        raise KeyveilError(f"{folder} is not an environment of the peers; name a new folder")
    print(f"installing {', '.join(PACKAGES)} into {folder} ...", file=sys.stderr)
    try:
        venv.create(folder, with_pip=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "-r", str(pins)]
        subprocess.run(install, check=True, capture_output=True, timeout=_WAIT)
    except (OSError, subprocess.SubprocessError) as error:
        raise KeyveilError(f"the peers cannot be installed into {folder}: {error}") from None
    ready.write_text(pins.read_text())
    return python


class Peers:
    """A process of the other packages that answers rows one at a time."""

    def __init__(self, python: Path, seconds: float) -> None:
        """``seconds`` is the least length of a measurement."""
        command = [str(python), "-W", "ignore", str(HERE / "peer_clients.py"), str(seconds)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def seconds(self, task: str, states: int) -> dict[str, float]:
        """Seconds of a person by package; empty if no package knows the task."""
        process: Any = self._process
        try:
            process.stdin.write(f"{task} {states}\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            raise KeyveilError(f"the peers do not run: {process.stderr.read().strip()[-300:]}")
        times: dict[str, float] = json.loads(answer)
        return times

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.communicate()
