"""Every reason for a refusal and every limit, with a try to get around it; none may be left out."""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import io
import json
import logging
import os
import re
import resource
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from desk import PLAN, Desk, fresh, plan_of
from faults.kill import Server
from process import KEYVEIL, keyveil
from stated_clock import StatedClock

from keyveil.foundation.errors import KeyveilError
from keyveil.service.collector.engine import admin
from keyveil.service.collector.engine.writer import BUSY_REQUESTS, GATHER_SECONDS, Waiting, Writer
from keyveil.service.collector.http import batches
from keyveil.service.collector.http.server import ServerLog, address_of, listening, room_for
from keyveil.service.collector.process.logs import Log
from keyveil.service.collector.process.problems import REASONS
from keyveil.service.collector.process.settings import Settings
from keyveil.service.collector.store import Parcel, store_at

TRIES: dict[str, Callable[[Desk], list]] = {}
"""For each reason, a try: all of its answers must be refused for that reason."""
HERE = Path(__file__).parent


def tries(reason):
    def note(work):
        TRIES[reason] = work
        return work

    return note


def body(desk, reports=None, **more):
    document = {"plan": PLAN.hash, "epoch": desk.epoch(), "reports": reports or fresh(1), **more}
    return json.dumps(document).encode()


def state(desk, name):
    return desk.post("/v1/collections/menu/state", json={"state": name})


@tries("impossible")
def _(desk):
    wrong = [[0, 0], [0], [0, 1, 2], [1, 2], [10**9, 1], [0, 9]]
    packed = [bytes([code]) for code in (9, 200, 255)]
    names = [os.urandom(16) for _ in packed]
    return [desk.send([{"id": os.urandom(16).hex(), "cells": cells}]) for cells in wrong] + [
        desk.send_bytes(batches.encode_binary(PLAN.hash, desk.epoch(), name, row))
        for name, row in zip(names, packed, strict=True)
    ]


@tries("closed_epoch")
def _(desk):
    late = fresh(1)
    answers = [desk.send(late, epoch=epoch) for epoch in (0, 1, desk.epoch() - 3)]
    desk.clock.jump(-200)  # a clock that is set back a little opens nothing
    return [*answers, desk.send(late, epoch=desk.epoch() - 3)]


@tries("early_epoch")
def _(desk):
    return [desk.send(fresh(1), epoch=epoch) for epoch in (desk.epoch() + 2, 2**31 - 1)]


@tries("full")
def _(desk):
    desk.ask("PATCH", "/v1/collections/menu", json={"people": 2})
    assert desk.send(fresh(2)).status_code == 200
    return [desk.send(fresh(1)), desk.send(fresh(3)), desk.send(fresh(1), epoch=desk.epoch() - 1)]


@tries("malformed")
def _(desk):
    good = body(desk)
    answers = [desk.send_bytes(text, kind=batches.JSON) for text in (good[:-1], good + b"x", b"[" * 99)]
    twice = good.replace(b'"epoch"', b'"epoch": 1, "epcoh"')
    return [*answers, desk.send_bytes(twice, kind=batches.JSON), desk.send_bytes(good)]


@tries("other_plan")
def _(desk):
    other = plan_of(epsilon=9)
    desk.create("other", other)
    hashes = (other.hash, PLAN.hash.upper(), PLAN.hash[:-1], PLAN.hash + " ", "")
    return [desk.send(fresh(1), plan=name) for name in hashes]


@tries("closed_round")
def _(desk):
    chain = plan_of("privkvm", rounds=2)
    desk.create("rounds", chain)
    cells = list(chain.report({"Pepsi": 4}).cells)
    assert desk.post("/v1/collections/rounds/rounds?empty=true").status_code == 201
    late = [{"id": os.urandom(16).hex(), "cells": cells}]
    return [desk.send(late, name="rounds", plan=chain.hash)]


@tries("closed_collection")
def _(desk):
    state(desk, "closed")
    return [
        desk.send(fresh(1)),
        desk.send(fresh(1), epoch=desk.epoch() - 1),
        desk.send(fresh(1), epoch=desk.epoch() + 9),
    ]


@tries("not_open")
def _(desk):
    desk.create("later", opens=int(desk.clock.now()) + 100)
    return [desk.send(fresh(1), name="later"), desk.send(fresh(1), name="later", epoch=desk.epoch() - 1)]


@tries("paused")
def _(desk):
    state(desk, "paused")
    return [desk.send(fresh(1)), desk.send_bytes(body(desk), kind=batches.JSON)]


@tries("clock")
def _(desk):
    desk.clock.jump(10**6)
    return [desk.send(fresh(1), epoch=desk.epoch() - 12)]


