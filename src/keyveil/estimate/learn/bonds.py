"""Bonds: the dependence of two keys in their released law, shrunk towards independence."""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import numpy as np

from ...foundation.arrays import Floats
from .released import Released


class Bond(NamedTuple):
    """The dependence of two keys: their joint law after shrinkage."""

    law: Floats
    information: float
    """Mutual information at that law, in nats."""


def bond(released: Released, first: int, second: int) -> Bond:
    """The law of two keys, with their dependence shrunk by the expected noise.

    Dependence is the joint law minus the product of its margins. It has two parts: presence, and the
    levels given presence. Noise alone has a squared size, in standard errors, equal to the degrees of
    freedom, so each part is shrunk by that share (James and Stein). The margins use all views.
    """
    states = released.states
    margins = released.single(first), released.single(second)
    independent = np.outer(*margins)
    moments = released.evidence.moments((first, second), np.eye(states**2).reshape(states, states, -1))
    if moments is None:
        return Bond(independent, 0.0)
    excess, spread = dependence(moments.values.reshape(states, states), moments.covariance)
    # Presence: the excess of people who hold both, spread over levels as if these were independent.
    contrast = np.kron(_contrast(margins[0]), _contrast(margins[1]))
    both = np.kron(np.arange(states) > 0, np.arange(states) > 0).astype(np.float64)
    presence = contrast * (both @ excess)
    rest = np.eye(len(excess)) - np.outer(contrast, both)
    tests = [
        squared_size(np.array([both @ excess]), np.array([[both @ spread @ both]])),
        squared_size(excess - presence, rest @ spread @ rest.T),
    ]
    factors = [shrinkage(*test) for test in tests]
    if not any(factors):
        return Bond(independent, 0.0)
    law = independent + (factors[0] * presence + factors[1] * (excess - presence)).reshape(
        states, states
    )
    # A cell that is empty within its noise gets a small share.
    noise = np.sqrt(np.maximum(spread.diagonal(), 0.0)).reshape(states, states)
    law = _raked(np.maximum(law, np.clip(noise / 2, 1e-6 * independent, independent)), *margins)
    positive = law > 0
    return Bond(law, float((law[positive] * np.log(law[positive] / independent[positive])).sum()))


def dependence(joint: Floats, covariance: Floats) -> tuple[Floats, Floats]:
    """A joint law minus the product of its margins, flat, and its covariance by the delta method."""
    rows, columns = joint.sum(axis=1), joint.sum(axis=0)
    identity, ones = np.eye(len(joint)), np.ones((1, len(joint)))
    slope = np.eye(joint.size)
    slope -= np.kron(identity, columns[:, None] * ones) + np.kron(rows[:, None] * ones, identity)
    return (joint - np.outer(rows, columns)).reshape(-1), slope @ covariance @ slope.T


def _contrast(law: Floats) -> Floats:
    """The change of a law for one more holder, with levels in their proportion."""
    held = law[1:].sum()
    levels = law[1:] / held if held > 0 else np.full(len(law) - 1, 1 / (len(law) - 1))
    return np.concatenate([[-1.0], levels])


def shrinkage(size: float, freedom: int) -> float:
    """Shrinkage factor of a noisy vector, from 0 to 1; 1 without noise."""
    if size == inf:
        return 1.0
    return max(0.0, 1.0 - freedom / size) if size > 0 else 0.0


def squared_size(values: Floats, spread: Floats) -> tuple[float, int]:
    """Squared length of noisy values in standard errors, and its degrees of freedom."""
    sizes, axes = np.linalg.eigh(spread)
    if sizes[-1] <= 0:
        return (inf if np.abs(values).max() > 1e-12 else 0.0), 0
    sure = sizes > 1e-9 * sizes[-1]
    return float(((values @ axes[:, sure]) ** 2 / sizes[sure]).sum()), int(sure.sum())


def _raked(law: Floats, rows: Floats, columns: Floats, rounds: int = 30) -> Floats:
    """The law with given margins that is nearest to ``law`` in relative entropy."""
    for _ in range(rounds):
        law = law * _over(rows, law.sum(axis=1))[:, None]
        law = law * _over(columns, law.sum(axis=0))[None, :]
    return law / law.sum()


def _over(above: Floats, below: Floats) -> Floats:
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)


def law_ratios(joint: Floats, rows: Floats, columns: Floats) -> Floats:
    """A joint law divided by the product of its margins; 1 where a margin is empty."""
    independent = np.outer(rows, columns)
    return np.divide(joint, independent, out=np.ones_like(joint), where=independent > 0)
