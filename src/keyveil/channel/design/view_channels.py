"""Channels for a view, and the choice among them by their predicted error on conditionals.

The closed forms are k-RR, subset selection, optimal bits (OUE, Wang et al., USENIX Security 2017) and
Hadamard response (Acharya, Sun, Zhang, AISTATS 2019). For pairs of two-level keys ``pair_channels`` adds
channels that are optimal for this workload.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from itertools import product
from math import ceil, floor

import numpy as np
from numpy.typing import ArrayLike

from ...foundation.arrays import WORD, Floats, Integers
from ...foundation.errors import ChannelError, PlanError
from ...foundation.exact import most_lies
from .. import Channel, Subset, Symbols, Symmetric, Table

MOST_INVERTED = 729
"""Maximum number of states for the best estimator at the prior. Above it least squares is used."""

ABSENT = 0.25
"""The weight of a conditional given an absent key, relative to one given that all are held."""

TIE = 1e-6
"""Relative difference of predicted errors that counts as a tie. The simpler channel wins ties."""


@lru_cache(128)
def best_subset(states: int, epsilon: Decimal) -> Subset:
    """Subset selection with the size that has the least predicted error at the uniform law.

    The channel is symmetric in the states, so at the uniform law one number per size decides for every
    workload: the information w (k - w) / (w e^epsilon + k - w)^2. It has its maximum at
    w = k / (e^epsilon + 1), so the best integer size is next to it.
    """
    odds = float(epsilon.exp())
    peak = states / (odds + 1)

    def information(size: int) -> float:
        return size * (states - size) / (size * odds + states - size) ** 2

    sizes = {min(max(1, size), states - 1) for size in (floor(peak), ceil(peak))}
    return Subset.of(states, epsilon, max(sorted(sizes), key=information))


def optimal_bits(states: int, epsilon: Decimal) -> Symbols:
    """One-hot bits: the true bit is set half the time, the others as rarely as the promise allows."""
    fake = most_lies(1, epsilon)
    bits = Symbols.bits_of(states, WORD // 2, fake)
    while not bits.proof().keeps(epsilon):
        fake += 1
        bits = Symbols.bits_of(states, WORD // 2, fake)
    return bits


def hadamard(states: int, epsilon: Decimal) -> Table:
    """Hadamard response: K = 2^r > k outputs; state x favours those where row x + 1 of H_K is +1.

    Half of every row except the first is +1. So a favoured and an unfavoured output have 2^33 / K units
    together, and each row sums to 2^32 exactly.
    """
    outputs = 1 << states.bit_length()
    share = 2 * WORD // outputs
    low = most_lies(1, epsilon, share) + 1
    rows = (
        tuple(low if ((state + 1) & y).bit_count() & 1 else share - low for y in range(outputs))
        for state in range(states)
    )
    return Table(tuple(rows))


CLOSED_FORMS: dict[str, Callable[[int, Decimal], Channel]] = {
    "grr": Symmetric.of,
    "subset": best_subset,
    "bits": optimal_bits,
    "hadamard": hadamard,
}
CHANNELS = (*CLOSED_FORMS, "optimal", "solved")
"""The channels that ``choose`` knows by name, besides "best"."""


def candidates(states: int, epsilon: Decimal) -> dict[str, Channel]:
    """Every closed form, by name, that exists with 32-bit weights for ``states`` states."""
    channels: dict[str, Channel] = {}
    for name, make in CLOSED_FORMS.items():
        try:
            channels[name] = make(states, epsilon)
        except ChannelError:
            continue
    return channels


def workload(prior: ArrayLike, keys: int) -> tuple[Floats, Floats]:
    """Weights on the states of a view, one column per conditional frequency, and one per mean.

    The conditionals are those of every key, given every combination of the others held or not. Near the
    prior the error of a ratio of two shares is that of a weighted sum of the states' shares; these
    weights are the columns. They are scaled so that their variances sum to the average variance of the
    answers, in which an answer given an absent key has the weight ``ABSENT``.
    """
    law = np.asarray(prior, np.float64)
    levels = round(len(law) ** (1.0 / keys)) - 1
    digits = _digits(keys, levels)
    held = digits > 0
    values = np.concatenate([[0.0], np.linspace(-1.0, 1.0, levels)])
    frequencies, means, counts = [], [], []
    for key in range(keys):
        others = np.delete(held, key, axis=1)
        for pattern in product((True, False), repeat=keys - 1):
            condition = (others == np.array(pattern, bool)).all(axis=1)
            both = condition & held[:, key]
            if not law @ both > 0:
                continue  # the prior has no such people
            counts.append(1.0 if all(pattern) else ABSENT)
            frequencies.append(_slope(law, both, condition))
            means.append(_slope(law, both * values[digits[:, key]], both))
    scale = np.sqrt(np.array(counts) / sum(counts))[:, None]
    of_means = (np.array(means) * scale).T if levels > 1 else np.zeros((len(law), 0))
    return (np.array(frequencies) * scale).T, of_means


def _slope(law: Floats, above: ArrayLike, below: ArrayLike) -> Floats:
    """The derivative of a ratio of two sums over states by the share of each state."""
    top, bottom = np.asarray(above, np.float64), np.asarray(below, np.float64)
    share = law @ bottom
    return np.asarray((top - (law @ top) / share * bottom) / share)


def _digits(keys: int, levels: int) -> Integers:
    return np.array(list(product(range(levels + 1), repeat=keys)), np.int64).reshape(-1, keys)


def held_levels(keys: int, levels: int) -> list[Floats]:
    """For each key of a view the indicators of its levels, ``(states, levels)``."""
    return [(of[:, None] == np.arange(1, levels + 1)) * 1.0 for of in _digits(keys, levels).T]


def default_prior(keys: int, levels: int) -> Floats:
    """Half uniform over the states, half independent keys that 30 % hold, uniform over levels.

    The prior only steers the choice of the channel; estimates never use it. Real keys are mostly held
    by a minority. But a prior with rare keys alone would lose on frequent keys: 40 % more error at f =
    0.8 and epsilon 1 or 2, if three views hold each key. There this prior stays within 15 % of the
    channel designed for f = 0.8 or f = 0.2.
    """
    key_law = np.concatenate([[0.7], np.full(levels, 0.3 / levels)])
    law = np.ones(1)
    for _ in range(keys):
        law = np.outer(law, key_law).ravel()
    return (law + 1.0 / len(law)) / 2.0


def conditional_errors(
    channel: Channel, prior: ArrayLike, keys: int, views: float = 1
) -> tuple[float, float]:
    """The predicted errors of one report on a view: of conditional frequencies, and of means.

    They are average variances over the ``workload``, to be divided by the number of reports on the
    view. ``views`` is the number of views that hold each key. The information of the other views is
    included, as in the pooled estimator, for the same number of reports each through the same channel.
    If a report is one cell, the errors are those of the best estimator at the prior, which maximum
    likelihood reaches; otherwise those of least squares. They are infinite if an answer cannot be
    estimated.
    """
    base = round(channel.states ** (1.0 / keys))
    if base < 2 or base**keys != channel.states:
        raise PlanError(f"a channel of {channel.states} states is not for a view of {keys} keys")
    law = checked_prior(prior, channel.states)
    kinds, singles = workload(law, keys), held_levels(keys, base - 1) if views > 1 else []
    alone = _spread(channel, law, np.hstack([*kinds, *singles]))
    if alone is None:
        return np.inf, np.inf
    first = alone.shape[1] - sum(levels.shape[1] for levels in singles)
    spread = alone
    for levels in singles:
        at = slice(first, first := first + levels.shape[1])
        others = (views - 1) * np.linalg.inv(alone[at, at])
        gain = np.linalg.solve(np.eye(levels.shape[1]) + others @ spread[at, at], others)
        spread = spread - spread[:, at] @ gain @ spread[at]
    variances = spread.diagonal()
    split = kinds[0].shape[1]
    return float(variances[:split].sum()), float(variances[split:][: kinds[1].shape[1]].sum())


def _spread(channel: Channel, law: Floats, wanted: Floats) -> Floats | None:
    """The covariance of one report's estimates of ``wanted``; None if a column has no estimate."""
    if not channel.one_cell or channel.states > MOST_INVERTED:
        decoder = channel.decoder(wanted)
        return channel.covariance(decoder, law) if np.isfinite(decoder).all() else None
    seen, given = channel.mix(law), channel.expected()
    possible = seen > 0
    information = (given[:, possible] / seen[possible]) @ given[:, possible].T
    solved = np.linalg.pinv(information, hermitian=True) @ wanted
    # Errors of a solvable system stay near machine precision times the solution's size.
    if np.abs(information @ solved - wanted).max() > 1e-8 * (1.0 + np.abs(solved).max()):
        return None
    share = law @ wanted
    return np.asarray(wanted.T @ solved - np.outer(share, share))


