"""The example page in Chromium: people fill it in, agree, and their reports arrive, come what may."""

from __future__ import annotations

import json
import random
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
from example_site import CLIENT, DEFAULT, ROOT, Site, serving
from playwright.sync_api import Page, expect
from process import KEYVEIL

from keyveil import Plan, Schema, Tally
from keyveil.people.example_orders import DISHES
from keyveil.plan.report import Report

DOCS = ROOT / "docs"
FOODS = list(DISHES)
PLAN = Plan.of(Schema.of(FOODS, 1, 5), "kvue", 1)

LEDGER = """() => new Promise((resolve, reject) => {
  const opening = indexedDB.open("keyveil", 1);
  opening.onupgradeneeded = () => opening.result.createObjectStore("ledger");
  opening.onerror = () => reject(opening.error);
  opening.onsuccess = () => {
    const reading = opening.result.transaction("ledger").objectStore("ledger").get("ledger");
    reading.onsuccess = () => { opening.result.close(); resolve(reading.result ?? null); };
  };
})"""


@pytest.fixture
def site(running_collector, request) -> Iterator[Site]:
    """The page, with a collection and a plan of its own for each test."""
    name = request.node.originalname.replace("_", "-")[:60].strip("-")
    with serving(running_collector.url) as site:
        site.collection = name
        keys = [*FOODS, f"made for {name}"[:200]]
        site.plan = Plan.of(Schema.of(keys, 1, 5), "kvue", 1)
        running_collector.create(name, site.plan)
        yield site


def filled_in(page: Page, site: Site, orders: dict[str, float]) -> None:
    """Open the page, tick foods, rate them and go on to the notice."""
    page.goto(site.url)
    ordered(page, orders)
    expect(page.get_by_role("button", name="Send one message")).to_be_visible()


def ordered(page: Page, orders: dict[str, float]) -> None:
    """Tick foods, rate them and ask for the notice."""
    for food, rating in orders.items():
        page.locator(f'input[name="{food}"]').check()
        page.locator(f'input[name="rating of {food}"]').fill(str(rating))
    page.get_by_role("button", name="Next").click()


def agreed(page: Page) -> None:
    """Agree, and wait until the report is counted."""
    page.get_by_role("button", name="Send one message").click()
    expect(page.get_by_role("status")).to_have_text("Sent and counted. Thank you.")


def until(page: Page, done: Callable[[], object]) -> None:
    """Let the page go on until something is so."""
    for _ in range(1200):
        if done():
            return
        page.wait_for_timeout(50)
    raise AssertionError("it did not happen within a minute")


def state_of(page: Page, site: Site) -> str:
    """The state of the only answer in the ledger; empty without one."""
    ledger = ledgers(page, site)
    return ledger["answers"][0]["state"] if ledger else ""


def posts(page: Page) -> list[dict]:
    """The reports that a page sends from now on; grows as they are sent."""
    bodies: list[dict] = []

    def note(request) -> None:
        if request.method == "POST":
            bodies.append(json.loads(request.post_data))

    page.on("request", note)
    return bodies


def ledgers(page: Page, site: Site) -> dict | None:
    """The ledger that the browser keeps for the page's origin."""
    return page.evaluate(LEDGER)


