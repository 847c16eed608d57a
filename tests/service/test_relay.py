"""The relay: a crowd or nothing, its order says nothing, acknowledged when the collector has it."""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from decimal import Decimal
from itertools import pairwise
from typing import Any

import httpx
import pytest
from desk import PLAN, Desk, fresh, plan_of
from process import KEYVEIL, Process, keyveil
from scipy.stats import chi2

from keyveil import AsyncClient, Client, Coins, Plan, Report
from keyveil.foundation.errors import KeyveilError
from keyveil.service.client import Patience
from keyveil.service.collector.http.batches import BINARY, decode_binary, encode_binary
from keyveil.service.collector.process.settings import Settings
from keyveil.service.collector.relay.crowd import AGAIN, OVERHEAD, shuffled
from keyveil.service.collector.relay.relay import Relay
from keyveil.service.collector.relay.relay_app import app
from keyveil.service.collector.relay.sent_ids import SentIds, SentIdsFailed
from keyveil.service.collector.store import store_at
from keyveil.trust.shuffle import amplified

URL = "http://127.0.0.1"
K = 5


class Line(httpx.AsyncBaseTransport):
    """The way from a relay to a desk; keeps what passes, and fails as it is told."""

    def __init__(self, desk: Desk) -> None:
        self.inner = httpx.ASGITransport(desk.app)
        self.seen: list[tuple[str, bytes, dict[str, str]]] = []
        self.faults: list[Any] = []
        self.away = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        body = await request.aread()
        if self.away:
            raise httpx.ConnectError("away")
        if request.method == "POST":
            self.seen.append((request.url.path, body, dict(request.headers)))
            if self.faults:
                fault = self.faults.pop(0)
                if isinstance(fault, httpx.Response):
                    return fault
                if fault == "lost":
                    await self.inner.handle_async_request(request)
                raise httpx.ReadTimeout("lost")
        return await self.inner.handle_async_request(request)

    @property
    def batches(self) -> list[list[str]]:
        """The ids of every request that was forwarded, in their order."""
        batches = []
        for _, body, _ in self.seen:
            count = decode_binary(body, 10**6).count
            size = (len(body) - 48) // count
            batches.append([body[48 + at * size :][:16].hex() for at in range(count)])
        return batches


class Booth:
    """A relay in process, before a desk."""

    def __init__(self, desk: Desk, wait: int = K, **more: Any) -> None:
        self.desk, self.line, self.log = desk, Line(desk), io.StringIO()
        self.slept: list[float] = []

        async def pause(seconds: float) -> None:
            self.slept.append(seconds)
            desk.clock.advance(seconds)
            await asyncio.sleep(0)

        options: dict[str, Any] = {"clock": desk.clock, "transport": self.line, "log": self.log, **more}
        memory = options.pop("memory", None) or desk.folder / f"relay-{os.urandom(4).hex()}.sqlite"
        self.relay = Relay(URL, wait, memory, pause=pause, **options)
        self.app = app(self.relay, begin=False)
        self.client = httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url=URL)

    def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        response: httpx.Response = self.desk.run(self.client.request(method, path, **more))
        return response

    def send(self, reports: list[dict[str, Any]], name: str = "menu", **more: Any) -> httpx.Response:
        body = {"plan": PLAN.hash, "epoch": self.desk.epoch(), "reports": reports, **more}
        return self.ask("POST", f"/v1/collections/{name}/reports", json=body)

    def settle(self) -> None:
        """Let what is on its way arrive."""

        async def wait() -> None:
            while any(pool.sending for pool in self.relay.crowds.pools.values()):
                await asyncio.sleep(0.001)

        self.desk.run(asyncio.wait_for(wait(), 20))

    def die(self) -> None:
        """As by kill -9: nothing is finished; only what is on disk is left."""
        self.relay._ended = True

        async def cut() -> None:
            for task in self.relay._sending():
                task.cancel()
            await asyncio.gather(*self.relay._sending(), return_exceptions=True)

        self.desk.run(cut())
        self.relay.sent_ids.close()

    def again(self, wait: int = K, **more: Any) -> Booth:
        """The relay started anew over its memory."""
        self.die()
        booth = Booth(self.desk, wait, memory=self.relay.sent_ids.path, **more)
        self.desk.run(booth.relay.start())
        return booth

    def close(self) -> None:
        self.desk.run(self.client.aclose())
        self.desk.run(self.relay.stop())


@pytest.fixture
def booth(file_desk: Desk) -> Iterator[Booth]:
    file_desk.create()
    booth = Booth(file_desk)
    yield booth
    booth.close()


# -- a crowd or nothing ----------------------------------------------------------------------------


def test_nothing_leaves_before_there_are_k(booth):
    reports = fresh(K)
    for number, report in enumerate(reports[:-1], 1):
        response = booth.send([report])
        assert response.status_code == 202
        assert response.json() == {"accepted": 0, "held": 1, "failed": []}
        assert response.headers["retry-after"] == str(AGAIN)
        assert f"keyveil_relay_held_reports {number}\n" in booth.ask("GET", "/metrics").text
    for _ in range(3):
        assert booth.send([reports[0]]).status_code == 202, "the same one again is no crowd"
    assert booth.line.seen == []
    assert booth.desk.reports() == 0
    assert booth.send([reports[-1]]).status_code == 202
    booth.settle()
    (batch,) = booth.line.batches
    assert sorted(batch) == sorted(report["id"] for report in reports)
    assert booth.desk.reports() == K
    for report in reports:
        response = booth.send([report])
        assert response.status_code == 200
        assert response.json() == {"accepted": 1, "failed": []}
    assert len(booth.line.seen) == 1
    assert booth.relay.crowds.held_bytes == 0


