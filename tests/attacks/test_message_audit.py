"""Everything that leaves a device, for every way there is to make a report.

Devices draw secure coins, so runs differ; an honest device is flagged with a chance of at most 1e-9 an
audit. Twins each send one thing that depends on the record, or ids that depend on the coins, and must be
caught on every run: the chance that one is missed is below 1e-9, and is stated where it is not plain.
"""

from __future__ import annotations

import ast
import asyncio
import io
import json
import os
import secrets
import socket
import threading
from contextlib import redirect_stdout
from hashlib import sha256
from itertools import count
from pathlib import Path

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats
from stated_clock import StatedClock

import keyveil
from keyveil import (
    AsyncClient,
    Budget,
    Client,
    Coins,
    People,
    Plan,
    PlanError,
    Report,
    ReportError,
    Schema,
)
from keyveil.cli.command import run
from keyveil.foundation.coins import address
from keyveil.plan.engines import LocalPool, privatise_files
from keyveil.plan.report_file import parse, writing
from keyveil.service.client import Ledger
from keyveil.service.client.stand_in import NOW, SECONDS, StandIn
from keyveil.service.collector.http.batches import encode_binary
from keyveil.service.collector.relay.relay import Relay
from keyveil.service.collector.relay.relay_app import app
from keyveil.testing import example_plan
from keyveil.trust.message_audit import audit_messages, example_records, guess_bound
from keyveil.trust.messages import Request, read_message
from keyveil.trust.replay import binomials_tail

PLAN = Plan.of(Schema.of(20, 1, 5), "grr", "0.1")
"""k-RR over 21 states: each word tells one state from every other, so a leaked word shows."""
SMALL = Plan.of(Schema.of(["a"], -1, 1), "kvue", 1)
ODD = [None, "text", {"unknown": 3}, {"0": 99}, {"0": "five"}, {"0": float("nan"), "1": 2}, [1, 2]]
"""Records that break rules; a device sends as for any other."""
URL = "http://127.0.0.1"
EPOCH = int(NOW) // SECONDS


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch):
    """The disk is not under audit."""
    monkeypatch.setattr(os, "fsync", lambda file: None)


# -- every way to make a report --------------------------------------------------------------------


def by_plan(folder):
    return lambda plan, record: plan.report(record).dumps()


def by_plan_and_coins(folder):
    coins, number = Coins.secure(), count()
    return lambda plan, record: plan.report(record, coins, f"person {next(number)}").dumps()


def by_budget(folder, coins=None):
    number = count()

    def make(plan, record):
        return Budget(folder / f"{next(number)}.json", cap=1).answer(plan, record, coins).dumps()

    return make


def by_budget_and_coins(folder):
    return by_budget(folder, Coins.secure())


def by_ledger(folder):
    number = count()

    def make(plan, record):
        return Ledger(folder / str(next(number)) / "ledger.json", 1).answer(plan, record).dumps()

    return make


OPTIONS = {"cap": 1, "clock": lambda: NOW, "pause": lambda seconds: None}


async def no_pause(seconds):
    pass


def by_client(folder):
    number = count()

    def make(plan, record):
        network = StandIn(plan)
        with Client(URL, folder / str(next(number)), transport=network, **OPTIONS) as client:
            assert client.answer("menu", record).counted
        return network.requests

    return make


def by_client_again(folder):
    """Sent, refused for now, and sent again by another process when the record has changed."""
    number = count()

    def make(plan, record):
        network, place = StandIn(plan, [503, 503]), folder / str(next(number))
        options = {**OPTIONS, "transport": network}
        with Client(URL, place, jitter=lambda: 0.0, **options) as client:
            assert client.answer("menu", record).counted
        with Client(URL, place, **options) as client:
            assert client.answer("menu", {"3": 4}).counted
            assert not client.flush()
        return network.requests

    return make


