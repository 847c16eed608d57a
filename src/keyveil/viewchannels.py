"""Channels for a view, and the choice among them by the error they will have on conditionals.

The closed forms are k-RR, subset selection, optimal bits (OUE, Wang et al., USENIX Security 2017) and
Hadamard response (Acharya, Sun, Zhang, AISTATS 2019); for pairs of two-level keys ``optimal`` adds the
channel that is best of all for this workload.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from itertools import product
from math import ceil, floor

import numpy as np
from numpy.typing import ArrayLike

from .arrays import WORD, Floats
from .channel import Channel, Subset, Symbols, Symmetric, Table
from .errors import ChannelError, PlanError
from .exact import most_lies

MOST_INVERTED = 729
"""Up to so many states the best estimator at the prior is solved for; above, least squares."""

TIE = 1e-6
"""Channels this near to each other in predicted error are alike: the simpler one is taken."""


def best_subset(states: int, epsilon: Decimal) -> Subset:
    """Subset selection with the size that predicts the least error when all states are alike.

    The channel looks the same from every state, so at the uniform law one number per size decides
    for every workload: the information w (k - w) / (w e^epsilon + k - w)^2. It peaks at
    w = k / (e^epsilon + 1), so the best whole size is one of the two neighbours.
    """
    odds = float(epsilon.exp())
    peak = states / (odds + 1)

    def information(size: int) -> float:
        return size * (states - size) / (size * odds + states - size) ** 2

    sizes = {min(max(1, size), states - 1) for size in (floor(peak), ceil(peak))}
    return Subset.of(states, epsilon, max(sorted(sizes), key=information))


def optimal_bits(states: int, epsilon: Decimal) -> Symbols:
    """One-hot bits: the true one is shown half the time, the others as seldom as the promise allows."""
    fake = most_lies(1, epsilon)
    bits = Symbols.bits_of(states, WORD // 2, fake)
    while not bits.proof().keeps(epsilon):
        fake += 1
        bits = Symbols.bits_of(states, WORD // 2, fake)
    return bits


def hadamard(states: int, epsilon: Decimal) -> Table:
    """Hadamard response: K = 2^r > k outputs; state x favours those where row x + 1 of H_K is +1.

    Every row but the first is half +1, so a favoured and an unfavoured output share 2^33 / K units
    and each row sums to 2^32 exactly.
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
"""What ``choose`` knows by name, besides "best"."""


def candidates(states: int, epsilon: Decimal) -> dict[str, Channel]:
    """Every closed form that 32-bit weights can hold for so many states."""
    found: dict[str, Channel] = {}
    for name, make in CLOSED_FORMS.items():
        try:
            found[name] = make(states, epsilon)
        except ChannelError:
            continue
    return found


def workload(keys: int, levels: int) -> Floats:
    """Weights on the states of a view, a column for each number that its conditionals are made of.

    For each key, and each way the others may be held or not: the share of people who hold the key,
    and, where values are looked at, the sum of its values. A pair has eight such columns, P(a, b)
    and P(a, !b), S_a 1(b) and S_a 1(!b), and the same for b.
    """
    digits = np.array(list(product(range(levels + 1), repeat=keys))).reshape(-1, keys)
    held = digits > 0
    worth = np.concatenate([[0.0], np.linspace(-1.0, 1.0, levels)])
    columns = []
    for key in range(keys):
        others = np.delete(held, key, axis=1)
        for pattern in product((True, False), repeat=keys - 1):
            within = (others == np.array(pattern, bool)).all(axis=1) & held[:, key]
            columns.append(within.astype(np.float64))
            if levels > 1:
                columns.append(within * worth[digits[:, key]])
    return np.stack(columns, axis=1)


def default_prior(keys: int, levels: int) -> Floats:
    """Half uniform over the states, half independent keys that 30 % hold at any level alike.

    A prior only steers the choice; estimates never use it. Real keys are mostly held by a minority,
    but a prior that believed so alone would give up dense keys at epsilon 2 to 3 (a fifth more error
    at f = 0.8); this one stays within 7 % of the channel designed for f = 0.8 or f = 0.2 up to 2.
    """
    one = np.concatenate([[0.7], np.full(levels, 0.3 / levels)])
    law = np.ones(1)
    for _ in range(keys):
        law = np.outer(law, one).ravel()
    return (law + 1.0 / len(law)) / 2.0


def conditional_error(channel: Channel, prior: ArrayLike, keys: int) -> float:
    """The predicted error of one report: variances of the view's ``workload``, summed.

    Divide by the number of reports on the view. Where a report is one cell it is the error of the
    best estimator at the prior, which maximum likelihood reaches; otherwise that of least squares.
    Infinite where some column cannot be estimated at all.
    """
    base = round(channel.states ** (1.0 / keys))
    if base < 2 or base**keys != channel.states:
        raise PlanError(f"a channel of {channel.states} states is not for a view of {keys} keys")
    law = checked_prior(prior, channel.states)
    wanted = workload(keys, base - 1)
    if not channel.one_cell or channel.states > MOST_INVERTED:
        spread = np.trace(channel.covariance(decoder := channel.decoder(wanted), law))
        return float(spread) if np.isfinite(decoder).all() else np.inf
    seen, given = channel.mix(law), channel.expected()
    possible = seen > 0
    information = (given[:, possible] / seen[possible]) @ given[:, possible].T
    solved = np.linalg.pinv(information, hermitian=True) @ wanted
    # Errors of a solvable system stay near machine precision times the solution's size.
    if np.abs(information @ solved - wanted).max() > 1e-8 * (1.0 + np.abs(solved).max()):
        return np.inf
    return float((wanted * solved).sum() - ((law @ wanted) ** 2).sum())


def choose(
    keys: int,
    levels: int,
    epsilon: Decimal,
    prior: ArrayLike | None = None,
    channel: str = "best",
) -> tuple[str, Channel]:
    """The channel of that name for a view, or the one with the least predicted error, with its name.

    "best" takes the workload-optimal channel from the shipped table and never solves; "solved" finds
    it anew, for exactly this epsilon and prior, and needs CVXPY.
    """
    from .optimal import SMALLEST_TABLED, optimal_pair, solve_pair

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
        return channel, solve_pair(epsilon, law)
    tabled = optimal_pair(epsilon) if pair else None
    if channel == "optimal":
        if tabled is None:
            raise PlanError(f"the table of optimal channels begins at epsilon {SMALLEST_TABLED}")
        return channel, tabled
    found = candidates(states, epsilon)
    if tabled is not None:
        found["optimal"] = tabled
    errors = {name: conditional_error(each, law, keys) for name, each in found.items()}
    least = min(errors.values())
    name = next(name for name, error in errors.items() if error <= least * (1.0 + TIE))
    return name, found[name]


def checked_prior(prior: ArrayLike, states: int) -> Floats:
    """A law of so many states."""
    law = np.asarray(prior, np.float64)
    # A law that was computed sums to one but for rounding.
    if law.shape != (states,) or not (law >= 0).all() or abs(law.sum() - 1.0) > 1e-9:
        raise PlanError(f"a prior is {states} shares, none negative, that sum to one")
    return law
