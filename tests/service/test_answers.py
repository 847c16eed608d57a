"""Answers out: the library's own, from counts that are never recounted."""

from __future__ import annotations

import asyncio
import json
import threading
import time

import numpy as np
import pytest
from desk import PLAN, Desk, fresh, plan_of

from keyveil import REGISTRY, Schema, Tally, estimate
from keyveil.estimate.together.conditional import Conditionals
from keyveil.service.collector.engine import admin, answer_desk
from keyveil.service.collector.store.segments import read_part
from keyveil.trust.poison import reach

TALLY = "application/vnd.keyveil.tally"


def tally_of(desk, plan=PLAN):
    return Tally.parse(plan, desk.get("/v1/collections/menu/tally").content)


@pytest.fixture
def pairs(file_desk):
    plan = plan_of("pairs", 4)
    file_desk.create(plan=plan)
    file_desk.send(fresh(300, plan, {"k1": 2, "k2": 5}), plan=plan.hash)
    file_desk.plan = plan
    return file_desk


def test_estimates_are_the_library_s(desk):
    desk.create()
    desk.send(fresh(200))
    document = desk.get("/v1/collections/menu/estimates?level=0.9&after=clip").json()
    expected = estimate(PLAN, tally_of(desk), level=0.9, after=["clip"]).document()
    assert {key: document[key] for key in expected} == json.loads(json.dumps(expected))
    assert document["plan"] == PLAN.hash
    assert document["reports"] == 200


def test_queries_and_the_matrix_are_the_library_s(pairs):
    queries = ["frequency(k1 | k2)", "mean(k2 | k1, !k0)", "lift(k1 | k2)"]
    document = pairs.get("/v1/collections/menu/queries", params={"q": queries}).json()
    source = Conditionals(pairs.plan, tally_of(pairs, pairs.plan))
    assert document["answers"] == json.loads(json.dumps([a.document() for a in source.answers(queries)]))
    matrix = pairs.get("/v1/collections/menu/conditional?kind=frequency").json()
    assert matrix["keys"] == ["k0", "k1", "k2", "k3"]
    assert matrix["matrix"][0][0] is None
    assert matrix["matrix"][1][2] == document["answers"][0]


@pytest.mark.parametrize("name", list(REGISTRY))
def test_queries_of_one_key_have_the_answers_of_estimates(file_desk, name):
    keys = max(4, REGISTRY[name].fewest_keys)
    example = REGISTRY[name].example(Schema.of([f"k{key}" for key in range(keys)], 1, 5))
    plan = plan_of(name, keys, **example)
    file_desk.create(plan=plan)
    reports = fresh(60, plan, {"k1": 4}, "one key")
    assert file_desk.send(reports, plan=plan.hash).status_code == 200
    answers = file_desk.get("/v1/collections/menu/estimates").json()
    statistics = [part for part in ("frequency", "mean") if answers["keys"][1][part] is not None]
    for statistic in statistics:
        params = {"q": [f"{statistic}(k1)"]}
        (query,) = file_desk.get("/v1/collections/menu/queries", params=params).json()["answers"]
        assert {**query, **answers["keys"][1][statistic]} == query
        assert query["estimator"] == answers["estimator"]
        raw = answers["keys"][1].get("raw")
        assert query["raw"] == (None if raw is None else raw[statistic])


def test_keys_that_no_view_holds_together_get_a_range(pairs):
    params = {"q": "frequency(k1 | k2, !k0)"}
    (answer,) = pairs.get("/v1/collections/menu/queries", params=params).json()["answers"]
    assert (answer["how"], answer["value"], answer["stderr"]) == ("range", None, None)
    assert answer["low"] <= answer["guess"] <= answer["high"]


