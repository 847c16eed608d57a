"""The client: one device answers one collection once, whatever is lost, changed, repeated or refused.

Requests go into a collector in process; every guarantee has a test that tries to get around it.
"""

from __future__ import annotations

import asyncio
import copy
import json
import logging
import multiprocessing
import pickle
import re
import socket
import stat
import sys
import threading
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from desk import PLAN, Desk, fresh, plan_of
from process import keyveil as command
from scipy.stats import chi2

import keyveil
from keyveil import AsyncClient, BudgetError, Client, Coins, CoinsError, KeyveilError, Plan, PlanError
from keyveil.cli import ledger_command as ledger_command
from keyveil.cli.collection_answers import read_over_http
from keyveil.foundation.exact import rounded_down, rounded_up
from keyveil.service.client import ClientError, Ledger
from keyveil.service.client.client_core import EPOCHS, Patience
from keyveil.service.client.device import DeviceCoins
from keyveil.service.client.verdict import FINAL, LATER, Response, judge
from keyveil.service.collector.process.problems import REASONS

URL = "http://127.0.0.1"
RECORD = {"Pepsi": 4}
AT_ONCE = Patience(settle=0, spread=0)
"""For tests in which the time of the first try does not matter."""
OTHER = {"Fries": 1, "Salad": 5}


class Wire(httpx.BaseTransport):
    """A network that ends in a desk, keeps what passes, and fails as it is told."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.seen: list[tuple[str, str, bytes, dict[str, str]]] = []
        self.faults: list[Any] = []
        """For each POST to come: a response in place of the collector's, "lost" for one that does not
        arrive though the request did, "cut" for a request that does not; None for none."""
        self.gets: dict[str, bytes] = {}
        """Bodies in place of the collector's, by the end of the path."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        body = request.read()
        self.seen.append((request.method, request.url.path, body, dict(request.headers)))
        fault = self.faults.pop(0) if request.method == "POST" and self.faults else None
        if isinstance(fault, httpx.Response):
            return streamed(fault)
        if fault == "cut":
            raise httpx.ConnectError("cut")
        for end, changed in self.gets.items():
            if request.url.path.endswith(end):
                return streamed(httpx.Response(200, content=changed))
        answer = self.desk.ask(
            request.method, request.url.path, content=body, headers=dict(request.headers)
        )
        if fault == "lost":
            raise httpx.ReadTimeout("lost")
        return streamed(answer)

    @property
    def posts(self) -> list[bytes]:
        return [body for method, _, body, _ in self.seen if method == "POST"]


def streamed(response: httpx.Response) -> httpx.Response:
    """A response whose body is still to come, as from a network."""
    return httpx.Response(
        response.status_code, headers=response.headers, stream=httpx.ByteStream(response.content)
    )


class Phone:
    """A device: a folder, a wire, a clock; opened as often as it is started."""

    def __init__(self, desk: Desk, folder: Path, **more: Any) -> None:
        self.desk, self.folder, self.wire = desk, folder, Wire(desk)
        self.more = {"cap": 4, "jitter": lambda: 0.5, "patience": AT_ONCE, **more}
        self.slept: list[float] = []
        self.skew = 0.0

    def start(self, **more: Any) -> Client:
        def pause(seconds: float) -> None:
            self.slept.append(seconds)
            self.desk.clock.advance(seconds)

        options = {**self.more, **more}
        clock = lambda: self.desk.clock.now() + self.skew  # noqa: E731
        return Client(URL, self.folder, transport=self.wire, pause=pause, clock=clock, **options)

    @property
    def ledger(self) -> Path:
        return self.folder / "ledger.json"

    @property
    def secret_file(self) -> Path:
        return self.folder / "device.json"


@pytest.fixture
def phone(file_desk: Desk, tmp_path: Path) -> Phone:
    file_desk.create()
    return Phone(file_desk, tmp_path / "phone")


def busy(status: int = 503, after: str | None = None) -> httpx.Response:
    headers = {} if after is None else {"retry-after": after}
    return httpx.Response(status, json={"reason": "overload", "retry": True}, headers=headers)


# -- the usual course ------------------------------------------------------------------------------


def test_an_answer_is_counted_and_stands_in_the_ledger(phone):
    client = phone.start(allow=1)
    outcome = client.answer("menu", RECORD)
    assert outcome.counted
    assert outcome.epsilon == client.spent == client.ledger.spent_in(outcome.collection) == PLAN.proven
    assert client.left == client.cap - PLAN.proven
    assert phone.desk.reports() == 1
    (entry,) = client.answers("menu")
    assert (entry.state, entry.plan, entry.round, entry.mechanism) == ("counted", PLAN.hash, 1, "kvue")
    assert json.loads(phone.wire.posts[0]) == {
        "plan": PLAN.hash,
        "epoch": phone.desk.epoch(),
        "reports": [{"id": entry.report.id, "cells": list(entry.report.cells)}],
    }


def test_a_counted_report_is_never_sent_again_whatever_the_record_is_by_then(phone):
    phone.start().answer("menu", RECORD)
    for record in (RECORD, OTHER, {}, None):
        assert phone.start().answer("menu", record).counted
    assert len(phone.wire.posts) == 1
    assert phone.start().spent == PLAN.proven


def test_a_waiting_report_is_sent_as_it_was_though_the_record_changed(phone):
    phone.wire.faults = ["cut"] * 4
    assert phone.start().answer("menu", RECORD).state == "waiting"
    phone.desk.clock.advance(3600)
    assert phone.start().answer("menu", OTHER).counted
    assert len(phone.wire.posts) == 5
    assert len(set(phone.wire.posts)) == 1, "to the last byte"
    assert phone.desk.reports() == 1


def test_a_response_that_is_lost_makes_no_second_report(phone):
    phone.wire.faults = ["lost", "lost"]
    assert phone.start().answer("menu", RECORD).counted
    assert len(phone.wire.posts) == 3
    assert phone.desk.reports() == 1


def test_a_function_is_called_for_the_record_once_the_plan_is_verified(phone, monkeypatch):
    records, called = [], []
    drawn = Plan.report_as_client
    monkeypatch.setattr(
        Plan,
        "report_as_client",
        lambda plan, record, *a: records.append(record) or drawn(plan, record, *a),
    )

    def record() -> dict[str, float]:
        called.append(len(phone.wire.posts))
        return RECORD

    client = phone.start(allow=1)
    with pytest.raises(PlanError, match="not the expected one"):
        client.answer("menu", record, plan="0" * 64)
    assert called == []
    assert client.answer("menu", record).counted
    assert client.answer("menu", record).counted
    assert (records, called) == ([RECORD], [0])


@pytest.mark.parametrize("token", ["", " ", "a b", "a\nb", "\x00", 3])
def test_a_token_is_one_word(phone, token):
    with pytest.raises(ClientError, match="a token is one word"):
        phone.start(token=token)


