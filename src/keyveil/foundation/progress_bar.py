"""A progress bar for terminals and notebooks; nothing is shown anywhere else."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Progress = Callable[[int], None]
"""Called with the number of things that are done."""


@contextmanager
def progress_bar(label: str, total: int, wanted: bool = True) -> Iterator[Progress]:
    """Show how many of ``total`` are done; needs tqdm (``keyveil[notebook]``), and is silent without."""
    bars = _bars() if wanted and (in_notebook() or sys.stderr.isatty()) else None
    if bars is None:
        yield lambda done: None
        return
    with bars(total=total, desc=label, leave=False) as bar:
        yield lambda done: bar.update(done - bar.n)


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    shell = sys.modules.get("IPython")
    running: Any = None if shell is None else shell.get_ipython()
    return running is not None and "IPKernelApp" in getattr(running, "config", {})


def _bars() -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # without ipywidgets a notebook shows the bar as text
            from tqdm.auto import tqdm
    except ImportError:
        return None
    return tqdm