@pytest.mark.parametrize("path", ["conditional", "queries?q=frequency(k1 | k2)"])
def test_a_plan_for_single_keys_refuses_conditionals_in_one_line(desk, path):
    plan = plan_of("kvue", 4)
    desk.create(plan=plan)
    desk.send(fresh(20, plan, {"k1": 2}), plan=plan.hash)
    answer = desk.get(f"/v1/collections/menu/{path}")
    assert answer.status_code == 400
    detail = answer.json()["detail"]
    assert "does not ask about keys together" in detail
    assert "--mechanism auto --ask conditional" in detail
    assert desk.get("/v1/collections/menu/queries?q=frequency(k1)").status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "estimates?level=0",
        "estimates?level=1",
        "estimates?level=nan",
        "estimates?level=x",
        "estimates?estimator=magic",
        "estimates?after=magic",
        "queries",
        "queries?q=",
        "queries?q=frequency(",
        "queries?q=frequency(nothing)",
        "queries?q=frequency(k1)&estimator=magic",
        "queries?" + "&".join(["q=frequency(k1)"] * 101),
        "conditional?kind=best",
        "conditional?level=2",
        "estimates?round=x",
    ],
)
def test_what_cannot_be_answered_is_a_problem(pairs, path):
    answer = pairs.get(f"/v1/collections/menu/{path}")
    assert answer.status_code == 400, answer.text
    assert answer.json()["reason"] == "invalid"


def test_all_that_is_offered_can_be_asked(pairs):
    """A page reads from the status what it may ask for."""
    path = "/v1/collections/menu"
    offers = pairs.get(f"{path}/status").json()["offers"]
    assert offers["answers"] == list(pairs.plan.mechanism.answers)
    assert len(offers["estimators"]) > 1
    for name in offers["estimators"]:
        answer = pairs.get(f"{path}/estimates?estimator={name}")
        assert answer.json()["estimator"] == name
    assert pairs.get(f"{path}/estimates?estimator=printed").status_code == 400


def findings(desk, path="checks"):
    answer = desk.get(f"/v1/collections/menu/{path}")
    assert answer.status_code == 200, answer.text
    return answer.json(), {finding["check"]: finding["verdict"] for finding in answer.json()["findings"]}


def test_checks_tell_people_from_fakes(desk):
    desk.create()
    desk.send(fresh(300, stated="first day"))
    document, verdicts = findings(desk)
    assert not document["suspicious"]
    assert document["latest_epoch"] is None
    assert "change" not in verdicts
    desk.clock.advance(86_400)
    desk.send(fresh(300, stated="second day"))
    document, verdicts = findings(desk)
    assert not document["suspicious"]
    assert document["latest_epoch"] == desk.epoch()
    assert "change" in verdicts
    fakes = [{**report, "cells": [0, 2]} for report in fresh(200)]  # all of one view
    assert desk.send(fakes).json()["accepted"] == 200
    document, verdicts = findings(desk)
    assert document["suspicious"]
    assert verdicts["views"] == "suspicious"
    desk.clock.advance(3 * 86_400)
    desk.keep()
    sealed, again = findings(desk)
    assert (sealed["latest_epoch"], again) == (document["latest_epoch"], verdicts)
    assert desk.get("/v1/collections/menu/checks?false_alarm=2").status_code == 400


def test_how_far_fakes_may_have_moved_each_answer_is_the_library_s(desk):
    desk.create()
    desk.send(fresh(300, stated="fakes"))
    path = "/v1/collections/menu/fakes"
    document = desk.get(path + "?share=0.05").json()
    tally = Tally.parse(PLAN, desk.get("/v1/collections/menu/tally").content)
    exact = [row.document() for row in reach(PLAN, tally, 0.05)]
    held = [{**row, "frequency": [min(max(end, 0), 1) for end in row["frequency"]]} for row in exact]
    assert document["keys"] == held
    assert held != exact
    assert (document["share"], document["views"], document["reports"]) == (0.05, "drawn", 300)
    chosen = desk.get(path + "?share=0.05&views=chosen&key=Pepsi").json()
    (exact,) = [row.document() for row in reach(PLAN, tally, 0.05, ["Pepsi"], views="chosen")]
    assert chosen["keys"][0]["mean"] == exact["mean"]
    assert chosen["keys"][0]["frequency"] == [min(max(end, 0), 1) for end in exact["frequency"]]
    nothing = desk.get(path + "?share=0&key=Pepsi").json()["keys"][0]
    answer = desk.get("/v1/collections/menu/estimates?estimator=least_squares").json()["keys"][1]
    interval = [min(max(answer["frequency"][end], 0), 1) for end in ("low", "high")]
    assert nothing["frequency"] == pytest.approx(interval, abs=0.02), "without fakes chance is left"
    fakes = [{**report, "cells": [0, 2]} for report in fresh(200)]  # all of one view: they chose it
    desk.send(fakes)
    assert desk.get(path).json()["views"] == "chosen"


