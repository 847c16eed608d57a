"""One document for every route, and metrics that Prometheus can read."""

from __future__ import annotations

import re

from desk import fresh
from starlette.routing import Route

from keyveil.service.collector.http.openapi import REPORTS, document
from keyveil.service.collector.process.problems import REASONS


def test_every_route_is_in_the_document(file_desk):
    served = set()
    for route in file_desk.app.routes:
        assert isinstance(route, Route)
        path = re.sub(r":\w+", "", route.path)
        for method in route.methods or {"POST"}:
            if method not in ("HEAD", "OPTIONS"):
                served.add((path, method.lower()))
    described = {(path, method) for path, about in document()["paths"].items() for method in about}
    pages = {"/", "/api", "/dashboard/{file}", "/openapi.json"}
    assert served - described == {(path, "get") for path in pages}
    assert described <= served


def test_references_lead_somewhere():
    description = document()
    names = set(re.findall(r"#/components/schemas/(\w+)", str(description)))
    assert names <= set(description["components"]["schemas"])


def test_every_reason_has_its_status_and_every_report_s_refusal_is_described():
    assert all(400 <= kind.status < 600 and kind.title for kind in REASONS.values())
    answers = document()["paths"]["/v1/collections/{name}/reports"]["post"]["responses"]
    for reason in REPORTS:
        assert reason in answers[str(REASONS[reason].status)]["description"]


def test_the_page_loads_nothing_from_elsewhere(file_desk):
    answer = file_desk.get("/api")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert not re.findall(r"(?:src|href)=[\"']?https?:", answer.text)
    assert "/v1/collections/{name}/reports" in answer.text


def test_metrics(desk):
    desk.create()
    desk.send(fresh(5))
    bad = fresh(1)
    bad[0]["cells"] = [0, 0]
    desk.send(bad)
    text = desk.get("/metrics").text
    assert 'keyveil_acknowledged_total{collection="menu"} 5' in text
    assert 'keyveil_refused_total{collection="menu",reason="impossible"} 1' in text
    assert 'keyveil_reports{collection="menu",round="1"} 5' in text
    assert "keyveil_healthy 1" in text
    assert 'keyveil_group_reports_bucket{le="16"} 1' in text
    for line in text.splitlines():
        form = r"# (HELP|TYPE) (keyveil|process)_.*|(keyveil|process)_\w+(\{.*\})? [-+\w.]+"
        assert re.fullmatch(form, line), line


def test_what_is_not_there_is_a_problem_too(file_desk):
    for method, path, status in (
        ("GET", "/nothing", 404),
        ("DELETE", "/health", 405),
        ("PUT", "/v1/collections", 405),
    ):
        answer = file_desk.ask(method, path)
        assert answer.status_code == status
        assert answer.headers["content-type"] == "application/problem+json"
