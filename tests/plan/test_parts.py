"""Plans of parts: documents, proofs, reports, batches, packing and tallies."""

from __future__ import annotations

import copy
import hashlib
import pickle
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from keyveil import Coins, People, Plan, PlanError, ReportError, Schema, Tally, audit
from keyveil.channel import Symmetric, Table
from keyveil.foundation.arrays import WORD
from keyveil.foundation.coins import address
from keyveil.foundation.stream import Stream
from keyveil.people.views import Views
from keyveil.plan.plan_document import canonical
from keyveil.plan.plan_parts import (
    MOST_PARTS,
    WORDS_BEFORE,
    PlanPart,
    part_counts,
    share_text,
    weights_of,
)
from keyveil.plan.report import Reports
from keyveil.plan.report_file import reading, writing
from keyveil.testing import check_reports, check_support, report_law

SCHEMA = Schema.of(["Fries", "Pepsi", "Salad"], 1, 5)
MANY = Schema.of(40, 0, 10)
SIDE = Plan.of(SCHEMA, "parts", 1, parts="collision:cap=2+pool=16/sign@0.1/size@0.05")
CODES = Plan.of(SCHEMA, "parts", 1, parts="graded/grr@0.3/pairs@0.2")
BITS = Plan.of(MANY, "parts", 1, parts="pckv_ue:length=3/sign@0.25/kvue@0.25")
PLANS = {"side": SIDE, "codes": CODES, "bits": BITS}


def crowd(schema: Schema, people: int = 3000) -> People:
    names, draw = schema.keys, np.random.default_rng(7)
    low, high = float(schema.low[0]), float(schema.high[0])
    records = [
        {names[k]: float(draw.uniform(low, high)) for k in np.flatnonzero(draw.random(len(names)) < 0.3)}
        for _ in range(people)
    ]
    return People.of_records(schema, records)


def rehashed(document: dict[str, Any]) -> bytes:
    body = {name: part for name, part in document.items() if name != "hash"}
    return canonical({**body, "hash": hashlib.sha256(canonical(body)).hexdigest()})


# -- documents -------------------------------------------------------------------------------------


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_a_document_says_all_that_the_plan_is(plan):
    parsed = Plan.parse(plan.dumps())
    assert parsed == plan
    assert parsed.layout.cells == plan.layout.cells
    assert [own.hash for own in parsed.part_plans] == [own.hash for own in plan.part_plans]
    assert not {"encode", "views", "channels"} & set(plan.document())
    assert sum(part["weight"] for part in plan.document()["parts"]) == WORD


def test_the_same_plan_comes_from_names_and_from_plans():
    listed = [(None, "graded", {}), ("0.3", "grr", {}), ("0.2", "pairs", {})]
    parts = [(share, Plan.of(SCHEMA, name, 1, **given)) for share, name, given in listed]
    assert Plan.of_parts(parts) == CODES
    assert Plan.of_parts([(0.5, parts[0][1]), (0.5, parts[1][1])]).parameters == {
        "parts": "graded/grr@0.5"
    }


def test_the_list_of_parts_has_one_form():
    for text in ("kvue@0.9/sign", "kvue @ 0.90 / sign @ 0.1", "kvue/sign@.1", "kvue/sign:@0.1"):
        assert Plan.of(SCHEMA, "parts", 1, parts=text).parameters["parts"] == "kvue/sign@0.1"
    text = "collision:pool=16+cap=2/sign@0.1"
    assert Plan.of(SCHEMA, "parts", 1, parts=text).parameters["parts"].startswith("collision:cap=2+pool")


def test_values_in_the_list_are_typed_and_shown_on_the_scale_of_the_keys():
    text = "optimal:spread=0.4+mean=2/sign@0.1"
    plan = Plan.of(Schema.of(3, 0, 3), "parts", 1, parts=text)
    assert plan.parameters_on_scale == {"parts": text}
    assert plan.parameters["parts"] != text
    assert Plan.parse(plan.dumps()) == plan
    assert Plan.of_document(plan.schema, "parts", 1, "paper", plan.parameters) == plan


@pytest.mark.parametrize("weight", [1, 2, 3, 429496730, WORD // 3, WORD - 1, WORD // 2 + 1])
def test_the_text_of_a_share_gives_its_weight_back(weight):
    assert weights_of([None, share_text(weight)]) == [WORD - weight, weight]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kvue", "2 to 8 of them"),
        ("", "2 to 8 of them"),
        ("kvue/sign", "at most one part is without a share"),
        ("kvue@0.5/sign@0.4", "sum to 1, not 0.9"),
        ("kvue/sign@1.5", "between 0 and 1"),
        ("kvue/sign@0", "between 0 and 1"),
        ("kvue@0.5/grr@0.5/sign", "sum to 1"),
        ("kvue/sign@x", "must be a number"),
        ("kvue/sign@1e-12", "whole positive weights"),
        ("kvue/nothing@0.1", "unknown mechanism"),
        ("kvue/parts:kvue@0.1", "no parts of its own"),
        ("kvue/privkvm@0.1", "several rounds"),
        ("kvue/collision:caps=2@0.1", "no parameter 'caps'"),
        ("/".join(["kvue", *["sign@0.1"] * MOST_PARTS]), "2 to 8 of them"),
    ],
)
def test_a_bad_list_of_parts_is_refused_in_one_line(text, message):
    with pytest.raises(PlanError, match=message) as refused:
        Plan.of(SCHEMA, "parts", 1, parts=text)
    assert "\n" not in str(refused.value)


