"""``keyveil bench`` for the docs: beside NumPy, other packages and the limit, with its picture.

The packages run in ``.venv-bench/``. They draw from generators that protect no one (but OpenDP's), take
one person a call, and are given the state, which keyveil finds in a record first.
"""

from __future__ import annotations

from keyveil.plot.speed_plots import draw_speed
from keyveil.simulate.speed.measure_speed import measure_speed

from .speed import PEER, peer_python
from .table import DOCS, Outcome, Table, rows

PICTURE = DOCS.parent / "images" / "speed.png"
NOTE = (
    "A ratio says how many times as long the other form takes. The limit is the time of AES-256 in "
    "counter mode for the words of a report, of reading the reports from memory, or of a process that "
    "imports the packages that keyveil needs. The share of KVUE is that of its rate in the same turns. "
    f"All numbers are processor time of one core.\n\n![Ratios and their aims](images/{PICTURE.name})"
)


def run(quick: bool) -> Outcome:
    """The table of ``keyveil bench``; a whole run also draws its picture."""
    python = peer_python(quick)
    table = measure_speed(None, 0.05 if quick else 0.3, None if isinstance(python, str) else PEER)
    heads, lines = table.cells()
    missed = tuple(f"{row.name}: {row.shown_aims}" for row in table.rows if row.missed)
    if not quick:
        draw_speed([row.document() for row in table.rows], PICTURE, table.words)
    skipped = f"Other packages are {python}. " if isinstance(python, str) else ""
    shown = Table("keyveil bench, epsilon 1, one core", tuple(heads), rows(lines), skipped + NOTE)
    return Outcome("peers", (shown,), table.document(), missed)
