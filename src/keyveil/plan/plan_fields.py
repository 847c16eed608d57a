"""The fields of a plan, the checks they pass, and the facts that follow from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ..channel import Channel, Proof, worst_of
from ..channel.layout import Layout
from ..foundation.errors import ChannelError, PlanError
from ..people.scale import ExactScale
from ..people.schema import Schema
from ..people.views import Views
from .encoding import Encoding
from .packing import Packing
from .plan_parts import NO_ENCODING, PlanPart, check_parts, part_counts
from .recipe import Recipe
from .registry import REGISTRY, encoding_named

if TYPE_CHECKING:
    from .plan import Plan
    from .tally import Tally

MOST_SUBSET_STATES = 1 << 13
"""Maximum number of states of all ``subset`` channels: a proof takes quadratic time."""
TOO_MANY_SUBSETS = f"the subset channels of a plan have at most {MOST_SUBSET_STATES} states in all"


@dataclass(frozen=True)
class PlanFields:
    """Keys, how a record becomes a state, the channel's integers, promised and proven epsilon.

    A plan of parts has the views and channels of all its parts, one after the other, and no encoding of
    its own. ``part_plans`` are the plans to ask about encodings: the parts', or the plan itself.
    """

    schema: Schema
    views: Views
    encode: str
    channels: tuple[Channel, ...]
    promised: Decimal
    mechanism_name: str
    calibrate: str = "paper"
    channel_of: tuple[int, ...] | None = None
    parameters: Mapping[str, int | str] = field(default_factory=dict)
    """As in the document: values and spreads are on [-1, 1]. See ``parameters_on_scale``."""
    chain: Mapping[str, Any] | None = None
    parts: tuple[PlanPart, ...] | None = None

    def __post_init__(self) -> None:
        if sum(c.proof_steps for c in self.channels) > MOST_SUBSET_STATES:
            raise PlanError(TOO_MANY_SUBSETS)
        if self.parts is None:
            self._check_channels()
        else:
            check_parts(self.parts)
        if not self.proof.keeps(self.promised):
            raise ChannelError(
                f"the channel breaks its promise of epsilon {self.promised}: {self.proof}"
            )
        _ = self.layout.cells

    def _check_channels(self) -> None:
        encoding = self.encoding
        if not self.channels:
            raise PlanError("a plan has at least one channel")
        of = self.channel_of
        if of is not None and (
            len(of) != len(self.views) or any(not 0 <= c < len(self.channels) for c in of)
        ):
            raise PlanError("a plan with several channels names one for each view")
        if not encoding.speaks_of_views and self.views != Views.whole(len(self.schema.keys)):
            raise PlanError("this encoding speaks of all keys in one view")
        for view, channel in zip(self.views.keys, self.view_channels, strict=True):
            if not encoding.fits(self.schema, channel, view):
                raise PlanError("a channel does not fit the states of its view")

    @property
    def _plan(self) -> Plan:
        """The same object; ``Plan`` is the only class that has these fields."""
        return cast("Plan", self)

    # -- facts -----------------------------------------------------------------------------------

    @cached_property
    def encoding(self) -> Encoding:
        """How a record becomes a state; ``encode`` is its name in documents."""
        if self.parts is not None:
            raise PlanError(NO_ENCODING)
        return encoding_named(self.encode)

    @cached_property
    def part_plans(self) -> tuple[Plan, ...]:
        """The plans of the parts; of a plan without parts, itself."""
        return (self._plan,) if self.parts is None else tuple(part.plan for part in self.parts)

    def part_tallies(self, tally: Tally) -> list[Tally]:
        """The tally of each part's plan, in the order of ``part_plans``."""
        from .tally import Tally

        if self.parts is None:
            return [tally]
        counts = part_counts(self._plan, tally.counts)
        return [Tally(plan, own) for plan, own in zip(self.part_plans, counts, strict=True)]

    @property
    def speaks_of_size(self) -> bool:
        """Whether all that it asks is how many keys are held."""
        return all(plan.encoding.speaks_of_size for plan in self.part_plans)

    @cached_property
    def parameters_on_scale(self) -> dict[str, int | str]:
        """The parameters as they are typed and shown: values and spreads are on the range of the keys.

        ``Plan.of`` takes them and returns the same plan. If keys have different ranges, they are those
        of the document.
        """
        return self.mechanism.shown(self.parameters, ExactScale.of(self.schema))

    @cached_property
    def view_channels(self) -> tuple[Channel, ...]:
        """The channel of each view."""
        if self.channel_of is None:
            return (self.channels[0],) * len(self.views)
        return tuple(self.channels[c] for c in self.channel_of)

    @cached_property
    def cap(self) -> int:
        """The number of keys that a record is cut or padded to, or of buckets of its size; else 0."""
        return self.encoding.cap(self.view_channels[0], len(self.schema.keys))

    def views_of(self, channel: int) -> list[int]:
        """The views that draw from a channel, by its number."""
        of = self.channel_of
        return [view for view in range(len(self.views)) if of is None or of[view] == channel]

    @cached_property
    def layout(self) -> Layout:
        """The cells of the tally that reports mark."""
        return Layout(self.view_channels, self.parts is not None)

    @cached_property
    def packing(self) -> Packing:
        """How reports become codes, rows and bits, and which of them are possible."""
        return Packing(self._plan.hash, self.layout)

    @cached_property
    def proof(self) -> Proof:
        """The worst pair of records over all channels, with the encoding before them."""
        if self.parts is not None:
            return worst_of(plan.proof for plan in self.part_plans)
        keys = len(self.schema.keys)
        return worst_of(self.encoding.proof(channel, keys) for channel in self.channels)

    @property
    def proven(self) -> Decimal:
        """The true epsilon of one report, rounded up."""
        return self.proof.epsilon

    @property
    def bits_per_report(self) -> float:
        """Minimum number of bits of a report: the view's number and the output."""
        return float(np.log2(len(self.views))) + max(c.bits() for c in self.channels)

    @property
    def mechanism(self) -> Recipe:
        """The mechanism that made the plan, with the answers that this plan has."""
        return REGISTRY[self.mechanism_name].of_plan(self._plan)
