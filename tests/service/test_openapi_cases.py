"""Schemathesis over the OpenAPI document: what it describes and what it forbids, on every route. No
answer but those described, no error of the server's own."""

from __future__ import annotations

import asyncio

import pytest
import requests
import schemathesis
from desk import Desk, fresh
from faults import LONG
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS

from keyveil.service.collector.http.openapi import document

CASES = 5000 if LONG else 500
schemathesis.openapi.media_type("application/vnd.keyveil.tally", st.binary(max_size=400))
schemathesis.openapi.media_type("application/vnd.keyveil.batch", st.binary(max_size=400))
OPERATIONS = {
    operation.ok().label: operation.ok()
    for operation in schemathesis.openapi.from_dict(document()).get_all_operations()
}
CHECKED = CHECKS.get_by_names(
    [
        "status_code_conformance",
        "content_type_conformance",
        "response_headers_conformance",
        "response_schema_conformance",
    ]
)
TEXT = {"type": "string"}
ANY_NAME = "DELETE /v1/tokens/{token}"
"""An operation with a name alone, of which nothing is forbidden."""
_NAMED = {"name": "menu", "other": "menu", "round": 1, "epoch": 18_000_000, "file": "part-0001.parquet"}


def ready(desk: Desk) -> None:
    """A collection with reports, sealed and open, whatever the case before has done to it."""
    collection = desk.store.control.collections.get("menu")
    if collection is not None and collection.state == "open" and not collection.terms.token:
        return
    if collection is not None:
        desk.post("/v1/collections/menu/state", json={"state": "closed"})
        desk.ask("DELETE", "/v1/collections/menu")
    desk.create(epoch=100, grace=100)
    desk.send(fresh(5), epoch=int(desk.clock.now()) // 100)


def answer_to(desk: Desk, case: schemathesis.Case):
    draft = requests.Request(**case.as_transport_kwargs(base_url="http://127.0.0.1")).prepare()
    body = draft.body.encode() if isinstance(draft.body, str) else draft.body
    headers = {key: value for key, value in draft.headers.items() if key.lower() != "content-length"}
    request = desk.client.build_request(draft.method, draft.url, headers=headers, content=body or b"")

    async def send():
        if draft.url.partition("?")[0].endswith("/live"):
            desk.service.draining.set()  # or the stream would not end
        try:
            return await asyncio.wait_for(desk.client.send(request), 60)
        finally:
            desk.service.draining.clear()

    return desk.run(send())


@pytest.fixture
def desk(tmp_path):
    desk = Desk(str(tmp_path / "store.sqlite"), tmp_path)
    yield desk
    desk.close()


def cases_of(operation, mode):
    named = {key: value for key, value in _NAMED.items() if f"{{{key}}}" in operation.path}
    cases = operation.as_strategy(generation_mode=mode)
    if named:  # most chance names lead nowhere: two in three cases name what is there
        there = operation.as_strategy(generation_mode=mode, path_parameters=named)
        cases = st.one_of(cases, there, there)
    return cases


def forbids(label: str) -> bool:
    """Whether a request can break the description of an operation; a name may be any text."""
    operation = OPERATIONS[label]
    names = [parameter.definition["schema"] for parameter in operation.path_parameters]
    return bool([*operation.query, *operation.body]) or any(name != TEXT for name in names)


def try_cases(desk: Desk, label: str, mode: GenerationMode, number: int) -> int:
    """Ask so many cases of an operation; how many there were, none if there is nothing to forbid.

    Hypothesis draws hundreds of cases before it says so: outside long runs that is asked of one alone.
    """
    count = 0
    if mode is GenerationMode.NEGATIVE and not forbids(label) and not LONG and label != ANY_NAME:
        return 0

    @given(case=cases_of(OPERATIONS[label], mode))
    @settings(
        max_examples=number,
        deadline=None,
        derandomize=not LONG,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def run(case):
        nonlocal count
        ready(desk)
        answer = answer_to(desk, case)
        count += 1
        if answer.status_code >= 500:
            assert answer.status_code == 503
            assert answer.json()["reason"] in ("paused", "not_open", "clock")
        case.validate_response(answer, checks=CHECKED)

    try:
        run()
    except Unsatisfiable:
        assert mode is GenerationMode.NEGATIVE, label
        assert not forbids(label), label
    return count


def test_every_answer_is_one_that_is_described(desk):
    each = CASES // (2 * len(OPERATIONS))
    counts = dict.fromkeys(OPERATIONS, 0)
    for label in OPERATIONS:
        for mode in GenerationMode:
            counts[label] += try_cases(desk, label, mode, each)
    reports = "POST /v1/collections/{name}/reports"
    counts[reports] += try_cases(
        desk, reports, GenerationMode.NEGATIVE, max(1, CASES - sum(counts.values()))
    )
    assert sum(counts.values()) >= CASES
    assert min(counts.values()) > 0
    assert "request_failed" not in desk.log.getvalue()
    assert not desk.service.writer.broken


# -- what was found ---------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["5e-324", "1e-17", "0.9999999999999999", "0", "1", "nan"])
@pytest.mark.parametrize("route", ["estimates", "queries?q=mean(Pepsi)", "conditional"])
def test_a_level_next_to_none_or_all_is_refused(desk, route, level):
    """Its quantile would be zero or without end."""
    ready(desk)
    mark = "&" if "?" in route else "?"
    answer = desk.get(f"/v1/collections/menu/{route}{mark}level={level}")
    assert 400 <= answer.status_code < 500
    assert "level" in answer.text
