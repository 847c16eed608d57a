"""A collector that lies, stalls, floods and redirects, over real connections to a page in Chromium.

What it says about a collection or a plan is refused before the record is read. What it says about a
report is no reason to fail: the report stays as it is.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from example_site import serving
from playwright.sync_api import Page

from keyveil import Plan, Schema
from keyveil.plan.plan_document import canonical

PLAN = Plan.of(Schema.of(["Fries", "Pepsi"], 1, 5), "kvue", 1)
DAY = 86_400
COUNTED = {"accepted": 1, "failed": []}
Handler = BaseHTTPRequestHandler

ANSWER = """async ([url, page]) => {
  const { Client, memoryStorage } = await import("/src/index.js");
  const timeout = AbortSignal.timeout.bind(AbortSignal);
  if (page.hurry) AbortSignal.timeout = (milliseconds) => timeout(milliseconds / 30);
  const patience = { attempts: 2, first: 0.01, settle: 0, spread: 0 };
  const client = new Client(url, { cap: 4, storage: memoryStorage(), patience });
  client.close();
  let reads = 0;
  const begun = performance.now();
  const record = () => { reads++; return { Pepsi: 2 }; };
  const told = {};
  try { Object.assign(told, await client.answer("menu", record)); }
  catch (error) { told.said = String(error); }
  return { ...told, reads, seconds: (performance.now() - begun) / 1000, ...(await client.budget()) };
}"""


def about(**changes: Any) -> bytes:
    epoch = {"now": int(time.time()) // DAY, "seconds": DAY}
    document = {"plan": PLAN.hash, "state": "open", "token": False, "epoch": epoch, **changes}
    return json.dumps(document).encode()


class Hostile:
    """A server whose three answers (about, plan, report) are replaced by tests."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answers: dict[str, Callable[[Handler], None]] = {}
        hostile = self

        class Answering(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_OPTIONS(self) -> None:
                self.send_response(204)
                self.send_header("access-control-allow-origin", "*")
                self.send_header("access-control-allow-headers", "content-type")
                self.end_headers()

            def do_GET(self) -> None:
                hostile.asked.append(f"{self.command} {self.path}")
                kind = "plan" if self.path.endswith("/plan") else "about"
                self.answer(kind if "elsewhere" not in self.path else "elsewhere")

            def do_POST(self) -> None:
                hostile.asked.append(f"{self.command} {self.path}")
                self.body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                self.answer("report")

            def answer(self, kind: str) -> None:
                with contextlib.suppress(OSError):  # the client has gone
                    hostile.answers.get(kind, honest(kind))(self)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


def sent(
    content: bytes, status: int = 200, kind: str = "application/json", **headers: str
) -> Callable[[Handler], None]:
    """An answer with these bytes."""

    def answer(handler: Handler) -> None:
        handler.send_response(status)
        usual = {"access_control_allow_origin": "*", "content_type": kind}
        for name, value in {**usual, "content_length": str(len(content)), **headers}.items():
            if value:
                handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(content)

    return answer


def honest(kind: str) -> Callable[[Handler], None]:
    if kind == "plan":
        return sent(canonical(PLAN.document()))
    return sent(about() if kind == "about" else json.dumps(COUNTED).encode())


def redirected(handler: Handler) -> None:
    """The same path below another, by the status that keeps method and body."""
    sent(b"", 307, location=f"/elsewhere{handler.path}")(handler)


def endless(handler: Handler) -> None:
    """A megabyte after the other, without an end."""
    sent(b"", content_length="", transfer_encoding="chunked")(handler)
    while True:
        handler.wfile.write(b"100000\r\n" + b" " * 2**20 + b"\r\n")


def trickling(handler: Handler) -> None:
    """A byte now and then, without an end."""
    sent(b"{", content_length="10000")(handler)
    while True:
        time.sleep(0.05)
        handler.wfile.write(b" ")


def cut(handler: Handler) -> None:
    """Half of what was announced, then nothing more."""
    sent(about()[:40], content_length="400")(handler)
    handler.close_connection = True


BOMB = sent(gzip.compress(b" " * 2**27, 1), content_encoding="gzip")
LOGIN = sent(b"<!doctype html><title>Hotel</title>", kind="text/html")
LISTS = b"[" * 200_000 + b"]" * 200_000
REFUSED: dict[str, tuple[str, Callable[[Handler], None], str]] = {
    "a redirect": ("about", redirected, "cannot be reached"),
    "a redirect of the plan": ("plan", redirected, "cannot be reached"),
    "an answer for other pages": (
        "about",
        sent(about(), access_control_allow_origin=""),
        "cannot be re",
    ),
    "a login page": ("about", LOGIN, "not a keyveil collector"),
    "a login page as plan": ("plan", LOGIN, "text that is no JSON"),
    "a body that never ends": ("about", endless, "sent too much"),
    "a plan that never ends": ("plan", endless, "sent too much"),
    "128 MiB in a small packet": ("about", BOMB, "sent too much"),
    "128 MiB as plan": ("plan", BOMB, "sent too much"),
    "a byte now and then": ("about", trickling, "cannot be reached"),
    "a cut connection": ("about", cut, "cannot be reached"),
    "a list of lists": ("plan", sent(LISTS), "text that is no JSON"),
    "an error that asks for a year": ("about", sent(b"{}", 503, retry_after="31536000"), "cannot be re"),
    "null": ("about", sent(b"null"), "not a keyveil collector"),
}
"""Which answer is replaced, by what, and what the client then says."""

TEXT = {"toString": 1, "valueOf": 1}
REPORTS: dict[str, tuple[Callable[[Handler], None], str]] = {
    "a redirect": (redirected, "waiting"),
    "a login page": (LOGIN, "waiting"),
    "a body that never ends": (endless, "waiting"),
    "a byte now and then": (trickling, "waiting"),
    "nothing counted": (sent(b'{"accepted":0,"failed":[]}'), "waiting"),
    "lists in place of numbers": (sent(b'{"accepted":[1],"failed":[]}'), "waiting"),
    "an error that says final": (sent(b'{"reason":"closed_epoch"}', 500), "waiting"),
    "a reason that is no text": (sent(json.dumps({"reason": TEXT}).encode(), 410), "refused"),
}
"""What a collector answers to a report, and the state that the report then has."""


@pytest.fixture(scope="module")
def hostile() -> Iterator[Hostile]:
    server = Hostile()
    yield server
    server.close()


@pytest.fixture
def page(watch, hostile) -> Iterator[Page]:
    """An empty page that may connect to the hostile collector."""
    watch.allow("ERR_|CORS|status of (410|500|503)")
    with serving(hostile.url) as site:
        page = watch.context().new_page()
        page.goto(f"{site.url}/blank")
        yield page


def answered(page: Page, hostile: Hostile, **answers: Callable[[Handler], None]) -> dict[str, Any]:
    """What happens to an answer under these answers of the collector.

    Under one that trickles, time runs out thirty times as fast.
    """
    hostile.answers, hostile.asked = answers, []
    slow = trickling in answers.values()
    return page.evaluate(ANSWER, [hostile.url, {"hurry": slow}])


def test_what_it_says_about_a_collection_is_refused_before_the_record_is_read(page, hostile):
    for what, (kind, answer, reason) in REFUSED.items():
        outcome = answered(page, hostile, **{kind: answer})
        assert re.search(reason, outcome.get("said", "")), f"{what}: {outcome}"
        assert re.match("(ClientError|PlanError): [^\n]+$", outcome["said"]), what
        assert (outcome["reads"], outcome["spent"]) == (0, "0"), what
        assert not [path for path in hostile.asked if "POST" in path or "elsewhere" in path], what
        assert outcome["seconds"] < 30, what


def test_what_it_says_about_a_report_never_loses_or_changes_it(page, hostile):
    for what, (answer, state) in REPORTS.items():
        outcome = answered(page, hostile, report=answer)
        assert (outcome.get("state"), outcome["reads"]) == (state, 1), f"{what}: {outcome}"
        assert outcome["spent"] == PLAN.document()["epsilon"]["proven"], what
        assert not [path for path in hostile.asked if "elsewhere" in path], what

    def failing(handler: Any) -> None:
        """A failure of this very report whose reason is no text."""
        (report,) = handler.body["reports"]
        failure = {"id": report["id"], "reason": TEXT, "retry": True}
        sent(json.dumps({"accepted": 0, "failed": [failure]}).encode())(handler)

    outcome = answered(page, hostile, report=failing)
    assert (outcome["state"], outcome["reason"]) == ("waiting", "unreadable")


def test_the_honest_answers_are_counted(page, hostile):
    """What the tests above replace is the only reason for what they see."""
    assert answered(page, hostile)["state"] == "counted"
