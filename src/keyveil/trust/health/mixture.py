"""Outputs of a view, or signs of a key: a mixture of the channel's rows, whatever people hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...channel import Channel, Table
from ...estimate.likelihood import fit
from ...estimate.projection import onto_simplex
from ...foundation.arrays import Floats, Integers
from ...foundation.tails import entropy_above
from ...plan.plan import Plan
from ...plan.tally import Tally
from .finding import FALSE_ALARM, Finding, corrected, finding, holm, unchecked
from .honest_limits import view_name

MOST_STATES = 128


def parts(plan: Plan, tally: Tally) -> Iterator[tuple[Channel, list[str], Floats]]:
    """Channels with a row of output counts for each of some names: views, digits of one view, or keys.

    Only those whose laws can be written out.
    """
    if plan.encoding.dummies(plan.cap):
        yield from _signs(plan, plan.channels[0], tally)
    for number, channel in enumerate(plan.channels):
        views = plan.views_of(number)
        if not channel.one_cell or channel.seeds or not views:
            continue
        cells = plan.layout.own[views][:, None] + 1 + np.arange(channel.cells)
        counts = tally.counts[cells].astype(np.float64)
        digits = [channel.digit_counts(row) for row in counts]
        for view, digit in zip(views, digits, strict=True):
            if digit is not None:
                yield digit[0], [plan.schema.keys[key] for key in plan.views.keys[view]], digit[1]
        if digits[0] is None and channel.states <= MOST_STATES and channel.state_kind == "number":
            yield channel, [view_name(plan, view) for view in views], counts


def _signs(plan: Plan, channel: Channel, tally: Tally) -> Iterator[tuple[Channel, list[str], Floats]]:
    """Of every key of a padded record: how often neither, its low or its high sign is met.

    A report is about the key with a chance of one in the length at the most. So the three shares are a
    mixture of three laws, and outside of it a frequency lies above 1 or a mass above its frequency.
    """
    keys, drawn = list(plan.schema.keys), plan.encoding.largest_chance(plan.cap)
    n, cells = tally.view_counts(0)
    signs = channel.group_counts(cells.astype(np.float64), 2)
    if signs is not None:
        signs, law = signs[: len(keys)], channel.group_law(2)
        law = law[0] + drawn * (law - law[0])
        yield Table.rounded(law), keys, np.column_stack([n - signs.sum(axis=1), signs])


def check_mixture(plan: Plan, tally: Tally, false_alarm: float = FALSE_ALARM) -> Finding:
    """Each view's outputs are a mixture of its channel's rows, by the best-fitting one.

    The statistic is the log-likelihood that the best mixture lacks, in nats; that of the true mean law
    is no smaller, and its tail is bounded for any number of reports (``tails.entropy_above``).
    """
    p_values: list[float] = []
    names: list[str] = []
    worst = 0.0
    for channel, views, counts in parts(plan, tally):
        lacking = nats_lacking(channel, counts)
        cells = int((channel.possible > 0).sum())
        p_values += [entropy_above(nats, cells) for nats in lacking.tolist()]
        names += views
        worst = max(worst, float(lacking.max(initial=0.0)))
    if not p_values:
        why = "the tally keeps no whole outputs that a mixture could be fitted to"
        return unchecked("mixture", why, false_alarm)
    each = np.array(p_values)
    odd = np.flatnonzero(holm(each, false_alarm))
    return finding(
        "mixture",
        worst,
        corrected(each),
        false_alarm,
        "some honest population would have sent these outputs",
        "no honest population would have sent these outputs, whatever it holds",
        [names[row] for row in odd],
    )


def nats_lacking(channel: Channel, counts: Floats) -> Floats:
    """For each row of counts, the nats by which the best mixture falls short of the counts' own law."""
    n = counts.sum(axis=1, keepdims=True)
    shares = np.divide(counts, n, out=np.zeros_like(counts), where=n > 0)

    def short(laws: Floats) -> Floats:
        seen = np.maximum(channel.mix(laws), 1e-300)
        with np.errstate(divide="ignore", invalid="ignore"):
            each = np.where(counts > 0, counts * np.log(shares / seen), 0.0)
        return np.asarray(np.maximum(each.sum(axis=1), 0.0))

    # Any mixture at all is at least as far; only rows that one near at hand does not explain are fitted.
    near = onto_simplex(shares @ np.linalg.pinv(channel.expected()))
    found = short(0.999 * near + 0.001 / channel.states)
    cells = int((channel.possible > 0).sum())
    rows = np.flatnonzero([entropy_above(nats, cells) < 0.5 for nats in found.tolist()])
    if len(rows):
        best = fit(channel, counts[rows])
        exact = np.full(len(counts), np.inf)
        exact[rows] = np.maximum(_rows(short, best.laws, rows, len(counts)) - best.gap, 0.0)
        found = np.minimum(found, exact)
    return found


def _rows(short: Any, laws: Floats, rows: Integers, count: int) -> Floats:
    whole = np.full((count, laws.shape[1]), 1.0 / laws.shape[1])
    whole[rows] = laws
    return np.asarray(short(whole)[rows])
