"""Association rules with intervals and false-discovery rates: who orders hamburgers orders fries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import inf
from typing import Any

import numpy as np

from ...foundation.arrays import Floats
from ...foundation.errors import QueryError
from ..answer import Estimate, plain, ratio
from ..together.conditional import Conditionals, query_weights
from ..together.joint import JointMoments
from ..together.query import Query
from .released import Released, Source, check_chance, score, shown, tail

SIGNS = {"held": (True,), "absent": (False,), "either": (True, False)}
"""The signs of conditions by the name of ``given``."""
CONTROLS = ("benjamini_yekutieli", "benjamini_hochberg")
"""Names of the controls of the false-discovery rate, the default first."""


@dataclass(frozen=True)
class Rule:
    """Among people who meet the antecedent, ``frequency`` hold the consequent."""

    antecedent: tuple[tuple[str, bool], ...]
    """The key of each condition, and whether it is held."""
    consequent: str
    frequency: Estimate
    """The share who hold the consequent among those who meet the antecedent."""
    support: Estimate
    """The share of all people who hold the consequent and meet the antecedent."""
    lift: Estimate
    """``frequency`` divided by the frequency of the consequent among all people."""
    p_value: float
    """Probability of a lift at least this far above ``min_lift``, if the true lift is ``min_lift``."""
    adjusted: float
    """The smallest false-discovery rate at which the rule would be listed."""

    def document(self) -> dict[str, Any]:
        """The rule as a JSON object."""
        return {
            "antecedent": [{"key": key, "held": held} for key, held in self.antecedent],
            "consequent": self.consequent,
            "frequency": self.frequency.document(),
            "support": self.support.document(),
            "lift": self.lift.document(),
            "p_value": self.p_value,
            "adjusted": self.adjusted,
        }

    def __str__(self) -> str:
        who = " and ".join(("with " if held else "without ") + key for key, held in self.antecedent)
        return (
            f"of people {who}, {shown(self.frequency)} also have {self.consequent}: "
            f"{shown(self.lift)} times as often as among all"
        )


def rules(
    conditionals: Source,
    min_frequency: float = 0.0,
    min_lift: float = 1.0,
    false_discovery: float = 0.05,
    keys: Iterable[str] | None = None,
    *,
    min_support: float = 0.0,
    given: str = "held",
    conditions: int = 1,
    control: str = "benjamini_yekutieli",
) -> list[Rule]:
    """Rules with a lift above ``min_lift``, sorted by the lower end of the interval of the lift.

    Every rule over ``keys`` (all by default) with up to ``conditions`` conditions is tested for lift >
    ``min_lift``, if a view holds its keys. The expected share of false rules in the list is at most
    ``false_discovery``, for any dependence of the tests. (``benjamini_hochberg`` finds more rules and
    assumes positive dependence.) Conditions are keys "held", "absent" or "either", as ``given`` says.
    ``min_frequency`` (of the consequent given the antecedent) and ``min_support`` only shorten the list
    afterwards.
    """
    released = Released(conditionals)
    check_chance(false_discovery, "false_discovery")
    _check(min_frequency, min_lift, min_support, given, conditions, control)
    names = released.schema.keys if keys is None else tuple(keys)
    for name in names:
        released.place(name)
    tested = _tested(released, _candidates(names, SIGNS[given], conditions), min_lift)
    adjusted = adjust([p for _, _, p in tested], control)
    discoveries = [
        _rule(released, query, moments, p, float(q))
        for (query, moments, p), q in zip(tested, adjusted, strict=True)
        if q <= false_discovery
    ]
    ranked = sorted(discoveries, key=lambda rule: (-rule.lift.low, -rule.lift.value))
    return [
        rule
        for rule in ranked
        if rule.frequency.value >= min_frequency and rule.support.value >= min_support
    ]


def _check(
    min_frequency: float, min_lift: float, min_support: float, given: str, conditions: int, control: str
) -> None:
    """Refuses arguments of ``rules`` that are out of range."""
    if given not in SIGNS:
        raise QueryError(f"given is one of {', '.join(SIGNS)}, not {given!r}")
    if control not in CONTROLS:
        raise QueryError(f"unknown control {control!r}; known: {', '.join(CONTROLS)}")
    if not 0 < min_lift < inf:
        raise QueryError("min_lift is a finite number above 0; 1 is no relation")
    if not (0 <= min_frequency <= 1 and 0 <= min_support <= 1):
        raise QueryError("min_frequency and min_support lie from 0 to 1")
    if conditions < 1:
        raise QueryError("conditions is a whole number of at least 1")


def _candidates(names: Sequence[str], signs: Sequence[bool], conditions: int) -> Iterator[Query]:
    """The lift of every target given every set of up to ``conditions`` conditions."""
    for target in names:
        others = [name for name in names if name != target]
        for size in range(1, conditions + 1):
            for chosen in combinations(others, size):
                for held in product(signs, repeat=size):
                    yield Query("lift", target, tuple(zip(chosen, held, strict=True)))


def _tested(
    released: Released, queries: Iterable[Query], min_lift: float
) -> list[tuple[Query, JointMoments, float]]:
    """The queries whose keys a view holds, with their moments and p-values."""
    known = ((query, _moments(released, query)) for query in queries)
    return [(query, joint, p_value(joint, min_lift)) for query, joint in known if joint is not None]


def _moments(released: Released, query: Query) -> JointMoments | None:
    """Moments of the joint share, the target and the condition; None if no view holds the keys."""
    target, conditions = query.places(released.schema)
    keys = (target, *(place for place, _ in conditions))
    return released.evidence.moments(keys, query_weights(released.schema, query))


def p_value(moments: JointMoments, lift: float = 1.0) -> float:
    """One-sided p-value of the hypothesis joint = lift * target * condition, by the delta method."""
    joint, target, condition = moments.values
    spread = moments.covariance
    slope = np.array([1.0, -lift * condition, -lift * target])
    # The product of two estimates is biased by their covariance, and has a second-order variance.
    excess = joint - lift * (target * condition - spread[1, 2])
    variance = slope @ spread @ slope + lift**2 * (spread[1, 1] * spread[2, 2] + spread[1, 2] ** 2)
    return tail(score(float(excess), float(variance)))


def adjust(chances: Sequence[float], control: str = CONTROLS[0]) -> Floats:
    """Adjusted p-values (Benjamini and Yekutieli 2001; Benjamini and Hochberg 1995)."""
    values = np.asarray(chances, np.float64)
    count = len(values)
    if not count:
        return values
    order = np.argsort(values)
    ranks = np.arange(1, count + 1)
    extra = float((1 / ranks).sum()) if control == CONTROLS[0] else 1.0
    steps = values[order] * count * extra / ranks
    adjusted = np.empty(count)
    adjusted[order] = np.minimum(np.minimum.accumulate(steps[::-1])[::-1], 1.0)
    return adjusted


def _rule(released: Released, query: Query, moments: JointMoments, p: float, q: float) -> Rule:
    """A rule with its intervals."""
    joint = JointMoments(moments.values[:1], moments.covariance[:1, :1], moments.reports)
    if isinstance(released.source, Conditionals):
        answer = released.source.answer
        lift = answer(query).estimate
        frequency = answer(Query("frequency", query.target, query.given)).estimate
        support = released.share(_support(released, query, float(moments.values[0])), joint)
    else:
        parts, level = moments.values, released.level
        bend = np.array([[1.0, 0.0, 0.0], [0.0, parts[2], parts[1]]])
        spread = bend @ moments.covariance @ bend.T
        lift = ratio(parts[0], parts[1] * parts[2], spread, moments.reports, level)
        frequency = ratio(parts[0], parts[2], moments.covariance[::2, ::2], moments.reports, level)
        support = plain(parts[0], moments.covariance[0, 0], moments.reports, level)
    return Rule(query.given, query.target, frequency, support, lift, p, q)


def _support(released: Released, query: Query, raw: float) -> float:
    """The joint share at the proper law; ``raw`` if no view holds the keys."""
    target, conditions = query.places(released.schema)
    law = released.view_law((target, *(place for place, _ in conditions)))
    if law is None:
        return raw
    return float((law * query_weights(released.schema, query)[..., 0]).sum())
