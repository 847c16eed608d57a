"""Lines for the person at the keyboard: a warning at the line of their own code."""

from __future__ import annotations

import sys
import warnings

PACKAGE = __name__.partition(".")[0]


class PeopleWarning(UserWarning):
    """Something about the people of a table that its reader should know; never names one."""


class PlannerWarning(UserWarning):
    """A plan from which the planner does not expect useful answers, or only of some people."""


class ComparisonWarning(UserWarning):
    """A mechanism that was asked for is missing in a comparison."""


def notice(words: str, category: type[Warning] = PeopleWarning) -> None:
    """Warn at the first caller outside of the package. Python shows a line once for each place."""
    depth, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == PACKAGE:
        depth, frame = depth + 1, frame.f_back
    warnings.warn(words, category, stacklevel=depth)
