"""From a tally to answers: an estimator by name, then post-processing by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..foundation.arrays import Integers
from ..foundation.errors import PlanError, ReportError, nearest
from .answer import Answers, Band, Estimate, KeyAnswer, KeyBands
from .decoding import Estimator, decoding_of
from .estimator import ArrayEstimator, bands_from
from .projection import STEPS

if TYPE_CHECKING:
    from ..plan.plan import Plan
    from ..plan.tally import Tally


def estimators_of(plan: Plan) -> dict[str, Estimator]:
    """Every estimator that a plan has: the mechanism's own, its default first, then the general ones.

    General are those made from moments, whatever the mechanism: ``shrunk`` and, for means,
    ``corrected`` and ``jackknife``.
    """
    known = dict(decoding_of(plan).estimators)
    for name, made in _general(plan).items():
        known.setdefault(name, made)
    return known


def _general(plan: Plan) -> dict[str, Estimator]:
    from .linear import single_keys
    from .ratio_bias import corrected, jackknife
    from .shrink.shrinkage import shrunk

    if plan.chain is not None or not decoding_of(plan).has_moments(plan):
        return {}  # a later round's answers lean on an earlier one's
    made: dict[str, Estimator] = {"shrunk": shrunk}
    if "mean" in plan.mechanism.answers:
        made["corrected"] = corrected
        plain = not decoding_of(plan).has_own_moments
        if plain and single_keys(plan) and plan.layout.one_cell:
            made["jackknife"] = jackknife
    return made


def estimator_named(plan: Plan, name: str | None) -> Estimator:
    """A plan's estimator by name; without a name the mechanism's first."""
    known = estimators_of(plan)
    name = next(iter(known)) if name is None else name
    if name not in known:
        near = nearest(str(name), known)
        hint = "" if near is None else f"did you mean {near}? "
        raise PlanError(
            f"unknown estimator {name!r} for {plan.mechanism_name}; {hint}known: {', '.join(known)}"
        )
    return known[name]


def estimate(
    plan: Plan,
    tally: Tally,
    estimator: str | None = None,
    level: float = 0.95,
    after: Sequence[str] = (),
) -> Answers:
    """Answers for every key; ``estimator`` defaults to the mechanism's first, ``after`` to none."""
    tally.belongs_to(plan)
    answers = estimator_named(plan, estimator)(plan, tally, level)
    for step in after:
        if step not in STEPS:
            raise PlanError(f"unknown post-processing {step!r}; known: {', '.join(STEPS)}")
        answers = STEPS[step](plan, tally, answers)
    return answers


def bands(plan: Plan, counts: Integers, estimator: str | None = None, level: float = 0.95) -> KeyBands:
    """The same answers as arrays on the [-1, 1] scale, from counts ``(..., cells)`` of many tallies.

    Estimators that are defined for one tally only are called for each in turn.
    """
    if np.shape(counts)[-1:] != (plan.layout.cells,):
        raise ReportError(f"counts of this plan have {plan.layout.cells} cells along their last axis")
    chosen = estimator_named(plan, estimator)
    if isinstance(chosen, ArrayEstimator):
        return chosen.bands(plan, counts, level)
    from ..plan.tally import Tally

    rows = np.asarray(counts).reshape(-1, plan.layout.cells)
    made = [chosen(plan, Tally(plan, row), level) for row in rows]
    return bands_from(plan, made, np.shape(counts)[:-1])


__all__ = [
    "Answers",
    "Band",
    "Estimate",
    "KeyAnswer",
    "KeyBands",
    "bands",
    "estimate",
    "estimator_named",
    "estimators_of",
]
