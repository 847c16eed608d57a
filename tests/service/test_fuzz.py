"""Bad input by the hundred thousand: whatever comes is taken or refused with a reason, never an error of
the collector's own; and memory does not grow."""

from __future__ import annotations

import gc
import gzip
import json
import os
import pathlib
import random
import tracemalloc

import pytest
from desk import PLAN, fresh, plan_of
from faults import LONG
from faults.mutate import changed_document, inputs

from keyveil import Tally
from keyveil.estimate.together.query import Query
from keyveil.foundation.errors import KeyveilError
from keyveil.service.collector.engine.admin import checked_plan
from keyveil.service.collector.http import batches
from keyveil.service.collector.process.problems import REASONS, Problem
from keyveil.service.collector.store.collection import Terms
from keyveil.service.collector.store.tokens import read

TIMES = 10 if LONG else 1
PLANS = [PLAN, plan_of("kvue", 300), plan_of("pckv_ue"), plan_of("collision")]
IN_BATCHES = 90_000 * TIMES // (2 * len(PLANS))


def batch_of(plan, number):
    rows = [{"id": os.urandom(16).hex(), "cells": list(plan.report({}).cells)} for _ in range(number)]
    return {"plan": plan.hash, "epoch": 20_833, "reports": rows}


def outcome(decode, body, packing):
    """What becomes of a body: the reason of a refusal, or how much of it is taken."""
    try:
        batch = decode(body, 20)
        packed = batches.pack(batch, packing)
    except Problem as problem:
        return problem.reason
    assert len(packed.ids) == 16 * packed.count
    assert len(packed.rows) == packing.width * packed.count
    assert packed.count + len(packed.impossible) == batch.count
    if packed.count:
        rows = packing.rows(packed.rows)
        assert packing.admitted(rows).all(), "what passes as cells passes as rows too"
    return "taken" if packed.count else "impossible"


def plan_id(plan):
    return f"{plan.mechanism_name}-{len(plan.schema.keys)}"


@pytest.mark.parametrize("plan", PLANS, ids=plan_id)
def test_decoders_take_or_refuse_whatever_comes(plan):
    coins = random.Random(f"decoders {plan.hash}")
    packing = plan.packing
    good = [batch_of(plan, number) for number in (1, 1, 2, 5)]
    binary = []
    for document in good:
        rows = b"".join(packing.row(report["cells"]) or b"" for report in document["reports"])
        ids = bytes.fromhex("".join(report["id"] for report in document["reports"]))
        binary.append(batches.encode_binary(plan.hash, 20_833, ids, rows))
    texts = [json.dumps(document).encode() for document in good]
    counts: dict[str, int] = {}
    for decode, many in (
        (
            batches.decode_json,
            inputs(coins, IN_BATCHES, lambda: coins.choice(texts), lambda: coins.choice(good)),
        ),
        (batches.decode_binary, inputs(coins, IN_BATCHES, lambda: coins.choice(binary))),
    ):
        for body in many:
            result = outcome(decode, body, packing)
            counts[result] = counts.get(result, 0) + 1
    assert set(counts) <= {"malformed", "too_many", "impossible", "taken"}
    assert sum(counts.values()) == 2 * IN_BATCHES
    assert counts["malformed"] > IN_BATCHES // 4
    assert counts["taken"] > IN_BATCHES // 50, "most changes that do no harm are seen too"


def test_a_decoder_that_trusts_a_length_is_caught():
    """The broken twin: the fuzzer finds a decoder that does not look how long the body is."""
    packing = PLAN.packing

    def trusting(body, most):
        count = int.from_bytes(body[44:48], "little")
        parts = [body[48 + 17 * at : 65 + 17 * at] for at in range(min(count, 1000))]
        return batches.Batch(body[8:40].hex(), 1, count, b"", [[0, part[16]] for part in parts])

    coins = random.Random("twin")
    good = batches.encode_binary(PLAN.hash, 1, os.urandom(32), bytes(2))
    bodies = list(inputs(coins, 1000, lambda: good))

    def fuzz():
        for body in bodies:
            outcome(trusting, body, packing)

    with pytest.raises((IndexError, AssertionError)):
        fuzz()


def refused_or_taken(read_it, document):
    """Only the library's own errors may come of a bad document."""
    try:
        read_it(document)
    except KeyveilError:
        return False
    return True


