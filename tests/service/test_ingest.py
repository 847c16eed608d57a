"""Reports in: every refusal and every limit, and a try to get around each."""

from __future__ import annotations

import gzip
import json
import os
import random

import pytest
from desk import PLAN, Desk, fresh, plan_of

from keyveil.service.collector.engine.recent_reports import RecentReports
from keyveil.service.collector.http import batches
from keyveil.service.collector.process.settings import Settings
from keyveil.service.collector.store import Parcel
from keyveil.service.collector.store.epoch_keys import KeyFolder

PATH = "/v1/collections/menu/reports"


def reason(answer):
    return answer.status_code, answer.json()["reason"]


def test_one_or_many_in_json_or_binary(desk):
    desk.create()
    assert desk.send(fresh(1)).json() == {"accepted": 1, "failed": []}
    assert desk.send(fresh(50)).json() == {"accepted": 50, "failed": []}
    body = batches.encode_binary(PLAN.hash, desk.epoch(), os.urandom(16 * 9), bytes(range(9)))
    answer = desk.send_bytes(body)
    assert answer.json() == {"accepted": 9, "failed": []}
    assert answer.headers["cache-control"] == "no-store"
    assert desk.reports() == 60
    assert desk.get("/v1/collections/menu/estimates").json()["reports"] == 60


def test_sending_again_is_success_and_counts_once(desk):
    desk.create()
    reports = fresh(5)
    for _ in range(3):
        assert desk.send(reports).json() == {"accepted": 5, "failed": []}
    packing = PLAN.packing
    rows = b"".join(packing.row(report["cells"]) for report in reports)
    ids = b"".join(bytes.fromhex(report["id"]) for report in reports)
    assert desk.send_bytes(batches.encode_binary(PLAN.hash, desk.epoch(), ids, rows)).status_code == 200
    assert desk.reports() == 5


def test_an_answer_names_only_the_failed(desk):
    desk.create()
    reports = fresh(4)
    reports[1]["cells"] = [0, 999]
    reports[3]["cells"] = [1, 2]
    answer = desk.send(reports)
    assert answer.status_code == 200
    assert answer.json()["accepted"] == 2
    assert answer.json()["failed"] == [
        {"id": reports[1]["id"], "reason": "impossible", "retry": False},
        {"id": reports[3]["id"], "reason": "impossible", "retry": False},
    ]
    assert desk.status()["refusals"] == {"impossible": 2}
    assert desk.reports() == 2


def test_if_all_fail_for_one_reason_the_request_is_refused(file_desk):
    file_desk.create()
    reports = fresh(2)
    for report in reports:
        report["cells"] = [0, 0]
    answer = file_desk.send(reports)
    assert reason(answer) == (422, "impossible")
    assert answer.headers["content-type"] == "application/problem+json"
    assert [failed["id"] for failed in answer.json()["failed"]] == [report["id"] for report in reports]
    body = batches.encode_binary(PLAN.hash, file_desk.epoch(), os.urandom(32), bytes([200, 201]))
    assert reason(file_desk.send_bytes(body)) == (422, "impossible")
    assert file_desk.status()["refusals"] == {"impossible": 4}


def test_another_plan_is_refused(file_desk):
    file_desk.create()
    other = plan_of(epsilon=2)
    assert reason(file_desk.send(fresh(1), plan=other.hash)) == (409, "other_plan")
    assert reason(file_desk.send(fresh(1), plan="x")) == (409, "other_plan")
    assert file_desk.reports() == 0


def test_an_unknown_collection_is_refused(file_desk):
    assert reason(file_desk.send(fresh(1))) == (404, "unknown")
    assert reason(file_desk.send(fresh(1), name="a.b%00")) == (404, "unknown")


def test_paused_and_closed_collections_refuse_what_is_new_only(desk):
    desk.create()
    reports = fresh(2)
    desk.send(reports)
    desk.post("/v1/collections/menu/state", json={"state": "paused"})
    answer = desk.send(fresh(1))
    assert reason(answer) == (503, "paused")
    assert answer.json()["retry"] is True
    assert answer.headers["retry-after"] == "60"
    assert desk.send(reports).status_code == 200, "it was counted; sending again is success"
    mixed = desk.send(reports + fresh(1)).json()
    assert (mixed["accepted"], mixed["failed"][0]["reason"]) == (2, "paused")
    desk.post("/v1/collections/menu/state", json={"state": "open"})
    assert desk.send(fresh(1)).status_code == 200
    desk.post("/v1/collections/menu/state", json={"state": "closed"})
    assert reason(desk.send(fresh(1))) == (410, "closed_collection")
    assert desk.send(reports).status_code == 200
    assert desk.reports() == 3


def test_dates_open_and_close(file_desk):
    now = int(file_desk.clock.now())
    file_desk.create(opens=now + 100, closes=now + 200)
    assert reason(file_desk.send(fresh(1))) == (503, "not_open")
    file_desk.clock.advance(100)
    assert file_desk.send(fresh(1)).status_code == 200
    file_desk.clock.advance(100)
    assert reason(file_desk.send(fresh(1))) == (410, "closed_collection")


def test_epochs_open_early_and_close_late_and_for_good(desk):
    desk.create(epoch=100, grace=50, early=10)
    now = int(desk.clock.now()) // 100
    assert desk.clock.now() % 100 == 0
    assert desk.send(fresh(1), epoch=now).status_code == 200
    assert desk.send(fresh(1), epoch=now - 1).status_code == 200
    answer = desk.send(fresh(1), epoch=now + 1)
    assert reason(answer) == (425, "early_epoch")
    assert answer.json()["retry"] is True
    assert reason(desk.send(fresh(1), epoch=now - 2)) == (410, "closed_epoch")
    desk.clock.advance(50)
    assert reason(desk.send(fresh(1), epoch=now - 1)) == (410, "closed_epoch")
    desk.clock.advance(40)
    assert desk.send(fresh(1), epoch=now + 1).status_code == 200
    assert reason(desk.send(fresh(1), epoch=2**31 - 1)) == (425, "early_epoch")
    assert reason(desk.send(fresh(1), epoch=0)) == (410, "closed_epoch")
    assert desk.reports() == 3


def test_epochs_named_at_random_fill_no_memory(file_desk):
    file_desk.create()
    for epoch in range(2**30, 2**30 + 50):
        file_desk.send(fresh(1), epoch=epoch)
    file_desk.post("/v1/collections/menu/state", json={"state": "paused"})
    for _ in range(3):
        file_desk.send(fresh(1))
    assert list(file_desk.store.open_ids) == []


def test_a_store_that_cannot_be_read_is_no_client_s_fault(desk, monkeypatch):
    from keyveil.service.collector.store import StoreUnready

    desk.create()

    def away(*_):
        raise StoreUnready("away")

    desk.store._books.clear()
    monkeypatch.setattr(desk.store, "reading", away)
    assert reason(desk.send(fresh(1))) == (503, "storage")
    assert reason(desk.get("/v1/collections/menu/plan")) == (503, "storage")
    assert reason(desk.get("/v1/collections/menu/status")) == (503, "storage")


def test_an_unforeseen_error_is_told_by_its_kind_alone(file_desk, monkeypatch):
    file_desk.create()

    def fail(*_):
        raise RuntimeError("what was sent")

    monkeypatch.setattr(batches, "pack", fail)
    assert reason(file_desk.send(fresh(1))) == (500, "internal")
    assert "what was sent" not in file_desk.log.getvalue()
    assert "RuntimeError" in file_desk.log.getvalue()


def test_a_late_repetition_succeeds_until_ids_are_gone_and_never_counts_again(desk):
    desk.create(epoch=100, grace=50)
    reports, now = fresh(3), int(desk.clock.now()) // 100
    desk.send(reports, epoch=now)
    desk.clock.advance(150)
    assert desk.send(reports, epoch=now).status_code == 200
    desk.keep()
    assert reason(desk.send(reports, epoch=now)) == (410, "closed_epoch")
    desk.clock.jump(-150)
    assert reason(desk.send(reports, epoch=now)) == (410, "closed_epoch"), (
        "a clock set back opens nothing"
    )
    assert desk.reports() == 3