def over_subset(
    channel: Channel, epsilon: Decimal, prior: ArrayLike, keys: int, views: float = 1
) -> float:
    """The larger of the two predicted errors, each divided by that of subset selection.

    ``choose`` compares channels by this number, and the optimal channels minimise it.
    """
    base = conditional_errors(best_subset(channel.states, epsilon), prior, keys, views)
    errors = conditional_errors(channel, prior, keys, views)
    return max(error / reference for error, reference in zip(errors, base, strict=True) if reference > 0)


def choose(
    keys: int,
    levels: int,
    epsilon: Decimal,
    prior: ArrayLike | None = None,
    channel: str = "best",
    views: float = 1,
) -> tuple[str, Channel]:
    """The channel of that name for a view, or the one with the least predicted error, with its name.

    ``views`` is the number of views that hold each key. "best" takes the workload-optimal channel from
    the shipped tables and never solves. "solved" solves for exactly this epsilon, prior and number of
    views, and needs CVXPY.
    """
    from .pair_channels import SMALLEST_TABLED, designs, solve_pair

    states = (levels + 1) ** keys
    law = default_prior(keys, levels) if prior is None else checked_prior(prior, states)
    if channel in CLOSED_FORMS:
        return channel, CLOSED_FORMS[channel](states, epsilon)
    if channel not in ("best", "optimal", "solved"):
        raise PlanError(f"unknown channel {channel!r}; known: best, {', '.join(CHANNELS)}")
    pair = (keys, levels) == (2, 2)
    if channel != "best" and not pair:
        raise PlanError(f"the channel {channel!r} is for views of two keys at two levels")
    if channel == "solved":
        return channel, solve_pair(epsilon, law, views)
    tabled = designs(epsilon) if pair else []
    if channel == "optimal" and not tabled:
        raise PlanError(f"the tables of optimal channels begin at epsilon {SMALLEST_TABLED}")
    channels = [*candidates(states, epsilon).items()] if channel == "best" else []
    channels += [("optimal", candidate) for candidate in tabled]
    errors = [over_subset(candidate, epsilon, law, keys, views) for _, candidate in channels]
    return channels[next(i for i, error in enumerate(errors) if error <= min(errors) * (1.0 + TIE))]


def checked_prior(prior: ArrayLike, states: int) -> Floats:
    """The prior as an array. Raises ``PlanError`` unless it is a law of ``states`` states."""
    law = np.asarray(prior, np.float64)
    # A computed law sums to one up to rounding.
    if law.shape != (states,) or not (law >= 0).all() or abs(law.sum() - 1.0) > 1e-9:
        raise PlanError(f"a prior is {states} shares, none negative, that sum to one")
    return law
