"""What a request's bytes become: JSON and binary agree, and only what honest clients send passes."""

from __future__ import annotations

import json
import os
from decimal import Decimal

import numpy as np
import pytest
from desk import PLAN, plan_of
from hypothesis import given
from hypothesis import strategies as st

from keyveil import Coins, People, Plan, Schema, Tally
from keyveil.channel import Table
from keyveil.foundation.arrays import WORD
from keyveil.people.views import Views
from keyveil.service.collector.http import batches
from keyveil.service.collector.process.problems import Problem

PLANS = {
    "kvue": plan_of("kvue", 5),
    "kvoh": plan_of("kvoh", 5),
    "ioh": plan_of("ioh", 8),
    "ioh small": plan_of("ioh", 2),
    "harmony": plan_of("harmony", 20),
    "collision": plan_of("collision", 6),
    "shist": plan_of("shist", 4),
    "pckv_ue": plan_of("pckv_ue", 200),
}


@pytest.fixture(params=PLANS, ids=str)
def plan(request):
    return PLANS[request.param]


def batch_of(plan, number=40):
    people = People.of_records(
        plan.schema, [dict.fromkeys(plan.schema.keys[: i % 4], 1 + i % 5) for i in range(number)]
    )
    return plan.privatise(people, Coins.stated("wire"))


def cells_of(plan, packing, rows):
    """The cells that rows mark, one by one, as a client would list them."""
    marks = []
    for row in rows:
        counts = Tally(plan).add(packing.reports(row[None])).counts
        cells = np.flatnonzero(counts)
        own = next(c for c in cells if c in set(plan.layout.own.tolist()))
        marks.append([int(own), *(int(c) for c in cells if c != own)])
    return marks


def test_json_and_binary_become_the_same_rows(plan):
    packing = plan.packing
    rows = packing.packed(batch_of(plan))
    ids = os.urandom(16 * len(rows))
    body = batches.encode_binary(plan.hash, 7, ids, rows.tobytes())
    binary = batches.decode_binary(body, 1000)
    reports = [
        {"id": ids[16 * i : 16 * i + 16].hex(), "cells": cells}
        for i, cells in enumerate(cells_of(plan, packing, rows))
    ]
    text = json.dumps({"plan": plan.hash, "epoch": 7, "reports": reports}).encode()
    read = batches.decode_json(text, 1000)
    assert (read.plan, read.epoch, read.count) == (binary.plan, binary.epoch, binary.count)
    from_json, from_binary = batches.pack(read, packing), batches.pack(binary, packing)
    assert (from_json.ids, from_json.rows, from_json.impossible) == (
        from_binary.ids,
        from_binary.rows,
        [],
    )
    assert from_json.rows == rows.tobytes()


def test_marks_are_the_tally(plan):
    packing = plan.packing
    batch = batch_of(plan, 300)
    cells, often = packing.marks(packing.packed(batch))
    counts = np.zeros(plan.layout.cells, np.int64)
    counts[cells] += often
    assert np.array_equal(counts, Tally(plan).add(batch).counts)
    assert (np.diff(cells) > 0).all(), "each cell once, in order"


def test_a_plan_with_very_many_codes_is_counted_alike(monkeypatch):
    monkeypatch.setattr("keyveil.plan.packing.DENSE", 2)
    test_marks_are_the_tally(PLANS["kvue"])
    test_marks_are_the_tally(PLANS["collision"])


GOOD = {"plan": PLAN.hash, "epoch": 1, "reports": [{"id": "0" * 32, "cells": [0, 1]}]}