@tries("too_many")
def _(desk):
    count = desk.service.settings.reports + 1
    packed = batches.encode_binary(PLAN.hash, desk.epoch(), os.urandom(16 * count), bytes(count))
    claimed = packed[:44] + b"\xff" * 4 + packed[48:]
    return [desk.send(fresh(1) * count), desk.send_bytes(packed), desk.send_bytes(claimed)]


@tries("too_large")
def _(desk):
    large = b" " * (desk.service.settings.body_bytes + 1)

    async def parts():
        for _ in range(3):
            yield large[: len(large) // 2]

    headers = {"content-type": batches.JSON}
    request = desk.client.post("/v1/collections/menu/reports", content=parts(), headers=headers)
    return [
        desk.send_bytes(large, kind=batches.JSON),
        desk.send_bytes(large, kind=batches.JSON, **{"content-length": "1"}),
        desk.run(request),
    ]


@tries("encoding")
def _(desk):
    return [
        desk.send_bytes(body(desk), kind=batches.JSON, **{"content-encoding": name})
        for name in ("gzip", "x-gzip", "br", "zstd", "identity, gzip", "GZIP", "*")
    ]


@tries("content_type")
def _(desk):
    kinds = ("text/plain", "text/plain; application/json", "application/jsonp", "", "application/")
    answers = [desk.send_bytes(body(desk), kind=kind) for kind in kinds]
    return [*answers, desk.post("/v1/collections", content=b"{}")]


@tries("slow")
def _(desk):
    async def slow():
        while True:
            yield b" "
            await asyncio.sleep(0.05)

    headers = {"content-type": batches.JSON}
    return [desk.run(desk.client.post(path, content=slow(), headers=headers)) for path in _UPLOADS]


_UPLOADS = ("/v1/collections/menu/reports", "/v1/collections")


@tries("rate")
def _(desk):
    desk.ask("PATCH", "/v1/collections/menu", json={"rate": 5})
    first = fresh(5)
    assert desk.send(first).status_code == 200
    desk.clock.jump(3600)  # the time of day fills no bucket
    answers = [desk.send(fresh(1)), desk.send(fresh(9))]
    assert desk.send(first).status_code == 200  # nor does what is free, as what is sent again
    assert desk.send([{"id": os.urandom(16).hex(), "cells": [0]}]).status_code == 422
    halves = [
        report["id"][:16] + other["id"][16:] for report, other in zip(first, fresh(5), strict=True)
    ]
    answers += [desk.send([{**first[0], "id": name}]) for name in halves]  # nor what looks like it
    answers += [
        desk.send([{**first[0], "id": report["id"]}], epoch=desk.epoch() - 1) for report in first
    ]
    desk.ask("PATCH", "/v1/collections/menu", json={"rate": 6})  # nor does a new rate
    return [*answers, desk.send(fresh(5))]


@tries("overload")
def _(desk):
    ingest = desk.app.routes[0].endpoint
    ingest.waiting_bytes = desk.service.settings.waiting_bytes
    answers = [desk.send(fresh(1))]
    ingest.waiting_bytes = 0
    ingest.waiting_requests = desk.service.settings.waiting_requests
    return [*answers, desk.send(fresh(1))]


@tries("storage")
def _(desk):
    session = desk.store._session()
    session.run(f"pragma max_page_count = {session.rows('pragma page_count')[0][0]}")
    return [desk.send(fresh(4000)), desk.send(fresh(4000))]


@tries("unhealthy")
def _(desk):
    desk.service.writer.broken = True
    return [desk.send(fresh(1)), desk.create_answer("new"), state(desk, "paused")]


@tries("origin")
def _(desk):
    desk.ask("PATCH", "/v1/collections/menu", json={"origins": ["https://a.org"]})
    path = "/v1/collections/menu/reports"
    origins = (
        "https://a.org.evil.org",
        "http://a.org",
        "https://a.org:444",
        "null",
        "",
        "https://A.org",
    )
    return [
        desk.post(path, content=body(desk), headers={"content-type": batches.JSON, "origin": origin})
        for origin in origins
    ] + [
        desk.get("/metrics", headers=headers)
        for headers in (
            {"origin": "https://a.org"},
            {"sec-fetch-site": "cross-site"},
            {"sec-fetch-site": " Cross-Site", "origin": "http://localhost"},
        )
    ]


PROXIES = ("x-forwarded-for", "x-forwarded", "x-forwarded-port", "forwarded", "cf-connecting-ip", "via")


@tries("host")
def _(desk):
    hosts = ("evil.org", "127.0.0.1.evil.org", "[", "[::1", "127.0.0.1@evil.org", "2130706433", "0", "")
    answers = [desk.get("/metrics", headers={"host": host}) for host in hosts]
    return answers + [desk.get("/metrics", headers={"host": "localhost", name: "1"}) for name in PROXIES]


@tries("token")
def _(desk):
    token = admin.add_token(desk.store, "admin")
    values = ("", "Bearer", f"Bearer {token[:-1]}", f"Basic {token}", "Bearer kv_" + "0" * 16 + "_")
    answers = [desk.get("/v1/collections", headers={"authorization": value}) for value in values]
    admin.revoke_token(desk.store, token.split("_")[1])
    admin.add_token(desk.store, "analyst")
    return [*answers, desk.get("/v1/collections", headers={"authorization": f"Bearer {token}"})]


@tries("forbidden")
def _(desk):
    token = {"authorization": f"Bearer {admin.add_token(desk.store, 'analyst')}"}
    return [
        desk.post("/v1/collections/menu/state", json={"state": "closed"}, headers=token),
        desk.ask("DELETE", "/v1/collections/menu", headers=token),
        desk.get("/v1/collections/menu/segments", headers=token),
    ]


@tries("unknown")
def _(desk):
    paths = ("Menu", "menu%00", "..%2fmenu", "%6denu2", "menu%20", "a" * 5000)
    answers = [desk.get(f"/v1/collections/{path}") for path in paths]
    slashes = (
        "/health/",
        "/v1/collections/",
        "/v1/collections/menu/",
        "/openapi.json/",
    )
    answers += [desk.get(path, headers={"host": "evil.org"}) for path in slashes]
    answers += [desk.post("/v1/collections/menu/reports/", content=body(desk))]
    assert not any("location" in answer.headers for answer in answers)
    segments = ("9" * 5000 + "/1/x", "1/" + "9" * 5000 + "/x", "1/1/..%2f..%2fstore.sqlite", "-1/1/x")
    return answers + [desk.get(f"/v1/collections/menu/segments/{path}") for path in segments]


@tries("method")
def _(desk):
    methods_of = {
        "/v1/collections/menu/reports": {"OPTIONS", "POST"},
        "/health": {"GET", "HEAD"},
        "/v1/collections": {"GET", "HEAD", "POST"},
    }
    for path, methods in methods_of.items():
        assert set(desk.ask("TRACE", path).headers["allow"].split(", ")) == methods
    return [desk.ask(name, "/v1/collections/menu/reports") for name in ("GET", "PUT", "BREW")] + [
        desk.ask("DELETE", "/health"),
        desk.post("/v1/collections/menu", headers={"x-http-method-override": "DELETE"}),
    ]


@tries("exists")
def _(desk):
    return [desk.create_answer("menu"), desk.create_answer("menu", plan_of(epsilon=2))]


@tries("state")
def _(desk):
    answers = [desk.ask("DELETE", "/v1/collections/menu")]
    state(desk, "closed")
    return [*answers, state(desk, "open"), state(desk, "paused")]


@tries("finished")
def _(desk):
    return [desk.post("/v1/collections/menu/rounds")]


@tries("invalid")
def _(desk):
    queries = ("estimates?level=nan", "estimates?round=1e3", "checks?false_alarm=nan", "queries?q=x(",
               "fakes?share=1", "fakes?share=nan", "fakes?views=all", "fakes?key=Tea")  # fmt: skip
    answers = [desk.get(f"/v1/collections/menu/{path}") for path in queries]
    changed = [{"epoch": 5}, {"grace": 0}, {"opens": 9, "closes": 3}, {"origins": ["a.org"]}]
    return answers + [desk.ask("PATCH", "/v1/collections/menu", json=terms) for terms in changed]


@tries("busy")
def _(desk):
    desk.service.streams = desk.service.settings.streams
    answers = desk.service.answers
    answers.light.asked = answers.heavy.asked = desk.service.settings.analyses
    return [desk.get(f"/v1/collections/menu/{path}") for path in ("live", "estimates", "checks")]


@tries("late")
def _(desk):
    """Neither what waits behind others nor what has begun is waited for without end."""
    answers = desk.service.answers
    answers._settings = dataclasses.replace(desk.service.settings, answer_seconds=0.2)
    done = threading.Event()
    for lane in (answers.light, answers.heavy):
        lane.pool.submit(done.wait, 60)
    paths = (
        "estimates",
        "estimates?estimator=shrunk",
        "conditional",
        "checks",
        "fakes",
        "queries?q=frequency(Pepsi)",
    )
    replies = [desk.get(f"/v1/collections/menu/{path}") for path in paths]
    done.set()
    assert answers.light.asked == answers.heavy.asked == 0
    return replies


@tries("key_missing")
def _(desk):
    """Other epochs are not touched by it."""
    desk.create("other", plan_of("kvoh"))
    plan = plan_of("kvoh").hash
    reports = fresh(1, plan_of("kvoh"))
    assert desk.send(reports, "other", plan=plan).status_code == 200
    (key,) = (desk.folder / "segments" / "keys").iterdir()
    key.unlink()
    desk.store._images.clear()  # as after a restart
    desk.send(fresh(1))
    return [desk.send(again, "other", plan=plan) for again in (reports, fresh(1, plan_of("kvoh")))]


@tries("internal")
def _(desk):
    """Nothing may lead here; if something does, it says nothing of itself."""

    def fail(*_):
        raise RuntimeError("secret")

    desk.store.has_book = desk.store.book = fail
    answers = [desk.send(fresh(1)), desk.get("/v1/collections/menu/plan")]
    assert "secret" not in desk.log.getvalue() + "".join(answer.text for answer in answers)
    return answers


class _Desk(Desk):
    def create_answer(self, name, plan=PLAN):
        return self.post("/v1/collections", json={"name": name, "plan": plan.document()})


@pytest.mark.parametrize("reason", REASONS)
def test_no_way_around_a_refusal(tmp_path, reason):
    settings = Settings(body_bytes=1 << 20, request_seconds=0.3)
    desk = _Desk(str(tmp_path / "store.sqlite"), tmp_path, settings=settings)
    desk.create()
    taken = desk.reports()
    for answer in TRIES[reason](desk):
        assert (answer.status_code, answer.json()["reason"]) == (REASONS[reason].status, reason)
        assert answer.headers["content-type"] == "application/problem+json"
        assert ("retry-after" in answer.headers) == REASONS[reason].retry
    with desk.store.__class__.reading(desk.store) as session:
        (counted,) = session.rows("select coalesce(sum(reports), 0) from heads")[0]
    assert counted - taken in (0, {"full": 2, "rate": 5, "key_missing": 2}.get(reason, 0))
    desk.close()


def test_every_reason_and_every_limit_has_a_try():
    assert set(TRIES) == set(REASONS)
    places = (HERE, HERE.parent / "attacks")
    texts = "".join(path.read_text() for place in places for path in place.glob("test_*.py"))
    periods = {"tick_seconds", "seal_seconds"}  # how often, not how much
    for field in dataclasses.fields(Settings):
        if field.name in periods:
            continue
        assert re.search(rf"\b{field.name}\b", texts), f"no test speaks of {field.name}"


# -- limits in process -----------------------------------------------------------------------------


def test_a_transaction_is_bounded_and_no_report_is_left_out(tmp_path):
    settings = Settings(group_reports=10)
    desk = Desk(str(tmp_path / "store.sqlite"), tmp_path, settings=settings)
    desk.create()
    sizes = []
    append = desk.store.append

    def watched(parcels, *more):
        sizes.append(sum(len(parcel.ids) for parcel in parcels))
        append(parcels, *more)

    desk.store.append = watched
    collection = desk.store.control.named("menu")

    async def many():
        names = [[os.urandom(16) for _ in range(4)] for _ in range(20)]
        parcels = [Parcel(collection.id, collection.round.id, desk.epoch(), n, bytes(4)) for n in names]
        await asyncio.gather(*(desk.service.writer.submit(parcel) for parcel in parcels))

    desk.run(many())
    assert max(sizes) < 10 + 4
    assert sum(sizes) == desk.reports() == 80
    desk.close()


def test_a_busy_writer_waits_for_more_and_a_lone_request_never_waits(file_desk, monkeypatch):
    parts = file_desk.service
    writer = Writer(file_desk.store, file_desk.clock, parts.settings, parts.metrics, parts.log)
    groups, waits = [], []
    monkeypatch.setattr(writer, "_commit", lambda _, group: groups.append(len(group)))
    monkeypatch.setattr(time, "sleep", lambda seconds: waits.append((len(groups), seconds)))
    for number in (1, 1, BUSY_REQUESTS, 1, 1):
        for _ in range(number):
            writer._queue.put(Waiting(Parcel(1, 1, 1, [bytes(16)], b""), None))
        writer._step()
    assert groups == [1, 1, BUSY_REQUESTS, 1, 1]
    assert waits == [(3, GATHER_SECONDS)], "only after the busy transaction"


def test_one_who_asks_and_goes_does_not_end_the_writer(tmp_path):
    """A call whose asker was cancelled must not take the writer's thread with it."""
    desk = Desk(str(tmp_path / "store.sqlite"), tmp_path)
    desk.create()
    service, busy, ran = desk.service, threading.Event(), []
    writer = Writer(desk.store, desk.clock, service.settings, service.metrics, service.log)

    async def cancelled():
        writer.start()
        first = asyncio.ensure_future(writer.call(lambda store: busy.wait(20)))
        second = asyncio.ensure_future(writer.call(lambda store: ran.append(2)))
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.wait([second])
        busy.set()
        assert await first
        assert await writer.call(lambda store: "still there") == "still there"
        await writer.stop()

    desk.run(cancelled())
    assert ran == []
    assert not writer.broken
    desk.close()


def test_a_log_that_cannot_be_written_stops_no_report(tmp_path):
    """A full disk is just when it is written to."""

    class Full:
        def write(self, _):
            raise OSError(errno.ENOSPC, "full")

        flush = write

    desk = Desk(str(tmp_path / "store.sqlite"), tmp_path)
    desk.create()
    desk.service.log._stream = Full()
    assert TRIES["storage"](desk)[0].json()["reason"] == "storage"
    desk.store._session().run("pragma max_page_count = 1000000")
    assert desk.send(fresh(1)).status_code == 200
    desk.close()


def test_whoever_sends_rubbish_does_not_fill_the_log():
    """The server warns of each; the log has one line a minute, and says how many it left out."""
    stream, now = io.StringIO(), [0.0]
    handler = ServerLog(Log(StatedClock(), stream), lambda: now[0])

    def warn(text, *arguments):
        handler.emit(logging.LogRecord("uvicorn", logging.WARNING, "", 1, text, arguments, None))

    for number in range(1000):
        warn("Invalid HTTP request received from %s.", f"192.0.2.{number}")
    now[0] = 61.0
    warn("Invalid HTTP request received from %s.", "192.0.2.7")
    warn("another")
    for number in range(1000):
        warn(f"made up {number}")
    lines = [json.loads(text) for text in stream.getvalue().splitlines()]
    assert [line.get("left_out") for line in lines[:3]] == [None, 999, None]
    assert len(handler._said) <= 100
    assert "192.0.2" not in stream.getvalue()


def test_a_batch_that_is_not_what_it_says_costs_a_collection_nothing(tmp_path):
    """A head that announces ten thousand reports, and what no honest client sends, use up no rate."""
    desk = Desk(str(tmp_path / "store.sqlite"), tmp_path)
    desk.create(rate=5)
    head = batches.MAGIC + bytes.fromhex(PLAN.hash) + desk.epoch().to_bytes(4, "little")
    for count, rest in (
        (10_000, b""),
        (1, b""),
        (10_000, bytes(17 * 9_999)),
        (10_000, bytes(17 * 10_001)),
    ):
        assert desk.send_bytes(head + count.to_bytes(4, "little") + rest).json()["reason"] == "malformed"
    wrong = batches.encode_binary(PLAN.hash, desk.epoch(), os.urandom(160_000), b"\xff" * 10_000)
    assert desk.send_bytes(wrong).json()["reason"] == "impossible"
    assert desk.send(fresh(5), epoch=desk.epoch() - 9).json()["reason"] == "closed_epoch"
    state(desk, "paused")
    assert desk.send(fresh(5)).json()["reason"] == "paused"
    state(desk, "open")
    assert desk.send(fresh(5)).status_code == 200
    assert desk.send(fresh(1)).json()["reason"] == "rate"
    desk.close()


def test_a_debt_is_bounded(tmp_path):
    """One request carries at most five seconds' worth: what is closed then is open again soon."""
    desk = Desk(str(tmp_path / "store.sqlite"), tmp_path)
    about = desk.create(rate=5)
    assert about["limits"]["reports"] == 25
    refused = desk.send(fresh(26))
    assert (refused.status_code, refused.json()["reason"]) == (413, "too_many")
    assert desk.send(fresh(25)).status_code == 200
    waits = desk.send(fresh(1))
    assert waits.status_code == 429
    assert int(waits.headers["retry-after"]) <= 6
    desk.clock.advance(int(waits.headers["retry-after"]))
    assert desk.send(fresh(1)).status_code == 200
    assert desk.reports() == 26
    desk.close()


def test_files_that_run_out_are_no_fault_of_the_one_who_asks(tmp_path):
    desk = Desk(str(tmp_path / "store.sqlite"), tmp_path)
    desk.create()

    def fail(*_):
        raise OSError(errno.EMFILE, "too many open files")

    desk.store.has_book = desk.store.book = desk.store.reading = fail
    paths = ("estimates", "status", "plan", "checks", "segments")
    for answer in (desk.send(fresh(1)), *(desk.get(f"/v1/collections/menu/{path}") for path in paths)):
        assert (answer.status_code, answer.json()["reason"]) == (503, "storage")
        assert "retry-after" in answer.headers
    assert "keyveil_healthy 1" in desk.get("/metrics").text
    desk.close()


@pytest.mark.parametrize(
    ("limits", "asked", "found", "raised"),
    [
        ((10_000, 10_000), 4096, 4096, None),
        ((1024, 8192), 4096, 4096, 4096 + 256),
        ((1024, resource.RLIM_INFINITY), 4096, 4096, 4096 + 256),
        ((1024, 2048), 4096, 2048 - 256, 2048),
        ((64, 64), 4096, 16, 64),
        ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), 4096, 4096, None),
    ],
)
def test_connections_never_need_more_files_than_there_are(monkeypatch, limits, asked, found, raised):
    now, calls, stream = [limits], [], io.StringIO()
    monkeypatch.setattr("resource.getrlimit", lambda _: now[0])
    monkeypatch.setattr(
        "resource.setrlimit", lambda _, new: (calls.append(new), now.__setitem__(0, new))
    )
    assert room_for(asked, Log(StatedClock(), stream)) == found
    assert [soft for soft, _ in calls] == ([] if raised is None else [raised])
    assert all(hard == limits[1] for _, hard in calls)
    assert ("few_files" in stream.getvalue()) == (found < asked)
    assert stream.getvalue().count("\n") == (found < asked)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), 0, -1.0])