def test_a_clock_that_jumps_ahead_closes_nothing(desk):
    desk.create(epoch=100, grace=50)
    now = int(desk.clock.now()) // 100
    reports = fresh(2)
    desk.send(reports, epoch=now)
    desk.clock.jump(10_000)
    answer = desk.send(fresh(1), epoch=now)
    assert reason(answer) == (503, "clock")
    assert answer.json()["retry"] is True, "the device keeps its report"
    desk.keep()
    assert desk.get("/health").json()["warnings"]
    desk.clock.jump(-10_000)
    assert desk.send(fresh(1), epoch=now).status_code == 200
    assert desk.get("/health").json()["warnings"] == []
    assert desk.send(reports, epoch=now).status_code == 200
    assert desk.reports() == 3


def test_the_cap_refuses_what_is_too_many(desk):
    desk.create(people=3)
    reports = fresh(2)
    desk.send(reports)
    answer = desk.send(reports + fresh(3)).json()
    assert answer["accepted"] == 3
    assert [failed["reason"] for failed in answer["failed"]] == ["full", "full"]
    assert reason(desk.send(fresh(1))) == (410, "full")
    assert desk.send(reports).status_code == 200
    assert desk.reports() == 3


def test_a_full_round_needs_no_key_for_an_epoch_that_takes_nothing(desk, monkeypatch):
    desk.create(people=2)
    desk.send(fresh(2))
    desk.clock.jump(86_400)

    def no_space(folder):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(KeyFolder, "make", no_space)
    assert reason(desk.send(fresh(1))) == (410, "full")
    assert desk.reports() == 2


# -- limits ----------------------------------------------------------------------------------------


@pytest.fixture
def small(tmp_path):
    desk = Desk(
        str(tmp_path / "store.sqlite"),
        tmp_path,
        settings=Settings(body_bytes=2000, reports=10, waiting_bytes=4000, request_seconds=0.2),
    )
    desk.create()
    yield desk
    desk.close()


def test_a_request_carries_a_bounded_number_of_reports(small):
    assert small.send(fresh(10)).status_code == 200
    assert reason(small.send(fresh(11))) == (413, "too_many")


async def _pieces(*parts):
    for part in parts:
        yield part


def test_a_body_is_bounded_whatever_it_says_of_its_length(small):
    body = b" " * 2001
    assert reason(small.send_bytes(body, kind="application/json")) == (413, "too_large")
    streamed = small.run(
        small.client.post(
            PATH, content=_pieces(*[b" " * 500] * 5), headers={"content-type": "application/json"}
        )
    )
    assert reason(streamed) == (413, "too_large")
    assert streamed.headers["connection"] == "close"
    answer = small.send_bytes(b"{}", kind="application/json", **{"content-length": "9" * 30})
    assert answer.status_code in (400, 413)
    assert reason(small.send_bytes(b"{}", kind="application/json", **{"content-length": "x"}))[0] == 400
    assert small.app.routes[0].endpoint.waiting_bytes == 0


def test_a_slow_body_is_given_up(small):
    import asyncio

    async def slow():
        yield b"{"
        await asyncio.sleep(5)

    answer = small.run(
        small.client.post(PATH, content=slow(), headers={"content-type": "application/json"})
    )
    assert reason(answer) == (408, "slow")


def test_what_waits_is_bounded(small):
    ingest = small.app.routes[0].endpoint
    ingest.waiting_bytes = 3900
    answer = small.send(fresh(3))
    assert reason(answer) == (429, "overload")
    assert int(answer.headers["retry-after"]) >= 1
    ingest.waiting_bytes = 0
    ingest.waiting_requests = small.service.settings.waiting_requests
    assert reason(small.send(fresh(1))) == (429, "overload")
    ingest.waiting_requests = 0
    assert small.send(fresh(1)).status_code == 200
    assert ingest.waiting_bytes == ingest.waiting_requests == 0


