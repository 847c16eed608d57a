"""Poisoning: what fake clients could do to the answers, and how many it takes.

Answers are linear in the tally: a key's frequency and mass (frequency x mean) are averages over reports
of what each report is *worth* to them. So a share s of fakes among the reports that speak of a key
moves both to (1 - s) honest + s worth, exactly, and all that is left is which report is worth most.
That is read off the mechanism's own least-squares estimator, never off a formula for the mechanism.

Three attacks (Wu, Cao, Jia, Gong, "Poisoning attacks to local differential privacy protocols for
key-value data", USENIX Security 2022): ``crafted`` sends what serves the goal best, ``random`` any valid
report, ``pairs`` runs the honest line on a record of one target drawn at random. A crafted report may
also choose its view (``views="chosen"``), which ``health`` sees at once, or take it as it is drawn
(``"drawn"``), which it does not; and its seed where there is a pool, unless seeds are assigned with the
tokens that let clients in.

Frequencies are shares, and may leave [0, 1]: then ``health`` sees it. Means are on the keys' own scales
in results, on [-1, 1] as input, and end where their range does. (Views of several channels are pooled by
their number of reports here; their estimator also weighs how much each tells.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite, nan
from typing import Any, NamedTuple

import numpy as np

from .arrays import Floats
from .errors import KeyveilError, PlanError
from .estimate.conditional import query_weights
from .estimate.joint import lifted
from .estimate.predict import prior_law
from .mechanisms import REGISTRY
from .plan import Plan
from .prior import Prior, value_law
from .query import Query
from .schema import Schema
from .tally import Tally
from .worth import Cells, Options, output_options

GOALS = ("raise-frequency", "lower-frequency", "raise-mean", "lower-mean")
ATTACKS = ("crafted", "random", "pairs")
CHOICES = {"seeds": ("chosen", "assigned"), "views": ("chosen", "drawn")}
FREQUENCY, MEAN = 0.3, 0.0
"""Of a key of which nothing is known."""
_ZERO = 1e-9
"""A denominator that is hardly above zero."""


@dataclass(frozen=True)
class Change:
    """An answer before and after."""

    before: float
    after: float

    @property
    def shift(self) -> float:
        """By how much it moves."""
        return self.after - self.before

    def document(self) -> dict[str, float | None]:
        """As JSON, null for what is unknown."""
        parts = {"before": self.before, "after": self.after, "shift": self.shift}
        return {name: value if isfinite(value) else None for name, value in parts.items()}


@dataclass(frozen=True)
class Shift:
    """What happens to one key's answers; None for what the mechanism does not answer."""

    key: str
    frequency: Change | None
    mean: Change | None
    mass: Change | None

    def document(self) -> dict[str, Any]:
        """As JSON."""
        parts = {"frequency": self.frequency, "mean": self.mean, "mass": self.mass}
        made: dict[str, Any] = {"key": self.key}
        made.update({n: None if change is None else change.document() for n, change in parts.items()})
        return made


@dataclass(frozen=True)
class Gain:
    """What a share of fake clients does to the keys they are after."""

    mechanism: str
    epsilon: float
    attack: str
    goal: str
    share: float
    seeds: str
    views: str
    shifts: tuple[Shift, ...]

    def document(self) -> dict[str, Any]:
        """As JSON."""
        facts = {k: v for k, v in self.__dict__.items() if k != "shifts"}
        return {**facts, "shifts": [shift.document() for shift in self.shifts]}


def gain(
    plan: Plan,
    share: float,
    targets: Sequence[str],
    goal: str = "raise-frequency",
    attack: str = "crafted",
    *,
    tally: Tally | None = None,
    frequency: float = FREQUENCY,
    mean: float = MEAN,
    seeds: str = "chosen",
    views: str = "chosen",
) -> Gain:
    """What fakes that are ``share`` of all clients do to their ``targets``, all at once.

    The honest answers are those of ``tally``; without one every key has the stated frequency and mean.
    """
    check(plan, share, goal, attack, seeds, views)
    places = places_of(plan, targets)
    options = Options.of(plan, places, tally)
    before = honest_values(plan, places, tally, frequency, mean)
    after = attacked(plan, options, before, share, goal, attack, seeds, views).values
    shifts = tuple(_shift(plan, place, before[row], after[row]) for row, place in enumerate(places))
    return Gain(plan.mechanism, float(plan.proven), attack, goal, share, seeds, views, shifts)


