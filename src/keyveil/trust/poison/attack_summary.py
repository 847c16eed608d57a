"""What fakes could do to a plan, in one sentence."""

from __future__ import annotations

from dataclasses import replace

from ...estimate.together.query import Query
from ...foundation.errors import PlanError
from ...people.prior import Prior
from ...people.scale import Scale
from ...plan.plan import Plan
from .attack import FREQUENCY, MEAN
from .conditional_attack import raised_conditional
from .gains import Change, raised


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
    sentence = f"if {share:.3g} of all clients are fake, they can raise {raised}"
    if any(most.shift > 1.01 * least.shift for _, most, least in changes):
        drawn = " or ".join(_short(least.after) for _, _, least in changes)
        sentence += (
            f"; where view and seed are drawn, to {drawn} (the health check sees whether they are)"
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
    answers = plan.mechanism.answers
    parts = [
        part
        for part in ("frequency", "mean")
        if ask in ("both", part) and (part in answers or (part == "mean" and "mass" in answers))
    ] or ["frequency"]
    changes: Changes = []
    for part in parts:
        most, least = (
            raised(plan, plan.schema.keys[0], part, share, frequency, mean, seeds, views)
            for seeds, views in (("chosen", "chosen"), ("assigned", "drawn"))
        )
        if part == "frequency":
            most, least = (Change(change.before, min(change.after, 1.0)) for change in (most, least))
        noun = part if part in answers else "mass"
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
