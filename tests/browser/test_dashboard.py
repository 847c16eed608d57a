"""The dashboard in a real browser: the library's numbers, what hostile names do, who may see what."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
from playwright.sync_api import Page, expect
from process import keyveil

from keyveil import Coins, People, Plan, Schema, Tally, estimate
from keyveil.estimate.together.conditional import Conditionals
from keyveil.people.example_orders import DISHES

ROOT = Path(__file__).parents[2]
AXE = ROOT / "clients" / "js" / "node_modules" / "axe-core" / "axe.min.js"
TALLY = "application/vnd.keyveil.tally"
FOODS = list(DISHES)
READ_ROWS = """rows => rows.map(row => {
  const number = text => text === undefined ? null : Number(text);
  const read = cell => [cell.dataset.value, cell.dataset.low, cell.dataset.high].map(number);
  const cells = [...row.querySelectorAll("td[data-kind]")].map(cell => [cell.dataset.kind, read(cell)]);
  return {key: row.querySelector("td.key").textContent, ...Object.fromEntries(cells)};
})"""
HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(2)</script>",
    '"); alert(3); ("',
    "=1+1",
]


@pytest.fixture(autouse=True)  # before the pages, so that they are closed before collections go
def collector(running_collector):
    """The collector of this file, without collections of other tests."""
    yield running_collector
    admin = running_collector.admin
    for collection in admin.get("/v1/collections").json()["collections"]:
        admin.post(f"/v1/collections/{collection['name']}/state", json={"state": "closed"})
        admin.delete(f"/v1/collections/{collection['name']}").raise_for_status()


@pytest.fixture
def page(watch):
    """A watched page of an analyst's screen."""
    context = watch.context(color_scheme="light", viewport={"width": 1200, "height": 850})
    page = context.new_page()
    page.set_default_timeout(60_000)
    expect.set_options(timeout=60_000)
    return page


def people_of(plan: Plan, number: int) -> People:
    """People whose taste moves all of their keys, always the same ones."""
    draw = Coins.stated("dashboard people").generator()
    keys = len(plan.schema.keys)
    taste = draw.normal(size=(number, 1))
    held = taste + draw.normal(size=(number, keys)) > np.linspace(-0.5, 1.5, keys)
    values = np.clip(3 + taste / 2 + draw.normal(size=held.shape), 1, 5)
    who, places = np.nonzero(held)
    missing = np.flatnonzero(~held.any(axis=1))
    return People.of_rows(
        plan.schema,
        np.concatenate([who, missing]),
        np.concatenate([places, np.full(len(missing), -2)]),
        np.concatenate([values[held], np.zeros(len(missing))]),
    )


def tally_of(plan: Plan, number: int) -> Tally:
    """The tally of these people, always the same."""
    return Tally(plan).add(plan.privatise(people_of(plan, number), Coins.stated("dashboard")))


def filled(collector, keys=FOODS, mechanism="pairs", epsilon=4, number=8000, name="menu"):
    """A collection with a tally; returns the plan and the tally."""
    plan = Plan.of(Schema.of(keys, 1, 5), mechanism, epsilon)
    collector.create(name, plan)
    tally = tally_of(plan, number)
    bring(collector, tally, name)
    return plan, tally


def bring(collector, tally, name="menu", label="first"):
    answer = collector.admin.post(
        f"/v1/collections/{name}/tallies?id={label}",
        content=tally.dumps(),
        headers={"content-type": TALLY},
    )
    assert answer.status_code == 200, answer.text


def enter(page: Page, collector, view: str = "", token: str | None = None) -> None:
    """Log in and open a view."""
    page.goto(f"{collector.url}/#/{view}")
    page.get_by_label("Token").fill(token or collector.admin_token)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", name="Log in")).to_have_count(0)


def shown_numbers(page: Page) -> list[dict]:
    """What the rows of the table say: the key, and value and ends of each statistic, unrounded."""
    return page.eval_on_selector_all(".listing tbody tr", READ_ROWS)


def ends(estimate_document) -> list:
    return [estimate_document[name] for name in ("value", "low", "high")]


def as_shown(documents, raw=False) -> list[dict]:
    rows = []
    for document in documents:
        source = document["raw"] if raw else document
        rows.append({"key": document["key"], **{n: ends(source[n]) for n in ("frequency", "mean")}})
    return rows


