"""Answers to queries: conditional frequency, mean and lift, with intervals, from what a tally knows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import exp, inf, isfinite, log, nan, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from ...foundation.arrays import Floats
from ...foundation.errors import PlanError, QueryError
from ...people.schema import Schema
from ..answer import Estimate, plain, quantile, ratio, shifted
from ..likelihood import fit
from ..linear import single_keys
from .identified_range import possible_range, told
from .joint import Evidence, HeldEvidence, JointMoments, evidence, not_together
from .query import Query

if TYPE_CHECKING:
    from ...plan.plan import Plan
    from ...plan.tally import Tally

ESTIMATORS = ("pooled", "least_squares", "likelihood", "simplex", "printed")
"""``pooled``: unbiased laws of all views, what they know of single keys folded into each, the value
taken at the nearest proper law; ``least_squares``: the unbiased values as they are;
``likelihood``: the value at each view's most likely law (EM); for plans with one view of all keys
also ``simplex``: the value at the law of all cells, projected (Norm-Sub), and ``printed``: IOH as the
paper has it. Intervals are those of the unbiased estimate (Fieller's), cut to the possible range."""


MOST_STATES = 3**8
"""Joint states of the keys that one query may name. Their laws are found with matrices of as many rows
and columns, so that memory grows with the square and time with the cube: with so many a query takes
about half a gigabyte, with three times as many two."""

RANGES = {"frequency": (0.0, 1.0), "mean": (-1.0, 1.0), "lift": (0.0, inf)}
"""Where each statistic must lie, means on the [-1, 1] scale."""


@dataclass(frozen=True)
class QueryAnswer:
    """A query, its estimate, and how it was reached."""

    query: Query
    estimate: Estimate
    how: str
    """"view" if a view holds all keys of the query. "range" if none does: the value is NaN, and the
    interval is the identified range, all values that agree with the views, widened for sampling error.
    "nothing" if no report speaks of one of the keys."""
    guess: float | None = None
    """For a range: the value at the law of most entropy, one of many that agree with the views. It has
    no error bound of its own. None if the keys are known one by one only, or if no one meets the
    condition at that law."""

    @property
    def point(self) -> float:
        """The estimate's value, or else the guess; NaN if there is neither."""
        return self.estimate.value if self.guess is None else self.guess

    def document(self) -> dict[str, Any]:
        """As JSON; the value is null for a range, and the guess null for everything else."""
        return {
            "query": str(self.query),
            "how": self.how,
            **self.estimate.document(),
            "guess": self.guess,
        }


def check_size(schema: Schema, query: Query, most_states: int = MOST_STATES) -> None:
    """Refuse a query that names more keys than can be looked at together."""
    states, most = schema.levels + 1, 0
    while states ** (most + 1) <= most_states:
        most += 1
    if len(query.keys) > most:
        raise QueryError(
            f"a query names at most {most} keys together where each has {states} states, "
            f"but this one names {len(query.keys)}"
        )


def query_weights(schema: Schema, query: Query) -> Floats:
    """Weights of numerator and denominator (for lift: joint, target, condition) on joint states."""
    check_size(schema, query)
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

    def _check(self, query: Query) -> None:
        """Refuse a query that names too many keys, or keys together where the plan asks about one."""
        check_size(self.plan.schema, query)
        if query.given and single_keys(self.plan):
            raise not_together(self.plan)

    def answer(self, query: Query | str) -> QueryAnswer:
        """The answer to one query, as text or object."""
        asked = Query.parse(query) if isinstance(query, str) else query
        schema = self.plan.schema
        self._check(asked)
        target, given = asked.places(schema)
        keys = (target, *(place for place, _ in given))
        weights = query_weights(schema, asked)
        found = self.evidence.moments(keys, weights)
        if found is not None:
            answer = QueryAnswer(asked, self._made(asked, keys, weights, found), "view")
        else:
            answer = self._by_range(asked, keys, weights)
        return self._on_scale(answer, target) if asked.kind == "mean" else answer

    def answers(self, queries: Iterable[Query | str]) -> list[QueryAnswer]:
        """The answers to many queries."""
        asked = [Query.parse(query) if isinstance(query, str) else query for query in queries]
        self.prepare(asked)
        return [self.answer(query) for query in asked]

    def prepare(self, queries: Sequence[Query]) -> None:
        """What is faster found for many queries at once, before they are answered one by one."""
        schema = self.plan.schema
        for query in queries:
            self._check(query)
        if isinstance(self.evidence, HeldEvidence):
            places = (query.places(schema) for query in queries)
            self.evidence.prepare((key, *(place for place, _ in given)) for key, given in places)

    def matrix(self, kind: str = "frequency") -> list[list[QueryAnswer | None]]:
        """Row k, column c: ``kind(k | c)`` for every two keys; None on the diagonal."""
        keys = self.plan.schema.keys
        pairs = [(k, c) for k in keys for c in keys if k != c]
        made = dict(
            zip(pairs, self.answers([Query(kind, k, ((c, True),)) for k, c in pairs]), strict=True)
        )
        return [[made.get((k, c)) for c in keys] for k in keys]

    # -- one view --------------------------------------------------------------------------------

    def _made(
        self, query: Query, keys: tuple[int, ...], weights: Floats, found: JointMoments
    ) -> Estimate:
        raw = self._raw(query, found)
        if self.estimator in ("least_squares", "printed"):
            return raw
        law = self._likely.get(keys) if self._likely is not None else None
        law = self.evidence.law(keys) if law is None else law
        value = _at(law, weights) if law is not None else nan
        low, high = RANGES[query.kind]
        return _moved(raw, value, low, high)

    def _raw(self, query: Query, found: JointMoments) -> Estimate:
        """The query's value and interval from its functionals."""
        if query.kind == "lift":
            return _lift(found, self.level)
        if query.kind == "frequency" and not query.given:
            return plain(found.values[0], found.covariance[0, 0], found.reports, self.level)
        return ratio(found.values[0], found.values[1], found.covariance, found.reports, self.level)

    # -- no view holds all keys ------------------------------------------------------------------

    def _by_range(self, query: Query, keys: tuple[int, ...], weights: Floats) -> QueryAnswer:
        """All values that agree with what the views know of fewer keys together, and a guess."""
        parts = known_parts(keys, self.evidence.law)
        if not set(keys) <= {key for part in parts for key in part}:
            return QueryAnswer(query, Estimate(nan, inf, -inf, inf, 0), "nothing")
        found = told(self.evidence.moments, parts, keys, self.plan.schema.levels)
        low, high = self._identified(query, keys, weights, found) or (-inf, inf)
        reports = min(known.reports for known in found.values())
        guess = None
        if set(keys) <= {key for part in parts if len(part) > 1 for key in part}:
            value = _at(entropy_law(keys, parts), weights)
            guess = min(max(value, low), high) if isfinite(value) else None
        return QueryAnswer(query, Estimate(nan, nan, low, high, reports), "range", guess)

    def _identified(
        self,
        query: Query,
        keys: tuple[int, ...],
        weights: Floats,
        found: Mapping[tuple[int, ...], JointMoments],
    ) -> tuple[float, float] | None:
        """The ends of the identified range, means on [-1, 1]; None without SciPy."""
        if query.kind != "lift":
            ends = possible_range(keys, weights, found, self.level)
            low, high = RANGES[query.kind]
            return None if ends is None else (max(ends[0], low), min(ends[1], high))
        # Lift is the frequency over that among all people, which is known by itself: half of the
        # chance of error for each.
        half = (1 + self.level) / 2
        ends = possible_range(keys, weights[..., [0, 2]], found, half)
        alone = self.evidence.moments(
            keys[:1], query_weights(self.plan.schema, Query("frequency", query.target))
        )
        if ends is None or alone is None:
            return None
        share = plain(alone.values[0], alone.covariance[0, 0], alone.reports, half)
        low = max(ends[0], 0.0) / min(share.high, 1.0)
        return low, (min(ends[1], 1.0) / share.low if share.low > 0 else inf)

    def _on_scale(self, answer: QueryAnswer, target: int) -> QueryAnswer:
        """A mean on [-1, 1], on its key's own scale."""
        low, high = float(self.plan.schema.low[target]), float(self.plan.schema.high[target])
        guess = None if answer.guess is None else low + (answer.guess + 1) * (high - low) / 2
        return replace(answer, estimate=shifted(answer.estimate, low, high), guess=guess)


def known_parts(
    keys: tuple[int, ...], law: Callable[[tuple[int, ...]], Floats | None]
) -> dict[tuple[int, ...], Floats]:
    """The largest sets of the keys, none inside another, whose laws are known."""
    parts: dict[tuple[int, ...], Floats] = {}
    for size in range(len(keys) - 1, 0, -1):
        for some in combinations(keys, size):
            if not any(set(some) <= set(larger) for larger in parts):
                found = law(some)
                if found is not None:
                    parts[some] = found
    return parts


def entropy_moments(
    source: Evidence,
    keys: tuple[int, ...],
    weights: Floats,
    law: Floats,
    parts: Mapping[tuple[int, ...], Floats],
) -> JointMoments:
    """Functionals at the law of most entropy that has these parts, and their covariance.

    At that law the slope of a functional in the parts is its regression on their states; one more
    report from every state keeps states that look empty in the sum. Noise of different parts is taken
    as independent, and how far the truth lies from the law of most entropy is no part of the covariance.
    """
    states, shares = law.shape[0], law.reshape(-1)
    flat = weights.reshape(law.size, -1)
    digits = np.indices(law.shape).reshape(len(keys), -1)
    columns, spreads, reports = [], [], []
    for some in parts:
        at = np.zeros(law.size, np.int64)
        for key in some:
            at = at * states + digits[keys.index(key)]
        count = states ** len(some)
        columns.append((at[:, None] == np.arange(count)).astype(np.float64))
        found = source.moments(some, np.eye(count).reshape((states,) * len(some) + (count,)))
        spreads.append(np.zeros((count, count)) if found is None else found.covariance)
        reports.append(0 if found is None else found.reports)
    root = np.sqrt((min(reports) * shares + 1) / (min(reports) + law.size))[:, None]
    slopes = np.linalg.lstsq(root * np.hstack(columns), root * flat, rcond=1e-9)[0]
    covariance, first = np.zeros((flat.shape[1],) * 2), 0
    for spread in spreads:
        slope = slopes[first : first + len(spread)]
        covariance += slope.T @ spread @ slope
        first += len(spread)
    return JointMoments(shares @ flat, covariance, min(reports))


def entropy_law(
    keys: tuple[int, ...], known: Mapping[tuple[int, ...], Floats], rounds: int = 200
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


def _lift(found: JointMoments, level: float) -> Estimate:
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
