"""Parts: one plan that asks different people different questions in one round.

Word 0 picks a part by public weights. The device then does what it does for the part's own plan, with
the words from word ``WORDS_BEFORE`` on. Nothing depends on the record before that, so the epsilon of a
report is the largest of the parts'. The tally has the parts' cells one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from ..channel import Channel
from ..foundation.arrays import WORD, Floats, Integers, Words
from ..foundation.coins import WORDS_PER_BLOCK
from ..foundation.errors import PlanError
from ..foundation.exact import decimal, text, total
from ..foundation.stream import Stream
from ..people.people import People
from ..people.views import Views

if TYPE_CHECKING:
    from .plan import Plan

WORDS_BEFORE = WORDS_PER_BLOCK
"""Words that the choice of the part takes: one is used, the others keep a part's words aligned."""
MOST_PARTS = 8
"""Maximum number of parts of a plan."""
ENCODE = "parts"
"""What a plan of parts has in place of the name of its encoding."""
NO_WEIGHTS = "parts have whole positive weights that sum to 2^32"
NO_ENCODING = "this is not for a plan of parts as a whole: each part has an encoding of its own"


@dataclass(frozen=True)
class PlanPart:
    """A plan and its weight: so many of 2^32 words pick it."""

    weight: int
    plan: Plan

    @property
    def share(self) -> float:
        """The share of people who answer this part, exactly representable in doubles."""
        return self.weight / WORD

    def document(self) -> dict[str, Any]:
        """The part as JSON: what differs from the whole, so without keys, ranges and epsilon."""
        return {"weight": self.weight, "levels": self.plan.schema.levels, **self.plan.own_members}


@dataclass(frozen=True)
class PartViews(Views):
    """The views of all parts, one after the other. No single word picks one of them."""

    chances: tuple[float, ...] = ()

    @classmethod
    def of(cls, parts: Sequence[PlanPart]) -> PartViews:
        """The views of these parts."""
        keys = tuple(view for part in parts for view in part.plan.views.keys)
        shares = (part.share * part.plan.views.shares for part in parts)
        return cls(keys, None, tuple(np.concatenate(list(shares)).tolist()))

    @cached_property
    def shares(self) -> Floats:
        """The probability of each view."""
        return np.array(self.chances)

    @property
    def bounds(self) -> np.ndarray:
        raise PlanError(NO_ENCODING)

    def pick(self, words: Words) -> Integers:
        raise PlanError(NO_ENCODING)

    def document(self, keys: int) -> dict[str, Any]:
        raise PlanError(NO_ENCODING)


# -- checks and shares -----------------------------------------------------------------------------


def check_parts(parts: Sequence[PlanPart]) -> None:
    """Refuse parts that are no plan together."""
    if not 2 <= len(parts) <= MOST_PARTS:
        raise PlanError(f"a plan of parts has 2 to {MOST_PARTS} parts")
    weights = [part.weight for part in parts]
    if any(isinstance(w, bool) or not isinstance(w, int) or w < 1 for w in weights):
        raise PlanError(NO_WEIGHTS)
    if sum(weights) != WORD:
        raise PlanError(NO_WEIGHTS)
    first = parts[0].plan
    for part in parts:
        plan = part.plan
        if plan.parts is not None:
            raise PlanError("a part has no parts of its own")
        if plan.chain is not None:
            raise PlanError(f"{plan.mechanism_name} has several rounds; a part has one")
        if (plan.schema.keys, plan.schema.ranges) != (first.schema.keys, first.schema.ranges):
            raise PlanError("all parts of a plan have the same keys and ranges")
        if (plan.promised, plan.calibrate) != (first.promised, first.calibrate):
            raise PlanError("all parts of a plan promise one epsilon and are calibrated alike")


def flattened_channels(parts: Sequence[PlanPart]) -> tuple[tuple[Channel, ...], tuple[int, ...]]:
    """The channels of all parts, and the number of the channel of each view of all parts."""
    channels: list[Channel] = []
    channel_of: list[int] = []
    for part in parts:
        plan = part.plan
        own = plan.channel_of or (0,) * len(plan.views)
        channel_of += [len(channels) + number for number in own]
        channels += plan.channels
    return tuple(channels), tuple(channel_of)


