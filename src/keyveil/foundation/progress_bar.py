"""A progress bar for terminals and notebooks; nothing is shown anywhere else."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from importlib import import_module
from typing import Any

Progress = Callable[[int], None]
"""Called with the number of things that are done."""

TERMINAL = "{desc} {bar:30} {n:,} of {total:,}, {remaining} left"


@contextmanager
def progress_bar(label: str, total: int, wanted: bool = True) -> Iterator[Progress]:
    """Show how many of ``total`` are done, until all are done. Then nothing is left of the bar.

    In a terminal it needs tqdm (``keyveil[notebook]``), and is silent without.
    """
    if wanted and in_notebook():
        with _in_cell(label, total) as show:
            yield show
        return
    bars = _bars() if wanted and sys.stderr.isatty() else None
    if bars is None:
        yield lambda done: None
        return
    with bars(total=total, desc=label, leave=False, bar_format=TERMINAL) as bar:
        yield lambda done: bar.update(done - bar.n)


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    shell = sys.modules.get("IPython")
    running: Any = None if shell is None else shell.get_ipython()
    return running is not None and "IPKernelApp" in getattr(running, "config", {})


@contextmanager
def _in_cell(label: str, total: int) -> Iterator[Progress]:
    """A bar in the output of a notebook's cell; the browser draws it."""
    cell: Any = import_module("IPython.display")

    def shown(done: int) -> dict[str, str]:
        words = f"{done:,} of {total:,}"
        bar = f'<progress value="{done}" max="{total}"></progress>'
        return {
            "text/html": f"<div>{escape(label)} {bar} {words}</div>",
            "text/plain": f"{label}: {words}",
        }

    handle = cell.display(shown(0), raw=True, display_id=True)
    try:
        yield lambda done: handle.update(shown(done), raw=True)
    finally:
        handle.update({"text/html": "", "text/plain": ""}, raw=True)


def _bars() -> Any:
    try:
        from tqdm import tqdm
    except ImportError:
        return None
    return tqdm