def test_visitors_fill_in_the_page_and_the_tally_is_theirs(watch, site, running_collector, scale):
    """20 visitors (200 in a long run), each in a context of their own.

    Ten of them are on the page at once, so that one waits while others load, read or are answered.
    What the collector counted is, cell by cell, what the browsers have in their ledgers.
    """
    chance = random.Random("visitors")
    visitors, together = 200 if scale > 1 else 20, 10
    tally = Tally(site.plan)
    ids = set()
    for _ in range(visitors // together):
        pages = [watch.context().new_page() for _ in range(together)]
        for page in pages:
            page.goto(site.url, wait_until="commit")
        for page in pages:
            ordered(page, {food: chance.choice((1, 2.5, 5)) for food in FOODS if chance.random() < 0.5})
        for page in pages:
            page.get_by_role("button", name="Send one message").click()
        for page in pages:
            expect(page.get_by_role("status")).to_have_text("Sent and counted. Thank you.")
            answer = only_answer(page, site)
            tally = tally.add(Report(site.plan.hash, tuple(answer["cells"]), answer["id"]))
            ids.add(answer["id"])
            page.context.close()
    assert len(ids) == visitors
    assert running_collector.reports(site.collection) == visitors
    raw = running_collector.admin.get(f"/v1/collections/{site.collection}/tally").content
    assert np.array_equal(Tally.parse(site.plan, raw).counts, tally.counts)


def only_answer(page: Page, site: Site) -> dict[str, Any]:
    """The one answer of a device that is done; its ledger names no key."""
    ledger = ledgers(page, site)
    (answer,) = ledger["answers"]
    assert (answer["state"], answer["tries"]) == ("counted", 1)
    assert answer["epsilon"] == site.plan.document()["epsilon"]["proven"]
    assert not any(food in json.dumps(ledger) for food in FOODS)
    return answer


def test_nothing_is_drawn_or_sent_before_consent(watched_page, site, running_collector):
    page, bodies = watched_page, posts(watched_page)
    filled_in(page, site, {"Pepsi": 4.5})
    for _ in range(5):
        page.get_by_role("button", name="Throw the coins again").click()
    assert ledgers(page, site) is None
    assert bodies == []
    page.get_by_role("button", name="Do not send").click()
    expect(page.get_by_role("status")).to_have_text("Nothing was sent.")
    page.wait_for_timeout(700)
    assert ledgers(page, site) is None
    assert bodies == []
    assert running_collector.reports(site.collection) == 0


def test_the_notice_tells_what_this_plan_means(watched_page, site):
    page = watched_page
    filled_in(page, site, {"Pepsi": 4.5})
    notice = page.locator("keyveil-consent")
    expect(notice).to_contain_text("one of 6 questions at random")
    expect(notice).to_contain_text("at most 2.72 times less often")
    expect(notice).to_contain_text("at most 73.2% sure")
    expect(notice).to_contain_text("may cost 4 together. This one costs 1, of 4 left before it.")
    expect(notice.get_by_role("listitem")).to_have_count(6)
    before = notice.get_by_role("list").all_inner_texts()
    changed = False
    for _ in range(20):  # all six are the same again with probability below 1e-3 each time
        page.get_by_role("button", name="Throw the coins again").click()
        changed = changed or notice.get_by_role("list").all_inner_texts() != before
    assert changed
    agreed(page)
    page.reload()
    page.get_by_role("button", name="Next").click()
    expect(page.get_by_role("status")).to_have_text(
        "You have answered this already. Nothing more is sent."
    )


def test_the_texts_can_be_replaced(watched_page, site):
    page = watched_page
    filled_in(page, site, {})
    page.evaluate(
        """() => {
          document.documentElement.lang = "de";
          document.querySelector("keyveil-consent").strings = {
            title: "Antworten, ohne etwas zu verraten",
            accept: "Eine Nachricht senden",
            oddsText: "Höchstens {percent} sicher, Faktor {factor}.",
          };
        }"""
    )
    expect(page.get_by_role("heading", name="Antworten")).to_be_visible()
    expect(page.get_by_role("button", name="Eine Nachricht senden")).to_be_visible()
    expect(page.locator("keyveil-consent")).to_contain_text(
        "73,2\N{NO-BREAK SPACE}% sicher, Faktor 2,72."
    )


def test_the_colours_of_the_page_can_be_the_notices(watched_page, site):
    """A page calls its colours what it likes, and sets the notice's from them on the element."""
    page = watched_page
    filled_in(page, site, {})
    page.evaluate(
        """() => { for (const [name, value] of [["--accent", "rgb(1, 2, 3)"], ["--on", "rgb(4, 5, 6)"],
          ["--keyveil-accent", "var(--accent)"], ["--keyveil-on-accent", "var(--on)"]])
          document.querySelector("keyveil-consent").style.setProperty(name, value) }"""
    )
    accept = page.get_by_role("button", name="Send one message")
    expect(accept).to_have_css("background-color", "rgb(1, 2, 3)")
    expect(accept).to_have_css("color", "rgb(4, 5, 6)")


def test_two_tabs_at_once_send_one_report(watch, site, running_collector):
    context = watch.context()
    tabs = [context.new_page() for _ in range(3)]
    bodies_by_tab = [posts(tab) for tab in tabs]
    for rating, tab in enumerate(tabs):
        filled_in(tab, site, {"Pepsi": 1 + 2 * rating})
    # all tabs agree in the same moment: they listen to one message
    for tab in tabs:
        tab.evaluate(
            """() => { new BroadcastChannel("agree").onmessage = () => document
            .querySelector("keyveil-consent").shadowRoot.querySelector("[part=accept]").click() }"""
        )
    sender = context.new_page()
    sender.goto(f"{site.url}/blank")
    sender.evaluate('() => new BroadcastChannel("agree").postMessage(1)')
    until(sender, lambda: state_of(sender, site) == "counted")
    (answer,) = ledgers(sender, site)["answers"]
    assert answer["state"] == "counted"
    for tab in tabs:
        expect(tab.get_by_role("status")).to_contain_text(
            re.compile("Sent and counted|answered this already")
        )
    thanked = [tab for tab in tabs if "Sent and" in tab.get_by_role("status").inner_text()]
    assert len(thanked) == 1, "the answers of the other tabs were not sent"
    reports = [body["reports"][0] for bodies in bodies_by_tab for body in bodies]
    assert {json.dumps(report) for report in reports} == {
        json.dumps({"id": answer["id"], "cells": answer["cells"]})
    }
    assert running_collector.reports(site.collection) == 1


def test_offline_and_back(watch, site, running_collector):
    watch.allow("ERR_INTERNET_DISCONNECTED")
    context = watch.context()
    page = context.new_page()
    filled_in(page, site, {"Fries": 2})
    context.set_offline(True)
    page.get_by_role("button", name="Send one message").click()
    until(page, lambda: (ledger := ledgers(page, site)) and ledger["answers"][0]["tries"])
    first = ledgers(page, site)["answers"][0]
    assert first["state"] == "waiting"
    assert running_collector.reports(site.collection) == 0
    context.set_offline(False)
    until(page, lambda: state_of(page, site) == "counted")
    expect(page.get_by_role("status")).to_have_text("Sent and counted. Thank you.")
    (answer,) = ledgers(page, site)["answers"]
    assert (answer["id"], answer["cells"], answer["epoch"]) == (
        first["id"],
        first["cells"],
        first["epoch"],
    )
    assert running_collector.reports(site.collection) == 1


def test_a_page_that_closes_in_the_middle_sends_as_it_goes_and_once_more(watch, site, running_collector):
    """The report leaves with the page, without an answer; the next visit sends it again under its id."""
    context = watch.context()
    page = context.new_page()
    filled_in(page, site, {"Salad": 5})
    page.get_by_role("button", name="Send one message").click()
    until(page, lambda: ledgers(page, site))
    page.goto("about:blank")  # within the time that passes before the first try
    until(page, lambda: running_collector.reports(site.collection))
    assert running_collector.reports(site.collection) == 1
    page.close()
    later = context.new_page()
    later.goto(site.url)
    until(later, lambda: state_of(later, site) == "counted")
    assert running_collector.reports(site.collection) == 1


def test_a_report_that_could_not_leave_is_sent_at_the_next_visit(watch, site, running_collector):
    watch.allow("ERR_INTERNET_DISCONNECTED")
    context = watch.context()
    page = context.new_page()
    filled_in(page, site, {"Salad": 5})
    context.set_offline(True)
    page.get_by_role("button", name="Send one message").click()
    until(page, lambda: ledgers(page, site))
    assert running_collector.reports(site.collection) == 0
    page.close()  # without the page, the browser is no longer offline and may send at once
    context.set_offline(False)
    later = context.new_page()
    later.goto(site.url)
    until(later, lambda: state_of(later, site) == "counted")
    assert running_collector.reports(site.collection) == 1


def test_a_plan_above_the_pages_limit_is_refused_before_the_record_is_read(
    watched_page, site, running_collector
):
    """The page allows epsilon 2. The form is never looked at: reading it would throw."""
    name = "greedy"
    running_collector.create(name, Plan.of(Schema.of(FOODS, 1, 5), "kvue", 3))
    site.collection = name
    page = watched_page
    page.goto(site.url)
    page.evaluate(
        """() => { for (const box of document.querySelectorAll("input"))
        Object.defineProperty(box, "checked", { get() { throw new Error("the record was read"); } }) }"""
    )
    with page.expect_console_message(lambda message: message.type == "warning") as warning:
        page.get_by_role("button", name="Next").click()
    assert "2 is allowed for one collection" in warning.value.text
    expect(page.get_by_role("status")).to_have_text(
        "Nothing was sent: this question costs more than your privacy budget allows."
    )
    assert ledgers(page, site) is None


ANSWER = """async ([url, name]) => {
  const { Client } = await import("/src/index.js");
  const client = new Client(url, { cap: 4, allow: 2, patience: { settle: 0, spread: 0 } });
  let reads = 0;
  try { await client.answer(name, () => { reads++; return { Pepsi: 2 }; }); }
  catch (error) { return { said: String(error), reads, ...(await client.budget()) }; }
  finally { client.close(); }
  return { said: "", reads, ...(await client.budget()) };
}"""


def test_a_renamed_or_changed_plan_is_not_answered_twice_or_is_charged(
    watched_page, site, running_collector
):
    """A collector that asks a device again and again, under other names and slightly other plans.

    Each visit is a new client on the stored ledger. What is refused never reads the record.
    """
    page, url = watched_page, running_collector.url

    def visited(name: str) -> dict[str, Any]:
        page.goto(f"{site.url}/blank")
        return page.evaluate(ANSWER, [url, name])

    def created(name: str, keys: list[str]) -> str:
        running_collector.create(name, Plan.of(Schema.of(keys, 1, 5), "kvue", 1))
        return name

    assert visited(site.collection)["said"] == ""
    running_collector.create("renamed", site.plan)
    again = visited("renamed")
    assert "this plan was answered in another collection" in again["said"]
    assert again["reads"] == 0
    for number in range(3):
        changed = visited(created(f"changed-{number}", [*FOODS, f"one more {number}"]))
        assert (changed["said"], changed["reads"]) == ("", 1)
    over = visited(created("changed-3", [*FOODS, "one more 3"]))
    assert "of the cap is left" in over["said"]
    assert over["reads"] == 0
    assert 3.9 < float(over["spent"]) <= 4
    # the answered collection shows another plan: its requests are led to another collection
    page.route(
        re.compile(rf"/v1/collections/{site.collection}(/plan)?$"),
        lambda route: route.continue_(url=route.request.url.replace(site.collection, "changed-3")),
    )
    swapped = visited(site.collection)
    assert "a device answers once" in swapped["said"]
    assert swapped["reads"] == 0
    assert running_collector.reports(site.collection) == 1


def test_a_page_learns_why_a_collection_cannot_be_asked(watch, watched_page, site, running_collector):
    """A misspelt name and an origin that is not allowed: said at the first try."""
    watch.allow("status of 40[34]")
    foreign = {"origins": ["https://shop.example"]}
    running_collector.create("foreign", Plan.of(Schema.of(FOODS, 1, 5), "rr", 1), **foreign)
    page, methods = watched_page, []
    page.goto(f"{site.url}/blank")

    def note(request) -> None:
        if request.url.startswith(running_collector.url):
            methods.append(request.method)

    page.on("request", note)
    texts = [
        page.evaluate(ANSWER, [running_collector.url, name])["said"] for name in ("nope", "foreign")
    ]
    assert texts == [
        "ClientError: there is no collection 'nope' here; nothing was sent",
        f"ClientError: the collection 'foreign' does not allow pages of {site.url}: "
        "see --origin of keyveil collection create; nothing was sent",
    ]
    assert methods == ["GET", "GET"]


CLIENT_OF = """async ([url, name]) => {
  const { Client } = await import("/src/index.js");
  window.client = new Client(url, { cap: 4, patience: { settle: 0, spread: 0 } });
  return window.client.answer(name, { Pepsi: 2 }).then(({ state }) => state, String);
}"""


def test_a_ledger_that_another_tab_deletes_is_a_new_device(watch, site, running_collector):
    """The first tab goes on without a reload."""
    context = watch.context()
    page, other = context.new_page(), context.new_page()
    for tab in (page, other):
        tab.goto(f"{site.url}/blank")
    assert page.evaluate(CLIENT_OF, [running_collector.url, site.collection]) == "counted"
    other.evaluate(
        """() => new Promise((resolve, reject) => {
          const deleting = indexedDB.deleteDatabase("keyveil");
          deleting.onsuccess = resolve;
          deleting.onerror = deleting.onblocked = reject;
        })"""
    )
    assert page.evaluate("() => window.client.budget()") == {"cap": "4", "spent": "0", "left": "4"}


def test_without_room_nothing_is_drawn_or_sent(watch, site, running_collector):
    page = watch.context().new_page()
    page.goto(f"{site.url}/blank")
    devices = page.context.new_cdp_session(page)
    devices.send("Storage.overrideQuotaForOrigin", {"origin": site.url, "quotaSize": 1})
    bodies = posts(page)
    message = page.evaluate(CLIENT_OF, [running_collector.url, site.collection])
    assert message == "ClientError: this browser cannot keep the ledger"
    assert bodies == []
    devices.send("Storage.overrideQuotaForOrigin", {"origin": site.url})
    assert page.evaluate(CLIENT_OF, [running_collector.url, site.collection]) == "counted"


def test_a_sandboxed_page_without_storage_says_so(watch, site):
    """A frame of another site may neither store nor read anything."""
    page = watch.context().new_page()

    def fulfil(route) -> None:
        content, kind = site.file("/" + route.request.url.split("/", 3)[3])
        headers = {
            "content-security-policy": "sandbox allow-scripts",
            "access-control-allow-origin": "*",
        }
        route.fulfill(body=content, content_type=kind or "text/plain", headers=headers)

    page.route(f"{site.url}/**", fulfil)
    page.goto(f"{site.url}/blank")
    message = page.evaluate(
        """async () => {
          const { Client } = await import("/src/index.js");
          return new Client("http://127.0.0.1", { cap: 4 }).budget().catch(String);
        }"""
    )
    assert message == "ClientError: this browser cannot keep the ledger"


def test_a_report_that_is_not_counted_is_not_said_to_be_on_its_way(watch, watched_page, site):
    watch.allow("status of 410")
    page = watched_page
    filled_in(page, site, {"Pepsi": 2})
    refusal = {"status": 410, "json": {"reason": "closed_epoch"}}
    headers = {"access-control-allow-origin": "*"}
    page.route("**/reports", lambda route: route.fulfill(**refusal, headers=headers))
    page.get_by_role("button", name="Send one message").click()
    expect(page.get_by_role("status")).to_have_text("Sent, but not counted.")
    assert state_of(page, site) == "dropped"


def test_without_a_secure_context_it_says_so(chromium, site):
    """A page over http on a name that is not this machine's; the browser is told its content."""
    context = chromium.new_context()
    page = context.new_page()

    def fulfil(route) -> None:
        content, kind = site.file("/" + route.request.url.split("/", 3)[3])
        route.fulfill(body=content, content_type=kind or "text/plain")

    page.route("http://plain.test/**", fulfil)
    page.goto("http://plain.test/blank")
    message = page.evaluate(
        """async () => { const { Client } = await import("/src/index.js");
        try { new Client("https://collector.example", { cap: 4 }) }
        catch (error) { return String(error) } }"""
    )
    assert message.startswith("ClientError: this page is not a secure context (https or localhost), so")
    context.close()


def test_axe_finds_no_serious_problem(watch, site, scale):
    """Every rule of axe-core, over the page with the notice; and all can be done with the keyboard.

    A short run looks at the light page and at the dark page on a phone.
    """
    looks = [("light", 1000), ("dark", 360)]
    for scheme, width in product(("light", "dark"), (1000, 360)) if scale > 1 else looks:
        look_and_agree(watch, site, scheme, width)


def look_and_agree(watch: Any, site: Site, scheme: str, width: int) -> None:
    """Let axe look at the page in a colour scheme and a width, then agree with the keyboard alone."""
    context = watch.context(
        color_scheme=scheme, viewport={"width": width, "height": 900}, bypass_csp=True
    )
    page = context.new_page()
    filled_in(page, site, {"Hamburger": 4})
    page.add_script_tag(path=str(CLIENT / "node_modules" / "axe-core" / "axe.min.js"))
    result = page.evaluate("() => axe.run(document, { resultTypes: ['violations'] })")
    assert [v["id"] for v in result["violations"] if v["impact"] in ("serious", "critical")] == []
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    for _ in range(40):
        page.keyboard.press("Tab")
        focused = page.evaluate(
            "() => document.activeElement.shadowRoot?.activeElement?.getAttribute('part')"
        )
        if focused == "accept":
            break
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_have_text("Sent and counted. Thank you.")


EMPTIED = """() => new Promise((resolve) => {
  const notice = document.querySelector("keyveil-consent");
  Object.defineProperty(notice, "record", { set: (record) => resolve(record()) });
  const rating = document.querySelector("#rating");
  rating.value = "";
  rating.dispatchEvent(new Event("change"));
})"""
"""The record that the page gives to the notice when its field is emptied."""


@pytest.mark.parametrize(("modules", "mechanism"), [("copied", "kvue"), ("mapped", "kvoh")])
def test_the_page_of_the_docs_works(watched_page, running_collector, monkeypatch, modules, mechanism):
    """The complete page of docs/browser.md, with modules of its own, and with the collector's by its
    import map; its code is inline, so the policy allows that. An empty field is not held. The second
    plan needs a module on demand."""
    files: list[str] = []
    watched_page.on("request", lambda request: files.append(request.url))
    running_collector.create(f"menu-{modules}", Plan.of(Schema.of(["Pepsi"], 1, 5), mechanism, 1))
    html, mapped = re.findall(
        r"^```html\n(.*?)^```$", (DOCS / "browser.md").read_text(), re.MULTILINE | re.DOTALL
    )
    if modules == "mapped":
        for file, name in (("index", "keyveil"), ("consent", "keyveil/consent")):
            html = html.replace(f'"./keyveil/{file}.js"', f'"{name}"')
        html = html.replace('<script type="module">', f'{mapped}<script type="module">')
    assert DEFAULT in html
    with serving(running_collector.url) as site:
        scripts = f"script-src 'self' 'unsafe-inline' {running_collector.url}"
        monkeypatch.setattr(Site, "policy", site.policy.replace("script-src 'self'", scripts))
        html = html.replace('"menu"', f'"menu-{modules}"')
        site.pages["/"] = html.replace(DEFAULT, running_collector.url)
        watched_page.goto(site.url)
        notice = watched_page.locator("keyveil-consent")
        expect(notice.get_by_role("listitem")).to_have_count(6)
        assert np.isnan(watched_page.evaluate(EMPTIED)["Pepsi"])
        agreed(watched_page)
    assert running_collector.reports(f"menu-{modules}") == 1
    on_demand = [url for url in files if url.endswith("/rows.js")]
    assert on_demand == ([f"{running_collector.url}/client/rows.js"] if modules == "mapped" else [])


@pytest.fixture
def relay(running_collector, tmp_path) -> Iterator[str]:
    """The address of a relay that waits for three reports."""
    words = [KEYVEIL, "relay", "--to", running_collector.url, "--wait", "3", "--listen", "127.0.0.1:0"]
    words += ["--memory", str(tmp_path / "relay.sqlite")]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        yield re.findall(r"at (http://[^ :]+:\d+)", process.stdout.readline())[0]
    finally:
        process.terminate()
        process.communicate(timeout=60)


def test_visitors_through_a_relay(watch, site, relay, running_collector):
    """They read the plan through it, and their modules on demand come from the page's own origin. Their
    reports wait at the relay for each other; the next visit learns that they were counted."""
    running_collector.create("relayed", Plan.of(Schema.of(FOODS, 1, 5), "ioh", 1))
    site.collection = "relayed"
    contexts = [watch.context() for _ in range(3)]
    site.collector = relay  # the page asks it and its policy allows it alone
    for context in contexts:
        page, files = context.new_page(), []
        page.on("request", lambda request, files=files: files.append(request.url))
        filled_in(page, site, {"Pepsi": 4})
        page.get_by_role("button", name="Send one message").click()
        expect(page.get_by_role("status")).to_contain_text("Your message is stored and sent again")
        until(page, lambda page=page: state_of(page, site) == "held")
        assert f"{site.url}/keyveil/rows.js" in files
        assert not any(url.startswith(running_collector.url) for url in files)
        page.close()
    later = contexts[0].new_page()
    until(later, lambda: running_collector.reports("relayed") == 3)
    later.clock.install(time=time.time() + 3600)
    later.goto(site.url)
    until(later, lambda: state_of(later, site) == "counted")
    assert running_collector.reports("relayed") == 3


def test_nothing_but_the_report_leaves(watch, site, running_collector):
    """No cookie and no referrer goes to the collector, whose host has one; the body is the report."""
    context = watch.context()
    context.add_cookies([{"name": "seen", "value": "before", "url": running_collector.url}])
    page = context.new_page()
    requests: list[dict[str, Any]] = []

    def note(request) -> None:
        if request.url.startswith(running_collector.url) and request.method != "OPTIONS":
            requests.append({"headers": request.all_headers(), "body": request.post_data})

    filled_in(page, site, {"Pepsi": 2})
    page.on("request", note)
    agreed(page)
    filled = [request for request in requests if request["body"]]
    assert len(filled) == 1
    for request in requests:
        assert not {"cookie", "referer", "authorization"} & set(request["headers"])
    body = json.loads(filled[0]["body"])
    assert set(body) == {"plan", "epoch", "reports"}
    (report,) = body["reports"]
    assert set(report) == {"id", "cells"}
