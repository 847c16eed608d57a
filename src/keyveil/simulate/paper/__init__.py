"""The paper's Section VI again: one file for each figure or table, with our lines beside theirs.

``runner`` runs them over ``workers`` into a ``results_folder``, ``figures`` draws them, ``html_report``
writes what they say about the paper's claims.
An experiment is a module with ``NAME``, ``TITLE``, ``ABOUT`` and four functions: ``jobs`` lists its
settings, ``work`` makes the rows of one setting, ``draw`` turns all rows into figures, and ``claims``
says which of the paper's claims they confirm.
"""

from __future__ import annotations

from importlib import import_module

from ...foundation.errors import PlanError, nearest
from .experiment import Experiment

NAMES = ("fig1", "fig2", "fig3", "fig4", "fig5", "fig6", "fig7", "rivals", "cost", "bounds", "privacy")
"""In the order of the paper."""

PER_PERSON = "person"
"""Runs only when asked for: a part of Fig. 1 with every person's record and report."""

_FILES = {
    "cost": "report_cost",
    "bounds": "bounds_figure",
    "privacy": "true_epsilons",
    PER_PERSON: "per_person",
}
"""Files that are not called like their experiment."""


def experiment(name: str) -> Experiment:
    """The experiment of that name."""
    if name not in (*NAMES, PER_PERSON):
        near = nearest(name, (*NAMES, PER_PERSON))
        hint = "" if near is None else f"did you mean {near}? "
        raise PlanError(f"unknown experiment {name!r}; {hint}known: {', '.join((*NAMES, PER_PERSON))}")
    module: Experiment = import_module(f"{__name__}.{_FILES.get(name, name)}")  # type: ignore[assignment]
    return module


__all__ = ["NAMES", "PER_PERSON", "Experiment", "experiment"]
