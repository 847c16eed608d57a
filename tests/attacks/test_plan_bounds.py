"""Plans that are made to occupy whoever audits them; how long audits take is in ``bench/hostile.py``."""

from __future__ import annotations

import hashlib
import json
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from keyveil import REGISTRY, ChannelError, Coins, Plan, PlanError, Schema, audit
from keyveil.channel import CoCo, Collision, Halfspace, Proof, Subset, Symbols, Symmetric
from keyveil.channel.shapes import subset
from keyveil.foundation.arrays import WORD
from keyveil.foundation.exact import at_most, decimal, keeps
from keyveil.people.views import Views
from keyveil.plan.plan_document import MOST_BYTES, canonical
from keyveil.plan.plan_fields import MOST_SUBSET_STATES
from keyveil.testing import example_plan

PLAN = Plan.of(Schema.of(["Fries", "Pepsi"], 1, 5), "kvue", 1)
HALF = WORD // 2


def sealed(**changes: Any) -> bytes:
    """The plan with other members, and the hash of what it says then."""
    body = {**PLAN.document(), **changes}
    del body["hash"]
    return canonical({**body, "hash": hashlib.sha256(canonical(body)).hexdigest()})


def padded(size: int) -> bytes:
    """The plan's own text, with spaces to so many bytes."""
    return PLAN.dumps().encode().ljust(size)


