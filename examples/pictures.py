"""The screenshots of the docs: ``python examples/pictures.py [dashboard] [demo] [consent]``.

Without a name it takes all of them: the dashboard, the page of ``keyveil demo``, and the survey of
``examples/web`` with its notice. They are written to docs/images.

It needs Chromium and the packages of ``keyveil[dev]``. The collector listens only on this machine.
"""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import numpy as np
from PIL import Image
from playwright.sync_api import Browser, sync_playwright

from keyveil import Coins, People, Plan, Schema, Tally
from keyveil.cli.demo_people import FOODS, population

PEOPLE = 50_000
FOLDER = Path(__file__).parents[1] / "docs" / "images"
KEYVEIL = str(Path(sys.executable).parent / "keyveil")
DESK, PHONE = (1100, 760), (390, 800)
PICTURES = (
    ("answers-light", "menu/answers", "light", DESK),
    ("explore-dark", "menu/explore?target=Pepsi&with=Hamburger", "dark", DESK),
    ("matrix-light", "menu/matrix", "light", (1100, 900)),
    ("error-light", "menu/error", "light", (1100, 800)),
    ("plan-dark", "menu/plan", "dark", (1100, 900)),
    ("answers-phone", "menu/answers", "light", PHONE),
)
"""Name, view, colours and size of each picture of the dashboard."""
DEMOS = (("light", "light", (760, 1220)), ("dark", "dark", (760, 1220)), ("phone", "light", (390, 1640)))
"""Name, colours and size of each picture of the page of ``keyveil demo``."""
CONSENTS = (("light", "light", 760), ("dark", "dark", 760), ("phone", "light", 390))
"""Name, colours and width of each picture of the survey in ``examples/web``."""


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """A collector without collections; yields its address."""
    words = [KEYVEIL, "serve", "--store", str(folder / "store.sqlite"), "--port", "0"]
    server = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert server.stdout is not None
        yield re.search(r"http://\S+", server.stdout.readline())[0]  # type: ignore[index]
    finally:
        server.terminate()
        server.wait(30)


@contextmanager
def collector(folder: Path) -> Iterator[str]:
    """A collector with the answers of 50,000 people, always the same; yields its address."""
    plan = Plan.of(Schema.of(list(FOODS), 1, 5), "pairs", 2)
    held, ratings = population(PEOPLE)
    who, foods = np.nonzero(held)
    missing = np.flatnonzero(~held.any(axis=1))
    people = People.of_rows(
        plan.schema,
        np.concatenate([who, missing]),
        np.concatenate([foods, np.full(len(missing), -2)]),
        np.concatenate([ratings[held], np.zeros(len(missing))]),
    )
    tally = Tally(plan).add(plan.privatise(people, Coins.stated("pictures")))
    with serving(folder) as url:
        path, kind = f"{url}/v1/collections", {"content-type": "application/vnd.keyveil.tally"}
        httpx.post(path, json={"name": "menu", "plan": plan.document()}).raise_for_status()
        httpx.post(f"{path}/menu/tallies", content=tally.dumps(), headers=kind).raise_for_status()
        yield url


def take(browser: Browser, url: str, view: str, scheme: str, size: tuple[int, int]) -> bytes:
    """A picture of a view as it looks when everything is drawn, in few colours."""
    width, height = size
    context = browser.new_context(
        color_scheme="dark" if scheme == "dark" else "light", viewport={"width": width, "height": height}
    )
    page = context.new_page()
    page.goto(f"{url}/#/c/{view}")
    page.locator("figure svg").first.wait_for(timeout=60_000)
    page.locator(".wait").first.wait_for(state="detached", timeout=60_000)
    page.wait_for_timeout(700)
    content = packed(page.screenshot())
    context.close()
    return content


def packed(screenshot: bytes) -> bytes:
    """A picture in few colours."""
    content = io.BytesIO()
    picture = Image.open(io.BytesIO(screenshot))
    picture.convert("RGB").quantize(256).save(content, "PNG", optimize=True)
    return content.getvalue()


@contextmanager
def demo() -> Iterator[str]:
    """``keyveil demo``; yields the address of the page that asks."""
    words = [KEYVEIL, "demo", "--visitors", "1"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(3)]
        yield re.search(r"http://\S+", lines[1])[0]  # type: ignore[index]
    finally:
        process.terminate()
        process.wait(30)


