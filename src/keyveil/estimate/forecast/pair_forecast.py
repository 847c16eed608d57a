"""The error that conditionals of two keys will have, before anyone has answered.

For a target a and a condition b, that go together as a table's people say or else are independent: the
variance of the shares of people who hold both, and of their values' sum, with what all other reports
tell of the two keys folded in as ``pooled`` does; then frequency(a | b) and mean(a | b) by the delta
method.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from ...channel import Channel
from ...channel.seed_pool import pool_of
from ...foundation.arrays import Floats
from ...foundation.errors import PlanError
from ..decoding import state_decoding_of
from ..together.joint import digits, lifted
from .key_forecast import clipped

if TYPE_CHECKING:
    from ...people.prior import Prior
    from ...plan.plan import Plan

HOPELESS = 0.25
"""With a larger standard error, a 95 % interval for a frequency is as wide as all frequencies."""
MOST_KINDS = 8


def pair_errors(plan: Plan, people: float, prior: Prior) -> tuple[float, float, float]:
    """Errors of conditional frequency and mean, clipped to their range, and people's factor lacking.

    Averaged over ordered pairs of the representatives that are held most, which are half of all keys.
    """
    kinds = _popular(prior)
    weight = prior.weight[kinds] / prior.weight[kinds].sum()
    frequency = mean = total = 0.0
    worst: list[tuple[float, float]] = []
    for one, two in product(range(len(kinds)), repeat=2):
        a, b = kinds[one], kinds[two]
        if a == b and prior.sample is not None and len(kinds) > 1:
            continue  # of a table every kind is one key
        share = float(weight[one] * weight[two])
        of_f, of_m, off_f = state_decoding_of(plan).pair_forecast(plan, people, prior, a, b)
        f, m = _told(_law(prior, 2, 2, a, b))
        if not np.isfinite(m):
            continue  # no one holds both, so that there is no mean to ask for
        frequency += share * float(clipped(np.array([of_f]), np.array([f]), 0.0, 1.0, off_f)[0])
        mean += share * float(clipped(np.array([of_m]), np.array([m]), -1.0, 1.0)[0])
        total += share
        worst.append((of_f / HOPELESS**2, share))
    if not total:
        return np.inf, np.inf, np.inf
    worst.sort()
    reached = np.searchsorted(np.cumsum([share for _, share in worst]), 0.5)
    return frequency / total, mean / total, worst[min(int(reached), len(worst) - 1)][0]


def _popular(prior: Prior) -> list[int]:
    order = np.argsort(-prior.frequency, kind="stable")
    half = int(np.searchsorted(np.cumsum(prior.weight[order]), 0.5)) + 1
    picked = order[:half]
    if len(picked) > MOST_KINDS:
        picked = picked[np.linspace(0, len(picked) - 1, MOST_KINDS).astype(int)]
    return [int(kind) for kind in picked]


def pair_in_views(plan: Plan, people: float, prior: Prior, a: int, b: int) -> tuple[float, float, float]:
    """Variances of frequency(a | b) and mean(a | b) from views, and the bias of the first."""
    several = plan.views.sizes > 1
    if not several.any():
        raise PlanError(f"{plan.mechanism_name} tells nothing of two keys together")
    view, views = int(np.argmax(several)), int(several.sum())
    size, levels = len(plan.views.keys[view]), plan.schema.levels
    channel = plan.view_channels[view]
    # Reports that hold these two keys together, and those that hold only one of them.
    keys = len(plan.schema.keys)
    asked = people * float(plan.views.shares[several].sum())
    both = asked / views
    if plan.mechanism.name != "workload":
        both *= views * size * (size - 1) / (keys * (keys - 1))
    alone = max(0.0, asked * size / keys - both)
    law = _law(prior, levels, size, a, b)
    spread = _functionals(channel, law, size, levels) / both
    if alone > 0 and plan.mechanism.name != "workload":
        told = spread[2:, 2:]
        gain = spread[:, 2:] @ np.linalg.pinv(told + told * both / alone, hermitian=True)
        spread = spread - gain @ spread[2:, :]
    return (*_ratios(spread, _law(prior, levels, 2, a, b)), 0.0)


def _law(prior: Prior, levels: int, size: int, a: int, b: int) -> Floats:
    """The law of a view's states: of the two keys together, and of average ones independent of them."""
    states = prior.states(levels)
    law = np.kron(states[a], states[b])
    if prior.sample is not None and a != b:
        law = prior.pair(levels, a, b)
    other = prior.weight @ states
    for _ in range(size - 2):
        law = np.kron(law, other)
    return np.asarray(law)


