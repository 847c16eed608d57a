"""Computes the planner's answer once for all that ask it the same question."""

from __future__ import annotations

import pickle
from collections.abc import Callable

from keyveil.estimate.forecast import by_draws, query_draws
from keyveil.planner import planner

FEW_DRAWS = 32
"""Draws that predict an error without a closed form, in tests of what is said and done with it."""

Advise = Callable[..., planner.Advice]


def once(advise: Advise, answers: dict[bytes, planner.Advice]) -> Advise:
    """The same function, whose answers are kept.

    An answer depends on the question and on the epsilons that the planner tries, which a test changes.
    """

    def advise_once(*question: object, **options: object) -> planner.Advice:
        key = pickle.dumps((question, options, planner.EPSILONS))
        if key not in answers:
            answers[key] = advise(*question, **options)
        return answers[key]

    return advise_once


def in_this_process(all_draws: bool) -> None:
    """Keep the answers for all that is imported from here on, and predict by few draws unless told."""
    planner.advise = once(planner.advise, {})
    if not all_draws:
        by_draws.MOST = query_draws.MOST = FEW_DRAWS