@pytest.mark.parametrize("mechanism", ["kvue", "pairs", "kvoh"])
def test_whatever_is_fake_honest_answers_lie_where_answers_can(file_desk, mechanism):
    plan = plan_of(mechanism)
    file_desk.create("some", plan)
    file_desk.send(fresh(100, plan, stated="some"), name="some", plan=plan.hash)
    for share in ("0.5", "0.999999", "0.9999999999999999"):
        for row in file_desk.get(f"/v1/collections/some/fakes?share={share}").json()["keys"]:
            for part, low, high in (("frequency", 0, 1), ("mean", 1, 5), ("mass", -1, 1)):
                ends = row[part] or [None]
                assert ends == [None, None] or ends == [None] or low <= ends[0] <= ends[1] <= high


def test_fakes_may_have_hidden_what_no_report_speaks_of(file_desk):
    """One key without reports is unknown; the others are answered all the same."""
    many = plan_of(keys=40)
    file_desk.create("many", many)
    assert file_desk.get("/v1/collections/many/fakes").status_code == 400, "no reports at all"
    file_desk.send(fresh(25, many, {"k1": 4}, "few"), name="many", plan=many.hash)
    tally = Tally.parse(many, file_desk.get("/v1/collections/many/tally").content)
    numbers = tally.counts[many.layout.own]
    rows = file_desk.get("/v1/collections/many/fakes").json()["keys"]
    assert [row["frequency"] == [None, None] for row in rows] == (numbers == 0).tolist()
    assert {row["mass"] for row in rows} == {None}
    silent = many.schema.keys[int((numbers == 0).argmax())]
    (alone,) = file_desk.get(f"/v1/collections/many/fakes?key={silent}").json()["keys"]
    assert alone == {"key": silent, "frequency": [None, None], "mean": [None, None], "mass": None}
    chain = plan_of("sized")
    file_desk.create("chain", chain)
    file_desk.send(fresh(5, chain), name="chain", plan=chain.hash)
    refused = file_desk.get("/v1/collections/chain/fakes")
    assert refused.status_code == 400
    assert "not offered" in refused.json()["detail"]


def test_a_collection_without_reports_has_no_health(file_desk):
    file_desk.create()
    assert file_desk.get("/v1/collections/menu/checks").status_code == 400


def test_the_tally_is_counted_as_reports_come(desk):
    desk.create()
    total = 0
    for number in (3, 40, 1):
        desk.send(fresh(number))
        total += number
        document = desk.get("/v1/collections/menu/tally", headers={"accept": "application/json"}).json()
        assert document["reports"] == total
        assert document["counts"] == tally_of(desk).counts.tolist()


def test_an_answer_is_remembered_until_something_changes(file_desk, monkeypatch):
    file_desk.create()
    file_desk.send(fresh(20))
    calls = []
    monkeypatch.setattr(answer_desk, "estimate", lambda *a: calls.append(a) or estimate(*a))
    first = file_desk.get("/v1/collections/menu/estimates").json()
    assert file_desk.get("/v1/collections/menu/estimates").json() == first
    assert len(calls) == 1
    file_desk.send(fresh(1))
    assert file_desk.get("/v1/collections/menu/estimates").json()["reports"] == 21
    assert len(calls) == 2


def test_too_many_questions_at_once_are_refused(file_desk):
    file_desk.create()
    answers, most = file_desk.service.answers, file_desk.service.settings.analyses
    for lane, path in ((answers.light, "estimates"), (answers.heavy, "conditional")):
        lane.asked = most
        answer = file_desk.get(f"/v1/collections/menu/{path}")
        assert (answer.status_code, answer.json()["reason"]) == (429, "busy")
        lane.asked = 0


def test_estimates_do_not_wait_behind_analyses(file_desk):
    """The lane of heavy work is held up; estimates and the tally are answered all the same."""
    file_desk.create()
    file_desk.send(fresh(20))
    answers, done = file_desk.service.answers, threading.Event()
    answers.heavy.pool.submit(done.wait, 60)

    async def work():
        tasks = [
            asyncio.ensure_future(file_desk.client.get(f"/v1/collections/menu/{path}"))
            for path in ("checks", "fakes", "estimates?estimator=shrunk")
        ]
        await asyncio.sleep(0.05)
        light = [
            (await file_desk.client.get(f"/v1/collections/menu/{path}")).status_code
            for path in ("estimates", "estimates?level=0.5", "tally")
        ]
        waiting = [task.done() for task in tasks]
        done.set()
        return light, waiting, [(await task).status_code for task in tasks]

    assert file_desk.run(work()) == ([200] * 3, [False] * 3, [200] * 3)


