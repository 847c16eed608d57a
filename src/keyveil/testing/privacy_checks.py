"""Checks of a channel's law: the promise, its distances, and the limits of honest counts."""

from __future__ import annotations

from decimal import Decimal
from itertools import product
from math import inf

import numpy as np

from ..channel import Channel, Proof
from ..channel.law import MOST_WRITTEN
from ..foundation.arrays import Floats
from ..plan.plan import Plan
from .assertions import check_each_part, require
from .record_laws import record_law

TIGHT = Decimal("0.999")
"""The share of the promised epsilon that a plan without waste must use."""

REACHED = 1e-5
"""Maximum distance of the nearest state from a limit of honest counts."""


def check_privacy(plan: Plan) -> None:
    """Check that every row is a law, and that the integers keep the promise and use it up."""
    if plan.parts is not None:
        check_each_part(plan, check_privacy)
        largest = max(own.proven for own in plan.part_plans)
        require(plan.proven == largest, f"proves {plan.proven}, and its worst part {largest}")
        return
    _check_records(plan)
    for channel in plan.channels:
        law = channel.output_law()
        if law is None:
            continue
        require(bool((law >= 0).all()), "a probability is negative")
        # Sums of multiples of 2^-32 are exact; products of many positions are rounded.
        require(bool((np.abs(law.sum(axis=1) - 1.0) <= 1e-12).all()), "a row is no law")
        check_ratio(law, channel.proof())
    chained = plan.chain is not None and int(plan.chain["round"]) > 1
    if plan.calibrate == "tight" or not plan.mechanism.wasteful or chained:
        require(
            plan.proven >= TIGHT * plan.promised,
            f"promises {plan.promised} and proves only {plan.proven}",
        )


def _check_records(plan: Plan) -> None:
    """Check the promise over records with values at the ends of their ranges, if these are few."""
    keys, ends = len(plan.schema.keys), (plan.schema.low, plan.schema.high)
    for number, channel in enumerate(plan.channels):
        proof = plan.encoding.proof(channel, keys)
        require(proof.keeps(plan.promised), f"promised {plan.promised}, but {proof}")
        view = next(iter(plan.views_of(number)), None)
        law = channel.output_law()
        if view is None or law is None or plan.encoding.speaks_of_sets:
            continue
        places = plan.views.keys[view]
        if 3 ** len(places) * channel.states > MOST_WRITTEN:
            continue
        states = []
        for digits in product((0, 1, 2), repeat=len(places)):
            held = {k: float(ends[x - 1][k]) for k, x in zip(places, digits, strict=True) if x}
            states.append(record_law(plan, held, view))
        check_ratio(np.array(states) @ law, proof)


def check_ratio(law: Floats, proof: Proof) -> None:
    """Check that the true epsilon of a law, the largest log ratio of two rows, is at most the proven."""
    columns = law[:, law.max(axis=0) > 0]
    least = columns.min(axis=0)
    worst = float(np.log(columns.max(axis=0) / least).max()) if least.all() else inf
    # The proof is rounded up in its 18th digit; the law here is in doubles.
    require(worst <= float(proof.epsilon) * (1 + 1e-9) + 1e-12, f"{worst} is worse than {proof}")


def check_distances(channel: Channel) -> None:
    """Check that the stated total variation is not too small and the stated blanket not too large.

    Laws that are not written out are skipped.
    """
    law = channel.output_law()
    if law is None:
        return
    apart = max(float(np.abs(law[first:] - row).sum(axis=1).max()) / 2 for first, row in enumerate(law))
    shared = float(law.min(axis=0).sum())
    stated = float(channel.total_variation())
    require(stated >= apart * (1 - 1e-12), f"two states are {apart} apart, not {stated}")
    stated = float(channel.blanket())
    require(stated <= shared * (1 + 1e-12), f"all states share {shared}, not {stated}")


def check_limits(channel: Channel) -> None:
    """Check that all states lie within the limits of honest counts, and some state reaches each limit.

    The expected marks of each state serve as counts. Shapes without limits, and laws that are not
    written out, are skipped. In a pool of seeds, limits may remain unreached.
    """
    limits = channel.limits(np.zeros(channel.cells))
    written = channel.output_law() is not None or channel.state_kind == "number"
    if limits is None or not written or channel.states * channel.cells > MOST_WRITTEN:
        return
    by_state = [channel.limits(row[: channel.cells]) for row in channel.expected()]
    counts = np.array([state.counts for state in by_state if state is not None])
    low, high = counts.min(axis=0), counts.max(axis=0)
    inside = (low >= limits.least - 1e-12) & (high <= limits.most + 1e-12)
    require(bool(inside.all()), f"limits leave out what a state sends, as of count {inside.argmin()}")
    near = (low <= limits.least + REACHED) & (high >= limits.most - REACHED)
    require(bool(near.all()) or channel.seeds > 0, f"no state comes near limit {near.argmin()}")