def test_a_report_as_it_is_needs_an_id(booth):
    """A relay is asked again until the report has left: without an id it would count each time."""
    whole = PLAN.report({"Pepsi": 4})
    path, kind = "/v1/collections/menu/reports", {"content-type": "application/json"}
    refused = booth.ask("POST", path, content=whole.dumps(), headers=kind)
    assert (refused.status_code, refused.json()["reason"]) == (400, "malformed")
    named = [Report(PLAN.hash, whole.cells, os.urandom(16).hex()).dumps() for _ in range(K)]
    for text in named:
        booth.ask("POST", path, content=text, headers=kind)
    booth.settle()
    assert booth.desk.reports() == K
    again = booth.ask("POST", path, content=named[0], headers=kind)
    assert again.json() == {"accepted": 1, "failed": []}


def test_a_crowd_is_of_one_plan_and_one_epoch(booth):
    booth.desk.create("second", plan_of("kvoh"))
    booth.send(fresh(K - 1))
    booth.send(fresh(K - 1), epoch=booth.desk.epoch() - 1)
    booth.send(fresh(K - 1, plan_of("kvoh")), "second", plan=plan_of("kvoh").hash)
    assert booth.line.seen == []
    assert len(booth.relay.crowds.pools) == 3
    booth.send(fresh(1))
    booth.settle()
    assert [len(batch) for batch in booth.line.batches] == [K]


def test_a_relay_that_ends_or_an_epoch_that_ends_forwards_no_smaller_crowd(file_desk):
    file_desk.create()
    booth = Booth(file_desk)
    reports = fresh(K - 1)
    booth.send(reports)
    file_desk.clock.advance(3 * 86_400)
    file_desk.run(booth.relay.tend())
    assert booth.relay.crowds.pools == {}
    assert booth.relay.crowds.held_bytes == 0
    response = booth.send(reports, epoch=file_desk.epoch() - 3)
    assert response.status_code == 410
    assert response.json()["reason"] == "closed_epoch"
    booth.send(fresh(K - 1))
    booth.close()
    assert booth.line.seen == []
    assert '"left_to_devices": 4' in booth.log.getvalue()


