"""Answers from the live counts. Threads compute them, and each is cached until the counts change.

There are two lanes with a thread each. Estimates of single keys take milliseconds and never wait for
answers that take seconds. An answer that is late is refused with a time to ask again.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from math import isfinite
from typing import Any

from ....estimate import estimate, estimators_of
from ....estimate.projection import STEPS
from ....estimate.together.conditional import ESTIMATORS, Conditionals, check_size
from ....estimate.together.query import KINDS, Query
from ....estimate.together.query_answer import QueryAnswer
from ....plan.plan import Plan
from ....plan.tally import Tally
from ....trust.poison import CHOICES, Reach, reach
from ....trust.poison.attack import places_of
from ..process.clock import Clock
from ..process.metrics import Metrics
from ..process.problems import Problem
from ..process.settings import Settings
from ..store import Store
from ..store.collection import Round
from .writer import Writer

REMEMBERED = 64
MOST_QUERIES = 100
MOST_MATRIX = 200
"""Maximum number of keys for a whole matrix and for the effect of fake reports."""
AT_ONCE = 25
"""Number of keys computed between two checks of the deadline."""
MOST_STATES = 3**6
"""Maximum number of joint states of the keys in a query.

Up to here an answer takes seconds; three times as many take a minute. Analysts with the tally can ask
the library for more.
"""


class Deadline:
    """The time until which an answer is wanted. Long computations check it between steps."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock, self._end = clock, clock.elapsed() + seconds

    def check(self) -> None:
        """Refuse the request if its time is over."""
        if self._clock.elapsed() >= self._end:
            raise Problem("late")


class Lane:
    """A thread that computes answers, and the number of requests waiting for it."""

    def __init__(self, name: str) -> None:
        self.pool = ThreadPoolExecutor(1, thread_name_prefix=f"keyveil-{name}")
        self.asked = 0


Work = Callable[[Plan, Tally, Deadline], dict[str, Any]]