def test_what_admins_and_analysts_send_is_taken_or_refused():
    coins = random.Random("documents")
    plans = [plan.document() for plan in PLANS]
    terms = {
        "people": 5,
        "opens": 1,
        "closes": 9,
        "epoch": 50,
        "grace": 60,
        "origins": ["https://a.org"],
    }
    terms.update({"early": 5, "token": True, "rate": 10, "keep": 3, "replaces": "old", "state": 1})
    tally = Tally(PLAN)
    for _ in range(20):
        tally.add(PLAN.report({"Pepsi": 4}))
    packed = tally.dumps()
    taken = {"plan": 0, "terms": 0, "query": 0}
    for _ in range(1500 * TIMES):
        document = changed_document(coins, coins.choice(plans))
        taken["plan"] += refused_or_taken(checked_plan, document)
    for _ in range(3000 * TIMES):
        document = changed_document(coins, terms)
        if isinstance(document, dict):
            taken["terms"] += refused_or_taken(Terms.of, document)
    for body in inputs(coins, 3000 * TIMES, lambda: packed):
        if refused_or_taken(lambda content: Tally.parse(PLAN, content), body):
            assert Tally.parse(PLAN, body).counts.tolist() == tally.counts.tolist(), "it has a check"
    for body in inputs(coins, 2500 * TIMES, lambda: b"mean(Pepsi | Fries, !Salad)"):
        taken["query"] += refused_or_taken(Query.parse, body.decode("latin-1"))
        read(body.decode("latin-1"))
    assert taken["query"] > 0


BAD = {
    "oversized": (b" " * ((4 << 20) + 1), batches.JSON, {}, 413, "too_large"),
    "truncated": (None, batches.JSON, {}, 400, "malformed"),
    "truncated binary": (None, batches.BINARY, {}, 400, "malformed"),
    "bomb": (
        gzip.compress(bytes(50_000_000)),
        batches.JSON,
        {"content-encoding": "gzip"},
        415,
        "encoding",
    ),
    "bomb by another name": (gzip.compress(bytes(50_000_000)), batches.JSON, {}, 400, "malformed"),
    "form": (b"a=1", "application/x-www-form-urlencoded", {}, 415, "content_type"),
    "deep": (b'{"plan":' * 400_000, batches.JSON, {}, 400, "malformed"),
    "deep lists": (b"[" * 4_000_000, batches.JSON, {}, 400, "malformed"),
    "nan": (b'{"plan":"x","epoch":NaN,"reports":[]}', batches.JSON, {}, 400, "malformed"),
    "invalid utf-8": (
        b'{"plan":"\xff\xfe","epoch":1,"reports":[]}',
        batches.JSON,
        {},
        400,
        "malformed",
    ),
    "surrogates": (
        b'{"plan":"\\ud800","epoch":1,"reports":[]}',
        batches.JSON,
        {},
        400,
        "malformed",
    ),
    "many": (None, batches.BINARY, {}, 413, "too_many"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_bad_has_a_status_and_a_reason(file_desk, name):
    body, kind, headers, status, reason = BAD[name]
    file_desk.create()
    good = json.dumps({"plan": PLAN.hash, "epoch": file_desk.epoch(), "reports": fresh(3)}).encode()
    packed = batches.encode_binary(PLAN.hash, file_desk.epoch(), os.urandom(160_160), bytes(10_010))
    chosen = {"truncated": good[:-5], "truncated binary": packed[:170], "many": packed}.get(name, body)
    if name == "truncated binary":
        chosen = batches.encode_binary(PLAN.hash, file_desk.epoch(), os.urandom(32), bytes(2))[:-3]
    answer = file_desk.send_bytes(chosen, kind=kind, **headers)
    assert (answer.status_code, answer.json()["reason"]) == (status, reason)
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["title"] == REASONS[reason].title
    assert file_desk.reports() == 0


def test_memory_stays_flat_whatever_comes(file_desk):
    """Requests through the whole application: after a first part, the rest leaves nothing behind."""
    file_desk.create()
    coins = random.Random("requests")
    good = [{"plan": PLAN.hash, "epoch": file_desk.epoch(), "reports": fresh(2)} for _ in range(5)]
    texts = [json.dumps(document).encode() for document in good]

    def part(number):
        for body in inputs(coins, number, lambda: coins.choice(texts), lambda: coins.choice(good)):
            answer = file_desk.send_bytes(body, kind=batches.JSON)
            assert answer.status_code < 500, answer.text
        file_desk.service.writer.tick()

    def memory():
        """Bytes in use: a large process seldom looks for cycles by itself.

        ``pathlib`` interns names. The interpreter's table of such names doubles now and then, by
        megabytes at once, and the name that happens to come then is no leak.
        """
        gc.collect()
        others = tracemalloc.Filter(inclusive=False, filename_pattern=pathlib.__file__)
        return sum(trace.size for trace in tracemalloc.take_snapshot().filter_traces([others]).traces)

    part(400)
    tracemalloc.start()
    part(100)
    before = memory()
    part(800 * TIMES)
    after = memory()
    tracemalloc.stop()
    taken = file_desk.reports()
    assert after - before < 200_000 + 200 * taken, "an id that is taken is kept, and nothing else"