def by_async_client(folder):
    number = count()

    async def send(plan, record):
        network = StandIn(plan)
        options = {**OPTIONS, "transport": network, "pause": no_pause}
        async with AsyncClient(URL, folder / str(next(number)), **options) as client:
            assert (await client.answer("menu", record)).counted
        return network.requests

    return lambda plan, record: asyncio.run(send(plan, record))


def by_batch(folder):
    def make(plan, record):
        with writing(plan, folder / "reports.kv") as file:
            file.add(plan.privatise(People.of_records(plan.schema, [record]), Coins.secure()))
        return (folder / "reports.kv").read_bytes()

    return make


def by_named_batch(folder):
    """People named by text, from a long table; sent to a collector as one binary batch."""

    def make(plan, record):
        rows = [(plan.schema.index[key], value) for key, value in record.items()] or [(-2, 0.0)]
        places, values = np.array([p for p, _ in rows]), np.array([v for _, v in rows])
        people = People.of_rows(plan.schema, ["Ann"] * len(rows), places, values)
        packed = plan.packing.packed(plan.privatise(people, Coins.secure()))
        return encode_binary(plan.hash, EPOCH, secrets.token_bytes(16), packed.tobytes())

    return make


def by_command(folder):
    number = count()

    def make(plan, record):
        plan.save(folder / "plan.json")
        rows = "".join(f"Ann,{key},{value}\n" for key, value in record.items()) or "Ann,,\n"
        (folder / "people.csv").write_text("person,key,value\n" + rows)
        output, printed = folder / f"{next(number)}.kv", io.StringIO()
        with redirect_stdout(printed):
            assert (
                run(["privatise", f"{folder}/plan.json", f"{folder}/people.csv", "-o", f"{output}"]) == 0
            )
        size = output.stat().st_size
        assert printed.getvalue().startswith(f"{output}: 1 report, {size} bytes"), "no more is told"
        return output.read_bytes()

    return make


def by_engine(folder):
    number = count()

    def make(plan, record):
        keys, values = list(record) or [None], list(record.values()) or [None]
        columns = {
            "person": ["Ann"] * len(keys),
            "key": pa.array(keys, pa.string()),
            "value": pa.array(values, pa.float64()),
        }
        pq.write_table(pa.table(columns), folder / "people.parquet")
        output = folder / f"{next(number)}.kv"
        privatise_files(folder / "people.parquet", plan, output, LocalPool(1))
        return output.read_bytes()

    return make


class Crowd:
    """A relay before a collector that keeps what is forwarded."""

    def __init__(self, plan, folder, wait):
        self.network, self.plan = StandIn(plan), plan
        clock = StatedClock(NOW)
        self.relay = Relay(
            URL, 2, folder / "relay.sqlite", clock=clock, transport=self.network, log=io.StringIO()
        )
        self.relay.wait = wait  # 1: each report is forwarded alone, as no relay does, to be seen alone
        self.loop = asyncio.new_event_loop()
        self.http = httpx.AsyncClient(
            transport=httpx.ASGITransport(app(self.relay, begin=False)), base_url=URL
        )
        self.loop.run_until_complete(self.http.get("/v1/collections/menu"))

    def forward(self, body, headers):
        """What the collector gets when a request has come."""

        async def send():
            del self.network.requests[:]
            answer = await self.http.post("/v1/collections/menu/reports", content=body, headers=headers)
            assert answer.status_code in (200, 202), answer.text
            while any(pool.sending for pool in self.relay.crowds.pools.values()):
                await asyncio.sleep(0)

        self.loop.run_until_complete(send())
        return list(self.network.requests)

    def close(self):
        self.loop.run_until_complete(self.http.aclose())
        self.loop.run_until_complete(self.relay.stop())
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()


@pytest.fixture
def crowd(tmp_path):
    crowd = Crowd(PLAN, tmp_path, 1)
    yield crowd
    crowd.close()