def test_the_line_end_of_a_token_file_is_no_part_of_the_token(phone):
    client = phone.start(token="secret\n")
    assert client._core._headers == {"authorization": "Bearer secret"}


def test_the_asynchronous_client_is_the_same_client(file_desk, tmp_path):
    file_desk.create()
    slept, called = [], []

    async def pause(seconds: float) -> None:
        slept.append(seconds)

    async def record() -> dict[str, float]:
        called.append(1)
        return RECORD

    async def run() -> None:
        transport = httpx.ASGITransport(file_desk.app)
        options: dict[str, Any] = {
            "transport": transport,
            "clock": file_desk.clock.now,
            "pause": pause,
            "patience": AT_ONCE,
        }
        async with AsyncClient(URL, tmp_path / "a", cap=2, **options) as client:
            assert (await client.plan("menu")) == PLAN
            assert (await client.about("menu"))["state"] == "open"
            assert (await client.answer("menu", record)).counted
            assert (await client.answer("menu", OTHER)).counted
            assert called == [1]
            assert await client.flush() == []
        failing = httpx.MockTransport(lambda _: httpx.Response(503))
        async with AsyncClient(URL, tmp_path / "a", **{**options, "transport": failing}) as client:
            with pytest.raises(ClientError, match="cannot be reached"):
                await client.answer("other", RECORD)

    file_desk.run(run())
    assert file_desk.reports() == 1
    assert len(slept) == 3
    assert Client(URL, tmp_path / "a").spent == PLAN.proven, "the same files"


def test_one_state_for_all_collectors_unless_another_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "states"))
    Client(URL, cap=3).close()
    assert Client("https://example.org").cap == 3
    assert (tmp_path / "states" / "keyveil" / "ledger.json").exists()
    with pytest.raises(BudgetError, match="needs a cap"):
        Client(URL, tmp_path / "new")
    with pytest.raises(BudgetError, match="above zero"):
        Client(URL, tmp_path / "new", cap=0)
    with pytest.raises(ClientError, match="https"):
        Client("http://example.org", tmp_path / "never", cap=1)
    assert not any((tmp_path / name).exists() for name in ("new", "never")), "a refusal leaves nothing"


def test_without_httpx_it_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(ClientError, match=r"keyveil\[client\]"):
        Client(URL, tmp_path / "never", cap=1)
    assert not (tmp_path / "never").exists()


def test_a_cancelled_answer_goes_on_where_it_was(file_desk, tmp_path):
    file_desk.create()
    app = httpx.ASGITransport(file_desk.app)

    class Slow(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            response = await app.handle_async_request(request)
            if request.method == "POST":
                await asyncio.sleep(3600)
            return response

    async def run() -> None:
        options: dict[str, Any] = {"cap": 2, "clock": file_desk.clock.now, "patience": AT_ONCE}
        async with AsyncClient(URL, tmp_path / "a", transport=Slow(), **options) as client:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(client.answer("menu", RECORD), 0.3)
            assert [entry.state for entry in client.answers()] == ["waiting"]
        file_desk.clock.advance(10)
        async with AsyncClient(URL, tmp_path / "a", transport=app, **options) as client:
            assert (await client.answer("menu", OTHER)).counted

    file_desk.run(run())
    assert file_desk.reports() == 1


def test_a_response_without_end_is_cut_off(phone, monkeypatch):
    monkeypatch.setattr("keyveil.service.client.client_core.MOST_PLAN", 1000)
    phone.wire.gets["/plan"] = b"x" * 1001
    with pytest.raises(ClientError, match="more than 1,000 bytes"):
        phone.start().answer("menu", RECORD)
    assert phone.start().spent == 0


def test_the_package_names_both_clients():
    assert keyveil.Client is Client
    assert keyveil.AsyncClient is AsyncClient


# -- what is lost ----------------------------------------------------------------------------------


def test_a_lost_ledger_gives_the_same_report_under_the_same_id_and_epoch(phone):
    phone.start().answer("menu", RECORD)
    phone.ledger.unlink()
    phone.desk.clock.advance(86_400)  # another epoch by now
    assert phone.start().answer("menu", RECORD).counted
    assert len(set(phone.wire.posts)) == 1
    assert len(phone.wire.posts) == 2
    assert phone.desk.reports() == 1


def test_a_lost_ledger_and_a_changed_record_send_nothing(phone):
    phone.start().answer("menu", RECORD)
    phone.ledger.unlink()
    for record in (OTHER, {}, {"Pepsi": 4, "Fries": 2}, {"Pepsi": 4.0000001}):
        with pytest.raises(BudgetError, match="nothing is sent") as caught:
            phone.start().answer("menu", record)
        assert "Pepsi" not in str(caught.value)
    assert phone.start().flush() == []
    assert len(phone.wire.posts) == 1
    assert phone.start().answers("menu")[0].state == "lost"
    assert phone.start().answer("menu", {"Pepsi": 4.0, "Unknown": 3}).counted, "the same to the plan"


def test_the_same_coins_on_a_changed_record_would_give_it_away(phone):
    """Why there is a commitment: without it a lost ledger would tell more by the same coins."""
    client = phone.start()
    client.answer("menu", RECORD)
    document = json.loads(phone.secret_file.read_text())
    coins = DeviceCoins(bytes.fromhex(document["secret"]))
    again = PLAN.report_as_client(RECORD, coins, document["device"])
    (entry,) = client.answers("menu")
    assert again.cells == entry.report.cells
    views = {PLAN.report_as_client(dict.fromkeys(PLAN.schema.keys, v), coins, document["device"]).cells
             for v in (1, 5)} | {again.cells}  # fmt: skip
    assert len(views) > 1
    assert len({cells[0] for cells in views}) == 1, "the same view: two points of one word"


def test_a_lost_ledger_does_not_renew_the_cap(phone):
    phone.start(cap="1.5").answer("menu", RECORD)
    phone.desk.create("second", plan_of("kvoh"))
    for _ in range(2):
        phone.ledger.unlink()
        with pytest.raises(
            BudgetError, match=r"epsilon 1\.000, but only 0\.500 is left of the cap of 1\.5$"
        ):
            phone.start(cap=None).answer("second", RECORD)
        assert phone.start(cap=None).spent == PLAN.proven
    with pytest.raises(
        BudgetError, match=r"was made with a cap of 1\.5, and the cap asked for now is 9;"
    ):
        phone.start(cap=9)
    assert len(phone.wire.posts) == 1


def test_an_older_ledger_from_a_backup_forgets_nothing(phone):
    client = phone.start()
    before = phone.ledger.read_bytes()
    client.answer("menu", RECORD)
    phone.ledger.write_bytes(before)
    assert phone.start().spent == PLAN.proven
    with pytest.raises(BudgetError, match="nothing is sent"):
        phone.start().answer("menu", OTHER)
    assert phone.start().answer("menu", RECORD).counted
    assert len(set(phone.wire.posts)) == 1


def test_without_its_secret_a_device_sends_what_stands_and_answers_nothing_new(phone):
    phone.wire.faults = ["cut"] * 4
    phone.start().answer("menu", RECORD)
    phone.secret_file.unlink()
    phone.desk.create("second", plan_of("kvoh"))
    phone.desk.clock.advance(3600)
    with pytest.raises(BudgetError, match="secret is missing"):
        phone.start().answer("second", RECORD)
    (outcome,) = phone.start().flush()
    assert outcome.counted
    assert phone.desk.reports() == 1
    assert not phone.secret_file.exists(), "no new secret beside an old ledger"


def test_another_devices_secret_does_not_fit(phone, tmp_path):
    phone.start().answer("menu", RECORD)
    stranger = Phone(phone.desk, tmp_path / "stranger")
    stranger.start()
    phone.secret_file.write_bytes(stranger.secret_file.read_bytes())
    with pytest.raises(BudgetError, match="do not belong together"):
        phone.start()


@pytest.mark.parametrize("name", ["ledger", "secret_file"])
@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"format": "keyveil/device/1"}'])
def test_a_broken_file_stops_everything_and_is_not_replaced(phone, name, content):
    phone.start().answer("menu", RECORD)
    path = getattr(phone, name)
    path.write_bytes(content)
    with pytest.raises(BudgetError, match="cannot be read"):
        phone.start()
    assert path.read_bytes() == content