class AnswerDesk:
    """Answers to analysts. The event loop only waits, so reports keep coming in."""

    def __init__(
        self, store: Store, writer: Writer, clock: Clock, settings: Settings, metrics: Metrics
    ) -> None:
        self._store, self._writer, self._clock = store, writer, clock
        self._settings, self._metrics = settings, metrics
        self.light, self.heavy = Lane("light"), Lane("heavy")
        self._done: OrderedDict[tuple[Any, ...], dict[str, Any]] = OrderedDict()

    def close(self) -> None:
        """Stop the threads."""
        for lane in (self.light, self.heavy):
            lane.pool.shutdown(wait=False, cancel_futures=True)

    async def tally(self, round_: Round) -> tuple[int, Tally]:
        """A round's version and tally as of the last known commit."""
        book = self._store.has_book(round_)
        if book is None:
            book = await asyncio.to_thread(self._store.book, round_)
        live = self._store.counts_now(round_)
        if live is None:
            await self._writer.call(lambda store: store.load(round_))
            live = self._store.counts_now(round_)
            if live is None:
                raise Problem("unknown", "the round is gone")
        version, counts = live
        return version, Tally(book.plan, counts)

    async def estimates(
        self, round_: Round, estimator: str | None, level: float, after: Sequence[str]
    ) -> dict[str, Any]:
        """Frequency and mean of every key."""

        def work(plan: Plan, tally: Tally, deadline: Deadline) -> dict[str, Any]:
            return estimate(plan, tally, estimator, level, after).document()

        check_level(level)
        for step in after:
            if step not in STEPS:
                raise Problem("invalid", f"unknown post-processing; known: {', '.join(STEPS)}")
        asked = ("estimates", estimator, level, tuple(after))
        # other estimators than a mechanism's first may pass over the tally many times
        return await self._answer(round_, asked, work, self.light if estimator is None else self.heavy)

    async def queries(
        self, round_: Round, texts: Sequence[str], estimator: str, level: float
    ) -> dict[str, Any]:
        """Answers to queries in the library's query language."""
        parsed = parsed_queries(texts)

        def work(plan: Plan, tally: Tally, deadline: Deadline) -> dict[str, Any]:
            check_queries(plan, parsed)
            source = Conditionals(plan, tally, estimator, level)
            return {"answers": [answer.document() for answer in _each(source, parsed, deadline)]}

        _check_conditional(estimator, level)
        return await self._answer(round_, ("queries", tuple(texts), estimator, level), work)

    async def matrix(self, round_: Round, kind: str, estimator: str, level: float) -> dict[str, Any]:
        """A statistic of each key given each other key, as a matrix."""
        if kind not in KINDS:
            raise Problem("invalid", f"unknown statistic; known: {', '.join(KINDS)}")

        def work(plan: Plan, tally: Tally, deadline: Deadline) -> dict[str, Any]:
            keys = plan.schema.keys
            if len(keys) > MOST_MATRIX:
                raise Problem("invalid", f"the matrix is answered up to {MOST_MATRIX} keys: use queries")
            pairs = [Query(kind, k, ((c, True),)) for k in keys for c in keys if k != c]
            source = Conditionals(plan, tally, estimator, level)
            cells = iter([cell.document() for cell in _each(source, pairs, deadline)])
            rows = [[None if k == c else next(cells) for c in keys] for k in keys]
            return {"kind": kind, "keys": list(keys), "matrix": rows}

        _check_conditional(estimator, level)
        return await self._answer(round_, ("matrix", kind, estimator, level), work)

    async def checks(self, round_: Round, false_alarm: float) -> dict[str, Any]:
        """Findings that no honest population explains.

        The latest epoch is compared with all earlier ones.
        """
        split = await asyncio.to_thread(self._store.split_counts, round_)

        def work(plan: Plan, tally: Tally, deadline: Deadline) -> dict[str, Any]:
            from ....trust.health import HealthReport, check_change, health

            report = health(plan, tally, false_alarm=false_alarm)
            if split is not None:
                later, before = Tally(plan, split[1]), Tally(plan, split[2])
                change = check_change(plan, before, later, false_alarm)
                report = HealthReport(tally.reports, (*report.findings, change))
            return {**report.document(), "latest_epoch": None if split is None else split[0]}

        epoch = None if split is None else (split[0], int(split[1].sum()))
        return await self._answer(round_, ("checks", false_alarm, epoch), work)

    async def fakes(
        self, round_: Round, share: float, keys: Sequence[str], views: str | None, level: float
    ) -> dict[str, Any]:
        """The range of each honest answer if at most a ``share`` of the reports is fake.

        Without ``views``, fakes are assumed to draw their views as honest clients do, unless the check
        of views shows otherwise.
        """
        if not 0 <= share < 1:
            raise Problem("invalid", "'share' must lie between 0 and 1, for example 0.01")
        if views not in (None, *CHOICES["views"]):
            raise Problem("invalid", f"'views' is one of {', '.join(CHOICES['views'])}")
        check_level(level)

        def work(plan: Plan, tally: Tally, deadline: Deadline) -> dict[str, Any]:
            from ....trust.health import check_views

            asked = list(keys) or list(plan.schema.keys)
            if len(asked) > MOST_MATRIX:
                raise Problem("invalid", f"at most {MOST_MATRIX} keys at once: name them with 'key'")
            places_of(plan, asked)
            if not tally.reports:
                raise Problem("invalid", "there are no reports yet")
            how = views or ("chosen" if check_views(plan, tally).suspicious else "drawn")
            documents = []
            for first in range(0, len(asked), AT_ONCE):
                deadline.check()
                names = asked[first : first + AT_ONCE]
                reaches = reach(plan, tally, share, names, views=how, level=level)
                documents += [_within(plan, key_reach).document() for key_reach in reaches]
            return {"share": share, "level": level, "views": how, "keys": documents}

        return await self._answer(round_, ("fakes", share, tuple(keys), views, level), work)

    async def answer(self, round_: Round, asked: tuple[Any, ...], work: Work) -> dict[str, Any]:
        """The result of an analysis that another module computes, remembered under ``asked``."""
        return await self._answer(round_, asked, work)

    async def _answer(
        self, round_: Round, asked: tuple[Any, ...], work: Work, lane: Lane | None = None
    ) -> dict[str, Any]:
        lane = self.heavy if lane is None else lane
        version, tally = await self.tally(round_)
        key = (round_.id, version, *asked)
        remembered = self._done.get(key)
        if remembered is not None:
            self._done.move_to_end(key)
            return remembered
        if lane.asked >= self._settings.analyses:
            raise Problem("busy")
        lane.asked += 1
        begun = self._clock.elapsed()
        seconds = self._settings.answer_seconds
        deadline = Deadline(self._clock, seconds)
        try:
            async with asyncio.timeout(seconds):  # work that has not started by then is cancelled
                loop = asyncio.get_running_loop()
                answer = await loop.run_in_executor(lane.pool, work, tally.plan, tally, deadline)
        except TimeoutError:
            raise Problem("late") from None
        finally:
            lane.asked -= 1
        self._metrics.estimates.add(self._clock.elapsed() - begun)
        result = {**tally_facts(round_, tally, version), **answer}
        self._done[key] = result
        while len(self._done) > REMEMBERED:
            self._done.popitem(last=False)
        return result

    def offers(self, plan: Plan) -> dict[str, list[str]]:
        """The statistics that a plan answers for each key, and its estimators."""
        return {"answers": list(plan.mechanism.answers), "estimators": list(estimators_of(plan))}


