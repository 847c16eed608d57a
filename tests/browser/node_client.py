"""Node, with the client's modules."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

CLIENT = Path(__file__).parents[2] / "clients" / "js"


def node(*words: str, given: str = "") -> str:
    """What a Node process prints; its errors if it fails."""
    program = shutil.which("node")
    assert program is not None, "the tests need Node: apt-get install nodejs npm"
    done = subprocess.run([program, *words], input=given, capture_output=True, text=True, cwd=CLIENT)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout
