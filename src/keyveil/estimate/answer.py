"""Estimate: a value with its standard error and interval. Answers: the estimates of every key."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf, isfinite, isnan, nan
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from ..foundation.arrays import Floats, Integers
from ..foundation.errors import PlanError, UnknownKeyError, nearest
from ..foundation.key_names import key_name
from ..foundation.shown_result import MOST_SHOWN, ShownResult
from ..people.schema import unknown_key

if TYPE_CHECKING:
    from ..foundation.result_table import ResultTable
    from ..plot.style import Axes

_FORMAT = re.compile(r"((?:.?[<>^])?(?:[1-9]\d*)?)(.*)", re.DOTALL)
"""Fill, alignment and width; and what is left: the format of each number."""


@dataclass(frozen=True)
class Estimate:
    """A value, its standard error, and an interval that contains the truth at the stated level.

    An interval from minus to plus infinity means that the data do not determine the value. Ends of NaN
    mean that the estimator is biased and gives no interval. A value of NaN means that the data
    determine only a range.
    """

    value: float
    stderr: float
    low: float
    high: float
    reports: int

    def __post_init__(self) -> None:
        for name in ("value", "stderr", "low", "high"):
            object.__setattr__(self, name, float(getattr(self, name)))

    @property
    def bounded(self) -> bool:
        """Whether both ends of the interval are finite."""
        return isfinite(self.low) and isfinite(self.high)

    @property
    def interval(self) -> tuple[float, float]:
        """The ends of the interval."""
        return self.low, self.high

    def __float__(self) -> float:
        return self.value

    def __format__(self, spec: str) -> str:
        """The value and its interval, each number in the format: ``f"{e:.2f}"`` is 0.61 [0.59, 0.63].

        Fill, alignment and width are those of the whole text.
        """
        from ..foundation.result_table import interval_cell

        around, spec = _FORMAT.fullmatch(spec).groups()  # type: ignore[union-attr]
        if not spec:
            return format(str(self), around)
        value = "" if isnan(self.value) else format(self.value, spec)
        if self.bounded:
            ends = f"[{format(self.low, spec)}, {format(self.high, spec)}]"
        else:
            ends = "" if isnan(self.low) else interval_cell(self.low, self.high)
        return format(f"{value} {ends}".strip() or "unknown", around)

    def __str__(self) -> str:
        from ..foundation.result_table import figure, interval_cell

        value = "" if isnan(self.value) else figure(self.value)
        ends = "" if isnan(self.low) else interval_cell(self.low, self.high)
        return f"{value} {ends}".strip() or "unknown"

    def document(self) -> dict[str, Any]:
        """The estimate as a JSON object; null for what is unknown or unbounded."""
        interval = "bounded" if self.bounded else "none" if isnan(self.low) else "unbounded"
        return {
            "value": _number(self.value),
            "stderr": _number(self.stderr),
            "low": _number(self.low),
            "high": _number(self.high),
            "interval": interval,
            "reports": self.reports,
        }


@dataclass(frozen=True, repr=False)
class KeyAnswer(ShownResult):
    """The estimates for one key; None for what the mechanism cannot answer."""

    key: str
    frequency: Estimate | None = None
    """The share of people who hold the key."""
    mean: Estimate | None = None
    """The mean value among the people who hold the key, on the key's own scale."""
    mass: Estimate | None = None
    """Frequency times mean on the [-1, 1] scale: the mean over all people, 0 for an absent key."""
    raw: KeyAnswer | None = None
    """The unbiased answers of this key alone, if these are others."""
    estimator: str = field(default="", compare=False)
    """Name of the estimator of the answer."""
    frame_library: str | None = field(default=None, compare=False)
    """The kind of frame that the data came from, which ``to_frame`` returns, too."""

    def columns(self) -> dict[str, list[Any]]:
        """One row: the columns of ``Answers``."""
        from .answer_table import key_columns

        return key_columns((self,))

    def table(self, most: int | None = MOST_SHOWN) -> ResultTable:
        """The answer as a table of one row."""
        from .answer_table import key_table

        notes = (f"estimator: {self.estimator}",) if self.estimator else ()
        return replace(key_table((self,), "interval"), notes=notes)

    def plot(self, ax: Axes | None = None, of: str | None = None) -> Axes:
        """The answer and its intervals; see ``Answers.plot``."""
        from ..plot.answer_plots import plot_answers
        from ..plot.style import short

        both = "\nIts share of people, and how they value it" if of is None and ax is None else ""
        return plot_answers(
            Answers((self,), self.key, "", 0.95), ax=ax, of=of, title=short(self.key) + both
        )

    def __repr__(self) -> str:
        parts = {"frequency": self.frequency, "mean": self.mean, "mass": self.mass}
        known = "".join(f", {name} {part}" for name, part in parts.items() if part is not None)
        return f"KeyAnswer({self.key!r}{known})"

    def document(self) -> dict[str, Any]:
        """The answer as a JSON object."""
        parts = {"frequency": self.frequency, "mean": self.mean, "mass": self.mass}
        body: dict[str, Any] = {"key": self.key}
        body.update({n: None if e is None else e.document() for n, e in parts.items()})
        if self.raw is not None:
            own = self.raw.document()
            body["raw"] = {name: own[name] for name in parts}
        return body


