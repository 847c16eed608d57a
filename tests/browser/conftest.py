"""A real browser, a page that is watched, and a collector as a process of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, sync_playwright
from process import Process, keyveil

from keyveil import Plan

CHROMIUM = "/usr/bin/chromium"
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
WATCH = """
addEventListener("securitypolicyviolation", (event) => {
  console.error("policy violated: " + event.violatedDirective + " " + event.blockedURI);
});
"""


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """Debian's Chromium, without networking of its own."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def watched_page(chromium: Browser, running_collector: RunningCollector) -> Iterator[Page]:
    """A page in a new context. Requests elsewhere, violations of the policy and errors fail the test."""
    context = chromium.new_context(color_scheme="light", viewport={"width": 1200, "height": 850})
    page, problems = context.new_page(), []
    page.add_init_script(WATCH)
    own = (running_collector.url, "blob:", "data:", "about:")
    page.on("request", lambda r: r.url.startswith(own) or problems.append(f"request to {r.url}"))
    page.on("pageerror", lambda error: problems.append(f"error: {error}"))

    def heard(message: Any) -> None:
        if "policy" in message.text.lower() and message.type == "error":
            problems.append(message.text)

    page.on("console", heard)
    page.set_default_timeout(30_000)
    yield page
    context.close()
    assert problems == []


class RunningCollector:
    """A collector with an admin token."""

    def __init__(self, folder: Path) -> None:
        self.store = str(folder / "collector.sqlite")
        self.admin_token = keyveil(
            "token", "create", "--role", "admin", "--store", self.store
        ).stdout.strip()
        self.process = Process(self.store, folder)
        self.url = self.process.url
        self.client = httpx.Client(
            base_url=self.url, headers={"authorization": f"Bearer {self.admin_token}"}, timeout=60
        )

    def create(self, name: str, plan: Plan, **terms: Any) -> dict[str, Any]:
        """Make a collection of a plan."""
        body = {"name": name, "plan": plan.document(), "terms": terms}
        answer = self.client.post("/v1/collections", json=body)
        assert answer.status_code == 201, answer.text
        return dict(answer.json())

    def end(self) -> None:
        """Stop the process."""
        self.client.close()
        self.process.end()


@pytest.fixture
def running_collector(tmp_path: Path) -> Iterator[RunningCollector]:
    """A collector of this test alone."""
    collector = RunningCollector(tmp_path)
    yield collector
    collector.end()
