"""The command ``keyveil``: the library's verbs at the terminal, and nothing more."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command; every refusal is one line and an exit code that means something."""
    try:
        from .command import run
    except ImportError as error:
        if (error.name or "").split(".")[0] not in {"click", "rich"}:
            raise
        print("keyveil: the command needs: pip install 'keyveil[cli]'", file=sys.stderr)
        sys.exit(1)
    sys.exit(run(sys.argv[1:]))