WAYS = {
    "Plan.report": (by_plan, 400, ()),
    "Plan.report, coins of one's own": (by_plan_and_coins, 200, ()),
    "Budget": (by_budget, 200, ODD),
    "Budget, coins of one's own": (by_budget_and_coins, 200, ()),
    "Ledger": (by_ledger, 150, ODD),
    "Client": (by_client, 60, ODD),
    "Client, sent again": (by_client_again, 40, ODD),
    "AsyncClient": (by_async_client, 60, ODD),
    "batch": (by_batch, 200, ()),
    "batch of named people": (by_named_batch, 200, ()),
    "keyveil privatise": (by_command, 60, ()),
    "privatise_files": (by_engine, 60, ()),
}
"""Each way, how many devices go it, and what else they may hold."""


@pytest.mark.parametrize("name", WAYS)
def test_all_that_leaves_a_device_is_the_law(name, tmp_path, scale):
    way, devices, others = WAYS[name]
    audit = audit_messages(way(tmp_path), PLAN, others=others, devices=devices * scale)
    assert audit.sound, str(audit)
    assert audit.messages == devices * scale + len(others)


PARTS = "collision:cap=3+pool=16/sign@0.2/size@0.2"


@pytest.mark.parametrize("name", ["Plan.report", "Budget", "Ledger", "batch"])
def test_all_that_leaves_a_device_is_the_law_of_the_parts(name, tmp_path, scale):
    plan, (way, devices, others) = Plan.of(PLAN.schema, "parts", "0.1", parts=PARTS), WAYS[name]
    audit = audit_messages(way(tmp_path), plan, others=others, devices=devices * scale)
    assert audit.sound, str(audit)
    assert audit.messages == devices * scale + len(others)


def test_a_relay_forwards_cells_and_ids_and_nothing_else(crowd, scale):
    """Its devices send other headers, members and lengths for every record; none of it arrives."""

    def make(plan, record):
        cells, name = plan.report(record).cells, secrets.token_hex(16)
        report = {"id": name, "cells": list(cells)}
        body = {"plan": plan.hash, "epoch": EPOCH, "reports": [report]}
        members = list(body.items())[:: 1 if record else -1]
        headers = {
            "x-keys": str(len(record)),
            "cookie": repr(record),
            "content-type": "application/json",
        }
        (request,) = crowd.forward(json.dumps(dict(members), indent=len(record)), headers)
        message = read_message(plan, request)
        assert (message.cells, message.id.hex()) == (cells, name), "passed on as it came"
        return request

    audit = audit_messages(make, PLAN, devices=60 * scale)
    assert audit.sound, str(audit)


def places_in_crowds(crowd, crowds):
    """Where the first report to come is among those forwarded, for two records in turn."""
    size = crowd.relay.wait
    places = np.zeros((2, size), int)
    for number in range(crowds):
        records = [{"0": 5} if number % 2 else {}, *[{}] * (size - 1)]
        reports = [
            {"id": secrets.token_hex(16), "cells": PLAN.report(record).cells} for record in records
        ]
        body = json.dumps({"plan": PLAN.hash, "epoch": EPOCH, "reports": reports})
        (request,) = crowd.forward(body, {"content-type": "application/json"})
        step = (len(request.body) - 48) // size
        ids = [request.body[48 + step * at :][:16].hex() for at in range(size)]
        assert sorted(ids) == sorted(report["id"] for report in reports)
        places[number % 2, ids.index(reports[0]["id"])] += 1
    return places


def uneven(places):
    """Places that occur too often or too seldom; a false alarm in 1e-9 of runs."""
    level, chance = 1e-9 / places.size / 2, 1 / places.shape[1]
    draws = places.sum(axis=1)[:, None]
    tails = np.minimum(stats.binom.cdf(places, draws, chance), stats.binom.sf(places - 1, draws, chance))
    return int((tails < level).sum())


