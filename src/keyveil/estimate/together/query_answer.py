"""Answers to queries: one, several, or every key given every other; as tables, frames and pictures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import inf, isnan
from typing import TYPE_CHECKING, Any, overload

from ...foundation.errors import QueryError
from ...foundation.result_table import ResultTable, figure, interval_cell
from ...foundation.shown_result import MOST_SHOWN, ShownResult
from ..answer import Estimate
from .query import Query

if TYPE_CHECKING:
    from ...foundation.frame_output import Kinds
    from ...plot.style import Axes

RANGES = {"frequency": (0.0, 1.0), "mean": (-1.0, 1.0), "lift": (0.0, inf)}
"""Range of each statistic, means on the [-1, 1] scale."""
SIGNS = {None: "", True: "yes", False: "no sign"}
"""Whether the tally shows that keys go together, in words."""
RANGE_NOTE = (
    "range: no view of this plan holds these keys together; the interval covers every value that agrees "
    "with the views"
)
GUESS_NOTE = "guess: one of the values in the range (maximum entropy); only the range bounds its error"
NO_SIGN_NOTE = "no sign: the tally does not show that these go together"
MATRIX_KEYS = 12
"""Number of keys of a matrix that are shown as a table."""
ANSWER_KINDS: Kinds = {
    **dict.fromkeys(("query", "statistic", "target", "given", "how", "estimator"), str),
    "go_together": bool,
    "reports": int,
}
"""The types of columns of answers, of which there may be none."""


@dataclass(frozen=True, repr=False)
class QueryAnswer(ShownResult):
    """A query, its estimate, and how the estimate was obtained."""

    column_kinds = ANSWER_KINDS

    query: Query
    estimate: Estimate
    how: str
    """ "view" if a view holds all keys of the query. "range" if none does: the value is NaN, and the
    interval is the identified range, all values that agree with the views, widened for sampling error.
    "nothing" if one of the keys has no reports."""
    guess: float | None = None
    """For a range: the value at the law of most entropy, one of many that agree with the views. It has
    no error bound. None if only single keys are known, or if nobody meets the condition at that law."""
    estimator: str = ""
    """Name of the estimator of the value."""
    shown: bool | None = None
    """Whether the tally shows that the answer differs from that without the conditions. None if that
    was not tested."""
    raw: Estimate | None = None
    """The unbiased estimate, if the value is another one."""
    ends: tuple[float, float] | None = field(default=None, compare=False)
    """The range of all values, if keys share it: where a mean can be."""
    frame_library: str | None = field(default=None, compare=False)
    """The kind of frame that the data came from, which ``to_frame`` returns, too."""

    @property
    def point(self) -> float:
        """The guess if there is one, otherwise the value of the estimate, which may be NaN."""
        return self.estimate.value if self.guess is None else self.guess

    def document(self) -> dict[str, Any]:
        """The answer as a JSON object; the value is null for a range, the guess for all others."""
        return {
            "query": str(self.query),
            "how": self.how,
            **self.estimate.document(),
            "guess": self.guess,
            "estimator": self.estimator,
            "shown": self.shown,
            "raw": None if self.raw is None else self.raw.document(),
        }

    @property
    def value(self) -> float:
        """The value of the estimate; NaN for a range."""
        return self.estimate.value

    @property
    def interval(self) -> tuple[float, float]:
        """The ends of the interval."""
        return self.estimate.interval

    def __float__(self) -> float:
        return self.estimate.value

    def __getitem__(self, place: int) -> QueryAnswer:
        """The answer itself at 0, so that one query is read like several."""
        if place not in (0, -1):
            raise IndexError("there is one answer; its place is 0")
        return self

    def __format__(self, spec: str) -> str:
        """The value and its interval, each number in the format; without one, the table."""
        return format(self.estimate, spec) if spec else str(self)

    def columns(self) -> dict[str, list[Any]]:
        """One row: the columns of ``QueryResults``."""
        return QueryResults([self]).columns()

    def table(self, most: int | None = MOST_SHOWN) -> ResultTable:
        """The answer as a table of one row, and what it rests on."""
        return QueryResults([self]).table(most)

    def plot(self, ax: Axes | None = None) -> Axes:
        """The answer with its interval."""
        return QueryResults([self]).plot(ax)


class QueryResults(ShownResult, Sequence[QueryAnswer]):
    """Answers to several queries, in their order."""

    column_kinds = ANSWER_KINDS

    def __init__(self, answers: Iterable[QueryAnswer]) -> None:
        self._answers = tuple(answers)
        self.frame_library = self._answers[0].frame_library if self._answers else None

    @overload
    def __getitem__(self, place: int) -> QueryAnswer: ...

    @overload
    def __getitem__(self, place: slice) -> QueryResults: ...

    def __getitem__(self, place: int | slice) -> QueryAnswer | QueryResults:
        if isinstance(place, slice):
            return QueryResults(self._answers[place])
        return self._answers[place]

    def __len__(self) -> int:
        return len(self._answers)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def columns(self) -> dict[str, list[Any]]:
        """A row for each query: value, standard error, interval, and what they rest on."""
        return {"query": [str(answer.query) for answer in self], **answer_columns(self)}

    def table(self, most: int | None = MOST_SHOWN) -> ResultTable:
        """The answers as a table, with notes that explain it."""
        headings = ["query", "value", "interval"]
        rows = [
            [str(a.query), _value(a.estimate), interval_cell(a.estimate.low, a.estimate.high)]
            for a in self
        ]
        if any(answer.shown is not None for answer in self):
            headings.append("go together")
            rows = [[*row, SIGNS[a.shown]] for row, a in zip(rows, self, strict=True)]
        if any(answer.guess is not None for answer in self):
            headings.append("guess")
            guesses = ["" if a.guess is None else figure(a.guess) for a in self]
            rows = [[*row, guess] for row, guess in zip(rows, guesses, strict=True)]
        notes = [NO_SIGN_NOTE] if any(answer.shown is False for answer in self) else []
        notes += [RANGE_NOTE] if any(answer.how == "range" for answer in self) else []
        notes += [GUESS_NOTE] if any(answer.guess is not None for answer in self) else []
        notes += _named(self)
        table = ResultTable(tuple(headings), tuple(map(tuple, rows)), notes=tuple(notes))
        return table.first(most, "queries")

    def plot(self, ax: Axes | None = None, of: str | None = None) -> Axes:
        """The answers with their intervals, a panel for each statistic, or only ``of`` one.

        On ``ax`` one statistic is drawn. Without ``of`` it is that of the first query; if there are
        others, the title says so.
        """
        from ...plot.answer_plots import plot_queries

        kinds = list(dict.fromkeys(answer.query.kind for answer in self))
        if of is not None and of not in kinds:
            raise QueryError(f"no query asks for {of!r}; they ask for {', '.join(kinds)}")
        drawn = [answer for answer in self if of in (None, answer.query.kind)]
        ends = {answer.ends for answer in drawn}
        shared = ends.pop() if len(ends) == 1 else None
        return plot_queries(drawn, {**RANGES, "mean": shared or (-inf, inf)}, ax)


class ConditionalMatrix(ShownResult, Sequence[list[QueryAnswer | None]]):
    """One statistic of every key given every other: row k, column c; None on the diagonal."""

    column_kinds = ANSWER_KINDS

    def __init__(
        self,
        keys: tuple[str, ...],
        kind: str,
        rows: list[list[QueryAnswer | None]],
        level: float,
        ends: tuple[float, float] | None = None,
        frame_library: str | None = None,
        origin: str = "",
    ) -> None:
        self.origin = origin
        self.keys, self.kind, self.level, self._rows, self._ends = keys, kind, level, rows, ends
        self.frame_library = frame_library

    @overload
    def __getitem__(self, place: int) -> list[QueryAnswer | None]: ...

    @overload
    def __getitem__(self, place: slice) -> list[list[QueryAnswer | None]]: ...

    def __getitem__(self, place: int | slice) -> Any:
        return self._rows[place]

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def answers(self) -> list[QueryAnswer]:
        """The cells off the diagonal, row by row."""
        return [cell for row in self._rows for cell in row if cell is not None]

    def columns(self) -> dict[str, list[Any]]:
        """A row for each target and condition: value, standard error, interval."""
        answers = self.answers
        return {
            "statistic": [self.kind] * len(answers),
            "target": [answer.query.target for answer in answers],
            "given": [answer.query.given[0][0] for answer in answers],
            **answer_columns(answers),
        }

    def table(self, most: int | None = MOST_SHOWN) -> ResultTable:
        """The first keys as a table; a tilde marks a cell without a sign that its keys go together."""
        shown = self.keys if most is None else self.keys[: min(most, MATRIX_KEYS)]
        rows = [
            (key, *("" if cell is None else _cell(cell) for cell in row[: len(shown)]))
            for key, row in zip(shown, self._rows, strict=False)
        ]
        notes = []
        if any(answer.shown is False for answer in self.answers):
            notes.append(f"~ {NO_SIGN_NOTE}")
        if len(shown) < len(self.keys):
            notes.append(f"the first {len(shown)} of {len(self.keys)} keys; to_frame() has them all")
        notes += _named(self.answers)
        title = (
            f"{self.kind} of the row's key given the column's, with half its {self.level:.0%} interval"
        )
        return ResultTable(("", *shown), tuple(rows), title, tuple(notes))

    def plot(self, ax: Axes | None = None) -> Axes:
        """A heat map; uncertain cells are hatched, unknown ones grey."""
        from ...plot.answer_plots import plot_matrix

        return plot_matrix(self.keys, self, None, self.kind, ends=self._ends, ax=ax)


def answer_columns(answers: Iterable[QueryAnswer]) -> dict[str, list[Any]]:
    """The columns that all answers to queries have."""
    listed = list(answers)
    return {
        "value": [answer.estimate.value for answer in listed],
        "stderr": [answer.estimate.stderr for answer in listed],
        "low": [answer.estimate.low for answer in listed],
        "high": [answer.estimate.high for answer in listed],
        "raw": [(answer.raw or answer.estimate).value for answer in listed],
        "go_together": [answer.shown for answer in listed],
        "guess": [answer.guess for answer in listed],
        "how": [answer.how for answer in listed],
        "estimator": [answer.estimator for answer in listed],
        "reports": [answer.estimate.reports for answer in listed],
    }


def _named(answers: Iterable[QueryAnswer]) -> list[str]:
    """The names of the estimators as a note; none if no answer has one."""
    names = dict.fromkeys(answer.estimator for answer in answers if answer.estimator)
    return [f"estimator: {', '.join(names)}"] if names else []


def _value(estimate: Estimate) -> str:
    """The value; empty for a range."""
    return "" if isnan(estimate.value) else figure(estimate.value)


def _cell(answer: QueryAnswer) -> str:
    """A value with half its interval, or a range."""
    estimate, sign = answer.estimate, " ~" if answer.shown is False else ""
    if isnan(estimate.value):
        return interval_cell(estimate.low, estimate.high)
    if not estimate.bounded:
        return f"{estimate.value:.3f} ±∞{sign}"
    return f"{estimate.value:.3f} ±{(estimate.high - estimate.low) / 2:.3f}{sign}"
