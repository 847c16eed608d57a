"""Write the vectors: for each plan, what a client must send for a record and recorded words.

``python vectors/make.py`` rewrites every file in its folder; docs/wire.md says how clients use them.
Words come from stated coins. A word that draws the output or picks the view is also taken from the
very edges of its slices.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

from keyveil import REGISTRY, Coins, People, Plan, Schema, Tally, Views
from keyveil.channel import Symbols, Symmetric, Table
from keyveil.foundation.arrays import WORD
from keyveil.foundation.stream import Stream
from keyveil.plan.plan_parts import WORDS_BEFORE

FORMAT = "keyveil/vector/1"
FOODS = Schema.of(["Fries", "Pepsi", "Salad"], 1, 5)
RANGES = Schema.of(
    ["age", "crème brûlée", "茶", "\U0001f35f"],
    ranges={"age": ("0", "120"), "crème brûlée": ("-0.1", "0.3"), "茶": ("1e-3", "1e3")},
)
MANY = Schema.of(40, 0, 10)
TOP = WORD - 1


def plans() -> Iterator[tuple[str, str, Plan]]:
    """The plans, each with a name and one sentence."""
    for name, kind in REGISTRY.items():
        plan = Plan.of(FOODS, name, 1, **kind.example(FOODS))
        yield name, f"{name} as published, epsilon 1", plan
    first = Plan.of(FOODS, "privkvm", 2, rounds=3)
    yield "privkvm_round_2", "each key has a channel of its own", first.next(_answered(first))
    tight = Plan.of(FOODS, "f2m", 1, "tight", default=3)
    yield "f2m_default_0_tight", "absent keys say 0, all of epsilon used", tight
    yield "kvue_ranges", "a range for each key, names beyond ASCII", Plan.of(RANGES, "kvue", "0.5")
    yield "rappor_40_keys", "a report marks many cells, two groups of bits", Plan.of(MANY, "rappor", 2)
    yield "meanest_40_keys", "a report marks many cells, two words of signs", Plan.of(MANY, "meanest", 3)
    yield "collision_cap", "who holds more keeps two", Plan.of(FOODS, "collision", 2, cap=2, pool=16)
    capped = Plan.of(FOODS, "pair_collision", 2, cap=2, pool=16)
    yield "pair_collision_cap", "who holds more keeps two and their pair", capped
    padded = Plan.of(MANY, "pckv_ue", 1, length=3)
    yield "pckv_ue_40_keys", "padded to three, a report marks many cells", padded
    yield "signed_ue_40_keys", "four symbols", Plan.of(MANY, "signed_ue", 1, length=3)
    yield "coco_cap", "who holds more keeps two", Plan.of(FOODS, "coco", 2, cap=2, pool=16)
    sized = Plan.of(FOODS, "sized", 2, rule="quantile")
    yield "sized_round_2", "the cap that a first plan found", sized.next(_answered(sized))
    yield "sized_40_keys", "sizes in buckets", Plan.of(MANY, "sized", 1)
    yield "symmetric_rest", "a rest goes one unit each round the circle", Plan.of(MANY, "grr", "0.7")
    yield from _of_parts()
    yield from _by_hand()


def _of_parts() -> Iterator[tuple[str, str, Plan]]:
    """Plans of parts: all kinds of encodings, with codes and with bits."""
    listed = "collision:cap=2+pool=16/sign@0.1/size@0.05"
    yield "parts_side", "a set with two side questions, codes", Plan.of(FOODS, "parts", 1, parts=listed)
    listed = "graded/pairs@0.2/grr@0.2/pckv_grr@0.2/coco:cap=2+pool=16@0.1"
    yield (
        "parts_codes",
        "five encodings with other levels, codes",
        Plan.of(FOODS, "parts", 1, parts=listed),
    )
    listed = "pckv_ue:length=3/sign@0.25/kvue@0.25"
    yield (
        "parts_bits",
        "one part marks many cells, so all are bits",
        Plan.of(MANY, "parts", 1, parts=listed),
    )


def _by_hand() -> Iterator[tuple[str, str, Plan]]:
    """Plans of no mechanism, for parts of the wire format that no mechanism uses today."""
    pair, single = Symmetric.of(16, Decimal(1)), Symmetric.of(4, Decimal(1))
    views = Views(((2, 0), (1,), (0, 1)), (WORD // 2, WORD // 3, WORD - WORD // 2 - WORD // 3))
    plan = Plan(FOODS.at(3), views, "views", (pair, single), Decimal(1), "kvue", channel_of=(0, 1, 0))
    yield "views_of_pairs", "views of several keys with weights, three levels", plan
    for keys, name in ((5, "symbols_of_three"), (40, "symbols_of_three_40_keys")):
        schema = Schema.of(keys)
        third = WORD // 3
        laws = ((WORD - 2 * third, third, third), (WORD // 4, WORD // 2, WORD // 4))
        channel = Symbols(keys, laws, 1)
        whole = Views.whole(keys)
        plan = Plan(schema, whole, "item", (channel,), channel.proof().epsilon, "rappor")
        yield name, "an alphabet of three symbols", plan
    signed = Symbols(1, ((WORD // 2, WORD // 4, WORD // 4), *_signed()), 1)
    plan = Plan(FOODS.at(2), Views.singles(3), "views", (signed,), signed.proof().epsilon, "kvoh")
    yield "symbols_of_two_laws", "a law each for low and high at one position", plan


def _signed() -> tuple[tuple[int, ...], ...]:
    low = (WORD // 4, WORD // 2, WORD // 4)
    return low, (low[0], low[2], low[1])


def _answered(plan: Plan) -> Tally:
    people = People.of_records(plan.schema, [{"Fries": 1 + i % 5, "Pepsi": 5} for i in range(900)])
    return Tally(plan).add(plan.privatise(people, Coins.stated("vectors, first round")))


def records(schema: Schema) -> Iterator[Any]:
    """Records: empty, extremes, the middle; then records that only a client's mapping accepts."""
    low = {k: float(a) for k, (a, _) in zip(schema.keys, schema.ranges, strict=True)}
    high = {k: float(b) for k, (_, b) in zip(schema.keys, schema.ranges, strict=True)}
    middle = {k: low[k] + (high[k] - low[k]) * 0.3 for k in schema.keys}
    first, last = schema.keys[0], schema.keys[-1]
    yield from ({}, low, high, middle, {first: middle[first]}, {last: high[last]}, {last: low[last]})
    yield {"not a key of the plan": 3, first: high[first]}
    yield {first: high[first] + 1000, last: low[last] - 0.5}
    yield {first: None, last: True}
    yield {first: "4", last: [3]}
    yield [[last, middle[last]], [last, low[last]], ["?", 1], [first, 1e300]]
    yield [[first, None], [first, high[first]]]
    yield from ([[first]], "no record", None, 7)


