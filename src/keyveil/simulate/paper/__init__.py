"""The paper's Section VI again: one file for each kind of figure or table, our lines next to theirs.

``runner`` runs them over ``workers`` into a ``results_folder``, ``figures`` draws them, ``html_report``
writes what they say about the paper's claims.
A file has ``EXPERIMENTS``, by name. An experiment lists its settings (``jobs``), makes the rows of one
setting (``work``), turns all rows into figures (``draw``), and says which of the paper's claims they
confirm (``claims``).
"""

from __future__ import annotations

from importlib import import_module

from ...foundation.errors import PlanError, nearest
from .experiment import Experiment

PER_PERSON = "person"
"""Runs only when asked for: a part of Fig. 1 with every person's record and report."""

_FILES = {
    "fig1": "fig1",
    **dict.fromkeys(("fig2", "fig3", "fig4"), "signed_errors"),
    "fig5": "fig5",
    **dict.fromkeys(("fig6", "fig7"), "conditional_errors"),
    "rivals": "rivals",
    "cost": "report_cost",
    "bounds": "bounds_figure",
    "privacy": "true_epsilons",
    PER_PERSON: "per_person",
}
"""The file of each experiment."""

NAMES = tuple(name for name in _FILES if name != PER_PERSON)
"""In the order of the paper."""


def experiment(name: str) -> Experiment:
    """The experiment of that name."""
    if name not in _FILES:
        near = nearest(name, tuple(_FILES))
        hint = "" if near is None else f"did you mean {near}? "
        raise PlanError(f"unknown experiment {name!r}; {hint}known: {', '.join(_FILES)}")
    matches: dict[str, Experiment] = import_module(f"{__name__}.{_FILES[name]}").EXPERIMENTS
    return matches[name]


__all__ = ["NAMES", "PER_PERSON", "Experiment", "experiment"]
