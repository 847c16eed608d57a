"""Item: one held key, drawn at random, without its value.

One word picks one of the held keys, all equally likely, keys in the plan's order. State 0 is "holds
nothing", 1 + place otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...channel import Channel
from ...estimate.decoding import StateDecoding
from ...foundation.arrays import Floats, Integers, Words
from ...foundation.stream import Stream
from ...people.people import People
from ...people.schema import Schema
from ...people.views import Views
from ...plan.encoding import Encoding, FastEncode, Held, StateLaw, word_share

if TYPE_CHECKING:
    from ...estimate.forecast.predicted_error import Forecast
    from ...estimate.linear import Moments
    from ...people.population import Population
    from ...people.prior import Prior
    from ...plan.plan import Plan
    from ...plan.tally import Tally


class OneItem(Encoding, StateDecoding):
    """One held key; a person with several keys counts for each of them in part."""

    name = "item"
    draws_held_key = True
    loop_room = "held_keys"
    keyless = "no key"
    has_moments = True

    # -- on the device -----------------------------------------------------------------------------

    def fits(self, schema: Schema, channel: Channel, view: tuple[int, ...]) -> bool:
        return channel.state_kind == self.state_kind and channel.states == len(schema.keys) + 1

    def words(self, schema: Schema, keys: int, cap: int) -> int:
        return 1

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
        word = stream.words(0, 1)[:, 0].astype(np.uint64)
        number = ((word * held.astype(np.uint64)) >> np.uint64(32)).astype(np.int64)
        rows = people.starts[:-1] + number
        states = np.zeros(len(people), np.int64)
        holders = held > 0
        states[holders] = 1 + people.keys[rows[holders]].astype(np.int64)
        return states

    def fast_encode(
        self, schema: Schema, views: Views, people: People, cap: int, loops: Any
    ) -> FastEncode:
        def encode(rows: slice, words: Words, picked: np.ndarray) -> np.ndarray:
            states = np.empty(len(words), np.uint32)
            loops.pick_items(words, people.starts[rows.start :], people.keys, states)
            return states

        return encode

    # -- the law of the states ---------------------------------------------------------------------

    def record_law(self, schema: Schema, view: tuple[int, ...], held: Held, cap: int = 0) -> StateLaw:
        if not held:
            return {0: 1.0}
        return {1 + place: word_share(number, len(held)) for number, place in enumerate(sorted(held))}

    def population_law(self, population: Population, view: tuple[int, ...], cap: int) -> Floats:
        items = population.drawn(1).sum(axis=1)
        return np.concatenate([[max(0.0, 1.0 - items.sum())], items])

    def most_counted(self, cap: int) -> int:
        return 1

    def key_states(self, place: int) -> tuple[int, ...]:
        return (1 + place,)

    # -- tallies of the states ---------------------------------------------------------------------

    def moments(self, plan: Plan, counts: Integers) -> Moments:
        """Frequencies; masses are NaN."""
        from ...estimate.caution import with_one_more
        from ...estimate.linear import Moments

        channel = plan.channels[0]
        rows = np.asarray(counts).reshape(-1, plan.layout.cells)
        moments = Moments.unknown((len(rows),), len(plan.schema.keys))
        average = channel.mix(np.full(channel.states, 1.0 / channel.states))[: channel.cells]
        moments.reports[:] = rows[:, :1]
        answered = np.flatnonzero(rows[:, 0])
        n, cells = rows[answered, :1].astype(np.float64), rows[answered, 1:]
        moments.values[answered, :, 0] = channel.state_estimates(cells / n)[0][:, 1:]
        variances = channel.state_estimates(with_one_more(cells, average, n))[1]
        moments.covariance[answered, :, 0, 0] = variances[:, 1:] / n
        return moments.shaped(np.shape(counts)[:-1])

    def projected(self, plan: Plan, tally: Tally) -> Floats:
        from ...estimate.projection import onto_simplex

        answers = np.full((len(plan.schema.keys), 2), np.nan)
        n, counts = tally.view_counts(0)
        if n:
            laws = onto_simplex(plan.channels[0].state_estimates(counts / n)[0][None, :])
            answers[:, 0] = laws[0, 1:]
        return answers

    def forecast(self, plan: Plan, people: float, prior: Prior) -> Forecast:
        """The error, with the bias of drawing one key: several held keys count in part."""
        from ...estimate.forecast.predicted_error import Forecast

        channel, kinds = plan.channels[0], len(prior.count)
        drawn = prior.capped(1)[:, 0]
        repeats = np.maximum(np.round(prior.count).astype(int), 1)
        law = np.repeat(drawn, repeats)[: channel.states - 1]
        rest = np.zeros(channel.states - 1 - len(law))
        law = np.concatenate([[max(0.0, 1.0 - law.sum())], law, rest])
        shares = channel.mix(law / law.sum())[: channel.cells]
        variances = channel.state_estimates(shares)[1]
        first = 1 + np.concatenate([[0], np.cumsum(repeats)[:-1]])
        bias, covariance = np.full((kinds, 2), np.nan), np.full((kinds, 2, 2), np.nan)
        bias[:, 0] = drawn - prior.frequency
        covariance[:, 0, 0] = variances[np.minimum(first, len(variances) - 1)] / people
        return Forecast(prior, bias, covariance)
