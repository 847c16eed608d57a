"""Checks of decoders, estimators and covariances, by linear algebra and on tallies without noise."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import isnan

import numpy as np

from ..channel import Channel
from ..estimate import estimate
from ..estimate.decoding import decoding_of
from ..estimate.forecast.key_forecast import forecast_key
from ..estimate.linear import by_least_squares, key_weights, single_moments
from ..foundation.arrays import Floats, Integers
from ..plan.encoding import Held, StateLaw
from ..plan.plan import Plan
from ..plan.tally import Tally
from .assertions import check_each_part, require, require_same
from .record_laws import expected_marks, speaks_singly, state_law

_MANY = 1 << 36
"""Number of reports of a tally without noise; doubles still resolve differences of likelihood."""


def check_decoder(plan: Plan) -> None:
    """Check that law times decoder is the identity for all answers, and NaN where none is unbiased.

    Also, every estimator with an interval must recover the truth from a tally without noise.
    """
    if plan.parts is not None:
        check_each_part(plan, check_decoder)
        if speaks_singly(plan):
            _check_estimators(plan)
        return
    for channel in plan.channels:
        if channel.state_kind == "signs":
            _check_signs(channel)
        elif channel.state_kind == "number":
            _check_weights(plan, channel)
    if speaks_singly(plan) and (plan.chain is None or plan.chain["round"] == 1):
        _check_estimators(plan)


def _check_signs(channel: Channel) -> None:
    law = channel.output_law()
    if law is None:
        return
    signs = channel.in_draw_form(np.arange(channel.states)) * 2.0 - 1.0
    require_same(law @ channel.sign_decoder(), signs, 1 / channel.pull, "signs")


def _check_weights(plan: Plan, channel: Channel) -> None:
    law = channel.expected()
    columns = np.eye(channel.states)
    if plan.encoding.speaks_of_views and speaks_singly(plan):
        wanted = key_weights(plan.schema)
        solved = by_least_squares(channel, wanted)
        needs = {"frequency": (0,), "mean": (0, 1), "mass": (1,)}
        for answer in plan.mechanism.answers:
            for column in needs[answer]:
                cells = solved[:, column : column + 1]
                require_same(law @ cells, wanted[:, column : column + 1], np.abs(cells).max(), answer)
        columns = np.concatenate([columns, np.nan_to_num(wanted)], axis=1)
    solved = channel.decoder(columns)
    best = np.linalg.lstsq(law, columns, rcond=None)[0]
    # Relative to the solution's size: cancellation loses digits as epsilon falls.
    known = np.abs(law @ best - columns).max(axis=0) <= 1e-7
    require(
        bool((np.isnan(solved).all(axis=0) == ~known).all()),
        "the decoder is NaN exactly where no estimator is unbiased, and it is not",
    )
    for place in np.flatnonzero(known):
        cells = solved[:, [place]]
        require_same(law @ cells, columns[:, [place]], np.abs(cells).max(), "decoder")


def _check_estimators(plan: Plan) -> None:
    shares = np.linspace(0.2, 0.7, len(plan.schema.keys))
    means = np.linspace(-0.6, 0.5, len(plan.schema.keys))
    tally, truth = ideal_tally(plan, shares, means)
    for name in decoding_of(plan).estimators:
        for place, answer in enumerate(estimate(plan, tally, name)):
            low, high = float(plan.schema.low[place]), float(plan.schema.high[place])
            frequency, mass = truth[place]
            goals = {
                "frequency": (answer.frequency, frequency),
                "mean": (answer.mean, low + (mass / frequency + 1) / 2 * (high - low)),
                "mass": (answer.mass, mass),
            }
            for what in plan.mechanism.answers:
                result, goal = goals[what]
                if result is None:
                    raise AssertionError(f"estimator {name} has no {what}")
                if isnan(result.stderr) or not result.bounded:
                    continue  # the estimator states that it is biased or unbounded
                # Counts are rounded to integers, and likelihood stops 1e-3 nats from the maximum.
                # Both effects are far below the standard error.
                slack = 0.1 * result.stderr + 1e-9 * (high - low)
                require(
                    abs(result.value - goal) <= slack,
                    f"estimator {name}: {what} of a tally without noise is {result.value}, not {goal}",
                )


def ideal_tally(plan: Plan, shares: Floats, means: Floats) -> tuple[Tally, Floats]:
    """A tally without noise, and the true frequency and mass on [-1, 1] of each key, ``(keys, 2)``.

    ``shares`` of people hold each key, independently of other keys, with values of mean ``means`` at
    the ends of the range. If only some of a person's keys count, the shares are scaled to sum to one
    half, and nobody holds two keys.
    """
    shares, means = np.asarray(shares, np.float64), np.asarray(means, np.float64)
    plans = plan.part_plans
    capped = any(own.encoding.most_counted(own.cap) is not None for own in plans)
    if capped:
        shares = shares / shares.sum() / 2
    sets = any(own.encoding.speaks_of_sets for own in plans)
    many = _MANY << 10 if sets else _MANY  # there may be 2^22 cells
    weights = [1.0] if plan.parts is None else [part.share for part in plan.parts]
    counts = np.concatenate(
        [
            _ideal_counts(own, shares, means, capped, weight * many)
            for own, weight in zip(plans, weights, strict=True)
        ]
    )
    return Tally(plan, counts), np.stack([shares, shares * means], axis=1)


def _ideal_counts(plan: Plan, shares: Floats, means: Floats, capped: bool, many: float) -> Integers:
    """The counts of ``ideal_tally`` for a plan without parts, of ``many`` reports."""
    counts = np.zeros(plan.layout.cells, np.int64)
    for view, channel in enumerate(plan.view_channels):
        law: StateLaw = {}
        for chance, held in _ideal_records(plan, view, shares, means, capped):
            for state, share in state_law(plan, view, held).items():
                law[state] = law.get(state, 0.0) + chance * share
        reports = round(float(plan.views.shares[view]) * many)
        own = int(plan.layout.own[view])
        seen = np.rint(expected_marks(channel, law) * reports).astype(np.int64)
        counts[own + 1 : own + 1 + channel.cells] = seen[: channel.cells]
        counts[own] = seen.sum() if channel.one_cell else reports
    return counts


def _ideal_records(
    plan: Plan, view: int, shares: Floats, means: Floats, capped: bool
) -> Iterator[tuple[float, Held]]:
    """The records of ``ideal_tally`` over the keys of a view, each with its probability."""
    options: list[list[tuple[float, Held]]] = []
    for place in plan.views.keys[view]:
        share, mean = float(shares[place]), float(means[place])
        low, high = float(plan.schema.low[place]), float(plan.schema.high[place])
        low_chance, high_chance = share * (1 - mean) / 2, share * (1 + mean) / 2
        held = [(low_chance, {place: low}), (high_chance, {place: high})]
        options.append(list(held) if capped else [(1 - share, {}), *held])
    if capped:
        yield 1 - float(shares.sum()), {}
        for alone in options:
            yield from alone
        return
    for parts in product(*options):
        record = {place: value for _, part in parts for place, value in part.items()}
        yield float(np.prod([chance for chance, _ in parts])), record


def check_covariance(plan: Plan) -> None:
    """Check the covariance against a sum over all outputs, and the forecast against the plug-in."""
    if plan.parts is not None:
        check_each_part(plan, check_covariance)
        return
    for channel in plan.channels:
        outputs = channel.output_law()
        if outputs is None or channel.state_kind != "number":
            continue
        marks = channel.output_marks()
        weights = np.eye(channel.states)
        decoder = channel.decoder(weights)
        decoder = decoder[:, ~np.isnan(decoder).any(axis=0)]
        sums = marks @ decoder
        for tilt in (0.0, 3.0):
            law = np.exp(-tilt * np.arange(channel.states) / channel.states)
            law /= law.sum()
            seen = law @ outputs
            apart = sums - seen @ sums
            require_same(
                channel.covariance(decoder, law),
                (apart * seen[:, None]).T @ apart,
                1.0 + float((decoder**2).max(initial=0.0)),
                "covariance",
            )
    if plan.encoding.speaks_of_views and speaks_singly(plan):
        _check_plug_in(plan)


def _check_plug_in(plan: Plan) -> None:
    """Check that the estimated variance of a tally without noise is the predicted one."""
    keys = len(plan.schema.keys)
    shares, means = np.linspace(0.3, 0.8, keys), np.linspace(-0.5, 0.7, keys)
    tally, _ = ideal_tally(plan, shares, means)
    moments = single_moments(plan, tally)
    for view, (place,) in enumerate(plan.views.keys):
        forecast = forecast_key(
            plan, tally.reports, float(shares[place]), float(means[place]), view=view
        )
        spread = moments.covariance[place]
        for part, name in enumerate(("frequency", "mass")):
            value, goal = spread[part, part], getattr(forecast, name)
            if isnan(goal):
                require(isnan(value), f"{name} cannot be known, yet has a variance")
            else:
                # Allows for integer counts out of _MANY, and cancellation of squares.
                require(abs(value - goal) <= 1e-6 * goal, f"variance of {name}: {value}, not {goal}")