def test_a_crowd_larger_than_a_request_leaves_whole(file_desk):
    file_desk.create()
    file_desk.service.settings = Settings(reports=40)
    booth = Booth(file_desk, wait=100)
    reports = fresh(100)
    for at in range(0, 100, 25):
        booth.send(reports[at : at + 25])
    booth.settle()
    assert [len(batch) for batch in booth.line.batches] == [40, 40, 20]
    assert file_desk.reports() == 100
    order = [name for batch in booth.line.batches for name in batch]
    place = {report["id"]: at for at, report in enumerate(reports)}
    assert {place[name] // 25 for name in order[:40]} == {0, 1, 2, 3}, "shuffled before it is parted"
    booth.close()


def test_a_relay_that_ends_finishes_what_is_on_its_way(file_desk):
    file_desk.create()
    booth = Booth(file_desk)
    booth.line.faults = ["cut", "cut"]
    booth.send(fresh(K))
    booth.send(fresh(K))  # a second crowd, behind the first
    booth.send(fresh(K - 1))
    booth.close()
    assert file_desk.reports() in (2 * K, 3 * K - 1)
    assert all(len(batch) >= K for batch in booth.line.batches)


@pytest.mark.parametrize("wait", [1, 0, -5, True])
def test_one_is_no_crowd(wait, tmp_path):
    with pytest.raises(KeyveilError, match="at least 2"):
        Relay(URL, wait, tmp_path / "memory")
    assert list(tmp_path.iterdir()) == []


# -- the order -------------------------------------------------------------------------------------


def order_chance(shuffle: Any) -> float:
    """The p-value of where each of 5 reports ends up, over 4000 shuffles."""
    rows = {bytes([name]) * 16: b"" for name in range(5)}
    counts = [[0] * 5 for _ in range(5)]
    for _ in range(4000):
        for place, (name, _) in enumerate(shuffle(rows)):
            counts[name[0]][place] += 1
    value = sum((count - 800) ** 2 / 800 for row in counts for count in row)
    return float(chi2.sf(value, 16))


def test_every_order_is_as_likely():
    """Secure coins cannot be stated, so by chance this fails once in 10^7 runs; twins must fail."""
    assert order_chance(shuffled) > 1e-7
    assert order_chance(lambda rows: list(rows.items())) < 1e-7

    def rotated(rows: dict[bytes, bytes]) -> list[tuple[bytes, bytes]]:
        pairs = list(rows.items())
        by = os.urandom(1)[0] & 3
        return pairs[by:] + pairs[:by]

    assert order_chance(rotated) < 1e-7


def test_the_collector_cannot_tell_the_order_of_arrival(booth):
    reports = fresh(300)
    booth.relay.wait = 300
    for report in reports:
        booth.send([report])
    booth.settle()
    (batch,) = booth.line.batches
    place = {report["id"]: at for at, report in enumerate(reports)}
    came = [place[name] for name in batch]
    rising = sum(a < b for a, b in pairwise(came))
    assert 100 < rising < 200, "299 or 0 if the order were kept; false alarm below 10^-9"


def test_what_is_forwarded_carries_nothing_of_the_devices(booth):
    secret = {"authorization": "Bearer kv_device", "cookie": "who=me", "user-agent": "Phone/7",
              "x-forwarded-for": "192.0.2.7", "referer": "http://home"}  # fmt: skip
    for report in fresh(K):
        body = {"plan": PLAN.hash, "epoch": booth.desk.epoch(), "reports": [report]}
        booth.ask("POST", "/v1/collections/menu/reports", json=body, headers=secret)
    booth.settle()
    ((path, body, headers),) = booth.line.seen
    assert path == "/v1/collections/menu/reports"
    assert len(body) == 48 + K * (16 + PLAN.packing.width), "ids and rows"
    assert headers["user-agent"] == "keyveil-relay"
    assert not {"authorization", "cookie", "x-forwarded-for", "referer"} & set(headers)
    log = booth.log.getvalue() + booth.desk.log.getvalue()
    assert not any(word in log for word in ("192.0.2.7", "kv_device", "Phone/7"))
    assert not any(name in log for batch in booth.line.batches for name in batch)


# -- acknowledged when the collector has it --------------------------------------------------------


def test_no_report_is_acknowledged_before_the_collector_has_it(booth):
    booth.line.faults = ["cut", httpx.Response(503, json={"reason": "storage"}), "lost"]
    reports = fresh(K)
    booth.send(reports[:-1])

    async def last() -> None:
        body = {"plan": PLAN.hash, "epoch": booth.desk.epoch(), "reports": reports}
        before = await booth.client.post("/v1/collections/menu/reports", json=body)
        assert before.status_code == 202
        assert before.json()["accepted"] == 0

    booth.desk.run(last())
    booth.settle()
    assert len(booth.line.seen) == 4
    assert len({body for _, body, _ in booth.line.seen}) == 1, "the same crowd to the last byte"
    assert len(booth.slept) == 3
    assert booth.desk.reports() == K
    assert booth.send(reports).json() == {"accepted": K, "failed": []}


def test_reports_are_held_while_the_collector_is_away(booth):
    booth.line.away = True
    assert booth.send(fresh(1)).status_code == 503, "what it never knew it cannot hold"
    booth.line.away = False
    booth.send(fresh(1))
    booth.line.away = True
    booth.desk.clock.advance(60)
    assert booth.send(fresh(2)).status_code == 202
    response = booth.send(fresh(1), plan="0" * 64)
    assert response.status_code == 503, "a plan that may be new is not refused for good"
    booth.line.away = False
    booth.send(fresh(2))
    booth.settle()
    assert booth.desk.reports() == K


def test_a_relay_that_dies_loses_nothing_since_devices_send_again(file_desk):
    file_desk.create()
    first = Booth(file_desk)
    reports = fresh(K)
    first.send(reports[:-1])
    first.close()
    second = Booth(file_desk)
    for report in reports:
        assert second.send([report]).status_code == 202
    second.settle()
    third = Booth(file_desk)  # knows of nothing, and forwards the same crowd again
    third.send(reports)
    third.settle()
    assert third.send(reports).json() == {"accepted": K, "failed": []}
    assert file_desk.reports() == K
    second.close()
    third.close()


def test_what_the_collector_refuses_for_good_is_passed_on_as_such(booth):
    reports = fresh(K)
    booth.send(reports[:-1])
    booth.desk.post("/v1/collections/menu/state", json={"state": "closed"})
    booth.send(reports[-1:])
    booth.settle()
    response = booth.send(reports[:1])
    assert (response.status_code, response.json()["reason"]) == (410, "closed_collection")
    booth.desk.clock.advance(1)
    assert len(booth.line.seen) == 1


def test_a_part_that_is_refused_is_named_by_its_id(booth):
    booth.desk.create("small", plan_of("kvoh"), people=3)
    plan = plan_of("kvoh")
    reports = fresh(K, plan)
    booth.send(reports, "small", plan=plan.hash)
    booth.settle()
    body = booth.send(reports, "small", plan=plan.hash).json()
    assert body["accepted"] == 3
    assert {failure["reason"] for failure in body["failed"]} == {"full"}
    assert booth.desk.reports("small") == 3


def test_a_refusal_that_an_operator_can_mend_is_waited_out(booth):
    booth.line.faults = [httpx.Response(401, json={"reason": "token"})] * 3
    reports = fresh(K)
    booth.send(reports)
    booth.settle()
    assert booth.send(reports).status_code == 200
    assert booth.log.getvalue().count("collector_refused") == 3


def test_an_epoch_that_ends_before_the_collector_answers_is_said_to_be_closed(booth):
    booth.line.faults = [httpx.Response(503, json={}, headers={"retry-after": "3600"})] * 99
    reports = fresh(K)
    booth.send(reports)
    booth.settle()
    assert booth.desk.reports() == 0
    response = booth.send(reports[:1], epoch=1_800_000_000 // 86_400)
    assert response.status_code == 410
    assert booth.relay.crowds.held_bytes == 0


def test_a_client_behind_a_relay_keeps_its_report_until_the_collector_has_it(booth, tmp_path):
    async def run() -> None:
        clients = []
        for number in range(K):
            transport = httpx.ASGITransport(booth.app)
            options: dict[str, Any] = {"transport": transport, "clock": booth.desk.clock.now}
            options["patience"] = Patience(settle=0, spread=0)
            clients.append(AsyncClient(URL, tmp_path / str(number), cap=2, **options))
        for client in clients[:-1]:
            assert (await client.answer("menu", {"Pepsi": 4})).state == "held"
            assert [outcome.state for outcome in await client.flush()] == ["held"], "not before its time"
        booth.desk.clock.advance(2 * AGAIN)
        assert [outcome.state for outcome in await clients[0].flush()] == ["held"]
        await clients[-1].answer("menu", {"Fries": 2})
        while any(pool.sending for pool in booth.relay.crowds.pools.values()):
            await asyncio.sleep(0.001)
        booth.desk.clock.advance(2 * AGAIN)
        for client in clients:
            assert [outcome.state for outcome in await client.flush()] == ["counted"]
            assert (await client.answer("menu", {"Salad": 1})).counted
            await client.aclose()

    booth.desk.run(run())
    assert booth.desk.reports() == K
    assert [len(batch) for batch in booth.line.batches] == [K]


# -- k new ones, whatever happens ------------------------------------------------------------------


def names_of(reports: list[dict[str, Any]]) -> set[str]:
    return {report["id"] for report in reports}


def test_a_relay_started_anew_counts_nobody_twice(file_desk):
    """Some of a crowd were told 202 only; they send again, and with one new one are no crowd."""
    file_desk.create()
    first = Booth(file_desk)
    reports, new = fresh(K), fresh(K)
    first.send(reports)
    first.settle()
    second = first.again()
    for report in reports[: K - 1]:
        assert second.send([report]).json() == {"accepted": 1, "failed": []}, "its fate is known"
    assert second.send(new[:1]).status_code == 202
    second.settle()
    assert second.line.seen == [], "one new report is no crowd"
    second.send([*reports, *new[1:-1]])
    assert second.line.seen == []
    second.send(new)
    second.settle()
    (batch,) = second.line.batches
    assert set(batch) == names_of(new)
    assert file_desk.reports() == 2 * K
    second.close()


def test_a_crowd_that_was_on_its_way_is_sent_on_as_it_was(file_desk):
    file_desk.create()
    file_desk.service.settings = Settings(reports=3)
    first = Booth(file_desk, wait=8)
    reports = fresh(8)

    async def stuck(seconds: float) -> None:
        await asyncio.Event().wait()

    first.relay._pause = stuck
    first.line.faults = [httpx.Response(503, json={})]
    first.send(reports)

    async def tried() -> None:
        while not first.line.seen:
            await asyncio.sleep(0.001)

    file_desk.run(tried())
    assert file_desk.reports() == 0
    second = first.again(wait=8)
    new = fresh(7)
    for report in [*reports[:4], *new]:
        assert second.send([report]).json()["failed"] == []
    second.settle()
    assert [len(batch) for batch in second.line.batches] == [3, 3, 2]
    assert second.line.seen[0][1] == first.line.seen[0][1], "to the last byte"
    assert {name for batch in second.line.batches for name in batch} == names_of(reports)
    assert second.send(reports).json() == {"accepted": 8, "failed": []}
    assert file_desk.reports() == 8
    assert second.relay.sent_ids.parts() == []
    third = second.again(wait=8)
    third.settle()
    assert third.line.seen == []
    third.close()


def test_a_collector_that_wants_one_later_gets_it_in_its_crowd_only(booth):
    """It could else part each from its crowd: 'later' for one, and that one with k - 1 new ones."""
    reports, new = fresh(K), fresh(K - 1)
    later = {"accepted": K - 1, "failed": [{"id": reports[0]["id"], "reason": "rate", "retry": True}]}
    booth.line.faults = [httpx.Response(200, json=later)] * 3 + [
        httpx.Response(200, json={"accepted": 5, "failed": [7]}),
        httpx.Response(200, json={"accepted": 5, "failed": [{}]}),
    ]
    booth.send(reports)
    booth.settle()
    assert len({body for _, body, _ in booth.line.seen}) == 1
    assert len(booth.line.seen) == 6
    booth.send([*reports, *new])
    booth.settle()
    assert len(booth.line.seen) == 6, "k - 1 new ones are no crowd"
    assert booth.desk.reports() == K


@pytest.mark.parametrize(
    "limits", [None, 7, [], {"reports": "x", "bytes": {}}, {"reports": -4, "bytes": -9}, {"reports": 1}]
)
def test_whatever_a_collector_says_a_crowd_is_not_lost_on_its_way(booth, limits):
    booth.ask("GET", "/v1/collections/menu")
    entry = booth.relay.upstream.last_known("menu")
    entry.about = {**entry.about, "limits": limits}
    real, odd = booth.relay.upstream.post, [RuntimeError("unforeseen"), RecursionError()]

    async def post(name: str, body: bytes) -> Any:
        if odd:
            raise odd.pop()
        return await real(name, body)

    booth.relay.upstream.post = post
    reports = fresh(K)
    booth.send(reports)
    assert booth.send(reports).json().get("held", 0) in (0, K), "held until it is decided"
    booth.settle()
    assert booth.desk.reports() == K
    assert booth.send(reports).json() == {"accepted": K, "failed": []}


def test_a_collector_cannot_make_it_forget(booth):
    """By saying that epochs are short, and later that they are not."""
    reports, epoch = fresh(K), booth.desk.epoch()
    booth.send(reports)
    booth.settle()
    entry = booth.relay.upstream.last_known("menu")
    honest = entry.about
    entry.about = {**honest, "epoch": {**honest["epoch"], "seconds": 1, "grace": 0}}
    booth.desk.run(booth.relay.tend())
    entry.about = honest
    assert booth.send(reports).json() == {"accepted": K, "failed": []}
    assert len(booth.line.seen) == 1
    booth.desk.clock.advance(3 * 86_400)
    booth.desk.run(booth.relay.tend())
    assert booth.relay.sent_ids.number == 0
    entry.about = {**honest, "epoch": {**honest["epoch"], "grace": 30 * 86_400}}
    entry.fresh_until = 1e18
    response = booth.send(reports, epoch=epoch)
    assert (response.status_code, response.json()["reason"]) == (410, "closed_epoch")
    last = booth.again()
    last.relay.upstream._known["menu"] = entry
    assert last.send(fresh(K), epoch=epoch).status_code == 410, "for good"
    last.settle()
    assert last.line.seen == []
    assert last.send(fresh(1)).status_code == 202
    last.close()


def test_what_cannot_be_remembered_does_not_leave(file_desk, monkeypatch):
    file_desk.create()
    booth = Booth(file_desk)
    real, fails = booth.relay.sent_ids.leave, ["full", "full"]

    def leave(*given: Any) -> Any:
        if fails:
            fails.pop()
            raise SentIdsFailed("FullError")
        return real(*given)

    monkeypatch.setattr(booth.relay.sent_ids, "leave", leave)
    reports = fresh(K)
    booth.send(reports)
    booth.settle()
    assert len(booth.slept) == 2
    assert file_desk.reports() == K
    booth.relay.sent_ids.broken = True
    assert booth.send(fresh(K)).status_code == 503
    assert booth.send(reports).status_code == 503
    booth.relay.sent_ids.broken = False

    def torn(*given: Any) -> Any:
        booth.relay.sent_ids.broken = True
        raise SentIdsFailed("IOError")

    monkeypatch.setattr(booth.relay.sent_ids, "leave", torn)
    booth.send(fresh(K))
    booth.settle()
    assert len(booth.line.seen) == 1
    assert booth.send(fresh(1)).status_code == 503
    booth.close()


def test_a_full_memory_takes_no_more_rather_than_forget(file_desk):
    file_desk.create()
    booth = Booth(file_desk, most_ids=2 * K)
    reports = fresh(2 * K)
    for at in (0, K):
        booth.send(reports[at : at + K])
        booth.settle()
    assert booth.send(fresh(1)).status_code == 429
    assert booth.send(reports).json() == {"accepted": 2 * K, "failed": []}
    file_desk.clock.advance(3 * 86_400)
    file_desk.run(booth.relay.tend())
    assert booth.send(fresh(1)).status_code == 202
    booth.close()


def test_an_id_under_two_plans_counts_once(booth):
    plan = plan_of("privkvm", rounds=2)
    booth.desk.create("rounds", plan)
    booth.send(fresh(K, plan), "rounds", plan=plan.hash)
    booth.settle()
    booth.send(old := fresh(1, plan), "rounds", plan=plan.hash)
    booth.desk.post("/v1/collections/rounds/rounds")
    booth.desk.clock.advance(6)
    later = Plan.parse(booth.desk.get("/v1/collections/rounds/plan").content)
    same = [{**fresh(1, later)[0], "id": old[0]["id"]}]
    booth.send([*same, *fresh(K - 1, later)], "rounds", plan=later.hash)
    booth.settle()
    assert len(booth.line.seen) == 1


def test_the_memory_tells_nothing_but_that_something_left(file_desk, tmp_path):
    file_desk.create()
    path = tmp_path / "memory.sqlite"
    booth = Booth(file_desk, memory=path)
    reports = fresh(K)
    booth.send(reports)
    booth.settle()
    assert {oct(file.stat().st_mode & 0o777) for file in tmp_path.glob("memory.sqlite*")} == {"0o600"}
    with pytest.raises(KeyveilError, match="another relay uses"):
        SentIds(path, URL)
    number = booth.relay.sent_ids.number
    file_desk.clock.advance(3 * 86_400)
    file_desk.run(booth.relay.tend())
    booth.die()
    assert number == K
    content = b"".join(file.read_bytes() for file in tmp_path.glob("memory.sqlite*"))
    assert not any(bytes.fromhex(report["id"]) in content for report in reports)
    with pytest.raises(KeyveilError, match="another collector"):
        SentIds(path, "https://example.org")
    SentIds(path, URL).close()
    (tmp_path / "text").write_text("x" * 5000)
    with pytest.raises(KeyveilError, match="cannot use"):
        SentIds(tmp_path / "text", URL)
    store_at(str(tmp_path / "other")).open(serving=False)
    with pytest.raises(KeyveilError, match="not a file of a relay"):
        SentIds(tmp_path / "other", URL)
    with pytest.raises(KeyveilError, match="cannot use"):
        SentIds(tmp_path / "none" / "memory", URL)


# -- what it says ----------------------------------------------------------------------------------


def test_it_states_the_epsilon_of_the_crowd(booth):
    document = booth.ask("GET", "/v1/collections/menu").json()
    guarantee = amplified(PLAN, K)
    assert document["relay"]["wait"] == K
    assert document["relay"]["delta"] == guarantee.delta
    assert PLAN.proven <= Decimal(document["relay"]["local_epsilon"]) < PLAN.proven + Decimal("1e-15")
    assert document["relay"]["epsilon"] == document["relay"]["local_epsilon"], (
        "five hide nobody, never more"
    )
    assert document["plan"] == PLAN.hash
    assert booth.ask("GET", "/v1/collections/menu/plan").content == PLAN.dumps().encode()
    crowd = Booth(booth.desk, wait=10_000)
    relay = crowd.ask("GET", "/v1/collections/menu").json()["relay"]
    assert relay["epsilon"] == amplified(PLAN, 10_000).epsilon < 0.2 < relay["local_epsilon"]
    crowd.close()


def test_rounds_are_followed(booth):
    plan = plan_of("privkvm", rounds=2)
    booth.desk.create("rounds", plan)
    counted = fresh(K, plan)
    booth.send(counted, "rounds", plan=plan.hash)
    booth.settle()
    booth.desk.post("/v1/collections/rounds/rounds")
    later = booth.desk.get("/v1/collections/rounds").json()["plan"]
    response = booth.send(fresh(1, plan), "rounds", plan=plan.hash)
    assert response.status_code == 202, "what it knew a moment ago still goes for a few seconds"
    booth.desk.clock.advance(6)
    response = booth.send(fresh(1, plan), "rounds", plan=plan.hash)
    assert (response.status_code, response.json()["reason"]) == (409, "other_plan")
    assert booth.ask("GET", "/v1/collections/rounds").json()["plan"] == later
    response = booth.send(counted[:1], "rounds", plan=plan.hash)
    assert response.json() == {"accepted": 1, "failed": []}, "what was counted is acknowledged again"


def test_the_binary_form_and_bits_pass_too(booth):
    plan = plan_of("pckv_ue", 20)
    booth.desk.create("bits", plan)
    packing = plan.packing
    rows = b"".join(packing.row(plan.report({"k1": 3}).cells) or b"" for _ in range(K))
    body = encode_binary(plan.hash, booth.desk.epoch(), os.urandom(16 * K), rows)
    path, kind = "/v1/collections/bits/reports", {"content-type": BINARY}
    assert booth.ask("POST", path, content=body, headers=kind).json()["held"] == K
    booth.settle()
    assert booth.desk.reports("bits") == K
    assert booth.ask("POST", path, content=body, headers=kind).json()["accepted"] == K


# -- bad input and bounds --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b"{", "application/json", 400),
        (b"KVBATCH1", BINARY, 400),
        (b"x", "text/plain", 415),
        (b"[" * 100_000, "application/json", 400),
        (b" " * (5 << 20), "application/json", 413),
    ],
)
def test_bad_input_is_refused_with_a_reason(booth, content, kind, status):
    response = booth.ask(
        "POST", "/v1/collections/menu/reports", content=content, headers={"content-type": kind}
    )
    assert response.status_code == status
    assert response.json()["reason"]


