"""The exact laws of one record: of its state in a view, and of its report."""

from __future__ import annotations

import numpy as np

from ..channel import Channel
from ..channel.shapes.seed_pool import pool_of
from ..foundation.arrays import Floats
from ..foundation.coins import address
from ..foundation.exact import Number
from ..mechanisms import mechanism_named
from ..people.people import People, place_type
from ..people.schema import Record, Schema
from ..plan.encoding import Held, StateLaw
from ..plan.plan import Plan


def example_plan(schema: Schema, name: str, epsilon: Number = 1, calibrate: str = "paper") -> Plan:
    """An example plan of a mechanism, with the parameters that it requires."""
    return Plan.of(schema, name, epsilon, calibrate, **mechanism_named(name).example(schema))


def speaks_singly(plan: Plan) -> bool:
    """Whether the answer for every key comes from one law: its own view, a drawn item, signs or sets.

    If several views hold a key, or views hold several keys, answers combine many laws. Such mechanisms
    have their own tests, and only their channels are checked here.
    """
    if plan.parts is not None:
        return all(speaks_singly(own) for own in plan.part_plans)
    if plan.encoding.speaks_of_views:
        return sorted(plan.views.keys) == [(place,) for place in range(len(plan.schema.keys))]
    return True


def crowd(schema: Schema, record: Record, count: int) -> People:
    """``count`` people who hold the same record, each with their own coins."""
    held = schema.checked(record)
    places = sorted(held)
    return People(
        address(np.arange(count)),
        np.arange(count + 1, dtype=np.int64) * len(places),
        np.tile(np.array(places, place_type(schema)), count),
        np.tile(np.array([held[place] for place in places], np.float64), count),
    )


def report_law(plan: Plan, record: Record) -> Floats:
    """Pr[cell | record] of every cell that is no view's own, over part, view, encoding and channel."""
    held = plan.schema.checked(record)
    laws = []
    for view, (share, channel) in enumerate(zip(plan.views.shares, plan.view_channels, strict=True)):
        laws.append(share * expected_marks(channel, state_law(plan, view, held))[: channel.cells])
    return np.concatenate(laws)


def state_law(plan: Plan, view: int, held: Held) -> StateLaw:
    """The law of the states of one record in one view."""
    own, number = plan.part_of(view)
    return own.encoding.record_law(own.schema, own.views.keys[number], held, own.cap)


def record_law(plan: Plan, held: Held, view: int = 0) -> Floats:
    """The law ``(states,)`` of one record's state in one view, if states have numbers."""
    return dense_law(plan.view_channels[view], state_law(plan, view, held))


def dense_law(channel: Channel, law: StateLaw) -> Floats:
    """The law ``(states,)`` over all states. Signs are the bits of a number, the first key lowest."""
    dense = np.zeros(channel.states)
    for state, chance in law.items():
        number = state if isinstance(state, int) else sum(sign << i for i, sign in enumerate(state))
        dense[number] += chance
    return dense


def expected_marks(channel: Channel, law: StateLaw) -> Floats:
    """The law of the outputs, or the expected marks, if states follow ``law``."""
    if channel.state_kind != "items":
        return channel.mix(dense_law(channel, law))
    channel = pool_of(channel)
    seen = np.zeros(channel.cells)
    for items, chance in law.items():
        seen += chance * channel.law_of(np.array(items, np.int64))
    return seen
