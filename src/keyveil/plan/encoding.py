"""Encoding: how a record becomes a state, and the law of that state.

A device runs ``encode``. Word 0 of every stream picks the view; an encoding takes its words from word 1
on, and how many it takes never depends on what the person holds. The laws (``record_law``,
``population_law``) say how likely each state is; they follow from the words and are computed, not drawn.

The encodings are in ``keyveil.mechanisms.encodings``, one file each. There each one is also a
``StateDecoding``, which says how tallies of its states are read. Nothing else in the package asks for
an encoding by its name: what others need to know is an attribute or a method here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..channel import Channel, Proof
from ..foundation.arrays import WORD, Floats, Words
from ..foundation.stream import Stream
from ..people.people import People
from ..people.schema import Schema
from ..people.views import Views

if TYPE_CHECKING:
    from ..people.population import Population

MOST_CAP = 64
"""Keys of a person that count in a set: a device compares each kept key with those before it."""

Held = Mapping[int, float]
"""A checked record: values by the places of their keys."""

State = int | tuple[int, ...]
"""A number, a vector of signs (0 low, 1 high), or a set of items in ascending order."""

StateLaw = dict[State, float]
"""The chance of every state that is possible; they sum to one."""

FastEncode = Callable[[slice, Words, np.ndarray], Any]
"""States of a run of people, from their words and picked views, in the form that fast draws take."""


class Encoding(ABC):
    """How a record becomes a state; the other half, ``StateDecoding``, reads tallies of the states.

    ``cap`` is what the plan's channel says of the encoding; see the method of that name. ``view`` is
    the places of the view's keys; every encoding but ``views`` has one view of all keys.
    """

    name: ClassVar[str]
    """The encoding in a plan's document."""
    state_kind: ClassVar[str] = "number"
    """What a state is, "number", "signs" or "items": as the ``state_kind`` of the channel after it."""
    speaks_of_views: ClassVar[bool] = False
    """Whether the state is the joint state of the keys of a view."""
    speaks_of_size: ClassVar[bool] = False
    """Whether the state is how many keys are held, and not which."""
    draws_held_key: ClassVar[bool] = False
    """Whether the state is one held key, all equally likely: 0 for none, else 1 + its place."""
    keyless: ClassVar[str] = ""
    """What the states without a key are called, where every other state names one key; or empty."""
    item_width: ClassVar[int] = 0
    """The most keys of one item, where the state is a set of items; otherwise 0."""

    loop_room: ClassVar[str] = ""
    """The room of the compiled loops that encode; empty if there are none."""
    by_rows: ClassVar[bool] = False
    """Whether the loops read one word of many people at once, so that these lie side by side."""

    @property
    def speaks_of_sets(self) -> bool:
        """Whether the state is a set of items."""
        return self.state_kind == "items"

    # -- on the device -----------------------------------------------------------------------------

    @abstractmethod
    def fits(self, schema: Schema, channel: Channel, view: tuple[int, ...]) -> bool:
        """Whether the channel takes the states of this view."""

    def cap(self, channel: Channel, keys: int) -> int:
        """What a channel over ``keys`` keys says of the encoding before it; 0 where it says nothing.

        The most keys that are kept in a set, the padding length, or the number of buckets of a size.
        """
        return 0

    @abstractmethod
    def words(self, schema: Schema, keys: int, cap: int) -> int:
        """How many words a view of ``keys`` keys takes, after the word that picks the view."""

    @abstractmethod
    def encode(
        self,
        schema: Schema,
        views: Views,
        people: People,
        picked: np.ndarray,
        stream: Stream,
        cap: int = 0,
    ) -> np.ndarray:
        """The state of each person in the view that was ``picked``.

        Numbers ``(people,)``, signs ``(people, keys)``, or items ``(people, most)`` filled up with -1.
        """

    def fast_encode(
        self, schema: Schema, views: Views, people: People, cap: int, loops: Any
    ) -> FastEncode:
        """``encode`` in compiled loops, for runs of these people; only if there is a ``loop_room``."""
        raise NotImplementedError(f"{self.name} has no compiled loops")

    def proof(self, channel: Channel, keys: int) -> Proof:
        """The worst ratio of any output between two *records*, by exact integers.

        A record is a mixture of states, so the worst ratio between states always bounds it. It is the
        proof unless the encoding hides every state among others.
        """
        return channel.proof()

    def telling_records(self, schema: Schema) -> list[dict[int, float]]:
        """Records whose states differ from each other and from that of an empty record."""
        return [{place: float(high)} for place, high in enumerate(schema.high)]

    # -- the law of the states ---------------------------------------------------------------------

    @abstractmethod
    def record_law(self, schema: Schema, view: tuple[int, ...], held: Held, cap: int = 0) -> StateLaw:
        """The exact law of the state of one record."""

    def population_law(self, population: Population, view: tuple[int, ...], cap: int) -> Floats | None:
        """The law ``(states,)`` of a random person's state; None where states are no numbers.

        The population's values are rounded to the levels of the plan.
        """
        return None

    def most_counted(self, cap: int) -> int | None:
        """The most keys of one person that count; None if all do."""
        return None

    def largest_chance(self, cap: int) -> float:
        """The largest chance that any record gives to one state."""
        return 1.0

    def key_states(self, place: int) -> tuple[int, ...]:
        """The states that name the key at ``place``; none unless ``keyless`` is set."""
        return ()

    def dummies(self, cap: int) -> int:
        """How many dummy keys there are besides the real ones."""
        return 0

    def key_share(self, views: Views, keys: int) -> float:
        """The share of reports that speak of a key, averaged over ``keys`` keys."""
        return 1.0


# -- shared by several encodings -------------------------------------------------------------------


def digit_law(schema: Schema, place: int, held: Held) -> dict[int, float]:
    """The chance of each digit of a key: 0 if it is not held, else its value rounded, 1 .. levels."""
    if place not in held:
        return {0: 1.0}
    below, chance = schema.between_levels(np.array([place]), np.array([held[place]]))
    digit, up = int(below[0]) + 1, int(chance[0] * WORD) / WORD
    return {digit + is_up: share for is_up, share in ((0, 1 - up), (1, up)) if share}


def joint_law(laws: list[dict[int, float]]) -> Iterator[tuple[tuple[int, ...], float]]:
    """The values of independent parts together, each with its chance."""
    for parts in product(*(part.items() for part in laws)):
        yield tuple(value for value, _ in parts), prod(chance for _, chance in parts)


def word_share(number: int, of: int) -> float:
    """The share of all words for which floor(word * of / 2^32) is ``number``."""
    first, last = (-(-end * WORD // of) for end in (number, number + 1))
    return (last - first) / WORD


def pair_item(keys: int, first: Any, second: Any) -> Any:
    """The first of the four items of each pair of places ``first < second``: both at the low level."""
    rank = first * (2 * keys - first - 1) // 2 + second - first - 1
    return 2 * keys + 4 * rank