def places_of(plan: Plan, targets: Sequence[str]) -> list[int]:
    places = [plan.schema.place(key) for key in targets]
    if not places or len(set(places)) != len(places):
        raise PlanError("an attack has one or more targets, each named once")
    return places


def check(plan: Plan, share: float, goal: str, attack: str, seeds: str, views: str) -> None:
    if not 0 <= share < 1:
        raise PlanError("the share of fakes lies between 0 and 1, like 0.01")
    chosen = {"goal": (goal, GOALS), "attack": (attack, ATTACKS)}
    chosen |= {"seeds": (seeds, CHOICES["seeds"]), "views": (views, CHOICES["views"])}
    for name, (value, known) in chosen.items():
        if value not in known:
            raise PlanError(f"unknown {name} {value!r}; known: {', '.join(known)}")
    answers = plan.kind.answers
    part = "frequency" if goal.endswith("frequency") else "mean"
    if part not in answers and not (part == "mean" and "mass" in answers):
        raise PlanError(f"{plan.mechanism} answers {', '.join(answers)} alone: take another goal")


def honest_values(
    plan: Plan, places: list[int], tally: Tally | None, frequency: float, mean: float
) -> Floats:
    """Frequency and mass of the targets before anyone cheats."""
    if tally is not None:
        tally.belongs_to(plan)
        return np.asarray(plan.kind.moments(plan, tally.counts).values[places])
    if not 0 <= frequency <= 1 or not -1 <= mean <= 1:
        raise PlanError("a frequency lies in [0, 1] and a mean in [-1, 1]")
    return np.tile([frequency, frequency * mean], (len(places), 1))


def _shift(plan: Plan, place: int, before: Floats, after: Floats) -> Shift:
    answers = plan.kind.answers
    low, high = float(plan.schema.low[place]), float(plan.schema.high[place])

    def scaled(values: Floats, known: bool) -> float:
        mean = _mean(values) if known else nan
        return float(low + (np.clip(mean, -1, 1) + 1) / 2 * (high - low))

    was = bool(before[0] > 0)
    means = Change(scaled(before, was), scaled(after, was or bool(after[0] > 0)))
    return Shift(
        plan.schema.keys[place],
        Change(float(before[0]), float(after[0])) if "frequency" in answers else None,
        means if "mean" in answers else None,
        Change(float(before[1]), float(after[1])) if "mass" in answers else None,
    )


def _mean(values: Floats) -> float:
    """Mass by frequency. Where the frequency is driven to zero the mean goes to either end."""
    frequency, mass = float(values[0]), float(values[1])
    if not (isfinite(frequency) and isfinite(mass)):
        return nan
    return mass / frequency if frequency > 0 else inf if mass > 0 else -inf if mass < 0 else nan


# -- the attack --------------------------------------------------------------------------------------


class Aimed(NamedTuple):
    """Frequency and mass of the targets after an attack, and how it is done."""

    values: Floats
    drawn: Floats
    """The share of fakes in each group of views."""
    picks: list[Any]
    """What they send there."""


def attacked(
    plan: Plan,
    options: Options,
    before: Floats,
    share: float,
    goal: str,
    attack: str,
    seeds: str,
    views: str,
) -> Aimed:
    if attack == "random":
        worths = [group.best.even() for group in options.groups]
        return Aimed(options.after(before, share, options.evenly, worths), options.evenly, [])
    if attack == "pairs":
        honest = options.honest(goal)
        worths = [honest[group.targets] for group in options.groups]
        return Aimed(options.after(before, share, options.shares, worths), options.shares, [])

    def outcome(weights: Floats) -> Aimed:
        picks = [group.best.pick(weights[group.targets], seeds) for group in options.groups]
        worths = [g.best.worth_of(pick) for g, pick in zip(options.groups, picks, strict=True)]
        drawn = options.shares if views == "drawn" else options.chosen(weights, worths, before)
        return Aimed(options.after(before, share, drawn, worths), drawn, picks)

    return _best(plan, before, goal, outcome)


