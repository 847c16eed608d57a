"""Size: the number of held keys, in buckets, without the keys.

It takes no words. The cap is the number of buckets; the last bucket has no end. See ``bucket_of``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...channel import Channel
from ...estimate.decoding import StateDecoding
from ...foundation.arrays import Floats, Integers
from ...foundation.coins import Stream
from ...people.people import People
from ...people.schema import Schema
from ...people.views import Views
from ...plan.encoding import Encoding, Held, StateLaw

if TYPE_CHECKING:
    from ...estimate.linear import Moments
    from ...estimate.side import SizeAnswer
    from ...people.population import Population
    from ...plan.plan import Plan


class SetSize(Encoding, StateDecoding):
    """The bucket of the number of held keys."""

    name = "size"
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
        return SizeAnswer(*state_sums(channel, counts, np.eye(channel.states)), least)


def bucket_of(held: Any) -> Any:
    """The bucket of a number of keys: one for each of 0 .. 7, then four for every doubling.

    With e = floor(log2 h) it is 4 (e - 1) + floor(h / 2^(e - 2)) - 4: 8 and 9 together, 10 and 11,
    12 and 13, 14 and 15, then 16 to 19, and so on.
    """
    number = np.asarray(held, np.int64)
    power = np.maximum(np.frexp(np.maximum(number, 1).astype(np.float64))[1] - 1, 2)
    return np.where(number < 8, number, 4 * (power - 1) + (number >> (power - 2)) - 4)


def bucket_ends(buckets: int) -> Integers:
    """The largest number of keys in each bucket; for the last bucket, the smallest."""
    last = [int(b) for b in range(8)]
    while len(last) < buckets:
        last.append(last[-1] + (1 << (len(last) // 4 - 1)))
    ends = np.array(last[:buckets], np.int64)
    ends[-1] = last[buckets - 2] + 1 if buckets > 1 else 0
    return ends


def bucket_shares(sizes: Floats, buckets: int) -> Floats:
    """Shares of people in the buckets, from the shares ``sizes`` of people with 0, 1, 2, ... keys."""
    bucket = np.minimum(bucket_of(np.arange(len(sizes))), buckets - 1)
    return np.bincount(bucket, sizes, buckets).astype(np.float64)