def _functionals(channel: Channel, law: Floats, size: int, levels: int) -> Floats:
    """Covariance for one report of P(ab), S_a 1(b), and f_a, f_b, S_a, S_b."""
    return channel.covariance(_decoder(channel, size, levels), law)


@lru_cache(maxsize=4)
def _decoder(channel: Channel, size: int, levels: int) -> Floats:
    """What each output adds to them; the same for every two keys of a plan, and dear."""
    rows = digits(levels, 2)
    held = (rows > 0).astype(np.float64)
    worth = np.concatenate([[0.0], np.linspace(-1.0, 1.0, levels)])[rows]
    columns = [held[:, 0] * held[:, 1], worth[:, 0] * held[:, 1], held[:, 0], held[:, 1]]
    weights = np.stack([*columns, worth[:, 0], worth[:, 1]], axis=1)
    weights = weights.reshape(levels + 1, levels + 1, -1)
    return channel.decoder(lifted(weights, (0, 1), tuple(range(size)), levels))


def _told(law: Floats) -> tuple[float, float]:
    """frequency(a | b) and mean(a | b) under a law of the two."""
    levels = round(len(law) ** 0.5) - 1
    shares = law.reshape(levels + 1, levels + 1)[:, 1:].sum(axis=1)
    both = float(shares[1:].sum())
    if not both > 0:
        return 0.0, np.nan
    return both / float(shares.sum()), float(shares[1:] @ np.linspace(-1.0, 1.0, levels)) / both


def _ratios(spread: Floats, law: Floats) -> tuple[float, float]:
    """Variances of P(ab) / f_b and S_a 1(b) / P(ab) by the delta method."""
    levels = round(len(law) ** 0.5) - 1
    g = float(law.reshape(levels + 1, levels + 1)[:, 1:].sum())
    f, m = _told(law)
    both = f * g
    if not both > 0:
        return np.inf, np.inf
    of_f = (spread[0, 0] - 2 * f * spread[0, 3] + f**2 * spread[3, 3]) / g**2
    of_m = (spread[1, 1] - 2 * m * spread[0, 1] + m**2 * spread[0, 0]) / both**2
    return float(of_f), float(of_m)


def pair_in_sets(plan: Plan, people: float, prior: Prior, a: int, b: int) -> tuple[float, float, float]:
    """The same from sets: a pair has four items and a key two, nearly independent of each other."""
    channel = pool_of(plan.view_channels[0])
    number = np.arange(len(prior.sizes))
    cap = plan.cap
    kept = np.minimum(number, cap)
    keys = max(prior.keys, 2)
    one = float(prior.sizes @ kept) / max(prior.held, 1e-12)
    pairs = float(prior.sizes @ (number * (number - 1.0)))
    two = float(prior.sizes @ (kept * (kept - 1.0))) / pairs if pairs > 0 else 1.0
    f, g, m = prior.frequency[a], prior.frequency[b], prior.mean[a]
    # People who hold many keys hold more of each two than independence has it.
    lift = pairs / prior.held**2 * keys / (keys - 1) if prior.held > 0 else 1.0
    both = min(f * g * max(lift, 1.0), f, g)
    part = 1.0 / channel.small
    item = channel.noise[0] / people
    energy = float(np.sum(prior.count * prior.frequency**2)) / 2 + prior.sizes @ kept**2 / keys
    item += channel.pool_variance(energy)[0] / 2  # of a key's two items one
    spread = np.zeros((6, 6))
    spread[0, 0] = spread[1, 1] = 4 * item + both * two * part / (channel.gains[0] * people)
    spread[3, 3] = 2 * item
    if not both * two * g * one > 0:
        return np.inf, np.inf, 0.0
    told = both * two / (g * one)
    of_f = (spread[0, 0] + told**2 * spread[3, 3]) / (g * one) ** 2
    of_m = (1 + m**2) * spread[1, 1] / (both * two) ** 2
    return float(of_f), float(of_m), float(told - both / g)
