"""An OLAP cube over a few keys: slice, dice and roll up, every cell with its interval."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from functools import cached_property
from itertools import product
from math import inf, isfinite
from numbers import Real
from typing import TYPE_CHECKING, Any, SupportsFloat

import numpy as np

from ...foundation.arrays import Floats
from ...foundation.errors import QueryError, choices
from ...foundation.shown_result import MOST_SHOWN, ShownResult
from ..answer import Estimate, ratio
from ..together.joint import JointMoments
from .released import KnownStatistic, Released, Source, shown, within
from .showing import interval_columns, table_of

if TYPE_CHECKING:
    from ...foundation.result_table import ResultTable
    from ...plot.style import Axes

Part = str | bool
"""A part of a key: absent, held, or a level by name (low, high). True means held, False absent."""
OF_A_CUBE = (
    "no view holds these keys together, so there is no estimate: intervals cover every share that "
    "agrees with the views, widened for sampling error; the guess is one of them (maximum entropy)"
)
"""What the cells rest on if no view holds all keys."""


class Cube(ShownResult):
    """Shares of people by the states of a few keys, from the law of a view that holds them all.

    All cells come from one law, so sums of cells agree exactly. If no view holds all keys, ``how`` is
    "range". Then a cell has no value, its interval is the identified range (all shares that agree with
    the views, widened for sampling error), and ``guess`` is its share at the law of most entropy.
    ``people`` turns shares into counts.
    """

    def __init__(
        self, conditionals: Source, keys: Iterable[str], people: SupportsFloat | None = None
    ) -> None:
        self._released = Released(conditionals)
        self.frame_library, self.origin = self._released.frame_library, self._released.interval_origin
        if isinstance(keys, str):
            raise QueryError("give a list of keys, also for one key")
        named = tuple(keys)
        if not named or len(set(named)) != len(named):
            raise QueryError("a cube has one key or more, each once")
        self._keys = tuple(self._released.place(key) for key in named)
        if people is not None and (not isinstance(people, Real) or not 0 < float(people) < inf):
            raise QueryError("people is the number of all people, like 100_000")
        self.people = None if people is None else float(people)
        names, states = self._released.names, self._released.states
        every = [(name, np.eye(states)[digit]) for digit, name in enumerate(names)]
        self._axes: dict[int, list[tuple[str, Floats]]] = {place: list(every) for place in self._keys}
        self._cut: dict[int, Floats] = {}
        self._said: dict[int, str] = {}

    @cached_property
    def _known(self) -> KnownStatistic:
        return self._released.law(self._keys)

    @property
    def how(self) -> str:
        """ "view" if a view holds all keys, "range" if none does."""
        return "view" if self._known.how == "view" else "range"

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys that are axes of the cube."""
        return tuple(self._released.schema.keys[place] for place in self._axes)

    def parts(self) -> dict[str, list[str]]:
        """The parts of each key that is an axis."""
        keys = self._released.schema.keys
        return {keys[place]: [words for words, _ in parts] for place, parts in self._axes.items()}

    # -- smaller cubes ---------------------------------------------------------------------------

    def slice(self, parts: Mapping[str, Part] | None = None, /, **more: Part) -> Cube:
        """The cube of the people in a part of a key; the key is no longer an axis."""
        smaller = self._copy()
        for key, part in {**(parts or {}), **more}.items():
            place = self._axis(key)
            words, digits = self._part(part)
            smaller._cut[place], smaller._said[place] = self._inside(place, digits), words
            del smaller._axes[place]
        return smaller

    def dice(self, parts: Mapping[str, Iterable[Part]]) -> Cube:
        """The cube of the people in given parts of keys; the keys stay axes with only those parts."""
        smaller = self._copy()
        for key, wanted in parts.items():
            place = self._axis(key)
            chosen = [
                self._part(part) for part in ([wanted] if isinstance(wanted, str | bool) else wanted)
            ]
            if not chosen:
                raise QueryError(f"name at least one part of {key!r}")
            total = np.sum([digits for _, digits in chosen], axis=0)
            if total.max() > 1:
                raise QueryError(f"the parts of {key!r} overlap; held holds every level")
            smaller._axes[place] = [(words, self._inside(place, digits)) for words, digits in chosen]
        return smaller

    def roll_up(self, key: str, to: str = "all") -> Cube:
        """The cube with the parts of a key summed: to "held" and absent, or to "all" (no axis)."""
        smaller, place = self._copy(), self._axis(key)
        mask = np.sum([digits for _, digits in self._axes[place]], axis=0)
        if to == "all":
            del smaller._axes[place]
            smaller._cut[place] = mask
        elif to == "held":
            parts = [self._part("absent"), self._part("held")]
            smaller._axes[place] = [(w, d * mask) for w, d in parts if (d * mask).any()]
        else:
            raise QueryError(f"a key rolls up to all or held, not {to!r}")
        return smaller

    def _copy(self) -> Cube:
        self._known  # noqa: B018 - computed once, shared by all smaller cubes
        smaller = copy(self)
        smaller._axes, smaller._cut, smaller._said = dict(self._axes), dict(self._cut), dict(self._said)
        return smaller

    def _axis(self, key: str) -> int:
        place = self._released.place(key)
        if place not in self._axes:
            axes = ", ".join(self.keys) or "none"
            raise QueryError(f"{key!r} is no axis of this cube; its axes: {axes}")
        return place

    def _part(self, part: Part) -> tuple[str, Floats]:
        names, states = self._released.names, self._released.states
        if isinstance(part, bool | np.bool_):
            part = "held" if part else "absent"
        if part == "held":
            return "held", (np.arange(states) > 0).astype(np.float64)
        if part not in names:
            known = dict.fromkeys((*names[:1], "held", *names[1:]))
            raise QueryError(f"unknown part {part!r} of a key; {choices(part, known)}")
        return part, np.eye(states)[names.index(part)]

    def _inside(self, place: int, digits: Floats) -> Floats:
        """A part, restricted to the parts of the key that are left."""
        return digits * np.sum([left for _, left in self._axes[place]], axis=0)

    # -- cells -----------------------------------------------------------------------------------

    def cell(self, parts: Mapping[str, Part] | None = None, /, **more: Part) -> Estimate:
        """The share of all people in a cell; keys that are not named are summed over."""
        return self._estimate(self._weights({**(parts or {}), **more}))

    def share(self, parts: Mapping[str, Part] | None = None, /, **more: Part) -> Estimate:
        """The share of a cell of the people in this cube: a ratio with Fieller's interval."""
        above, below = self._weights({**(parts or {}), **more}), self._weights({})
        if self.how == "range":
            return self._released.identified(self._keys, above, below)
        moments = self._released.moments(self._keys, np.stack([above, below], axis=-1))
        raw = ratio(
            moments.values[0],
            moments.values[1],
            moments.covariance,
            moments.reports,
            self._released.level,
        )
        law = self._known.law
        value = (
            float((law * above).sum() / (law * below).sum()) if (law * below).sum() > 0 else raw.value
        )
        return within(raw, 0.0, 1.0, value) if isfinite(value) else raw

    def guess(self, parts: Mapping[str, Part] | None = None, /, **more: Part) -> float:
        """The share of a cell of all people at the law of most entropy.

        It is the value of the cell if a view holds all keys, and else one of many that agree with the
        views.
        """
        return float((self._known.law * self._weights({**(parts or {}), **more})).sum())

    def count(self, parts: Mapping[str, Part] | None = None, /, **more: Part) -> Estimate:
        """The number of people in a cell."""
        if self.people is None:
            raise QueryError("counts need the number of people: Cube(..., people=...)")
        share = self.cell(parts, **more)
        n = self.people
        return Estimate(n * share.value, n * share.stderr, n * share.low, n * share.high, share.reports)

    @property
    def total(self) -> Estimate:
        """The share of all people who are in this cube."""
        return self.cell()

    def cells(self) -> Iterator[tuple[dict[str, str], Estimate]]:
        """Every cell: its part of each key, and its share of all people."""
        names = self._released.schema.keys
        for parts in product(*self._axes.values()):
            digits = {p: d for p, (_, d) in zip(self._axes, parts, strict=True)}
            words = {names[p]: w for p, (w, _) in zip(self._axes, parts, strict=True)}
            yield words, self._estimate(self._filled(digits))

    def _weights(self, parts: Mapping[str, Part]) -> Floats:
        chosen = {self._axis(key): self._part(part)[1] for key, part in parts.items()}
        return self._filled({place: self._inside(place, digits) for place, digits in chosen.items()})

    def _filled(self, chosen: Mapping[int, Floats]) -> Floats:
        """Weights of joint states: 1 in the chosen parts and in earlier slices, 0 elsewhere."""
        weights = np.ones(())
        for place in self._keys:
            if place in chosen:
                digits = chosen[place]
            elif place in self._cut:
                digits = self._cut[place]
            else:
                digits = np.sum([d for _, d in self._axes[place]], axis=0)
            weights = weights[..., None] * digits
        return weights

    def _estimate(self, weights: Floats) -> Estimate:
        if self.how == "range":
            return self._released.identified(self._keys, weights, np.ones_like(weights))
        moments: JointMoments = self._released.moments(self._keys, weights[..., None])
        return self._released.share(float((self._known.law * weights).sum()), moments)

    # -- printing --------------------------------------------------------------------------------

    @property
    def where(self) -> dict[str, str]:
        """The slices of the cube: the part of each sliced key."""
        return {self._released.schema.keys[place]: words for place, words in self._said.items()}

    def document(self) -> dict[str, Any]:
        """The cube as a JSON object: every cell with its share of all people and of this cube.

        ``guess`` is null if a view holds all keys.
        """
        cells = []
        for parts, share in self.cells():
            cell = {
                "parts": parts,
                "share": share.document(),
                "of_slice": self.share(parts).document(),
                "guess": self.guess(parts) if self.how == "range" else None,
            }
            if self.people is not None:
                cell["count"] = self.count(parts).document()
            cells.append(cell)
        return {"keys": list(self.keys), "where": self.where, "how": self.how, "cells": cells}

    def headings_and_rows(self) -> tuple[list[str], list[list[str]]]:
        """The cells as a table of words."""
        more: dict[str, Callable[[dict[str, str]], str]] = {}
        if self.where:
            more["of these"] = lambda words: shown(self.share(words), 4)
        if self.people is not None:
            more["people"] = lambda words: f"{self.count(words):,.0f}"
        if self.how == "range":
            more["guess"] = lambda words: f"{self.guess(words):.4f}"
        rows = [
            [*words.values(), shown(estimate, 4), *(cell(words) for cell in more.values())]
            for words, estimate in self.cells()
        ]
        return [*self.keys, "share", *more], rows

    def table(self, most: int | None = MOST_SHOWN) -> ResultTable:
        """The first cells as a table below the slices, highest level last; ``most=None`` shows all."""
        conditions = [f"{key} is {part}" for key, part in self.where.items()]
        title = f"where {', '.join(conditions)}" if conditions else ""
        notes = [OF_A_CUBE] if self.how == "range" else []
        return table_of(*self.headings_and_rows(), title, notes).first(most, "cells")

    def __repr__(self) -> str:
        return f"Cube({', '.join(self.keys)})"

    def columns(self) -> dict[str, list[Any]]:
        """The cells as columns: their parts, their share of all people and of this cube, their count.

        A key that is called like one of the other columns has "(key)" after its name.
        """
        cells = list(self.cells())
        columns = interval_columns("share", [share for _, share in cells])
        if self.where:
            columns |= interval_columns("of_slice", [self.share(words) for words, _ in cells])
        if self.people is not None:
            columns |= interval_columns("count", [self.count(words) for words, _ in cells])
        if self.how == "range":
            columns["guess"] = [self.guess(words) for words, _ in cells]
        names = {key: f"{key} (key)" if key in columns else key for key in self.keys}
        parts = {name: [words[key] for words, _ in cells] for key, name in names.items()}
        return {**parts, **columns}

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draws one key as bars, two as a heat map and more as bars of all cells; returns the axes."""
        from ...plot.learner_plots import draw_cube

        return draw_cube(self, ax)