def test_a_collection_s_rate_is_bounded(file_desk):
    file_desk.create(rate=10)
    assert file_desk.send(fresh(8)).status_code == 200
    answer = file_desk.send(fresh(8))
    assert reason(answer) == (429, "rate")
    assert answer.headers["retry-after"] == "1"
    file_desk.clock.advance(1)
    assert file_desk.send(fresh(8)).status_code == 200
    file_desk.clock.advance(1)
    assert file_desk.send(fresh(25)).status_code == 200, "a large batch passes, and leaves a debt"
    file_desk.clock.advance(1)
    assert reason(file_desk.send(fresh(1)))[0] == 429
    file_desk.clock.advance(2)
    assert file_desk.send(fresh(1)).status_code == 200


@pytest.mark.parametrize("encoding", ["gzip", "br", "deflate", "GZIP", "identity, gzip"])
def test_compressed_bodies_are_refused_unread(small, encoding):
    bomb = gzip.compress(b" " * 10_000_000)[:1500]
    answer = small.send_bytes(bomb, kind="application/json", **{"content-encoding": encoding})
    assert reason(answer) == (415, "encoding")
    assert answer.headers["accept-encoding"] == "identity"


@pytest.mark.parametrize(
    "kind", ["text/plain", "", "application/x-www-form-urlencoded", "multipart/form-data"]
)
def test_other_content_types_are_refused(small, kind):
    """Those that a page may send without asking first are among them."""
    body = json.dumps({"plan": PLAN.hash, "epoch": small.epoch(), "reports": fresh(1)})
    assert reason(small.send_bytes(body.encode(), kind=kind)) == (415, "content_type")


def test_a_charset_may_be_named(small):
    body = json.dumps({"plan": PLAN.hash, "epoch": small.epoch(), "reports": fresh(1)})
    answer = small.send_bytes(body.encode(), kind="Application/JSON; charset=utf-8")
    assert answer.status_code == 200


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH"])
def test_other_methods_are_refused(small, method):
    assert reason(small.ask(method, PATH)) == (405, "method")


@pytest.mark.parametrize("body", [b"", b"[" * 1900, b"\xff" * 50, b"{}", b'{"plan": NaN}', b"KVBATCH1"])
@pytest.mark.parametrize("kind", ["application/json", batches.BINARY])
def test_what_cannot_be_read_is_malformed(small, body, kind):
    assert reason(small.send_bytes(body, kind=kind)) == (400, "malformed")


# -- pages of other sites --------------------------------------------------------------------------


def test_pages_of_allowed_origins_may_send(file_desk):
    file_desk.create(origins=["https://shop.example"])
    body = {"plan": PLAN.hash, "epoch": file_desk.epoch(), "reports": fresh(1)}
    preflight = file_desk.ask("OPTIONS", PATH, headers={"origin": "https://shop.example"})
    assert preflight.status_code == 204
    assert preflight.headers["access-control-allow-origin"] == "https://shop.example"
    assert "content-type" in preflight.headers["access-control-allow-headers"]
    assert "POST" in preflight.headers["access-control-allow-methods"]
    assert "access-control-allow-credentials" not in preflight.headers
    assert "set-cookie" not in preflight.headers
    answer = file_desk.post(PATH, json=body, headers={"origin": "https://shop.example"})
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == "https://shop.example"
    assert answer.headers["vary"] == "origin"
    for path in ("/v1/collections/menu", "/v1/collections/menu/plan"):
        preflight = file_desk.ask("OPTIONS", path, headers={"origin": "https://shop.example"})
        assert preflight.headers["access-control-allow-origin"] == "https://shop.example"
        page_answer = file_desk.get(path, headers={"origin": "https://shop.example"})
        assert page_answer.headers["access-control-allow-origin"] == "https://shop.example"
        assert "retry-after" in page_answer.headers["access-control-expose-headers"]
    refused = file_desk.get(
        "/v1/collections/menu/plan?round=9", headers={"origin": "https://shop.example"}
    )
    assert refused.status_code == 404
    assert refused.headers["access-control-allow-origin"] == "https://shop.example", "it may read why"
    private = file_desk.get("/v1/collections/menu/status", headers={"origin": "https://shop.example"})
    assert "access-control-allow-origin" not in private.headers


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "https://shop.example.evil.org", "http://shop.example"]
)
def test_pages_of_other_origins_may_not(file_desk, origin):
    file_desk.create(origins=["https://shop.example"])
    body = {"plan": PLAN.hash, "epoch": file_desk.epoch(), "reports": fresh(1)}
    preflight = file_desk.ask("OPTIONS", PATH, headers={"origin": origin})
    assert "access-control-allow-origin" not in preflight.headers
    answer = file_desk.post(PATH, json=body, headers={"origin": origin})
    assert reason(answer) == (403, "origin")
    assert "access-control-allow-origin" not in answer.headers
    assert file_desk.reports() == 0


