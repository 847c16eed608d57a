"""Shared by the tests in a real browser: Chromium, pages that are watched, and a running collector.

- ``chromium``: a running browser, one for each file of tests.
- ``watch``: makes contexts (separate visitors) and collects everything that a page must not do.
- ``watched_page``: a page of a new context.
- ``blank_page``: an empty page that may load the client's modules.
- ``running_collector``: a collector process with an admin token, one for each file of tests.

A test fails at its end if one of its pages asked another machine for anything, broke its
content-security policy, threw an error, or wrote an error to the console that ``watch.allow`` does not
name.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from example_site import Site, serving
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    WebError,
    expect,
    sync_playwright,
)
from process import Process, keyveil

from keyveil import Plan

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
)
LOCAL = ("127.0.0.1", "localhost")
REPORT_VIOLATIONS = """
addEventListener("securitypolicyviolation", event =>
  console.error("CSP violation: " + event.effectiveDirective + " " + event.blockedURI));
"""


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Chromium of this machine, without background traffic and without a way to other machines.

    It ends with the file of tests, because its event loop runs until then and other files need their
    own.
    """
    program = shutil.which("chromium")
    assert program is not None, "the tests need Chromium: apt-get install chromium"
    expect.set_options(timeout=60_000)  # a machine that is busy with other tests may take long
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        yield browser
        browser.close()


class Watch:
    """Makes contexts and collects what their pages must not do."""

    def __init__(self, browser: Browser) -> None:
        self.browser = browser
        self.faults: list[str] = []
        """What was seen; a test fails at its end if this is not empty."""
        self._allowed: list[re.Pattern[str]] = []
        self._contexts: list[BrowserContext] = []

    def allow(self, pattern: str) -> None:
        """Errors on the console that match a regular expression are part of the test."""
        self._allowed.append(re.compile(pattern))

    def context(self, **options: Any) -> BrowserContext:
        """A new visitor: an empty context of its own storage, watched."""
        context = self.browser.new_context(**options)
        context.add_init_script(REPORT_VIOLATIONS)
        context.on("request", self._requested)
        context.on("console", self._said)
        context.on("weberror", self._thrown)
        self._contexts.append(context)
        return context

    def _requested(self, request: Request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme not in ("data", "blob", "about") and parts.hostname not in LOCAL:
            self.faults.append(f"external request: {request.url}")

    def _said(self, message: ConsoleMessage) -> None:
        text = message.text
        if "Content Security Policy" in text or "CSP violation" in text:
            self.faults.append(f"CSP violation: {text}")
        elif message.type == "error" and not any(p.search(text) for p in self._allowed):
            self.faults.append(f"console: {text}")

    def _thrown(self, error: WebError) -> None:
        self.faults.append(f"page error: {error.error}")

    def close(self) -> None:
        """Close all contexts."""
        for context in self._contexts:
            context.close()


@pytest.fixture
def watch(chromium: Browser) -> Iterator[Watch]:
    """Contexts whose faults fail the test."""
    watch = Watch(chromium)
    yield watch
    watch.close()
    assert watch.faults == []


@pytest.fixture
def watched_page(watch: Watch) -> Page:
    """A page of a new context whose faults fail the test."""
    return watch.context().new_page()


@pytest.fixture(scope="module")
def offline_site() -> Iterator[Site]:
    """A site with the client's modules, whose pages have no collector."""
    with serving("http://127.0.0.1:9") as site:
        yield site


@pytest.fixture
def blank_page(watched_page: Page, offline_site: Site) -> Page:
    """An empty page that may load the client's modules; there is no collector."""
    watched_page.goto(f"{offline_site.url}/blank")
    return watched_page


class RunningCollector:
    """``keyveil serve`` with an admin token."""

    def __init__(self, folder: Path) -> None:
        store = str(folder / "store.sqlite")
        keyveil("migrate", "--store", store)
        self.admin_token = keyveil("token", "create", "--role", "admin", "--store", store).stdout.strip()
        self.process = Process(store, folder)
        self.url = self.process.url
        self.admin = httpx.Client(
            base_url=self.url, headers={"authorization": f"Bearer {self.admin_token}"}, timeout=30
        )
        """Requests with the admin token."""

    def create(self, name: str, plan: Plan, **terms: Any) -> dict[str, Any]:
        """Create an open collection whose reports pages of any origin may send; what the collector
        answers. ``terms`` are those of ``keyveil collection create``.
        """
        body = {"name": name, "plan": plan.document(), "terms": {"origins": ["*"], **terms}}
        response = self.admin.post("/v1/collections", json=body)
        assert response.status_code == 201, response.text
        return response.json()

    def reports(self, name: str) -> int:
        """Number of counted reports of all rounds of a collection."""
        status = self.admin.get(f"/v1/collections/{name}/status").json()
        return sum(round_["reports"] for round_ in status["rounds"])

    def close(self) -> None:
        """End the process."""
        self.admin.close()
        self.process.end()


@pytest.fixture(scope="module")
def running_collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCollector]:
    """A collector for a file of tests; tests tell their collections apart by name."""
    collector = RunningCollector(tmp_path_factory.mktemp("collector"))
    yield collector
    collector.close()