def _best(plan: Plan, before: Floats, goal: str, outcome: Callable[[Floats], Aimed]) -> Aimed:
    """The outcome that serves the goal best, among those of ever better weights on worths.

    A frequency is linear in what is sent. A mean is a ratio: the report that raises it to m is the
    one with the largest mass - m x frequency, and m is found in a few rounds (Dinkelbach).
    """
    sign = 1.0 if goal.startswith("raise") else -1.0
    if goal.endswith("frequency"):
        return outcome(np.tile([sign, 0.0], (len(before), 1)))
    if "mean" not in plan.kind.answers:
        return outcome(np.tile([0.0, sign], (len(before), 1)))
    return _best_ratio(before, sign, outcome)


def _best_ratio(before: Floats, sign: float, outcome: Callable[[Floats], Aimed]) -> Aimed:
    """The outcome whose second value by the first is the largest, or with a sign of -1 the least."""
    best, most, now = None, -inf, before
    for _ in range(12):
        held = np.maximum(np.nan_to_num(now[:, 0]), 1e-3)
        aim = np.clip(np.nan_to_num([_mean(row) for row in now]), -1.0, 1.0)
        after = outcome(sign * np.stack([-aim / held, 1.0 / held], axis=1))
        reached = sign * float(np.nansum(np.clip([_mean(row) for row in after.values], -1.0, 1.0)))
        if best is not None and not reached > most + 1e-12:
            break
        best, most, now = after, reached, after.values
        if not np.isfinite(now).all():
            break
    assert best is not None
    return best


# -- how many it takes -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Needed:
    """How many fakes move an answer by so much."""

    key: str
    goal: str
    by: float
    """By how much; on the key's own scale for a mean."""
    share: float
    """Of all clients; infinite if no number is enough."""
    fakes: float
    """Beside so many honest people."""

    def document(self) -> dict[str, Any]:
        """As JSON, null for what is out of reach."""
        made = dict(self.__dict__)
        return {k: None if isinstance(v, float) and not isfinite(v) else v for k, v in made.items()}


def fakes_needed(
    plan: Plan,
    target: str,
    goal: str = "raise-frequency",
    *,
    people: float = 1e6,
    by: float | None = None,
    tally: Tally | None = None,
    frequency: float = FREQUENCY,
    mean: float = MEAN,
    seeds: str = "chosen",
    views: str = "chosen",
) -> Needed:
    """How many crafted fakes move one key's answer ``by`` so much, or by its standard error."""
    check(plan, 0.0, goal, "crafted", seeds, views)
    place = plan.schema.place(target)
    options = Options.of(plan, [place], tally)
    before = honest_values(plan, [place], tally, frequency, mean)
    honest = float(tally.reports) if tally is not None else float(people)
    scale = 1.0
    if not goal.endswith("frequency") and "mean" in plan.kind.answers:
        scale = float(plan.schema.high[place] - plan.schema.low[place]) / 2
    wanted = by
    if wanted is None:
        wanted = scale * standard_error(plan, place, goal, honest, tally, frequency, mean)
    if not wanted > 0:
        raise PlanError("an answer is moved by more than nothing, and so far its error is unknown")

    def moved(share: float) -> float:
        after = attacked(plan, options, before, share, goal, "crafted", seeds, views).values[0]
        first, last = (_asked(plan, goal, values) for values in (before[0], after))
        return abs(last - first) * scale if isfinite(last - first) else inf

    low, high = 0.0, 0.5
    if moved(high) < wanted:
        return Needed(plan.schema.keys[place], goal, wanted, inf, inf)
    while high - low > 1e-6 * high and high > 1e-15:
        middle = (low + high) / 2
        low, high = (low, middle) if moved(middle) >= wanted else (middle, high)
    return Needed(plan.schema.keys[place], goal, wanted, high, honest * high / (1 - high))


def _asked(plan: Plan, goal: str, values: Floats) -> float:
    """The answer that a goal is about, on [-1, 1]."""
    if goal.endswith("frequency"):
        return float(values[0])
    if "mean" not in plan.kind.answers:
        return float(values[1])
    return float(np.clip(_mean(values), -1.0, 1.0))


