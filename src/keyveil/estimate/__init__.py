"""From a tally to answers: an estimator by name, then post-processing by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..errors import PlanError
from .answer import Answers, Estimate, KeyAnswer
from .project import STEPS

if TYPE_CHECKING:
    from ..plan import Plan
    from ..tally import Tally


def estimate(
    plan: Plan,
    tally: Tally,
    estimator: str | None = None,
    level: float = 0.95,
    after: Sequence[str] = (),
) -> Answers:
    """Answers for every key; ``estimator`` defaults to the mechanism's first, ``after`` to none."""
    tally.belongs_to(plan)
    known = plan.kind.estimators
    name = next(iter(known)) if estimator is None else estimator
    if name not in known:
        raise PlanError(f"unknown estimator {name!r} for {plan.mechanism}; known: {', '.join(known)}")
    answers = known[name](plan, tally, level)
    for step in after:
        if step not in STEPS:
            raise PlanError(f"unknown post-processing {step!r}; known: {', '.join(STEPS)}")
        answers = STEPS[step](plan, tally, answers)
    return answers


__all__ = ["Answers", "Estimate", "KeyAnswer", "estimate"]