def test_reports_that_no_honest_device_sends_do_not_make_a_crowd(booth):
    bad = [{"id": os.urandom(16).hex(), "cells": [999]} for _ in range(K)]
    response = booth.send(bad)
    assert (response.status_code, response.json()["reason"]) == (422, "impossible")
    response = booth.send([*bad[:1], *fresh(K - 1)])
    assert response.json()["held"] == K - 1
    assert [failure["reason"] for failure in response.json()["failed"]] == ["impossible"]
    assert booth.line.seen == []
    for path in ("/v1/collections/none", "/v1/collections/NONE/plan"):
        assert booth.ask("GET", path).status_code == 404
    assert booth.send(fresh(1), "none").status_code == 404
    assert booth.ask("GET", "/v1/collections/menu/reports").status_code == 405
    assert booth.send(fresh(1), epoch=booth.desk.epoch() + 9).status_code == 425
    assert booth.send(fresh(1), plan="0" * 64).status_code == 409


def test_memory_is_bounded(file_desk):
    file_desk.create()
    width = PLAN.packing.width + OVERHEAD
    booth = Booth(file_desk, wait=10, hold_bytes=15 * width)
    assert booth.ask("GET", "/v1/collections/menu").status_code == 200
    booth.relay.wait = 100
    assert booth.send(fresh(10)).status_code == 202
    response = booth.send(fresh(10))
    assert response.status_code == 429
    assert response.headers["retry-after"] == str(AGAIN)
    assert booth.send(fresh(5)).status_code == 202
    assert booth.send(fresh(1)).status_code == 429
    assert booth.relay.crowds.held_bytes == 15 * width
    booth.relay.wait = 3

    async def begin() -> None:
        booth.relay.maybe_send(next(iter(booth.relay.crowds.pools)))

    booth.desk.run(begin())
    booth.settle()
    assert booth.relay.crowds.held_bytes == 0
    for _ in range(4):
        booth.send(fresh(5))
        booth.settle()
    assert file_desk.reports() == 35
    booth.close()
    greedy = Booth(file_desk, wait=10**6, hold_bytes=10**6)
    assert greedy.send(fresh(1)).status_code == 503
    greedy.close()


