"""What fakes could do: a sentence for one plan, and a table of mechanisms."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from ...estimate.together.query import Query
from ...foundation.errors import KeyveilError, PlanError
from ...foundation.percentages import percent
from ...mechanisms import REGISTRY
from ...people.prior import Prior
from ...people.scale import Scale
from ...people.schema import Schema
from ...plan.plan import Plan
from .attack import FREQUENCY, MEAN, finite, first_goal
from .conditional_attack import raised_conditional
from .fakes_needed import fakes_needed
from .gains import Change, raisable, raised


def line(plan: Plan, share: float = 0.01, ask: str = "both", prior: Prior | None = None) -> str:
    """One sentence for the explanation of a plan: what crafted fakes could do to what is asked.

    It is about a key with the average frequency and mean of the prior's keys. A frequency is raised to 1
    at most, a mean to the end of its range.
    """
    honest = (FREQUENCY, MEAN) if prior is None else average_key(prior)
    try:
        if ask == "conditional":
            changes = _conditional_changes(plan, share, *honest)
        else:
            changes = _changes(plan, share, ask, *honest)
    except PlanError as error:
        return str(error)
    raised = " or ".join(
        f"{noun} from {_short(most.before)} to {_short(most.after)}" for noun, most, _ in changes
    )
    sentence = f"if {percent(share)} of all clients are fake, they can raise {raised}"
    if any(most.shift > 1.01 * least.shift for _, most, least in changes):
        drawn = " or ".join(_short(least.after) for _, _, least in changes)
        sentence += (
            f"; if they draw view and seed as honest clients do, to {drawn} (keyveil health sees "
            "whether they do)"
        )
    return sentence


def _short(value: float) -> str:
    """A number with three digits; rounding errors around zero are shown as zero."""
    return f"{round(value, 9) + 0.0:.3g}"


Changes = list[tuple[str, Change, Change]]
"""Name of an answer, its change with chosen view and seed, and its change with drawn ones."""


def average_key(prior: Prior) -> tuple[float, float]:
    """The average frequency of a prior's keys, and the mean of all held values."""
    frequency = float(prior.weight @ prior.frequency)
    mass = float(prior.weight @ (prior.frequency * prior.mean))
    return min(frequency, 1.0), min(max(mass / frequency, -1.0), 1.0) if frequency > 0 else 0.0


def _changes(plan: Plan, share: float, ask: str, frequency: float, mean: float) -> Changes:
    """The changes of the first key, with this honest frequency and mean."""
    changes: Changes = []
    for part in [part for part in raisable(plan) if ask in ("both", part)] or ["frequency"]:
        most, least = raised(plan, part, share, frequency, mean)
        if part == "frequency":
            most, least = (Change(change.before, min(change.after, 1.0)) for change in (most, least))
        noun = part if part in plan.mechanism.answers else "mass"
        first = f"a key's {noun}"
        if not Scale.of(plan.schema).shared:  # the numbers are on this key's own range
            first = f"the {noun} of {plan.schema.keys[0]!r}"
        changes.append((f"its {noun}" if changes else first, most, least))
    return changes


def _conditional_changes(plan: Plan, share: float, frequency: float, mean: float) -> Changes:
    """The change of the first query of a workload, or of a key given the others of its view."""
    named = str(plan.parameters.get("queries", ""))
    if named:
        queries = Query.parse_all(named)
        query = next((query for query in queries if query.given), queries[0])
        noun = str(query if query.kind != "lift" else replace(query, kind="frequency"))
    else:
        view = max(plan.views.keys, key=len)
        first, *others = (plan.schema.keys[place] for place in view)
        query, noun = Query.of("frequency", first, others), "a conditional frequency"
    most, least = (
        raised_conditional(plan, share, query, views=views, frequency=frequency, mean=mean)
        for views in ("chosen", "drawn")
    )
    return [(noun, most, least)]


# -- a table of mechanisms -------------------------------------------------------------------------


@dataclass(frozen=True)
class AttackRow:
    """What crafted fakes do to one key under one mechanism, or the reason why it is not offered."""

    mechanism: str
    epsilon: float | None
    frequency: float | None = None
    """Shift of the frequency with chosen views and seeds; ``frequency_drawn`` with drawn ones."""
    frequency_drawn: float | None = None
    mean: float | None = None
    """Shift of the mean on [-1, 1], or of the mass if the mechanism has no mean."""
    mean_drawn: float | None = None
    fakes: float | None = None
    """Number of fakes, with drawn views and seeds, that shift the frequency by its standard error.

    It is about the mass if the mechanism has no frequency.
    """
    reason: str = ""

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {name: finite(value) for name, value in self.__dict__.items()}


def compare_gains(
    schema: Schema,
    epsilon: float | str,
    share: float,
    mechanisms: Iterable[str] | None = None,
    *,
    people: float = 1e6,
    frequency: float = FREQUENCY,
    mean: float = MEAN,
) -> list[AttackRow]:
    """Every mechanism at the same true epsilon, against fakes that raise the first key."""
    rows = []
    unit = Schema.of(list(schema.keys))
    for name in REGISTRY if mechanisms is None else mechanisms:
        try:
            plan = Plan.of(unit, name, epsilon, "tight", **REGISTRY[name].example(unit))
            rows.append(_compared(plan, share, people, frequency, mean))
        except KeyveilError as error:
            rows.append(AttackRow(name, None, reason=str(error)))
    return rows


def _compared(plan: Plan, share: float, people: float, frequency: float, mean: float) -> AttackRow:
    shifts: dict[str, Any] = {}
    for part in raisable(plan):
        most, drawn = raised(plan, part, share, frequency, mean)
        shifts |= {part: most.shift, f"{part}_drawn": drawn.shift}
    needed = fakes_needed(
        plan,
        plan.schema.keys[0],
        first_goal(plan),
        people=people,
        frequency=frequency,
        mean=mean,
        seeds="assigned",
        views="drawn",
    )
    return AttackRow(plan.mechanism_name, float(plan.proven), fakes=needed.fakes, **shifts)
