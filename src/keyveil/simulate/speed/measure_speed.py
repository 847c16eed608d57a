"""Measures all rows or some groups of them, in one run on one core."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ...foundation.errors import PlanError, nearest
from .machine_limits import machine_facts
from .peer_packages import Peers, peers_python
from .speed_rows import Timing, estimate_rows, privatise_rows, tally_rows
from .speed_table import SpeedRow, SpeedTable
from .start_rows import start_rows

GROUPS: dict[str, Callable[[Timing], Iterator[SpeedRow]]] = {
    "privatise": privatise_rows,
    "tally": tally_rows,
    "estimate": estimate_rows,
    "start": start_rows,
}
"""The groups of rows by name."""


def measure_speed(
    groups: Sequence[str] | None = None,
    seconds: float = 0.3,
    peers: Path | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> SpeedTable:
    """Rows of the groups, all by default; ``seconds`` of processor time for each form.

    ``peers`` is the folder of the other packages' environment. It is made there if it is not; without
    a folder they are left out.
    """
    for name in groups or ():
        if name not in GROUPS:
            near = nearest(name, GROUPS)
            hint = "" if near is None else f"did you mean {near}? "
            raise PlanError(f"no group of rows is called {name!r}; {hint}known: {', '.join(GROUPS)}")
    rows: list[SpeedRow] = []
    with ExitStack() as stack:
        others = None
        if peers is not None:
            others = stack.enter_context(Peers(peers_python(peers), min(0.05, seconds)))
        for name in groups or GROUPS:
            with _on_one_core(compiled=name != "start"):
                for row in GROUPS[name](Timing(seconds, others)):
                    rows.append(row)
                    if on_progress is not None:
                        on_progress(len(rows))
    return SpeedTable(rows, machine_facts())


@contextmanager
def _on_one_core(compiled: bool) -> Iterator[None]:
    """One core; if ``compiled``, loops from the first person on, unless the user decided otherwise."""
    stated, cores = os.environ.get("KEYVEIL_FAST"), os.sched_getaffinity(0)
    if compiled:
        os.environ.setdefault("KEYVEIL_FAST", "1")
    os.sched_setaffinity(0, {max(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)
        if stated is None:
            os.environ.pop("KEYVEIL_FAST", None)
