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

    Of a key that is held as often as the prior's are on average, with their mean. An answer is raised
    no further than it goes: a frequency to 1, a mean to the end of its range.
    """
    honest = (FREQUENCY, MEAN) if prior is None else average_key(prior)
    try:
        if ask == "conditional":
            told = _conditional_changes(plan, share, *honest)
        else:
            told = _changes(plan, share, ask, *honest)
    except PlanError as error:
        return str(error)
    raised = " or ".join(
        f"{noun} from {_short(most.before)} to {_short(most.after)}" for noun, most, _ in told
    )
    said = f"if {share:.3g} of all clients are fake, they can raise {raised}"
    if any(most.shift > 1.01 * least.shift for _, most, least in told):
        drawn = " or ".join(_short(least.after) for _, _, least in told)
        said += f"; where view and seed are drawn, to {drawn} (the health check sees whether they are)"
    return said


def _short(value: float) -> str:
    """Three digits; what is zero but for rounding is zero."""
    return f"{round(value, 9) + 0.0:.3g}"


Told = list[tuple[str, Change, Change]]
"""What an answer is called, and its change when view and seed are chosen and when they are drawn."""


def average_key(prior: Prior) -> tuple[float, float]:
    """How often a prior's keys are held on average, and the mean of all that is held."""
    frequency = float(prior.weight @ prior.frequency)
    mass = float(prior.weight @ (prior.frequency * prior.mean))
    return min(frequency, 1.0), min(max(mass / frequency, -1.0), 1.0) if frequency > 0 else 0.0


def _changes(plan: Plan, share: float, ask: str, frequency: float, mean: float) -> Told:
    """Of the first key, taken to be like this."""
    answers = plan.mechanism.answers
    parts = [
        part
        for part in ("frequency", "mean")
        if ask in ("both", part) and (part in answers or (part == "mean" and "mass" in answers))
    ] or ["frequency"]
    made: Told = []
    for part in parts:
        most, least = (
            raised(plan, plan.schema.keys[0], part, share, frequency, mean, seeds, views)
            for seeds, views in (("chosen", "chosen"), ("assigned", "drawn"))
        )
        if part == "frequency":
            most, least = (Change(one.before, min(one.after, 1.0)) for one in (most, least))
        noun = part if part in answers else "mass"
        first = f"a key's {noun}"
        if not Scale.of(plan.schema).shared:  # the numbers are on this key's own range
            first = f"the {noun} of {plan.schema.keys[0]!r}"
        made.append((f"its {noun}" if made else first, most, least))
    return made


def _conditional_changes(plan: Plan, share: float, frequency: float, mean: float) -> Told:
    """Of the first query of a workload, or of a key given the others of its view."""
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