@contextmanager
def survey(folder: Path) -> Iterator[str]:
    """The page of ``examples/web``, with a collection that it may ask for; yields its address."""
    site, root = folder / "site", Path(__file__).parents[1]
    shutil.copytree(root / "examples" / "web", site)
    shutil.copytree(root / "clients" / "js" / "src", site / "keyveil")
    handler = partial(Quiet, directory=str(site))
    with serving(folder) as url, ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        address = f"http://127.0.0.1:{server.server_port}"
        page = site / "index.html"
        page.write_text(page.read_text().replace("http://127.0.0.1:8750", url))
        plan = Plan.of(Schema.of(list(FOODS), 1, 5), "kvue", 1).document()
        terms = {"name": "menu", "plan": plan, "terms": {"origins": [address]}}
        httpx.post(f"{url}/v1/collections", json=terms).raise_for_status()
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield address
        server.shutdown()


class Quiet(SimpleHTTPRequestHandler):
    """A server of files that prints nothing."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def take_notice(browser: Browser, url: str, scheme: str, width: int) -> bytes:
    """A picture of the whole survey, filled in, with the notice that asks."""
    context = browser.new_context(
        color_scheme="dark" if scheme == "dark" else "light", viewport={"width": width, "height": 600}
    )
    page = context.new_page()
    page.set_default_timeout(60_000)
    page.goto(url)
    for food, rating in (("Hamburger", "3.5"), ("Pepsi", "4.5")):
        page.get_by_role("checkbox", name=food).check()
        page.get_by_role("slider", name=f"Rating of {food}").fill(rating)
    page.get_by_role("button", name="Next").click()
    page.get_by_role("button", name="Send one message").wait_for()
    page.wait_for_timeout(700)
    content = packed(page.screenshot(full_page=True))
    context.close()
    return content


def take_answered(browser: Browser, url: str, scheme: str, size: tuple[int, int]) -> bytes:
    """A picture of the page that asks, filled in and agreed to."""
    width, height = size
    context = browser.new_context(
        color_scheme="dark" if scheme == "dark" else "light", viewport={"width": width, "height": height}
    )
    page = context.new_page()
    page.set_default_timeout(60_000)
    page.goto(url)
    for food, rating in (("Hamburger", "3.5"), ("Pepsi", "4.5")):
        page.get_by_role("checkbox", name=food).check()
        page.get_by_role("slider", name=f"Rating of {food}").fill(rating)
    page.get_by_role("button", name="Next").click()
    page.get_by_role("button", name="Send one message").click()
    page.get_by_text("Sent and counted").wait_for()
    page.evaluate("scrollTo(0, 0)")
    page.wait_for_timeout(700)
    content = packed(page.screenshot())
    context.close()
    return content


def dashboard_pictures(browser: Browser, folder: Path) -> None:
    """Take the pictures of docs/dashboard.md."""
    with collector(folder) as url:
        for name, view, scheme, size in PICTURES:
            keep(f"dashboard-{name}", take(browser, url, view, scheme, size))


def demo_pictures(browser: Browser, folder: Path) -> None:
    """Take the pictures of the page of ``keyveil demo``."""
    with demo() as address:
        for name, scheme, size in DEMOS:
            keep(f"demo-{name}", take_answered(browser, address, scheme, size))


def consent_pictures(browser: Browser, folder: Path) -> None:
    """Take the pictures of docs/browser.md."""
    with survey(folder) as address:
        for name, scheme, width in CONSENTS:
            keep(f"consent-{name}", take_notice(browser, address, scheme, width))


def main() -> None:
    """Take the named pictures, or all."""
    FOLDER.mkdir(exist_ok=True)
    steps = {"dashboard": dashboard_pictures, "demo": demo_pictures, "consent": consent_pictures}
    with sync_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=flags)
        for name in sys.argv[1:] or steps:
            with tempfile.TemporaryDirectory() as folder:
                steps[name](browser, Path(folder))
        browser.close()


def keep(name: str, content: bytes) -> None:
    """Write a picture."""
    (FOLDER / f"{name}.png").write_bytes(content)
    print(f"{name}.png: {len(content) / 1000:.0f} kB")


if __name__ == "__main__":
    main()
