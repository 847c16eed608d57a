"""The check that outputs of a view, or signs of a key, follow a mixture of the channel's rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...channel import Channel, Table
from ...estimate.likelihood import fit
from ...estimate.projection import onto_simplex
from ...foundation.arrays import Floats, Integers
from ...foundation.tails import entropy_above
from ...plan.plan import Plan
from ...plan.tally import Tally
from .finding import FALSE_ALARM, Finding, named_finding, unchecked
from .occurrences import view_name

MOST_STATES = 128


def parts(plan: Plan, tally: Tally) -> Iterator[tuple[Channel, list[str], Floats]]:
    """Channels, each with names and a row of output counts per name: views, digits of a view, or keys.

    Only channels whose laws can be written out are listed.
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
    """For each key of padded records the counts of reports with neither, its low or its high sign.

    A report is about the key with a probability of at most one by the padded length. So the three shares
    are a mixture of three laws. Outside of it a frequency exceeds 1 or a mass exceeds its frequency.
    """
    keys, drawn = list(plan.schema.keys), plan.encoding.largest_chance(plan.cap)
    n, cells = tally.view_counts(0)
    signs = channel.group_counts(cells.astype(np.float64), 2)
    if signs is not None:
        signs, law = signs[: len(keys)], channel.group_law(2)
        law = law[0] + drawn * (law - law[0])
        yield Table.rounded(law), keys, np.column_stack([n - signs.sum(axis=1), signs])


def check_mixture(plan: Plan, tally: Tally, false_alarm: float = FALSE_ALARM) -> Finding:
    """Check that each view's outputs fit a mixture of its channel's rows.

    The statistic is the difference in log-likelihood, in nats, between the counts' own law and the best
    mixture. It is at most that of the true mean law, whose tail is bounded for any number of reports
    (``tails.entropy_above``).
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
    return named_finding("mixture", worst, np.array(p_values), false_alarm, names.__getitem__)


def nats_lacking(channel: Channel, counts: Floats) -> Floats:
    """The log-likelihood of each row's own law minus that of the best mixture, in nats."""
    n = counts.sum(axis=1, keepdims=True)
    shares = np.divide(counts, n, out=np.zeros_like(counts), where=n > 0)

    def shortfall(laws: Floats, rows: Integers) -> Floats:
        own, seen = counts[rows], np.maximum(channel.mix(laws), 1e-300)
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(own > 0, own * np.log(shares[rows] / seen), 0.0)
        return np.asarray(np.maximum(terms.sum(axis=1), 0.0))

    # Any mixture gives an upper bound. Only rows that a cheap mixture does not explain are fitted.
    projected = onto_simplex(shares @ np.linalg.pinv(channel.expected()))
    least = shortfall(0.999 * projected + 0.001 / channel.states, np.arange(len(counts)))
    cells = int((channel.possible > 0).sum())
    rows = np.flatnonzero([entropy_above(nats, cells) < 0.5 for nats in least.tolist()])
    if len(rows):
        best = fit(channel, counts[rows])
        exact = np.maximum(shortfall(best.laws, rows) - best.gap, 0.0)
        least[rows] = np.minimum(least[rows], exact)
    return least