def tally_facts(round_: Round, tally: Tally, version: int) -> dict[str, Any]:
    """What every answer says about the tally that it is made from."""
    facts = {"round": round_.number, "plan": round_.plan}
    return {**facts, "reports": tally.reports, "version": version}


def _each(source: Conditionals, queries: Sequence[Query], deadline: Deadline) -> list[QueryAnswer]:
    """The answers to many queries, computed until the deadline."""
    source.prepare(queries)
    answers = []
    for query in queries:
        deadline.check()
        answers.append(source.answer(query))
    return answers


def _within(plan: Plan, key_reach: Reach) -> Reach:
    """The ranges cut to what is possible: frequencies to [0, 1], means to the range of values."""
    place = plan.schema.place(key_reach.key)
    low, high = float(plan.schema.low[place]), float(plan.schema.high[place])
    return replace(
        key_reach,
        frequency=_held(key_reach.frequency, 0.0, 1.0),
        mean=_held(key_reach.mean, low, high),
        mass=_held(key_reach.mass, -1.0, 1.0),
    )


def _held(ends: tuple[float, float] | None, low: float, high: float) -> tuple[float, float] | None:
    if ends is None or not all(map(isfinite, ends)):
        return ends  # unknown
    return min(max(ends[0], low), high), min(max(ends[1], low), high)


def parsed_queries(texts: Sequence[str]) -> list[Query]:
    """The queries of one request; too many are refused."""
    if not texts:
        raise Problem("invalid", "the query is missing: send ?q=mean(KEY), with a key of the plan")
    if len(texts) > MOST_QUERIES:
        raise Problem("invalid", f"send 1 to {MOST_QUERIES} queries at once")
    return [Query.parse(text) for text in texts]


def check_queries(plan: Plan, queries: Sequence[Query]) -> None:
    """Refuse queries about keys that the plan does not have, or about too many keys together."""
    for query in queries:
        query.places(plan.schema)
        check_size(plan.schema, query, MOST_STATES)


def check_level(level: float) -> float:
    """The level of intervals, if there is one like it."""
    if not 0 < level < 1:
        raise Problem("invalid", "'level' must lie between 0 and 1, for example 0.95")
    return level


def _check_conditional(estimator: str, level: float) -> None:
    check_level(level)
    if estimator not in ESTIMATORS:
        raise Problem("invalid", f"unknown estimator; known: {', '.join(ESTIMATORS)}")