def standard_error(
    plan: Plan,
    place: int,
    goal: str,
    people: float,
    tally: Tally | None = None,
    frequency: float = FREQUENCY,
    mean: float = MEAN,
) -> float:
    """Of the answer that a goal is about, on [-1, 1]: the tally's, or forecast for so many people."""
    if tally is not None:
        found = plan.kind.moments(plan, tally.counts)
        values, spread = found.values[place], found.covariance[place]
    else:
        keys = len(plan.schema.keys)
        plain = Prior.of(keys, held=max(frequency, 1e-6) * keys)
        prior = replace(
            plain,
            count=np.array([float(keys)]),
            frequency=np.array([frequency]),
            values=value_law(min(max(mean, -0.99), 0.99), 0.5)[None, :],
        )
        spread = plan.kind.forecast(plan, people, prior).covariance[0]
        values = np.array([frequency, frequency * mean])
    if goal.endswith("frequency"):
        return float(np.sqrt(spread[0, 0]))
    if "mean" not in plan.kind.answers:
        return float(np.sqrt(spread[1, 1]))
    if not values[0] > 0:
        return nan
    ratio = values[1] / values[0]
    variance = spread[1, 1] - 2 * ratio * spread[0, 1] + ratio**2 * spread[0, 0]
    return float(np.sqrt(max(variance, 0.0)) / values[0])


@dataclass(frozen=True)
class Reach:
    """Where one key's honest answers may lie if so many of the reports in a tally are fake."""

    key: str
    frequency: tuple[float, float] | None
    mean: tuple[float, float] | None
    mass: tuple[float, float] | None

    def document(self) -> dict[str, Any]:
        """As JSON, null for an end that is not bounded."""

        def ends(pair: tuple[float, float] | None) -> list[float | None] | None:
            return None if pair is None else [end if isfinite(end) else None for end in pair]

        return {n: v if isinstance(v, str) else ends(v) for n, v in self.__dict__.items()}


ANYWHERE = (-np.inf, np.inf)
PARTS = ("frequency", "mean", "mass")


def reach(
    plan: Plan,
    tally: Tally,
    share: float,
    keys: Iterable[str] | None = None,
    *,
    seeds: str = "chosen",
    views: str = "drawn",
) -> list[Reach]:
    """How far crafted fakes, ``share`` of a tally's reports, may have moved each answer already.

    The honest answer is (answer - s worth) / (1 - s). ``views="drawn"`` is for tallies whose views pass
    their check: then fakes are the same share of every view. Where all reports on a key may be
    fake, or there are none, nothing is known of the honest ones.
    """
    tally.belongs_to(plan)
    answers = plan.kind.answers
    goal = "raise-frequency" if "frequency" in answers else "raise-mean"
    check(plan, share, goal, "crafted", seeds, views)
    moments = plan.kind.moments(plan, tally.counts)
    values, made = moments.values, []
    for key in plan.schema.keys if keys is None else keys:
        place = plan.schema.place(key)
        if not moments.reports[place]:
            Options.of(plan, [place])  # or why it cannot be said of this plan
            made.append(Reach(key, *(ANYWHERE if part in answers else None for part in PARTS)))
            continue
        options, now = Options.of(plan, [place], tally), values[[place]]
        ends = {g: _undone(plan, options, now, share, g, seeds, views) for g in GOALS}
        low, high = float(plan.schema.low[place]), float(plan.schema.high[place])
        mass = (ends["raise-mean"][1], ends["lower-mean"][1])
        means = [_mean(ends[g]) for g in ("raise-mean", "lower-mean")]
        scaled = [low + (m + 1) / 2 * (high - low) for m in np.clip(np.nan_to_num(means), -1, 1)]
        frequency = (ends["raise-frequency"][0], ends["lower-frequency"][0])
        made.append(
            Reach(
                plan.schema.keys[place],
                (float(frequency[0]), float(frequency[1])) if "frequency" in answers else None,
                (float(min(scaled)), float(max(scaled))) if "mean" in answers else None,
                (float(mass[0]), float(mass[1])) if "mass" in answers else None,
            )
        )
    return made