def weights_of(shares: Sequence[object]) -> list[int]:
    """Weights from shares that sum to 1. At most one share is None; it is what the others leave."""
    if sum(share is None for share in shares) > 1:
        raise PlanError("at most one part is without a share; it gets what the others leave")
    stated = [None if share is None else decimal(share, "the share of a part") for share in shares]
    known = [share for share in stated if share is not None]
    sums_to = total(known)
    if any(not 0 < share < 1 for share in known):
        raise PlanError("the share of a part lies between 0 and 1")
    if (sums_to >= 1) if None in stated else (sums_to != 1):
        raise PlanError(f"the shares of all parts sum to 1, not {text(sums_to)}")
    weights = [0 if share is None else _weight(share) for share in stated]
    rest = stated.index(None) if None in stated else 0
    weights[rest] += WORD - sum(weights)
    if min(weights) < 1:
        raise PlanError(NO_WEIGHTS)
    return weights


def _weight(share: Decimal) -> int:
    return round(Fraction(share) * WORD)


def share_text(weight: int) -> str:
    """The shortest decimal whose weight this is."""
    for places in range(1, 12):
        digits = round(Fraction(weight * 10**places, WORD))
        if round(Fraction(digits, 10**places) * WORD) == weight:
            return f"0.{digits:0{places}}".rstrip("0")
    raise PlanError(NO_WEIGHTS)


# -- the device's side -----------------------------------------------------------------------------


def pick_parts(parts: Sequence[PlanPart], words: Words) -> Integers:
    """The number of the part that each word picks."""
    numbers = np.zeros(len(words), np.int64)
    for end in list(accumulate(part.weight for part in parts))[:-1]:  # few, so no search is faster
        numbers += words >= np.uint32(end)
    return numbers


def first_views(parts: Sequence[PlanPart]) -> Integers:
    """The number of each part's first view, and then the number of all views."""
    return np.cumsum([0, *(len(part.plan.views) for part in parts)])


def perturb_parts(plan: Plan, people: People, stream: Stream) -> tuple[np.ndarray, np.ndarray]:
    """Each person's view and output, as ``Plan.perturb`` returns them."""
    assert plan.parts is not None
    numbers = pick_parts(plan.parts, stream.words(0, 1)[:, 0])
    later, first = stream.skip(WORDS_BEFORE), first_views(plan.parts)
    one_cell = plan.layout.one_cell
    shape = len(people) if one_cell else (len(people), plan.packing.widest)
    views, outputs = np.empty(len(people), np.int64), np.zeros(shape, np.int64 if one_cell else np.uint8)
    for number in np.unique(numbers):
        rows = np.flatnonzero(numbers == number)
        picked, drawn = plan.parts[number].plan.perturb(some_people(people, rows), later.only(rows))
        views[rows] = first[number] + picked
        if one_cell:
            outputs[rows] = drawn
        elif drawn.ndim == 1:
            outputs[rows, drawn] = 1
        else:
            outputs[rows, : drawn.shape[1]] = drawn
    return views, outputs


def some_people(people: People, rows: Integers) -> People:
    """The people at these rows, with their own addresses."""
    return people.at_rows(rows, people.addresses[rows])


# -- tallies ---------------------------------------------------------------------------------------


def part_cells(plan: Plan) -> list[slice]:
    """The cells of each part in the tally of the whole; of a plan without parts, all cells."""
    ends = np.cumsum([0, *(own.layout.cells for own in plan.part_plans)]).tolist()
    return [slice(first, last) for first, last in pairwise(ends)]


def part_counts(plan: Plan, counts: Integers) -> list[Integers]:
    """The counts ``(..., cells)`` of each part's plan, from those of the whole."""
    return [np.asarray(counts)[..., cells] for cells in part_cells(plan)]