def test_the_order_of_a_crowd_says_nothing(tmp_path, monkeypatch):
    crowd = Crowd(PLAN, tmp_path, 4)
    assert not uneven(places_in_crowds(crowd, 48))
    monkeypatch.setattr(
        "keyveil.service.collector.relay.crowd.shuffled", lambda rows: list(rows.items())
    )
    assert uneven(places_in_crowds(crowd, 48)), "a relay that keeps the order in which reports came"
    crowd.close()


@pytest.mark.parametrize("mechanism", ["grr", "kvue", "ioh", "pckv_ue"])
def test_another_record_changes_one_row_of_a_batch_and_nothing_else(mechanism, tmp_path):
    """With the same coins: not the other rows, their order or the length of the file."""
    plan = example_plan(Schema.of(4, 1, 5), mechanism, "0.1")
    records = [{"0": 1}, {}, {"1": 5, "2": 3}, {"3": 2}, {}]
    files = []
    for number, record in enumerate([{}, {"2": 5}, dict.fromkeys(plan.schema.keys, 5)]):
        people = People.of_records(plan.schema, [*records[:2], record, *records[3:]])
        reports = plan.privatise(people, Coins.stated("batch"))
        with writing(plan, tmp_path / f"{number}.kv") as file:
            file.add(reports)
        rows = plan.packing.packed(reports)
        files.append((np.delete(rows, 2, axis=0).tobytes(), (tmp_path / f"{number}.kv").stat().st_size))
    assert len(set(files)) == 1


def test_every_way_to_make_a_report_is_audited():
    """Modules that draw reports; a new one belongs to WAYS, or to what makes no one's report."""
    audited = {
        *("plan/device_side.py", "plan/plan_parts.py", "plan/batch.py"),  # Plan.report, batch
        *("plan/budget.py", "service/client/ledger.py", "cli/privatise_command.py"),
        "plan/engines/privatising.py",
    }
    invented = {
        *("simulate/tallies.py", "simulate/paper/report_cost.py", "simulate/paper/per_person.py"),
        *("trust/poison/fakes.py", "cli/demo_visitors.py"),  # people of a demo
        *(f"simulate/speed/{name}.py" for name in ("peer_clients", "plain_numpy")),
        *(f"simulate/speed/{name}.py" for name in ("speed_rows", "start_rows")),
    }
    attacks = {"trust/replay.py", "testing/sampler_checks.py"}
    root, modules = Path(keyveil.__file__).parent, set()
    names = ("report", "report_as_client", "privatise", "perturb")
    for path in root.rglob("*.py"):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if any(f".{name}(" in text for name in names) else ():
            call = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
            if call and node.func.attr in names:
                modules.add(path.relative_to(root).as_posix())
    assert modules == audited | invented | attacks


# -- twins: what the audit must catch --------------------------------------------------------------


def message(plan, record, *, report=None, name=None, epoch=EPOCH, headers=(), separators=(",", ":")):
    """What an honest device of one's own may send."""
    cells = (report or plan.report(record)).cells
    report = {"id": name or secrets.token_hex(16), "cells": list(cells)}
    body = {"plan": plan.hash, "epoch": epoch, "reports": [report]}
    text = json.dumps(body, separators=separators).encode()
    return post(text, headers)


def post(body, headers=()):
    fields = [("host", "collector.example"), ("content-type", "application/json"), *headers]
    fields.append(("content-length", str(len(body))))
    return Request("POST", "https://collector.example/v1/collections/menu/reports", tuple(fields), body)


@pytest.mark.parametrize("plan", [PLAN, SMALL], ids=["grr", "kvue"])
def test_an_honest_client_of_ones_own_passes(plan):
    audit = audit_messages(message, plan)
    assert audit.sound, str(audit)
    assert str(audit).splitlines()[1] == "sound"


def test_a_client_that_refuses_a_record_is_caught():
    """``plan.report`` is for programs, and refuses; a client maps the record instead."""
    audit = audit_messages(message, SMALL, others=[{"unknown": 3}])
    assert len(audit.findings) == 1
    assert "record 3: no valid report was sent, 1 times (a key is not in the plan" in audit.findings[0]


