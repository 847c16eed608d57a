"""Views: the small sets of keys that one report may speak of, each with a public weight."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain, product
from typing import Any

import numpy as np

from ..foundation.arrays import WORD, Integers, Words
from ..foundation.errors import PlanError
from ..foundation.slot_guide import slot_guide

MOST_VIEWS = 1 << 20
_MOST_BITS = 16
"""Maximum number of bits of a word that say where the search for its view begins."""


@lru_cache(maxsize=16)
def digits(levels: int, keys: int) -> Integers:
    """The digits of every state of a view, a row each, read-only: 0 not held, then the levels.

    The first key comes first and is the most significant digit.
    """
    rows = np.array(list(product(range(levels + 1), repeat=keys)), np.int64).reshape(-1, keys)
    rows.flags.writeable = False
    return rows


@dataclass(frozen=True)
class Views:
    """Tuples of key places; ``weights`` are whole numbers that sum to 2^32, None means even.

    One word picks the view: the one whose slice of [0, 2^32) it falls into, views in their order.
    Even weights are the slices ``ceil(i 2^32 / n) .. ceil((i + 1) 2^32 / n)``, so that the view is
    also ``word * n >> 32``. Nothing is ever rejected.
    """

    keys: tuple[tuple[int, ...], ...]
    weights: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if not 1 <= len(self.keys) <= MOST_VIEWS:
            raise PlanError(f"a plan has 1 to {MOST_VIEWS} views")
        if any(not view or len(set(view)) != len(view) for view in self.keys):
            raise PlanError("a view lists one or more keys, each once")
        if self.weights is not None and (
            len(self.weights) != len(self.keys)
            or any(isinstance(w, bool) or not isinstance(w, int) or w < 1 for w in self.weights)
            or sum(self.weights) != WORD
        ):
            raise PlanError("views have whole positive weights that sum to 2^32")

    @classmethod
    def singles(cls, keys: int) -> Views:
        """Each key alone, all equally likely."""
        return cls(tuple((key,) for key in range(keys)))

    @classmethod
    def whole(cls, keys: int) -> Views:
        """One view of all keys."""
        return cls((tuple(range(keys)),))

    def __len__(self) -> int:
        return len(self.keys)

    @cached_property
    def singles_of(self) -> int:
        """The number of keys if these are ``singles``, else 0."""
        single = self.weights is None and all(view == (key,) for key, view in enumerate(self.keys))
        return len(self.keys) if single else 0

    @cached_property
    def bounds(self) -> np.ndarray:
        """Upper ends of the slices of all views but the last."""
        if self.weights is None:
            count = len(self.keys)
            return np.array([-(-i * WORD // count) for i in range(1, count)], np.uint64)
        return np.cumsum(np.array(self.weights, np.uint64))[:-1]

    @cached_property
    def guide(self) -> tuple[np.ndarray, np.ndarray, int]:
        """What loops need to find the slice of a word."""
        bits = min(_MOST_BITS, max(8, 1 + len(self.keys).bit_length()))
        return slot_guide(self.bounds[None], bits)

    @cached_property
    def shares(self) -> np.ndarray:
        """The probability of each view, exactly representable in doubles."""
        ends = np.concatenate([[0], self.bounds.astype(np.int64), [WORD]])
        return np.diff(ends) / WORD

    def pick(self, words: Words) -> Integers:
        """The view each word picks."""
        if self.weights is None and len(words) == 1:  # on a device: in Python's own numbers
            return np.array([int(words[0]) * len(self.keys) >> 32])
        if self.weights is None:
            wide = words.astype(np.uint64) * np.uint64(len(self.keys))
            return (wide >> np.uint64(32)).astype(np.int64)
        return np.searchsorted(self.bounds, words.astype(np.uint64), side="right")

    @cached_property
    def sizes(self) -> Integers:
        """How many keys each view has."""
        return np.array([len(view) for view in self.keys])

    @cached_property
    def key_table(self) -> np.ndarray:
        """The keys of each view, a row each, filled up with -1; narrow, to stay in the cache."""
        places = np.fromiter(chain.from_iterable(self.keys), np.int32, int(self.sizes.sum()))
        kind = np.min_scalar_type(-1 - int(places.max()))
        table = np.full((len(self.keys), int(self.sizes.max())), -1, kind)
        table[np.arange(table.shape[1]) < self.sizes[:, None]] = places
        return table

    def document(self, keys: int) -> dict[str, Any]:
        """The views as JSON; the two common lists have a name."""
        named: Any = [list(view) for view in self.keys]
        if self.keys == Views.singles(keys).keys:
            named = "singles"
        elif self.keys == Views.whole(keys).keys:
            named = "whole"
        return {"keys": named, "weights": "even" if self.weights is None else list(self.weights)}

    @classmethod
    def parse(cls, document: object, keys: int) -> Views:
        """The views of a document over so many keys."""
        if not isinstance(document, dict):
            raise PlanError("a plan's views is an object")
        weights = document.get("weights")
        if weights != "even" and not isinstance(weights, list):
            raise PlanError("views have a list of weights, or 'even'")
        whole = None if weights == "even" else tuple(weights)
        listed = document.get("keys")
        if listed == "singles":
            return cls(cls.singles(keys).keys, whole)
        if listed == "whole":
            return cls(cls.whole(keys).keys, whole)
        if not isinstance(listed, list) or not all(isinstance(view, list) for view in listed):
            raise PlanError("views are a list of lists of key places, 'singles' or 'whole'")
        for place in (place for view in listed for place in view):
            if isinstance(place, bool) or not isinstance(place, int) or not 0 <= place < keys:
                raise PlanError(f"a view names a key by its place, a whole number from 0 to {keys - 1}")
        return cls(tuple(tuple(view) for view in listed), whole)