def test_a_stop_between_the_two_files_costs_nothing_and_sends_nothing(phone, monkeypatch):
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    client = phone.start()
    with monkeypatch.context() as patch:
        patch.setattr("keyveil.service.client.device.Device.remember", stop)
        with pytest.raises(KeyboardInterrupt):
            client.answer("menu", RECORD)
    assert phone.wire.posts == [], "a report leaves when both files have it"
    assert json.loads(phone.secret_file.read_text())["answers"] == []
    again = phone.start()
    assert len(json.loads(phone.secret_file.read_text())["answers"]) == 1
    assert again.answer("menu", OTHER).counted
    assert again.spent == PLAN.proven


def test_the_files_are_private_and_hold_no_record(phone):
    phone.start().answer("menu", {"Pepsi": 4.25})
    document = json.loads(phone.secret_file.read_text())
    for path in (phone.ledger, phone.secret_file):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert "Pepsi" not in path.read_text()
        assert "4.25" not in path.read_text()
    assert "cells" not in phone.secret_file.read_text(), "kept apart: no report"
    assert document["secret"] not in phone.ledger.read_text(), "kept apart: no secret"


def test_the_secret_may_lie_elsewhere(phone, tmp_path):
    secret_file = tmp_path / "safe" / "secret.json"
    phone.start(secret_file=secret_file).answer("menu", RECORD)
    assert not phone.secret_file.exists()
    phone.ledger.unlink()
    assert phone.start(secret_file=secret_file).spent == PLAN.proven
    elsewhere = Phone(phone.desk, tmp_path / "two")
    with pytest.raises(BudgetError, match="nothing is sent"):
        elsewhere.start(secret_file=secret_file).answer("menu", OTHER)


# -- coins -----------------------------------------------------------------------------------------


def test_stated_coins_are_refused_and_the_devices_own_never_leave_it(tmp_path):
    ledger = Ledger(tmp_path / "ledger.json", cap=2)
    for coins in (Coins.stated(1), Coins.recorded([1] * 9), Coins.secure()):
        with pytest.raises(CoinsError, match="leave coins out"):
            ledger.answer(PLAN, {}, coins)
    with pytest.raises(CoinsError, match="32 bytes"):
        DeviceCoins(b"short")
    own = DeviceCoins(bytes(32))
    for leave in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(CoinsError, match="do not leave"):
            leave(own)


def chance(coins_of: Any) -> float:
    """The p-value of 3000 devices' reports against the plan's law for one record."""
    plan = plan_of(keys=["Pepsi"])
    (channel,) = plan.channels
    counts = Counter(
        plan.report_as_client({"Pepsi": 5}, coins_of(number), "device").cells[1] - 1
        for number in range(3000)
    )
    law = [channel.lie, channel.lie, channel.keep]
    expected = [3000 * weight / 2**32 for weight in law]
    value = sum((counts[cell] - most) ** 2 / most for cell, most in enumerate(expected))
    return float(chi2.sf(value, 2))


def test_reports_by_device_secrets_follow_the_law():
    """False alarm: one in 10^6. Coins that forget the secret fail it."""

    def secret(number: int) -> bytes:
        return Coins.stated("secrets").words(number, 0, 8).astype("<u4").tobytes()

    assert chance(lambda number: DeviceCoins(secret(number))) > 1e-6
    assert chance(lambda number: DeviceCoins(bytes(32))) < 1e-6, "a broken twin"


def test_two_plans_share_no_coins_and_two_devices_no_ids(phone, tmp_path):
    coins = DeviceCoins(bytes(range(32)))
    first, second = plan_of(), plan_of("kvoh")
    assert list(coins.under(first.hash).words("d", 0, 8)) != list(
        coins.under(second.hash).words("d", 0, 8)
    )
    phone.desk.create("second", plan_of("kvoh"))
    devices = [phone, Phone(phone.desk, tmp_path / "two")]
    for device in devices:
        for name in ("menu", "second"):
            device.start().answer(name, RECORD)
    ids = [json.loads(body)["reports"][0]["id"] for device in devices for body in device.wire.posts]
    assert len(set(ids)) == 4


# -- the plan --------------------------------------------------------------------------------------


def tampered() -> bytes:
    document = json.loads(PLAN.dumps())
    document["channels"][0]["keep"] += 2000
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (tampered(), "hash"),
        (plan_of("kvoh").dumps().encode(), "a plan other than the one it names"),
        (b"<html>hello</html>", "JSON"),
        (b"", "JSON"),
    ],
)
def test_a_plan_that_cannot_be_trusted_is_not_answered(phone, content, says):
    phone.wire.gets["/plan"] = content
    client = phone.start()
    with pytest.raises(PlanError, match=says):
        client.answer("menu", RECORD)
    assert client.spent == 0
    assert phone.wire.posts == []


def test_a_plan_that_costs_more_than_is_allowed_is_not_answered(phone):
    for allow in ("0.5", 0.999):
        client = phone.start(allow=allow)
        with pytest.raises(BudgetError, match="allowed for one collection"):
            client.answer("menu", RECORD)
    phone.desk.create("dear", plan_of(epsilon=5))
    with pytest.raises(BudgetError, match="cap"):
        phone.start().answer("dear", RECORD)
    assert phone.start().spent == 0
    assert phone.wire.posts == []


