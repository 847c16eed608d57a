"""How a record becomes a state; which words it takes never depends on what the person holds.

Word 0 of every stream picks the view. Then, from word 1 on:

- ``views``: one rounding word for each key of the view, held or not. The state is a number in base
  ``levels + 1``, the view's first key the most significant digit: 0 not held, 1.. the level.
- ``item``: one word picks one of the held keys, all equally likely, keys in the plan's order. State
  0 is "holds nothing", 1 + place otherwise.
- ``signs``: one word for each key. The state is a vector of signs: the value rounded to -1 or +1,
  and a fair coin for a key that is not held (whose value counts as 0).
- ``items``: the set of held *signed keys*, of at most ``cap`` keys. With values at two levels the item
  of a key is 2 place + level - 1. Words 0 .. cap - 1 choose which keys are kept, words
  cap .. 2 cap - 1 round their values: 2 cap words, whatever is held.
- ``pair_items``: the same items and words, and with them each pair of kept keys a < b as one more
  item, 2 d + 4 (rank of the pair, in lexicographic order) + 2 (level of a - 1) + level of b - 1.
- ``padded``: one signed key, drawn from the held keys and, where these are fewer than the *length*,
  from as many dummy keys as there are to it. With h held keys let m = max(h, length) and number =
  floor(word 0 * m / 2^32): the held key of that number, or if there is none the dummy key
  d + floor(word 1 * length / 2^32), whose value is 0. Word 2 rounds the value. The state is
  2 place + level - 1, dummies included: 3 words, whatever is held.
- ``size``: how many keys are held, in buckets: no words. See ``bucket_of``.

Of h held keys in the plan's order, k = min(cap, h) are kept. Floyd's way draws every choice of them
equally likely: for i = 0 .. k - 1 let last = h - k + i, and keep number floor(word i * (last + 1) /
2^32), or number ``last`` if that one is kept already. Word cap + i rounds the value of the i-th one.
Who holds no more than the cap keeps all, in order.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import isqrt
from typing import Any

import numpy as np

from ..channel import Channel, Proof
from ..foundation.arrays import WORD, Bits, Integers, Words
from ..foundation.coins import Stream
from ..foundation.errors import PlanError
from ..people.people import People
from ..people.schema import Schema
from ..people.views import Views

MOST_STATES = 1 << 62

MOST_CAP = 64
"""Keys of a person that count in a set: a device compares each kept key with those before it."""

SETS = ("items", "pair_items")
"""Encodings whose state is a set of items: rows of item numbers, filled up with -1."""


def states_of(schema: Schema, keys: int) -> int:
    """How many states a view of so many keys has."""
    base = schema.levels + 1
    if keys > MOST_STATES.bit_length() or base**keys > MOST_STATES:
        raise PlanError(f"a view of {keys} keys has too many states; use smaller views")
    return int(base**keys)


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


def items_of(encode: str, keys: int) -> int:
    """How many items there are over so many keys: signed keys, and signed pairs of keys."""
    return 2 * keys if encode == "items" else 2 * keys * keys


def most_held(encode: str, cap: int) -> int:
    """How many items a person has at the most, who keeps at most ``cap`` keys."""
    return cap if encode == "items" else cap * (cap + 1) // 2


def cap_of(encode: str, held: int) -> int:
    """The cap on keys that leaves at most ``held`` items; 0 if no cap leaves just so many."""
    cap = held if encode == "items" else (isqrt(8 * held + 1) - 1) // 2
    return cap if most_held(encode, cap) == held else 0


def pair_item(keys: int, one: Any, two: Any) -> Any:
    """The first of the four items of each pair of places ``one < two``: both at the low level."""
    rank = one * (2 * keys - one - 1) // 2 + two - one - 1
    return 2 * keys + 4 * rank


def _kept(people: People, cap: int, words: Words) -> Integers:
    """The rows of the keys that each person keeps, in the order in which they are drawn; else -1."""
    held = np.diff(people.starts)
    kept = np.minimum(held, cap)
    chosen = np.full((len(people), cap), -1, np.int64)
    for i in range(cap):
        last = held - kept + i
        number = (words[:, i].astype(np.int64) * (last + 1)) >> 32
        taken = (chosen[:, :i] == number[:, None]).any(axis=1)
        chosen[:, i] = np.where(i < kept, np.where(taken, last, number), -1)
    return np.where(chosen < 0, -1, chosen + people.starts[:-1, None])


def encode_items(
    schema: Schema, views: Views, people: People, picked: Integers, stream: Stream, cap: int = 0
) -> Integers:
    """The held signed keys, of at most ``cap`` keys."""
    words = stream.words(0, 2 * cap)
    rows = _kept(people, cap, words)
    who, at = np.nonzero(rows >= 0)
    row = rows[who, at]
    places = people.keys[row].astype(np.int64)
    digits = schema.rounded(places, people.values[row], words[who, cap + at])
    items = np.full(rows.shape, -1, np.int64)
    items[who, at] = 2 * places + digits - 1
    return items


def encode_pair_items(
    schema: Schema, views: Views, people: People, picked: Integers, stream: Stream, cap: int = 0
) -> Integers:
    """The held signed keys and the signed pairs of them, of at most ``cap`` keys."""
    single = encode_items(schema, views, people, picked, stream, cap)
    first, second = np.triu_indices(cap, 1)
    one = np.minimum(single[:, first], single[:, second])  # items ascend as places do
    two = np.maximum(single[:, first], single[:, second])
    pairs = pair_item(len(schema.keys), one // 2, two // 2) + 2 * (one % 2) + two % 2
    return np.concatenate([single, np.where(one < 0, -1, pairs)], axis=1)


def encode_padded(
    schema: Schema, views: Views, people: People, picked: Integers, stream: Stream, cap: int = 0
) -> Integers:
    """One held signed key, or a dummy; ``cap`` is the padding length."""
    held = np.diff(people.starts)
    words = stream.words(0, 3)
    number = (words[:, 0].astype(np.int64) * np.maximum(held, cap)) >> 32
    dummy = (words[:, 1].astype(np.int64) * cap) >> 32
    states = 2 * (len(schema.keys) + dummy) + (words[:, 2] < np.uint32(WORD // 2))
    own = np.flatnonzero(number < held)
    row = people.starts[own] + number[own]
    places = people.keys[row].astype(np.int64)
    states[own] = 2 * places + schema.rounded(places, people.values[row], words[own, 2]) - 1
    return states


def bucket_of(held: Any) -> Any:
    """The bucket of a number of keys: each of 0 .. 7 for itself, then four to every doubling.

    With e = floor(log2 h) it is 4 (e - 1) + floor(h / 2^(e - 2)) - 4: 8 and 9 together, 10 and 11,
    12 and 13, 14 and 15, then 16 to 19, and so on.
    """
    number = np.asarray(held, np.int64)
    power = np.maximum(np.frexp(np.maximum(number, 1).astype(np.float64))[1] - 1, 2)
    return np.where(number < 8, number, 4 * (power - 1) + (number >> (power - 2)) - 4)


def bucket_ends(buckets: int) -> Integers:
    """The largest number of keys in each bucket; the last one has no end, and says its first."""
    last = [int(b) for b in range(8)]
    while len(last) < buckets:
        last.append(last[-1] + (1 << (len(last) // 4 - 1)))
    ends = np.array(last[:buckets], np.int64)
    ends[-1] = last[buckets - 2] + 1 if buckets > 1 else 0
    return ends


def encode_size(
    schema: Schema, views: Views, people: People, picked: Integers, stream: Stream, cap: int = 0
) -> Integers:
    """The bucket of how many keys are held; ``cap`` is the number of buckets."""
    return np.minimum(bucket_of(np.diff(people.starts)), cap - 1)


Encoder = Callable[..., np.ndarray]
"""Of schema, views, people, picked views and stream; some also of a cap, see ``cap_in``."""

ENCODERS: dict[str, Encoder] = {
    "views": encode_views,
    "item": encode_item,
    "signs": encode_signs,
    "items": encode_items,
    "pair_items": encode_pair_items,
    "padded": encode_padded,
    "size": encode_size,
}


def cap_in(encode: str, channel: Channel, keys: int) -> int:
    """What a channel says of the encoding before it: how many keys count, at the most.

    The cap of a set, the padding length, or the number of buckets of a size; 0 where there is none.
    """
    if encode in SETS:
        return cap_of(encode, int(getattr(channel, "held", 0)))
    if encode == "padded":
        if channel.shape == "symbols":
            return max(0, int(getattr(channel, "positions", 0)) - keys)
        return max(0, channel.states // 2 - keys)
    return channel.states if encode == "size" else 0


def encoder_of(encode: str, cap: int) -> Encoder:
    """The encoder of that name; those of sets and sizes with their cap."""
    capped = encode in (*SETS, "padded", "size")
    return partial(ENCODERS[encode], cap=cap) if capped else ENCODERS[encode]


def words_taken(encode: str, schema: Schema, keys: int, cap: int = 0) -> int:
    """How many words encoding takes for a view of so many keys, after the word for the view."""
    taken = {"views": keys, "item": 1, "signs": len(schema.keys), "padded": 3, "size": 0}
    return 2 * cap if encode in SETS else taken[encode]


# -- the promise is over records -------------------------------------------------------------------


def proof_over_records(encode: str, channel: Channel, keys: int) -> Proof:
    """The worst ratio of any output between two *records*, by exact integers.

    A record is a mixture of states, so the worst ratio between states always bounds it, and is the
    proof wherever records reach it: all encodings but one. Padding spreads a record over at least
    ``length`` states, and k-RR after it gains by that: an output is likelier by its own state alone,
    whose share of a record is at most ceil(2^32 / length) of 2^32 words, for a held key (m >= length
    numbers share the words) and all the more for a dummy. From the other states, and from records
    without it, the output is a lie. So the worst ratio is

        (share keep + (2^32 - share) lie') / (2^32 lie),

    with lie' = lie + 1 where the channel's rest gives some lies one unit more.
    """
    from ..channel import Symmetric

    length = cap_in(encode, channel, keys)
    if encode != "padded" or not isinstance(channel, Symmetric) or length < 1:
        return channel.proof()
    share = -(-WORD // length)
    lie = channel.lie + (channel.rest > 0)
    likely = share * max(channel.keep, lie) + (WORD - share) * lie
    return Proof(likely, WORD * channel.lie, (1, 0), f"an item (states: holds it, one of {length})")
