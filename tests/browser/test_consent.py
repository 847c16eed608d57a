"""The notice as a page meets it: what it shows when something is missing, changes, fails or comes late.

The client is a real one; its requests are answered within the page.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from example_site import Site, serving
from playwright.sync_api import ConsoleMessage, Page, expect

from keyveil import Plan, Schema

PLANS = {name: Plan.of(Schema.of(["Fries", name], 1, 5), "kvue", 1) for name in ("Pepsi", "Tea")}
SET_UP = """async (plans) => {
  const { Client, memoryStorage } = await import("/src/index.js");
  await import("/src/consent.js");
  const seconds = 86400;
  const world = { down: false, about: {}, refusal: null, sent: [] };
  const answered = (url, { body }) => {
    if (world.down) throw new TypeError("offline");
    const [, name] = /collections\\/(\\w+)/.exec(url);
    const plan = plans[name];
    if (!plan) return Response.json({ reason: "unknown" }, { status: 404 });
    if (body) {
      if (world.refusal) return Response.json({ reason: world.refusal.reason }, world.refusal);
      world.sent.push(name);
      return Response.json({ accepted: 1, failed: [] });
    }
    if (url.endsWith("/plan")) return new Response(JSON.stringify(plan));
    const epoch = { now: Math.floor(Date.now() / 1000 / seconds), seconds };
    return Response.json({ plan: plan.hash, state: "open", token: false, epoch, ...world.about });
  };
  const fetch = async (url, options) => answered(url, options);
  const storage = memoryStorage();
  const patience = { attempts: 1, first: 0.001, settle: 0, spread: 0 };
  const device = () => new Client("http://127.0.0.1", { cap: 4, storage, patience, fetch });
  const events = [];
  for (const kind of ["answer", "outcome", "decline", "error"])
    addEventListener(`keyveil-${kind}`, ({ detail }) =>
      events.push([kind, detail?.state ?? detail?.code ?? ""]));
  const notice = document.createElement("keyveil-consent");
  document.body.append(notice);
  Object.assign(window, { world, device, events, notice, client: device() });
}"""


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with serving("http://127.0.0.1:9") as site:
        yield site


@pytest.fixture
def page(watched_page: Page, site: Site) -> Page:
    """A page with an empty notice, and ``client``, ``world`` and ``events`` for tests."""
    watched_page.goto(f"{site.url}/blank")
    plans = {name: json.loads(plan.dumps()) for name, plan in PLANS.items()}
    watched_page.evaluate(SET_UP, plans)
    return watched_page


def asked(page: Page) -> None:
    """Let the notice ask about Pepsi."""
    page.evaluate("() => Object.assign(notice, { client, collection: 'Pepsi', record: { Pepsi: 4 } })")


def shows(page: Page, text: str) -> None:
    expect(page.get_by_role("status")).to_have_text(text)


def can_accept(page: Page) -> None:
    expect(page.get_by_role("button", name="Send one message")).to_be_enabled()


def warnings(page: Page) -> list[str]:
    """What the page writes to the console as warnings from now on."""
    lines: list[str] = []

    def note(message: ConsoleMessage) -> None:
        if message.type == "warning":
            lines.append(message.text)

    page.on("console", note)
    return lines


def test_another_collection_is_another_question(page):
    """What the person agrees to is what the notice shows, and nothing goes to the first collection."""
    asked(page)
    expect(page.locator("keyveil-consent")).not_to_contain_text("Tea")
    can_accept(page)
    page.evaluate(
        """() => {
          const buttons = [...notice.shadowRoot.querySelectorAll("button")];
          notice.setAttribute("collection", "Tea");
          for (const button of buttons) button.click(); // at that very moment
          notice.record = { Tea: 4 };
        }"""
    )
    expect(page.locator("keyveil-consent")).to_contain_text("Tea")
    page.get_by_role("button", name="Send one message").click()
    shows(page, "Sent and counted. Thank you.")
    assert page.evaluate("() => [world.sent, events]") == [["Tea"], [["answer", "counted"]]]
    page.evaluate("() => { notice.client = device(); }")
    shows(page, "You have answered this already. Nothing more is sent.")
    page.evaluate("() => { notice.collection = 'Pepsi'; }")
    can_accept(page)


@pytest.mark.parametrize(
    ("button", "text", "event"),
    [
        ("Send one message", "Gezählt.", ["answer", "counted"]),
        ("Do not send", "Nichts gesendet.", ["decline", ""]),
    ],
)
def test_texts_that_change_after_a_decision_do_not_ask_again(page, button, text, event):
    asked(page)
    page.get_by_role("button", name=button).click()
    expect(page.get_by_role("status")).not_to_have_text("Sending …")
    shown = page.get_by_role("list").all_inner_texts()
    page.evaluate(
        """() => { notice.strings = {
          accept: "Senden", decline: "Nicht senden", counted: "Gezählt.", declined: "Nichts gesendet.",
        } }"""
    )
    shows(page, text)
    for name in ("Senden", "Nicht senden", "Throw the coins again"):
        expect(page.get_by_role("button", name=name, exact=True)).to_be_disabled()
    page.evaluate("() => notice.shadowRoot.querySelector('[part=accept]').click()")
    assert page.get_by_role("list").all_inner_texts() == shown, "nothing is drawn anew"
    assert page.evaluate("() => events") == [event]


def test_what_is_missing_is_named_once(page):
    lines = warnings(page)
    expect(page.get_by_role("status")).to_have_count(0)
    page.evaluate("() => { notice.collection = 'Pepsi'; notice.client = client; }")
    page.wait_for_timeout(50)
    page.evaluate("() => { notice.collection = ''; notice.collection = 'Pepsi'; }")
    page.wait_for_timeout(50)
    assert lines[-1:] == ["keyveil: <keyveil-consent> shows nothing until its page sets record"]
    assert len(lines) == len(set(lines)) <= 2
    page.evaluate("() => { notice.record = { Pepsi: 4 }; }")
    can_accept(page)


def test_what_was_set_before_the_module_was_loaded_counts(watched_page, site):
    watched_page.goto(f"{site.url}/blank")
    watched_page.evaluate(
        """async () => {
          const notice = document.createElement("keyveil-consent");
          const offer = () => new Promise(() => {});
          Object.assign(notice, { client: { offer }, collection: "menu", record: {} });
          document.body.append(notice);
          await import("/src/consent.js");
        }"""
    )
    shows(watched_page, "Loading …")


@pytest.mark.parametrize(
    ("code", "world", "text"),
    [
        ("unreachable", {"down": True}, "Keine Verbindung."),
        ("closed", {"about": {"state": "closed"}}, "Nothing was sent: this question is closed."),
        (
            "paused",
            {"about": {"state": "paused"}},
            "Nothing was sent: this question takes no answers now.",
        ),
        ("collector", {"about": {"plan": "?"}}, "Es klappt nicht."),
    ],
)
def test_a_visitor_reads_the_pages_language_and_the_developer_the_console(page, code, world, text):
    lines = warnings(page)
    page.evaluate(
        """(changes) => {
          Object.assign(world, changes);
          notice.strings = { unreachable: "Keine Verbindung.", failed: () => "Es klappt nicht." };
        }""",
        world,
    )
    asked(page)
    shows(page, text)
    assert page.evaluate("() => events") == [["error", code]]
    assert len([line for line in lines if "shows nothing until" not in line]) == 1
    retry = page.get_by_role("button", name="Try again")
    expect(retry).to_have_count(1 if code in ("unreachable", "paused") else 0)


def test_keys_have_names_that_visitors_read(page):
    page.evaluate("() => { notice.labels = { Pepsi: 'Cola', Fries: 'Pommes' } }")
    asked(page)
    notice = page.locator("keyveil-consent")
    expect(notice).to_contain_text("Pommes")
    for _ in range(30):
        page.get_by_role("button", name="Throw the coins again").click()
        text = notice.inner_text()
        assert "Pepsi" not in text
        assert "Fries" not in text


def test_offline_at_first(page):
    """The notice comes back by itself when there is a connection, and when the visitor tries again."""
    page.evaluate("() => { world.down = true }")
    asked(page)
    shows(page, "Nothing was sent: there is no connection now.")
    page.evaluate("() => { world.down = false; dispatchEvent(new Event('online')) }")
    can_accept(page)
    page.evaluate("() => { world.down = true; notice.collection = 'Tea' }")
    retry = page.get_by_role("button", name="Try again")
    retry.click()
    page.wait_for_function("() => events.length === 3")
    page.evaluate("() => { world.down = false }")
    retry.click()
    can_accept(page)


@pytest.mark.parametrize("reloaded", [False, True])
def test_offline_when_the_person_agrees(page, reloaded):
    """When the report has left, the notice says so, and so does an event; also after a reload."""
    asked(page)
    can_accept(page)
    page.evaluate("() => { world.down = true }")
    page.get_by_role("button", name="Send one message").click()
    waiting = "Your message is stored and will be sent when there is a connection."
    shows(page, waiting)
    if reloaded:
        page.evaluate("() => { client.close(); notice.client = device() }")
        expect(page.get_by_role("status")).not_to_have_text("Loading …")
        shows(page, waiting)
    page.evaluate("() => { world.down = false; dispatchEvent(new Event('online')) }")
    shows(page, "Sent and counted. Thank you.")
    assert page.evaluate("() => [world.sent, events]") == [
        ["Pepsi"],
        [["answer", "waiting"], ["outcome", "counted"]],
    ]


def test_a_report_that_another_tab_sends(page):
    """Each tab shows what became of the report, whichever of them sent it."""
    asked(page)
    can_accept(page)
    page.evaluate("() => { world.down = true }")
    page.get_by_role("button", name="Send one message").click()
    shows(page, "Your message is stored and will be sent when there is a connection.")
    page.evaluate(
        """async () => {
          const other = device();
          other.close(); // its page is another one
          world.down = false;
          while (!world.sent.length) await other.flush();
          dispatchEvent(new Event("online"));
        }"""
    )
    shows(page, "Sent and counted. Thank you.")
    assert page.evaluate("() => [world.sent, events.at(-1)]") == [["Pepsi"], ["outcome", "counted"]]


def test_a_report_that_the_collector_refuses(page):
    refused = "The collector did not accept your message. It is stored on this device."
    page.evaluate("() => { world.refusal = { reason: 'token', status: 401 } }")
    asked(page)
    page.get_by_role("button", name="Send one message").click()
    expect(page.get_by_role("status")).to_contain_text(refused)
    page.evaluate("() => { notice.client = device() }")
    expect(page.get_by_role("status")).to_contain_text(refused)
    assert page.evaluate("() => events") == [["answer", "refused"]]


FAILED = "Nothing was sent. Something on this page is not set up correctly."


@pytest.mark.parametrize("when", ["first", "again", "agreed"])
def test_a_record_that_cannot_be_read_sends_nothing(page, when):
    lines = warnings(page)
    page.evaluate(
        """(broken) => { window.broken = broken; notice.record = async () => {
          if (window.broken) throw new Error("a secret of the person");
          return { Pepsi: 4 };
        }; Object.assign(notice, { client, collection: "Pepsi" }) }""",
        when == "first",
    )
    if when != "first":
        can_accept(page)
        page.evaluate("() => { window.broken = true }")
        name = "Throw the coins again" if when == "again" else "Send one message"
        page.get_by_role("button", name=name).click()
    shows(page, FAILED)
    assert page.evaluate("() => [world.sent, events]") == [[], [["error", "page"]]]
    assert "secret" not in "".join(lines)
    assert "the page's record cannot be read" in lines[-1]
    page.evaluate("() => { notice.record = { Pepsi: 4 } }")
    can_accept(page)


@pytest.mark.parametrize(
    ("name", "text"),
    [("loading", FAILED), ("topicOne", FAILED), ("counted", "Sent and counted. Thank you.")],
)
def test_a_text_that_cannot_be_made_is_the_pages_failure(page, name, text):
    """Once the person has agreed, the usual text says what happened."""
    page.evaluate(
        """(name) => { notice.strings = { [name]: () => { throw new Error("no text") } } }""", name
    )
    asked(page)
    if name == "counted":
        page.get_by_role("button", name="Send one message").click()
    shows(page, text)
    assert ["error", "page"] in page.evaluate("() => events")
    assert page.evaluate("() => world.sent") == (["Pepsi"] if name == "counted" else [])
    page.evaluate("() => { notice.strings = {} }")
    if name != "counted":
        can_accept(page)


def test_names_of_keys_that_cannot_be_read_do_not_hide_what_was_sent(page):
    asked(page)
    page.get_by_role("button", name="Send one message").click()
    shows(page, "Sent and counted. Thank you.")
    page.evaluate(
        """() => { const broken = () => { throw new Error("no name") };
          const names = { Pepsi: { get: broken }, Fries: { get: broken } };
          notice.labels = Object.defineProperties({}, names); }"""
    )
    shows(page, "Sent and counted. Thank you.")
    expect(page.get_by_role("button")).to_have_count(0)
    assert page.evaluate("() => events.length") == 2


def test_the_examples_are_those_of_the_latest_record(page):
    """A slow record does not replace the examples of one that was set after it."""
    page.evaluate(
        """() => { notice.record = () => new Promise((resolve) => { window.finish = resolve; });
          Object.assign(notice, { client, collection: "Pepsi" }); }"""
    )
    page.wait_for_function("() => window.finish")
    page.evaluate("() => { notice.record = { Pepsi: 4 } }")
    can_accept(page)
    shown = page.get_by_role("list").all_inner_texts()
    page.evaluate("() => window.finish({ Fries: 1 })")
    page.wait_for_timeout(50)
    assert page.get_by_role("list").all_inner_texts() == shown


def test_a_client_that_is_none_is_said(page):
    page.evaluate("() => Object.assign(notice, { client: {}, collection: 'Pepsi', record: {} })")
    shows(page, FAILED)
    assert page.evaluate("() => events") == [["error", "option"]]


def test_a_language_tag_that_is_none_is_no_failure(page):
    page.evaluate("() => { notice.lang = 'de_DE' }")
    asked(page)
    can_accept(page)


ON_DEMAND = ("messages.js", "check.js")


@pytest.mark.parametrize("offline", [False, True])
def test_what_is_for_troubles_is_loaded_when_something_is_wrong(watch, page, offline):
    """A page whose visitor answers never loads it. If it cannot be loaded, errors have their code."""
    asked_for: list[str] = []
    page.on("request", lambda request: asked_for.append(request.url.split("/")[-1]))
    if offline:
        watch.allow("ERR_FAILED")
        for file in ON_DEMAND:
            page.route(f"**/{file}", lambda route: route.abort())
    asked(page)
    page.get_by_role("button", name="Send one message").click()
    shows(page, "Sent and counted. Thank you.")
    page.evaluate("() => { world.down = true; notice.collection = 'Tea' }")
    shows(page, "Nothing was sent: there is no connection now.")
    assert not set(asked_for) & set(ON_DEMAND)
    page.evaluate("() => { world.down = false; world.about = { state: 'closed' } }")
    said = (
        "async () => { try { await client.plan('Tea', PIN) } catch (e) { return [e.code, e.message] } }"
    )
    pinned = said.replace("PIN", f"'{'0' * 64}'")
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
    assert set(asked_for) & set(ON_DEMAND) == {"messages.js"}
    if not offline:
        lines = page.evaluate("async () => client.check(await client.plan('Tea'), { tea: 4 })")
        assert lines == ["key 'tea' is not in the plan; did you mean 'Tea'?"]
        assert set(ON_DEMAND) <= set(asked_for)
