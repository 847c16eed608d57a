"""Fakes: random reports of an attack, to test defences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...channel import Channel
from ...foundation.arrays import Integers
from ...foundation.coins import Coins, address
from ...foundation.errors import PlanError
from ...people.people import People
from ...plan.plan import Plan
from ...plan.tally import Tally
from .attack import FREQUENCY, MEAN, Attack, Scene, places_of

SHARE = 0.01
"""The share of fakes that an attacker without a tally assumes."""


def fake_tally(
    plan: Plan,
    count: int,
    targets: Sequence[str],
    goal: str = "raise-frequency",
    attack: str = "crafted",
    *,
    coins: Coins,
    tally: Tally | None = None,
    frequency: float = FREQUENCY,
    mean: float = MEAN,
    seeds: str = "chosen",
    views: str = "chosen",
) -> Tally:
    """A tally of the reports of ``count`` fakes, to be added to an honest tally.

    ``tally``, ``frequency`` and ``mean`` are what the attacker believes about the honest answers.
    """
    how = Attack(0.0, goal, attack, seeds, views).checked(plan)
    places = places_of(plan, targets)
    draw = coins.under(plan.hash).generator(0)
    if attack == "pairs":
        return _honest_reports(plan, count, places, goal, coins, draw)
    scene = Scene(plan, places, tally, frequency, mean)
    fakes = Tally(plan)
    number: Integers = np.zeros(len(plan.views), np.int64)
    if attack == "crafted":
        share = SHARE if tally is None else count / max(count + tally.reports, 1)
        sent = _pooled if scene.pooled is not None else _linear
        left = sent(scene, fakes, count, how._replace(share=share), draw)
        # Fakes whose drawn view holds no target report as if they held nothing.
        spoken = {v for g in scene.options[0][0].groups for v in g.members}
        others = sorted(set(range(len(plan.views))) - spoken)
        if others:
            number[others] = _split(draw, left, plan, others)
    else:
        even = np.full(len(plan.views), 1.0 / len(plan.views))
        number = np.asarray(draw.multinomial(count, even), np.int64)
    send = _nothing if attack == "crafted" else _anything
    for view in np.flatnonzero(number).tolist():
        reports = int(number[view])
        send(plan.view_channels[view], _count_reports(fakes, view, reports), reports, draw)
    return fakes


def _linear(scene: Scene, fakes: Tally, count: int, how: Attack, draw: Any) -> int:
    """Add the best reports for a linear estimator; returns the number of fakes left for other views."""
    aimed, options = scene.aimed(how), scene.options[0][0]
    left = max(0.0, 1.0 - float(aimed.drawn.sum()))
    law = np.append(aimed.drawn, left)
    counts = draw.multinomial(count, law / law.sum())
    for group, sent, pick in zip(options.groups, counts[:-1], aimed.picks, strict=True):
        split = _split(draw, int(sent), scene.plan, group.members)
        for view, reports in zip(group.members, split, strict=True):
            group.best.mark(_count_reports(fakes, view, int(reports)), int(reports), pick, draw)
    return int(counts[-1])


def _pooled(scene: Scene, fakes: Tally, count: int, how: Attack, draw: Any) -> int:
    """Add the best reports for answers averaged over views; returns the number of fakes left."""
    assert scene.pooled is not None
    expanded = []
    for block, rows in zip(scene.pooled.blocks, scene.sent(how), strict=True):
        expanded += [(view, row) for views, row in zip(block.views, rows, strict=True) for view in views]
    flat = np.concatenate([row for _, row in expanded])
    law = np.append(flat, max(0.0, scene.pooled.reports * how.share / (1 - how.share) - flat.sum()))
    counts = draw.multinomial(count, law / law.sum())
    first = 0
    for view, row in expanded:
        reports = counts[first : first + row.size]
        _count_reports(fakes, view, int(reports.sum()))[:] += reports
        first += row.size
    return int(counts[-1])


def _count_reports(tally: Tally, view: int, count: int) -> Integers:
    """The cells of a view, after ``count`` is added to its number of reports."""
    tally.counts[tally.plan.layout.own[view]] += count
    return tally.view_counts(view)[1]


def _split(draw: Any, count: int, plan: Plan, views: list[int]) -> Integers:
    shares = plan.views.shares[views]
    return np.asarray(draw.multinomial(count, shares / shares.sum()), np.int64)


def _honest_reports(
    plan: Plan, count: int, places: list[int], goal: str, coins: Coins, draw: Any
) -> Tally:
    """Honest reports on records of one target each, or on empty records."""
    rows = np.array(places)[draw.integers(0, len(places), count)]
    ends = plan.schema.low if goal == "lower-mean" else plan.schema.high
    held = 0 if goal == "lower-frequency" else 1
    keys = rows if held else rows[:0]
    starts = np.arange(count + 1, dtype=np.int64) * held
    people = People(address(np.arange(count)), starts, keys, ends[keys])
    return Tally(plan).add(plan.privatise(people, coins.under("fakes")))


def _nothing(channel: Channel, cells: Integers, count: int, draw: Any) -> None:
    """Add the honest reports of ``count`` people who hold nothing to a view's cells."""
    law = np.maximum(channel.mix(np.eye(1, channel.states)[0]), 0.0)
    cells += draw.multinomial(count, law / law.sum())


def _anything(channel: Channel, cells: Integers, count: int, draw: Any) -> None:
    """Add the marks of ``count`` random valid reports to a view's cells."""
    choices = channel.choices()
    if choices.outputs is not None:
        cells += draw.multinomial(count, choices.outputs.ravel() / choices.outputs.sum())
    elif choices.size is None:
        law = np.full(choices.marks + 1, 1.0 / (choices.marks + 1))
        cells += draw.multinomial(np.full(choices.positions, count), law)[:, 1:].ravel()
    else:
        raise PlanError(f"fakes for reports of shape {channel.shape} are not offered")
