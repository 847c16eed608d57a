"""Every code block of README and docs runs: Python as it stands, ``$`` lines of console blocks."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from page_commands import same
from process import user_environment

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RUN_APART = ("make ", "pip ", "git ", "python3 ", ".venv/bin/python ")


def blocks(page: Path) -> list[tuple[str, str]]:
    return BLOCK.findall(page.read_text())


WRITTEN = sorted(
    path
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md"))
    if path.parent.name != "notebooks"
)
"""All pages but those of notebooks, whose code ``test_notebooks`` runs."""
PAGES = [page for page in WRITTEN if {"python", "console"} & {language for language, _ in blocks(page)}]


PLANS = re.compile(r"\.(?:choose|advise)\(|--mechanism \S*auto")
"""What asks the planner. A page asks it the same question several times, by command and in Python."""


def test_there_are_pages_with_code():
    assert len(PAGES) > 20


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_code_blocks_run(page, tmp_path):
    """One process, namespace and folder a page, blocks in their order; commands in that process.

    If lines follow a command in its block, it must print exactly these.
    """
    folders = [str(ROOT / "examples"), str(Path(__file__).parent)]
    script: list[str] = [f"import sys; sys.path[:0] = {folders!r}"]
    if PLANS.search(page.read_text()):
        script.append("__import__('planned_once').in_this_process()")
    for language, code in blocks(page):
        if language == "python":
            script.append(code)
        elif language == "console":
            script += [_command(line, shown) for line, shown in _commands(code)]
    path = tmp_path / "page.py"
    path.write_text("\n".join(part for part in script if part))
    env = user_environment(SPARK_LOCAL_IP="127.0.0.1")
    done = subprocess.run(
        [sys.executable, path], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _commands(code: str) -> list[tuple[str, list[str]]]:
    """Each command of a block, and the lines that follow it."""
    first, *others = ("\n" + code.replace("\\\n", " ")).split("\n$ ")
    assert not first.strip(), "a console block begins with a command"
    lines = [part.rstrip().splitlines() for part in others]
    return [(line.strip(), shown) for line, *shown in lines]


def _command(line: str, shown: list[str]) -> str:
    if line.startswith(RUN_APART):
        return ""  # set-up is what make test itself does
    words = shlex.split(line)
    assert words[0] == "keyveil", f"a console block runs keyveil, not {words[0]}"
    # No name in the page's namespace.
    return f"__import__('page_commands').run_as_shown({words[1:]!r}, {shown!r})"


INSIDE = {"docs/api.md", "docs/extend.md"}
"""The page of contributors, as decisions are, too, and the reference, whose directives name the module
of each docstring. All others import public modules alone."""

INNER = re.compile(r"^\s*(?:from|import) keyveil\.(?!testing )\S+", re.MULTILINE)
"""Imports of inner modules. ``testing`` is public as it stands; other names are the package's own."""

FOLDERS = {path.parent.name for path in (ROOT / "src" / "keyveil").glob("*/__init__.py")}
ROOMS = sorted(FOLDERS - {"testing"})
NAMED = re.compile(rf"(?<!python -m )\bkeyveil\.(?:{'|'.join(ROOMS)})\b")
"""Inner modules by name, in a sentence as well as in code; commands of authors excepted."""


def text_of(name: str) -> str:
    """The whole text of a page or notebook, sentences and code."""
    return (ROOT / "examples" / name if name.endswith(".ipynb") else ROOT / name).read_text()


def test_readers_import_nothing_but_the_package():
    pages = {str(page.relative_to(ROOT)): "".join(code for _, code in blocks(page)) for page in WRITTEN}
    for path in sorted((ROOT / "examples").glob("*.ipynb")):
        cells = json.loads(path.read_text())["cells"]
        pages[path.name] = "\n".join("".join(cell["source"]) for cell in cells)
    open_pages = {name for name in set(pages) - INSIDE if "/decisions/" not in name}
    inner = {name: INNER.findall(pages[name]) for name in open_pages}
    assert {name: lines for name, lines in inner.items() if lines} == {}
    prose = {name: NAMED.findall(text_of(name)) for name in open_pages}
    assert {name: names for name, names in prose.items() if names} == {}
    assert NAMED.findall("`keyveil.trust.health` and from keyveil.plan import Plan") == [
        "keyveil.trust",
        "keyveil.plan",
    ]
    assert INNER.findall("from keyveil.plan.tally import Tally\nfrom keyveil.testing.inner import x")
    assert not INNER.findall("from keyveil.testing import StandIn\nfrom keyveil import learn")
    assert {"README.md", "docs/tour.md", "docs/concepts.md", "docs/planner.md"} < set(inner)


def test_a_billion_people_are_calculated_from_the_measured_tables():
    command = [sys.executable, "-m", "bench.billion"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    lines = [line for line in done.stdout.splitlines() if line]
    assert len(lines) == 19
    page = (ROOT / "docs" / "scale.md").read_text()
    assert done.stdout.strip() in page, "run python -m bench.billion --write"


def test_every_mechanism_has_its_heading_in_the_docs():
    from keyveil import REGISTRY

    page = (ROOT / "docs" / "mechanisms.md").read_text()
    headings = set(re.findall(r"^#+ `(\w+)`", page, re.MULTILINE))
    assert headings == set(REGISTRY)


def test_shown_output_may_differ_in_the_last_digit_only():
    assert same(["a  0.1234 [1,001]", "x"], ["a 0.1235 [1,002]", "x"])
    assert not same(["a 0.1234"], ["a 0.1334"])
    assert not same(["a 0.1234"], ["b 0.1234"])
    assert not same(["a 0.1234"], ["a 0.1234", "b"])
    assert not same(["a +1"], ["a -1"])
