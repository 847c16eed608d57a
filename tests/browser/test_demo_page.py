"""``keyveil demo`` as someone tries it: the page that asks, the dashboard beside it, and Ctrl-C."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from example_site import CLIENT
from playwright.sync_api import Page, expect
from process import KEYVEIL, user_environment

CROWD = 4_000
"""Simulated visitors who come at once when the demo starts."""
AXE = CLIENT / "node_modules" / "axe-core" / "axe.min.js"


class Demo:
    """``keyveil demo`` as a process on a free port; one simulated visitor comes every two seconds."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [KEYVEIL, "demo", "--visitors", "0.5"],
            cwd=folder,
            env=user_environment(TMPDIR=str(folder)),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # if these tests ignore it
        )
        assert self.process.stdout is not None
        lines = [self.process.stdout.readline() for _ in range(3)]
        addresses = [re.search(r"http://127\.0\.0\.1:\d+/\S+", line) for line in lines[:2]]
        self.dashboard, self.page = (match[0] for match in addresses if match is not None)

    def interrupt(self) -> tuple[int, str]:
        """Ctrl-C; its exit code and what it wrote to stderr."""
        self.process.send_signal(signal.SIGINT)
        errors = self.process.communicate(timeout=60)[1]
        return self.process.returncode, errors

    def close(self) -> None:
        """End it if it has not ended."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Demo]:
    """A demo that runs; all of its files are below ``tmp_path``."""
    demo = Demo(tmp_path)
    yield demo
    demo.close()


def test_a_visitor_answers_the_dashboard_grows_and_ctrl_c_ends_it(watch, demo):
    """No page breaks the policy, and Ctrl-C with both pages open leaves no process and no file."""
    watch.allow("ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED|ERR_EMPTY_RESPONSE|ERR_SOCKET")
    analyst = watch.context().new_page()
    analyst.goto(demo.dashboard)
    expect(analyst.locator(".live.on")).to_have_text("live")
    before = grown_above(analyst, CROWD - 1)
    visitor = watch.context().new_page()
    ordered(visitor, demo)
    expect(visitor.locator("keyveil-consent")).to_contain_text("a few of 5 questions at random")
    expect(visitor.locator("keyveil-consent")).to_contain_text("Any answers can lead to any code")
    visitor.get_by_role("button", name="Send one message").click()
    expect(visitor.get_by_role("status")).to_have_text("Sent and counted. Thank you.")
    grown_above(analyst, before)
    assert analyst.locator("td[data-kind=frequency]").count() == 5
    ordered(visitor, demo)
    expect(visitor.get_by_role("status")).to_have_text(
        "You have answered this already. Nothing more is sent."
    )
    visitor.get_by_role("link", name="What the collector learns").click()
    expect(visitor.locator("td[data-kind=frequency]")).to_have_count(5)
    assert demo.interrupt() == (0, "")
    expect(analyst.locator(".live.on")).to_have_count(0)
    assert list(demo.folder.iterdir()) == []


def ordered(page: Page, demo: Demo) -> None:
    """Open the page, order two foods, rate one of them and go on to the notice."""
    page.goto(demo.page)
    page.get_by_role("checkbox", name="Pepsi").check()
    page.get_by_role("checkbox", name="Fries").check()
    page.get_by_role("slider", name="Rating of Pepsi").fill("4.5")
    assert page.locator(".rating").all_inner_texts() == ["", "3.0", "4.5", "", ""]
    expect(page.get_by_role("slider", name="Rating of Salad")).to_be_disabled()
    page.get_by_role("button", name="Next").click()


def grown_above(page: Page, reports: int) -> int:
    """The number of reports that the dashboard shows, once there are more than some; nobody reloads."""
    shown = page.locator("[data-role=reports]")
    page.wait_for_function(
        """([found, least]) => Number(found.textContent.replace(/\\D/g, "")) > least""",
        arg=[shown.element_handle(), reports],
        timeout=60_000,
    )
    return int(shown.inner_text().replace(",", ""))


def test_the_page_that_asks_is_for_everyone(watch, demo):
    """axe-core finds nothing serious on it, light or dark, and it fits a phone."""
    for scheme, width in (("light", 1000), ("dark", 360)):
        context = watch.context(
            color_scheme=scheme, viewport={"width": width, "height": 900}, bypass_csp=True
        )
        page = context.new_page()
        ordered(page, demo)
        expect(page.get_by_role("button", name="Send one message")).to_be_visible()
        page.add_script_tag(path=str(AXE))
        result = page.evaluate("() => axe.run(document, { resultTypes: ['violations'] })")
        assert [v["id"] for v in result["violations"] if v["impact"] in ("serious", "critical")] == []
        assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
