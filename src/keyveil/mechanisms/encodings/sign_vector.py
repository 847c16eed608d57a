"""Signs: a sign for every key, a fair coin if the key is not held.

It takes one word for each key. The state is a vector of signs: the value rounded to -1 or +1, and a fair
coin for a key that is not held (whose value counts as 0).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...channel import Channel, Halfspace
from ...estimate.decoding import StateDecoding
from ...foundation.arrays import WORD, Bits, Integers
from ...foundation.stream import Stream
from ...people.people import People
from ...people.schema import Schema
from ...people.views import Views
from ...plan.encoding import Encoding, Held, StateLaw, digit_law, joint_law

if TYPE_CHECKING:
    from ...estimate.forecast.predicted_error import Forecast
    from ...estimate.linear import Moments
    from ...people.prior import Prior
    from ...plan.plan import Plan


class SignVector(Encoding, StateDecoding):
    """The sign of the value of every key."""

    name = "signs"
    state_kind = "signs"
    has_moments = True

    # -- on the device -----------------------------------------------------------------------------

    def fits(self, schema: Schema, channel: Channel, view: tuple[int, ...]) -> bool:
        keys = len(schema.keys)
        fits = isinstance(channel, Halfspace) and channel.words == 1 + -(-keys // 32)
        return fits and getattr(channel, "signs", 0) == keys and schema.levels == 2

    def words(self, schema: Schema, keys: int, cap: int) -> int:
        return len(schema.keys)

    def encode(
        self,
        schema: Schema,
        views: Views,
        people: People,
        picked: np.ndarray,
        stream: Stream,
        cap: int = 0,
    ) -> Bits:
        words = stream.words(0, len(schema.keys))
        signs = (words < np.uint32(WORD // 2)).astype(np.uint8)
        who = people.row_owners
        drawn = words[who, people.keys]
        signs[who, people.keys] = schema.rounded(people.keys, people.values, drawn) - 1
        return signs

    # -- the law of the states ---------------------------------------------------------------------

    def record_law(self, schema: Schema, view: tuple[int, ...], held: Held, cap: int = 0) -> StateLaw:
        fair = {0: 0.5, 1: 0.5}
        laws = []
        for place in range(len(schema.keys)):
            digits = digit_law(schema, place, held)
            signs = {digit - 1: chance for digit, chance in digits.items()}
            laws.append(signs if place in held else fair)
        return dict(joint_law(laws))

    # -- tallies of the states ---------------------------------------------------------------------

    def moments(self, plan: Plan, counts: Integers) -> Moments:
        """Masses; frequencies are NaN."""
        from ...estimate.caution import mean_with_one_more
        from ...estimate.linear import Moments

        channel = plan.channels[0]
        assert isinstance(channel, Halfspace)
        rows = np.asarray(counts).reshape(-1, plan.layout.cells)
        moments = Moments.unknown((len(rows),), len(plan.schema.keys))
        n = rows[:, :1].astype(np.float64)
        moments.reports[:] = rows[:, :1]
        with np.errstate(invalid="ignore", divide="ignore"):
            shares = rows[:, 1:] / n
            shares = shares if channel.one_cell else np.append(shares, n / n, axis=1)
            masses = shares @ channel.sign_decoder()
            cautious = mean_with_one_more(np.clip(masses, -1, 1), n)
            variances = (1.0 / channel.pull**2 - cautious**2) / n  # a sent sign is always -1 or +1
        moments.values[:, :, 1] = masses
        moments.covariance[:, :, 1, 1] = variances
        return moments.shaped(np.shape(counts)[:-1])

    def forecast(self, plan: Plan, people: float, prior: Prior) -> Forecast:
        from ...estimate.forecast.predicted_error import Forecast

        channel, kinds = plan.channels[0], len(prior.count)
        assert isinstance(channel, Halfspace)
        bias, covariance = np.full((kinds, 2), np.nan), np.full((kinds, 2, 2), np.nan)
        bias[:, 1] = 0.0
        mass = prior.frequency * prior.mean
        covariance[:, 1, 1] = (1.0 / channel.pull**2 - mass**2) / people
        return Forecast(prior, bias, covariance)
