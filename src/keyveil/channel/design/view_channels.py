"""Channels for a view, and the choice among them by their predicted error on conditionals.

The closed forms are k-RR, subset selection, optimal bits (OUE, Wang et al., USENIX Security 2017) and
Hadamard response (Acharya, Sun, Zhang, AISTATS 2019). For pairs of two-level keys ``pair_channels`` adds
channels that are optimal for this workload.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from functools import lru_cache
from itertools import product
from math import ceil, floor

import numpy as np
from numpy.typing import ArrayLike

from ...foundation.arrays import WORD, Floats
from ...foundation.errors import ChannelError, PlanError
from ...foundation.exact import most_lies
from ...people.prior_laws import HELD
from ...people.views import digits
from .. import Channel, Subset, Symbols, Symmetric, Table
from .patterns import independent_keys

MOST_INVERTED = 729
"""Maximum number of states for which the best estimator at the prior is solved. Above: least squares."""

ABSENT = 0.25
"""Weight of a conditional given an absent key, relative to one given that all keys are held."""

TIE = 1e-6
"""Relative difference of predicted errors below which the simpler channel is taken."""


@lru_cache(128)
def best_subset(states: int, epsilon: Decimal) -> Subset:
    """Subset selection with the size that has the least predicted error if states are equally likely.

    The channel is symmetric in the states. So at the uniform law one number decides for every workload:
    the information w (k - w) / (w e^epsilon + k - w)^2 of size w. It is largest at
    w = k / (e^epsilon + 1), and the best integer size is one of the two neighbours.
    """
    odds = float(epsilon.exp())
    peak = states / (odds + 1)

    def information(size: int) -> float:
        return size * (states - size) / (size * odds + states - size) ** 2

    sizes = {min(max(1, size), states - 1) for size in (floor(peak), ceil(peak))}
    return Subset.of(states, epsilon, max(sorted(sizes), key=information))


def optimal_bits(states: int, epsilon: Decimal, silent: int = 0) -> Symbols:
    """One-hot bits: the true bit is set half the time, the others as rarely as the promise allows."""
    fake = most_lies(1, epsilon)
    bits = Symbols.bits_of(states, WORD // 2, fake, silent)
    while not bits.proof().keeps(epsilon):
        fake += 1
        bits = Symbols.bits_of(states, WORD // 2, fake, silent)
    return bits


def hadamard(states: int, epsilon: Decimal) -> Table:
    """Hadamard response: K = 2^r > k outputs. State x favours those where row x + 1 of H_K is +1.

    Half of every row but the first is +1. A favoured and an unfavoured output have 2^33 / K units
    together, so each row sums to 2^32 exactly.
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
VIEW_CHANNELS = (*CLOSED_FORMS, "optimal", "solved")
"""The names that ``choose`` takes, besides "best"."""


def candidates(states: int, epsilon: Decimal) -> dict[str, Channel]:
    """Every closed form for this number of states, unless 32-bit weights are too coarse for it."""
    channels: dict[str, Channel] = {}
    for name, make in CLOSED_FORMS.items():
        with suppress(ChannelError):
            channels[name] = make(states, epsilon)
    return channels


def workload(prior: ArrayLike, keys: int) -> tuple[Floats, Floats]:
    """Weights on the states of a view, a column for each of its conditional frequencies and means.

    There is one of each for every key, given every choice of which other keys are held. Near the prior,
    the error of a ratio of two shares is that of a weighted sum of the states' shares. Those weights are
    the columns. They are scaled so that their variances sum to the average variance of the answers, in
    which an answer given an absent key has the weight ``ABSENT``.
    """
    law = np.asarray(prior, np.float64)
    levels = round(len(law) ** (1.0 / keys)) - 1
    rows = digits(levels, keys)
    held = rows > 0
    values = np.concatenate([[0.0], np.linspace(-1.0, 1.0, levels)])
    frequencies, means, counts = [], [], []
    for key in range(keys):
        others = np.delete(held, key, axis=1)
        for pattern in product((True, False), repeat=keys - 1):
            condition = (others == np.array(pattern, bool)).all(axis=1)
            both = condition & held[:, key]
            if not law @ both > 0:
                continue  # the prior has no such people, so the answer has no weight
            counts.append(1.0 if all(pattern) else ABSENT)
            frequencies.append(_slope(law, both, condition))
            means.append(_slope(law, both * values[rows[:, key]], both))
    scale = np.sqrt(np.array(counts) / sum(counts))[:, None]
    of_means = (np.array(means) * scale).T if levels > 1 else np.zeros((len(law), 0))
    return (np.array(frequencies) * scale).T, of_means