def _undone(
    plan: Plan, options: Options, now: Floats, share: float, goal: str, seeds: str, views: str
) -> Floats:
    """The honest frequency and mass if the best fakes for a goal are taken out again."""

    def outcome(weights: Floats) -> Aimed:
        # What serves the goal best is what the answer without it is furthest from.
        picks = [group.best.pick(-weights[group.targets], seeds) for group in options.groups]
        worths = [g.best.worth_of(pick) for g, pick in zip(options.groups, picks, strict=True)]
        drawn = options.shares if views == "drawn" else options.chosen(-weights, worths, now)
        told, sums = options.summed(drawn), np.zeros((1, 2))
        for group, part, worth in zip(options.groups, drawn, worths, strict=True):
            sums += part * np.where(group.speaks, worth, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            fake = np.where(told > 0, share * told / options.asked, 0.0)
            worth = np.where(told > 0, sums / told, 0.0)
            honest = np.where(fake < 1, (now - fake * worth) / (1 - fake), np.sign(weights) * inf)
        return Aimed(honest, drawn, picks)

    raising = goal.startswith("raise")
    opposite = goal.replace("raise", "lower") if raising else goal.replace("lower", "raise")
    return np.asarray(_best(plan, now, opposite, outcome).values[0])


# -- mechanisms side by side -------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """What crafted fakes do to one key under one mechanism, or why that is not offered."""

    mechanism: str
    epsilon: float | None
    frequency: float | None = None
    """The frequency's shift when views and seeds are chosen, and when they are not."""
    frequency_drawn: float | None = None
    mean: float | None = None
    """The mean's, on [-1, 1] (of the mass where that is all there is)."""
    mean_drawn: float | None = None
    fakes: float | None = None
    """How many move the frequency (else the mass) by its standard error, none of it chosen."""
    reason: str = ""

    def document(self) -> dict[str, Any]:
        """As JSON."""
        made = dict(self.__dict__)
        return {k: None if isinstance(v, float) and not isfinite(v) else v for k, v in made.items()}


def compare_gains(
    schema: Schema,
    epsilon: float | str,
    share: float,
    mechanisms: Iterable[str] | None = None,
    *,
    people: float = 1e6,
    frequency: float = FREQUENCY,
    mean: float = MEAN,
) -> list[Row]:
    """Every mechanism at the same true epsilon, against fakes that raise the first key."""
    rows = []
    unit = Schema.of(list(schema.keys))
    for name in REGISTRY if mechanisms is None else mechanisms:
        try:
            plan = Plan.of(unit, name, epsilon, "tight", **REGISTRY[name].example(unit))
            rows.append(_compared(plan, share, people, frequency, mean))
        except KeyveilError as error:
            rows.append(Row(name, None, reason=str(error)))
    return rows


def _compared(plan: Plan, share: float, people: float, frequency: float, mean: float) -> Row:
    key, answers = plan.schema.keys[0], plan.kind.answers
    found: dict[str, float | None] = {}
    for part in ("frequency", "mean"):
        known = part in answers or (part == "mean" and "mass" in answers)
        for name, seeds, views in ((part, "chosen", "chosen"), (f"{part}_drawn", "assigned", "drawn")):
            found[name] = (
                _raised(plan, key, part, share, frequency, mean, seeds, views).shift if known else None
            )
    goal = "raise-frequency" if "frequency" in answers else "raise-mean"
    needed = fakes_needed(
        plan,
        key,
        goal,
        people=people,
        frequency=frequency,
        mean=mean,
        seeds="assigned",
        views="drawn",
    )
    return Row(
        plan.mechanism,
        float(plan.proven),
        found["frequency"],
        found["frequency_drawn"],
        found["mean"],
        found["mean_drawn"],
        needed.fakes,
    )


def _raised(
    plan: Plan,
    key: str,
    part: str,
    share: float,
    frequency: float,
    mean: float,
    seeds: str,
    views: str,
) -> Change:
    """How far crafted fakes raise one part of a key's answers."""
    goal = f"raise-{part}"
    made = gain(
        plan, share, [key], goal, frequency=frequency, mean=mean, seeds=seeds, views=views
    ).shifts[0]
    change = made.frequency if part == "frequency" else made.mean or made.mass
    assert change is not None
    return change


# -- conditionals ------------------------------------------------------------------------------------


def raised_conditional(
    plan: Plan,
    share: float,
    query: Query,
    *,
    views: str = "chosen",
    frequency: float = FREQUENCY,
    mean: float = MEAN,
) -> Change:
    """How far crafted fakes raise a conditional, on its own scale and no further than it goes.

    By the least squares of the views that hold the query's keys together. Where fakes are in these
    alone, what other views tell of the keys holds the pooled answer back, often by half. Honest people
    hold each key with ``frequency``, independently, with values of ``mean``.
    """
    check(plan, share, "raise-frequency", "crafted", "chosen", views)
    if plan.encode != "views":
        raise PlanError(
            f"what fakes could do to a conditional of {plan.mechanism} is not offered: it leans on the "
            "reports of all pairs; keyveil poison says it of single keys"
        )
    target, given = query.places(plan.schema)
    keys, levels = (target, *(place for place, _ in given)), plan.schema.levels
    holding = [number for number, view in enumerate(plan.views.keys) if set(keys) <= set(view)]
    if not holding:
        raise PlanError(f"no view of {plan.mechanism} holds the keys of this query together")
    view, channel = plan.views.keys[holding[0]], plan.view_channels[holding[0]]
    asked = query if query.kind == "mean" else replace(query, kind="frequency")
    # The denominator first, as a frequency stands before its mass.
    flat = lifted(query_weights(plan.schema, asked), keys, view, levels)[:, ::-1]
    before = (prior_law(levels, len(view), frequency, mean) @ flat)[None, :]
    options = output_options(channel, channel.decoder(flat)[:, None])
    told = float(plan.views.shares[holding].sum())
    fakes = share if views == "drawn" else share / (share + (1 - share) * told)
    if isinstance(options, Cells):
        sent = options.worth[0, options.many > 0, 0]
        most = _largest_ratio((1 - fakes) * before + fakes * sent)
    else:

        def outcome(weights: Floats) -> Aimed:
            pick = options.pick(weights, "chosen")
            return Aimed((1 - fakes) * before + fakes * options.worth_of(pick), np.ones(1), [pick])

        most = _mean(_best_ratio(before, 1.0, outcome).values[0])
    low, high = float(plan.schema.low[target]), float(plan.schema.high[target])

    def shown(ratio: float) -> float:
        ratio = min(max(ratio, -1.0), 1.0)
        return max(ratio, 0.0) if asked.kind == "frequency" else low + (ratio + 1) / 2 * (high - low)

    return Change(shown(_mean(before[0])), shown(most))


def _largest_ratio(points: Floats) -> float:
    """The largest second value by the first over all mixtures of points whose first value is above zero.

    It is that of a point, or lies where a line between two points meets the axis.
    """
    above, below = points[points[:, 0] > _ZERO], points[points[:, 0] <= _ZERO]
    found = [-inf, *(above[:, 1] / above[:, 0]).tolist()]
    for low in below:
        part = (_ZERO - low[0]) / (above[:, 0] - low[0])
        found += ((low[1] + part * (above[:, 1] - low[1])) / _ZERO).tolist()
    return max(found)


# -- in words ----------------------------------------------------------------------------------------


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
    raised = " or ".join(f"{noun} from {most.before:.3g} to {most.after:.3g}" for noun, most, _ in told)
    said = f"if {share:.3g} of all clients are fake, they can raise {raised}"
    if any(most.shift > 1.01 * least.shift for _, most, least in told):
        drawn = " or ".join(f"{least.after:.3g}" for _, _, least in told)
        said += f"; where view and seed are drawn, to {drawn} (the health check sees whether they are)"
    return said


Told = list[tuple[str, Change, Change]]
"""What an answer is called, and its change when view and seed are chosen and when they are drawn."""


def average_key(prior: Prior) -> tuple[float, float]:
    """How often a prior's keys are held on average, and the mean of all that is held."""
    frequency = float(prior.weight @ prior.frequency)
    mass = float(prior.weight @ (prior.frequency * prior.mean))
    return min(frequency, 1.0), min(max(mass / frequency, -1.0), 1.0) if frequency > 0 else 0.0


def _changes(plan: Plan, share: float, ask: str, frequency: float, mean: float) -> Told:
    """Of the first key, taken to be like this."""
    answers = plan.kind.answers
    parts = [
        part
        for part in ("frequency", "mean")
        if ask in ("both", part) and (part in answers or (part == "mean" and "mass" in answers))
    ] or ["frequency"]
    made: Told = []
    for part in parts:
        most, least = (
            _raised(plan, plan.schema.keys[0], part, share, frequency, mean, seeds, views)
            for seeds, views in (("chosen", "chosen"), ("assigned", "drawn"))
        )
        if part == "frequency":
            most, least = (Change(one.before, min(one.after, 1.0)) for one in (most, least))
        owner = "its" if made else "a key's"
        made.append((f"{owner} {part if part in answers else 'mass'}", most, least))
    return made


def _conditional_changes(plan: Plan, share: float, frequency: float, mean: float) -> Told:
    """Of the first query of a workload, or of a key given the others of its view."""
    named = str(plan.parameters.get("queries", ""))
    if named:
        queries = [Query.parse(part) for part in named.split(";")]
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
