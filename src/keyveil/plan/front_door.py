"""The front door: what plans and tallies offer an analyst from the rooms below.

Plans and tallies know nothing of estimators, planners and pictures. This is the only module of the room
that names them, within its methods, so that everything starts from a plan: ``Plan.choose``,
``plan.collect``, ``tally.estimate``.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, SupportsFloat, Unpack, cast, overload

from ..foundation.errors import PlanError, QueryError
from ..foundation.exact import Number
from ..foundation.key_names import key_name
from ..foundation.notices import PlannerWarning, notice
from ..foundation.shown_result import MOST_SHOWN, ShownResult
from ..people.schema import Schema

if TYPE_CHECKING:
    from ..estimate.answer import Answers
    from ..estimate.learn.bayes import NaiveBayes
    from ..estimate.learn.chow_liu import ChowLiu, ChowLiuOptions
    from ..estimate.learn.cube import Cube
    from ..estimate.learn.rules import RuleOptions, Rules
    from ..estimate.learn.tree import DecisionTree, TreeOptions
    from ..estimate.together.conditional import Conditionals
    from ..estimate.together.query import Query
    from ..estimate.together.query_answer import QueryAnswer, QueryResults
    from ..foundation.result_table import ResultTable
    from ..people.beliefs import Beliefs
    from ..people.prior import Prior
    from ..planner.advice import Advice
    from ..plot.style import Axes
    from .plan import Plan
    from .tally import Tally

__all__ = ["PlanDoor", "TallyDoor"]


class PlanDoor(ShownResult):
    """How an analyst begins: choose a plan, or ask for advice."""

    @classmethod
    def choose(
        cls,
        schema: Schema,
        epsilon: Number,
        people: SupportsFloat,
        *,
        ask: str | Sequence[str] = "both",
        held: SupportsFloat | None = None,
        prior: Prior | Beliefs | None = None,
        force: bool = False,
    ) -> Plan:
        """The plan with the least predicted error if ``people`` people answer; see ``advise``.

        ``schema`` has the keys, and the plan promises ``epsilon``. ``ask`` is "both" (frequency and mean
        of every key; only frequency, if the schema was made with ``value=None``), "frequency", "mean",
        "conditional" (every key given every other), a query, or a list of queries. ``held`` is the
        average number of keys that a person holds; ``prior`` is more that is known about people, in its
        place. Without either it is the plan with the smallest worst regret, whatever number of keys
        people hold. If no plan can answer, the error says what it would take; ``force`` returns the best
        one anyway. A warning says if the planner does not expect useful answers from it, or only if
        people hold certain numbers of keys.
        """
        from ..planner.planner import advise

        advice = advise(schema, epsilon, people, ask=ask, held=held, prior=prior, brief=force)
        if not advice.may_answer and not force:
            raise PlanError(advice.why)
        if not advice.answers:
            notice(advice.warning, PlannerWarning)
        return advice.plan

    @classmethod
    def advise(
        cls,
        schema: Schema,
        epsilon: Number,
        people: SupportsFloat,
        *,
        ask: str | Sequence[str] = "both",
        held: SupportsFloat | None = None,
        prior: Prior | Beliefs | None = None,
        brief: bool = False,
    ) -> Advice:
        """Every plan that could be taken with its predicted error, best first, and why.

        ``ask`` is "both" (frequency and mean of every key; only frequency, if the schema was made with
        ``value=None``), "frequency", "mean", "conditional" (every key given every other), a query, or a
        list of queries. ``held`` is the average number of keys that a person holds; ``prior`` says more
        about people, in its place. ``brief`` saves time: if no plan can answer, no larger epsilon is
        searched for.
        """
        from ..planner.planner import advise

        return advise(schema, epsilon, people, ask=ask, held=held, prior=prior, brief=brief)

    @property
    def frame_library(self) -> str | None:  # type: ignore[override]
        """The kind of frame that the schema was made from, which ``to_frame`` returns, too."""
        frame = cast("Plan", self).schema.frame
        return None if frame is None else frame.library

    def columns(self) -> dict[str, list[Any]]:
        """The keys, their ranges, and the share of reports that speak of each."""
        from .descriptions import plan_columns

        return plan_columns(cast("Plan", self))

    def table(self, most: int | None = MOST_SHOWN) -> ResultTable:
        """What the plan promises, a fact in each row."""
        from .descriptions import plan_facts

        return plan_facts(cast("Plan", self))

    def plot(self, ax: Axes | None = None) -> Axes:
        """What a report can reveal: beliefs about a person before and after it."""
        from ..plot.plan_plots import draw_beliefs

        plan = cast("Plan", self)
        return draw_beliefs(float(plan.proven), plan.mechanism_name, ax)


class TallyDoor(ShownResult):
    """What an analyst asks of a tally."""

    def estimate(
        self, estimator: str | None = None, *, level: float = 0.95, after: Sequence[str] = ()
    ) -> Answers:
        """Frequency and mean of every key, each with an interval; see ``keyveil.estimate``.

        ``estimator`` is one of the plan's, by default ``best``; ``level`` is that of the intervals;
        ``after`` names steps of post-processing.
        """
        from ..estimate import estimate

        tally = cast("Tally", self)
        return estimate(tally.plan, tally, estimator, level, after)

    def conditionals(self, estimator: str = "best", *, level: float = 0.95) -> Conditionals:
        """Each key given others: ``matrix``, ``answer``, ``plot``; intervals are at ``level``."""
        from ..estimate.together.conditional import Conditionals

        tally = cast("Tally", self)
        return Conditionals(tally.plan, tally, estimator, level)

    @overload
    def query(
        self, query: Query | str, /, *, estimator: str = ..., level: float = ...
    ) -> QueryAnswer: ...

    @overload
    def query(
        self,
        queries: list[str] | list[Query] | tuple[str | Query, ...],
        /,
        *,
        estimator: str = ...,
        level: float = ...,
    ) -> QueryResults: ...

    @overload
    def query(
        self,
        query: Query | str,
        second: Query | str,
        /,
        *more: Query | str,
        estimator: str = ...,
        level: float = ...,
    ) -> QueryResults: ...

    def query(
        self,
        *queries: Query | str | list[str] | list[Query] | tuple[str | Query, ...],
        estimator: str = "best",
        level: float = 0.95,
    ) -> QueryAnswer | QueryResults:
        """The answer to a query like ``mean(Pepsi | Hamburger, !Fries)``; to several or a list, all."""
        if not queries:
            raise QueryError('give a query, like "mean(Pepsi | Hamburger)"')
        if len(queries) == 1 and isinstance(queries[0], Iterable) and not isinstance(queries[0], str):
            return self.conditionals(estimator, level=level).answers(queries[0])
        answers = self.conditionals(estimator, level=level).answers(cast("Any", queries))
        return answers[0] if len(answers) == 1 else answers

    def rules(
        self,
        *,
        level: float = 0.95,
        keys: Iterable[Hashable] | None = None,
        **options: Unpack[RuleOptions],
    ) -> Rules:
        """Which keys go together, with a bound on false discoveries; options of ``learn.rules``."""
        from ..estimate.learn import rules

        names = None if keys is None else _names(keys)
        return rules(self.conditionals(level=level), keys=names, **options)

    def tree(
        self, target: Hashable, *, level: float = 0.95, **options: Unpack[TreeOptions]
    ) -> DecisionTree:
        """A decision tree that predicts a key; options of ``learn.DecisionTree``."""
        from ..estimate.learn import DecisionTree

        return DecisionTree(_name(target), **options).fit(self.conditionals(level=level))

    def bayes(self, target: Hashable, *, levels: bool = False) -> NaiveBayes:
        """Naive Bayes, which predicts whether a key is held, or with ``levels`` at which level."""
        from ..estimate.learn import NaiveBayes

        return NaiveBayes(_name(target), levels).fit(self.conditionals())

    def chow_liu(self, **options: Unpack[ChowLiuOptions]) -> ChowLiu:
        """The tree of the keys that depend on each other most; options of ``learn.ChowLiu``."""
        from ..estimate.learn import ChowLiu

        return ChowLiu(**options).fit(self.conditionals())

    def cube(
        self, keys: Iterable[Hashable], *, people: SupportsFloat | None = None, level: float = 0.95
    ) -> Cube:
        """Shares of people by the states of a few keys; with ``people``, their numbers, too."""
        from ..estimate.learn import Cube

        return Cube(self.conditionals(level=level), _names(keys), people)

    def columns(self) -> dict[str, list[Any]]:
        """The count of every cell, with the keys that it speaks of."""
        from .descriptions import tally_columns

        return tally_columns(cast("Tally", self))

    def table(self, most: int | None = MOST_SHOWN) -> ResultTable:
        """How many reports there are, and of which plan."""
        from .descriptions import tally_facts

        return tally_facts(cast("Tally", self))

    def plot(self, ax: Axes | None = None) -> Axes:
        """The answers, with their intervals."""
        return self.estimate().plot(ax)


def _names(keys: Iterable[Hashable]) -> list[str]:
    """The names of several keys."""
    if isinstance(keys, str):
        raise QueryError("give a list of keys, also for one key")
    return [_name(key) for key in keys]


def _name(key: Hashable) -> str:
    """The name of a key."""
    return key_name(key) or str(key)
