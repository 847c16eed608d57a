"""The competitors of a contest: the planner in several ways, and all mechanisms for single keys."""

from __future__ import annotations

from typing import SupportsFloat

from ..foundation.errors import PlanError, nearest
from ..mechanisms import REGISTRY
from ..people.prior import Prior
from ..people.schema import Schema

AUTO = "auto"
"""The competitor that stands for the planner's choice."""
WAYS: dict[str, dict[str, bool]] = {
    "table": {"nothing": False, "pilot": False, "one_round": False},
    "nothing": {"nothing": True, "pilot": False, "one_round": False},
    "one_round": {"nothing": True, "pilot": False, "one_round": True},
    "pilot": {"nothing": True, "pilot": True, "one_round": False},
}
"""What the planner is told in a competitor like ``auto:nothing``: the table, nothing, nothing and it has
no first round, nothing and it always has one."""
OTHER_WAYS = ("one_round", "pilot")
"""The ways that stand for ``auto`` next to that of the table: told nothing, and after a first round."""
OTHER_WAYS_TOGETHER = ("nothing",)
"""The same for conditionals: a pilot does not tell what goes together."""
TOGETHER = (
    *("ioh", "ioh_optimal", "split", "pairs", "triples", "workload", "coefficients", "pair_collision"),
)
"""Mechanisms for conditionals; ``all`` leaves them out."""


def is_auto(name: str) -> bool:
    """Whether a competitor is the planner's choice, like ``auto`` or ``auto:nothing``."""
    mechanism, _, way = name.partition(":")
    if mechanism != AUTO:
        return False
    if way and way not in WAYS:
        raise PlanError(f"{AUTO} is told one of: {', '.join(WAYS)}")
    return True


def way_named(told: str) -> str:
    """The way to tell the planner of this name, or an error with the nearest."""
    if told not in WAYS:
        near = nearest(str(told), WAYS)
        hint = "" if near is None else f"did you mean {near}? "
        raise PlanError(f"the planner is not told {told!r}; {hint}known: {', '.join(WAYS)}")
    return told


def prior_if_held(schema: Schema, held: SupportsFloat | None, told: str | None) -> Prior | None:
    """The prior of a planner that is told how many keys people hold on average, and nothing else."""
    if held is None:
        return None
    if told is not None:
        raise PlanError("give held or told, not both: held is all that the planner is told")
    return Prior.of(schema, held=held)


def ways_of_auto(keys_together: int | None, people: int) -> list[str]:
    """The competitors that ``auto`` stands for: told the table, told nothing, after a first round."""
    ways = OTHER_WAYS if keys_together is None else OTHER_WAYS_TOGETHER
    return [AUTO, *(f"{AUTO}:{way}" for way in ways if way != "pilot" or people > 1)]


def all_competitors(keys: int) -> list[str]:
    """Every mechanism that answers for single keys, without mixtures, and then the planner's choice."""
    return [
        name
        for name, kind in REGISTRY.items()
        if name not in TOGETHER
        and not kind.makes_parts
        and kind.fewest_keys <= keys <= kind.most_keys
        and set(kind.answers) & {"frequency", "mean"}
    ] + [AUTO]