def test_a_document_larger_than_a_plan_can_be_is_not_read(monkeypatch):
    assert audit(padded(MOST_BYTES)).sound
    read = []
    monkeypatch.setattr(json, "loads", lambda *_, **__: read.append(1))
    for document in (padded(MOST_BYTES + 1), padded(MOST_BYTES + 1).decode()):
        assert audit(document).findings == ("a plan has at most 16 MiB; this document is larger",)
    two_bytes_each = "\N{LATIN SMALL LETTER U WITH DIAERESIS}" * (MOST_BYTES // 2 + 1)
    assert "at most 16 MiB" in audit(two_bytes_each).findings[0]
    assert not read


def test_a_plan_that_no_one_would_read_is_not_made(monkeypatch):
    size = len(PLAN.dumps()) + 1  # a file ends with a line feed
    monkeypatch.setattr("keyveil.plan.plan_document.MOST_BYTES", size)
    monkeypatch.setitem(audit.__globals__, "MOST_BYTES", size)
    assert Plan.parse(Plan.of(PLAN.schema, "kvue", 1).dumps()) == PLAN
    monkeypatch.setattr("keyveil.plan.plan_document.MOST_BYTES", size - 1)
    with pytest.raises(PlanError, match="use fewer keys, shorter names or one range"):
        Plan.of(PLAN.schema, "kvue", 1).dumps()


LONGEST = {"pairs": 200, "triples": 40, "coefficients": 200}
"""Plans with many views for each key: keys that a short run takes."""


@pytest.mark.parametrize("name", REGISTRY)
def test_the_bounds_leave_room_for_every_plan_of_the_library(name, scale):
    """With 3,000 keys or as many as a mechanism takes; pairs and triples are the longest, under 8 MB."""
    most = min(REGISTRY[name].most_keys, 3000 if scale > 1 else LONGEST.get(name, 3000))
    plan = example_plan(Schema.of(most), name, 1)
    text = plan.dumps()
    assert len(text) < MOST_BYTES
    assert Plan.parse(text) == plan


@pytest.mark.parametrize("depth", [100, 400, 900, 990, 20_000])
def test_lists_in_lists_are_refused_at_any_depth(depth):
    inside = '{"x":' + "[" * depth + "]" * depth + ","
    result = audit(inside + PLAN.dumps()[1:])
    assert result.plan is None
    assert "unknown member 'x'" in result.findings[0] or "JSON object" in result.findings[0]


def test_findings_are_few_and_short():
    wide = sealed(**{f"m{i}": 0 for i in range(5000)}, **{"n" * 5000: 0})
    for document in (
        wide,
        sealed(channels=[0] * 5000),
        sealed(channels=[{"shape": "subset", "states": 1}] * 5000),
        b'{"format":"' + b"9" * 100_000 + b'"}',
        b'{"format":' + b"[" * 300 + b"]" * 300 + b"}",
    ):
        result = audit(document)
        assert not result.sound
        assert len(result.findings) <= 14
        assert all(len(finding) < 300 for finding in result.findings)


@pytest.mark.parametrize(
    "channel",
    [
        {"shape": "halfspace", "signs": 1 << 16, "keep": WORD - 1},
        {"shape": "halfspace", "signs": 20_001, "keep": HALF + (1 << 30)},
        {"shape": "subset", "states": 600, "size": 300, "show": WORD - 1},
        {"shape": "subset", "states": 4096, "size": 1, "show": HALF},
    ],
    ids=str,
)
def test_a_broken_promise_of_numbers_too_long_to_write_is_one_short_line(channel):
    result = audit(sealed(channels=[channel]))
    assert any("breaks its promise of epsilon 1" in finding for finding in result.findings)
    assert all(len(finding) < 300 for finding in result.findings)


@pytest.mark.parametrize("zero", ["0e-999999999", "-0E-999999999", "0e999999999", "0." + "0" * 401])
def test_a_zero_with_a_long_exponent_is_not_written_out(zero):
    """Written without its exponent it has a billion places: 8 s and 2 GB in the audit of 900 bytes."""
    with pytest.raises(PlanError, match="a number has too many digits"):
        decimal(zero, "a number")
    epsilon = PLAN.document()["epsilon"]
    for name in epsilon:
        (finding, *_) = audit(sealed(epsilon={**epsilon, name: zero})).findings
        assert f"the plan's {name} epsilon" in finding
    schema = {**PLAN.document()["schema"], "ranges": [[zero, "1"]]}
    assert audit(sealed(schema=schema)).findings == ("low has too many digits",)
    assert decimal("0." + "0" * 400, "a number") == 0


def test_the_total_of_a_chain_is_no_zero_with_a_long_exponent():
    """A device would write it out in its refusal."""
    document = Plan.of(Schema.of(2), "privkvm", 1).document()
    document["chain"] = {**document["chain"], "total": "0e-999999999"}
    assert not audit(sealed(**document)).sound


def test_a_product_has_no_more_states_than_a_device_can_number():
    """Such a plan was sound, and every device that answered it failed."""
    inner = {"shape": "table", "rows": [[WORD]] * 3}
    zero = {"promised": "1", "proven": "0"}
    whole = {"keys": "whole", "weights": "even"}
    for digits, sound in ((39, True), (40, False), (64, False)):
        channel = {"shape": "product", "digits": digits, "inner": inner}
        result = audit(sealed(channels=[channel], encode="size", views=whole, epsilon=zero))
        assert result.sound == sound
        if result.plan is None:
            assert result.findings == (f"a product has at most {1 << 62} states",)
        else:
            assert result.plan.report_as_client({"Fries": 3}, Coins.secure(), 0).cells == (0, 1)


def test_subsets_have_a_bounded_number_of_states_in_all():
    channel = {"shape": "subset", "states": 1024, "size": 1, "show": HALF}
    few = audit(sealed(channels=[channel] * (MOST_SUBSET_STATES // 1024)))
    many = audit(sealed(channels=[channel] * (MOST_SUBSET_STATES // 1024 + 1)))
    assert not any("8192 states in all" in finding for finding in few.findings)
    assert any("8192 states in all" in finding for finding in many.findings)
    channels = (Subset(4096, 1, HALF),) * 3
    with pytest.raises(PlanError, match="8192 states in all"):
        Plan(PLAN.schema, Views.singles(2), "views", channels, Decimal(9), "kvue")


def test_sets_of_more_keys_than_a_device_compares_are_refused():
    keys = 200
    for cap, sound in ((64, True), (65, False)):
        channel = Collision.of(2 * keys, cap, Decimal(1), 16, 1)
        try:
            Plan(Schema.of(keys), Views.whole(keys), "items", (channel,), Decimal(1), "collision")
            accepted = True
        except PlanError:
            accepted = False
        assert accepted == sound


# -- faster proofs are the same proofs -------------------------------------------------------------


def extremes(others: int, size: int) -> tuple[int, int]:
    """The likeliest and the unlikeliest choice, by exact numbers throughout."""
    best = {0: (1, 1)}
    for rest in range(1, others + 1):
        after = {}
        for need in range(min(rest, size) + 1):
            take = (need << 32) // rest
            options = [(best[need - 1], take)] if need else []
            options += [(best[need], WORD - take)] if need < rest else []
            after[need] = (max(b[0] * w for b, w in options), min(b[1] * w for b, w in options))
        best = after
    return best[size]


@pytest.mark.parametrize("states", [2, 3, 4, 5, 7, 9, 12, 19, 27, 64, 81, 150])
def test_the_proof_of_a_subset_knows_the_exact_extremes(states):
    show, hide = HALF + 1, HALF - 1
    for size in range(1, states, 1 if states < 30 else 13):
        less, full = extremes(states - 1, size - 1), extremes(states - 1, size)
        assert subset.choice_extremes(states - 1, size) == (less, full)
        pairs = [(show * less[0], hide * full[1]), (hide * full[0], show * less[1]), less, full]
        proof = Subset(states, size, show).proof()
        worst = max(Fraction(above, below) for above, below in pairs)
        assert Fraction(proof.numerator, proof.denominator) == worst


def test_near_ties_of_a_subset_are_decided_by_exact_numbers(monkeypatch):
    """With an error bound that leaves every comparison open, the result is the same."""
    plain = subset.choice_extremes.__wrapped__(40, 17)
    monkeypatch.setattr(subset, "STEP_ERROR", 1.0)
    assert subset.choice_extremes.__wrapped__(40, 17) == plain == (extremes(40, 16), extremes(40, 17))


@pytest.mark.parametrize("seed", range(12))
def test_the_proof_of_symbols_is_the_worst_of_all_pairs_of_states_and_outputs(seed):
    draw = Coins.stated("bounds").generator(seed)
    alphabet, laws = int(draw.integers(2, 5)), int(draw.integers(2, 5))
    positions, silent = int(draw.integers(1, 3)), int(draw.integers(0, 2))
    cuts = np.sort(draw.integers(1, WORD, (laws, alphabet - 1)), axis=1)
    rows = np.diff(cuts, prepend=0, append=WORD, axis=1)
    rows[rows == 0] = 1
    rows[:, -1] += WORD - rows.sum(axis=1)
    channel = Symbols(positions, tuple(tuple(row) for row in rows.tolist()), silent)
    proof = channel.proof()
    assert Fraction(proof.numerator, proof.denominator) == worst_ratio(channel)


def worst_ratio(channel: Symbols) -> Fraction:
    """By enumeration: each position's worst ratio between two states, multiplied."""
    worst = Fraction(1)
    for one in range(channel.states):
        for two in range(channel.states):
            ratio = Fraction(1)
            for position in range(channel.positions):
                first, second = (law_at(channel, state, position) for state in (one, two))
                ratio *= max(Fraction(a, b) for a, b in zip(first, second, strict=True))
            worst = max(worst, ratio)
    return worst


def law_at(channel: Symbols, state: int, position: int) -> tuple[int, ...]:
    marked = channel.marked(state)
    return channel.laws[marked[1] if marked is not None and marked[0] == position else 0]


@pytest.mark.parametrize("epsilon", ["0.001", "0.1", "1", "3", "8"])
@pytest.mark.parametrize("held", [1, 2, 3, 7, 20])
def test_the_proofs_of_sets_are_the_worst_over_every_size(epsilon, held):
    collision = Collision.of(100, held, Decimal(epsilon), 16, 1)
    coco = CoCo.of(100, held, Decimal(epsilon), 16, 1)
    fair = Collision(100, held, 64, 16, 1, WORD // 64 + 1)
    even = CoCo(100, held, 64, 16, 1, WORD // 64 + 1, WORD // 64 + 1)
    for channel in (collision, coco, fair, even):
        weights = [
            channel.low(j) if isinstance(channel, Collision) else channel.left(j)
            for j in range(held + 1)
        ]
        own = (channel.high,) if isinstance(channel, Collision) else (channel.high, channel.low)
        most = max(*own, *(low + (rest > 0) for low, rest in weights))
        least = min(*own, *(low for low, _ in weights))
        proof = channel.proof()
        assert (proof.numerator, proof.denominator) == (most, least)


@pytest.mark.parametrize("epsilon", ["0", "0.001", "0.5", "1", "2.718281828", "20"])
def test_whether_a_ratio_keeps_a_promise_is_decided_exactly(epsilon):
    promised = Decimal(epsilon)
    for weight in (1, 3, 12345, 1 << 32, 1 << 3000):
        most = at_most(weight, promised)
        assert keeps(most, weight, promised)
        assert not keeps(most + 1, weight, promised)
        assert keeps(1, weight, promised)


def test_a_key_that_is_listed_twice_is_named():
    keys = [f"k{i}" for i in range(3000)]
    result = audit(sealed(schema={**PLAN.schema.document(), "keys": [*keys, "k17"]}))
    assert "key 'k17' is listed twice; list each key once" in result.findings


def test_a_halfspace_still_counts_its_states():
    assert Halfspace.of(3, Decimal(1)).states == 8
    assert Halfspace.of(3, Decimal(1)).proof().states == (7, 0)
    with pytest.raises(ChannelError, match=r"from state 2\^5000 - 1 as from state 0"):
        Halfspace(5000, WORD - 1).check(Decimal(1))


def test_the_worst_of_many_channels_is_the_plans_proof():
    weak, strong = Symmetric.of(3, Decimal("0.5")), Symmetric.of(3, Decimal(1))
    for channels in ((weak, strong), (strong, weak)):
        plan = Plan(
            PLAN.schema, Views.singles(2), "views", channels, Decimal(1), "kvue", "paper", (0, 1)
        )
        assert plan.proof == strong.proof()
        with pytest.raises(ChannelError, match="breaks its promise"):
            Plan(
                PLAN.schema, Views.singles(2), "views", channels, Decimal("0.7"), "kvue", "paper", (0, 1)
            )


def test_proofs_are_compared_exactly():
    larger, smaller = Proof(WORD + 1, WORD, (0, 1), ""), Proof(WORD + 2, WORD + 1, (0, 1), "")
    assert larger.exceeds(smaller)
    assert not smaller.exceeds(larger)
    assert not larger.exceeds(larger)
