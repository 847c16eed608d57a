"""Answers to queries: conditional frequency, mean and lift, with intervals, from a tally."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from math import inf, isfinite, nan
from typing import TYPE_CHECKING, Any

import numpy as np

from ...foundation.arrays import Floats
from ...foundation.errors import PlanError, QueryError, nearest
from ...foundation.result_table import ResultTable
from ...foundation.shown_result import MOST_SHOWN, ShownResult
from ...people.schema import Schema
from .. import DEFAULT, bands, estimate, estimators_of
from ..answer import Answers, Estimate, plain, quantile, ratio, shifted
from ..combined_parts import answers_together, asked_together
from ..likelihood import fit
from ..linear import single_keys
from .entropy_law import entropy_law, known_parts
from .identified_range import known_moments, possible_range
from .joint import Evidence, HeldEvidence, JointMoments, KeysApartError, evidence, not_together
from .query import KINDS, Query
from .query_answer import ANSWER_KINDS, RANGES, ConditionalMatrix, QueryAnswer, QueryResults
from .raw_lift import raw_lift
from .shrunk_conditionals import ShrunkConditionals

if TYPE_CHECKING:
    from ...plan.plan import Plan
    from ...plan.tally import Tally
    from ...plot.style import Axes

ESTIMATORS = ("best", "pooled", "least_squares", "single_view", "likelihood", "simplex", "printed")
"""Names of the estimators of conditionals, the default first.

* ``best``: associations of pairs, shrunk towards what all pairs have in common
  (``shrunk_conditionals``). A plan whose keys have no default answers has ``pooled`` ones.
* ``pooled``: the laws of all views are combined, and the value is taken at the nearest proper law.
* ``least_squares``: the unbiased value from all views, which stands next to ``best`` as ``raw``.
* ``single_view``: the unbiased value from the views that hold all keys of the query.
* ``likelihood``: the value at the most likely law of each view (EM).
* ``simplex``, for one view of all keys: the value at the projected law of all cells (Norm-Sub).
* ``printed``, for one view of all keys: IOH as the paper prints it.