def test_parts_have_the_same_keys_and_promise():
    kvue, sign = Plan.of(SCHEMA, "kvue", 1), Plan.of(SCHEMA, "sign", 1)
    for other, message in (
        (Plan.of(MANY, "sign", 1), "same keys and ranges"),
        (Plan.of(Schema.of(SCHEMA.keys, 0, 5), "sign", 1), "same keys and ranges"),
        (Plan.of(SCHEMA, "sign", 2), "promise one epsilon"),
        (Plan.of(SCHEMA, "sign", 1, "tight"), "calibrated alike"),
        (Plan.of(SCHEMA, "sized", 1), "several rounds"),
        (CODES, "no parts of its own"),
    ):
        with pytest.raises(PlanError, match=message):
            Plan.of_parts([("0.5", kvue), ("0.5", other)])
    assert Plan.of_parts([("0.5", kvue), ("0.5", sign)]).proven == max(kvue.proven, sign.proven)


def changed(plan: Plan, part: int | None = None, **members: Any) -> bytes:
    """The plan's document with other members, of the whole or of a part; ``...`` removes one."""
    document = copy.deepcopy(plan.document())
    own = document if part is None else document["parts"][part]
    own.update(members)
    for name in [name for name, value in members.items() if value is ...]:
        del own[name]
    return rehashed(document)


FEW = SIDE.document()["parts"]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (changed(SIDE, 0, weight=FEW[0]["weight"] - 1), "whole positive weights that sum to 2^32"),
        (changed(SIDE, 1, weight=0), "whole positive weights that sum to 2^32"),
        (changed(SIDE, 1, weight="1"), "a part's weight is a whole number"),
        (changed(SIDE, 1, weight=True), "a part's weight is a whole number"),
        (changed(SIDE, 1, levels=None), "a part's levels is a whole number"),
        (changed(SIDE, 1, levels=65), "levels must be from 1 to 64"),
        (changed(SIDE, 1, levels=3), "does not fit the states of its view"),
        (changed(SIDE, 1, extra=1), "a part of the plan has an unknown member 'extra'"),
        (changed(SIDE, 1, chain={}), "a part of the plan has an unknown member 'chain'"),
        (changed(SIDE, 1, encode=...), "a part of the plan lacks 'encode'"),
        (changed(SIDE, 1, encode="x"), "unknown encoding"),
        (changed(SIDE, 1, parts=[]), "a part has no parts of its own"),
        (changed(SIDE, 1, channels=[]), "the plan's channels are a list"),
        (changed(SIDE, 1, channel_of="0"), "channel_of is a list of whole numbers"),
        (changed(SIDE, 1, mechanism={**FEW[1]["mechanism"], "name": "x"}), "unknown mechanism"),
        (changed(SIDE, parts=[]), "parts are a list of 2 to 8"),
        (changed(SIDE, parts=FEW[:1]), "parts are a list of 2 to 8"),
        (changed(SIDE, parts=FEW * 3), "parts are a list of 2 to 8"),
        (changed(SIDE, parts=[1, 2]), "a part of the plan is an object"),
        (changed(SIDE, parts={}), "parts are a list of 2 to 8"),
        (changed(SIDE, encode="views"), "the plan has an unknown member 'encode'"),
        (changed(SIDE, channel_of=[0]), "the plan has an unknown member 'channel_of'"),
        (changed(SIDE, chain={}), "parts has one round"),
        (changed(SIDE, parts=...), "the plan lacks 'channels'"),
        (changed(SIDE, parts=[FEW[1], FEW[0], FEW[2]]), "not that of its parts"),
        (changed(Plan.of(SCHEMA, "kvue", 1), parts=FEW), "unknown member 'channels'"),
    ],
)
def test_a_bad_document_is_refused_in_short_lines(document, message):
    result = audit(document)
    assert result.plan is None
    assert any(message in finding for finding in result.findings)
    assert len(result.findings) <= 14
    assert all(len(finding) < 500 and "\n" not in finding for finding in result.findings)
    with pytest.raises(PlanError):
        Plan.parse(document)