def test_a_plan_may_be_pinned(phone):
    client = phone.start()
    with pytest.raises(PlanError, match="expected"):
        client.answer("menu", RECORD, plan="0" * 64)
    assert client.spent == 0
    assert client.answer("menu", RECORD, plan=PLAN.hash).counted
    with pytest.raises(PlanError, match="expected"):
        client.answer("menu", RECORD, plan="0" * 64)


@pytest.mark.parametrize(
    "about",
    [
        *({}, [], {"plan": "x"}, {"plan": PLAN.hash, "state": "open"}),
        {"plan": PLAN.hash, "state": "open", "epoch": {"now": -1}},
        {"plan": PLAN.hash, "state": "open", "epoch": {"now": 2**40}},
        {"plan": PLAN.hash, "state": "open", "epoch": {"now": True}},
    ],
)
def test_what_is_no_collector_is_told_nothing(phone, about):
    phone.wire.gets["/menu"] = json.dumps(about).encode()
    with pytest.raises(ClientError, match="not a keyveil collector"):
        phone.start().answer("menu", RECORD)
    assert phone.start().spent == 0


def test_a_collection_that_takes_nothing_now_costs_nothing(phone):
    for state, words in (("paused", "accepts no answers now"), ("closed", "is closed")):
        phone.desk.post("/v1/collections/menu/state", json={"state": state})
        with pytest.raises(ClientError, match=words):
            phone.start().answer("menu", RECORD)
    phone.desk.create("small", plan_of("grr"), people=1)
    for _ in range(2):
        phone.desk.send(fresh(1, plan_of("grr")), "small", plan=plan_of("grr").hash)
    with pytest.raises(ClientError, match="accepts no answers now"):
        phone.start().answer("small", RECORD)
    phone.desk.create("guarded", plan_of("kvoh"), token=True)
    with pytest.raises(ClientError, match="token"):
        phone.start().answer("guarded", RECORD)
    with pytest.raises(ClientError, match="404"):
        phone.start().answer("nothing", RECORD)
    assert phone.start().spent == 0
    assert phone.wire.posts == []


@pytest.mark.parametrize(
    "url",
    [
        *("http://example.org", "ftp://127.0.0.1", "example.org", "https://", "https://a?b=1"),
        *("https://user:word@example.org", "http://127.example.org.evil.test@x", "http://[::1"),
        *("https://a b.org", "https://example.org\n", None, b"https://example.org"),
    ],
)
def test_an_address_must_be_safe(tmp_path, url):
    with pytest.raises(ClientError, match=r"looks like|needs https|must not contain a name"):
        Client(url, tmp_path, cap=1)


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("example.org", "the part https:// is missing"),
        ("127.0.0.1:8750", "the part https:// is missing"),
        ("https://example.org/?x", r"leave out the \? or # and what follows it"),
        ("https://example.org/#", r"leave out the \? or # and what follows it"),
        ("https://example.org/v1/collections/menu", "leave out /v1/collections and what follows it"),
    ],
)
def test_a_wrong_address_is_told_what_is_wrong(tmp_path, url, hint):
    with pytest.raises(ClientError, match=rf"address looks like https://example\.org; {hint}$"):
        Client(url, tmp_path, cap=1)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"patience": {"attempts": 2}}, r"patience is a Patience, like Patience\(attempts=2\)"),
        ({"state": 4}, "state is the folder of the ledger; name other arguments: cap=4"),
        ({"state": __file__}, "state is the folder of the ledger; .*test_client.py is a file"),
    ],
)
def test_an_argument_of_another_kind_is_named(tmp_path, options, line):
    with pytest.raises(ClientError, match=line):
        Client(URL, **{"state": tmp_path, "cap": 1, **options})


@pytest.mark.parametrize(
    ("times", "line"),
    [
        *(({"attempts": n}, "attempts must be a whole number") for n in ("2", 0, 1.5, True)),
        *(({name: "1"}, f"{name} must be seconds") for name in ("first", "most", "longest", "settle")),
        *(({name: -1}, f"{name} must be seconds") for name in ("first", "most", "longest", "spread")),
        ({"settle": float("nan")}, "settle must be seconds"),
        ({"spread": float("inf")}, "finite"),
    ],
)
def test_patience_has_numbers(times, line):
    with pytest.raises(ClientError, match=line):
        Patience(**times)


def test_a_collection_is_named_and_its_plan_is_a_plan_or_a_hash(phone):
    client = phone.start()
    for name in (None, "", 3):
        with pytest.raises(ClientError, match="name the collection to answer, like 'menu'"):
            client.answer(name, RECORD)
    with pytest.raises(ClientError, match="plan is the expected Plan or its hash"):
        client.answer("menu", RECORD, plan="plan.json")
    with pytest.raises(PlanError, match="not the expected one"):
        client.answer("menu", RECORD, plan=plan_of("kvoh"))
    assert client.spent == 0
    assert client.answer("menu", RECORD, plan=PLAN) == client.answer("menu", RECORD, plan=PLAN.hash)


def test_a_closed_client_says_so(phone):
    with phone.start() as client:
        pass
    with pytest.raises(ClientError, match="this client is closed; make a new one"):
        client.answer("menu", RECORD)
    assert client.spent == 0, "its ledger can still be read"


def test_the_asynchronous_client_is_opened_with_async_with(tmp_path):
    with pytest.raises(ClientError, match="write: async with AsyncClient"):  # noqa: SIM117
        with AsyncClient(URL, tmp_path, cap=1):
            pass


def test_https_to_a_server_of_http_is_told_so(tmp_path):
    def answer() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                connection.recv(1000)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=answer, daemon=True).start()
        url = f"https://127.0.0.1:{server.getsockname()[1]}"
        line = r"sent an answer that is not https \(it may speak http\)"
        with pytest.raises(ClientError, match=line):
            Client(url, tmp_path, cap=1).answer("menu", RECORD)
        with pytest.raises(KeyveilError, match=line):
            read_over_http(url, "menu", None, "kv_abc")
        server.shutdown(socket.SHUT_RDWR)


