"""From a tally to answers: an estimator by name, then post-processing by name.

Without a name, answers come from ``best``, which decides from the tally whether to shrink.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ..foundation.errors import PlanError, ReportError, nearest
from ..foundation.lazy_names import loaded_later
from .decoding import Estimator, decoding_of

if TYPE_CHECKING:
    from ..foundation.arrays import Integers
    from ..plan.plan import Plan
    from ..plan.tally import Tally
    from .answer import Answers, Band, Estimate, KeyAnswer, KeyBands

__getattr__ = loaded_later(
    __name__, dict.fromkeys(("Answers", "Band", "Estimate", "KeyAnswer", "KeyBands"), "answer")
)

DEFAULT = "best"
"""Name of the estimator of answers that are asked for without one, for every plan that has it."""

GENERAL = (DEFAULT, "shrunk", "corrected", "jackknife")
"""Names of the estimators that need only moments, whatever the mechanism."""


def estimators_of(plan: Plan) -> dict[str, Estimator]:
    """Every estimator of a plan by name: those of the mechanism, then general ones.

    General estimators need only moments: ``best``, ``shrunk`` and, for means, ``corrected`` and
    ``jackknife``.
    """
    known = dict(decoding_of(plan).estimators)
    for name, estimator in _general(plan).items():
        known.setdefault(name, estimator)
    return known


def _general(plan: Plan) -> dict[str, Estimator]:
    """The general estimators of a plan by name; none for a plan of a chain or without moments."""
    from .linear import single_keys
    from .ratio_bias import corrected, jackknife
    from .shrink.best import best
    from .shrink.shrinkage import shrunk

    if plan.chain is not None or not decoding_of(plan).has_moments(plan):
        return {}  # answers of a later round depend on those of an earlier round
    estimators: dict[str, Estimator] = {DEFAULT: best, "shrunk": shrunk}
    if "mean" in plan.mechanism.answers:
        estimators["corrected"] = corrected
        plain = not decoding_of(plan).has_own_moments
        if plain and single_keys(plan) and plan.layout.one_cell:
            estimators["jackknife"] = jackknife
    return estimators


def first_estimator(plan: Plan) -> str:
    """The mechanism's own estimator, which its publication or least squares gives."""
    return next(iter(decoding_of(plan).estimators))


def default_estimator(plan: Plan) -> str:
    """The estimator that answers if none is named: ``best``, or the first of the mechanism."""
    return DEFAULT if DEFAULT in estimators_of(plan) else first_estimator(plan)


def estimator_named(plan: Plan, name: str | None) -> Estimator:
    """A plan's estimator by name; without a name, its default."""
    known = estimators_of(plan)
    name = default_estimator(plan) if name is None else name
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
    """Answers for every key from a ``tally`` of ``plan``, and the raw ones with them.

    Without the name of an ``estimator`` the default of the plan is used, and answers lie within their
    range. ``level`` is that of the intervals. ``after`` names steps of post-processing.
    """
    from .projection import STEPS, within_range

    if not hasattr(tally, "belongs_to"):
        raise PlanError("estimate takes a plan and a tally of it; tally.estimate() is the short way")
    tally.belongs_to(plan)
    answers = estimator_named(plan, estimator)(plan, tally, level)
    for step in (after,) if isinstance(after, str) else after:
        if step not in STEPS:
            near = nearest(str(step), STEPS)
            hint = "" if near is None else f"did you mean {near}? "
            raise PlanError(f"unknown post-processing {step!r}; {hint}known: {', '.join(STEPS)}")
        answers = STEPS[step](plan, tally, answers)
    if estimator is None and default_estimator(plan) != DEFAULT:
        answers = within_range(plan, answers)
    ends = plan.schema.shared_range
    span = None if ends is None else (float(ends[0]), float(ends[1]))
    return replace(answers, value_range=span, origin=tally.origin, frame_library=tally.frame_library)


def bands(plan: Plan, counts: Integers, estimator: str | None = None, level: float = 0.95) -> KeyBands:
    """Answers as arrays ``(..., keys)`` on the [-1, 1] scale, from counts ``(..., cells)``.

    An estimator of single tallies is called once per tally.
    """
    from .estimator import ArrayEstimator, bands_from

    if np.shape(counts)[-1:] != (plan.layout.cells,):
        raise ReportError(f"counts of this plan have {plan.layout.cells} cells along their last axis")
    chosen = estimator_named(plan, estimator)
    if isinstance(chosen, ArrayEstimator):
        return chosen.bands(plan, counts, level)
    from ..plan.tally import Tally

    rows = np.asarray(counts).reshape(-1, plan.layout.cells)
    answers = [chosen(plan, Tally(plan, row), level) for row in rows]
    return bands_from(plan, answers, np.shape(counts)[:-1])


__all__ = [
    "DEFAULT",
    "Answers",
    "Band",
    "Estimate",
    "KeyAnswer",
    "KeyBands",
    "bands",
    "default_estimator",
    "estimate",
    "estimator_named",
    "estimators_of",
    "first_estimator",
]
