"""How a record becomes a state; which words it takes never depends on what the person holds.

Word 0 of every stream picks the view. Then, from word 1 on:

- ``views``: one rounding word for each key of the view, held or not. The state is a number in base
  ``levels + 1``, the view's first key the most significant digit: 0 not held, 1.. the level.
- ``item``: one word picks one of the held keys, all equally likely, keys in the plan's order. State
  0 is "holds nothing", 1 + place otherwise.
- ``signs``: one word for each key. The state is a vector of signs: the value rounded to -1 or +1,
  and a fair coin for a key that is not held (whose value counts as 0).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .arrays import WORD, Bits, Integers
from .coins import Stream
from .errors import PlanError
from .people import People
from .schema import Schema
from .views import Views

MOST_STATES = 1 << 62


def states_of(schema: Schema, keys: int) -> int:
    """How many states a view of so many keys has."""
    count = (schema.levels + 1) ** keys
    if count > MOST_STATES:
        raise PlanError(f"a view of {keys} keys has too many states; use smaller views")
    return int(count)


def encode_views(
    schema: Schema, views: Views, people: People, picked: Integers, stream: Stream
) -> Integers:
    """Each person's state in the view that was picked."""
    who = np.repeat(np.arange(len(people)), np.diff(people.starts))
    if len(views) == 1:
        return _encode_whole(schema, views, people, who, stream)
    widest = int(views.sizes.max())
    wanted = np.full((len(views), widest), -1, np.int64)
    for number, view in enumerate(views.keys):
        wanted[number, : len(view)] = view
    base = schema.levels + 1
    states = np.zeros(len(people), np.int64)
    for place in range(widest):
        digits = np.zeros(len(people), np.int64)
        asked = wanted[picked, place]
        rows = np.flatnonzero(people.keys == asked[who])
        at = who[rows]
        words = stream.words(place, 1)[at, 0]
        digits[at] = schema.rounded(people.keys[rows], people.values[rows], words)
        states = np.where(asked >= 0, states * base + digits, states)
    return states


def _encode_whole(
    schema: Schema, views: Views, people: People, who: Integers, stream: Stream
) -> Integers:
    view = views.keys[0]
    base = schema.levels + 1
    place = np.full(len(schema.keys), -1, np.int64)
    place[list(view)] = np.arange(len(view))
    worth = np.array([base ** (len(view) - 1 - i) for i in range(len(view))], np.int64)
    at = place[people.keys]
    rows = np.flatnonzero(at >= 0)
    words = stream.words(0, len(view))[who[rows], at[rows]]
    digits = schema.rounded(people.keys[rows], people.values[rows], words)
    states = np.zeros(len(people), np.int64)
    np.add.at(states, who[rows], digits * worth[at[rows]])
    return states


def encode_item(
    schema: Schema, views: Views, people: People, picked: Integers, stream: Stream
) -> Integers:
    """One held key, drawn uniformly."""
    held = np.diff(people.starts)
    word = stream.words(0, 1)[:, 0].astype(np.uint64)
    chosen = people.starts[:-1] + ((word * held.astype(np.uint64)) >> np.uint64(32)).astype(np.int64)
    states = np.zeros(len(people), np.int64)
    some = held > 0
    states[some] = 1 + people.keys[chosen[some]].astype(np.int64)
    return states


def encode_signs(schema: Schema, views: Views, people: People, picked: Integers, stream: Stream) -> Bits:
    """A sign for every key."""
    words = stream.words(0, len(schema.keys))
    signs = (words < np.uint32(WORD // 2)).astype(np.uint8)
    who = np.repeat(np.arange(len(people)), np.diff(people.starts))
    drawn = words[who, people.keys]
    signs[who, people.keys] = schema.rounded(people.keys, people.values, drawn) - 1
    return signs


Encoder = Callable[[Schema, Views, People, Integers, Stream], np.ndarray]

ENCODERS: dict[str, Encoder] = {
    "views": encode_views,
    "item": encode_item,
    "signs": encode_signs,
}


def words_taken(encode: str, schema: Schema, keys: int) -> int:
    """How many words encoding takes for a view of so many keys, after the word for the view."""
    return {"views": keys, "item": 1, "signs": len(schema.keys)}[encode]