Intervals of ``best`` cover each query at their level and are assisted by all other pairs. Those of the
others are those of the unbiased estimate (Fieller's), cut to the range of the statistic.

``best`` and ``least_squares`` answer a query of one key as ``estimate`` does, for every plan."""
UNBIASED = ("least_squares", "single_view", "printed")
"""Names of the estimators without any later step."""
OF_SINGLE_KEYS = ("best", "least_squares")
"""Names of the estimators that ``estimate`` has, too."""


MOST_STATES = 3**8
"""Largest number of joint states of the keys of a query. Laws are computed with square matrices of this
size, so memory grows with its square and time with its cube. At the limit a query takes about half a
gigabyte; with three times as many states it would take two."""


def check_size(schema: Schema, query: Query, most_states: int = MOST_STATES) -> None:
    """Refuses a query that names more keys than can be estimated together."""
    states, most = schema.levels + 1, 0
    while states ** (most + 1) <= most_states:
        most += 1
    if len(query.keys) > most:
        raise QueryError(
            f"a query names at most {most} keys together where each has {states} states, "
            f"but this one names {len(query.keys)}"
        )


def check_values(schema: Schema, query: Query) -> None:
    """Refuses a query for a mean if the plan does not ask for values."""
    if query.kind == "mean" and schema.levels < 2:
        raise QueryError("this plan does not ask for values, so it knows no mean")


def query_weights(schema: Schema, query: Query) -> Floats:
    """Weights on joint states of numerator and denominator (for lift: joint, target, condition)."""
    check_size(schema, query)
    states, keys = schema.levels + 1, len(query.keys)
    held = np.concatenate([[0.0], np.ones(schema.levels)])
    check_values(schema, query)
    value = np.concatenate([[0.0], schema.values if schema.levels > 1 else [1.0]])
    condition = np.ones((states,) * keys)
    for axis, (_, is_held) in enumerate(query.given, 1):
        shape = [1] * keys
        shape[axis] = states
        condition = condition * (held if is_held else 1 - held).reshape(shape)
    first = [states] + [1] * (keys - 1)
    target_held, target_value = held.reshape(first), value.reshape(first)
    if query.kind == "frequency":
        parts = [target_held * condition, condition]
    elif query.kind == "mean":
        parts = [target_value * condition, target_held * condition]
    else:
        parts = [target_held * condition, target_held * np.ones_like(condition), condition]
    return np.stack(parts, axis=-1)


def _has_both(plan: Plan) -> bool:
    """Whether the answers of single keys have what conditionals are built on."""
    answers = plan.mechanism.answers
    return "frequency" in answers and ("mean" in answers or plan.schema.levels < 2)


class Conditionals(ShownResult):
    """Answers queries from one tally; what they share is computed once.

    ``plan`` is the tally's plan, ``estimator`` one of ``ESTIMATORS``, and ``level`` that of the
    intervals. ``to_frame``, ``plot`` and its own display show
    every key given every other.
    """

    column_kinds = ANSWER_KINDS

    def __init__(self, plan: Plan, tally: Tally, estimator: str = "best", level: float = 0.95) -> None:
        if estimator not in ESTIMATORS:
            near = nearest(str(estimator), ESTIMATORS)
            hint = "" if near is None else f"did you mean {near}? "
            raise PlanError(f"unknown estimator {estimator!r}; {hint}known: {', '.join(ESTIMATORS)}")
        quantile(level)
        self.origin, self.frame_library = tally.origin, tally.frame_library
        self._whole = plan, tally
        if answers_together(plan):
            plan, tally = asked_together(plan, tally)
        self.plan, self.level, self.estimator = plan, level, estimator
        if estimator == "best" and (DEFAULT not in estimators_of(plan) or not _has_both(plan)):
            self.estimator = "pooled"
        decoded_as = "pooled" if self.estimator == "best" else self.estimator
        self._evidence: Evidence | KeysApartError
        try:
            self._evidence = evidence(plan, tally, decoded_as)
        except KeysApartError as refusal:
            if estimator not in OF_SINGLE_KEYS:
                raise
            self._evidence = refusal
        self._shrunk: ShrunkConditionals | None = None
        if self.estimator == "best" and not isinstance(self._evidence, KeysApartError):
            singles = bands(plan, tally.counts, DEFAULT, level)
            self._shrunk = ShrunkConditionals(plan.schema, self._evidence, singles, level)
        self._asked_as = estimator
        self._likely = _likely_laws(plan, tally) if estimator == "likelihood" else None

    @property
    def evidence(self) -> Evidence:
        """What the tally knows about keys together; refused if the plan does not ask about them."""
        if isinstance(self._evidence, KeysApartError):
            raise self._evidence
        return self._evidence

    @cached_property
    def singles(self) -> Answers | None:
        """The answers of ``estimate`` to single keys; None if it does not have this estimator."""
        plan, tally = self._whole
        if self._asked_as == "least_squares" and "least_squares" not in estimators_of(plan):
            answers = estimate(plan, tally, None, self.level)
            keys = tuple(answer.raw for answer in answers if answer.raw is not None)
            return replace(answers, keys=keys, estimator="least_squares") if keys else None
        if self._asked_as not in OF_SINGLE_KEYS:
            return None
        name = None if self._asked_as == DEFAULT else self._asked_as
        return estimate(plan, tally, name, self.level)

    def _check(self, query: Query) -> None:
        """Refuses a query that names too many keys, or several keys if the plan asks about one."""
        check_size(self.plan.schema, query)
        if not query.given:
            return
        if single_keys(self.plan):
            raise not_together(self.plan)
        if isinstance(self._evidence, KeysApartError):
            raise self._evidence

    def answer(self, query: Query | str) -> QueryAnswer:
        """The answer to a query, given as text or as an object."""
        parsed = Query.parse(query) if isinstance(query, str) else query
        schema = self.plan.schema
        self._check(parsed)
        if not parsed.given and self.singles is not None:
            return self._of_one_key(parsed, self.singles)
        target, given = parsed.places(schema)
        keys = (target, *(place for place, _ in given))
        weights = query_weights(schema, parsed)
        moments = self.evidence.moments(keys, weights)
        if moments is not None and self._shrunk is not None:
            shrunk = self._shrunk.answer(parsed, target, given, moments)
            estimate = shrunk.estimate(moments.reports, self.level)
            raw = self._raw(parsed, moments)
            answer = QueryAnswer(parsed, estimate, "view", None, self.estimator, shrunk.shown, raw)
        elif moments is not None:
            estimate = self._estimate(parsed, keys, weights, moments)
            answer = QueryAnswer(parsed, estimate, "view", estimator=self.estimator)
        else:
            answer = self._by_range(parsed, keys, weights)
        answer = replace(answer, frame_library=self.frame_library, ends=self._ends)
        return self._on_scale(answer, target) if parsed.kind == "mean" else answer

    def _of_one_key(self, query: Query, singles: Answers) -> QueryAnswer:
        """The answer of ``estimate`` to a query without conditions."""
        plan, _ = self._whole
        query.places(plan.schema)
        check_values(plan.schema, query)
        answer = singles[query.target]
        value: Estimate | None = getattr(answer, query.kind)
        if value is None:
            known = " and ".join(plan.mechanism.answers)
            said = f"answers the {known} of each key" if known else "answers no single key"
            raise PlanError(f"this plan ({plan.mechanism_name}) {said}, not the {query.kind}")
        raw: Estimate | None = None if answer.raw is None else getattr(answer.raw, query.kind)
        how = "view" if value.reports else "nothing"
        return QueryAnswer(
            query,
            value,
            how,
            estimator=singles.estimator,
            raw=raw,
            ends=self._ends,
            frame_library=self.frame_library,
        )

    @property
    def _ends(self) -> tuple[float, float] | None:
        """The range of all values, if keys share it."""
        ends = self.plan.schema.shared_range
        return None if ends is None else (float(ends[0]), float(ends[1]))

    def answers(self, queries: Iterable[Query | str]) -> QueryResults:
        """The answers to many queries, in their order."""
        parsed = [query if isinstance(query, Query) else Query.parse(query) for query in queries]
        self.prepare(parsed)
        return QueryResults([self.answer(query) for query in parsed])

    def prepare(self, queries: Sequence[Query]) -> None:
        """Computes what is faster for many queries at once; call it before ``answer``."""
        schema = self.plan.schema
        for query in queries:
            self._check(query)
        places = [query.places(schema) for query in queries]
        if isinstance(self._evidence, HeldEvidence):
            self._evidence.prepare((key, *(place for place, _ in given)) for key, given in places)
        conditional = [(key, given) for key, given in places if given]
        if self._shrunk is not None and conditional:
            self._shrunk.prepare(conditional)

    def matrix(self, kind: str = "frequency") -> ConditionalMatrix:
        """``kind(k | c)`` for every two keys, in row k and column c; None on the diagonal."""
        keys = self.plan.schema.keys
        if len(keys) == 1:
            raise PlanError("this plan has one key; a conditional is about at least two")
        pairs = [(k, c) for k in keys for c in keys if k != c]
        answers = dict(
            zip(pairs, self.answers([Query(kind, k, ((c, True),)) for k, c in pairs]), strict=True)
        )
        rows = [[answers.get((k, c)) for c in keys] for k in keys]
        return ConditionalMatrix(
            keys, kind, rows, self.level, self._ends, self.frame_library, self.origin
        )

    def columns(self) -> dict[str, list[Any]]:
        """The columns of all three matrices; means only if the plan asks for values."""
        kinds = [kind for kind in KINDS if kind != "mean" or self.plan.schema.levels > 1]
        parts = [self.matrix(kind).columns() for kind in kinds]
        return {name: [value for part in parts for value in part[name]] for name in parts[0]}

    def table(self, most: int | None = MOST_SHOWN) -> ResultTable:
        """The frequency of every key given every other."""
        return self.matrix().table(most)

    def plot(self, ax: Axes | None = None, kind: str = "frequency") -> Axes:
        """A heat map of every key given every other; ``kind`` is "frequency", "mean" or "lift"."""
        return self.matrix(kind).plot(ax)

    # -- one view --------------------------------------------------------------------------------

    def _estimate(
        self, query: Query, keys: tuple[int, ...], weights: Floats, moments: JointMoments
    ) -> Estimate:
        raw = self._raw(query, moments)
        if self.estimator in UNBIASED:
            return raw
        law = self._likely.get(keys) if self._likely is not None else None
        law = self.evidence.law(keys) if law is None else law
        value = _at(law, weights) if law is not None else nan
        low, high = RANGES[query.kind]
        return _with_value(raw, value, low, high)

    def _raw(self, query: Query, moments: JointMoments) -> Estimate:
        """The unbiased value and interval of the query from its functionals."""
        if query.kind == "lift":
            return raw_lift(moments, self.level)
        if query.kind == "frequency" and not query.given:
            return plain(moments.values[0], moments.covariance[0, 0], moments.reports, self.level)
        return ratio(
            moments.values[0], moments.values[1], moments.covariance, moments.reports, self.level
        )

    # -- no view holds all keys ------------------------------------------------------------------

    def _by_range(self, query: Query, keys: tuple[int, ...], weights: Floats) -> QueryAnswer:
        """The range of values that agree with the views of fewer keys, and a guess."""
        parts = known_parts(keys, self.evidence.law)
        if not set(keys) <= {key for part in parts for key in part}:
            return QueryAnswer(query, Estimate(nan, inf, -inf, inf, 0), "nothing")
        moments = known_moments(self.evidence.moments, parts, keys, self.plan.schema.levels)
        low, high = self._identified(query, keys, weights, moments) or (-inf, inf)
        reports = min(part.reports for part in moments.values())
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
        parts: Mapping[tuple[int, ...], JointMoments],
    ) -> tuple[float, float] | None:
        """The ends of the identified range, means on [-1, 1]; None without SciPy."""
        if query.kind != "lift":
            ends = possible_range(keys, weights, parts, self.level)
            low, high = RANGES[query.kind]
            return None if ends is None else (max(ends[0], low), min(ends[1], high))
        # Lift is the frequency divided by that among all people, which has its own interval. Each of
        # the two takes half of the chance of error.
        half = (1 + self.level) / 2
        ends = possible_range(keys, weights[..., [0, 2]], parts, half)
        alone = self.evidence.moments(
            keys[:1], query_weights(self.plan.schema, Query("frequency", query.target))
        )
        if ends is None or alone is None:
            return None
        share = plain(alone.values[0], alone.covariance[0, 0], alone.reports, half)
        low = max(ends[0], 0.0) / min(share.high, 1.0)
        return low, (min(ends[1], 1.0) / share.low if share.low > 0 else inf)

    def _on_scale(self, answer: QueryAnswer, target: int) -> QueryAnswer:
        """Converts a mean on [-1, 1] to the scale of its key."""
        low, high = float(self.plan.schema.low[target]), float(self.plan.schema.high[target])
        guess = None if answer.guess is None else low + (answer.guess + 1) * (high - low) / 2
        raw = None if answer.raw is None else shifted(answer.raw, low, high)
        return replace(answer, estimate=shifted(answer.estimate, low, high), guess=guess, raw=raw)


def _at(law: Floats, weights: Floats) -> float:
    """The value of the query at a law; NaN if the denominator is zero."""
    parts = (law[..., None] * weights).reshape(-1, weights.shape[-1]).sum(axis=0)
    below = parts[1] * (parts[2] if len(parts) > 2 else 1.0)
    return float(parts[0] / below) if below > 1e-12 else nan


def _with_value(raw: Estimate, value: float, low: float, high: float) -> Estimate:
    """The unbiased estimate with another value, its interval cut to the range and containing it."""
    if not isfinite(value):
        return raw
    if not raw.bounded:
        return Estimate(value, raw.stderr, raw.low, raw.high, raw.reports)
    ends = [min(max(end, low), high) for end in (raw.low, raw.high)]
    if ends[0] == ends[1]:  # the interval lies outside: put half its width inside, at the nearest end
        reach = (raw.high - raw.low) / 2
        ends = [max(ends[0] - reach, low), min(ends[1] + reach, high)]
    return Estimate(value, raw.stderr, min(ends[0], value), max(ends[1], value), raw.reports)


def _likely_laws(plan: Plan, tally: Tally) -> dict[tuple[int, ...], Floats]:
    """The most likely law of each view by its keys; views of two keys under both orders."""
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
