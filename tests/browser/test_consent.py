"""The notice as a page meets it: what it shows when something is missing, changes, fails or comes late.

The client is a real one; its requests are answered within the page.
"""

from __future__ import annotations

import pytest
from notice_page import FAILED, asked, can_accept, shows, with_notice
from playwright.sync_api import ConsoleMessage, Page, expect

from keyveil import Plan, Schema

PLANS = {name: Plan.of(Schema.of(["Fries", name], 1, 5), "kvue", 1) for name in ("Pepsi", "Tea")}


@pytest.fixture
def page(blank_page: Page) -> Page:
    """A page with an empty notice that may ask about Pepsi or Tea."""
    return with_notice(blank_page, PLANS)


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
    # half of the reports name Fries: throw the coins until one names Tea
    page.wait_for_function(
        """() => {
          notice.shadowRoot.querySelector("[part=again]")?.click();
          return notice.shadowRoot.textContent.includes("Tea");
        }"""
    )
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


def test_what_was_set_before_the_module_was_loaded_counts(blank_page):
    blank_page.evaluate(
        """async () => {
          const notice = document.createElement("keyveil-consent");
          const offer = () => new Promise(() => {});
          Object.assign(notice, { client: { offer }, collection: "menu", record: {} });
          document.body.append(notice);
          await import("/src/consent.js");
        }"""
    )
    shows(blank_page, "Loading …")


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
    can_accept(page)
    shown = ""
    for _ in range(30):
        page.get_by_role("button", name="Throw the coins again").click()
        shown += " ".join(page.get_by_role("list").all_inner_texts())
    for name in ("Cola", "Pommes"):
        assert name in shown  # each of 180 reports names one of the two: a false alarm in 2^179
    for key in ("Pepsi", "Fries"):
        assert key not in shown


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
    waiting = "Your message is stored and sent again until it counts."
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
    shows(page, "Your message is stored and sent again until it counts.")
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
