"""Tight plans: the plans that the planner compares, each of which proves all of epsilon."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any

from ..people.schema import Schema
from ..plan.plan import Plan

MOST_KEPT_KEYS = 1024
"""The most keys of plans that are kept: they need little memory."""
MOST_KEPT = 512
"""The most plans that are kept."""


def tight_plan(schema: Schema, mechanism: str, epsilon: Decimal, parameters: Mapping[str, Any]) -> Plan:
    """The mechanism's plan that proves all of epsilon; parameters are those of its document."""
    return Plan.of_document(schema, mechanism, epsilon, "tight", parameters)


def kept_plan(schema: Schema, mechanism: str, epsilon: Decimal, parameters: Mapping[str, Any]) -> Plan:
    """The same, kept for the next question about this schema.

    Other numbers of people, other beliefs and what a pilot tells are compared by the same plans.
    """
    if len(schema.keys) > MOST_KEPT_KEYS:
        return tight_plan(schema, mechanism, epsilon, parameters)
    return _kept(_SchemaObject(schema), mechanism, str(epsilon), tuple(parameters.items()))


class _SchemaObject:
    """A schema that equals itself alone: equal ones may write their ranges differently."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _SchemaObject) and other.schema is self.schema

    def __hash__(self) -> int:
        return id(self.schema)


@lru_cache(maxsize=MOST_KEPT)
def _kept(
    schema: _SchemaObject, mechanism: str, epsilon: str, parameters: tuple[tuple[str, Any], ...]
) -> Plan:
    return tight_plan(schema.schema, mechanism, Decimal(epsilon), dict(parameters))