def length_twin(plan, record):
    return post(message(plan, record).body + b" " * len(record))


def members_twin(plan, record):
    body = json.loads(message(plan, record).body)
    members = list(body.items())[:: 1 if record else -1]
    return post(json.dumps(dict(members)).encode())


def cells_order_twin(plan, record):
    report = plan.report(record)
    cells = report.cells if record else report.cells[::-1]
    return message(plan, record, report=Report(plan.hash, cells))


def header_order_twin(plan, record):
    request = message(plan, record)
    return Request(request.method, request.url, request.headers[:: 1 if record else -1], request.body)


def silent_twin(plan, record):
    if not record:
        raise RuntimeError("nothing to tell")
    return message(plan, record)


def chatty_twin(plan, record):
    ask = Request("GET", "https://collector.example/v1/collections/menu")
    return [ask] * (1 + bool(record)) + [message(plan, record)]


def address_twin(plan, record):
    request = message(plan, record)
    return Request(request.method, f"{request.url}?keys={len(record)}", request.headers, request.body)


def binary_twin(plan, record):
    codes = plan.privatise(People.of_records(plan.schema, [record]), Coins.secure()).codes.tobytes()
    return encode_binary(plan.hash, EPOCH + len(record), secrets.token_bytes(16), codes)


EXACT = {
    "header": (lambda p, r: message(p, r, headers=[("x-keys", str(len(r)))]), "header x-keys"),
    "header there or not": (
        lambda p, r: message(p, r, headers=[("x", "1")] * len(r)),
        "order of headers",
    ),
    "header order": (header_order_twin, "order of headers"),
    "length": (length_twin, "length without the cells"),
    "epoch": (lambda p, r: message(p, r, epoch=EPOCH + len(r)), "epoch"),
    "epoch of a binary batch": (binary_twin, "epoch"),
    "order of members": (members_twin, "body"),
    "order of cells": (cells_order_twin, "ascending order"),
    "separators": (lambda p, r: message(p, r, separators=(", " if r else ",", ":")), "body"),
    "address": (address_twin, "address"),
    "requests": (chatty_twin, "number of requests"),
    "silence": (silent_twin, "record 0: no valid report was sent"),
}


@pytest.mark.parametrize("name", EXACT)
def test_what_depends_on_the_record_is_caught(name):
    make, part = EXACT[name]
    audit = audit_messages(
        make, PLAN, [{}, {"0": 5}], devices=60
    )  # all hold one record in 2^-59 of runs
    assert any(part in finding for finding in audit.findings), str(audit)
    assert all("{" not in finding for finding in audit.findings), "a finding shows no record"


def test_bytes_between_cells_are_caught():
    """Spaces in the list of cells: all but the list is the same, and so is what it says."""

    def make(plan, record):
        request = message(plan, record)
        return post(request.body.replace(b'"cells":[', b'"cells":[ ' if record else b'"cells":['))

    audit = audit_messages(make, SMALL)
    assert audit.findings == ("bytes: messages with equal cells differ in more than their id",)


def identifier(coins, address_words):
    """``Coins.identifier`` as it was: apart from a person's coins only if a bit of the address is 0."""
    block = address_words.reshape(1, 4).copy()
    block[0, 2] |= np.uint32(0x40000000)
    return coins.blocks(block, 0, 1).astype("<u4").tobytes()


def leaky_budget(plan, record):
    """``Budget.answer`` as it was: one name and one key for coins and id; half of the devices leak."""
    coins, device = Coins.stated(secrets.token_hex(16)), secrets.token_hex(16)
    report = plan.report_as_client(record, coins, device)
    return message(
        plan,
        record,
        report=report,
        name=identifier(coins.under(plan.hash), address([device])).hex(),
    )


