"""Views: the joint state of the keys of a view, as one number.

It takes one rounding word for each key of the view, held or not. The state is a number in base
``levels + 1``, with the first key as the most significant digit: 0 for not held, else the level.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...channel import Channel
from ...estimate.decoding import StateDecoding
from ...foundation.arrays import Floats, Integers, Words
from ...foundation.errors import PlanError
from ...foundation.stream import Stream
from ...people.people import People
from ...people.schema import Schema
from ...people.views import Views
from ...plan.encoding import Encoding, FastEncode, Held, StateLaw, digit_law, joint_law

if TYPE_CHECKING:
    from ...estimate.forecast.predicted_error import Forecast
    from ...estimate.linear import Moments
    from ...estimate.together.joint import Evidence
    from ...people.population import Population
    from ...people.prior import Prior
    from ...plan.plan import Plan
    from ...plan.tally import Tally

MOST_NUMBER = 1 << 62
"""Largest number of states of a view, because a state is a signed 64-bit number."""
MOST_FORECAST = 3**9
"""Largest number of states of a view whose error is forecast."""


class ViewState(Encoding, StateDecoding):
    """The level of each key of a view, or not held."""

    name = "views"
    speaks_of_views = True
    loop_room = "view_states"
    has_moments = True

    # -- on the device -----------------------------------------------------------------------------

    def fits(self, schema: Schema, channel: Channel, view: tuple[int, ...]) -> bool:
        fits = channel.state_kind == self.state_kind
        return fits and channel.states == states_of(schema, len(view))

    def words(self, schema: Schema, keys: int, cap: int) -> int:
        return keys

    def encode(
        self,
        schema: Schema,
        views: Views,
        people: People,
        picked: np.ndarray,
        stream: Stream,
        cap: int = 0,
    ) -> Integers:
        who = people.row_owners
        if len(views) == 1:
            return _encode_whole(schema, views, people, who, stream)
        base = schema.levels + 1
        states = np.zeros(len(people), np.int64)
        for place in range(views.key_table.shape[1]):
            digits = np.zeros(len(people), np.int64)
            key = views.key_table[picked, place]
            rows = (people.keys == key[who]).nonzero()[0]
            at = who[rows]
            words = stream.words(place, 1)[at, 0]
            digits[at] = schema.rounded(people.keys[rows], people.values[rows], words)
            states = np.where(key >= 0, states * base + digits, states)
        return states

    def fast_encode(
        self, schema: Schema, views: Views, people: People, cap: int, loops: Any
    ) -> FastEncode:
        keys, values = np.ascontiguousarray(people.keys), np.ascontiguousarray(people.values)
        table = schema.low, schema.high, schema.levels
        if len(views) == 1:
            places = _places(schema, views)

            def encode_whole(rows: slice, words: Words, picked: np.ndarray) -> np.ndarray:
                starts, states = (
                    people.starts[rows.start : rows.stop + 1],
                    np.empty(len(words), np.uint64),
                )
                loops.encode_whole(words, *places, starts, keys, values, *table, states)
                return states

            return encode_whole

        def encode(rows: slice, words: Words, picked: np.ndarray) -> np.ndarray:
            starts = people.starts[rows.start : rows.stop + 1]
            inside = int(np.searchsorted(starts[:-1], len(keys) - loops.LANES, side="right"))
            states = np.empty(len(words), np.uint64)
            loops.encode_views(
                words, picked, views.key_table, inside, (starts, keys, values), table, states
            )
            return states

        return encode

    def telling_records(self, schema: Schema) -> list[dict[int, float]]:
        """All keys at the same level, for every level."""
        steps = [0.0] if schema.levels < 2 else np.linspace(0, 1, schema.levels).tolist()
        low, high = schema.low, schema.high
        values = [np.minimum(low + (high - low) * step, high).tolist() for step in steps]
        return [dict(enumerate(at_level)) for at_level in values]

    # -- the law of the states ---------------------------------------------------------------------

    def record_law(self, schema: Schema, view: tuple[int, ...], held: Held, cap: int = 0) -> StateLaw:
        base = schema.levels + 1
        law: StateLaw = {}
        for digits, chance in joint_law([digit_law(schema, place, held) for place in view]):
            state = 0
            for digit in digits:
                state = state * base + digit
            law[state] = chance
        return law

    def population_law(self, population: Population, view: tuple[int, ...], cap: int) -> Floats:
        return population.law(view)

    def key_share(self, views: Views, keys: int) -> float:
        shares = zip(views.keys, views.shares, strict=True)
        return sum(len(view) * float(share) for view, share in shares) / keys

    # -- tallies of the states ---------------------------------------------------------------------

    def moments(self, plan: Plan, counts: Integers) -> Moments:
        from ...estimate.linear import single_keys, view_moments
        from ...estimate.together.averaged_views import pooled_moments

        return view_moments(plan, counts) if single_keys(plan) else pooled_moments(plan, counts)

    def evidence(self, plan: Plan, tally: Tally, estimator: str) -> Evidence:
        from ...estimate.together.single_view import WHOLE, WholeEvidence
        from ...estimate.together.view_laws import ViewEvidence

        if len(plan.views) == 1:
            return WHOLE.get(estimator, WholeEvidence)(plan, tally)
        if estimator in ("printed", "simplex"):
            raise PlanError(f"{estimator} is for plans with one view of all keys, like ioh")
        return ViewEvidence(plan, tally, sharpen=estimator in ("pooled", "least_squares"))

    def projected(self, plan: Plan, tally: Tally) -> Floats:
        from ...estimate.linear import key_weights, single_keys
        from ...estimate.projection import onto_simplex

        if not single_keys(plan):
            return super().projected(plan, tally)
        answers = np.full((len(plan.schema.keys), 2), np.nan)
        weights = key_weights(plan.schema)
        for view, channel in enumerate(plan.view_channels):
            n, counts = tally.view_counts(view)
            decoder = channel.decoder(np.eye(channel.states))
            if np.isnan(decoder).any():
                name = plan.mechanism_name
                raise PlanError(f"{name} does not know the law of states; nothing to project")
            if n:
                law = onto_simplex((counts / n @ decoder)[None, :])[0]
                frequency, mass = law @ weights
                mean = mass / frequency if frequency else np.nan
                answers[plan.views.keys[view][0]] = frequency, mean
        return answers

    def forecast(self, plan: Plan, people: float, prior: Prior) -> Forecast:
        """The error of pooled answers: reports about a key are weighted by precision."""
        from ...estimate.forecast.few_reports import effective_reports
        from ...estimate.forecast.predicted_error import Forecast
        from ...estimate.linear import key_weights

        keys, kinds, levels = len(plan.schema.keys), len(prior.count), plan.schema.levels
        weights = key_weights(plan.schema)
        known = ~np.isnan(weights).any(axis=0)
        precision = np.zeros((kinds, int(known.sum()), int(known.sum())))
        for number, channel in enumerate(plan.channels):
            groups: dict[int, list[int]] = {}
            for view in plan.views_of(number):
                groups.setdefault(len(plan.views.keys[view]), []).append(view)
            for size, views in groups.items():
                if channel.states > MOST_FORECAST:
                    raise PlanError(f"the error of views of {size} keys is not forecast")
                laws = prior.view_laws(levels, tuple(plan.views.keys[view] for view in views))
                share = float(sum(plan.views.shares[view] for view in views))
                reports = effective_reports(people, share * size / keys)
                precision += reports * _precision(channel, laws, weights[:, known], size, levels)
        answered = np.zeros(2, bool)
        answered[known] = (np.diagonal(precision, axis1=1, axis2=2) > 0).all(axis=0)
        covariance = np.full((kinds, 2, 2), np.nan)
        inside = np.ix_(np.arange(kinds), answered[known], answered[known])
        covariance[np.ix_(np.arange(kinds), answered, answered)] = np.linalg.inv(precision[inside])
        return Forecast(prior, np.where(answered, 0.0, np.nan) * np.ones((kinds, 2)), covariance)

    def pair_forecast(
        self, plan: Plan, people: float, prior: Prior, first: int, second: int
    ) -> tuple[float, float, float]:
        from ...estimate.forecast.pair_forecast import pair_in_views

        return pair_in_views(plan, people, prior, first, second)


def states_of(schema: Schema, keys: int) -> int:
    """The number of states of a view of ``keys`` keys."""
    base = schema.levels + 1
    if keys > MOST_NUMBER.bit_length() or base**keys > MOST_NUMBER:
        raise PlanError(f"a view of {keys} keys has too many states; use smaller views")
    return int(base**keys)


def _encode_whole(
    schema: Schema, views: Views, people: People, who: Integers, stream: Stream
) -> Integers:
    """States for a plan with one view, computed for all keys at once; ``who`` is the person of a row."""
    place, digit_values = _places(schema, views)
    at = place[people.keys]
    rows = np.flatnonzero(at >= 0)
    words = stream.words(0, len(digit_values))[who[rows], at[rows]]
    digits = schema.rounded(people.keys[rows], people.values[rows], words)
    states = np.zeros(len(people), np.int64)
    np.add.at(states, who[rows], digits * digit_values[at[rows]])
    return states


def _places(schema: Schema, views: Views) -> tuple[Integers, Integers]:
    """The place of each key in the only view, -1 for none, and what a digit of each place counts."""
    view, base = views.keys[0], schema.levels + 1
    place = np.full(len(schema.keys), -1, np.int64)
    place[list(view)] = np.arange(len(view))
    return place, np.array([base ** (len(view) - 1 - i) for i in range(len(view))], np.int64)


def _precision(channel: Channel, laws: Floats, weights: Floats, size: int, levels: int) -> Floats:
    """Inverse covariance of the answers about the first key, from one report of a view of ``size`` keys.

    ``laws`` are laws of the states of the view, one for each kind of first key; so is the result.
    """
    from ...estimate.together.joint import lifted

    lifted_weights = lifted(weights.reshape(-1, weights.shape[1]), (0,), tuple(range(size)), levels)
    cells = channel.decoder(lifted_weights)
    answered = ~np.isnan(cells).any(axis=0)
    precision = np.zeros((len(laws), weights.shape[1], weights.shape[1]))
    if not answered.any():
        return precision
    covariance = np.array([channel.covariance(cells[:, answered], law) for law in laws])
    inside = np.ix_(np.arange(len(laws)), answered, answered)
    precision[inside] = np.linalg.pinv(covariance, hermitian=True)
    return precision