def test_named_collections_only(file_desk):
    file_desk.create()
    file_desk.create("other", plan_of("kvoh"))
    booth = Booth(file_desk, names=("other",))
    assert booth.ask("GET", "/v1/collections/menu").status_code == 404
    assert booth.ask("GET", "/v1/collections/other").status_code == 200
    booth.close()


def test_a_collector_elsewhere_is_asked_over_https_only(tmp_path):
    with pytest.raises(KeyveilError, match="needs https"):
        Relay("http://example.org", 10, tmp_path / "memory")


# -- pages, and the operator -----------------------------------------------------------------------

PAGE = "https://shop.example"


def test_pages_of_the_collections_origins_may_send_through_a_relay(file_desk):
    file_desk.create(origins=[PAGE])
    booth = Booth(file_desk)
    path = "/v1/collections/menu"
    for place in (path, path + "/plan", path + "/reports"):
        preflight = booth.ask("OPTIONS", place, headers={"origin": PAGE})
        assert preflight.status_code == 204
        assert preflight.headers["access-control-allow-origin"] == PAGE
        assert "access-control-allow-credentials" not in preflight.headers
        other = booth.ask("OPTIONS", place, headers={"origin": "https://evil.example"})
        assert "access-control-allow-origin" not in other.headers
    for place in (path, path + "/plan"):
        assert booth.ask("GET", place, headers={"origin": PAGE}).headers[
            "access-control-allow-origin"
        ] == PAGE  # fmt: skip
        evil = {"origin": "https://evil.example"}
        for name, refusal in (("menu", (403, "origin")), ("nope", (404, "unknown"))):
            refused = booth.ask("GET", place.replace("menu", name), headers=evil)
            assert (refused.status_code, refused.json()["reason"]) == refusal
            assert refused.headers["access-control-allow-origin"] == "*", "a page may read why"
            assert PLAN.hash not in refused.text
    body = {"plan": PLAN.hash, "epoch": file_desk.epoch(), "reports": fresh(1)}
    held = booth.ask("POST", path + "/reports", json=body, headers={"origin": PAGE})
    assert held.status_code == 202
    assert held.headers["access-control-allow-origin"] == PAGE
    assert "retry-after" in held.headers["access-control-expose-headers"], "a page may read when"
    for origin in ("https://evil.example", "null", PAGE + ".evil.org"):
        refused = booth.ask("POST", path + "/reports", json=body, headers={"origin": origin})
        assert (refused.status_code, refused.json()["reason"]) == (403, "origin")
        assert "access-control-allow-origin" not in refused.headers
    file_desk.ask("PATCH", path, json={"origins": []})
    file_desk.clock.advance(10)
    gone = booth.ask("POST", path + "/reports", json=body, headers={"origin": PAGE})
    assert gone.status_code == 403, "it follows what the collection allows"
    booth.close()