@pytest.mark.parametrize(
    "text",
    [
        "kvue@0.1/" * 10**6,
        f"kvue/{'x' * 10**6}",
        f"kvue/{'x' * 60_000}@0.1",
        f"kvue/kvue:{'y' * 60_000}",
    ],
    ids=["many", "longest name", "long name", "long parameter"],
)
def test_a_long_list_of_parts_is_refused_at_once_in_a_short_line(text):
    document = copy.deepcopy(SIDE.document())
    document["mechanism"]["parameters"]["parts"] = text
    result = audit(rehashed(document))
    assert result.plan is None
    assert all(len(finding) < 300 for finding in result.findings)


def test_a_part_that_breaks_the_promise_breaks_the_plans():
    loud = {"shape": "symmetric", "states": 3, "keep": WORD - 200, "lie": 100}
    result = audit(changed(SIDE, 1, channels=[loud]))
    assert any("breaks its promise of epsilon 1" in finding for finding in result.findings)
    assert result.proven is not None
    assert result.proven > 10
    sign = Plan.of(SCHEMA, "sign", 1)
    table = Table(((WORD // 4, 3 * WORD // 4), (WORD // 2, WORD // 2), (3 * WORD // 4, WORD // 4)))
    views = Views.whole(3)
    both = [
        Plan(SCHEMA, views, "any_value", (channel,), Decimal(2), "sign")
        for channel in (table, Symmetric.of(3, Decimal(2)))
    ]
    plan = Plan.of_parts([("0.5", both[0]), ("0.5", both[1])])
    assert plan.proof == both[1].proof != both[0].proof
    assert sign.proven < plan.proven


def test_parts_share_the_bound_on_the_work_of_a_proof():
    subset = {"shape": "subset", "states": 2048, "size": 1, "show": WORD // 2}
    result = audit(changed(SIDE, 2, channels=[subset] * 5))
    assert any("subset channels of a plan have at most" in finding for finding in result.findings)


def test_what_has_no_meaning_for_parts_is_refused():
    for ask in (lambda: SIDE.encoding, lambda: SIDE.cap, lambda: SIDE.views.bounds):
        with pytest.raises(PlanError, match="not for a plan of parts as a whole"):
            ask()
    with pytest.raises(PlanError, match="has one round"):
        SIDE.next(Tally(SIDE))


# -- the proof over records ------------------------------------------------------------------------


@pytest.mark.parametrize("plan", [SIDE, CODES], ids=["side", "codes"])
def test_no_two_records_are_further_apart_than_proven(plan):
    """Pr[report | record] over part, view, encoding and channel, for all records at the ends."""
    ends = [None, 1.0, 5.0]
    laws = [
        report_law(plan, {k: v for k, v in zip(plan.schema.keys, (a, b, c), strict=True) if v})
        for a in ends
        for b in ends
        for c in ends
    ]
    law = np.array(laws)
    assert np.allclose(law.sum(axis=1), 1.0, atol=1e-12)
    law = law[:, law.max(axis=0) > 0]
    worst = float(np.log(law.max(axis=0) / law.min(axis=0)).max())
    assert worst <= float(plan.proven) * (1 + 1e-9)


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
@pytest.mark.parametrize("held", [0, 1, 3])
def test_reports_follow_the_law_of_the_record(plan, held):
    record = dict(zip(plan.schema.keys[:held], (2.2, 5.0, 1.0), strict=False))
    check_reports(plan, record, 20_000)


# -- reports and batches ---------------------------------------------------------------------------


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_a_batch_is_the_reports_one_by_one(plan):
    people, coins = crowd(plan.schema, 300), Coins.stated("parts")
    batch = plan.privatise(people, coins)
    single = [
        plan.report(record, coins, number).cells
        for number, record in enumerate(people.records(plan.schema))
    ]
    assert plan.packing.cells_of(batch) == single
    tally = Tally(plan)
    for cells in single:
        tally.add(plan.packing.reports(plan.packing.rows(plan.packing.row(cells))))
    assert tally == Tally(plan).add(batch)
    cut = [plan.privatise(people[at : at + 77], coins) for at in range(0, 300, 77)]
    assert sum((Tally(plan).add(part) for part in cut), Tally(plan)) == tally


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_the_compiled_and_the_plain_path_agree(plan, monkeypatch):
    people, coins = crowd(plan.schema), Coins.stated("paths")
    fast = plan.privatise(people, coins)
    monkeypatch.setenv("KEYVEIL_FAST", "0")
    plain = plan.privatise(people, coins)
    assert np.array_equal(plan.packing.packed(fast), plan.packing.packed(plain))


def test_a_part_does_what_its_own_plan_does_with_later_words():
    people, words = crowd(SCHEMA, 50), max(CODES.words_of(v) for v in range(len(CODES.views)))
    first = 0
    drawn = np.random.default_rng(1).integers(0, WORD, (50, words), np.uint32)
    for number, part in enumerate(CODES.parts):
        drawn[:, 0] = sum(p.weight for p in CODES.parts[:number])
        stream = Stream(Coins.stated("x"), address(np.arange(50)), ready=drawn)
        views, outputs = CODES.perturb(people, stream)
        own_views, own_outputs = part.plan.perturb(people, stream.skip(WORDS_BEFORE))
        assert np.array_equal(views, first + own_views)
        assert np.array_equal(outputs, own_outputs)
        assert np.array_equal(CODES.pick(stream), views)
        first += len(part.plan.views)


def test_the_words_that_pick_a_view_pick_it():
    for plan in (SIDE, CODES, BITS, Plan.of(SCHEMA, "kvue", 1)):
        places, rows = plan.picking_words
        words = np.zeros((len(plan.views), 12), np.uint32)
        words[:, list(places)] = rows
        stream = Stream(Coins.stated("x"), address(np.arange(len(words))), ready=words)
        assert plan.pick(stream).tolist() == list(range(len(plan.views)))


def test_a_report_takes_the_words_of_its_part_whatever_is_held():
    for view in range(len(SIDE.views)):
        own, number = SIDE.part_of(view)
        assert SIDE.words_of(view) == WORDS_BEFORE + own.words_of(number)
    align = {channel.align for channel in BITS.channels}
    assert align == {1, 4}
    assert all(BITS.channel_start(v) % BITS.view_channels[v].align == 0 for v in range(len(BITS.views)))


# -- packing and tallies ---------------------------------------------------------------------------


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_only_what_an_honest_device_sends_is_admitted(plan):
    check_support(plan)


def test_a_part_of_one_cell_among_bits_marks_exactly_one():
    packing, layout = BITS.packing, BITS.layout
    view = next(v for v, channel in enumerate(BITS.view_channels) if channel.one_cell)
    own = int(layout.own[view])
    assert packing.kind == "bits"
    assert packing.admits((own, own + 2))
    assert not packing.admits((own,))
    assert not packing.admits((own, own + 1, own + 2))
    bits = np.zeros((2, packing.bits_width), np.uint8)
    bits[0, 0], bits[1, 0] = 1, 3
    views = np.full(2, view)
    good = Reports(BITS.hash, views=views[:1], bits=bits[:1])
    assert Tally(BITS).add(good).counts[[own, own + 1]].tolist() == [1, 1]
    assert packing.admitted(packing.packed(Reports(BITS.hash, views=views, bits=bits))).tolist() == [
        True,
        False,
    ]
    with pytest.raises(ReportError, match="no honest device"):
        Tally(BITS).add(Reports(BITS.hash, views=views, bits=bits))


def test_a_tally_whose_parts_do_not_add_up_is_refused():
    tally = Tally(BITS).add(BITS.privatise(crowd(MANY), Coins.stated("tally")))
    assert Tally.parse(BITS, tally.dumps()) == tally
    view = next(v for v, channel in enumerate(BITS.view_channels) if channel.one_cell)
    own = int(BITS.layout.own[view])
    tally.counts[own + 1] -= 1
    with pytest.raises(ReportError, match="no set of honest reports"):
        Tally.parse(BITS, tally.dumps())


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_files_keep_reports_and_parts_add_up_to_the_whole(plan, tmp_path):
    batch = plan.privatise(crowd(plan.schema), Coins.stated("files"))
    with writing(plan, tmp_path / "reports.kv") as file:
        file.add(batch)
    tally = Tally(plan)
    for block in reading(plan, tmp_path / "reports.kv"):
        tally.add(block)
    assert tally == Tally(plan).add(batch)
    parts = plan.part_tallies(tally)
    assert sum(part.reports for part in parts) == tally.reports == 3000
    assert all(own.plan.packing.adds_up(own.counts) for own in parts)
    assert np.array_equal(np.concatenate(part_counts(plan, tally.counts)), tally.counts)


def test_a_large_pool_does_not_stand_next_to_bits():
    with pytest.raises(PlanError, match="outputs cannot stand next to a part whose reports are bits"):
        Plan.of(MANY, "parts", 1, parts="collision/pckv_ue@0.5")


def test_a_part_is_a_weight_and_a_plan():
    part = PlanPart(WORD // 4, Plan.of(SCHEMA, "sign", 1))
    assert part.share == 0.25
    assert set(part.document()) == {"weight", "levels", "mechanism", "encode", "views", "channels"}


def test_a_plan_of_parts_goes_to_another_process_as_it_is():
    for plan in PLANS.values():
        assert plan.mechanism.answers
        parsed = pickle.loads(pickle.dumps(plan))
        assert parsed == plan
        assert parsed.mechanism.answers == plan.mechanism.answers
