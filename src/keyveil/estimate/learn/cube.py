"""An OLAP cube over a few keys: slice, dice and roll up, every cell with its interval."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from dataclasses import replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from ...foundation.arrays import Floats
from ...foundation.errors import QueryError
from ..answer import Estimate, ratio
from ..together.joint import JointMoments
from .released import KnownStatistic, Released, Source, shown

Part = str | bool
"""Part of a key: absent, held, or a level by name (low, high); True and False for held and absent."""


class Cube:
    """Shares of people by the states of some keys, from the law of a view that holds them all.

    All cells come from one law, so sums over them agree exactly. If no view holds all keys, ``how`` is
    "range": a cell has no value, its interval is the identified range (all shares that agree with the
    views, widened for sampling error), and ``guess`` is its share at the law of most entropy.
    ``people`` turns shares into counts.
    """

    def __init__(self, conditionals: Source, keys: Iterable[str], people: int | None = None) -> None:
        self._released = Released(conditionals)
        named = tuple(keys)
        if not named or len(set(named)) != len(named):
            raise QueryError("a cube has one key or more, each once")
        self._keys = tuple(self._released.place(key) for key in named)
        self.people = people
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
        """ "view" if some view holds all keys, "range" if none does."""
        return "view" if self._known.how == "view" else "range"

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys that cells are still told apart by."""
        return tuple(self._released.schema.keys[place] for place in self._axes)

    # -- smaller cubes ---------------------------------------------------------------------------

    def slice(self, parts: Mapping[str, Part] | None = None, /, **more: Part) -> Cube:
        """The people in one part of a key; the key is no longer an axis."""
        made = self._copy()
        for key, part in {**(parts or {}), **more}.items():
            place = self._axis(key)
            words, digits = self._part(part)
            made._cut[place], made._said[place] = self._inside(place, digits), words
            del made._axes[place]
        return made

    def dice(self, parts: Mapping[str, Iterable[Part]]) -> Cube:
        """The people in some parts of some keys, which stay axes with just those parts."""
        made = self._copy()
        for key, some in parts.items():
            place = self._axis(key)
            chosen = [self._part(part) for part in ([some] if isinstance(some, str | bool) else some)]
            if not chosen:
                raise QueryError(f"name at least one part of {key!r}")
            total = np.sum([digits for _, digits in chosen], axis=0)
            if total.max() > 1:
                raise QueryError(f"the parts of {key!r} overlap; held holds every level")
            made._axes[place] = [(words, self._inside(place, digits)) for words, digits in chosen]
        return made

    def roll_up(self, key: str, to: str = "all") -> Cube:
        """Sum over a key's parts: to "held" or absent, or to "all", when it is no longer an axis."""
        made, place = self._copy(), self._axis(key)
        whole = np.sum([digits for _, digits in self._axes[place]], axis=0)
        if to == "all":
            del made._axes[place]
            made._cut[place] = whole
        elif to == "held":
            parts = [self._part("absent"), self._part("held")]
            made._axes[place] = [(w, d * whole) for w, d in parts if (d * whole).any()]
        else:
            raise QueryError(f"a key rolls up to all or held, not {to!r}")
        return made

    def _copy(self) -> Cube:
        self._known  # noqa: B018 - computed once, shared by all smaller cubes
        made = copy(self)
        made._axes, made._cut, made._said = dict(self._axes), dict(self._cut), dict(self._said)
        return made

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
            raise QueryError(f"unknown part {part!r} of a key; known: {', '.join(known)}")
        return part, np.eye(states)[names.index(part)]

    def _inside(self, place: int, digits: Floats) -> Floats:
        """A part, within what dicing has left of the key."""
        return digits * np.sum([left for _, left in self._axes[place]], axis=0)

    # -- cells -----------------------------------------------------------------------------------

    def cell(self, parts: Mapping[str, Part] | None = None, /, **more: Part) -> Estimate:
        """The share of all people in a cell; keys that are not named are summed over."""
        return self._estimate(self._weights({**(parts or {}), **more}))

    def share(self, parts: Mapping[str, Part] | None = None, /, **more: Part) -> Estimate:
        """A cell's share of this cube's people, not of all: a ratio with Fieller's interval."""
        above, below = self._weights({**(parts or {}), **more}), self._weights({})
        if self.how == "range":
            return self._released.identified(self._keys, above, below)
        found = self._released.moments(self._keys, np.stack([above, below], axis=-1))
        made = ratio(
            found.values[0], found.values[1], found.covariance, found.reports, self._released.level
        )
        law = self._known.law
        value = (
            float((law * above).sum() / (law * below).sum()) if (law * below).sum() > 0 else made.value
        )
        if not made.bounded:
            return replace(made, value=value)
        low, high = (min(max(end, 0.0), 1.0) for end in (made.low, made.high))
        return Estimate(value, made.stderr, min(low, value), max(high, value), made.reports)

    def guess(self, parts: Mapping[str, Part] | None = None, /, **more: Part) -> float:
        """A cell's share of all people at the law of most entropy.

        It is the cell's value if a view holds all keys, and else one of many that agree with the views.
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
        """Every cell: which part of each key, and the share of all people in it."""
        names = self._released.schema.keys
        for some in product(*self._axes.values()):
            digits = {p: d for p, (_, d) in zip(self._axes, some, strict=True)}
            words = {names[p]: w for p, (w, _) in zip(self._axes, some, strict=True)}
            yield words, self._estimate(self._filled(digits))

    def _weights(self, parts: Mapping[str, Part]) -> Floats:
        chosen = {self._axis(key): self._part(part)[1] for key, part in parts.items()}
        return self._filled({place: self._inside(place, digits) for place, digits in chosen.items()})

    def _filled(self, chosen: Mapping[int, Floats]) -> Floats:
        """1 for every joint state in the chosen parts and in what was cut before."""
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
        found: JointMoments = self._released.moments(self._keys, weights[..., None])
        return self._released.share(float((self._known.law * weights).sum()), found)

    # -- printing --------------------------------------------------------------------------------

    @property
    def where(self) -> dict[str, str]:
        """What was sliced off: which part of each key the cube's people are in."""
        return {self._released.schema.keys[place]: words for place, words in self._said.items()}

    def document(self) -> dict[str, Any]:
        """As JSON: every cell with its share of all people, and of the people in this cube.

        ``guess`` is null where a view holds all keys.
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

    def table(self) -> str:
        """The cells as lines of text, largest digit last, under what was sliced off."""
        guessed = self.how == "range"
        rows = [
            (*words.values(), shown(estimate, 4), *([f"{self.guess(words):.4f}"] if guessed else []))
            for words, estimate in self.cells()
        ]
        head = (*self.keys, "share", *(["guess"] if guessed else []))
        widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
        lines = [
            "  ".join(cell.ljust(w) for cell, w in zip(r, widths, strict=True)).rstrip()
            for r in (head, *rows)
        ]
        said = [f"{key} {words}" for key, words in self.where.items()]
        notes = [f"where {', '.join(said)}"] if said else []
        return "\n".join([*notes, *lines])
