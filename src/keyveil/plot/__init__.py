"""Pictures of answers; needs matplotlib (``keyveil[plot]``)."""

from .answers import plot_answers, plot_matrix
from .foreseen import plot_curves, plot_gains, plot_limit
from .look import plain_number
from .rows import plot_rows, spread_out

__all__ = [
    "plain_number",
    "plot_answers",
    "plot_curves",
    "plot_gains",
    "plot_limit",
    "plot_matrix",
    "plot_rows",
    "spread_out",
]
