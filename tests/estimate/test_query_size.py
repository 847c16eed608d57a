"""How many keys a query may name: refused by number, before anything of that size is made."""

from __future__ import annotations

import tracemalloc

import pytest

from keyveil import Coins, People, Plan, Query, QueryError, Schema, Tally
from keyveil.estimate.together.conditional import MOST_STATES, Conditionals, check_size, query_weights

KEYS = [f"k{i}" for i in range(200)]


def query_of(number, kind="frequency"):
    return Query(kind, "k0", tuple((key, True) for key in KEYS[1:number]))


@pytest.fixture(scope="module")
def asked():
    plan = Plan.of(Schema.of(KEYS, 1, 5), "pairs", 1)
    people = People.of_records(plan.schema, [{"k1": 4, "k2": 1}] * 50)
    return Conditionals(plan, Tally(plan).add(plan.privatise(people, Coins.stated("size"))))


@pytest.mark.parametrize("number", [9, 13, 26, 61, 65, 200])
@pytest.mark.parametrize("kind", ["frequency", "mean", "lift"])
def test_every_way_in_is_bounded(asked, number, kind):
    query = query_of(number, kind)
    tracemalloc.start()
    for ask in (
        lambda: asked.answer(query),
        lambda: asked.answer(str(query)),
        lambda: asked.answers([query_of(2), query]),
        lambda: asked.prepare([query]),
        lambda: query_weights(asked.plan.schema, query),
    ):
        with pytest.raises(QueryError, match=f"at most 8 keys together .* names {number}$"):
            ask()
    assert tracemalloc.get_traced_memory()[1] < 5e6
    tracemalloc.stop()


def test_the_bound_goes_by_states():
    for levels, states in ((1, 2), (2, 3), (8, 9)):
        schema = Schema.of(KEYS, 1, 5).at(levels)
        most = max(n for n in range(1, 60) if states**n <= MOST_STATES)
        check_size(schema, query_of(most))
        with pytest.raises(QueryError, match=f"at most {most} keys"):
            check_size(schema, query_of(most + 1))
