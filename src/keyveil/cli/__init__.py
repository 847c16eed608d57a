"""The command ``keyveil``: the library's verbs at the terminal, and nothing more."""

from __future__ import annotations

import gc
import os
import sys

THREADS = "OPENBLAS_NUM_THREADS"
"""The number of threads of linear algebra. One is fastest: our matrices are small, and threads wait for
each other."""


def main() -> None:
    """Run the command; every refusal is one line and an exit code that means something."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)  # imports make many objects and no garbage
    if "OMP_NUM_THREADS" not in os.environ:
        os.environ.setdefault(THREADS, "1")
    try:
        from .command import run

        sys.exit(run(sys.argv[1:]))
    except ImportError as error:
        if (error.name or "").split(".")[0] not in {"click", "rich"}:
            raise
        from ..foundation.errors import installation

        print(f"keyveil: the command needs: {installation('cli')}", file=sys.stderr)
        sys.exit(1)
    finally:
        gc.freeze()  # the process ends: nobody needs to look for garbage any more
