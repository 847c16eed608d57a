"""Mistakes that are planted one at a time; the tests that they name must notice each of them.

The mistakes are data: ``mistakes.toml`` has for each a file of the package, a text that occurs in it
exactly once, what stands there instead, and the tests. They are planted in a copy of the package, never
in the working tree. ``make test`` checks that every mistake still applies, ``make test-long`` that all
are caught.
"""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
MISTAKES: list[dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("mistakes.toml").read_text(encoding="utf-8")
)["mistake"]
NAMES = [mistake["name"] for mistake in MISTAKES]

FAILED = 1
"""What pytest exits with if tests ran and some failed; not so if a file cannot even be imported."""


def planted(package: Path, mistake: dict[str, Any]) -> str:
    """The text of the mistake's file with the mistake in it."""
    text = (package / mistake["file"]).read_text(encoding="utf-8")
    count = text.count(mistake["old"])
    assert count == 1, f"{mistake['file']} has the old text {count} times, not once: {mistake['old']}"
    return text.replace(mistake["old"], mistake["new"])


def test_names_are_unique_and_members_are_complete():
    assert len(set(NAMES)) == len(NAMES)
    for mistake in MISTAKES:
        assert set(mistake) == {"name", "file", "old", "new", "tests"}
        assert mistake["tests"], mistake["name"]
        assert mistake["old"] != mistake["new"]


@pytest.mark.parametrize("mistake", MISTAKES, ids=NAMES)
def test_a_mistake_applies_to_the_source(mistake):
    package = ROOT / "src" / "keyveil"
    before = (package / mistake["file"]).read_text(encoding="utf-8")
    after = ast.dump(ast.parse(planted(package, mistake)))
    assert after != ast.dump(ast.parse(before)), "it changes the program, not a comment"
    for test in mistake["tests"]:
        file, _, name = test.partition("::")
        assert f"def {name.partition('[')[0]}(" in (ROOT / file).read_text(encoding="utf-8"), test


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A copy of the package for this process, without compiled files."""
    folder = tmp_path_factory.mktemp("source")
    shutil.copytree(
        ROOT / "src" / "keyveil", folder / "keyveil", ignore=shutil.ignore_patterns("__pycache__")
    )
    yield folder
    shutil.rmtree(folder)


def run(copy: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Python with the copy in place of the package, in short counts."""
    chosen = ("KEYVEIL_LONG", "KEYVEIL_FAST")  # the tests choose for themselves
    environment = {name: value for name, value in os.environ.items() if name not in chosen}
    environment |= {"PYTHONPATH": os.fspath(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


def forget_loops(copy: Path) -> None:
    """Delete compiled loops: Numba does not compile a loop again when a file that it imports changes."""
    shutil.rmtree(copy / "keyveil" / "foundation" / "kernels" / "__pycache__", ignore_errors=True)


def run_tests(copy: Path, tests: list[str]) -> subprocess.CompletedProcess[str]:
    options = ("-n", "0", "-x", "-q", "-p", "no:cacheprovider", "--tb=no")
    return run(copy, "-m", "pytest", *options, *tests)


@pytest.mark.long
def test_without_a_mistake_the_named_tests_pass(copy):
    where = run(copy, "-c", "import keyveil; print(keyveil.__file__)").stdout.strip()
    assert Path(where).is_relative_to(copy), "the copy stands in for the package"
    done = run_tests(copy, sorted({test for mistake in MISTAKES for test in mistake["tests"]}))
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


@pytest.mark.long
@pytest.mark.parametrize("mistake", MISTAKES, ids=NAMES)
def test_a_mistake_is_caught(mistake, copy):
    file, in_loops = copy / "keyveil" / mistake["file"], "kernels" in mistake["file"]
    before = file.read_text(encoding="utf-8")
    file.write_text(planted(copy / "keyveil", mistake), encoding="utf-8")
    if in_loops:
        forget_loops(copy)
    try:
        done = run_tests(copy, mistake["tests"])
    finally:
        file.write_text(before, encoding="utf-8")
        if in_loops:
            forget_loops(copy)
    assert done.returncode == FAILED, done.stdout[-1000:] + done.stderr[-1000:]