def test_metrics_are_for_whoever_runs_the_relay(booth):
    booth.send(fresh(K))
    booth.settle()
    booth.send([{"id": os.urandom(16).hex(), "cells": [999]}])
    text = booth.ask("GET", "/metrics").text
    for line in (
        'keyveil_relay_forwarded_total{collection="menu"} 5',
        'keyveil_refused_total{collection="menu",reason="impossible"} 1',
        "keyveil_relay_held_reports 0",
        "keyveil_relay_held_bytes 0",
        "keyveil_relay_ready 1",
        "keyveil_relay_crowd_reports_count 1",
    ):
        assert line + "\n" in text
    for row in text.splitlines():
        assert re.fullmatch(r"# (HELP|TYPE) keyveil_.*|keyveil_\w+(\{[^}]*\})? [-+\w.]+", row), row
    for headers in ({"host": "relay.example"}, {"x-forwarded-for": "192.0.2.7"}, {"origin": PAGE}):
        assert booth.ask("GET", "/metrics", headers=headers).status_code == 403
    assert "held" not in booth.ask("GET", "/health").text, "when reports come is nobody else's business"


def test_metrics_of_a_relay_that_others_reach_need_a_token(booth):
    def status_for(relay_app: Any, value: str | None) -> int:
        headers = {} if value is None else {"authorization": value}
        client = httpx.AsyncClient(transport=httpx.ASGITransport(relay_app), base_url=URL)
        status: int = booth.desk.run(client.get("/metrics", headers=headers)).status_code
        booth.desk.run(client.aclose())
        return status

    assert status_for(app(booth.relay, begin=False, exposed=True), None) == 403
    with_token = app(booth.relay, begin=False, exposed=True, watcher="let me see")
    assert status_for(with_token, "Bearer let me see") == 200
    for value in (None, "", "Bearer", "Bearer let me se", "Bearer let me see2", "let me see", "Basic x"):
        assert status_for(with_token, value) == 401


