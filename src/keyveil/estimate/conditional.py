"""Answers to queries: conditional frequency, mean and lift, with intervals, from what a tally knows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from math import exp, inf, isfinite, log, nan, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays import Floats
from ..errors import PlanError, QueryError
from ..query import Query
from ..schema import Schema
from .answer import Estimate, biased, plain, quantile, ratio, shifted
from .joint import Evidence, Moments, evidence
from .likelihood import fit
from .viewlaws import ViewEvidence

if TYPE_CHECKING:
    from ..plan import Plan
    from ..tally import Tally

ESTIMATORS = ("pooled", "least_squares", "likelihood", "simplex", "printed")
"""``pooled``: unbiased laws of all views, what they know of single keys folded into each, the value
taken at the nearest proper law; ``least_squares``: the unbiased values as they are;
``likelihood``: the value at each view's most likely law (EM); for plans with one view of all keys
also ``simplex``: the value at the law of all cells, projected (Norm-Sub), and ``printed``: IOH as the
paper has it. Intervals are those of the unbiased estimate (Fieller's), cut to the possible range."""


RANGES = {"frequency": (0.0, 1.0), "mean": (-1.0, 1.0), "lift": (0.0, inf)}
"""Where each statistic must lie, means on the [-1, 1] scale."""


@dataclass(frozen=True)
class QueryAnswer:
    """A query, its estimate, and how it was reached."""

    query: Query
    estimate: Estimate
    how: str
    """"view" if some view holds all keys of the query, "maximum entropy" if pairs of them are known,
    "nothing" if no report says how these keys go together."""

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {"query": str(self.query), "how": self.how, **self.estimate.document()}


def query_weights(schema: Schema, query: Query) -> Floats:
    """Weights of numerator and denominator (for lift: joint, target, condition) on joint states."""
    states, keys = schema.levels + 1, len(query.keys)
    held = np.concatenate([[0.0], np.ones(schema.levels)])
    if query.kind == "mean" and schema.levels < 2:
        raise QueryError("this plan does not ask for values, so it knows no mean")
    value = np.concatenate([[0.0], schema.values if schema.levels > 1 else [1.0]])
    condition = np.ones((states,) * keys)
    for axis, (_, is_held) in enumerate(query.given, 1):
        shape = [1] * keys
        shape[axis] = states
        condition = condition * (held if is_held else 1 - held).reshape(shape)
    first = [states] + [1] * (keys - 1)
    has, worth = held.reshape(first), value.reshape(first)
    if query.kind == "frequency":
        parts = [has * condition, condition]
    elif query.kind == "mean":
        parts = [worth * condition, has * condition]
    else:
        parts = [has * condition, has * np.ones_like(condition), condition]
    return np.stack(parts, axis=-1)


class Conditionals:
    """Answers queries from one tally; what is common to all of them is computed once."""

    def __init__(self, plan: Plan, tally: Tally, estimator: str = "pooled", level: float = 0.95) -> None:
        if estimator not in ESTIMATORS:
            raise PlanError(f"unknown estimator {estimator!r}; known: {', '.join(ESTIMATORS)}")
        quantile(level)
        self.plan, self.level, self.estimator = plan, level, estimator
        self.evidence: Evidence = evidence(plan, tally, estimator)
        self._likely = _likely_laws(plan, tally) if estimator == "likelihood" else None

    def answer(self, query: Query | str) -> QueryAnswer:
        """The answer to one query, as text or object."""
        asked = Query.parse(query) if isinstance(query, str) else query
        schema = self.plan.schema
        target, given = asked.places(schema)
        keys = (target, *(place for place, _ in given))
        weights = query_weights(schema, asked)
        found = self.evidence.moments(keys, weights)
        how = "view"
        if found is None:
            made = self._by_entropy(asked, keys, weights)
            how = "maximum entropy" if isfinite(made.value) else "nothing"
        else:
            made = self._made(asked, keys, weights, found)
        if asked.kind == "mean":
            made = shifted(made, float(schema.low[target]), float(schema.high[target]))
        return QueryAnswer(asked, made, how)

    def answers(self, queries: Iterable[Query | str]) -> list[QueryAnswer]:
        """The answers to many queries."""
        return [self.answer(query) for query in queries]

    def matrix(self, kind: str = "frequency") -> list[list[QueryAnswer | None]]:
        """Row k, column c: ``kind(k | c)`` for every two keys; None on the diagonal."""
        keys = self.plan.schema.keys
        return [
            [None if k == c else self.answer(Query(kind, k, ((c, True),))) for c in keys] for k in keys
        ]

    # -- one view --------------------------------------------------------------------------------

    def _made(self, query: Query, keys: tuple[int, ...], weights: Floats, found: Moments) -> Estimate:
        level = self.level
        if query.kind == "lift":
            raw = _lift(found, level)
        elif query.kind == "frequency" and not query.given:
            raw = plain(found.values[0], found.covariance[0, 0], found.reports, level)
        else:
            raw = ratio(found.values[0], found.values[1], found.covariance, found.reports, level)
        if self.estimator in ("least_squares", "printed"):
            return raw
        law = self._likely.get(keys) if self._likely is not None else None
        law = self.evidence.law(keys) if law is None else law
        value = _at(law, weights) if law is not None else nan
        low, high = RANGES[query.kind]
        return _moved(raw, value, low, high)

    # -- no view holds all keys ------------------------------------------------------------------

    def _by_entropy(self, query: Query, keys: tuple[int, ...], weights: Floats) -> Estimate:
        """The law of most entropy that agrees with what the views know of each two keys.

        The interval speaks of sampling alone, by the delta method on the two-key laws, and not of
        how far the truth may be from the law of most entropy.
        """
        known: dict[tuple[int, ...], Floats] = {}
        for some in (*((key,) for key in keys), *combinations(keys, 2)):
            law = self.evidence.law(some)
            if law is not None:
                known[some] = law
        together = {key for some in known if len(some) == 2 for key in some}
        if not set(keys) <= together:
            return Estimate(nan, inf, -inf, inf, 0)  # nothing says how these keys go together
        value = _at(entropy_law(keys, known), weights)
        if not isfinite(value) or not isinstance(self.evidence, ViewEvidence):
            return biased(value, 0)
        variance = 0.0
        for pair in (k for k in known if len(k) == 2):
            variance += self._sensitivity(keys, weights, known, pair, value)
        stderr = sqrt(variance)
        reach = quantile(self.level) * stderr
        low, high = RANGES[query.kind]
        return Estimate(value, stderr, max(value - reach, low), min(value + reach, high), 0)

    def _sensitivity(
        self,
        keys: tuple[int, ...],
        weights: Floats,
        known: dict[tuple[int, ...], Floats],
        pair: tuple[int, ...],
        value: float,
    ) -> float:
        """How much variance one pair's law brings into the answer."""
        states = self.plan.schema.levels + 1
        count = states**2
        found = self.evidence.moments(pair, np.eye(count).reshape(states, states, count))
        if found is None:
            return 0.0
        spread, axes = np.linalg.eigh(found.covariance)
        total = 0.0
        for size, axis in zip(spread, axes.T, strict=True):
            if size <= 0:
                continue
            step = 0.1 * sqrt(size)
            moved = np.maximum(known[pair] + step * axis.reshape(states, states), 1e-12)
            law = entropy_law(keys, {**known, pair: moved / moved.sum()})
            slope = (_at(law, weights) - value) / step
            total += slope**2 * size if isfinite(slope) else 0.0
        return total


def entropy_law(
    keys: tuple[int, ...], known: dict[tuple[int, ...], Floats], rounds: int = 200
) -> Floats:
    """The joint law of most entropy with the known marginals, by iterative proportional fitting."""
    states = next(iter(known.values())).shape[0]
    law = np.full((states,) * len(keys), states ** -float(len(keys)))
    for _ in range(rounds):
        before = law
        for some, target in known.items():
            axes = tuple(i for i, key in enumerate(keys) if key not in some)
            order = [key for key in keys if key in some]
            want = target.transpose([some.index(key) for key in order])
            have = law.sum(axis=axes, keepdims=True)
            shape = have.shape
            law = law * np.divide(want.reshape(shape), have, out=np.zeros(shape), where=have > 0)
        if np.abs(law - before).max() < 1e-10:
            break
    return law


def _at(law: Floats, weights: Floats) -> float:
    """The query's value at a law."""
    parts = (law[..., None] * weights).reshape(-1, weights.shape[-1]).sum(axis=0)
    below = parts[1] * (parts[2] if len(parts) > 2 else 1.0)
    return float(parts[0] / below) if below > 1e-12 else nan


def _moved(raw: Estimate, value: float, low: float, high: float) -> Estimate:
    """The interval of the unbiased estimate, cut to the range, with the value of a proper law."""
    if not isfinite(value):
        return raw
    if not raw.bounded:
        return Estimate(value, raw.stderr, raw.low, raw.high, raw.reports)
    ends = [min(max(end, low), high) for end in (raw.low, raw.high)]
    if ends[0] == ends[1]:  # wholly outside: half its width inside, at the nearest end
        reach = (raw.high - raw.low) / 2
        ends = [max(ends[0] - reach, low), min(ends[1] + reach, high)]
    return Estimate(value, raw.stderr, min(ends[0], value), max(ends[1], value), raw.reports)


def _lift(found: Moments, level: float) -> Estimate:
    """Joint over the product of both shares, on the logarithmic scale."""
    joint, target, condition = found.values
    reach = quantile(level)
    clear = all(
        v > reach * sqrt(max(s, 0.0))
        for v, s in zip(found.values, found.covariance.diagonal(), strict=True)
    )
    if not (target > 0 and condition > 0):
        return Estimate(nan, inf, -inf, inf, found.reports)
    value = joint / (target * condition)
    if not clear:
        return Estimate(value, inf, -inf, inf, found.reports)
    slope = np.array([1 / joint, -1 / target, -1 / condition])
    spread = sqrt(max(float(slope @ found.covariance @ slope), 0.0))
    middle = log(value)
    ends = (exp(middle - reach * spread), exp(middle + reach * spread))
    return Estimate(value, value * spread, ends[0], ends[1], found.reports)


def _likely_laws(plan: Plan, tally: Tally) -> dict[tuple[int, ...], Floats]:
    """Each view's most likely law by EM, under its keys in every order that two keys can have."""
    laws: dict[tuple[int, ...], Floats] = {}
    states = plan.schema.levels + 1
    for number, channel in enumerate(plan.channels):
        views = plan.views_of(number)
        if not channel.one_cell or channel.states > 243:
            continue
        fitted = fit(channel, np.array([tally.view_counts(v)[1] for v in views], np.float64))
        for view, law in zip(views, fitted.laws, strict=True):
            keys = plan.views.keys[view]
            shaped = law.reshape((states,) * len(keys))
            laws[keys] = shaped
            if len(keys) == 2:
                laws[keys[::-1]] = shaped.T
    return laws
