"""Association rules with intervals and false-discovery rates: who orders hamburgers orders fries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import inf
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, SupportsIndex, TypedDict, overload

import numpy as np

from ...foundation.arrays import Floats
from ...foundation.errors import QueryError
from ...foundation.shown_result import MOST_SHOWN, ShownResult
from ..answer import Estimate, plain, ratio
from ..together.conditional import Conditionals, query_weights
from ..together.joint import JointMoments
from ..together.query import Query
from .independence import AnswerPair, excess, law_with_lift
from .released import Released, Source, check_chance, shown, within
from .showing import chance, html_text, interval_columns, table_of

if TYPE_CHECKING:
    from ...foundation.result_table import ResultTable
    from ...plot.style import Axes

SIGNS = {"held": (True,), "absent": (False,), "either": (True, False)}
"""The signs of conditions by the name of ``given``."""
CONTROLS = ("benjamini_yekutieli", "benjamini_hochberg")
"""Names of the controls of the false-discovery rate, the default first."""
NO_RULE = "no rule is above noise"


@dataclass(frozen=True, repr=False)
class Rule:
    """Among people who meet the antecedent, ``frequency`` hold the consequent.

    A rule of two held keys says the same about both, so it is listed once. Its antecedent is the key
    whose holders have the other one more often; ``reverse`` is the other direction.
    """

    antecedent: tuple[tuple[str, bool], ...]
    """The key of each condition, and whether it is held."""
    consequent: str
    frequency: Estimate
    """The share who hold the consequent among those who meet the antecedent."""
    reverse: Estimate
    """The share who meet the antecedent among those who hold the consequent."""
    support: Estimate
    """The share of all people who hold the consequent and meet the antecedent."""
    lift: Estimate
    """``frequency`` divided by the frequency of the consequent among all people; the same in reverse."""
    p_value: float
    """Probability of an association at least this strong, if the true lift is ``min_lift``."""
    adjusted: float
    """The smallest false-discovery rate at which the rule would be listed."""

    @property
    def condition(self) -> str:
        """The antecedent in words: "with Fries and without Pepsi"."""
        return " and ".join(("with " if held else "without ") + key for key, held in self.antecedent)

    def document(self) -> dict[str, Any]:
        """The rule as a JSON object."""
        return {
            "antecedent": [{"key": key, "held": held} for key, held in self.antecedent],
            "consequent": self.consequent,
            "frequency": self.frequency.document(),
            "reverse": self.reverse.document(),
            "support": self.support.document(),
            "lift": self.lift.document(),
            "p_value": self.p_value,
            "adjusted": self.adjusted,
        }

    def __repr__(self) -> str:
        return f"Rule({self.condition}: {self.consequent}, lift {shown(self.lift)})"

    def __str__(self) -> str:
        return (
            f"of people {self.condition}, {shown(self.frequency)} also have {self.consequent}: "
            f"{shown(self.lift)} times as often as among all; "
            f"of people with {self.consequent}, {shown(self.reverse)} are {self.condition}"
        )


class Rules(ShownResult, list[Rule]):
    """Rules above noise, the lower end of the lift's interval first; a list with a frame and a plot."""

    origin: str = ""
    """What the rules rest on, for titles."""
    column_kinds = {"antecedent": str, "consequent": str}

    @overload
    def __getitem__(self, place: SupportsIndex) -> Rule: ...

    @overload
    def __getitem__(self, place: slice) -> Rules: ...

    def __getitem__(self, place: Any) -> Rule | Rules:
        """A rule, or for a slice such as ``rules[:10]`` the ``Rules`` in it."""
        if not isinstance(place, slice):
            return super().__getitem__(place)
        part = Rules(super().__getitem__(place))
        part.frame_library, part.origin = self.frame_library, self.origin
        return part

    def columns(self) -> dict[str, list[Any]]:
        """The rules as columns: keys, then each estimate with both ends of its interval.

        An antecedent is written as in a query: the key, with ! before one that is not held.
        """
        columns: dict[str, list[Any]] = {
            "antecedent": [
                ", ".join(("" if held else "!") + key for key, held in rule.antecedent) for rule in self
            ],
            "consequent": [rule.consequent for rule in self],
        }
        for name in ("frequency", "reverse", "lift", "support"):
            columns |= interval_columns(name, [getattr(rule, name) for rule in self])
        columns["p_value"] = [rule.p_value for rule in self]
        columns["adjusted"] = [rule.adjusted for rule in self]
        return columns

    def headings_and_rows(self) -> tuple[list[str], list[list[str]]]:
        """The rules as a table of words."""
        headings = ["people", "also have", "frequency", "reverse", "lift", "support", "false discovery"]
        rows = [
            [
                rule.condition,
                rule.consequent,
                *(shown(part, 3) for part in (rule.frequency, rule.reverse, rule.lift, rule.support)),
                chance(rule.adjusted),
            ]
            for rule in self
        ]
        return headings, rows

    def table(self, most: int | None = MOST_SHOWN) -> ResultTable:
        """The first rules as a table; ``most=None`` shows all."""
        title = f"{len(self):,} rule{'' if len(self) == 1 else 's'} above noise"
        return table_of(*self.headings_and_rows(), title).first(most, "rules")

    def __str__(self) -> str:
        return str(self.table()) if self else NO_RULE

    def _repr_html_(self) -> str:
        return self.table()._repr_html_() if self else html_text(NO_RULE)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draws the lift of each rule with its interval, and returns the axes."""
        from ...plot.learner_plots import draw_rules

        return draw_rules(self, ax)


class RuleOptions(TypedDict, total=False):
    """The options of ``rules`` but its keys, for type checkers."""

    min_frequency: float
    min_lift: float
    false_discovery: float
    min_support: float
    given: str
    conditions: int
    control: str


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
) -> Rules:
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
    if isinstance(keys, str):
        raise QueryError("give a list of keys, also for one key")
    every = released.schema.keys
    names = every if keys is None else tuple(every[released.place(key)] for key in keys)
    tested = _tested(released, _candidates(names, given, conditions), min_lift)
    adjusted = adjust([p for _, _, p in tested], control)
    if isinstance(released.source, Conditionals):
        released.source.prepare(
            [query for (query, _, _), q in zip(tested, adjusted, strict=True) if q <= false_discovery]
        )
    discoveries = [
        _rule(released, query, moments, p, float(q))
        for (query, moments, p), q in zip(tested, adjusted, strict=True)
        if q <= false_discovery
    ]
    ranked = sorted(discoveries, key=lambda rule: (-rule.lift.low, -rule.lift.value))
    listed = Rules(
        rule
        for rule in ranked
        if rule.frequency.value >= min_frequency and rule.support.value >= min_support
    )
    listed.frame_library, listed.origin = released.frame_library, released.interval_origin
    return listed


def _check(
    min_frequency: float, min_lift: float, min_support: float, given: str, conditions: int, control: str
) -> None:
    """Refuses arguments of ``rules`` that are out of range."""
    if given not in SIGNS:
        raise QueryError(f"given is one of {', '.join(SIGNS)}, not {given!r}")
    if control not in CONTROLS:
        raise QueryError(f"unknown control {control!r}; known: {', '.join(CONTROLS)}")
    if not isinstance(min_lift, Real) or not 0 < min_lift < inf:
        raise QueryError("min_lift is a finite number above 0; 1 is no relation")
    if not all(isinstance(least, Real) and 0 <= least <= 1 for least in (min_frequency, min_support)):
        raise QueryError("min_frequency and min_support lie from 0 to 1")
    if not isinstance(conditions, Integral) or conditions < 1:
        raise QueryError("conditions is a whole number of at least 1")


def _candidates(names: Sequence[str], given: str, conditions: int) -> Iterator[Query]:
    """The lift of every target given every set of up to ``conditions`` conditions.

    Two held keys have one lift, so they are one candidate.
    """
    place = {name: number for number, name in enumerate(names)}
    for target in names:
        others = [name for name in names if name != target]
        for size in range(1, conditions + 1):
            for chosen in combinations(others, size):
                for held in product(SIGNS[given], repeat=size):
                    if held == (True,) and place[chosen[0]] > place[target]:
                        continue
                    yield Query("lift", target, tuple(zip(chosen, held, strict=True)))


def _tested(
    released: Released, queries: Iterable[Query], min_lift: float
) -> list[tuple[Query, JointMoments, float]]:
    """The queries whose keys a view holds, with their moments and p-values."""
    known = [(query, _moments(released, query)) for query in queries]
    released.prepare(_keys(released, query) for query, moments in known if moments is not None)
    return [
        (query, moments, _p_value(released, query, min_lift))
        for query, moments in known
        if moments is not None
    ]


def _moments(released: Released, query: Query) -> JointMoments | None:
    """Moments of the joint share, the target and the condition; None if no view holds the keys."""
    return released.evidence.moments(_keys(released, query), query_weights(released.schema, query))


def _keys(released: Released, query: Query) -> tuple[int, ...]:
    target, conditions = query.places(released.schema)
    return (target, *(place for place, _ in conditions))


def _p_value(released: Released, query: Query, lift: float) -> float:
    """One-sided p-value of the hypothesis that the lift is at most ``lift``."""
    keys = _keys(released, query)
    _, target, condition = np.moveaxis(query_weights(released.schema, query), -1, 0)
    asked = AnswerPair(np.ones_like(target), target, condition)
    law = released.law(keys).law
    shares = [float((law * part).sum()) for part in (target, condition)]
    if lift * max(shares) >= 0.999:
        return 1.0  # nearly everyone who could has it: no lift is that large
    return excess(released, keys, asked, law_with_lift(law, asked, released.reports(keys), lift))


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
    """A rule with its intervals; of two held keys, the direction of the larger frequency first."""
    joint = JointMoments(moments.values[:1], moments.covariance[:1, :1], moments.reports)
    parts, level = moments.values, released.level
    back = ratio(parts[0], parts[1], moments.covariance[:2, :2], moments.reports, level)
    back = within(back, 0.0, 1.0)
    two_held = len(query.given) == 1 and query.given[0][1]
    if isinstance(released.source, Conditionals):
        answer = released.source.answer
        lift = answer(query).estimate
        frequency = answer(Query("frequency", query.target, query.given)).estimate
        if two_held:
            back = answer(Query("frequency", query.given[0][0], ((query.target, True),))).estimate
        support = released.share(_support(released, query, float(moments.values[0])), joint)
    else:
        bend = np.array([[1.0, 0.0, 0.0], [0.0, parts[2], parts[1]]])
        spread = bend @ moments.covariance @ bend.T
        lift = ratio(parts[0], parts[1] * parts[2], spread, moments.reports, level)
        frequency = ratio(parts[0], parts[2], moments.covariance[::2, ::2], moments.reports, level)
        support = plain(parts[0], moments.covariance[0, 0], moments.reports, level)
    if two_held and back.value > frequency.value:
        antecedent = ((query.target, True),)
        return Rule(antecedent, query.given[0][0], back, frequency, support, lift, p, q)
    return Rule(query.given, query.target, frequency, back, support, lift, p, q)


def _support(released: Released, query: Query, raw: float) -> float:
    """The joint share at the proper law; ``raw`` if no view holds the keys."""
    target, conditions = query.places(released.schema)
    law = released.view_law((target, *(place for place, _ in conditions)))
    if law is None:
        return raw
    return float((law * query_weights(released.schema, query)[..., 0]).sum())