@dataclass(frozen=True, repr=False)
class Answers(ShownResult):
    """The answers from one tally, key by key, and how they were computed."""

    keys: tuple[KeyAnswer, ...]
    mechanism: str
    estimator: str
    level: float
    note: str = ""
    after: tuple[str, ...] = ()
    """Names of the post-processing steps, in the order in which they were applied."""
    value_range: tuple[float, float] | None = field(default=None, compare=False)
    """The range of all values, if keys share it: where means can be."""
    origin: str = field(default="", compare=False)
    """What the answers rest on, for titles: reports, epsilon and mechanism."""
    frame_library: str | None = field(default=None, compare=False)
    """The kind of frame that the data came from, which ``to_frame`` returns, too."""

    def __post_init__(self) -> None:
        named, library = self.estimator, self.frame_library
        if any((a.estimator, a.frame_library) != (named, library) for a in self.keys):
            keys = tuple(replace(a, estimator=named, frame_library=library) for a in self.keys)
            object.__setattr__(self, "keys", keys)

    @cached_property
    def _by_name(self) -> dict[str, KeyAnswer]:
        return {answer.key: answer for answer in self.keys}

    def __getitem__(self, key: Hashable) -> KeyAnswer:
        name = key_name(key)
        if name is None or name not in self._by_name:
            near = name is not None and nearest(name, self._by_name) is not None
            if isinstance(key, int | slice) and not near:
                raise UnknownKeyError("answers are found by key; list(answers) has them in order")
            raise unknown_key(key, self._by_name)
        return self._by_name[name]

    def __contains__(self, key: object) -> bool:
        """Whether a key has answers."""
        return key in self.keys if isinstance(key, KeyAnswer) else key_name(key) in self._by_name

    def __iter__(self) -> Iterator[KeyAnswer]:
        return iter(self.keys)

    def __len__(self) -> int:
        return len(self.keys)

    def columns(self) -> dict[str, list[Any]]:
        """A row for each key: of every statistic the value, standard error, interval and raw value.

        The last columns are the number of reports and the name of the estimator.
        """
        from .answer_table import key_columns

        return key_columns(self.keys)

    def table(self, most: int | None = MOST_SHOWN) -> ResultTable:
        """The first answers as a table; ``most=None`` shows all."""
        from .answer_table import key_table

        table = key_table(self.keys, f"{self.level:.0%} interval").first(most, "keys")
        by = f"estimator: {self.estimator}" + (f"; {self.note}" if self.note else "")
        size = f"{len(self.keys):,} key{'' if len(self.keys) == 1 else 's'}"
        return replace(table, title=f"{self.mechanism}, {size}", notes=(*table.notes, by))

    def plot(self, ax: Axes | None = None, of: str | None = None) -> Axes:
        """Values with their intervals; a panel for each statistic, or only ``of`` one, such as "mean".

        On ``ax`` one statistic is drawn. The axes are returned, the first if there are several.
        """
        from ..plot.answer_plots import plot_answers

        return plot_answers(self, ax=ax, of=of)

    def document(self) -> dict[str, Any]:
        """The answers as a JSON object."""
        return {
            "mechanism": self.mechanism,
            "estimator": self.estimator,
            "level": self.level,
            "after": list(self.after),
            "note": self.note,
            "keys": [answer.document() for answer in self.keys],
        }

    def replaced(self, keys: tuple[KeyAnswer, ...], step: str) -> Answers:
        """The same answers after one more step of post-processing."""
        return replace(self, keys=keys, after=(*self.after, step))


def quantile(level: float) -> float:
    """Half the width of a normal interval at a level, in standard errors."""
    if (
        not isinstance(level, Real) or not 1e-9 <= level <= 1 - 1e-9
    ):  # closer to an end a double cannot hold the result
        raise PlanError("a level lies between 0 and 1, like 0.95")
    from statistics import NormalDist  # an import of the package does not need it

    return NormalDist().inv_cdf(0.5 + level / 2)


