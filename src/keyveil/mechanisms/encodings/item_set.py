"""Items: the set of held signed keys, and the same with signed pairs of keys.

``items``: the set of held *signed keys*, of at most ``cap`` keys. With values at two levels the item
of a key is 2 place + level - 1. Words 0 .. cap - 1 choose which keys are kept, words
cap .. 2 cap - 1 round their values: 2 cap words, whatever is held.

``pair_items``: the same items and words, and with them each pair of kept keys a < b as one more
item, 2 d + 4 (rank of the pair, in lexicographic order) + 2 (level of a - 1) + level of b - 1.

A device that holds h keys, numbered in the plan's order, keeps k = min(cap, h) of them. Floyd's method
draws all choices with equal probability: for i = 0 .. k - 1 let last = h - k + i, and keep number
floor(word i * (last + 1) / 2^32), or number ``last`` if that one is kept already. Word cap + i rounds
the value of the i-th kept key. A person who holds no more than the cap keeps all keys, in order.
"""

from __future__ import annotations

from itertools import combinations
from math import isqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from ...channel import Channel, Collision
from ...estimate.decoding import StateDecoding
from ...foundation.arrays import Integers, Words
from ...foundation.stream import Stream
from ...people.people import People
from ...people.schema import Schema
from ...people.views import Views
from ...plan.encoding import (
    MOST_CAP,
    Encoding,
    FastEncode,
    Held,
    StateLaw,
    digit_law,
    joint_law,
    pair_item,
    word_share,
)

if TYPE_CHECKING:
    from ...estimate.forecast.predicted_error import Forecast
    from ...estimate.linear import Moments
    from ...people.prior import Prior
    from ...plan.plan import Plan


class ItemSet(Encoding, StateDecoding):
    """The signed keys that a person holds, of at most ``cap`` keys."""

    name = "items"
    state_kind = "items"
    loop_room = "set_items"
    by_rows = True
    item_width = 1
    has_moments = True

    # -- items -------------------------------------------------------------------------------------

    def items(self, keys: int) -> int:
        """The number of items over ``keys`` keys."""
        return 2 * keys

    def most_held(self, cap: int) -> int:
        """The largest number of items of a person who keeps at most ``cap`` keys."""
        return cap

    def cap_for(self, held: int) -> int:
        """The cap on keys for which ``held`` is the largest number of items; 0 if there is none."""
        return held

    # -- on the device -----------------------------------------------------------------------------

    def fits(self, schema: Schema, channel: Channel, view: tuple[int, ...]) -> bool:
        keys = len(schema.keys)
        fits = channel.state_kind == self.state_kind
        fits = fits and 0 < self.cap(channel, keys) <= min(keys, MOST_CAP)
        fits = fits and getattr(channel, "items", 0) == self.items(keys)
        return fits and schema.levels == 2

    def cap(self, channel: Channel, keys: int) -> int:
        return self.cap_for(int(getattr(channel, "held", 0)))

    def words(self, schema: Schema, keys: int, cap: int) -> int:
        return 2 * cap

    def encode(
        self,
        schema: Schema,
        views: Views,
        people: People,
        picked: np.ndarray,
        stream: Stream,
        cap: int = 0,
    ) -> Integers:
        words = stream.words(0, 2 * cap)
        rows = _kept_rows(people, cap, words)
        who, at = np.nonzero(rows >= 0)
        row = rows[who, at]
        places = people.keys[row].astype(np.int64)
        digits = schema.rounded(places, people.values[row], words[who, cap + at])
        items = np.full(rows.shape, -1, np.int64)
        items[who, at] = 2 * places + digits - 1
        return items

    def fast_encode(
        self, schema: Schema, views: Views, people: People, cap: int, loops: Any
    ) -> FastEncode:
        """A row of items for each place, and 2^32 - 1 where a person has none."""
        keys, ranges = np.ascontiguousarray(people.keys), (schema.low, schema.high)

        def encode(rows: slice, words: Words, picked: np.ndarray) -> np.ndarray:
            items = np.empty((self.most_held(cap), len(words)), np.uint32)
            starts = people.starts[rows.start : rows.stop + 1]
            loops.encode_items(words, cap, starts, keys, people.values, *ranges, items)
            return items

        return encode

    # -- the law of the states ---------------------------------------------------------------------

    def record_law(self, schema: Schema, view: tuple[int, ...], held: Held, cap: int = 0) -> StateLaw:
        law: StateLaw = {}
        for places, chosen_chance in _kept_law(sorted(held), cap).items():
            digits = joint_law([digit_law(schema, place, held) for place in places])
            for levels, chance in digits:
                single = [2 * place + level - 1 for place, level in zip(places, levels, strict=True)]
                state = self._state(single, len(schema.keys))
                law[state] = law.get(state, 0.0) + chosen_chance * chance
        return law

    def _state(self, single: list[int], keys: int) -> tuple[int, ...]:
        """All items of a person who holds these signed keys, in ascending order."""
        return tuple(single)

    def most_counted(self, cap: int) -> int:
        return cap

    # -- tallies of the states ---------------------------------------------------------------------

    def moments(self, plan: Plan, counts: Integers) -> Moments:
        from ...estimate.pools.pool_decoder import pool_moments

        return pool_moments(plan, counts)

    def forecast(self, plan: Plan, people: float, prior: Prior) -> Forecast:
        from ...estimate.pools.pool_decoder import pool_forecast

        return pool_forecast(plan, people, prior)


