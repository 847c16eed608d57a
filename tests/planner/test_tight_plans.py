"""The plans that the planner keeps between questions."""

from __future__ import annotations

from decimal import Decimal

from keyveil import Plan, Schema
from keyveil.planner.tight_plans import MOST_KEPT_KEYS, kept_plan


def test_a_plan_is_kept_for_its_schema_and_the_epsilon_as_written():
    """Equal schemas and epsilons may be written differently, and the document says them as written."""
    whole, point = Schema.of(5, "1", "5"), Schema.of(5, "1.0", "5")
    assert whole == point
    one, point_nought = Decimal("1"), Decimal("1.0")
    first_plan = kept_plan(whole, "collision", one, {"cap": 2})
    assert kept_plan(whole, "collision", one, {"cap": 2}) is first_plan
    for schema, epsilon, cap in ((point, one, 2), (whole, point_nought, 2), (whole, one, 3)):
        plan = kept_plan(schema, "collision", epsilon, {"cap": cap})
        alone = Plan.of_document(schema, "collision", epsilon, "tight", {"cap": cap})
        assert plan is not first_plan
        assert plan.dumps() == alone.dumps()


def test_plans_for_many_keys_are_not_kept():
    many = Schema.of(MOST_KEPT_KEYS + 1)
    plans = [kept_plan(many, "kvue", Decimal(1), {}) for _ in range(2)]
    assert plans[0] is not plans[1]
    assert plans[0] == plans[1]