@dataclass(frozen=True)
class Band:
    """Estimates as arrays of one shape: values, standard errors and both ends of the intervals."""

    value: Floats
    stderr: Floats
    low: Floats
    high: Floats

    @classmethod
    def plain(cls, value: Floats, variance: Floats, reports: Integers, level: float) -> Band:
        """Unbiased estimates with normal intervals; without reports the value is NaN."""
        unknown = (np.asarray(reports) == 0) | np.isnan(value)
        value = np.where(unknown, nan, value)
        stderr = np.where(unknown, inf, np.sqrt(np.maximum(variance, 0.0)))
        reach = quantile(level) * stderr
        low, high = np.where(unknown, -inf, value - reach), np.where(unknown, inf, value + reach)
        return cls(value, stderr, low, high)

    @classmethod
    def ratio(
        cls, above: Floats, below: Floats, covariance: Floats, reports: Integers, level: float
    ) -> Band:
        """``above / below`` with Fieller's intervals.

        An interval is unbounded unless ``below`` is significantly above zero. ``covariance`` is that of
        the two, ``(..., 2, 2)``.
        """
        reach = quantile(level)
        va, cov, vb = covariance[..., 0, 0], covariance[..., 0, 1], covariance[..., 1, 1]
        with np.errstate(divide="ignore", invalid="ignore"):
            nothing = (np.asarray(reports) == 0) | ~(below > 0)
            value = np.where(nothing, nan, above / below)
            square = below * below - reach**2 * vb
            unknown = nothing | (square <= 0)
            middle = above * below - reach**2 * cov
            root = middle * middle - square * (above * above - reach**2 * va)
            half = np.sqrt(np.maximum(root, 0.0))
            spread = np.maximum(va - 2 * value * cov + value * value * vb, 0.0)
            stderr = np.where(unknown, inf, np.sqrt(spread) / below)
            low = np.where(unknown, -inf, (middle - half) / square)
            high = np.where(unknown, inf, (middle + half) / square)
        return cls(value, stderr, low, high)

    def estimate(self, place: Any, reports: int) -> Estimate:
        """The estimate at one place."""
        return Estimate(
            self.value[place], self.stderr[place], self.low[place], self.high[place], reports
        )


@dataclass(frozen=True)
class KeyBands:
    """The estimates of every key on the [-1, 1] scale, as arrays ``(..., keys)``.

    Leading axes are tallies estimated at once, such as the repetitions of a simulation. None stands for
    what the mechanism cannot answer.
    """

    reports: Integers
    frequency: Band | None = None
    mean: Band | None = None
    mass: Band | None = None


def plain(value: float, variance: float, reports: int, level: float) -> Estimate:
    """An unbiased estimate with a normal interval; without reports its value is NaN."""
    band = Band.plain(np.asarray(value), np.asarray(variance), np.asarray(reports), level)
    return band.estimate((), reports)


def ratio(above: float, below: float, covariance: Floats, reports: int, level: float) -> Estimate:
    """``above / below`` with Fieller's interval.

    The interval is unbounded unless ``below`` is significantly above zero.
    """
    band = Band.ratio(np.asarray(above), np.asarray(below), covariance, np.asarray(reports), level)
    return band.estimate((), reports)


def as_wide_as_interval(estimate: Estimate, level: float) -> Estimate:
    """The estimate of a shrunk value with a standard error that agrees with its interval.

    The posterior standard deviation is right on average over all keys. The interval is right for its own
    key and may be wider, so the standard error is at least its width in standard errors.
    """
    if not estimate.bounded:
        return estimate
    half = (estimate.high - estimate.low) / (2 * quantile(level))
    return replace(estimate, stderr=max(estimate.stderr, half))


def biased(value: float, reports: int) -> Estimate:
    """A value without standard error and interval, from a biased estimator."""
    return Estimate(value, nan, nan, nan, reports)


def shifted(estimate: Estimate, low: float, high: float) -> Estimate:
    """Converts an estimate on [-1, 1] to the scale from ``low`` to ``high``."""
    half = (high - low) / 2

    def place(x: float) -> float:
        return low + (x + 1.0) * half if isfinite(x) else x

    return Estimate(
        place(estimate.value),
        estimate.stderr * half,
        place(estimate.low),
        place(estimate.high),
        estimate.reports,
    )


def _number(value: float) -> float | None:
    return float(value) if isfinite(value) else None