def test_settings_are_numbers(wrong):
    with pytest.raises(KeyveilError, match="request_seconds must be a number above 0"):
        Settings(request_seconds=wrong)


def test_serve_takes_no_time_that_is_none(tmp_path):
    for text in ("nan", "inf", "0", "-1"):
        done = keyveil("serve", "--store", str(tmp_path / "a"), "--request-seconds", text, check=False)
        assert done.returncode != 0
        assert "request-seconds" in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_refusal_to_serve_makes_no_store(tmp_path):
    words = ("serve", "--store", str(tmp_path / "new.sqlite"))
    done = keyveil(*words, "--host", "0.0.0.0", "--port", "0", check=False)
    assert done.returncode == 1
    assert "without an admin token" in done.stderr
    with listening("127.0.0.1", 0) as taken:
        done = keyveil(*words, "--port", address_of(taken).rsplit(":", 1)[1], check=False)
    assert "cannot listen" in done.stderr
    assert not list(tmp_path.iterdir())


def test_where_sealed_epochs_go_is_said_where_no_file_shows_it(database, tmp_path):
    words = [KEYVEIL, "serve", "--store", database, "--port", "0"]
    for more, is_default in (([], True), (["--segments", str(tmp_path / "kept")], False)):
        process = subprocess.Popen(
            [*words, *more], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        lines = [process.stdout.readline() for _ in range(4 if is_default else 3)]
        process.terminate()
        rest, _ = process.communicate(timeout=30)
        text = "".join(lines) + rest
        assert (f"sealed epochs go to {tmp_path}/keyveil.segments" in text) == is_default


# -- bodies that come slowly ------------------------------------------------------------------------


class Body:
    """A request whose body comes when the test says so."""

    def __init__(self, desk, length):
        self.parts, self.sent = asyncio.Queue(), []
        headers = [(b"content-type", b"application/json"), (b"content-length", str(length).encode())]
        scope = {"type": "http", "method": "POST", "headers": headers, "path_params": {"name": "menu"}}

        async def send(message):
            self.sent.append(message)

        self.task = asyncio.ensure_future(desk.app.routes[0].endpoint(scope, self.parts.get, send))

    def part(self, text, more=True):
        self.parts.put_nowait({"type": "http.request", "body": text, "more_body": more})

    @property
    def status(self):
        return self.sent[0]["status"] if self.sent else None


def slow_desk(tmp_path, **more):
    settings = Settings(body_bytes=1000, waiting_bytes=4000, request_seconds=60, **more)
    desk = Desk(str(tmp_path / "store.sqlite"), tmp_path, settings=settings)
    desk.create()
    return desk


def test_what_is_announced_and_not_sent_takes_no_room(tmp_path):
    desk = slow_desk(tmp_path)
    ingest = desk.app.routes[0].endpoint

    async def work():
        silent = [Body(desk, 1000) for _ in range(50)]
        await asyncio.sleep(0.05)
        assert (ingest.waiting_bytes, ingest.waiting_requests) == (0, 50)
        good = Body(desk, 1000)
        good.part(body(desk), False)
        await good.task
        assert good.status == 200
        for upload in silent:
            upload.parts.put_nowait({"type": "http.disconnect"})
            await upload.task
        assert (ingest.waiting_bytes, ingest.waiting_requests, len(ingest._arriving)) == (0, 0, 0)

    desk.run(work())
    desk.close()


@pytest.mark.parametrize("limit", ["bytes", "requests"])
def test_the_slowest_makes_room_for_who_sends(tmp_path, monkeypatch, limit):
    """Bodies that were sent in part and then no more, as many as there is room for."""
    monkeypatch.setattr("keyveil.service.collector.http.upload_limits.PATIENCE", 0.2)
    desk = slow_desk(tmp_path, waiting_requests=4 if limit == "requests" else 100)
    ingest = desk.app.routes[0].endpoint

    async def work():
        held = [Body(desk, 1000) for _ in range(4)]
        for number, upload in enumerate(held):
            upload.part(b" " * (996 + number))
        await asyncio.sleep(0.02)
        early = Body(desk, 1000)
        early.part(body(desk), False)
        await early.task
        assert early.status == 429, "whoever has just begun is not given up for another"
        await asyncio.sleep(0.3)
        good = Body(desk, 1000)
        good.part(body(desk), False)
        await good.task
        await asyncio.sleep(0.02)
        assert good.status == 200
        assert [upload.status for upload in held] == [408, None, None, None], "the slowest, and no other"
        held[0].part(b" " * 500)  # what still comes of it is not counted
        late = [Body(desk, 1000) for _ in range(2)]
        for upload in late:
            upload.part(b" " * 500)
        for upload in (*held[1:], *late):
            upload.parts.put_nowait({"type": "http.disconnect"})
        await asyncio.gather(*(upload.task for upload in (*held, *late)))
        assert (ingest.waiting_bytes, ingest.waiting_requests, len(ingest._arriving)) == (0, 0, 0)

    desk.run(work())
    assert desk.reports() == 1
    desk.close()


def test_whole_bodies_are_never_given_up(tmp_path, monkeypatch):
    """What waits for the store is kept, however long; then others are refused."""
    monkeypatch.setattr("keyveil.service.collector.http.upload_limits.PATIENCE", 0.0)
    desk = slow_desk(tmp_path)
    ingest = desk.app.routes[0].endpoint
    text = body(desk).ljust(900)

    async def work():
        held = asyncio.get_running_loop().create_future()
        monkeypatch.setattr(desk.service.writer, "submit", lambda parcel: asyncio.shield(held))
        whole = [Body(desk, 1000) for _ in range(4)]
        for upload in whole:
            upload.part(text[:100])
            upload.part(text[100:], False)
        await asyncio.sleep(0.05)
        assert ingest.waiting_bytes == 3600
        more = Body(desk, 1000)
        more.part(text, False)
        await more.task
        assert more.status == 429
        held.set_result(None)
        await asyncio.gather(*(upload.task for upload in whole))
        assert [upload.status for upload in whole] == [200] * 4
        assert (ingest.waiting_bytes, ingest.waiting_requests) == (0, 0)

    desk.run(work())
    desk.close()


# -- limits of a real process ----------------------------------------------------------------------

HELLO = b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
POST = b"POST /v1/collections/menu/reports HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("limits")
    address = str(folder / "store.sqlite")
    store = store_at(address)
    store.open()
    admin.create(store, "menu", PLAN.dumps(), {}, 0.0)
    store.close()
    words = ("request_seconds=1", "idle_seconds=1", "send_seconds=1", "connections=20")
    more = ("shutdown_seconds=2", "body_bytes=100000", "waiting_bytes=100000")
    server = Server(address, folder, *words, *more)
    server.start()
    yield server
    assert server.end() == 0


def line(server, text=b"", timeout=20):
    connection = socket.create_connection(("127.0.0.1", server.port))
    connection.settimeout(timeout)
    connection.sendall(text)
    return connection


def rest(connection):
    """All that comes until the other side ends the connection; fails if it never does."""
    content = b""
    try:
        while part := connection.recv(1 << 16):
            content += part
    except ConnectionError:
        pass
    connection.close()
    return content


def memory(server):
    """Megabytes that the process uses."""
    return int(Path(f"/proc/{server.pid}/statm").read_text().split()[1]) * 4096 / 1e6


def pour(connection, piece, most):
    """Send until the other side has had enough; how many bytes it took."""
    size = 0
    try:
        while size < most:
            connection.sendall(piece)
            size += len(piece)
    except OSError:
        pass
    return size


@pytest.mark.parametrize(
    "begin",
    [
        b"GET /health HTTP/1.1\r\nx: ",
        b"GET /",
        POST + b"transfer-encoding: chunked\r\n\r\n1\r\n{\r\n0\r\nx: ",
        POST + b"transfer-encoding: chunked\r\n\r\n1;",
    ],
    ids=["header", "path", "trailer", "chunk"],
)
def test_a_head_is_bounded(server, begin):
    """By head_bytes, wherever in a request it is."""
    before = memory(server)
    connection = line(server, begin)
    taken = pour(connection, b"x" * (1 << 16), 200 << 20)
    connection.close()
    assert taken < 50 << 20
    assert memory(server) - before < 20


def test_many_headers_are_a_head_too(server):
    connection = line(server, b"GET /health HTTP/1.1\r\n")
    taken = pour(connection, b"x: y\r\n" * 10_000, 200 << 20)
    connection.close()
    assert taken < 50 << 20


@pytest.mark.parametrize("after", [b"", b"\r\n", b"\r\n\r\n\r\n", b"G"])
def test_silence_after_a_request_ends_a_connection_within_idle_seconds(server, after):
    """Also where an empty line came before it, which is no request."""
    connection = line(server, HELLO)
    assert b"200 OK" in connection.recv(4096)
    connection.sendall(after)
    rest(connection)


def test_drops_now_and_then_do_not_hold_a_connection(server):
    for text in (b"\r\n", b"G", b"x"):
        connection = line(server, POST + b"content-length: 1000\r\n\r\n" if text == b"x" else b"")
        begun = time.monotonic()
        while pour(connection, text, 1) and time.monotonic() < begun + 20:
            time.sleep(0.1)
        connection.close()
        assert time.monotonic() < begun + 20


@pytest.mark.parametrize("drop", [b"", b" "], ids=["silent", "dripping"])
@pytest.mark.parametrize("kind", ["length", "chunked"])
def test_a_slow_body_is_told_so(server, kind, drop):
    """The connection ends with an answer, and not before it."""
    how = b"transfer-encoding: chunked" if kind == "chunked" else b"content-length: 1000"
    connection = line(server, POST + how + b"\r\n\r\n")
    begun = time.monotonic()
    connection.settimeout(0.2)
    answer = b""
    while not answer and time.monotonic() < begun + 20:
        try:
            connection.sendall(b"1\r\n \r\n" if drop and kind == "chunked" else drop)
            answer = connection.recv(4096)
        except TimeoutError:
            continue
    connection.settimeout(20)
    answer += rest(connection)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b'"reason":"slow"' in answer
    assert b"retry-after: 1\r\n" in answer
    assert b"connection: close" in answer


def test_silent_sockets_stop_no_upload(server):
    """As many as there may be, each announcing as much as a body may have."""
    silent = [line(server, POST + b"content-length: 100000\r\n\r\n") for _ in range(16)]
    time.sleep(0.1)
    epoch = int(time.time()) // 86_400
    text = json.dumps({"plan": PLAN.hash, "epoch": epoch, "reports": fresh(3)}).encode()
    good = line(server, POST + f"content-length: {len(text)}\r\n\r\n".encode() + text)
    assert good.recv(4096).startswith(b"HTTP/1.1 200 ")
    for connection in (good, *silent):
        connection.close()


def test_who_does_not_take_answers_is_let_go_within_send_seconds(server):
    before = memory(server)
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect(("127.0.0.1", server.port))
    connection.settimeout(20)
    pour(connection, HELLO.replace(b"/health", b"/openapi.json") * 50, 100 << 20)
    connection.close()
    assert memory(server) - before < 40
    assert b"200 OK" in rest(line(server, HELLO))


def test_what_is_no_request_is_refused(server):
    for text in (
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"CONNECT a:1 HTTP/1.1\r\nhost: a\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nhost: a\r\n\r\n",
        POST + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        POST + b"content-length: 5\r\ncontent-length: 6\r\n\r\n12345",
        POST + b"content-length: -1\r\n\r\n",
        POST + b"content-length: 1\r\ncontent-encoding: gzip\r\n\r\nx",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ):
        answer = rest(line(server, text))
        assert re.match(rb"HTTP/1.1 4\d\d ", answer), text
        assert answer.count(b"HTTP/1.1 ") == 1, "nothing is smuggled in behind it"


def test_an_upgrade_is_not_made(server):
    request = HELLO[:-2] + b"connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-key: a\r\n\r\n"
    assert b"101" not in rest(line(server, request)).split(b"\r\n")[0]


def test_a_client_that_never_ends_cannot_hold_the_end(tmp_path):
    """Accepted requests finish within shutdown_seconds; one that never comes whole is let go."""
    address = str(tmp_path / "store.sqlite")
    store = store_at(address)
    store.open()
    admin.create(store, "menu", PLAN.dumps(), {}, 0.0)
    store.close()
    server = Server(address, tmp_path, "shutdown_seconds=2", "request_seconds=60")
    server.start()
    epoch = int(time.time()) // 86_400
    text = json.dumps({"plan": PLAN.hash, "epoch": epoch, "reports": fresh(3)}).encode()
    slow = line(server, POST + b"content-length: 1000\r\n\r\n{")
    good = line(server, POST + f"content-length: {len(text)}\r\n\r\n".encode() + text[:40])
    time.sleep(0.3)
    os.kill(server.pid, signal.SIGTERM)
    time.sleep(0.3)
    good.sendall(text[40:])
    assert b'{"accepted":3,"failed":[]}' in rest(good)
    begun = time.monotonic()
    assert server.end() == 0
    assert time.monotonic() - begun < 30
    slow.close()
    store = store_at(address)
    store.open()
    assert store.counts_stored(store.control.named("menu").round)[PLAN.layout.own].sum() == 3
    store.close()
