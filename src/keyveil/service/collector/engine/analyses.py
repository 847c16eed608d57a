"""Analyses for the dashboard: rules, forecasts, people needed. The desk's threads compute them."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb
from typing import Any

from ....estimate.learn.rules import CONTROLS, SIGNS
from ....estimate.learn.rules import rules as find_rules
from ....estimate.together.conditional import Conditionals
from ....estimate.together.people_needed import people_needed
from ....people.scale import Scale
from ....plan.plan import Plan
from ....plan.tally import Tally
from ....planner.error_curve import error_curve, error_so_far
from ..process.problems import Problem
from ..store.collection import Round
from .answer_desk import AnswerDesk, Deadline, check_queries, parsed_queries

MOST_RULES = 40_000
"""Maximum number of rules that are tested for one request: all pairs of 200 keys."""
MOST_LISTED = 500
"""Maximum number of rules in an answer."""
MOST_PEOPLE = 1e15


async def rules(
    desk: AnswerDesk,
    round_: Round,
    level: float,
    false_discovery: float,
    lift: float,
    given: str,
    most: int,
) -> dict[str, Any]:
    """Association rules above noise, the surest first."""
    if given not in SIGNS:
        raise Problem("invalid", f"'given' is one of {', '.join(SIGNS)}")
    if not 1 <= most <= 3:
        raise Problem("invalid", "'conditions' is 1, 2 or 3")

    def work(plan: Plan, tally: Tally, deadline: Deadline) -> dict[str, Any]:
        keys, signs = len(plan.schema.keys), len(SIGNS[given])
        tested = keys * sum(comb(keys - 1, size) * signs**size for size in range(1, most + 1))
        if tested > MOST_RULES:
            raise Problem(
                "invalid", f"these are {tested:,} rules, and {MOST_RULES:,} are tested at most"
            )
        source = Conditionals(plan, tally, level=level)
        rules = find_rules(source, 0.0, lift, false_discovery, given=given, conditions=most)
        facts = {"level": level, "false_discovery": false_discovery, "control": CONTROLS[0]}
        listed = [rule.document() for rule in rules[:MOST_LISTED]]
        return {**facts, "found": len(rules), "tested": tested, "rules": listed}

    return await desk.answer(round_, ("rules", level, false_discovery, lift, given, most), work)


async def needed(desk: AnswerDesk, round_: Round, texts: Sequence[str], level: float) -> dict[str, Any]:
    """The number of people with whom each query becomes estimable."""
    parsed = parsed_queries(texts)

    def work(plan: Plan, tally: Tally, deadline: Deadline) -> dict[str, Any]:
        check_queries(plan, parsed)
        source = Conditionals(plan, tally, level=level)
        source.prepare(parsed)
        answers = []
        for query in parsed:
            deadline.check()
            answers.append(people_needed(source, tally.reports, query).document())
        return {"answers": answers}

    return await desk.answer(round_, ("needed", tuple(texts), level), work)


async def forecast(desk: AnswerDesk, round_: Round, people: float | None) -> dict[str, Any]:
    """The error so far, and the predicted error against people."""
    if people is not None and not 1 <= people <= MOST_PEOPLE:
        raise Problem("invalid", "'people' is a number from 1 on")

    def work(plan: Plan, tally: Tally, deadline: Deadline) -> dict[str, Any]:
        center = people or max(tally.reports, 1000)
        curve = error_curve(plan, center)
        deadline.check()
        so_far = None if plan.speaks_of_size or people is not None else error_so_far(plan, tally)
        return {"scale": Scale.of(plan.schema).document(), "so_far": so_far, "curve": curve}

    return await desk.answer(round_, ("forecast", people), work)


def plan_facts(plan: Plan) -> dict[str, Any]:
    """What a plan asks, in words and numbers for people."""
    mechanism, layout = plan.mechanism, plan.layout
    return {
        "mechanism": plan.mechanism_name,
        "source": mechanism.source,
        "speaks_of": mechanism.speaks_of,
        "answers": list(mechanism.answers),
        "note": mechanism.note,
        "keys": len(plan.schema.keys),
        "promised": str(plan.promised),
        "proven": str(plan.proven),
        "bits": float(plan.bits_per_report),
        "cells": int(layout.cells),
    }
