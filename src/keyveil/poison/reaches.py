"""Where the honest answers may lie, if some of a tally's reports are fake."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf, isfinite
from typing import Any

import numpy as np

from ..arrays import Floats
from ..plan import Plan
from ..tally import Tally
from ..worth import Options
from .attack import GOALS, Aimed, best, check, ratio


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
        means = [ratio(ends[g]) for g in ("raise-mean", "lower-mean")]
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
    return np.asarray(best(plan, now, opposite, outcome).values[0])