# -- the library's numbers -------------------------------------------------------------------------


def test_every_number_is_the_library_s(page, collector):
    plan, tally = filled(collector)
    enter(page, collector, "c/menu/answers")
    expect(page.locator("td[data-kind]")).to_have_count(10)
    document = json.loads(json.dumps(estimate(plan, tally).document()))
    assert shown_numbers(page) == as_shown(document["keys"])
    assert shown_numbers(page) == as_shown(at_the_terminal(collector))
    page.get_by_label("Raw").check()
    expect(page.locator("p.note").first).to_contain_text("unbiased")
    assert shown_numbers(page) == as_shown(document["keys"], raw=True)
    page.locator("[data-id=Intervals]").select_option("0.8")
    expected = json.loads(json.dumps(estimate(plan, tally, level=0.8).document()))
    low = expected["keys"][0]["raw"]["frequency"]["low"]
    expect(page.locator("td[data-kind=frequency]").first).to_have_attribute("data-low", str(low))
    assert shown_numbers(page) == as_shown(expected["keys"], raw=True)
    assert "values=raw" in page.url
    assert "level=0.8" in page.url


def test_the_explorer_answers_queries_beside_the_unconditional_answer(page, collector):
    plan, tally = filled(collector)
    enter(page, collector, "c/menu/explore?target=Pepsi")
    page.get_by_label("Among people").fill("Hamburger")
    page.get_by_role("button", name="who have it").click()
    source = Conditionals(plan, tally)
    for kind in ("frequency", "mean"):
        page.get_by_label("Statistic").select_option(kind)
        given = source.answer(f"{kind}(Pepsi | Hamburger)").document()
        alone = source.answer(f"{kind}(Pepsi)").document()
        answers = at_the_terminal(collector, f"{kind}(Pepsi | Hamburger)", f"{kind}(Pepsi)")
        assert answers == json.loads(json.dumps([given, alone]))
        for role, answer in (("answer", given), ("alone", alone)):
            cell = page.locator(f"[data-role={role}]")
            expect(cell).to_have_attribute("data-value", js_number(answer["value"]))
            expect(cell).to_have_attribute("data-low", js_number(answer["low"]))
            expect(cell).to_have_attribute("data-high", js_number(answer["high"]))
    expect(page.locator("#query")).to_have_text("mean(Pepsi | Hamburger)")
    page.get_by_label("Among people").fill("Fries")
    page.get_by_role("button", name="who do not").click()
    expect(page.locator("#query")).to_have_text("mean(Pepsi | Hamburger, !Fries)")
    expect(page.locator("[data-role=answer]")).to_have_text("not estimable")
    expect(page.locator("[data-role=needed]")).to_contain_text("No report speaks of these keys together")
    link = page.url
    page.goto(f"{collector.url}/#/")
    expect(page.locator("article")).to_have_count(1)
    page.goto(link)
    expect(page.locator("#query")).to_have_text("mean(Pepsi | Hamburger, !Fries)")


def test_what_is_not_estimable_says_how_many_people_it_needs(page, collector):
    filled(collector, epsilon=1, number=800)
    enter(page, collector, "c/menu/explore?target=Pepsi&with=Salad&kind=mean")
    expected = collector.admin.get(
        "/v1/collections/menu/needed", params={"q": "mean(Pepsi | Salad)"}
    ).json()["answers"][0]["people"]
    expect(page.locator("[data-role=needed]")).to_have_text(
        f"Not estimable; needs about {expected:,} people."
    )
    page.goto(f"{collector.url}/#/c/menu/matrix?kind=mean")
    document = collector.admin.get("/v1/collections/menu/conditional", params={"kind": "mean"}).json()
    cells = [cell for row in document["matrix"] for cell in row if cell]
    unknown = sum(cell["value"] is None or cell["low"] is cell["high"] is None for cell in cells)
    assert unknown > 0
    expect(page.locator('g[fill="url(#hatched)"] rect')).to_have_count(unknown)