def test_work_of_many_parts_ends_when_nobody_waits(file_desk, monkeypatch):
    """The thread is free again soon after the asker was told to come back."""
    plan = plan_of("pairs", 30)
    file_desk.create("many", plan)
    file_desk.send(fresh(5, plan, {"k1": 4}), name="many", plan=plan.hash)
    answers, queries = file_desk.service.answers, []
    step = file_desk.service.settings.answer_seconds / 10
    answer = Conditionals.answer

    def slow(self, query):
        queries.append(query)
        file_desk.clock.advance(step)
        return answer(self, query)

    monkeypatch.setattr(Conditionals, "answer", slow)
    for path in ("conditional", "queries?" + "&".join(["q=frequency(k1|k2)"] * 100)):
        response = file_desk.get(f"/v1/collections/many/{path}")
        assert (response.status_code, response.json()["reason"]) == (503, "late")
        assert response.headers["retry-after"] == "10"
        answers.heavy.pool.submit(int).result(30)
        assert len(queries) in (10, 11)
        queries.clear()


@pytest.mark.parametrize("mechanism", ["kvue", "pairs", "collision"])
def test_a_query_of_too_many_keys_is_refused(file_desk, mechanism):
    plan = plan_of(mechanism, 201)
    file_desk.create("many", plan)
    file_desk.send(fresh(3, plan, {"k1": 4}), name="many", plan=plan.hash)
    for number in (6, 12, 25, 39, 60, 63, 64, 200):
        given = ", ".join(f"k{i}" for i in range(1, number + 1))
        begun = time.monotonic()
        for text in (f"frequency(k0 | {given})", f"lift(k0 | !{given})", f"mean(k0 | {given})"):
            params = {"q": ["mean(k1 | k2)", text]}
            answer = file_desk.get("/v1/collections/many/queries", params=params)
            assert (answer.status_code, answer.json()["reason"]) == (400, "invalid"), number
            assert "at most 6 keys" in answer.json()["detail"] or mechanism == "kvue", number
        assert time.monotonic() < begun + 30, number


def test_a_tally_made_elsewhere_is_brought_in_once(desk):
    desk.create(people=100)
    desk.send(fresh(5))
    other = Tally(PLAN)
    for _ in range(7):
        other.add(PLAN.report({"Fries": 2}))
    before = tally_of(desk)
    for added in (True, False):
        answer = desk.post(
            "/v1/collections/menu/tallies", content=other.dumps(), headers={"content-type": TALLY}
        )
        assert answer.json() == {"added": added, "reports": 7}
    assert tally_of(desk) == before + other
    named = desk.post(
        "/v1/collections/menu/tallies?id=site2", content=other.dumps(), headers={"content-type": TALLY}
    )
    assert named.json()["added"] is True
    assert desk.reports() == 19
    from keyveil.service.collector.operations.verify import verify

    (verdict,) = verify(desk.store, desk.folder / "segments")
    assert (verdict.findings, verdict.reports) == ([], 19)


def test_a_round_that_made_its_feedback_takes_no_tally(file_desk):
    plan = plan_of("privkvm", rounds=2)
    file_desk.create(plan=plan)
    file_desk.post("/v1/collections/menu/rounds?empty=true")
    late = Tally(plan).add(plan.report({}))
    answer = file_desk.post(
        "/v1/collections/menu/tallies?round=1", content=late.dumps(), headers={"content-type": TALLY}
    )
    assert (answer.status_code, answer.json()["reason"]) == (410, "closed_round")


def test_a_tally_that_does_not_belong_is_refused(file_desk):
    file_desk.create(people=3)
    foreign = plan_of(epsilon=2)
    many = Tally(PLAN)
    for _ in range(4):
        many.add(PLAN.report({}))
    impossible = Tally(PLAN)
    impossible.counts[0] = 5
    nameless = [
        Tally(foreign).dumps().replace(foreign.hash.encode(), name)
        for name in (b"not a hash".ljust(64), foreign.hash.upper().encode(), PLAN.hash.upper().encode())
    ]
    for body, status in (
        (Tally(foreign).dumps(), 400),
        (b"nothing", 400),
        (b"", 400),
        (many.dumps()[:-3], 400),
        (impossible.dumps(), 400),
        *((body, 400) for body in nameless),
        (many.dumps(), 410),
    ):
        answer = file_desk.post(
            "/v1/collections/menu/tallies", content=body, headers={"content-type": TALLY}
        )
        assert answer.status_code == status, answer.text
    answer = file_desk.post("/v1/collections/menu/tallies", content=b"x")
    assert answer.status_code == 415
    assert file_desk.reports() == 0


