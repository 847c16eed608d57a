"""The client as a package: its size, its types, its format, and what it is made of."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

import keyveil

ROOT = Path(__file__).parents[2]
CLIENT = ROOT / "clients" / "js"
TOOLS = CLIENT / "node_modules" / ".bin"
SOURCES = sorted((CLIENT / "src").glob("*.js"))
PRIVATISES = """
export { readParts, readSchema } from "./src/parts.js";
export { drawCells } from "./src/report.js";
"""
ENTRIES = {
    "what privatises": (PRIVATISES, 6_000),
    "the client without the notice": ('export * from "./src/index.js";', 12_000),
    "the client with the notice": (
        'export * from "./src/index.js"; export * from "./src/consent.js";',
        16_000,
    ),
}
"""What is imported, and the bytes that a page may load for it before anything goes wrong."""
ON_DEMAND = {"check.js": 1_500, "messages.js": 1_500}
"""Modules for faults and for developers, and the bytes that each may have."""


def tool(name: str, *words: str, given: str = "") -> str:
    """What a tool of the package's development prints."""
    program = TOOLS / name
    assert program.exists(), "the tests need the tools of clients/js: make node"
    done = subprocess.run([program, *words], input=given, capture_output=True, text=True, cwd=CLIENT)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def compressed(code: str) -> int:
    """Bytes of a module, minified without touching names of properties, and compressed."""
    minified = tool("terser", "--module", "--compress", "passes=2", "--mangle", given=code)
    return len(gzip.compress(minified.encode(), 9))


@pytest.mark.parametrize("name", ENTRIES)
def test_it_is_small(name, tmp_path):
    """As bundlers do it: modules are joined, apart from those that are loaded on demand."""
    code, most = ENTRIES[name]
    report = tmp_path / "report.json"
    options = ["--bundle", "--splitting", "--format=esm", "--target=es2022"]
    tool("esbuild", *options, f"--outdir={tmp_path}", f"--metafile={report}", given=code)
    # files by name: esbuild writes paths from its own folder
    files = {Path(path).name: facts for path, facts in json.loads(report.read_text())["outputs"].items()}
    sizes = {file: compressed((tmp_path / file).read_text()) for file in files}
    loaded = ["stdin.js"]
    for file in loaded:
        for imported in files[file]["imports"]:
            other = Path(imported["path"]).name
            if imported["kind"] == "import-statement" and other not in loaded:
                loaded.append(other)
    total = sum(sizes[file] for file in loaded)
    assert 1000 < total < most, f"{name}: {total} bytes"
    for file in set(files) - set(loaded):
        inputs = files[file]["inputs"]
        (module,) = (Path(path).name for path in inputs)
        assert 100 < sizes[file] < ON_DEMAND[module], f"{module}: {sizes[file]} bytes"
    if name != "what privatises":
        joined = {Path(path).name for file in loaded for path in files[file]["inputs"]}
        assert not joined & set(ON_DEMAND)
        assert len(files) == len(loaded) + len(ON_DEMAND)


def test_the_types_are_right():
    tool("tsc", "--project", "test/types")


def test_the_format_is_one():
    pages = str(ROOT / "examples" / "web")
    tool(
        "prettier",
        "--check",
        "--log-level=error",
        "src",
        "node",
        "testing",
        "test",
        "package.json",
        pages,
    )


def test_it_depends_on_nothing_and_needs_no_build():
    package = json.loads((CLIENT / "package.json").read_text())
    assert "dependencies" not in package
    for file in SOURCES:
        named = re.findall(r'(?:from|import)\s*\(?"([^"]+)"', file.read_text())
        assert all(
            re.fullmatch(r"\./\w+\.js", name) and (CLIENT / "src" / name).is_file() for name in named
        )


def test_reports_are_drawn_from_secure_words_alone():
    """One place asks for random words. No other source of chance is named in the client."""
    text = {file.name: file.read_text() for file in SOURCES}
    assert not any("Math.random" in code for code in text.values())
    assert {name for name, code in text.items() if "crypto.getRandomValues(" in code} == {
        "ledger.js",  # the id of a report, apart from its words
        "report.js",
    }
    assert not any("testing/" in code for code in text.values()), "recorded words are for tests"


def test_package_and_project_agree():
    package = json.loads((CLIENT / "package.json").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert (package["version"], package["license"]) == (keyveil.__version__, project["license"])
    assert (CLIENT / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    for entry in package["exports"].values():
        for path in entry.values() if isinstance(entry, dict) else [entry]:
            assert (CLIENT / path).is_file()


def test_tools_are_pinned_with_their_hashes_and_no_hosts():
    locked = json.loads((CLIENT / "package-lock.json").read_text())
    for name, facts in locked["packages"].items():
        assert "resolved" not in facts, name
        assert name == "" or facts["integrity"].startswith("sha512-")
    for version in locked["packages"][""]["devDependencies"].values():
        assert re.fullmatch(r"\d+\.\d+\.\d+", version)