def words(plan: Plan, case: int) -> Iterator[list[int]]:
    """Recorded words for one report: random ones, all low, all high, and the edges of slices."""
    count = max(plan.words_of(view) for view in range(len(plan.views)))
    coins = Coins.stated(f"vectors {plan.mechanism_name} {count}")
    for draw in range(3):
        yield coins.words(3 * case + draw, 0, count).tolist()
    if case not in (3, 6):
        return
    yield [0] * count
    yield [TOP] * count
    for edge in _edges(plan):
        for word in (edge - 1, edge):
            if word <= TOP:
                drawn = coins.words(1000 + case, 0, count).tolist()
                yield [*drawn[: plan.channel_start(0)], word, *drawn[plan.channel_start(0) + 1 :]]
    if plan.parts is not None:
        yield from _edges_of_parts(plan, coins.words(2000, 0, count).tolist())
        return
    for bound in plan.views.bounds.tolist():
        yield [bound - 1, *coins.words(2000, 1, count - 1).tolist()]
        yield [bound, *coins.words(2000, 1, count - 1).tolist()]
    if plan.encode != "item" and plan.schema.levels > 1:
        for fraction in (3, 6):  # of ten: where records of the middle round up
            yield [0, WORD * fraction // 10 - 1, *[TOP] * (count - 2)]
            yield [0, WORD * fraction // 10, *[TOP] * (count - 2)]


def _edges_of_parts(plan: Plan, drawn: list[int]) -> Iterator[list[int]]:
    """Words at the ends of the slices of the parts, and of the views and outputs within each."""
    assert plan.parts is not None
    start = 0
    for part in plan.parts:
        own, at = part.plan, WORDS_BEFORE + part.plan.channel_start(0)
        for word in (start, start + part.weight - 1):
            yield [word, *drawn[1:]]
        for bound in own.views.bounds.tolist()[:2]:
            for word in (bound - 1, bound):
                yield [start, *drawn[1:WORDS_BEFORE], word, *drawn[WORDS_BEFORE + 1 :]]
        for edge in _edges(own):
            for word in (edge - 1, edge):
                if word <= TOP:
                    yield [start, *drawn[1:at], word, *drawn[at + 1 :]]
        start += part.weight


def _edges(plan: Plan) -> list[int]:
    """Ends of the slices of a channel that draws with one word."""
    channel = plan.channels[0]
    if isinstance(channel, Table):
        return sorted({int(end) for row in channel.thresholds for end in row})[:8]
    if isinstance(channel, Symmetric):
        heavy = channel.keep + channel.rest * (channel.lie + 1)
        return [channel.keep, channel.keep + channel.lie, channel.keep + channel.lie + 1, heavy]
    return []


def vector(name: str, what: str, plan: Plan) -> dict[str, Any]:
    """The plan and its cases."""
    cases = []
    for number, record in enumerate(records(plan.schema)):
        for drawn in words(plan, number):
            view = int(plan.pick(Stream.of(Coins.recorded(drawn), 0))[0])
            used = drawn[: plan.words_of(view)]
            report = plan.report_as_client(record, Coins.recorded(used), 0)
            cases.append({"record": record, "words": used, "cells": list(report.cells)})
    return {
        "format": FORMAT,
        "name": name,
        "what": what,
        "plan": plan.document(),
        "cases": cases,
    }


def written(document: dict[str, Any]) -> str:
    """The document as text, with a line for each case, so that a change is easy to read."""
    lines = [json.dumps(case, ensure_ascii=False, separators=(",", ":")) for case in document["cases"]]
    head = {name: part for name, part in document.items() if name != "cases"}
    opened = json.dumps(head, ensure_ascii=False, separators=(",", ":"))[:-1]
    return opened + ',\n"cases":[\n' + ",\n".join(lines) + "\n]}\n"


def main(folder: Path) -> None:
    """Rewrite every vector."""
    for name, what, plan in plans():
        (folder / f"{name}.json").write_text(written(vector(name, what, plan)), "utf-8")


if __name__ == "__main__":
    main(Path(__file__).parent)
