"""Pictures of answers; needs matplotlib (``keyveil[plot]``)."""

from .answer_plots import plot_answers, plot_matrix
from .comparison_plots import plot_rows, spread_out
from .forecast_plots import plot_curves, plot_gains, plot_limit
from .style import plain_number

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
