"""The documentation as a site: it builds without a warning, asks no other machine, has every page."""

from __future__ import annotations

import inspect
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import pandas as pd
import pytest

import keyveil

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
CONFIG = ROOT / "zensical.toml"
OUTSIDE = re.compile(r"<(?:script|link|img|iframe|source)\b[^>]*\b(?:src|href)=[\"']?(https?:)?//", re.I)
"""A part of a page that a browser would ask another machine for."""
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.md"))
SITE_PAGES = [*sorted(DOCS.glob("*.md")), *NOTEBOOKS]
"""All pages but the decisions, which have a page that lists them."""


@pytest.fixture(scope="module")
def tables():
    return runpy.run_path(str(ROOT / "examples" / "doc_tables.py"))


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site of a copy of docs and sources, and what the build said."""
    folder = tmp_path_factory.mktemp("site")
    subprocess.run(["cp", "-r", DOCS, ROOT / "src", folder], check=True)
    (folder / "zensical.toml").write_text(CONFIG.read_text())
    return folder, build(folder)


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    words = [Path(sys.executable).parent / "zensical", "build", "--clean", "--strict"]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)


def pages_of(nav: object) -> set[str]:
    """The pages that a navigation leads to."""
    if isinstance(nav, str):
        return {nav}
    parts = nav.values() if isinstance(nav, dict) else nav
    return set().union(*map(pages_of, parts))


def test_the_site_builds_without_a_warning(site):
    folder, done = site
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No issues found" in done.stdout + done.stderr
    for page in SITE_PAGES:
        built = folder / "out" / "site" / page.relative_to(DOCS).with_suffix(".html")
        assert built.stat().st_size > 2_000


def test_a_broken_link_stops_the_build(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# A page\n\n[nowhere](nowhere.md)\n")
    (tmp_path / "zensical.toml").write_text('[project]\nsite_name = "broken"\nsite_dir = "out/site"\n')
    assert build(tmp_path).returncode != 0


def test_no_page_asks_another_machine_for_anything(site):
    pages = list((site[0] / "out" / "site").rglob("*.html"))
    assert len(pages) > 40
    assert [page.name for page in pages if OUTSIDE.search(page.read_text())] == []
    assert OUTSIDE.search('<link rel="stylesheet" href="https://fonts.example.org/a.css">')
    assert OUTSIDE.search("<script src=//cdn.example.org/a.js>")
    assert not OUTSIDE.search('<a href="https://example.org/">')


def test_the_reference_shows_docstrings_and_inherited_methods(site):
    page = (site[0] / "out" / "site" / "api.html").read_text()
    for name in (
        "plan.plan.Plan",
        "plan.plan.Plan.collect",
        "plan.tally.Tally.query",
        "plan.budget.Budget",
    ):
        assert f'id="keyveil.{name}"' in page
    first = keyveil.Tally.__doc__.splitlines()[0].split("``")[0].strip()
    assert len(first) > 10
    words = " ".join(re.sub(r"<[^>]+>", " ", page).split())
    assert first in words
    for call in ("Client ( url : str", "Budget ( path : str", "Conditionals ( plan : Plan"):
        assert call in words, "how an object is made"


def test_the_navigation_leads_to_every_page():
    nav = tomllib.loads(CONFIG.read_text())["project"]["nav"]
    named = {page.relative_to(DOCS).as_posix() for page in SITE_PAGES}
    assert named | {"decisions/README.md"} == pages_of(nav)


def test_tables_of_the_docs_are_what_the_package_says(tables):
    for page in tables["TABLES"]:
        assert tables["page_with_table"](page) == (DOCS / page).read_text(), "run examples/doc_tables.py"


def test_the_reference_has_every_public_name(tables):
    named = [name for names in tables["REFERENCE"].values() for name in names.split()]
    assert sorted(named) == sorted(keyveil.__all__)
    assert set(tables["MODULES"]) == set(keyveil._SUBJECTS)


def unexplained(call: object, *documented: object) -> list[str]:
    """Parameters of a call that none of the docstrings names."""
    text = " ".join(inspect.getdoc(each) or "" for each in (call, *documented)).lower()
    names = [name for name in inspect.signature(call).parameters if name not in ("self", "cls")]
    return [name for name in names if not re.search(rf"\b{name.rstrip('s')}", text)]


def test_the_reference_explains_every_parameter_of_functions_and_of_what_users_make():
    public = {name: getattr(keyveil, name) for name in keyveil.__all__}
    calls = {name: (call,) for name, call in public.items() if inspect.isfunction(call)}
    calls |= {name: (public[name],) for name in ("Client", "Budget", "Ledger", "Conditionals")}
    calls["AsyncClient"] = (keyveil.AsyncClient, keyveil.Client)
    for name in ("Plan.of", "Plan.choose", "Plan.collect", "Schema.of", "Schema.from_frame"):
        owner, method = name.split(".")
        calls[name] = (getattr(public[owner], method),)
    for name in ("Tally.estimate", "Tally.query", "Client.answer", "Client.flush", "Budget.answer"):
        owner, method = name.split(".")
        calls[name] = (getattr(public[owner], method), public[owner])
    assert len(calls) >= 25
    assert {name: lacking for name, call in calls.items() if (lacking := unexplained(*call))} == {}
    assert unexplained(lambda epsilon: None) == ["epsilon"]


def test_every_picture_of_the_pages_exists_and_every_image_is_shown():
    pages = [ROOT / "README.md", *DOCS.rglob("*.md")]
    shown = {
        (page.parent / name).resolve()
        for page in pages
        for name in re.findall(r"!\[.*?\]\(([^()]+\.png)\)", page.read_text())
    }
    assert [str(path) for path in shown if not path.is_file()] == []
    assert {path.resolve() for path in DOCS.rglob("*.png")} <= shown


def test_every_mark_of_a_benchmark_is_on_the_page_that_it_writes_to():
    source = (ROOT / "bench" / "planner.py").read_text()
    assert '"docs" / "planner-benchmarks.md"' in source  # where the others write, too
    marks = re.findall(r"<!-- bench:([\w-]+) -->", (DOCS / "planner-benchmarks.md").read_text())
    told_the_table = ["published", "ours", "key-coverage", "worlds", "worlds-ours", "worlds-raw"]
    told_nothing = ["told", "blind", "pilot"]
    predicted = ["predicted-auto", "predicted-conditional", "predicted"]
    others = ["side", "caps", "spread", "end_to_end"]
    assert marks == told_the_table + told_nothing + predicted + others
    assert "<!-- bench" not in (DOCS / "planner.md").read_text()


SENTENCE = re.compile(r"(?<=[a-z0-9`)\]%*][.?!]) (?=[A-Z`\[*])")
"""Where a sentence ends and another begins on the same line, once code is masked."""


def sentences_that_share_a_line(text: str) -> list[str]:
    """Lines of prose with more than one sentence; code, tables, headings and benchmarks aside."""
    crowded, aside = [], False
    for line in text.splitlines():
        if line.startswith(("<!-- bench", "<!-- table", "<!-- false")):
            aside = True
        elif line.startswith(("<!-- /", "<!-- end")):
            aside = False
        elif line.lstrip().startswith("```"):
            aside = not aside
        prose = not aside and not line.startswith("    ") and line.lstrip()[:1] not in ("|", "#", "<")
        masked = re.sub(
            r"\b(Sec|Secs|Fig|Figs|Eq|Thm|al)\.|`[^`]+`", "`code`", line.lstrip("0123456789. ")
        )
        if prose and SENTENCE.search(masked):
            crowded.append(line)
    return crowded


def test_a_line_of_a_page_has_one_sentence():
    pages = {ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *DOCS.rglob("*.md")}
    pages -= set(NOTEBOOKS)  # written from the notebooks
    assert {
        page.name: sentences
        for page in pages
        if (sentences := sentences_that_share_a_line(page.read_text()))
    } == {}
    assert sentences_that_share_a_line("One thing is so. Another is not.\n")
    assert sentences_that_share_a_line("- **Bold.** It is one sentence.\n- It runs `a. B` here.\n") == []


def row_of(page: str, start: str) -> list[str]:
    """The cells of the only row of a page that begins so, the first aside."""
    (row,) = (line for line in page.splitlines() if line.startswith(f"| {start} |"))
    return [cell.strip() for cell in row.strip("|").split("|")][1:]


def number(cell: str) -> float:
    return float(re.sub(r"[^0-9.]", "", cell))


def test_the_comparison_in_readme_has_the_figures_of_the_benchmarks():
    """In microseconds, as README rounds them; the benchmarks have nanoseconds and ratios."""
    readme, benchmarks = (ROOT / "README.md").read_text(), (DOCS / "benchmarks.md").read_text()
    krr = dict(
        zip(row_of(benchmarks, "task | NumPy"), row_of(benchmarks, "k-RR, 100 states"), strict=True)
    )
    batch = number(krr["keyveil"]) / 1000
    pure_ldp, multi_freq, opendp = (
        number(krr[package]) * batch for package in ("pure-ldp", "multi-freq-ldpy", "OpenDP")
    )
    single = number(row_of(benchmarks, "keyveil, grr, Plan.report, a call and a new AES key each")[1])
    of_a_table = number(row_of(benchmarks, "keyveil, grr, a batch")[1]) / 1000
    ours, *others = row_of(readme, "one person's report by k-RR over 100 keys")
    assert number(ours) == pytest.approx(single / 1000, rel=0.05)
    shown = [number(cell) for cell in others[:3]]
    assert shown == pytest.approx([opendp, pure_ldp, multi_freq], rel=0.15)
    assert number(row_of(readme, "the same in a batch, each person")[0]) == pytest.approx(
        of_a_table, rel=0.2
    )


def test_the_story_in_readme_has_the_truths_of_its_table():
    readme = (ROOT / "README.md").read_text()
    story = runpy.run_path(str(ROOT / "bench" / "story.py"))
    orders = pd.DataFrame(keyveil.synthetic.orders(60_000))
    truths = dict(zip(story["QUERIES"], story["truths"](orders, 60_000), strict=True))
    shown = re.findall(r"^(\w+\(.+?\)) +[\d.]+ +\[[\d.]+, [\d.]+\]  (?:yes|no sign)$", readme, re.M)
    true = [truths[query] for query in shown]
    answers = ", ".join(f"{truth:.2f}" for truth in true[:-1]) + f" and {true[-1]:.2f}"
    assert len(shown) == 5
    assert f"In the made-up table itself these five answers are {answers}.\n" in readme


def test_what_readme_says_of_conditionals_is_in_their_tables():
    page = (DOCS / "conditional.md").read_text()
    table = page[page.index("\n## Eight correlated keys") :].partition("<!-- /bench")[0]
    rows = [line.split("|") for line in table.splitlines() if "| auto |" in line]
    assert len(rows) >= 8
    assert min(number(row[place]) for row in rows for place in (6, 8)) >= 40, "of the error of IOH"
    real = page[page.index("### Eight keys of real tables") :]
    lines = [line for line in real.splitlines() if re.match(r"\| .*, (frequency|mean) \|", line)]
    cells = [line.split("|")[2:-1] for line in lines]
    assert len(cells) == 8, "two statistics of four tables"
    assert 7 <= min(number(cell) for row in cells for cell in row) < 8
    readme = (ROOT / "README.md").read_text()
    assert "IOH, has a mean squared error that is [at least 40 times as large]" in readme
    assert "On four real tables it is [at least 7 times as large]" in readme