def test_a_command_that_reaches_nobody_names_no_class_of_errors(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    monkeypatch.setattr("keyveil.cli.collection_answers.WAIT", 0.2)
    line = f"^cannot reach the collector at http://127.0.0.1:{port}: "
    with pytest.raises(KeyveilError, match=line + r"nobody answers; is it running at this address\?$"):
        read_over_http(f"http://127.0.0.1:{port}", "menu", None, None)
    with pytest.raises(KeyveilError, match="a token is one word on one line"):
        read_over_http(f"http://127.0.0.1:{port}", "menu", None, "kv_a\nb")
    with (
        socket.create_server(("127.0.0.1", port)),
        pytest.raises(KeyveilError, match=line + r"it sent nothing for 0\.2 seconds$"),
    ):
        read_over_http(f"http://127.0.0.1:{port}", "menu", None, None)


def test_a_host_that_only_begins_like_this_machine_is_another(tmp_path):
    with pytest.raises(ClientError, match="needs https"):
        Client("http://127.0.0.1.example.org", tmp_path, cap=1)


# -- collections and rounds ------------------------------------------------------------------------


def test_one_plan_in_two_collections_is_answered_in_one(phone):
    phone.desk.create("again")
    client = phone.start()
    client.answer("menu", RECORD)
    with pytest.raises(BudgetError, match="another collection"):
        client.answer("again", RECORD)
    assert len(phone.wire.posts) == 1


def test_a_collection_that_comes_back_with_another_plan_is_not_answered_twice(phone):
    phone.start().answer("menu", RECORD)
    phone.desk.post("/v1/collections/menu/state", json={"state": "closed"})
    phone.desk.ask("DELETE", "/v1/collections/menu")
    phone.desk.create("menu", plan_of("kvoh"))
    with pytest.raises(BudgetError, match="under another plan"):
        phone.start().answer("menu", OTHER)
    assert phone.start().spent == PLAN.proven


def test_a_changed_record_is_told_in_a_new_collection_at_its_own_cost(phone):
    client = phone.start()
    client.answer("menu", RECORD)
    other = plan_of("kvoh", epsilon=2)
    phone.desk.create("new", other, replaces="menu")
    assert client.answer("new", OTHER).counted
    assert client.spent == PLAN.proven + other.proven
    assert [entry.state for entry in client.answers()] == ["counted", "counted"]


def test_the_budget_spans_the_rounds(phone):
    chain = plan_of("privkvm", rounds=3)
    phone.desk.create("rounds", chain)
    with pytest.raises(BudgetError, match="all rounds"):
        phone.start(allow="0.9").answer("rounds", RECORD)
    client = phone.start(allow=1)
    costs = []
    for number in (1, 2, 3):
        phone.desk.send(fresh(40, chain, RECORD), "rounds", plan=chain.hash)
        outcome = client.answer("rounds", RECORD)
        assert outcome.counted
        assert client.answer("rounds", OTHER) == outcome, "a round is answered once too"
        costs.append(outcome.epsilon)
        assert client.answers("rounds")[-1].round == number
        if number < 3:
            assert phone.desk.post("/v1/collections/rounds/rounds").status_code == 201
            chain = client.plan("rounds")
    assert client.spent == sum(costs) <= 1
    assert len(phone.wire.posts) == 3


@pytest.mark.parametrize(
    ("mechanism", "more"),
    [("privkvm", {"rounds": 3}), ("privkvm", {"rounds": 2, "calibrate": "tight"}),
     ("privkvm_plus", {"rounds": 4, "cost": "0"})],
)  # fmt: skip
def test_an_honest_chain_is_answered_to_its_end(phone, mechanism, more):
    """Whatever the collector's rounds find; a device that comes late answers from there on."""
    chain = plan_of(mechanism, epsilon=2, **more)
    phone.desk.create("rounds", chain)
    late = Phone(phone.desk, phone.folder.with_name("late"))
    for number in range(1, 20):
        phone.desk.send(fresh(400, chain, RECORD, stated="rounds"), "rounds", plan=chain.hash)
        assert phone.start(allow=2).answer("rounds", RECORD).counted
        if number > 1:
            assert late.start(allow=2).answer("rounds", OTHER).counted
        opened = phone.desk.post("/v1/collections/rounds/rounds")
        if opened.status_code == 409:
            break
        chain = phone.start().plan("rounds")
    answers = phone.start().answers("rounds")
    assert [entry.round for entry in answers] == list(range(1, number + 1))
    assert 2 <= number <= more["rounds"]
    assert [entry.round for entry in late.start().answers("rounds")] == list(range(2, number + 1))
    assert late.start().spent < phone.start().spent <= 2


def test_a_device_that_misses_a_round_leaves_the_chain(phone):
    chain = plan_of("privkvm", rounds=3)
    phone.desk.create("rounds", chain)
    phone.start().answer("rounds", RECORD)
    for _ in range(2):
        phone.desk.send(fresh(40, chain, RECORD), "rounds", plan=chain.hash)
        assert phone.desk.post("/v1/collections/rounds/rounds").status_code == 201
        chain = phone.start().plan("rounds")
    with pytest.raises(BudgetError, match="under another plan"):
        phone.start().answer("rounds", RECORD)
    assert [entry.round for entry in phone.start().answers("rounds")] == [1]


def test_people_are_split_between_the_plans_of_sized(phone):
    first = plan_of("sized", 12)
    phone.desk.create("sized", first)
    assert phone.start(allow=1).answer("sized", {"k1": 3}).counted
    phone.desk.send(fresh(200, first, {"k1": 3}), "sized", plan=first.hash)
    assert phone.desk.post("/v1/collections/sized/rounds").status_code == 201
    for allow in (1, 2, 4):
        with pytest.raises(BudgetError, match="and the rounds before it"):
            phone.start(allow=allow).answer("sized", {"k1": 3})
    assert phone.start().spent == first.proven
    other = Phone(phone.desk, phone.folder.with_name("other"))
    assert other.start(allow=1).answer("sized", {"k1": 3}).counted
    assert [entry.round for entry in other.start().answers("sized")] == [2]


# -- sending again ---------------------------------------------------------------------------------


def test_backoff_doubles_with_full_jitter_and_stops_after_a_few(phone):
    phone.wire.faults = [busy()] * 9
    draws = iter([0.25, 1.0, 0.0, 0.5])
    outcome = phone.start(jitter=lambda: next(draws)).answer("menu", RECORD)
    assert outcome.state == "waiting"
    assert outcome.reason == "overload"
    assert len(phone.wire.posts) == 4
    assert phone.slept == pytest.approx([0.25 * 1, 1.0 * 2, 0.0 * 4])
    assert outcome.after == pytest.approx(phone.desk.clock.now() + 0.5 * 8)
    bounds = [Patience().delay(tries, 0.0, 1.0) for tries in (1, 2, 3, 12, 13, 10_000)]
    assert bounds == [1, 2, 4, 2048, 3600, 3600]


def test_retry_after_is_honoured_in_both_forms_and_bounded(phone):
    date = format_datetime(datetime.fromtimestamp(phone.desk.clock.now() + 7, UTC), usegmt=True)
    phone.wire.faults = [busy(429, "5"), busy(503, date)]
    client = phone.start(jitter=lambda: 0.0)
    assert client.answer("menu", RECORD).counted
    assert phone.slept == pytest.approx([5, 2]), "seven seconds from the start, five of them gone"
    now = phone.desk.clock.now()
    for given, most in (("99999999999", 86_400), ("-5", 0), ("soon", 0), ("٣", 0), ("1e9", 0)):
        assert judge(Response(503, {"retry-after": given}), "x", now).after == most


def test_a_long_wait_is_kept_over_a_restart(phone):
    phone.wire.faults = [busy(429, "3000")]
    assert phone.start().answer("menu", RECORD).state == "waiting"
    assert len(phone.wire.posts) == 1
    assert phone.slept == []
    for _ in range(3):
        assert phone.start().answer("menu", RECORD).state == "waiting"
        assert [outcome.state for outcome in phone.start().flush()] == ["waiting"]
    assert len(phone.wire.posts) == 1, "not before its time"
    phone.desk.clock.advance(3001)
    assert [outcome.state for outcome in phone.start().flush()] == ["counted"]
    assert len(set(phone.wire.posts)) == 1


def test_tries_are_counted_over_restarts_even_if_the_process_dies_in_one(phone):
    class Death(Exception):
        pass

    client = phone.start()
    handle = phone.wire.handle_request

    def die(request: httpx.Request) -> httpx.Response:
        if request.method == "POST":
            raise Death
        return handle(request)

    phone.wire.handle_request = die
    for tries in (1, 2, 3):
        with pytest.raises(Death):
            client.answer("menu", RECORD)
        (entry,) = phone.start().answers("menu")
        assert entry.tries == tries
        assert entry.after == pytest.approx(phone.desk.clock.now() + 0.5 * 2 ** (tries - 1))
        phone.desk.clock.advance(60)
        client = phone.start()
    phone.wire.handle_request = handle
    assert client.answer("menu", RECORD).counted
    assert phone.desk.reports() == 1


@pytest.mark.parametrize("skew", [-40 * 86_400, 40 * 86_400, 3 * 365 * 86_400])
def test_a_clock_that_is_set_wrong_later_changes_nothing(phone, skew):
    """One that is set forth or back over a wait neither changes the epoch nor ends sending."""
    phone.wire.faults = ["cut"] * 4
    phone.start().answer("menu", RECORD)
    phone.skew = skew
    phone.desk.clock.advance(3600)
    assert [outcome.state for outcome in phone.start().flush()] in ([], ["counted"], ["waiting"])
    phone.skew = -skew
    phone.desk.clock.advance(3600)
    phone.start().flush()
    phone.skew = 0
    phone.desk.clock.advance(3600)
    assert phone.start().answer("menu", RECORD).counted
    assert {json.loads(body)["epoch"] for body in phone.wire.posts} == {1_800_000_000 // 86_400}
    assert len(set(phone.wire.posts)) == 1


# -- the epoch is the device's ---------------------------------------------------------------------


def said_of(phone: Phone, **epoch: object) -> None:
    """Let the collector say other things of its epochs."""
    about = phone.desk.get("/v1/collections/menu").json()
    about["epoch"].update(epoch)
    phone.wire.gets["/menu"] = json.dumps(about).encode()


def test_a_collector_cannot_mark_a_device_by_its_epoch(phone, tmp_path):
    """Whatever it says to each, a report carries the number that everyone's carries, or none leaves."""
    own = phone.desk.epoch()
    epochs = set()
    for number, (now, seconds) in enumerate(
        [(own + step, 86_400) for step in (-1000, -2, -1, 0, 1, 2, 77)]
        + [(int(phone.desk.clock.now()) // length, length) for length in (1, 60, 3599, 86_399, 86_401)]
        + [(own, 1), (0, 10**9), (1000, 2**31), (own, 604_800)]
    ):
        device = Phone(phone.desk, tmp_path / f"device{number}")
        said_of(device, now=now, seconds=seconds)
        client = device.start()
        try:
            client.answer("menu", RECORD)
        except ClientError as error:
            assert "nothing was sent" in str(error)  # noqa: PT017
            assert client.spent == 0
            assert device.wire.posts == []
        epochs |= {json.loads(body)["epoch"] for body in device.wire.posts}
    assert epochs == {own}


def test_only_a_few_lengths_of_epochs_are_answered_in(phone):
    answered = []
    lengths = [*range(1, 200), *range(3_000, 90_000, 100), 86_399, 86_400, 86_401, 604_800, 2**33]
    core = phone.start()._core
    for seconds in sorted(set(lengths)):
        with suppress(ClientError):
            core._epoch({"now": int(phone.desk.clock.now()) // seconds, "seconds": seconds})
            answered.append(seconds)
    assert answered == [*EPOCHS]


def test_the_person_sets_the_shortest_epoch(file_desk, tmp_path):
    file_desk.create("quick", epoch=100, grace=50)
    file_desk.create("hour", plan_of("kvoh"), epoch=3600)
    phone = Phone(file_desk, tmp_path / "phone")
    with pytest.raises(ClientError, match="100 seconds"):
        phone.start().answer("quick", RECORD)
    with pytest.raises(ClientError, match="100 seconds"):
        phone.start(allow_epoch=60).answer("quick", RECORD)
    with pytest.raises(ClientError, match="3600 seconds"):
        phone.start(allow_epoch=86_400).answer("hour", RECORD)
    assert phone.start().spent == 0
    assert phone.start(allow_epoch=100).answer("quick", RECORD).counted
    assert phone.start().answer("hour", RECORD).counted
    for wrong in (0, -1, True, 1.5, "day"):
        with pytest.raises(ClientError, match="whole number of seconds"):
            phone.start(allow_epoch=wrong)


@pytest.mark.parametrize("skew", [-90_000, -50_000, 50_000, 200_000])
def test_a_wrong_clock_is_said_before_anything_is_told(phone, skew):
    """Within an epoch it is the device's clock that counts; beyond, one of the two is wrong."""
    phone.skew = skew
    own = int(phone.desk.clock.now() + skew) // 86_400
    client = phone.start()
    if abs(own - phone.desk.epoch()) <= 1:
        client.answer("menu", RECORD)
        assert {json.loads(body)["epoch"] for body in phone.wire.posts} == {own}
    else:
        with pytest.raises(ClientError, match="one of the two is wrong"):
            client.answer("menu", RECORD)
        assert (client.spent, phone.wire.posts) == (0, [])


def test_a_closed_epoch_drops_the_report_for_good_and_says_so(phone):
    phone.wire.faults = ["lost"] * 4
    phone.start().answer("menu", RECORD)
    phone.desk.clock.advance(3 * 86_400)
    phone.desk.keep()
    outcome = phone.start().answer("menu", RECORD)
    assert (outcome.state, outcome.reason) == ("dropped", "closed_epoch")
    count = len(phone.wire.posts)
    for record in (RECORD, OTHER):
        assert phone.start().answer("menu", record).state == "dropped"
    assert phone.start().flush(refused=True) == []
    assert len(phone.wire.posts) == count
    assert len(set(phone.wire.posts)) == 1, "never under another epoch or id"
    assert phone.start().spent == PLAN.proven, "it may have been counted"
    assert phone.desk.reports() == 1


ANSWERS = {
    **dict.fromkeys(range(400, 500), "refused"),
    **dict.fromkeys(LATER, "waiting"),
    **dict.fromkeys([0, 101, 204, 301, 302, 307, 308, 500, 502, 503, 504, 599], "waiting"),
}


@pytest.mark.parametrize("status", sorted(ANSWERS))
def test_what_is_not_the_collectors_word_settles_nothing(status):
    for body in (b"", b"<html>410 Gone closed_epoch</html>", b"[]", b"null", b'{"reason": 3}'):
        assert judge(Response(status, {}, body), "a" * 32, 0.0).state == ANSWERS[status]


@pytest.mark.parametrize("status", [200, 202])
@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"Welcome to the hotel", b"{}", b'{"accepted": 1}', b'{"accepted": true, "failed": []}'),
        *(b'{"accepted": 0, "failed": []}', b'{"accepted": "1", "failed": []}', b"[" * 100_000),
    ],
)
def test_a_200_that_says_nothing_of_the_report_acknowledges_nothing(status, body):
    assert judge(Response(status, {}, body), "a" * 32, 0.0).state == "waiting"


def test_every_reason_of_the_collector_is_judged_as_its_table_says():
    for reason, kind in REASONS.items():
        body = json.dumps({"reason": reason, "retry": kind.retry}).encode()
        state = judge(Response(kind.status, {}, body), "a" * 32, 0.0).state
        final = "dropped" if reason in FINAL else "refused"
        assert state == ("waiting" if kind.retry or kind.status >= 500 else final), reason
        failure = {"id": "a" * 32, "reason": reason, "retry": kind.retry}
        body = json.dumps({"accepted": 3, "failed": [failure]}).encode()
        state = judge(Response(200, {}, body), "a" * 32, 0.0).state
        assert state == ("waiting" if kind.retry else final), reason
        assert judge(Response(200, {}, body), "b" * 32, 0.0).state == "counted"


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 409, 413, 415, 422, 451])
def test_4xx_is_never_tried_again_by_itself(phone, status):
    phone.wire.faults = [httpx.Response(status, headers={"retry-after": "1"})] * 9
    assert phone.start().answer("menu", RECORD).state == "refused"
    phone.desk.clock.advance(86_000)
    assert phone.start().flush() == []
    assert phone.start().answer("menu", RECORD).state == "refused"
    assert len(phone.wire.posts) == 1
    phone.wire.faults = []
    assert [outcome.state for outcome in phone.start().flush(refused=True)] == ["counted"]
    assert len(set(phone.wire.posts)) == 1


def test_the_queue_is_bounded_and_says_when_it_is_full(phone):
    for number in range(4):
        phone.desk.create(f"c{number}", plan_of(keys=number + 2, epsilon="0.5"))
    phone.wire.faults = ["cut"] * 99
    more = {"most_waiting": 3, "patience": Patience(attempts=1)}
    for number in range(3):
        assert phone.start(**more).answer(f"c{number}", {}).state == "waiting"
    before = phone.start(**more).spent
    with pytest.raises(BudgetError, match="3 reports wait"):
        phone.start(**more).answer("c3", {})
    assert phone.start(**more).spent == before, "what is refused costs nothing"
    phone.wire.faults = []
    phone.desk.clock.advance(3600)
    assert [outcome.state for outcome in phone.start(**more).flush()] == ["counted"] * 3
    assert phone.start(**more).answer("c3", {}).counted


def test_reports_of_other_collectors_wait_for_their_own(phone):
    phone.wire.faults = ["cut"] * 4
    phone.start().answer("menu", RECORD)
    phone.desk.clock.advance(3600)
    other = Client("http://127.0.0.1:9", phone.folder, transport=phone.wire, clock=phone.desk.clock.now)
    assert other.flush() == []
    assert other.spent == PLAN.proven, "the cap is over all collectors"


def test_offline_it_says_so_and_costs_nothing(phone):
    def cut(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("no network")

    phone.wire.handle_request = cut
    with pytest.raises(ClientError, match="cannot be reached now"):
        phone.start().answer("menu", RECORD)
    assert phone.start().spent == 0
    assert len(phone.slept) == 3


# -- one state, several processes ------------------------------------------------------------------


def _answer(folder: Path, queue: Any, secret_file: Path | None = None) -> None:
    ledger = Ledger(folder / "ledger.json", cap=2, secret_file=secret_file)
    queue.put(ledger.answer(PLAN, {"Fries": 2}, collection="x", epoch=1).dumps())


def test_several_processes_on_one_state_give_one_report(tmp_path):
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    workers = [context.Process(target=_answer, args=(tmp_path, queue)) for _ in range(4)]
    for worker in workers:
        worker.start()
    results = {queue.get(timeout=60) for _ in workers}
    for worker in workers:
        worker.join()
    assert len(results) == 1
    assert Ledger(tmp_path / "ledger.json").spent == PLAN.proven


@pytest.mark.parametrize("second", ["one", "two"], ids=["same-folder", "same-secret"])
def test_a_process_waits_while_another_writes_the_state(tmp_path, second):
    """Also where two folders share a secret: they are one device."""
    context = multiprocessing.get_context("fork")
    queue, secret_file = context.Queue(), tmp_path / "device.json"
    ledger = Ledger(tmp_path / "one" / "ledger.json", cap=2, secret_file=secret_file)
    worker = context.Process(target=_answer, args=(tmp_path / second, queue, secret_file))
    with ledger._locked():
        worker.start()
        worker.join(0.5)
        assert worker.is_alive()
        assert ledger.spent == 0
    queue.get(timeout=60)
    worker.join()
    assert Ledger(ledger.path, secret_file=secret_file).spent == PLAN.proven


def test_a_client_that_another_was_faster_than_does_not_undo_it(phone):
    phone.wire.faults = ["cut"] * 4
    slow, fast = phone.start(), phone.start()
    slow.answer("menu", RECORD)
    phone.desk.clock.advance(3600)
    (entry,) = slow.answers("menu")
    assert fast.flush()[0].counted
    steps = slow._core._send(entry)
    with pytest.raises(StopIteration) as end:
        next(steps)
    assert end.value.value.counted, "nothing is asked of the network"
    assert slow.ledger.mark(PLAN.hash, state="waiting").state == "counted"


# -- what leaves the device ------------------------------------------------------------------------


def test_requests_carry_nothing_that_links_two_of_them(phone, tmp_path):
    """Two devices differ in id and cells alone; a cookie that is set does not come back."""
    handle = phone.wire.handle_request

    def with_cookie(request: httpx.Request) -> httpx.Response:
        response = handle(request)
        response.headers["set-cookie"] = "who=you; Path=/"
        response.headers["etag"] = '"tag"'
        return response

    second = Phone(phone.desk, tmp_path / "second")
    second.wire.handle_request = phone.wire.handle_request = with_cookie
    second.wire.seen = phone.wire.seen
    phone.start().answer("menu", RECORD)
    phone.start().answer("menu", RECORD)
    second.start().answer("menu", OTHER)
    headers = [fields for _, _, _, fields in phone.wire.seen]
    assert not any(
        {"cookie", "if-none-match", "referer", "authorization"} & set(fields) for fields in headers
    )
    for fields in headers:
        fields.pop("content-length", None)
    kinds = {(method, tuple(sorted(fields.items()))) for method, _, _, fields in phone.wire.seen}
    assert len(kinds) == 2, "all GETs are alike, and all POSTs"
    assert {fields["user-agent"] for fields in headers} == {"keyveil"}


def test_every_request_has_a_connection_of_its_own(tmp_path):
    """Over real sockets, with a server that would keep connections open."""
    connections = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            connections.append(self.client_address)
            super().setup()

        def do_GET(self) -> None:
            self.send_response(503)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        address = f"http://127.0.0.1:{server.server_port}"
        with (
            Client(address, tmp_path / "a", cap=1, pause=lambda _: None) as client,
            pytest.raises(ClientError, match="cannot be reached"),
        ):
            client.about("menu")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert len(connections) == 4


def test_redirects_are_not_followed(phone):
    phone.wire.faults = [httpx.Response(307, headers={"location": "http://127.0.0.1/elsewhere"})] * 4
    assert phone.start().answer("menu", RECORD).state == "waiting"
    assert {path for method, path, _, _ in phone.wire.seen if method == "POST"} == {
        "/v1/collections/menu/reports"
    }


def test_an_ingest_token_goes_with_reports_only(phone):
    phone.start(token="kv_abc").answer("menu", RECORD)
    assert ["authorization" in fields for method, _, _, fields in phone.wire.seen] == [
        method == "POST" for method, _, _, _ in phone.wire.seen
    ]


def test_nothing_is_logged_of_the_record(phone, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    phone.wire.faults = ["cut", busy()]
    phone.start().answer("menu", {"Pepsi": 4.25})
    phone.ledger.unlink()
    with pytest.raises(BudgetError) as caught:
        phone.start().answer("menu", {"Salad": 3.75})
    (entry,) = [json.loads(body)["reports"][0] for body in phone.wire.posts[:1]]
    out = capfd.readouterr()
    output = caplog.text + out.out + out.err + repr(caught.value) + repr(phone.start().answers())
    output += phone.desk.log.getvalue()
    for secret in ("Pepsi", "Salad", "4.25", "3.75", entry["id"]):
        assert secret not in output


def test_a_device_never_falls_silent_because_of_a_record(file_desk, tmp_path):
    file_desk.create()
    records = [None, 5, "Fries", {3: 4}, {"Nothing": 3}, {"Fries": "much"}, {"Fries": float("nan")}]
    for number, record in enumerate(records):
        assert Phone(file_desk, tmp_path / str(number)).start().answer("menu", record).counted
    assert file_desk.reports() == len(records)


def test_a_plan_of_many_marks_goes_the_same_way(file_desk, tmp_path):
    plan = plan_of("pckv_ue", 40)
    file_desk.create("many", plan)
    assert Phone(file_desk, tmp_path / "one").start().answer("many", {"k3": 4}).counted
    assert file_desk.reports("many") == 1
    assert isinstance(plan, Plan)
    assert plan.proven <= Decimal(1)


# -- the command that shows the ledger -------------------------------------------------------------


def test_the_ledger_shows_what_was_told_to_whom_and_what_waits(phone, monkeypatch):
    clock = SimpleNamespace(time=phone.desk.clock.now)
    monkeypatch.setattr(ledger_command, "time", clock)
    phone.desk.create("second", plan_of("kvoh"))
    phone.desk.create("third", plan_of("privkv"))
    phone.desk.create("rounds", plan_of("privkvm", rounds=2))
    with phone.start() as client:
        client.answer("menu", {"Pepsi": 4})
        client.answer("rounds", {"Pepsi": 4})
        phone.desk.post("/v1/collections/rounds/rounds")
        client.answer("rounds", {"Pepsi": 4})
        phone.wire.faults = [httpx.Response(401, json={"reason": "token"})]
        client.answer("second", {"Pepsi": 4})
        phone.wire.faults = [busy()] * 9
        client.answer("third", {"Pepsi": 4})
        spent, left = client.spent, client.left
    before = {path: path.read_bytes() for path in phone.folder.iterdir()}
    shown = command("ledger", "--state", str(phone.folder)).stdout
    assert f"spent  epsilon {rounded_up(spent)} in all" in shown
    assert f"cap    epsilon 4; {rounded_down(left)} is left" in shown
    rows = [line.split() for line in shown.splitlines()]
    assert [URL, "menu", "1", "kvue", "1.000", "counted"] in rows
    assert [row[2] for row in rows if row[:2] == [URL, "rounds"]] == ["1", "2", "all"]
    assert re.search(r"waits +\S+ second: tried 1 time, refused \(token\)", shown)
    assert re.search(
        r"waits +\S+ third: tried 4 times, not sent again before 2027-01-15 \d\d:\d\d UTC", shown
    )
    assert "Pepsi" not in shown
    document = json.loads(command("ledger", "--state", str(phone.ledger), "--json").stdout)
    assert (Decimal(document["spent"]), Decimal(document["left"]), document["cap"]) == (spent, left, "4")
    assert sum(map(Decimal, document["collections"].values())) == spent
    assert [answer["state"] for answer in document["answers"]] == ["counted"] * 3 + [
        "refused",
        "waiting",
    ]
    assert not any("report" in answer or "cells" in answer for answer in document["answers"])
    assert before == {path: path.read_bytes() for path in phone.folder.iterdir()}, "only looked at"


def test_looking_at_a_ledger_makes_none(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    for words in ((), ("--state", str(tmp_path / "there"))):
        done = command("ledger", *words, check=False)
        assert done.returncode == 1
        assert "there is no ledger" in done.stderr
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(BudgetError, match="pass cap="):
        Client(URL, tmp_path / "new")


def test_a_ledger_that_was_lost_is_shown_from_what_is_apart(phone):
    with phone.start() as client:
        client.answer("menu", {"Pepsi": 4})
    phone.ledger.unlink()
    shown = command("ledger", "--state", str(phone.folder)).stdout
    assert "lost" in shown
    assert f"spent  epsilon {rounded_up(PLAN.proven)} in all" in shown