def test_segments_are_exported_and_add_up(file_desk):
    file_desk.create()
    file_desk.send(fresh(25))
    file_desk.clock.advance(3 * 86_400)
    file_desk.keep()
    (manifest,) = file_desk.get("/v1/collections/menu/segments").json()["segments"]
    assert manifest["reports"] == 25
    assert manifest["plan"] == PLAN.hash
    (file,) = manifest["files"]
    path = f"/v1/collections/menu/segments/1/{manifest['epoch']}/{file['name']}"
    content = file_desk.get(path).content
    saved = file_desk.folder / "copy.parquet"
    saved.write_bytes(content)
    (reports,) = read_part(saved, PLAN.packing)
    assert Tally(PLAN).add(reports) == tally_of(file_desk)
    assert (np.diff(reports.codes.astype(int)) >= 0).all(), "no order of arrival"
    for wrong in (
        "/1/1/part-0001.parquet",
        f"/2/{manifest['epoch']}/{file['name']}",
        f"/1/{manifest['epoch']}/manifest.json",
        f"/1/{manifest['epoch']}/..%2F..%2F..%2Fstore.sqlite",
        f"/1/{manifest['epoch']}/x",
    ):
        assert file_desk.get("/v1/collections/menu/segments" + wrong).status_code == 404


# -- live ------------------------------------------------------------------------------------------


async def _events(desk, path, number, token=None):
    """The first events of a stream, straight from the application; it must end by itself then."""
    events, done = [], asyncio.Event()

    async def send(message):
        if message["type"] == "http.response.body" and message["body"]:
            events.append(message["body"].decode())
            if len(events) >= number:
                done.set()

    async def receive():
        await done.wait()
        return {"type": "http.disconnect"}

    route, _, query = path.partition("?")
    scope = {
        "type": "http",
        "method": "GET",
        "path": route,
        "raw_path": route.encode(),
        "query_string": query.encode(),
        "headers": [(b"host", b"127.0.0.1"), (b"authorization", f"Bearer {token}".encode())],
        "http_version": "1.1",
        "scheme": "http",
    }
    task = asyncio.ensure_future(desk.app(scope, receive, send))
    await asyncio.wait_for(done.wait(), 20)
    await asyncio.wait_for(task, 20)
    return events


def test_live_answers_follow_what_comes(desk):
    desk.create()
    desk.send(fresh(5))

    async def both():
        watching = asyncio.ensure_future(_events(desk, "/v1/collections/menu/live?estimates=true", 4))
        await asyncio.sleep(0.3)
        body = {"plan": PLAN.hash, "epoch": desk.epoch(), "reports": fresh(3)}
        await desk.client.post("/v1/collections/menu/reports", json=body)
        return await watching

    events = desk.run(both())
    kinds = [event.split("\n")[0] for event in events]
    assert kinds == ["event: tally", "event: estimates"] * 2
    data = [json.loads(event.split("data: ")[1]) for event in events]
    assert [event["reports"] for event in data] == [5, 5, 8, 8]
    assert desk.service.streams == 0


