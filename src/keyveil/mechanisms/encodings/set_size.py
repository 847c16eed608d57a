"""Size: the number of held keys, in buckets, without the keys.

It takes no words. The cap is the number of buckets; the last bucket has no end. See
``size_buckets.bucket_of``.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ...channel import Channel
from ...estimate.decoding import StateDecoding
from ...foundation.arrays import Floats, Integers, Words
from ...foundation.stream import Stream
from ...people.people import People
from ...people.schema import Schema
from ...people.size_buckets import bucket_ends, bucket_of, bucket_shares
from ...people.views import Views
from ...plan.encoding import Encoding, FastEncode, Held, StateLaw

if TYPE_CHECKING:
    from ...estimate.forecast.predicted_error import SizeForecast
    from ...estimate.linear import Moments
    from ...estimate.side import SizeAnswer
    from ...people.population import Population
    from ...people.prior import Prior
    from ...plan.plan import Plan


class SetSize(Encoding, StateDecoding):
    """The bucket of the number of held keys."""

    name = "size"
    loop_room = "view_states"
    speaks_of_size = True

    # -- on the device -----------------------------------------------------------------------------

    def fits(self, schema: Schema, channel: Channel, view: tuple[int, ...]) -> bool:
        return channel.state_kind == self.state_kind

    def cap(self, channel: Channel, keys: int) -> int:
        return channel.states

    def words(self, schema: Schema, keys: int, cap: int) -> int:
        return 0

    def encode(
        self,
        schema: Schema,
        views: Views,
        people: People,
        picked: np.ndarray,
        stream: Stream,
        cap: int = 0,
    ) -> Integers:
        return np.asarray(np.minimum(bucket_of(np.diff(people.starts)), cap - 1))

    def fast_encode(
        self, schema: Schema, views: Views, people: People, cap: int, loops: Any
    ) -> FastEncode:
        def encode(rows: slice, words: Words, picked: np.ndarray) -> np.ndarray:
            states = np.empty(len(words), np.uint64)
            loops.encode_sizes(people.starts[rows.start : rows.stop + 1], cap - 1, states)
            return states

        return encode

    def telling_records(self, schema: Schema) -> list[dict[int, float]]:
        """The first key, the first two, and so on."""
        values = schema.high.tolist()
        return [dict(enumerate(values[:count])) for count in range(1, len(values) + 1)]

    # -- the law of the states ---------------------------------------------------------------------

    def record_law(self, schema: Schema, view: tuple[int, ...], held: Held, cap: int = 0) -> StateLaw:
        return {min(int(bucket_of(len(held))), cap - 1): 1.0}

    def population_law(self, population: Population, view: tuple[int, ...], cap: int) -> Floats:
        return bucket_shares(population.sizes, cap)

    # -- tallies of the states ---------------------------------------------------------------------

    def moments(self, plan: Plan, counts: Integers) -> Moments:
        """Moments that are NaN for every key, because sizes do not name keys."""
        from ...estimate.linear import Moments

        return Moments.unknown(np.shape(counts)[:-1], len(plan.schema.keys))

    def side_answer(self, plan: Plan, counts: Integers) -> SizeAnswer:
        from ...estimate.side import SizeAnswer, state_sums

        channel = plan.channels[0]
        ends = bucket_ends(channel.states)
        least = np.concatenate([[0], ends[:-1] + 1])
        sums = state_sums(channel, counts, np.eye(channel.states))
        return SizeAnswer(*sums, least, one_report(channel))

    def size_forecast(self, plan: Plan, people: float, prior: Prior) -> SizeForecast:
        from ...estimate.forecast.predicted_error import SizeForecast

        channel = plan.channels[0]
        law = bucket_shares(prior.sizes, channel.states)
        spread = _bucket_covariance(channel, tuple(law.tolist()))
        return SizeForecast(law, spread / people, one_report(channel), people)


@lru_cache(maxsize=16)
def _bucket_decoder(channel: Channel) -> Floats:
    """Unbiased weights on cells for the share of each bucket."""
    return channel.decoder(np.eye(channel.states))


@lru_cache(maxsize=16)
def _bucket_covariance(channel: Channel, law: tuple[float, ...]) -> Floats:
    """The covariance of the estimated shares of buckets from one report."""
    return channel.covariance(_bucket_decoder(channel), np.array(law))


@lru_cache(maxsize=16)
def one_report(channel: Channel) -> Floats:
    """Second moments of the unbiased share of a bucket, from a person inside and outside it, ``(2,)``.

    Channels of sizes treat all buckets alike, so two people tell all.
    """
    spread = channel.covariance(_bucket_decoder(channel), np.eye(channel.states)[0])
    return np.array([spread[0, 0] + 1.0, spread[-1, -1]])