def reuse(first, kind="<u4"):
    """Ids that are words of the coins, from ``first`` on."""

    def make(plan, record):
        coins, device = Coins.stated(secrets.token_hex(16)), secrets.token_hex(16)
        words = coins.under(plan.hash).words(device, max(first, 0), 4 + min(first, 0))
        fresh = np.frombuffer(secrets.token_bytes(16), "<u4")[: 4 - len(words)]
        name = np.concatenate([fresh, words]).astype(kind).tobytes().hex()
        return message(plan, record, report=plan.report(record, coins, device), name=name)

    return make


def test_the_leak_of_the_budget_is_caught():
    """Half of 200 devices leak. Guesses must beat 37 or so of 200, and are right for 104 +- 7: they
    fall short with a chance below 1e-20."""
    audit = audit_messages(leaky_budget, PLAN)
    assert any("guessed right" in finding for finding in audit.findings), str(audit)
    assert audit.guesses.right > 0.3 * audit.guesses.messages
    assert audit.guesses.allowed < 0.053
    assert "little-endian words 0 to 3" in audit.guesses.attack
    assert audit.cells.epsilon <= 0.1, "cells alone look honest"
    threshold = int(stats.binom.isf(1e-9 / 5 / 13, 200, audit.guesses.allowed)) + 1
    assert stats.binom.cdf(threshold, 200, 0.5 + 0.5 / 21) < 1e-20


@pytest.mark.parametrize("first", [-1, 0, 1, 2])
@pytest.mark.parametrize("kind", ["<u4", ">u4"])
def test_ids_that_are_coins_are_caught(first, kind):
    audit = audit_messages(reuse(first, kind), PLAN, devices=120)
    order = "little" if kind == "<u4" else "big"
    words = f"{order}-endian words {first} to {first + 3} of the coins"
    assert any(words in finding for finding in audit.findings), str(audit)


@pytest.mark.parametrize("mechanism", ["privkv", "optimal", "shist", "pairs"])
def test_ids_that_are_coins_are_caught_where_they_do_not_tell_the_record(mechanism):
    """The id draws the cells again from the true record more often than any other id would."""
    plan = example_plan(Schema.of(2, 1, 5), mechanism, "0.5")
    audit = audit_messages(reuse(0), plan)
    assert any("draw the same cells again" in finding for finding in audit.findings), str(audit)


def digest(*parts):
    return sha256(json.dumps(parts, sort_keys=True).encode()).digest()


def from_cells(plan, record):
    report = plan.report(record)
    return message(plan, record, report=report, name=digest(report.cells)[:16].hex())


def one_bit_of_cells(plan, record):
    """Random ids whose first bit says whether the cells tell the truth."""
    report, name = plan.report(record), bytearray(secrets.token_bytes(16))
    state = 0 if not record else 1 if record["a"] < 0 else 2
    name[0] = name[0] & 0x7F | (report.cells[1] - 1 == state) << 7
    return message(plan, record, report=report, name=name.hex())


IDS = {
    "hash of the record": lambda p, r: message(p, r, name=digest(r)[:16].hex()),
    "hash of the cells": from_cells,
    "half a hash": lambda p, r: message(p, r, name=secrets.token_hex(8) + digest(r)[:8].hex()),
    "a quarter of a hash": lambda p, r: message(p, r, name=secrets.token_hex(12) + digest(r)[:4].hex()),
    "a bit of the record": lambda p, r: message(
        p, r, name=("8" if r else "0") + secrets.token_hex(16)[1:]
    ),
    "a bit of the cells": one_bit_of_cells,
}


@pytest.mark.parametrize("name", IDS)
def test_ids_that_depend_on_record_or_cells_are_caught(name):
    audit = audit_messages(IDS[name], SMALL, devices=400)
    assert any(finding.startswith("id: ") for finding in audit.findings), str(audit)


def test_a_device_that_tells_the_truth_is_caught_by_its_cells():
    def make(plan, record):
        state = 1 + plan.schema.index[next(iter(record))] if record else 0
        return message(plan, record, report=Report(plan.hash, (0, 1 + state)))

    audit = audit_messages(make, PLAN)
    assert any("cells alone" in finding for finding in audit.findings), str(audit)


