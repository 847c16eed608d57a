"""The differences between two collections' plans, and which of them are unsafe."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from ....foundation.exact import difference, text, total
from ....plan.plan import Plan

Difference = dict[str, Any]


def _difference(what: str, old: object, new: object, unsafe: str = "") -> Difference:
    """One difference between two plans.

    ``unsafe`` says why it is unsafe for people or for comparisons; empty if it is safe.
    """
    return {"what": what, "old": old, "new": new, "unsafe": unsafe}


def compare_plans(old: Plan, new: Plan) -> dict[str, Any]:
    """All differences of two plans, and the epsilon of a person who answers both."""
    both = total((all_rounds(old), all_rounds(new)))
    if old.hash == new.hash:
        same = "a device answers a plan once: the collection that asks second gets no report from it"
        differences = [_difference("plan", old.hash, new.hash, same)]
        both = all_rounds(old)
    else:
        differences = [*_epsilon(old, new), *_schema(old, new), *_law(old, new)]
    return {
        "same_plan": old.hash == new.hash,
        "differences": differences,
        "unsafe": [change["what"] for change in differences if change["unsafe"]],
        "comparable": not {"ranges", "levels", "mechanism"} & {c["what"] for c in differences},
        "epsilon_of_both": text(both),
    }


def all_rounds(plan: Plan) -> Decimal:
    """Largest epsilon of a person who answers all rounds of a collection, starting with this plan.

    The first round costs what it proves. Later rounds prove no more than what is left of the total. If
    people are split between two plans, each person answers one of them.
    """
    if plan.chain is None:
        return plan.proven
    whole, spent = Decimal(str(plan.chain["total"])), Decimal(str(plan.chain.get("spent", "0")))
    if "share" in plan.chain:
        return max(whole, plan.proven)
    if spent:  # a later round: not every plan states what is left for the others
        return max(whole, total((spent, plan.proven)))
    return total((plan.proven, max(Decimal(0), difference(whole, plan.promised))))


def _epsilon(old: Plan, new: Plan) -> list[Difference]:
    differences = []
    if old.promised != new.promised:
        more = new.promised > old.promised
        why = "each person's epsilon is larger than before" if more else ""
        differences.append(_difference("epsilon", text(old.promised), text(new.promised), why))
    spread = _totals(old), _totals(new)
    if spread[0] != spread[1]:
        more = spread[1] > spread[0]
        why = "the epsilon of all rounds together is larger than before" if more else ""
        differences.append(_difference("total epsilon", text(spread[0]), text(spread[1]), why))
    return differences


def _totals(plan: Plan) -> Decimal:
    return plan.promised if plan.chain is None else Decimal(str(plan.chain["total"]))


def _schema(old: Plan, new: Plan) -> list[Difference]:
    differences = []
    before, after = set(old.schema.keys), set(new.schema.keys)
    if before - after:
        why = "these keys get no more answers"
        differences.append(_difference("keys removed", len(before - after), 0, why))
    if after - before:
        differences.append(_difference("keys added", 0, len(after - before)))
    shared = sorted(before & after)
    ranges = [_range(old, key) != _range(new, key) for key in shared]
    if any(ranges):
        why = "the same value is encoded differently: means cannot be compared"
        differences.append(_difference("ranges", sum(ranges), sum(ranges), why))
    if old.schema.levels != new.schema.levels:
        why = "values are rounded to other levels"
        differences.append(_difference("levels", old.schema.levels, new.schema.levels, why))
    if not (before - after or after - before) and old.schema.keys != new.schema.keys:
        differences.append(_difference("order of keys", "", ""))
    return differences


def _range(plan: Plan, key: str) -> tuple[float, float]:
    place = plan.schema.place(key)
    return float(plan.schema.low[place]), float(plan.schema.high[place])


def _law(old: Plan, new: Plan) -> list[Difference]:
    differences = []
    if old.mechanism_name != new.mechanism_name:
        why = "the error of the answers changes, and possibly their bias"
        differences.append(_difference("mechanism", old.mechanism_name, new.mechanism_name, why))
    if old.encode != new.encode or old.views != new.views:
        differences.append(_difference("views", len(old.views), len(new.views)))
    if dict(old.parameters) != dict(new.parameters):
        before, after = old.parameters_on_scale, new.parameters_on_scale
        differences.append(_difference("parameters", before, after))
    if old.proven != new.proven:
        differences.append(_difference("proven epsilon", text(old.proven), text(new.proven)))
    return differences