def test_a_stream_is_never_more_than_a_second_behind(database, tmp_path):
    """Also where another process has counted: two looks, one after the other."""
    from keyveil.service.collector.http.live import EVERY
    from keyveil.service.collector.process.settings import Settings

    assert EVERY + Settings().tick_seconds < 1
    first, second = Desk(database, tmp_path), Desk(database, tmp_path)
    first.create()
    second.service.writer.tick()
    came = []

    async def watched():
        loop = asyncio.get_running_loop()

        async def send(message):
            if b"event: tally" in message.get("body", b""):
                came.append((loop.time(), json.loads(message["body"].split(b"data: ")[1])["reports"]))

        async def receive():
            await asyncio.sleep(60)

        scope = {"type": "http", "method": "GET", "path": "/v1/collections/menu/live", "raw_path": b"",
                 "query_string": b"", "headers": [(b"host", b"127.0.0.1")], "http_version": "1.1",
                 "scheme": "http"}  # fmt: skip
        watching = asyncio.ensure_future(first.app(scope, receive, send))
        times = []
        for _ in range(3):
            await asyncio.to_thread(second.send, fresh(1))
            times.append(loop.time())
            for _ in range(2):
                await asyncio.sleep(0.5)
                first.service.writer.tick()
            await asyncio.sleep(0.1)
        first.service.draining.set()
        await watching
        return [min(at for at, reports in came if reports >= n + 1) - times[n] for n in range(3)]

    assert max(first.run(watched())) < 1.0 + 1.0, "the machine's own delays beside"
    first.close()
    second.close()


def test_a_stream_ends_when_its_token_is_revoked(file_desk):
    file_desk.create()
    admin.add_token(file_desk.store, "admin")
    token = admin.add_token(file_desk.store, "analyst", "menu")

    async def both():
        watching = asyncio.ensure_future(_events(file_desk, "/v1/collections/menu/live", 2, token))
        await asyncio.sleep(0.3)
        admin.revoke_token(file_desk.store, token.split("_")[1])
        return await watching

    first, last = file_desk.run(both())
    assert first.startswith("event: tally")
    assert last.startswith("event: refused")
    assert '"reason":"token"' in last
    assert file_desk.service.streams == 0


def test_streams_end_when_the_process_ends_and_are_bounded(file_desk):
    file_desk.create()
    file_desk.service.streams = file_desk.service.settings.streams
    assert file_desk.get("/v1/collections/menu/live").status_code == 429
    file_desk.service.streams = 0

    async def ended():
        watching = asyncio.ensure_future(file_desk.client.get("/v1/collections/menu/live"))
        await asyncio.sleep(0.2)
        file_desk.service.draining.set()
        return await asyncio.wait_for(watching, 5)

    assert "event: tally" in file_desk.run(ended()).text
    head = file_desk.ask("HEAD", "/v1/collections/menu/live")
    assert head.headers["content-type"].startswith("text/event-stream"), "and no stream for a head"


def test_another_process_s_reports_are_seen_within_a_tick(database, tmp_path):
    first, second = Desk(database, tmp_path), Desk(database, tmp_path)
    assert first.store.shard != second.store.shard
    first.create()
    second.service.writer.tick()
    assert second.send(fresh(4)).status_code == 200
    assert first.send(fresh(5)).status_code == 200
    assert first.get("/v1/collections/menu/estimates").json()["reports"] == 9
    for number in (6, 1):
        reports = fresh(number)
        second.send(reports)
        first.send(reports)
    first.service.writer.tick()
    tally = first.get("/v1/collections/menu/tally", headers={"accept": "application/json"}).json()
    assert tally["reports"] == 16
    assert tally["counts"] == first.store.counts_stored(first.store.control.named("menu").round).tolist()
    first.clock.advance(3 * 86_400)
    first.keep()
    second.send(fresh(2), epoch=first.epoch())
    second.clock.advance(3 * 86_400)
    assert second.send(fresh(2)).status_code == 200
    for desk in (first, second):
        desk.service.writer.tick()
        assert desk.get("/v1/collections/menu/estimates").json()["reports"] == 18
    from keyveil.service.collector.operations.verify import verify

    (verdict,) = verify(first.store, tmp_path / "segments")
    assert (verdict.findings, verdict.reports) == ([], 18)
    first.close()
    second.close()


@pytest.mark.parametrize("listed", ["kvue/sign@0.2/size@0.1", "pairs/sign@0.3"])
def test_a_collection_of_parts_is_counted_and_answered(desk, listed):
    plan = plan_of("parts", parts=listed)
    desk.create(plan=plan)
    desk.send(fresh(200, plan, {"Fries": 2, "Salad": 5}), plan=plan.hash)
    tally = tally_of(desk, plan)
    assert tally.reports == 200
    document = desk.get("/v1/collections/menu/estimates").json()
    expected = estimate(plan, tally).document()
    assert {key: document[key] for key in expected} == json.loads(json.dumps(expected))
    answer = desk.get("/v1/collections/menu/queries", params={"q": "frequency(Fries | Salad)"})
    assert answer.status_code == (200 if "pairs" in listed else 400)
