"""The dashboard in Chromium: a thousand keys, and a matrix of a hundred."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from keyveil import Coins, People, Plan, Schema, Tally

from .table import Outcome, Table, rows

AIM_KEYS, AIM_SEARCH, AIM_MATRIX = 1.0, 0.1, 0.5
"""Seconds: from the load event to rows that can be used; a search; from the answer to the picture."""
KEYVEIL = str(Path(sys.executable).parent / "keyveil")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
]

WATCH = """
window.firsts = {};
const watched = {rows: ".listing td[data-kind]", matrix: ".drawing.fixed svg"};
new MutationObserver(() => {
  for (const [name, what] of Object.entries(watched)) {
    if (!(name in window.firsts) && document.querySelector(what)) {
      window.firsts[name] = null;
      requestAnimationFrame(() => setTimeout(() => { window.firsts[name] = performance.now(); }));
    }
  }
}).observe(document, {subtree: true, childList: true});
"""
"""Notes when something was first painted: the task after the frame in which it appeared."""
LOADED = "performance.getEntriesByType('navigation')[0].loadEventEnd"
ANSWERED = (
    "performance.getEntriesByType('resource').find(e => e.name.includes('/conditional')).responseEnd"
)
SEARCH = """async () => {
  const input = document.querySelector("[data-id=find]"), begun = performance.now();
  input.value = "99";
  input.dispatchEvent(new Event("input"));
  await new Promise(done => requestAnimationFrame(() => setTimeout(done)));
  return performance.now() - begun;
}"""


def run(quick: bool) -> Outcome:
    """Medians over fresh pages, in seconds."""
    from playwright.sync_api import sync_playwright

    timings: dict[str, list[float]] = {}
    with (
        tempfile.TemporaryDirectory() as name,
        _collector(Path(name)) as url,
        sync_playwright() as driver,
    ):
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        for _ in range(3 if quick else 11):
            for part, seconds in _once(browser, url).items():
                timings.setdefault(part, []).append(seconds)
        browser.close()
    middle = {part: median(seconds) for part, seconds in timings.items()}
    lines = [
        ("1,000 keys: rows after the load event", f"{middle['rows']:.2f}", f"{AIM_KEYS:g}"),
        ("1,000 keys: processor time of the whole page", f"{middle['rows_work']:.2f}", ""),
        ("1,000 keys: a search", f"{middle['search']:.3f}", f"{AIM_SEARCH:g}"),
        ("100 x 100 matrix: painted after the answer", f"{middle['matrix']:.2f}", f"{AIM_MATRIX:g}"),
        ("100 x 100 matrix: processor time of the whole page", f"{middle['matrix_work']:.2f}", ""),
    ]
    shown = Table("The dashboard in Chromium, median seconds", ("what", "seconds", "aim"), rows(lines))
    aims = {"rows": AIM_KEYS, "search": AIM_SEARCH, "matrix": AIM_MATRIX}
    missed = [
        f"dashboard: {part} {middle[part]:.2f} s" for part, aim in aims.items() if middle[part] > aim
    ]
    return Outcome("dashboard", (shown,), {"seconds": timings}, tuple(missed))


def _once(browser: Any, url: str) -> dict[str, float]:
    """Seconds of one visit to each page, with nothing kept from the visits before."""
    taken = {}
    for name, view in (("rows", "thousand/answers"), ("matrix", "hundred/matrix")):
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        page = context.new_page()
        page.add_init_script(WATCH)
        work = context.new_cdp_session(page)
        work.send("Performance.enable", {"timeDomain": "threadTicks"})
        page.goto(f"{url}/#/c/{view}")
        for _ in range(15_000):  # the policy forbids the functions that Playwright would wait with
            if page.evaluate(f"window.firsts.{name} > 0"):
                break
            time.sleep(0.02)
        else:
            raise SystemExit(f"{view} was not painted; the page says: {page.inner_text('body')[:500]!r}")
        begun = page.evaluate(LOADED if name == "rows" else ANSWERED)
        taken[name] = max(0.0, page.evaluate(f"window.firsts.{name}") - begun) / 1000
        metrics = {m["name"]: m["value"] for m in work.send("Performance.getMetrics")["metrics"]}
        taken[f"{name}_work"] = metrics["TaskDuration"]
        if name == "rows":
            taken["search"] = page.evaluate(SEARCH) / 1000
        context.close()
    return taken


@contextmanager
def _collector(folder: Path) -> Iterator[str]:
    """A collector with both collections; its address."""
    words = [KEYVEIL, "serve", "--store", str(folder / "store.sqlite"), "--port", "0"]
    server = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert server.stdout is not None
        address = re.search(r"http://\S+", server.stdout.readline())
        assert address is not None
        _fill(address[0], "thousand", Plan.of(Schema.of(_names(1000), 0, 10), "kvue", 2), 50_000)
        _fill(address[0], "hundred", Plan.of(Schema.of(_names(100), 1, 5), "pairs", 6), 50_000)
        yield address[0]
    finally:
        server.terminate()
        server.wait(30)


def _names(number: int) -> list[str]:
    return [f"key {place}" for place in range(number)]


def _fill(url: str, name: str, plan: Plan, people: int) -> None:
    """Make a collection, and bring in the tally of people who hold a fifth of the keys."""
    draw = Coins.stated("dashboard bench").generator()
    held = draw.random((people, len(plan.schema.keys))) < 0.2
    who, places = np.nonzero(held)
    low, high = float(plan.schema.low[0]), float(plan.schema.high[0])
    table = People.of_rows(plan.schema, who, places, draw.uniform(low, high, len(who)))
    tally = Tally(plan).add(plan.privatise(table, Coins.stated("dashboard bench")))
    body = json.dumps({"name": name, "plan": plan.document()}).encode()
    for path, content, kind in (
        ("", body, "application/json"),
        (f"/{name}/tallies", tally.dumps(), "application/vnd.keyveil.tally"),
    ):
        request = urllib.request.Request(f"{url}/v1/collections{path}", content, {"content-type": kind})
        with urllib.request.urlopen(request, timeout=60) as response:
            assert response.status in (200, 201)