class PairItemSet(ItemSet):
    """The signed keys that a person holds, of at most ``cap`` keys, and all signed pairs of them."""

    name = "pair_items"
    item_width = 2

    def items(self, keys: int) -> int:
        return 2 * keys * keys

    def most_held(self, cap: int) -> int:
        return cap * (cap + 1) // 2

    def cap_for(self, held: int) -> int:
        cap = (isqrt(8 * held + 1) - 1) // 2
        return cap if self.most_held(cap) == held else 0

    def fits(self, schema: Schema, channel: Channel, view: tuple[int, ...]) -> bool:
        return isinstance(channel, Collision) and super().fits(schema, channel, view)

    def encode(
        self,
        schema: Schema,
        views: Views,
        people: People,
        picked: np.ndarray,
        stream: Stream,
        cap: int = 0,
    ) -> Integers:
        single = super().encode(schema, views, people, picked, stream, cap)
        columns = np.triu_indices(cap, 1)
        left, right = single[:, columns[0]], single[:, columns[1]]
        first, second = np.minimum(left, right), np.maximum(left, right)  # items ascend as places do
        pairs = pair_item(len(schema.keys), first // 2, second // 2) + 2 * (first % 2) + second % 2
        return np.concatenate([single, np.where(first < 0, -1, pairs)], axis=1)

    def _state(self, single: list[int], keys: int) -> tuple[int, ...]:
        pairs = [
            int(pair_item(keys, first // 2, second // 2)) + 2 * (first % 2) + second % 2
            for first, second in combinations(single, 2)
        ]
        return (*single, *sorted(pairs))

    def pair_forecast(
        self, plan: Plan, people: float, prior: Prior, first: int, second: int
    ) -> tuple[float, float, float]:
        from ...estimate.forecast.pair_forecast import pair_in_sets

        return pair_in_sets(plan, people, prior, first, second)


def _kept_rows(people: People, cap: int, words: Words) -> Integers:
    """Rows of the keys that each person keeps, ``(people, cap)``, in the order of the draws, or -1."""
    held = np.diff(people.starts)
    reported = np.minimum(held, cap)
    chosen = np.full((len(people), cap), -1, np.int64)
    for i in range(cap):
        last = held - reported + i
        number = (words[:, i].astype(np.int64) * (last + 1)) >> 32
        taken = (chosen[:, :i] == number[:, None]).any(axis=1)
        chosen[:, i] = np.where(i < reported, np.where(taken, last, number), -1)
    return np.where(chosen < 0, -1, chosen + people.starts[:-1, None])


def _kept_law(places: list[int], cap: int) -> dict[tuple[int, ...], float]:
    """The probability of each choice of at most ``cap`` places, ascending, under Floyd's method."""
    reported = min(len(places), cap)
    law: dict[frozenset[int], float] = {frozenset(): 1.0}
    for last in range(len(places) - reported, len(places)):
        longer: dict[frozenset[int], float] = {}
        for chosen, chance in law.items():
            for number in range(last + 1):
                choice = chosen | {last if number in chosen else number}
                longer[choice] = longer.get(choice, 0.0) + chance * word_share(number, last + 1)
        law = longer
    return {tuple(places[number] for number in sorted(chosen)): law[chosen] for chosen in law}
