"""What a plan promises, as a picture."""

from __future__ import annotations

from math import exp

import numpy as np

from .style import BLUE, GREY, Axes, given_axes, grid_of, lightly


def draw_beliefs(epsilon: float, name: str, ax: Axes | None = None) -> Axes:
    """How far one report can move a belief about a person, whatever the belief was before.

    A report multiplies the odds of any statement about the record by at most e^epsilon, and divides them
    by at most that.
    """
    if ax is None:
        figure, ((panel,),) = grid_of(None, 1, 6.6, 4.6)
    else:
        panel = given_axes(ax)
    before = np.linspace(0, 1, 201)
    most = before * exp(epsilon) / (before * exp(epsilon) + 1 - before)
    panel.fill_between(before, 1 - most[::-1], most, color=BLUE, alpha=0.25, lw=0)
    panel.plot(before, most, color=BLUE, lw=1.6, label="at most")
    panel.plot(before, 1 - most[::-1], color=BLUE, lw=1.6, ls="--", label="at least")
    panel.plot([0, 1], [0, 1], color=GREY, lw=1.0, ls=":", label="nothing learned")
    panel.set(xlim=(0, 1), ylim=(0, 1))
    panel.set_xlabel("belief in a statement about a person, before the report")
    panel.set_ylabel("after the report")
    panel.set_title(
        f"What a report of {name} can reveal (epsilon {epsilon:.4g})", loc="left", fontsize=10
    )
    panel.legend(frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    lightly(panel)
    if ax is None:
        figure.tight_layout()
    return panel