def test_some_reports_without_id_are_caught():
    def make(plan, record):
        report = plan.report(record)
        name = secrets.token_hex(16) if record else None
        return Report(plan.hash, report.cells, name).dumps()

    audit = audit_messages(make, SMALL)
    assert any("some have none" in finding for finding in audit.findings)


# -- the audit itself ------------------------------------------------------------------------------


def test_the_false_alarm_is_as_stated():
    """40 honest audits at a false alarm of 0.2; with other coins more than 22 occur in 1e-6 of runs."""
    names = Coins.stated("ids").generator()

    def make(plan, record):
        person = int(names.integers(1 << 40))
        report = plan.report(record, Coins.stated("reports"), person)
        return Report(plan.hash, report.cells, names.bytes(16).hex()).dumps()

    audits = [
        audit_messages(make, SMALL, devices=60, false_alarm=0.2, coins=Coins.stated(number))
        for number in range(40)
    ]
    assert sum(not audit.sound for audit in audits) <= 22
    assert stats.binom.sf(22, 40, 0.2) < 1e-6


def test_the_bound_on_guesses_is_reached_by_randomised_response():
    for plan in (PLAN, SMALL):
        (channel,) = plan.channels
        bound = guess_bound(float(plan.promised), channel.states)
        assert channel.keep / 2**32 == pytest.approx(bound, rel=1e-8)  # integers of 2^32
    assert guess_bound(0.1, 21) == pytest.approx(0.0524, abs=1e-4)


def test_the_tail_of_unequal_chances_is_that_of_a_binomial_where_they_are_equal():
    for right in range(8):
        exact = stats.binom.sf(right - 1, 7, 0.3)
        assert binomials_tail(right, np.full(7, 0.3)) == pytest.approx(exact, rel=1e-12)
    assert binomials_tail(2, np.array([1.0, 1.0, 0.0])) == 1
    assert binomials_tail(2, np.array([0.5, 0.25])) == 0.125


@pytest.mark.parametrize("mechanism", ["rr", "grr", "graded", "ioh", "collision", "sized"])
def test_example_records_are_valid_and_differ(mechanism):
    plan = example_plan(Schema.of(3, 1, 5), mechanism)
    records = example_records(plan)
    assert len(records) > 1
    assert len({json.dumps(plan.schema.checked(record)) for record in records}) == len(records)


def test_all_forms_of_a_message_are_read_alike():
    for plan in (PLAN, Plan.of(Schema.of(6, 1, 5), "pckv_ue", 1, length=2)):
        name = secrets.token_bytes(16)
        people = People.of_records(plan.schema, [{"1": 5}])
        reports = plan.privatise(people, Coins.stated("forms"))
        cells = plan.report({"1": 5}, Coins.stated("forms"), 0).cells
        packed = plan.packing.packed(reports).tobytes()
        report = Report(plan.hash, cells, name.hex())
        for content in (report.dumps(), message(plan, {}, report=report, name=name.hex())):
            assert (read_message(plan, content).cells, read_message(plan, content).id) == (cells, name)
        binary = read_message(plan, encode_binary(plan.hash, EPOCH, name, packed))
        assert (binary.cells, binary.id, binary.parts["epoch"]) == (cells, name, EPOCH)


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        ("[]", "JSON with the plan"),
        ('{"plan":"%s","cells":[0,1,1]}', "ascending"),
        ('{"plan":"%s","cells":[0,"1"]}', "whole numbers"),
        ('{"plan":"%s","cells":[0,99]}', "honest device"),
        ('{"plan":"%s","cells":[0,1],"id":"AB"}', "hexadecimal"),
        ('{"plan":"other","cells":[0,1]}', "another plan"),
        ([], "no report"),
        ([message(PLAN, {}), message(PLAN, {})], "several reports"),
        (encode_binary(PLAN.hash, 1, bytes(32), bytes(2)), "several reports"),
        (encode_binary(PLAN.hash, 1, bytes(16), bytes(2)), "as long as"),
        (encode_binary("0" * 64, 1, bytes(16), bytes(1)), "another plan"),
        (encode_binary(PLAN.hash, 1, bytes(16), b"\xff"), "honest device"),
    ],
)
def test_what_is_no_message_of_one_report_is_refused(sent, why):
    if isinstance(sent, str) and "%s" in sent:
        sent %= PLAN.hash
    with pytest.raises(ReportError, match=why):
        read_message(PLAN, sent)
    with pytest.raises(ReportError, match=why):
        audit_messages(lambda plan, record: sent, PLAN, devices=2)