PUBLIC = ("/v1/collections/menu", "/v1/collections/menu/plan")


@pytest.mark.parametrize("path", PUBLIC)
@pytest.mark.parametrize("name", ["menu", "nope", "a.b%00"])
def test_a_page_may_read_why_it_gets_no_plan(file_desk, path, name):
    """It reads the refusal and nothing else; without an origin, the plan of the collection is public."""
    file_desk.create(origins=["https://shop.example"])
    path = path.replace("menu", name)
    refused = file_desk.get(path, headers={"origin": "https://evil.example"})
    assert reason(refused) == ((403, "origin") if name == "menu" else (404, "unknown"))
    assert refused.headers["access-control-allow-origin"] == "*"
    assert refused.headers["vary"] == "origin"
    assert set(refused.headers) & {"access-control-allow-credentials", "set-cookie"} == set()
    assert "access-control-expose-headers" not in refused.headers
    assert set(refused.json()) == {"type", "title", "status", "detail", "reason", "retry"}
    assert PLAN.hash not in refused.text
    preflight = file_desk.ask("OPTIONS", path, headers={"origin": "https://evil.example"})
    assert "access-control-allow-origin" not in preflight.headers, "only requests that need no leave"
    assert file_desk.get(path).status_code == (200 if name == "menu" else 404)


@pytest.mark.parametrize("path", ["", "/menu/status", "/menu/tally", "/nope/status", "/menu/nothing"])
def test_a_page_may_not_read_what_is_private(file_desk, path):
    file_desk.create(origins=["https://shop.example"])
    for origin in ("https://evil.example", "https://shop.example"):
        answer = file_desk.get("/v1/collections" + path, headers={"origin": origin})
        assert "access-control-allow-origin" not in answer.headers


def test_every_origin_may_be_allowed(file_desk):
    file_desk.create(origins=["*"])
    body = {"plan": PLAN.hash, "epoch": file_desk.epoch(), "reports": fresh(1)}
    answer = file_desk.post(PATH, json=body, headers={"origin": "https://any.example"})
    assert answer.headers["access-control-allow-origin"] == "*"
    refused = file_desk.post(PATH, json={}, headers={"origin": "https://any.example"})
    assert refused.headers["access-control-allow-origin"] == "*", "a page may read why"


# -- nothing of it is kept -------------------------------------------------------------------------


def test_nothing_that_was_sent_is_logged(file_desk):
    file_desk.create()
    secret = "5ec4e7" * 5 + "ab"
    for body in (
        {"plan": PLAN.hash, "epoch": file_desk.epoch(), "reports": [{"id": secret, "cells": [0, 1]}]},
        {"plan": PLAN.hash, "epoch": file_desk.epoch(), "reports": [{"id": secret, "cells": [0, 77]}]},
        {"plan": secret * 2, "epoch": 1, "reports": [{"id": secret, "cells": [0, 77]}]},
        {"plan": PLAN.hash, "epoch": 5, "reports": [{"id": secret, "cells": [0, 1]}]},
        {secret: 1},
    ):
        answer = file_desk.post(
            PATH + "?" + secret,
            json=body,
            headers={"user-agent": secret, "x-forwarded-for": "203.0.113.9", "cookie": secret},
        )
        named = [failed["id"] for failed in answer.json().get("failed", [])]
        assert set(named) <= {secret}
    file_desk.service.writer.tick()
    assert secret not in file_desk.log.getvalue()
    assert "203.0.113.9" not in file_desk.log.getvalue()
    raw = b"".join(path.read_bytes() for path in file_desk.folder.glob("store.sqlite*"))
    assert b"203.0.113.9" not in raw
    assert secret.encode() not in raw


