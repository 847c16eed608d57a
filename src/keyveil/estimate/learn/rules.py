"""Association rules: people who order hamburgers also order fries, with how sure that is."""

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
CONTROLS = ("benjamini_yekutieli", "benjamini_hochberg")


@dataclass(frozen=True)
class Rule:
    """Among people who meet the antecedent, ``frequency`` hold the consequent."""

    antecedent: tuple[tuple[str, bool], ...]
    """Each condition's key, and whether it is held."""
    consequent: str
    frequency: Estimate
    """The share who hold the consequent among those who meet the antecedent."""
    support: Estimate
    """The share of all people who do both."""
    lift: Estimate
    """That frequency over the frequency among all people."""
    p_value: float
    """The chance of a tally this far above the least lift, were the true lift no higher."""
    adjusted: float
    """The smallest false-discovery rate at which the rule would be listed."""

    def document(self) -> dict[str, Any]:
        """As JSON."""
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
    """Rules whose lift is above ``min_lift``, the surest large lift first.

    Every rule over ``keys`` (all by default) with up to ``conditions`` conditions that some view
    holds is tested for lift > ``min_lift``; of the rules that pass, the expected share of false ones
    is at most ``false_discovery``, however the tests depend on each other (``benjamini_hochberg``
    finds more and needs tests that are positively dependent). ``given`` says whether conditions are
    keys "held", "absent" or "either". ``min_frequency`` (of the consequent given the antecedent) and
    ``min_support`` only shorten the list afterwards.
    """
    released = Released(conditionals)
    check_chance(false_discovery, "false_discovery")
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
    names = released.schema.keys if keys is None else tuple(keys)
    for name in names:
        released.place(name)
    tested = []
    for query in _candidates(names, SIGNS[given], conditions):
        found = _moments(released, query)
        if found is not None:
            tested.append((query, found, p_value(found, min_lift)))
    adjusted = adjust([p for _, _, p in tested], control)
    made = [
        _rule(released, query, found, p, float(q))
        for (query, found, p), q in zip(tested, adjusted, strict=True)
        if q <= false_discovery
    ]
    kept = [r for r in made if r.frequency.value >= min_frequency and r.support.value >= min_support]
    return sorted(kept, key=lambda rule: (-rule.lift.low, -rule.lift.value))


def _candidates(names: Sequence[str], signs: Sequence[bool], conditions: int) -> Iterator[Query]:
    for target in names:
        others = [name for name in names if name != target]
        for size in range(1, conditions + 1):
            for some in combinations(others, size):
                for held in product(signs, repeat=size):
                    yield Query("lift", target, tuple(zip(some, held, strict=True)))


def _moments(released: Released, query: Query) -> JointMoments | None:
    """Joint, target and condition; None if no view holds the keys."""
    target, conditions = query.places(released.schema)
    keys = (target, *(place for place, _ in conditions))
    return released.evidence.moments(keys, query_weights(released.schema, query))


def p_value(found: JointMoments, lift: float = 1.0) -> float:
    """The chance of such a tally if joint = lift * target * condition, by the delta method."""
    joint, target, condition = found.values
    spread = found.covariance
    slope = np.array([1.0, -lift * condition, -lift * target])
    # The product of two estimates is too large by their covariance, and varies a little more.
    excess = joint - lift * (target * condition - spread[1, 2])
    variance = slope @ spread @ slope + lift**2 * (spread[1, 1] * spread[2, 2] + spread[1, 2] ** 2)
    return tail(score(float(excess), float(variance)))


def adjust(chances: Sequence[float], control: str = CONTROLS[0]) -> Floats:
    """p-values as false-discovery rates (Benjamini and Yekutieli 2001; and Hochberg 1995)."""
    values = np.asarray(chances, np.float64)
    count = len(values)
    if not count:
        return values
    order = np.argsort(values)
    ranks = np.arange(1, count + 1)
    extra = float((1 / ranks).sum()) if control == CONTROLS[0] else 1.0
    steps = values[order] * count * extra / ranks
    made = np.empty(count)
    made[order] = np.minimum(np.minimum.accumulate(steps[::-1])[::-1], 1.0)
    return made


def _rule(released: Released, query: Query, found: JointMoments, p: float, q: float) -> Rule:
    """A listed rule with its intervals."""
    joint = JointMoments(found.values[:1], found.covariance[:1, :1], found.reports)
    if isinstance(released.source, Conditionals):
        answer = released.source.answer
        lift = answer(query).estimate
        frequency = answer(Query("frequency", query.target, query.given)).estimate
        support = released.share(_support(released, query, float(found.values[0])), joint)
    else:
        parts, level = found.values, released.level
        bend = np.array([[1.0, 0.0, 0.0], [0.0, parts[2], parts[1]]])
        spread = bend @ found.covariance @ bend.T
        lift = ratio(parts[0], parts[1] * parts[2], spread, found.reports, level)
        frequency = ratio(parts[0], parts[2], found.covariance[::2, ::2], found.reports, level)
        support = plain(parts[0], found.covariance[0, 0], found.reports, level)
    return Rule(query.given, query.target, frequency, support, lift, p, q)


def _support(released: Released, query: Query, raw: float) -> float:
    """The joint share at the proper law."""
    target, conditions = query.places(released.schema)
    law = released.view_law((target, *(place for place, _ in conditions)))
    if law is None:
        return raw
    return float((law * query_weights(released.schema, query)[..., 0]).sum())
