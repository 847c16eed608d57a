"""Padded: one signed key, drawn from the held keys and dummies.

A record with fewer keys than the *length* is padded to it with dummy keys, and one signed key is drawn.
With h held keys let m = max(h, length) and number = floor(word 0 * m / 2^32). The drawn key is the
held key of that number. If there is none, it is the dummy key d + floor(word 1 * length / 2^32), whose
value is 0. Word 2 rounds the value. The state is 2 place + level - 1, dummies included. There are always
3 words. The cap is the length.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...channel import Channel, Proof, Symbols, Symmetric
from ...estimate.decoding import StateDecoding
from ...foundation.arrays import WORD, Floats, Integers, Words
from ...foundation.stream import Stream
from ...people.people import People
from ...people.schema import Schema
from ...people.views import Views
from ...plan.encoding import Encoding, FastEncode, Held, StateLaw, digit_law, word_share

if TYPE_CHECKING:
    from ...estimate.forecast.predicted_error import Forecast
    from ...estimate.linear import Moments
    from ...people.population import Population
    from ...people.prior import Prior
    from ...plan.plan import Plan


class PaddedItem(Encoding, StateDecoding):
    """One held key with its sign, or a dummy."""

    name = "padded"
    loop_room = "view_states"
    keyless = "a dummy key"
    has_moments = True

    # -- on the device -----------------------------------------------------------------------------

    def fits(self, schema: Schema, channel: Channel, view: tuple[int, ...]) -> bool:
        keys = len(schema.keys)
        length = self.cap(channel, keys)
        fits = isinstance(channel, Symbols | Symmetric) and 0 < length <= keys
        fits = fits and channel.states == 2 * (keys + length) and schema.levels == 2
        return fits and not getattr(channel, "silent", 0)

    def cap(self, channel: Channel, keys: int) -> int:
        positions = channel.positions if isinstance(channel, Symbols) else channel.states // 2
        return max(0, positions - keys)

    def words(self, schema: Schema, keys: int, cap: int) -> int:
        return 3

    def encode(
        self,
        schema: Schema,
        views: Views,
        people: People,
        picked: np.ndarray,
        stream: Stream,
        cap: int = 0,
    ) -> Integers:
        held = np.diff(people.starts)
        words = stream.words(0, 3)
        number = (words[:, 0].astype(np.int64) * np.maximum(held, cap)) >> 32
        dummy = (words[:, 1].astype(np.int64) * cap) >> 32
        states = 2 * (len(schema.keys) + dummy) + (words[:, 2] < np.uint32(WORD // 2))
        own = np.flatnonzero(number < held)
        row = people.starts[own] + number[own]
        places = people.keys[row].astype(np.int64)
        states[own] = 2 * places + schema.rounded(places, people.values[row], words[own, 2]) - 1
        return states

    def fast_encode(
        self, schema: Schema, views: Views, people: People, cap: int, loops: Any
    ) -> FastEncode:
        keys, ranges = np.ascontiguousarray(people.keys), (schema.low, schema.high)

        def encode(rows: slice, words: Words, picked: np.ndarray) -> np.ndarray:
            states, starts = np.empty(len(words), np.uint32), people.starts[rows.start : rows.stop + 1]
            table = starts, keys, people.values, *ranges
            loops.encode_padded(words, cap, len(schema.keys), *table, states)
            return states

        return encode

    def proof(self, channel: Channel, keys: int) -> Proof:
        """The worst ratio of probabilities of an output between two *records*, in exact integers.

        Padding spreads a record over at least ``length`` states, so k-RR on padded records may have
        larger odds. An output is more likely only from its own state. The share of that state in a
        record is at most ceil(2^32 / length) of 2^32 words, for a held key (m >= length numbers share
        the words) and for a dummy. From all other states, and from records without it, the output is
        a lie. So the worst ratio is

            (share keep + (2^32 - share) lie') / (2^32 lie),

        with lie' = lie + 1 if the rest of the channel gives any lie one unit more.
        """
        length = self.cap(channel, keys)
        if not isinstance(channel, Symmetric) or length < 1:
            return channel.proof()
        share = -(-WORD // length)
        lie = channel.lie + (channel.rest > 0)
        likely = share * max(channel.keep, lie) + (WORD - share) * lie
        output = f"an item (states: holds it, one of {length})"
        return Proof(likely, WORD * channel.lie, (1, 0), output)

    # -- the law of the states ---------------------------------------------------------------------

    def record_law(self, schema: Schema, view: tuple[int, ...], held: Held, cap: int = 0) -> StateLaw:
        law: StateLaw = {}
        numbers = max(len(held), cap)
        for number, place in enumerate(sorted(held)):
            for level, chance in digit_law(schema, place, held).items():
                law[2 * place + level - 1] = word_share(number, numbers) * chance
        left = 1.0 - sum(law.values())
        if len(held) < cap:
            for dummy in range(cap):
                for sign in (0, 1):
                    state = 2 * (len(schema.keys) + dummy) + sign
                    law[state] = left * word_share(dummy, cap) / 2
        return law

    def population_law(self, population: Population, view: tuple[int, ...], cap: int) -> Floats:
        items = population.drawn(cap).reshape(-1)
        dummy = max(0.0, 1.0 - items.sum()) / (2 * cap)
        return np.concatenate([items, np.full(2 * cap, dummy)])

    def most_counted(self, cap: int) -> int:
        return cap

    def largest_chance(self, cap: int) -> float:
        return -(-WORD // cap) / WORD

    def key_states(self, place: int) -> tuple[int, ...]:
        return 2 * place, 2 * place + 1

    def dummies(self, cap: int) -> int:
        return cap

    # -- tallies of the states ---------------------------------------------------------------------

    def moments(self, plan: Plan, counts: Integers) -> Moments:
        from ...estimate.pools.padded_items import padded_moments

        return padded_moments(plan, counts)

    def forecast(self, plan: Plan, people: float, prior: Prior) -> Forecast:
        from ...estimate.pools.padded_items import padded_forecast

        return padded_forecast(plan, people, prior)