def _slope(law: Floats, above: ArrayLike, below: ArrayLike) -> Floats:
    """The derivative of the ratio of two sums over states, by the share of each state."""
    top, bottom = np.asarray(above, np.float64), np.asarray(below, np.float64)
    share = law @ bottom
    return np.asarray((top - (law @ top) / share * bottom) / share)


def held_levels(keys: int, levels: int) -> list[Floats]:
    """For each key of a view, weights on the states: a column for each level of the key."""
    return [(of[:, None] == np.arange(1, levels + 1)) * 1.0 for of in digits(levels, keys).T]


def default_prior(keys: int, levels: int) -> Floats:
    """Half uniform over the states, half independent keys, each held by ``HELD`` with uniform levels.

    A prior only affects the choice; estimates never use it. Most real keys are held by a minority. A
    prior of that alone would have two fifths more error for keys with frequency 0.8, at epsilon 1 or 2
    with three views per key. There this prior is within 15 % of the channel designed for a frequency of
    0.8 or 0.2.
    """
    law = independent_keys(np.concatenate([[1.0 - HELD], np.full(levels, HELD / levels)]), keys)
    return (law + 1.0 / len(law)) / 2.0


def conditional_variances(
    channel: Channel, prior: ArrayLike, keys: int, views: float = 1
) -> tuple[float, float]:
    """One report's variances, averaged over the ``workload``: of frequencies, and of means.

    Divide them by the number of reports on the view. ``views`` is the number of views that hold each
    key. The other views are assumed to have as many reports through the same channel, and their
    information is included as in the pooled estimator. If a report is one cell, the variances are those
    of the best estimator at the prior, which maximum likelihood reaches; otherwise those of least
    squares. They are infinite if an answer cannot be estimated.
    """
    base = round(channel.states ** (1.0 / keys))
    if base < 2 or base**keys != channel.states:
        raise PlanError(f"a channel of {channel.states} states is not for a view of {keys} keys")
    law = checked_prior(prior, channel.states)
    kinds, singles = workload(law, keys), held_levels(keys, base - 1) if views > 1 else []
    alone = _spread(channel, law, np.hstack([*kinds, *singles]))
    if alone is None:
        return np.inf, np.inf
    first, levels = sum(columns.shape[1] for columns in kinds), base - 1
    spread = alone
    for key in range(len(singles)):
        at = slice(first + key * levels, first + (key + 1) * levels)
        others = (views - 1) * np.linalg.inv(alone[at, at])
        gain = np.linalg.solve(np.eye(levels) + others @ spread[at, at], others)
        spread = spread - spread[:, at] @ gain @ spread[at]
    variances = spread.diagonal()
    split = kinds[0].shape[1]
    return float(variances[:split].sum()), float(variances[split:][: kinds[1].shape[1]].sum())


def _spread(channel: Channel, law: Floats, wanted: Floats) -> Floats | None:
    """The covariance of one report's estimates of ``wanted``; None if one has no estimate."""
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
    """The larger of the two predicted errors, each relative to subset selection at this epsilon.

    ``choose`` takes the channel with the smallest one, and optimal channels minimise it.
    """
    bases = conditional_variances(best_subset(channel.states, epsilon), prior, keys, views)
    errors = conditional_variances(channel, prior, keys, views)
    return max(error / base for error, base in zip(errors, bases, strict=True) if base > 0)


def choose(
    keys: int,
    levels: int,
    epsilon: Decimal,
    prior: ArrayLike | None = None,
    channel: str = "best",
    views: float = 1,
) -> tuple[str, Channel]:
    """Name and channel for a view: the channel of that name, or the one with the least predicted error.

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
        raise PlanError(f"unknown channel {channel!r}; known: best, {', '.join(VIEW_CHANNELS)}")
    pair = (keys, levels) == (2, 2)
    if channel != "best" and not pair:
        raise PlanError(f"the channel {channel!r} is for views of two keys at two levels")
    if channel == "solved":
        return channel, solve_pair(epsilon, law, views)
    tabled = designs(epsilon) if pair else []
    if channel == "optimal" and not tabled:
        raise PlanError(f"the tables of optimal channels begin at epsilon {SMALLEST_TABLED}")
    options = [*candidates(states, epsilon).items()] if channel == "best" else []
    options += [("optimal", table) for table in tabled]
    errors = [over_subset(option, epsilon, law, keys, views) for _, option in options]
    return options[next(i for i, error in enumerate(errors) if error <= min(errors) * (1.0 + TIE))]


def checked_prior(prior: ArrayLike, states: int) -> Floats:
    """The prior as an array ``(states,)``. Raises ``PlanError`` if it is no law."""
    law = np.asarray(prior, np.float64)
    # A law that was computed sums to one but for rounding.
    if law.shape != (states,) or not (law >= 0).all() or abs(law.sum() - 1.0) > 1e-9:
        raise PlanError(f"a prior is {states} shares, none negative, that sum to one")
    return law