def test_a_cell_of_the_matrix_is_round_where_there_is_no_sign(page, collector):
    filled(collector, epsilon=2, number=20_000)
    enter(page, collector, "c/menu/matrix?kind=mean")
    document = collector.admin.get("/v1/collections/menu/conditional", params={"kind": "mean"}).json()
    cells = [cell for row in document["matrix"] for cell in row if cell and cell["low"] is not None]
    signs = [cell["shown"] for cell in cells]
    area = page.get_by_role("group", name="mean of the row's key given the column's")
    shapes = area.locator("svg path[fill^=rgb]")
    expect(shapes).to_have_count(len(cells))
    round_ones = sum("A" in shape.get_attribute("d").upper() for shape in shapes.all())
    assert round_ones == signs.count(False) > 0
    assert signs.count(True) > 0
    expect(page.get_by_text("round: no sign that they go together")).to_be_visible()


def test_the_matrix_and_the_rules_are_the_library_s(page, collector):
    plan, tally = filled(collector, epsilon=6)
    enter(page, collector, "c/menu/matrix")
    area = page.get_by_role("group", name="frequency of the row's key given the column's")
    area.focus()
    page.keyboard.press("ArrowRight")
    answer = Conditionals(plan, tally).answer("frequency(Hamburger | Fries)").estimate
    words = f"{100 * answer.value:.1f} %; {100 * answer.low:.1f} to {100 * answer.high:.1f} %"
    expect(page.locator("#cell")).to_contain_text(f"frequency(Hamburger | Fries); {words}")
    expect(area.locator(".picked")).to_have_attribute("x", "182")  # of the second column
    drawing = area.locator("svg").first
    drawing.hover(position={"x": 118 + 2.5 * 64, "y": 96 + 0.5 * 64})  # first row, third column
    answer = Conditionals(plan, tally).answer("frequency(Hamburger | Pepsi)").estimate
    words = f"{100 * answer.low:.1f} to {100 * answer.high:.1f} %"
    expect(drawing.locator("[aria-label=tip]")).to_contain_text(words)
    expect(page.locator("#cell")).to_contain_text("frequency(Hamburger | Pepsi); ")
    page.goto(f"{collector.url}/#/c/menu/rules")
    document = collector.admin.get("/v1/collections/menu/rules").json()
    expect(page.locator(".listing tbody tr")).to_have_count(len(document["rules"]))
    lifts = page.eval_on_selector_all(
        "td[data-kind=lift]", "cells => cells.map(cell => Number(cell.dataset.value))"
    )
    assert lifts == [rule["lift"]["value"] for rule in document["rules"]]
    shares = page.eval_on_selector_all(
        "td[data-kind=frequency]", "cells => cells.map(cell => Number(cell.dataset.value))"
    )
    parts = ("frequency", "reverse", "support")
    assert shares == [rule[part]["value"] for rule in document["rules"] for part in parts]
    page.get_by_role("button", name="Lift").click()
    expect(page.locator("th[aria-sort=descending]")).to_have_text("Lift")
    link = page.url
    page.goto(f"{collector.url}/#/")
    expect(page.locator("article")).to_have_count(1)
    page.goto(link)
    lifts_shown = page.locator("td[data-kind=lift]")
    expect(lifts_shown).to_have_count(len(lifts))
    values = [float(cell.get_attribute("data-value")) for cell in lifts_shown.all()]
    assert values == sorted(lifts, reverse=True)
    page.goto(f"{collector.url}/#/c/menu/explore?target=Pepi&with=Fries")
    expect(page.get_by_role("alert")).to_contain_text('There is no key "Pepi" in this plan')
    assert len(lifts) > 0


def test_answers_grow_while_reports_arrive(page, collector):
    plan, tally = filled(collector)
    enter(page, collector, "c/menu/answers")
    expect(page.locator("[data-role=reports]")).to_have_text("8,000")
    expect(page.locator(".live.on")).to_have_text("live")
    more = tally_of(plan, 500)
    bring(collector, more, label="second")
    expect(page.locator("[data-role=reports]")).to_have_text("8,500")
    document = json.loads(json.dumps(estimate(plan, tally + more).document()))
    first = document["keys"][0]["frequency"]["value"]
    expect(page.locator("td[data-kind=frequency]").first).to_have_attribute(
        "data-value", js_number(first)
    )
    assert shown_numbers(page) == as_shown(document["keys"])