def test_a_file_of_several_reports_or_of_none_is_refused(tmp_path):
    for records in ([], [{}, {}]):
        with writing(PLAN, tmp_path / "reports.kv") as file:
            file.add(PLAN.privatise(People.of_records(PLAN.schema, records), Coins.secure()))
        content = (tmp_path / "reports.kv").read_bytes()
        with pytest.raises(ReportError, match="one person at a time"):
            read_message(PLAN, content)
        with pytest.raises(ReportError, match="cut short"):
            read_message(PLAN, content[:-1])
    with pytest.raises(ReportError, match="no packed file"):
        list(parse(PLAN, b"KVBATCH1"))


def test_what_cannot_be_audited_is_refused():
    with pytest.raises(PlanError, match="two records"):
        audit_messages(message, PLAN, [{}])
    with pytest.raises(PlanError, match="false alarm"):
        audit_messages(message, PLAN, false_alarm=0)

    def breaks_down(plan, record):
        return message(plan, {}) if record is None else silent_twin(plan, {})

    with pytest.raises(RuntimeError, match="nothing to tell"):
        audit_messages(breaks_down, PLAN, others=[None])


def test_a_stand_in_sees_what_goes_over_the_wire(tmp_path):
    """The same client over a socket of this machine: the same lines, in the same order."""
    lines: list[list[bytes]] = []
    network = StandIn(PLAN)
    server = socket.create_server(("127.0.0.1", 0))
    port = server.getsockname()[1]

    def serve():
        for _ in range(3):
            connection, _ = server.accept()
            with connection:
                data = b""
                while b"\r\n\r\n" not in data or len(data.partition(b"\r\n\r\n")[2]) < body_size(data):
                    data += connection.recv(65536)
                head, _, body = data.partition(b"\r\n\r\n")
                lines.append([*head.split(b"\r\n"), body])
                method, path, _ = lines[-1][0].decode().split(" ")
                answer = network.handle_request(httpx.Request(method, f"{URL}{path}", content=body))
                text = answer.read()
                connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(text) + text)

    thread = threading.Thread(target=serve)
    thread.start()
    with Client(f"{URL}:{port}", tmp_path / "wire", **OPTIONS) as client:
        assert client.answer("menu", {"3": 4}).counted
    thread.join()
    server.close()
    with Client(f"{URL}:{port}", tmp_path / "stand-in", transport=network, **OPTIONS) as client:
        del network.requests[:]
        client.answer("menu", {"3": 4})
    for line, request in zip(lines, network.requests, strict=True):
        path = request.url.removeprefix(f"{URL}:{port}")
        headers = [f"{name}: {value}".encode() for name, value in request.headers]
        expected = [f"{request.method} {path} HTTP/1.1".encode(), *headers]
        masked = [line[:-1], expected]
        if request.body:  # cells and id differ, and so may the length
            assert sorted(json.loads(line[-1])) == sorted(json.loads(request.body))
            masked = [[h for h in row if not h.lower().startswith(b"content-length")] for row in masked]
        assert masked[0] == masked[1]


def body_size(data):
    for line in data.partition(b"\r\n\r\n")[0].split(b"\r\n"):
        if line.lower().startswith(b"content-length:"):
            return int(line.split(b":")[1])
    return 0
