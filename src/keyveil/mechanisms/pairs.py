"""Views of two or three keys: each person reports one small set of keys with all of epsilon.

For conditionals, the error is 10 to 20 times smaller than IOH's at eight keys; IOH does not work at a
hundred. ``pairs`` has every two keys as a view, ``triples`` every three. ``workload`` has only the sets
of keys that given queries need, with people split to minimise the predicted error of the queries. The
channel on a view is chosen by predicted error: k-RR, subset selection, optimal bits, Hadamard response,
or for pairs the workload-optimal channel. ``channel`` names one instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from itertools import chain, combinations
from math import comb, sqrt
from typing import Any

from ..channel import Channel, Subset
from ..channel.design.view_channels import (
    VIEW_CHANNELS,
    candidates,
    choose,
    default_prior,
    over_subset,
)
from ..channel.layout import MOST_CELLS
from ..estimate.forecast.query_forecast import query_variance
from ..estimate.together.averaged_views import pooled_answers
from ..estimate.together.conditional import query_weights
from ..estimate.together.joint import lifted
from ..estimate.together.query import Query
from ..foundation.arrays import WORD
from ..foundation.errors import PlanError
from ..people.prior_laws import independent_law
from ..people.schema import Schema
from ..people.views import Views
from .mechanism import Choice, Draft, Mechanism, Text

CHANNELS = ("best", *(name for name in VIEW_CHANNELS if name != "solved"))
"""Channels that a plan may name; one that is solved anew is no plan's default."""

_CHANNEL = Choice("best", CHANNELS, "channel on a view; best has the smallest predicted error")


TRUSTED = 0.5
"""Weight of each other view of a key when a channel is chosen. With few reports, projection to a proper
law moves answers far, and a channel with little information about single keys loses more than the
predicted error says. With many reports, a weight of half costs almost nothing."""


class Pairs(Mechanism):
    """Every two keys are a view of nine states."""

    name = "pairs"
    source = "after Zhang et al. (CALM), CCS 2018, with channels of our own"
    speaks_of = "two keys together, drawn at random"
    bits = "log2 (d (d - 1) / 2) + the channel's"
    parameters = {"channel": _CHANNEL}
    estimators = {"least_squares": pooled_answers}
    size = 2
    fewest_keys = 2
    most_keys = 1000

    def draft(self, schema: Schema, epsilon: Decimal, tight: bool, chosen: Mapping[str, Any]) -> Draft:
        keys = len(schema.keys)
        views = Views(tuple(combinations(range(keys), self.size)))
        channel = view_channel(self.size, epsilon, chosen["channel"], views.keys)
        return Draft(schema.at(2), views, "views", (channel,), epsilon)


class Triples(Pairs):
    """Every three keys are a view of 27 states."""

    name = "triples"
    speaks_of = "three keys together, drawn at random"
    bits = "log2 (d (d - 1) (d - 2) / 6) + the channel's"
    size = 3
    fewest_keys = 3
    most_keys = 150


class Workload(Mechanism):
    """The sets of keys that given queries need, each a view with its share of the people."""

    name = "workload"
    source = "after Zhang et al. (CALM), CCS 2018, with channels of our own"
    speaks_of = "one of the sets of keys that the queries need"
    bits = "log2 of the number of views + the channel's"
    parameters = {
        "queries": Text("", "queries that the plan must answer, separated by ;"),
        "channel": _CHANNEL,
    }
    estimators = {"least_squares": pooled_answers}
    fewest_keys = 2

    def draft(self, schema: Schema, epsilon: Decimal, tight: bool, chosen: Mapping[str, Any]) -> Draft:
        schema = schema.at(2)
        queries = Query.parse_all(str(chosen["queries"]))
        if not queries:
            raise PlanError(
                "workload needs to know what it must answer: give queries, separated by ;, like "
                "'workload:queries=mean(A | B); frequency(C | !D)'"
            )
        needs = self._needs(schema, queries)
        channels = {
            size: view_channel(size, epsilon, chosen["channel"], tuple(needs))
            for size in sorted({len(view) for view in needs})
        }
        order = {size: number for number, size in enumerate(channels)}
        errors = []
        for view, wanted in needs.items():
            channel, law = channels[len(view)], independent_law(2, len(view))
            errors.append(
                sum(
                    query_variance(channel, law, _weights(schema, query, keys, view))
                    for query, keys in wanted
                )
            )
        return Draft(
            schema,
            Views(tuple(needs), proportional([sqrt(error) for error in errors])),
            "views",
            tuple(channels.values()),
            epsilon,
            tuple(order[len(view)] for view in needs),
        )

    def example(self, schema: Schema) -> dict[str, str]:
        first, second = schema.keys[:2]
        return {"queries": str(Query("mean", first, ((second, True),)))}

    def _needs(
        self, schema: Schema, queries: Sequence[Query]
    ) -> dict[tuple[int, ...], list[tuple[Query, tuple[int, ...]]]]:
        """The views, and the queries that each must answer; a subset of a view uses that view."""
        query_keys = []
        for query in queries:
            target, given = query.places(schema)
            keys = (target, *(place for place, _ in given))
            if len(keys) > 4:
                raise PlanError(
                    f"{query} names {len(keys)} keys; a view holds at most 4: ask about fewer together"
                )
            query_keys.append((query, keys))
        needs: dict[tuple[int, ...], list[tuple[Query, tuple[int, ...]]]] = {}
        for query, keys in sorted(query_keys, key=lambda item: -len(item[1])):
            view_of = next((view for view in needs if set(keys) <= set(view)), tuple(sorted(keys)))
            needs.setdefault(view_of, []).append((query, keys))
        return needs


def view_channel(size: int, epsilon: Decimal, name: str, views: Sequence[tuple[int, ...]]) -> Channel:
    """The best channel on views of ``size`` keys whose tally keeps the likelihood and has room.

    The information of other views about the keys of a view depends on how many views hold a key.
    """

    if name == "optimal" and size != 2:
        name = "best"  # only pairs have an optimal channel
    others = sum(map(len, views)) / len(set(chain.from_iterable(views))) - 1
    holding = 1 + TRUSTED * others
    channel = choose(size, 2, epsilon, channel=name, views=holding)[1]
    most = MOST_CELLS // len(views) - 1
    if channel.one_cell and channel.cells <= most:
        return channel
    if name != "best":
        raise PlanError(
            f"the channel {name} on {len(views)} views of {size} keys has too many cells; take best"
        )
    prior = default_prior(size, 2)
    fit = [c for c in candidates(3**size, epsilon).values() if c.one_cell and c.cells <= most]
    fit += [Subset.of(3**size, epsilon, w) for w in (2, 3) if comb(3**size, w) <= min(most, 4096)]
    if not fit:
        raise PlanError(f"{len(views)} views of {size} keys have too many cells; take fewer keys")
    return min(fit, key=lambda c: over_subset(c, epsilon, prior, size, holding))


def _weights(schema: Schema, query: Query, keys: tuple[int, ...], view: tuple[int, ...]) -> Any:
    return lifted(query_weights(schema, query), keys, view, schema.levels)


def proportional(shares: Sequence[float]) -> tuple[int, ...]:
    """Positive integer weights that sum to 2^32, proportional to the shares up to rounding."""
    total = sum(shares)
    weights = [max(1, int(WORD * share / total)) for share in shares]
    weights[weights.index(max(weights))] += WORD - sum(weights)
    return tuple(weights)
