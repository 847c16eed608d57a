"""Pictures of plain numbers, drawn on the axes of a caller or into a file.

Needs matplotlib (``keyveil[plot]``). Nothing here changes the backend: a picture for a file is drawn
without a screen, any other one belongs to pyplot, so that a notebook or a window shows it.
"""

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