def test_files_are_those_of_the_api(page, collector, tmp_path):
    plan, tally = filled(collector, epsilon=1)
    enter(page, collector, "c/menu/plan")
    for button, name in (("Plan (JSON)", "plan"), ("Tally", "tally"), ("Answers (CSV)", "answers")):
        with page.expect_download() as waiting:
            page.get_by_role("button", name=button).click()
        waiting.value.save_as(tmp_path / name)
    assert Plan.load(tmp_path / "plan").hash == plan.hash
    assert (Tally.load(plan, tmp_path / "tally").counts == tally.counts).all()
    lines = (tmp_path / "answers").read_text().splitlines()
    assert lines[0].startswith(
        "key,frequency_value,frequency_stderr,frequency_low,frequency_high,mean_value"
    )
    assert float(lines[1].split(",")[1]) == estimate(plan, tally)["Hamburger"].frequency.value
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Save as SVG: The channel").click()
    waiting.value.save_as(tmp_path / "channel.svg")
    picture = (tmp_path / "channel.svg").read_text()
    assert picture.startswith("<svg")
    assert "var(" not in picture


# -- tables ----------------------------------------------------------------------------------------


def test_a_thousand_keys_are_paged_sorted_and_searched(page, collector):
    keys = [f"key {place}" for place in range(1000)]
    plan, tally = filled(collector, keys, "kvue", 2, 3000)
    enter(page, collector, "c/menu/answers")
    expect(page.locator(".listing tbody tr")).to_have_count(50)
    page.get_by_role("button", name="Frequency").click()
    answers = sorted(estimate(plan, tally), key=lambda answer: -answer.frequency.value)
    expect(page.locator("th[aria-sort=descending]")).to_have_count(1)
    assert [row["key"] for row in shown_numbers(page)] == [answer.key for answer in answers[:50]]
    page.get_by_role("button", name="Next").click()
    expect(page.get_by_text("Page 2 of 20")).to_be_visible()
    assert [row["key"] for row in shown_numbers(page)] == [answer.key for answer in answers[50:100]]
    page.get_by_label("Search keys").fill("KEY 99")
    expect(page.get_by_text("11 of 1,000 keys")).to_be_visible()
    assert {row["key"] for row in shown_numbers(page)} == {"key 99", *(f"key 99{n}" for n in range(10))}
    for part in ("sort=frequency", "desc=1", "find=KEY+99"):
        assert part in page.url
    page.goto(f"{collector.url}/#/c/menu/answers?page=x")
    expect(page.get_by_text("Page 1 of 20")).to_be_visible()


def test_names_of_keys_are_text_wherever_they_stand(page, collector, tmp_path):
    filled(collector, [*HOSTILE, "Pepsi"], epsilon=6)
    page.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
    enter(page, collector, "c/menu/answers")
    expect(page.locator("td.key").first).to_have_text(HOSTILE[0])
    with page.expect_download() as waiting:
        page.get_by_role("button", name="CSV").click()
    waiting.value.save_as(tmp_path / "answers.csv")
    assert "\r\n'=1+1," in (tmp_path / "answers.csv").read_bytes().decode()
    for key in HOSTILE:
        path = f"explore?target={quote(key, safe='')}&with=Pepsi"
        page.goto(f"{collector.url}/#/c/menu/{path}")
        expect(page.locator("[data-role=answer]")).to_have_attribute("data-value", re.compile("."))
    for panel in ("matrix", "rules", "error", "health", "plan", "manage"):
        page.goto(f"{collector.url}/#/c/menu/{panel}")
        expect(page.locator(".tabs [aria-current=page]")).to_have_attribute("data-id", panel)
        expect(page.locator(".wait")).to_have_count(0)
    assert page.locator("main img, main script, main iframe").count() == 0


# -- who ---------------------------------------------------------------------------------------------


def test_a_token_stays_out_of_addresses_logs_and_other_tabs(page, collector):
    filled(collector)
    urls = []
    page.on("request", lambda request: urls.append(request.url))
    enter(page, collector)
    page.get_by_role("link", name="menu").click()
    expect(page.locator("td[data-kind]")).to_have_count(10)
    secret = collector.admin_token.split("_", 2)[2]
    assert not [url for url in [*urls, page.url] if secret in url]
    assert secret not in collector.process.log.read_text()
    assert secret not in page.evaluate("JSON.stringify(localStorage) + document.cookie")
    other = page.context.new_page()
    other.goto(page.url)
    expect(other.get_by_role("heading", name="Log in")).to_be_visible()
    other.close()
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    assert page.evaluate("sessionStorage.length") == 0


