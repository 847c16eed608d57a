"""Checks of what a tally admits, and of what fakes may choose."""

from __future__ import annotations

import numpy as np

from ..channel import Channel
from ..foundation.coins import Coins
from ..foundation.errors import ReportError
from ..plan.plan import Plan
from ..plan.report import Report, Reports
from ..plan.tally import Tally
from .assertions import evenly_spaced, require
from .sampler_checks import drawn_outputs

_SMALL = 1 << 16
"""Maximum number of cells of a tally that is tested in many places."""


def check_support(plan: Plan) -> None:
    """Check that the tally admits exactly what an honest device can send, singly and in a batch."""
    layout = plan.layout
    for view in sorted({0, len(plan.views) // 2, len(plan.views) - 1}):
        channel, own = plan.view_channels[view], int(layout.own[view])
        if channel.one_cell:
            _check_codes(plan, view)
        for cells in _drawn_cells(channel, own, 16 if layout.cells <= _SMALL else 1):
            require(_admitted(plan, cells), f"an honest device marks {cells}, and is refused")
        last = own + 1 + channel.cells
        refused = [(own + 1,), (own, last), (own, own), (own, own + 1, own + 1), (-1, own + 1)]
        if channel.one_cell:
            refused += [(own,), (own, own + 1, own + 2)]
        for cells in refused:
            require(not _admitted(plan, cells), f"no honest device marks {cells}")
    require(not _admitted(plan, (layout.cells,)), "the tally has no such cell")


def _check_codes(plan: Plan, view: int) -> None:
    """Check that a cell is admitted if and only if some state sends it."""
    layout, channel, own = plan.layout, plan.view_channels[view], int(plan.layout.own[view])
    law = channel.output_law()
    for cell in evenly_spaced(channel.cells, 64 if layout.cells <= _SMALL else 4):
        possible = law is None or bool(law[:, cell].max() > 0)
        cells = (own, own + 1 + cell)
        require(_admitted(plan, cells) == possible, f"cells {cells}: possible is {possible}")
        if not layout.one_cell:
            continue  # a row of bits, in a plan of parts
        code = np.array([layout.first_code[view] + cell], layout.code_type)
        try:
            counts = Tally(plan).add(Reports(plan.hash, codes=code)).counts
        except ReportError:
            require(not possible, f"code {code[0]} is refused")
        else:
            marked = np.flatnonzero(counts).tolist()
            require(possible and marked == list(cells), f"code {code[0]} marks {marked}")


def _drawn_cells(channel: Channel, own: int, draws: int) -> set[tuple[int, ...]]:
    """The cells of drawn reports from a few states."""
    reports = set()
    for state in evenly_spaced(channel.states, 4):
        drawn = drawn_outputs(channel, state, draws, "support")
        for output in drawn:
            marks = [output] if drawn.ndim == 1 else np.flatnonzero(output)
            reports.add((own, *(own + 1 + int(cell) for cell in marks)))
    return reports


def _admitted(plan: Plan, cells: tuple[int, ...]) -> bool:
    """Whether the tally takes a report with these cells. A refused report must leave no marks."""
    tally = Tally(plan)
    try:
        tally.add(Report(plan.hash, cells))
    except ReportError:
        require(not tally.counts.any(), "a refused report left marks")
        return False
    marked = np.flatnonzero(tally.counts).tolist()
    require(marked == sorted(cells) and tally.reports == 1, f"{cells} left other marks")
    return True


def check_choices(channel: Channel) -> None:
    """Check that the possible reports of fakes are exactly the admitted ones.

    All sets of cells are tested if they are few, else random sets.
    """
    choices = channel.choices()
    if choices.outputs is not None:
        require(choices.outputs.size == channel.cells, "an output for every cell")
        for cell in evenly_spaced(channel.cells, 64):
            possible = bool(choices.outputs.flat[cell])
            require(channel.admits((cell,)) == possible, f"output {cell}: possible is {possible}")
        return
    require(choices.positions * choices.marks == channel.cells, "positions do not make up the cells")
    if channel.cells <= 16:
        marked = (np.arange(1 << channel.cells)[:, None] >> np.arange(channel.cells) & 1) == 1
    else:
        generator = Coins.stated("choices").generator()
        marked = generator.random((4096, channel.cells)) < generator.random((4096, 1)) ** 2
    rows = marked.astype(np.uint8)
    marks = rows.reshape(len(rows), choices.positions, choices.marks).sum(axis=2)
    chosen = (marks <= 1).all(axis=1) & ((choices.size is None) | (marks.sum(axis=1) == choices.size))
    off = np.flatnonzero(channel.admits_rows(rows) != chosen)
    require(not len(off), f"admitted or a choice, not both: row {off[:1]}")
