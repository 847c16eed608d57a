"""Time of a report, and of reading a plan, with the client for web pages in Chromium."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from keyveil import Plan, Schema
from keyveil.testing import example_plan

from .table import Outcome, Table, rows

MODULES = Path(__file__).parents[1] / "clients" / "js" / "src"
ORIGIN = "http://127.0.0.1:1"  # nothing listens there: the browser gets the modules from this process
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
)
SINGLE = ("rr", "privkv", "f2m", "kvue", "kvoh", "bisample", "graded", "optimal")
"""Mechanisms that speak of one key."""
SETS = ("pairs", "pckv_ue", "collision", "coco")
AIM_SINGLE, AIM_IOH = 0.2, 5.0
"""Milliseconds for a report about one key, and for IOH over 8 keys."""

MEASURE = """async ([text, record, count, rounds]) => {
  const { readPlan } = await import("/plan.js");
  const { drawCells } = await import("/report.js");
  const begun = performance.now();
  const plan = await readPlan(text);
  const read = performance.now() - begun;
  const times = [];
  for (let round = 0; round < rounds; round++) {
    const start = performance.now();
    for (let i = 0; i < count; i++) drawCells(plan, record);
    times.push((performance.now() - start) / count);
  }
  return { first: times[0], report: times.sort((a, b) => a - b)[rounds >> 1], read };
}"""


def run(quick: bool) -> Outcome:
    """The table of all plans."""
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium")
    if program is None:
        raise SystemExit("this benchmark needs Chromium: apt-get install chromium")
    lines, figures, missed = [], {}, []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        page = browser.new_page()
        page.route("**/*", _serve)
        page.goto(f"{ORIGIN}/")
        for name, plan, aim in _plans():
            record = dict.fromkeys(plan.schema.keys[:10], 0.5)
            count = 20 if plan.mechanism_name == "ioh" else 200
            taken = page.evaluate(MEASURE, [plan.dumps(), record, count, 5 if quick else 25])
            shown = "" if aim is None else f"{aim} ms"
            lines.append((name, f"{taken['report']:.3f} ms", shown, f"{taken['read']:.1f} ms"))
            figures[name] = taken
            if aim is not None and taken["report"] > aim:
                missed.append(f"{name}: {taken['report']:.3f} ms, aim {aim} ms")
        version = browser.version
        browser.close()
    columns = ("plan", "a report", "aim", "reading the plan")
    note = f"Chromium {version}. Median of batches; reading a plan includes its hash and its proof."
    table = Table("Time of a report in a browser", columns, rows(lines), note)
    return Outcome("browser", (table,), figures, tuple(missed))


def _plans() -> list[tuple[str, Plan, float | None]]:
    plans: list[tuple[str, Plan, float | None]] = []
    for name in SINGLE:
        plans.append((f"{name}, 100 keys", example_plan(Schema.of(100), name, 1), AIM_SINGLE))
    plans.append(("kvue, 10,000 keys", example_plan(Schema.of(10_000), "kvue", 1), AIM_SINGLE))
    plans.append(("ioh, 8 keys", example_plan(Schema.of(8), "ioh", 1), AIM_IOH))
    for name in SETS:
        plans.append((f"{name}, 100 keys", example_plan(Schema.of(100), name, 1), None))
    return plans


def _serve(route: Any) -> None:
    """Answer the browser's request for a module."""
    name = urlsplit(route.request.url).path.strip("/")
    file = MODULES / name
    if name and file.is_file():
        route.fulfill(body=file.read_bytes(), content_type="text/javascript")
    else:
        route.fulfill(body="<!doctype html><title>bench</title>", content_type="text/html")