def test_it_is_ready_until_it_ends(booth):
    assert booth.ask("GET", "/ready").json() == {"ready": True, "why": []}
    booth.relay.draining.set()
    assert booth.ask("GET", "/ready").status_code == 503
    assert booth.send(fresh(1)).status_code == 503
    missing = booth.ask("GET", "/nothing")
    assert (missing.status_code, missing.json()["reason"]) == (404, "unknown")


def test_made_up_names_and_plans_do_not_make_the_collector_busy(booth):
    booth.send(fresh(1))
    paths: list[str] = []
    inner = booth.line.inner

    class Counting(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            paths.append(request.url.path)
            return await inner.handle_async_request(request)

    booth.line.inner = Counting()
    for _ in range(30):
        assert booth.send(fresh(1), "none").status_code == 404
    assert len(paths) == 1
    paths.clear()
    statuses = [booth.send(fresh(1), plan=os.urandom(32).hex()).status_code for _ in range(50)]
    assert set(statuses) == {409, 429}
    assert len(paths) <= 20
    assert booth.send(fresh(1)).status_code == 202, "others go on"
    booth.desk.clock.advance(10)
    assert booth.send(fresh(1), plan=os.urandom(32).hex()).status_code == 409
    many = booth.relay.upstream
    for number in range(1200):
        many._note_unknown(f"name-{number}")
    assert len(many._unknown) == 1000


@pytest.mark.parametrize("end", ["", "/plan"])
@pytest.mark.parametrize("kind", ["long", "compressed"])
def test_a_collector_that_says_too_much_is_not_read_to_its_end(booth, end, kind):
    inner, size = booth.line.inner, [0]

    class Endless(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            while size[0] < 1 << 30:
                size[0] += 1 << 20
                yield bytes(1 << 20)

    class Hostile(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            if not request.url.path.endswith("/menu" + end):
                return await inner.handle_async_request(request)
            headers = {"content-encoding": "gzip"} if kind == "compressed" else {}
            return httpx.Response(200, stream=Endless(), headers=headers)

    booth.line.inner = Hostile()
    response = booth.send(fresh(1))
    assert (response.status_code, response.json()["reason"]) == (503, "unhealthy")
    assert size[0] <= (0 if kind == "compressed" else 17 << 20)
    booth.line.inner = inner
    assert booth.send(fresh(1)).status_code == 202


def test_a_slow_answer_about_one_collection_holds_up_no_other(booth):
    booth.desk.create("second", plan_of("kvoh"))
    inner, gate, count = booth.line.inner, asyncio.Event(), [0]

    class Slow(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            if request.url.path != "/v1/collections/menu":
                count[0] += 1
                await gate.wait()
            return await inner.handle_async_request(request)

    booth.ask("GET", "/v1/collections/menu")
    booth.desk.clock.advance(10)
    booth.line.inner = Slow()

    async def both() -> list[int]:
        slow = [asyncio.create_task(booth.client.get("/v1/collections/second")) for _ in range(3)]
        made_up = [asyncio.create_task(booth.client.get(f"/v1/collections/x{n}")) for n in range(50)]
        await asyncio.sleep(0.05)
        assert count[0] <= 8, "so many names that nobody knows are asked for at once"
        quick = await asyncio.wait_for(booth.client.get("/v1/collections/menu"), 10)
        gate.set()
        assert {(await task).status_code for task in made_up} == {404}
        return [quick.status_code, *[(await task).status_code for task in slow]]

    assert booth.desk.run(both()) == [200] * 4
    assert booth.relay.upstream._learning == {}


# -- the command -----------------------------------------------------------------------------------


def test_the_command_relays_over_real_sockets(tmp_path):
    store = str(tmp_path / "store.sqlite")
    PLAN.save(tmp_path / "plan.json")
    keyveil("collection", "create", "menu", str(tmp_path / "plan.json"), "--store", store)
    collector = Process(store, tmp_path)
    words = [KEYVEIL, "relay", "--to", collector.url, "--wait", "6", "--listen", "127.0.0.1:0"]
    words += ["--memory", str(tmp_path / "relay.sqlite")]
    relay = subprocess.Popen(
        [*words, "--collection", "menu"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        lines = [relay.stdout.readline(), relay.stdout.readline()]
        assert re.match(r"menu: if the reports of 6 people pass a shuffler.*epsilon [0-9.]+", lines[0])
        url = re.search(r"at (http://\S+):", lines[1])[1]
        states = []
        for number in range(6):
            at_once = Patience(settle=0, spread=0)
            with Client(url, tmp_path / str(number), cap=1, patience=at_once) as client:
                states.append(client.answer("menu", {"Pepsi": 1 + number % 5}).state)
        assert set(states) == {"held"}
        for _ in range(200):
            if 'forwarded_total{collection="menu"} 6' in httpx.get(url + "/metrics").text:
                break
            asyncio.run(asyncio.sleep(0.02))
        status = collector.client.get("/v1/collections/menu/status").json()
        assert status["rounds"][0]["reports"] == 6
        relay.send_signal(signal.SIGTERM)
        out, err = relay.communicate(timeout=30)
        assert relay.returncode == 0
        events = [json.loads(line)["event"] for line in err.splitlines()]
        assert events == ["started", "collection_known", "forwarded", "stopped"]
        assert out == ""
    finally:
        if relay.poll() is None:
            relay.kill()
            relay.communicate()
        collector.end()


def test_a_relay_that_is_killed_still_waits_for_k_new_ones(tmp_path):
    """Over real sockets, with kill -9: three left, two of them send again, one is new."""
    store = str(tmp_path / "store.sqlite")
    PLAN.save(tmp_path / "plan.json")
    keyveil("collection", "create", "menu", str(tmp_path / "plan.json"), "--store", store)
    collector = Process(store, tmp_path)
    words = [KEYVEIL, "relay", "--to", collector.url, "--wait", "3", "--listen", "127.0.0.1:0"]
    words += ["--memory", str(tmp_path / "relay.sqlite")]
    today = collector.client.get("/v1/collections/menu").json()["epoch"]["now"]

    def started() -> tuple[subprocess.Popen[str], str]:
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        return process, re.search(r"at (http://[^ :]+:\d+)", process.stdout.readline())[1]

    def status_of(url: str, report: dict[str, Any]) -> int:
        body = {"plan": PLAN.hash, "epoch": today, "reports": [report]}
        return httpx.post(f"{url}/v1/collections/menu/reports", json=body).status_code

    def counted(at_least: int) -> int:
        for _ in range(200):
            status = collector.client.get("/v1/collections/menu/status").json()
            if status["rounds"][0]["reports"] >= at_least:
                break
            asyncio.run(asyncio.sleep(0.02))
        return int(status["rounds"][0]["reports"])

    relay, url = started()
    try:
        reports, new = fresh(3), fresh(3)
        assert [status_of(url, report) for report in reports] == [202] * 3
        assert counted(3) == 3
        relay.kill()
        relay.communicate()
        relay, url = started()
        for report in (*reports[:2], new[0]):
            assert status_of(url, report) in (200, 202)
        assert status_of(url, new[1]) == 202
        asyncio.run(asyncio.sleep(0.3))
        assert counted(0) == 3, "two new ones are no crowd"
        assert status_of(url, new[2]) == 202
        assert counted(6) == 6
        assert [status_of(url, report) for report in reports] == [200] * 3
    finally:
        relay.kill()
        relay.communicate()
        collector.end()


@pytest.mark.parametrize(
    "words",
    [
        ["--to", "http://example.org", "--wait", "10"],
        ["--to", URL, "--wait", "1"],
        ["--to", URL, "--wait", "10", "--listen", "8751"],
        ["--to", URL, "--wait", "10", "--collection", "NO NAME"],
        ["--to", "http://127.0.0.1:1", "--wait", "10", "--collection", "menu"],
        ["--to", URL, "--wait", "10", "--delta", "2"],
    ],
)
def test_the_command_refuses_in_one_line(words):
    done = keyveil("relay", *words, check=False)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("keyveil: ")


def test_secure_coins_order_the_crowd(monkeypatch):
    """Not a generator meant for simulation: the words come from the operating system's key."""
    used = []
    real = Coins.secure

    def secure() -> Coins:
        used.append(True)
        return real()

    monkeypatch.setattr(Coins, "secure", staticmethod(secure))
    rows = {bytes([name]) * 16: b"" for name in range(9)}
    assert sorted(shuffled(rows)) == sorted(rows.items())
    assert used == [True]


def test_no_path_leads_on_to_another(booth):
    """A redirect would repeat whatever Host was named, without the proxy's TLS."""
    for path in ("/v1/collections/menu/", "/v1/collections/menu/plan/", "/health/"):
        response = booth.ask("GET", path)
        assert response.status_code == 404
        assert "location" not in response.headers
