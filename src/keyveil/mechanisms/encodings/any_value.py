"""Any value: the value of one held key, drawn at random, without the key.

Two words, whatever is held. Word 0 picks one of the held keys, all equally likely, keys in the plan's
order, as with ``item``. Word 1 rounds its value to the levels of the plan. State 0 is "holds nothing",
otherwise the state is the level of the value, 1 .. levels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...channel import Channel
from ...estimate.decoding import StateDecoding
from ...foundation.arrays import Floats, Integers, Words
from ...foundation.stream import Stream
from ...people.people import People
from ...people.prior_laws import independent_law
from ...people.schema import Schema
from ...people.views import Views
from ...plan.encoding import Encoding, FastEncode, Held, StateLaw, digit_law, word_share

if TYPE_CHECKING:
    from ...estimate.forecast.predicted_error import ValueForecast
    from ...estimate.linear import Moments
    from ...estimate.side import ValueAnswer
    from ...people.population import Population
    from ...people.prior import Prior
    from ...plan.plan import Plan


class AnyValue(Encoding, StateDecoding):
    """The level of one held value, whatever its key."""

    name = "any_value"
    loop_room = "view_states"

    # -- on the device -----------------------------------------------------------------------------

    def fits(self, schema: Schema, channel: Channel, view: tuple[int, ...]) -> bool:
        return channel.state_kind == self.state_kind and channel.states == schema.levels + 1

    def words(self, schema: Schema, keys: int, cap: int) -> int:
        return 2

    def encode(
        self,
        schema: Schema,
        views: Views,
        people: People,
        picked: np.ndarray,
        stream: Stream,
        cap: int = 0,
    ) -> Integers:
        held, words = np.diff(people.starts), stream.words(0, 2)
        number = ((words[:, 0].astype(np.uint64) * held.astype(np.uint64)) >> np.uint64(32)).astype(
            np.int64
        )
        holders = np.flatnonzero(held)
        rows = (people.starts[:-1] + number)[holders]
        states = np.zeros(len(people), np.int64)
        places = people.keys[rows].astype(np.int64)
        states[holders] = schema.rounded(places, people.values[rows], words[holders, 1])
        return states

    def fast_encode(
        self, schema: Schema, views: Views, people: People, cap: int, loops: Any
    ) -> FastEncode:
        keys, values = np.ascontiguousarray(people.keys), np.ascontiguousarray(people.values)
        table = keys, values, schema.low, schema.high, schema.levels

        def encode(rows: slice, words: Words, picked: np.ndarray) -> np.ndarray:
            starts = people.starts[rows.start : rows.stop + 1]
            states = np.empty(len(words), np.uint64)
            loops.encode_any(words, starts, *table, states)
            return states

        return encode

    def telling_records(self, schema: Schema) -> list[dict[int, float]]:
        """The first key at its highest and at its lowest value; with one level, at one of them."""
        ends = (schema.high, schema.low)[: min(2, schema.levels)]
        return [{0: float(end[0])} for end in ends]

    # -- the law of the states ---------------------------------------------------------------------

    def record_law(self, schema: Schema, view: tuple[int, ...], held: Held, cap: int = 0) -> StateLaw:
        if not held:
            return {0: 1.0}
        law: StateLaw = {}
        for number, place in enumerate(sorted(held)):
            for digit, chance in digit_law(schema, place, held).items():
                law[digit] = law.get(digit, 0.0) + word_share(number, len(held)) * chance
        return law

    def population_law(self, population: Population, view: tuple[int, ...], cap: int) -> Floats:
        levels = population.drawn(1).sum(axis=0)
        return np.concatenate([[max(0.0, 1.0 - levels.sum())], levels])

    # -- tallies of the states ---------------------------------------------------------------------

    def moments(self, plan: Plan, counts: Integers) -> Moments:
        """Moments that are NaN for every key, because the value does not name its key."""
        from ...estimate.linear import Moments

        return Moments.unknown(np.shape(counts)[:-1], len(plan.schema.keys))

    def side_answer(self, plan: Plan, counts: Integers) -> ValueAnswer:
        from ...estimate.linear import key_weights
        from ...estimate.side import ValueAnswer, state_sums

        return ValueAnswer(*state_sums(plan.channels[0], counts, key_weights(plan.schema)))

    def value_forecast(self, plan: Plan, people: float, prior: Prior) -> ValueForecast:
        """The answer of ``people`` people, with values at the two ends of the range."""
        from ...estimate.forecast.predicted_error import ValueForecast
        from ...estimate.linear import key_weights

        share, mass = prior.count @ prior.capped(1)
        law = independent_law(plan.schema.levels, 1, share, mass / share if share > 0 else 0.0)
        channel = plan.channels[0]
        covariance = channel.covariance(channel.decoder(key_weights(plan.schema)), law)
        return ValueForecast(np.array([share, mass]), covariance / people)