def changed(**more):
    return json.dumps({**GOOD, **more}).encode()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"[" * 100_000,
        b'{"plan":' + b"[" * 100_000,
        b"\xff\xfe",
        json.dumps(GOOD).replace("0", "\x00", 1).encode(),
        json.dumps(GOOD).encode("utf-16"),
        json.dumps(GOOD).encode() + b"x",
        changed(epoch=-1),
        changed(epoch=2**32),
        changed(epoch="1"),
        changed(epoch=1.5),
        changed(epoch=True),
        changed(epoch=None),
        changed(extra=1),
        changed(reports=[]),
        changed(reports={}),
        changed(reports=[{"id": "0" * 32}]),
        changed(reports=[{"id": "0" * 31, "cells": [0, 1]}]),
        changed(reports=[{"id": "0" * 33, "cells": [0, 1]}]),
        changed(reports=[{"id": "0" * 31 + "g", "cells": [0, 1]}]),
        changed(reports=[{"id": "0" * 31 + "A", "cells": [0, 1]}]),
        changed(reports=[{"id": " " * 2 + "0" * 30, "cells": [0, 1]}]),
        changed(reports=[{"id": "0" * 30, "cells": [0, 1]}, {"id": "0" * 34, "cells": [0, 1]}]),
        changed(reports=[{"id": "0" * 32, "cells": [0, 1.5]}]),
        changed(reports=[{"id": "0" * 32, "cells": "01"}]),
        changed(reports=[{"id": "0" * 32, "cells": [0, 1], "person": "x"}]),
        json.dumps(GOOD).replace("[0, 1]", "[0, NaN]").encode(),
        json.dumps(GOOD).replace("[0, 1]", "[0, 1e999]").encode(),
    ],
)
def test_bad_json_is_refused_without_quoting_it(body):
    with pytest.raises(Problem) as refusal:
        batches.decode_json(body, 10)
    assert refusal.value.reason == "malformed"
    assert refusal.value.kind.status == 400


def test_a_number_of_a_thousand_digits_is_only_an_impossible_cell():
    body = json.dumps(GOOD).replace("[0, 1]", f"[0, {'9' * 1000}]").encode()
    assert _outcome(batches.decode_json, body) in ("malformed", "impossible")


def _outcome(read, body):
    try:
        packed = batches.pack(read(body, 5), PLAN.packing)
    except Problem as problem:
        return problem.reason
    return "impossible" if packed.impossible else "fine"


def test_bad_binary_is_refused():
    packing = PLAN.packing
    good = batches.encode_binary(PLAN.hash, 3, bytes(32), bytes(2 * packing.width))
    assert batches.pack(batches.decode_binary(good, 10), packing).count == 2
    for body in (b"", good[:47], b"X" + good[1:]):
        with pytest.raises(Problem, match="batch"):
            batches.decode_binary(body, 10)
    for body in (good[:-1], good + b"\0"):
        with pytest.raises(Problem, match="as long as"):
            batches.pack(batches.decode_binary(body, 10), packing)
    with pytest.raises(Problem, match="at least one"):
        batches.decode_binary(good[:44] + bytes(4), 10)


def test_too_many_reports_are_refused_before_they_are_looked_at():
    many = {**GOOD, "reports": GOOD["reports"] * 11}
    for read, body in (
        (batches.decode_json, json.dumps(many).encode()),
        (
            batches.decode_binary,
            batches.encode_binary(PLAN.hash, 3, bytes(16 * 11), bytes(11)),
        ),
    ):
        with pytest.raises(Problem) as refusal:
            read(body, 10)
        assert refusal.value.reason == "too_many"


@given(st.binary(max_size=200))
def test_no_bytes_at_all_crash_a_decoder(body):
    for read in (batches.decode_json, batches.decode_binary):
        assert _outcome(read, body) in ("malformed", "too_many", "impossible", "fine")


def test_an_output_that_no_state_sends_is_packed_in_no_form():
    """Codes 1 and 4 of a plan of two keys whose second output has no weight."""
    quarter = WORD // 4
    rows = ((2 * quarter, 0, 2 * quarter), (quarter, 0, 3 * quarter), (3 * quarter, 0, quarter))
    views = Views.singles(2)
    plan = Plan(Schema.of(["a", "b"]), views, "views", (Table(rows),), Decimal(2), "kvue")
    packing = plan.packing
    good = packing.admitted(packing.rows(bytes(range(7))))
    assert good.tolist() == [True, False, True, True, False, True, False]
    cells = [[own, own + 1 + cell] for own in (0, 4) for cell in range(3)]
    packed = [packing.row(marks) is not None for marks in cells]
    assert packed == good.tolist()[:6]