def test_an_analyst_of_one_collection_sees_it_alone(page, watch, collector):
    watch.allow("401")  # of the revoked token
    filled(collector)
    body = {"role": "analyst", "collection": "menu"}
    token = collector.admin.post("/v1/tokens", json=body).json()["text"]
    enter(page, collector, token=token)
    expect(page.locator("td[data-kind]")).to_have_count(10)
    assert "#/c/menu/answers" in page.url
    expect(page.locator(".tabs a", has_text="Manage")).to_have_count(0)
    name = token.split("_", 2)[1]
    collector.admin.delete(f"/v1/tokens/{name}")
    page.locator("[data-id=Intervals]").select_option("0.8")
    expect(page.get_by_role("alert")).to_have_text("The token is no longer valid.")


@pytest.mark.parametrize("token", ["kv_0123456789abcdef_" + "a" * 43, "nonsense"])
def test_an_unknown_token_is_refused_in_words(page, collector, token):
    page.goto(collector.url)
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_have_text("This token is unknown or was revoked.")


def test_an_admin_makes_pauses_and_closes_a_collection(page, collector, tmp_path):
    plan = Plan.of(Schema.of(FOODS, 1, 5), "privkvm", 2, rounds=2)
    plan.save(tmp_path / "plan.json")
    page, client = page, collector.admin
    enter(page, collector)
    page.get_by_role("button", name="New collection").click()
    page.get_by_label("Name").fill("survey")
    page.get_by_label("Plan").set_input_files(tmp_path / "plan.json")
    page.get_by_label("Web pages that may send").fill("https://one.test\nhttps://two.test\n")
    page.get_by_role("button", name="Create").click()
    page.get_by_role("link", name="survey").click()
    page.get_by_role("link", name="Manage").click()

    def state():
        return client.get("/v1/collections/survey").json()["state"]

    def origins():
        return client.get("/v1/collections/survey/status").json()["terms"]["origins"]

    assert origins() == ["https://one.test", "https://two.test"]
    expect(page.get_by_label("Web pages that may send")).to_have_value(
        "https://one.test\nhttps://two.test"
    )
    page.get_by_label("Web pages that may send").fill("*")
    page.get_by_role("button", name="Save origins").click()
    expect(page.locator("#said")).to_have_text("Saved")
    assert origins() == ["*"]
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("h1 .badge")).to_have_text("paused")
    assert state() == "paused"
    page.get_by_role("button", name="Open", exact=True).click()
    expect(page.locator("h1 .badge")).to_have_text("open")
    bring(collector, tally_of(plan, 2000), "survey")
    page.get_by_role("button", name="Next round").click()
    page.get_by_role("dialog").get_by_role("button", name="Start").click()
    expect(page.locator(".facts dd").last).to_have_text("2")
    assert client.get("/v1/collections/survey").json()["round"] == 2
    page.get_by_role("button", name="Make a token").click()
    token = page.locator("[data-role=token]").text_content()
    headers = {"authorization": f"Bearer {token}"}
    assert client.get("/v1/collections/survey/status", headers=headers).status_code == 200
    page.get_by_role("dialog").get_by_role("button", name="Done").click()
    page.get_by_role("button", name="Close", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Close").click()
    expect(page.locator("h1 .badge")).to_have_text("closed")
    assert state() == "closed"


def test_a_new_token_can_be_copied_and_a_copy_that_fails_is_said(page, collector):
    """It is shown once, so nobody closes the dialog in the belief that it was copied."""
    enter(page, collector)
    expect(page.get_by_role("heading", name="Collections")).to_be_visible()
    page.get_by_role("button", name="Make a token").click()
    token = page.locator("[data-role=token]").text_content()
    buttons = page.get_by_role("dialog").get_by_role("button")
    clipboard = """() => Object.defineProperty(navigator, "clipboard",
      { configurable: true, value: VALUE })"""
    page.evaluate(clipboard.replace("VALUE", "{ writeText: async (text) => { window.copied = text } }"))
    buttons.filter(has_text="Copy").click()
    expect(buttons.filter(has_text="Copied")).to_have_count(1)
    assert page.evaluate("() => window.copied") == token
    expect(buttons.filter(has_text="Copy")).to_have_count(1)
    for value in ("undefined", "{ writeText: () => Promise.reject(new Error()) }"):  # no https; refused
        page.evaluate(clipboard.replace("VALUE", value))
        page.evaluate("() => getSelection().removeAllRanges()")
        buttons.filter(has_text="Copy").click()
        expect(buttons.filter(has_text="Selected: copy it by hand")).to_have_count(1)
        assert page.evaluate("() => String(getSelection())") == token
        expect(buttons.filter(has_text="Copy")).to_have_count(1)


@pytest.mark.parametrize("route", ["**/v1/session", "**/menu/status"])
def test_a_page_that_could_not_be_loaded_can_be_tried_again(watch, page, collector, route):
    """The collector cannot be reached for a moment; the link's view comes back without a reload."""
    filled(collector)
    enter(page, collector)
    watch.allow("ERR_FAILED")
    page.route(route, lambda request: request.abort())
    page.goto("about:blank")
    page.goto(f"{collector.url}/#/c/menu/plan")
    again = page.get_by_role("button", name="Try again")
    expect(page.get_by_role("alert")).to_have_text("the collector cannot be reached now")
    with page.expect_event("requestfailed"):
        again.click()
    page.unroute_all()
    again.click()
    expect(page.get_by_role("heading", name="What a client sends")).to_be_visible()


# -- everyone ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(page, collector, scheme):
    filled(collector, epsilon=6)
    page.emulate_media(color_scheme=scheme)
    page.goto(collector.url)
    axe(page)
    enter(page, collector)
    expect(page.locator("article")).to_have_count(1)
    axe(page)
    for panel in (
        "answers",
        "explore?with=Fries",
        "matrix",
        "rules",
        "error",
        "health",
        "plan",
        "manage",
    ):
        page.goto(f"{collector.url}/#/c/menu/{panel}")
        expect(page.locator(".tabs [aria-current=page]")).to_have_attribute(
            "data-id", panel.split("?")[0]
        )
        expect(page.locator(".wait")).to_have_count(0)
        axe(page)


def axe(page: Page) -> None:
    page.evaluate(AXE.read_text() + "; 0")  # by the debugger, which the page's policy does not concern
    result = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    serious = [
        (rule["id"], node["html"][:200], node.get("failureSummary"))
        for rule in result["violations"]
        if rule["impact"] in ("serious", "critical")
        for node in rule["nodes"]
    ]
    assert serious == []


def test_nothing_is_wider_than_a_phone(page, collector):
    filled(collector, ["A very long name of a key that nobody would type", *FOODS], epsilon=6)
    page.set_viewport_size({"width": 360, "height": 740})
    enter(page, collector)
    for view in (
        "",
        *(f"c/menu/{p}" for p in ("answers", "explore", "matrix", "rules", "error", "plan")),
    ):
        page.goto(f"{collector.url}/#/{view}")
        expect(page.locator(".card").first).to_be_visible()
        expect(page.locator(".wait")).to_have_count(0)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, view


def test_the_keyboard_reaches_everything(page, collector):
    filled(collector)
    enter(page, collector, "c/menu/answers")
    expect(page.locator("td[data-kind]")).to_have_count(10)
    page.evaluate("document.activeElement.blur()")
    texts = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        texts.add(
            page.evaluate("document.activeElement.textContent.trim() || document.activeElement.type")
        )
    assert {"Skip to content", "Explore", "Manage", "CSV", "Frequency", "Hamburger"} <= texts


def at_the_terminal(collector, *queries: str):
    """What ``keyveil collection answers`` prints as JSON about the collection."""
    words = ("collection", "answers", "menu", *queries, "--url", collector.url)
    return json.loads(keyveil(*words, "--token", collector.admin_token, "--json").stdout)


def js_number(value) -> str:
    """A number as JavaScript writes it."""
    text = repr(float(value))
    return text[:-2] if text.endswith(".0") else text