# -- sent again ------------------------------------------------------------------------------------


def test_who_sends_other_cells_under_an_id_is_answered_and_counted(desk):
    """The first report stands, the answer is the same, and the operator sees it."""
    desk.create()
    few, many = fresh(3), fresh(40)
    for number, report in enumerate(few + many):  # a slot each, so that none makes another forgotten
        report["id"] = number.to_bytes(8, "little").hex() + report["id"][16:]
    for reports in (few, many):
        assert desk.send(reports).json() == {"accepted": len(reports), "failed": []}
        assert desk.send(reports).json() == {"accepted": len(reports), "failed": []}
    assert desk.status()["changed"] == 0
    before = desk.get("/v1/collections/menu/tally").content
    for reports, number in ((few, 3), (many, 43)):
        others = [
            {**report, "cells": next(c for c in VALID if c != report["cells"])} for report in reports
        ]
        assert desk.send(others).json() == {"accepted": len(reports), "failed": []}
        assert desk.status()["changed"] == number
    assert desk.get("/v1/collections/menu/tally").content == before
    assert 'keyveil_changed_total{collection="menu"} 43' in desk.get("/metrics").text
    # in another epoch the same id is another report, and nothing was changed
    assert desk.send(others, epoch=desk.epoch() - 1).json()["accepted"] == 40
    assert (desk.status()["changed"], desk.reports()) == (43, 83)


VALID = [[int(own), int(own) + 1 + at] for own in PLAN.layout.own for at in range(2)]


@pytest.mark.parametrize("width", [1, 4, 11])
@pytest.mark.parametrize("size", [1, 5, 300])
def test_what_was_taken_lately_is_known_exactly(width, size):
    """As a dictionary that forgets an id when another takes its place; crafted ids change nothing."""
    coins, table, expected = random.Random(f"{width} {size}"), RecentReports(64), {}
    old = [coins.randbytes(16) for _ in range(20)]
    for _ in range(300 // size + 3):
        ids = []
        for _ in range(size):
            first, second = coins.choice(old), coins.choice(old)
            ids.append(coins.choice([first, first[:8] + second[8:], coins.randbytes(16), bytes(16)]))
        ids = list(dict.fromkeys(ids))
        old = (old + ids)[-60:]
        rows = [bytes([coins.randrange(2)]) * width for _ in ids]
        parcel = Parcel(1, coins.randrange(2), coins.randrange(2), ids, b"".join(rows))
        match = table.look(parcel, width)
        where = parcel.round, parcel.epoch
        same = [expected.get(name[0] & 63) for name in ids]
        again = [(at, entry) for at, entry in enumerate(same) if entry and entry[0] == (where, ids[at])]
        assert match.repeats == len(again)
        assert match.changed == sum(entry[1] != rows[at] for at, entry in again)
        table.note(parcel, match)
        for name, row, entry in zip(ids, rows, same, strict=True):
            if not entry or entry[0] != (where, name):
                expected[name[0] & 63] = (where, name), row


# -- a database that is away ------------------------------------------------------------------------


def test_without_its_database_a_collector_asks_for_patience(database, tmp_path):
    desk = Desk(database, tmp_path)
    desk.create()
    desk.send(fresh(3))
    desk.store._own.close()
    address, desk.store._address = desk.store._address, f"postgresql://nobody@/none?host={tmp_path}"
    paths = ("estimates", "status", "checks", "tally", "segments", "conditional")
    answers = [desk.send(fresh(1)), *(desk.get(f"/v1/collections/menu/{path}") for path in paths)]
    reasons = {(answer.status_code, answer.json().get("reason")) for answer in answers}
    assert reasons <= {(503, "storage"), (200, None)}  # what is known already may be answered
    assert answers[0].status_code == answers[2].status_code == 503
    assert all("retry-after" in answer.headers for answer in answers if answer.status_code == 503)
    assert "keyveil_acknowledged_total" in desk.get("/metrics").text
    desk.store._address = address
    assert desk.send(fresh(1)).status_code == 200
    assert desk.get("/v1/collections/menu/estimates").json()["reports"] == 4
    desk.close()
