"""Plan: the public contract, an immutable program for clients whose integers prove its epsilon.

``plan_fields`` has its fields and the facts that follow from them, ``plan_document`` its document,
``device_side`` what a device does under it. Here is how plans are made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..foundation.errors import PlanError
from ..foundation.exact import Number, own_context, text
from ..people.scale import DOCUMENT, ExactScale
from ..people.schema import Schema
from .device_side import DeviceSide
from .front_door import PlanDoor
from .plan_parts import ENCODE, PartViews, PlanPart, check_parts, flattened_channels, weights_of
from .recipe import Draft, Recipe, written
from .registry import mechanism_named, parse_mechanism

if TYPE_CHECKING:
    from .tally import Tally


@dataclass(frozen=True, init=False, repr=False, eq=False, match_args=False)
class Plan(DeviceSide, PlanDoor):
    """Keys, how a record becomes a state, the channel's integers, promised and proven epsilon.

    ``of``, ``choose`` and ``load`` make one.

    A plan of parts has the views and channels of all its parts, one after the other, and no encoding of
    its own. ``part_plans`` are the plans to ask about encodings: the parts', or the plan itself.
    """

    @classmethod
    def of(
        cls,
        schema: Schema,
        mechanism: str,
        epsilon: Number,
        calibrate: str = "paper",
        **parameters: Any,
    ) -> Plan:
        """The plan of a registered mechanism for the keys of ``schema``, which promises ``epsilon``.

        ``calibrate`` is "paper", parameters as published, or "tight", the largest that keep the promise.
        Other ``parameters`` are the mechanism's own, such as ``levels`` of ``graded``. Those that are
        values or spreads are on the range of the schema's keys. If keys have different ranges, they are
        on [-1, 1], whose ends are those of each key's own range. They may also be in the name, as in
        ``compare``: "graded:levels=5".
        """
        if not isinstance(schema, Schema):
            raise PlanError("a plan is made of a Schema first: Plan.of(schema, 'kvue', epsilon=1)")
        if not isinstance(mechanism, str):
            raise PlanError("a mechanism is named by text: Plan.of(schema, 'kvue', epsilon=1)")
        scale = ExactScale.of(schema)
        name, named = parse_mechanism(mechanism)
        twice = [parameter for parameter in named if parameter in parameters]
        if twice:
            raise PlanError(f"{twice[0]} is given twice: in {mechanism!r} and by itself")
        return cls._of_parameters(schema, name, epsilon, calibrate, {**named, **parameters}, scale)

    @classmethod
    def of_document(
        cls,
        schema: Schema,
        mechanism: str,
        epsilon: Number,
        calibrate: str,
        parameters: Mapping[str, Any],
    ) -> Plan:
        """The same from parameters as they stand in a document: values and spreads are on [-1, 1]."""
        return cls._of_parameters(schema, mechanism, epsilon, calibrate, parameters, DOCUMENT)

    @classmethod
    def _of_parameters(
        cls,
        schema: Schema,
        mechanism: str,
        epsilon: Number,
        calibrate: str,
        parameters: Mapping[str, Any],
        scale: ExactScale,
    ) -> Plan:
        kind = mechanism_named(mechanism)
        with own_context():
            drafted = kind.plan_draft(schema, epsilon, calibrate, parameters, scale)
        return cls._drafted(kind, drafted, calibrate)

    @classmethod
    def of_parts(cls, shares: Sequence[tuple[Number | None, Plan]]) -> Plan:
        """A plan whose people answer one of several plans, drawn with these shares, which sum to 1.

        One share may be None: it is what the others leave. All plans have the same keys, ranges and
        promised epsilon. Decimal text says a share exactly: "0.1" rather than 0.1.
        """
        weights = weights_of([str(s) if isinstance(s, float) else s for s, _ in shares])
        parts = tuple(PlanPart(weight, plan) for weight, (_, plan) in zip(weights, shares, strict=True))
        return cls.with_parts(ENCODE, parts)

    @classmethod
    def with_parts(
        cls,
        mechanism: str,
        parts: tuple[PlanPart, ...],
        parameters: Mapping[str, int | str] | None = None,
    ) -> Plan:
        """The plan of these parts, named after a mechanism that makes parts; see ``of_parts``."""
        check_parts(parts)
        plan, kind = parts[0].plan, mechanism_named(mechanism)
        schema = plan.schema.at(max(part.plan.schema.levels for part in parts))
        channels, channel_of = flattened_channels(parts)
        given = kind.parameters_of(parts) if parameters is None else parameters
        facts = schema, PartViews.of(parts), ENCODE, channels, plan.promised, mechanism, plan.calibrate
        return cls(*facts, channel_of, given, None, parts)

    @classmethod
    def _drafted(cls, kind: Recipe, drafted: Draft, calibrate: str) -> Plan:
        if drafted.parts is not None:
            return cls.with_parts(kind.name, drafted.parts, written(drafted.parameters))
        return cls(
            drafted.schema,
            drafted.views,
            drafted.encode,
            drafted.channels,
            drafted.promised,
            kind.name,
            calibrate,
            drafted.channel_of,
            written(drafted.parameters),
            drafted.chain,
        )

    def next(self, tally: Tally) -> Plan:
        """The next round of an interactive mechanism, made from what this round learned."""
        tally.belongs_to(self)
        kind = mechanism_named(self.mechanism_name)
        with own_context():
            drafted = kind.next(self, tally)
        return self._drafted(kind, drafted, self.calibrate)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plan) and self.hash == other.hash

    def __hash__(self) -> int:
        return hash(self.hash)

    def __repr__(self) -> str:
        return (
            f"Plan({self.mechanism_name}, {len(self.schema.keys)} keys, epsilon {text(self.promised)}, "
            f"{self.hash[:12]})"
        )

    __str__ = __repr__
