"""What the client loads on demand: modules for shapes, by the plan alone, and those for troubles."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from example_site import CLIENT, Site
from notice_page import FAILED, asked, can_accept, shows, with_notice
from playwright.sync_api import Page, Route, expect

from keyveil import Plan, Schema

SCHEMA = Schema.of(["Fries", "Pepsi", "Salad", "Soup", "Tea", "Water"], 1, 5)
MODULES = {
    "kvue": [],
    "pckv_grr": [],
    "ioh": ["rows.js"],
    "split": ["rows.js"],
    "meanest": ["rows.js"],
    "coco": ["pools.js"],
    "shist": ["pools.js"],
    "size": ["subset.js"],
}
"""Mechanisms, and the modules that their plans need."""
PLANS = {name: Plan.of(SCHEMA, name, 1) for name in MODULES}
TEA = {"Tea": Plan.of(Schema.of(["Fries", "Tea"], 1, 5), "kvue", 1)}
PEPSI = {"Pepsi": Plan.of(Schema.of(["Fries", "Pepsi"], 1, 5), "kvue", 1)}
RECORDS: list[Any] = [{}, {"Fries": 5, "Pepsi": 1, "Salad": 3}, {"nothing": "x"}, None]
FOR_SHAPES = ["rows.js", "pools.js", "subset.js"]
FOR_TROUBLES = ["messages.js", "troubles.js", "check.js"]
NOT_LOADED = ["unreachable", "ClientError", "a module of keyveil cannot be loaded now; nothing was sent"]
ANSWER = """(name) => client.answer(name, () => { window.read = true; return {} }).then(
  ({ state }) => state, ({ code, name, message }) => [code, name, message])"""
NOW = "async () => [await client.answers(), (await client.budget()).spent, world.sent, window.read]"
FAILURES = {
    "no connection": lambda route: route.abort(),
    "not found": lambda route: route.fulfill(status=404),
    "another page": lambda route: route.fulfill(body="<p>Welcome", content_type="text/html"),
}


@pytest.fixture
def page(blank_page: Page) -> Page:
    """A page whose client may be asked about plans by the names of their mechanisms."""
    return with_notice(blank_page, PLANS)


def requested(page: Page) -> list[str]:
    """The names of the files that the page asks for from now on."""
    names: list[str] = []
    page.on("request", lambda request: names.append(Path(request.url).name))
    return names


def blocked(watch: Any, page: Page, modules: list[str], failure: str = "no connection") -> None:
    """Let the page not get some modules."""
    watch.allow("ERR_FAILED|status of 404|MIME type")
    for module in modules:
        page.route(f"**/{module}", FAILURES[failure])


def served(script: str) -> Callable[[Route], None]:
    """What answers with a script instead of a file of the site."""
    return lambda route: route.fulfill(body=script, content_type="text/javascript")


@pytest.mark.parametrize("name", MODULES)
def test_what_is_loaded_depends_on_the_plan_alone(page, name):
    """It is loaded before the record is read; then nothing is loaded, whatever the record holds."""
    files = requested(page)
    for record in RECORDS:
        page.reload()
        with_notice(page, PLANS)
        files.clear()
        page.evaluate("async (name) => { window.offer = await client.offer(name) }", name)
        assert files == MODULES[name]
        state = page.evaluate(
            """async (record) => {
              const { possibleReports } = await import("/src/consent.js");
              possibleReports(offer.plan, record, 100);
              return (await client.accept(offer, record)).state;
            }""",
            record,
        )
        assert state == "counted"
        assert files == MODULES[name]


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("name", ["ioh", "coco", "size"])
def test_a_module_that_cannot_be_loaded_is_no_connection(watch, page, name, failure):
    """Nothing is read, kept or sent; the next try answers once."""
    blocked(watch, page, FOR_SHAPES, failure)
    for _ in range(2):
        assert page.evaluate(ANSWER, name) == NOT_LOADED
    assert page.evaluate(NOW) == [[], "0", [], None]
    page.unroute_all()
    assert page.evaluate(ANSWER, name) == "counted"
    assert page.evaluate(ANSWER, name) == "counted"
    answers, spent, paths, read = page.evaluate(NOW)
    assert (len(answers), spent, paths, read) == (1, answers[0]["epsilon"], [name], True)


@pytest.mark.parametrize(
    "other",
    ['export const kinds = () => ({ release: "0.0.9", shapes: {}, encodings: {} });', "export {};"],
    ids=["another release", "another module"],
)
def test_a_module_of_another_release_is_refused(page, other):
    """A server was brought up to date while the page was open: nothing is read, kept or sent until the
    page is loaded again. An error has its code, whatever its messages are."""
    for module in (*FOR_SHAPES, *FOR_TROUBLES):
        page.route(f"**/{module}", served(other))
    for _ in range(2):
        assert page.evaluate(ANSWER, "coco") == NOT_LOADED
    assert page.evaluate(NOW) == [[], "0", [], None]
    page.evaluate("() => { world.about = { state: 'closed' } }")
    closed = ["closed", "ClientError", "refused: closed; nothing was sent"]
    assert page.evaluate(ANSWER, "kvue") == closed
    page.evaluate("() => Object.assign(notice, { client, collection: 'kvue', record: {} })")
    shows(page, FAILED)
    page.unroute_all()
    page.reload()
    with_notice(page, PLANS)
    assert page.evaluate(ANSWER, "coco") == "counted"


def test_a_loader_that_throws_at_once(blank_page):
    """Bundlers replace ``import()`` by loaders of their own, and those of some throw under a strict
    policy where ``import()`` would reject."""
    thrown = "(() => { throw new TypeError('no script may be added') })("
    for name in ("demand.js", "errors.js", "texts.js"):
        body = (CLIENT / "src" / name).read_text()
        assert "import(" in body
        blank_page.route(f"**/{name}", served(body.replace("import(", thrown)))
    page = with_notice(blank_page, PLANS)
    assert page.evaluate(ANSWER, "coco") == NOT_LOADED
    page.evaluate("() => { world.about = { state: 'closed' } }")
    page.evaluate("() => Object.assign(notice, { client, collection: 'kvue', record: {} })")
    shows(page, FAILED)
    assert page.evaluate("() => events") == [["error", "closed"]]
    assert page.evaluate(NOW) == [[], "0", [], None]


def with_policy(watch: Any, site: Site, monkeypatch: Any, policy: str, integrity: Any = None) -> Page:
    """A page whose policy knows its inline module by a nonce, and pins modules by an import map."""
    header = f"default-src 'none'; script-src {policy}; require-trusted-types-for 'script'"
    monkeypatch.setattr(Site, "policy", header)
    pins = json.dumps({"integrity": integrity or {}})
    monkeypatch.setitem(
        site.pages,
        "/policy",
        f"""<!doctype html><html lang=en><title>policy</title>
        <script type=importmap nonce=n>{pins}</script>
        <script type=module nonce=n>
          import {{ readPlan }} from "/src/index.js";
          window.proven = (plan) => readPlan(plan).then(({{ proven }}) => proven, ({{ code }}) => code);
        </script>""",
    )
    page = watch.context().new_page()
    page.goto(f"{site.url}/policy")
    page.wait_for_function("() => Boolean(window.proven)")
    return page


def proven(page: Page, name: str) -> str:
    """The epsilon that the page proves for a plan, or the code of its error."""
    return page.evaluate("(plan) => proven(plan)", json.loads(PLANS[name].dumps()))


@pytest.mark.parametrize("policy", ["'nonce-n'", "'nonce-n' 'strict-dynamic'", "'nonce-n' 'self'"])
def test_a_strict_policy_needs_nothing_for_modules_on_demand(watch, offline_site, monkeypatch, policy):
    page = with_policy(watch, offline_site, monkeypatch, policy)
    for name, plan in PLANS.items():
        assert proven(page, name) == plan.document()["epsilon"]["proven"]


def test_a_page_can_pin_modules_on_demand(watch, offline_site, monkeypatch):
    """By the hashes in its import map: what was changed since is not run."""
    hashes = {
        f"/src/{file.name}": "sha384-"
        + base64.b64encode(hashlib.sha384(file.read_bytes()).digest()).decode()
        for file in (CLIENT / "src").glob("*.js")
    }
    pinned = with_policy(watch, offline_site, monkeypatch, "'nonce-n'", hashes)
    for name in ("coco", "kvue"):
        assert proven(pinned, name) == PLANS[name].document()["epsilon"]["proven"]
    watch.allow("integrity")
    hashes["/src/pools.js"] = hashes["/src/rows.js"]
    changed = with_policy(watch, offline_site, monkeypatch, "'nonce-n'", hashes)
    assert proven(changed, "coco") == "unreachable"
    assert proven(changed, "ioh") == PLANS["ioh"].document()["epsilon"]["proven"]


def test_the_notice_tries_again_to_load_a_module(watch, page):
    blocked(watch, page, FOR_SHAPES)
    page.evaluate("() => Object.assign(notice, { client, collection: 'coco', record: { Pepsi: 4 } })")
    shows(page, "Nothing was sent: there is no connection now.")
    page.unroute_all()
    page.get_by_role("button", name="Try again").click()
    can_accept(page)
    page.get_by_role("button", name="Send one message").click()
    shows(page, "Sent and counted. Thank you.")
    assert page.evaluate("() => [world.sent, events]") == [
        ["coco"],
        [["error", "unreachable"], ["answer", "counted"]],
    ]


def test_a_stored_report_needs_no_module(watch, page):
    """It was drawn on an earlier visit; now only the collector can be reached."""
    make_client = "() => { window.client = device({ storage: undefined }) }"  # in IndexedDB
    page.evaluate(make_client)
    waits = """async () => {
      const offer = await client.offer("coco");
      world.down = true;
      return (await client.accept(offer, { Pepsi: 4 })).state;
    }"""
    assert page.evaluate(waits) == "waiting"
    page.reload()
    blocked(watch, page, FOR_SHAPES)
    with_notice(page, PLANS)
    files = requested(page)
    page.evaluate(make_client)
    page.wait_for_function(
        "async () => (await client.answers()).map(({ state }) => state).join() === 'counted'"
    )
    assert page.evaluate("() => world.sent") == ["coco"]
    assert files == []


def test_a_plan_with_a_false_hash_loads_nothing(page):
    files = requested(page)
    plan = json.loads(PLANS["coco"].dumps())
    refused = """async (plan) => {
      const { readPlan } = await import("/src/index.js");
      return readPlan(plan).catch(({ message }) => message);
    }"""
    assert "hash" in page.evaluate(refused, {**plan, "hash": "0" * 64})
    assert files == []
    assert page.evaluate(refused, plan)["hash"] == plan["hash"]
    assert files == ["pools.js"]


@pytest.mark.parametrize("offline", [False, True])
def test_what_is_for_troubles_is_loaded_when_something_is_wrong(watch, blank_page, offline):
    """A page whose visitor answers never loads it. If it cannot be loaded, errors have their code."""
    page = with_notice(blank_page, PEPSI | TEA)
    files = requested(page)
    if offline:
        blocked(watch, page, FOR_TROUBLES)
    asked(page)
    page.get_by_role("button", name="Send one message").click()
    shows(page, "Sent and counted. Thank you.")
    page.evaluate("() => { world.down = true; notice.collection = 'Tea' }")
    shows(page, "Nothing was sent: there is no connection now.")
    assert files == []
    page.evaluate("() => { world.down = false; world.about = { state: 'closed' } }")
    call = (
        "async () => { try { await client.plan('Tea', PIN) } catch (e) { return [e.code, e.message] } }"
    )
    pinned = call.replace("PIN", f"'{'0' * 64}'")
    expected = (
        "refused: plan; nothing was sent" if offline else "the collection's plan is not the expected one"
    )
    assert page.evaluate(pinned) == ["plan", expected]
    page.get_by_role("button", name="Try again").click()
    shows(page, FAILED if offline else "Nothing was sent: this question is closed.")
    assert page.evaluate("() => events.at(-1)") == ["error", "closed"]
    page.evaluate("() => { world.about = { state: 'paused' }; notice.strings = { paused: 'Später.' } }")
    page.evaluate("() => { notice.client = device() }")
    shows(page, "Später.")
    expect(page.get_by_role("button", name="Try again")).to_have_count(1)
    assert set(files) == {"messages.js", "troubles.js"}
    if not offline:
        lines = page.evaluate("async () => client.check(await client.plan('Tea'), { tea: 4 })")
        assert lines == ["key 'tea' is not in the plan; did you mean 'Tea'?"]
        assert set(files) == set(FOR_TROUBLES)
