"""The client as a package: its size, its types, its format, and what it is made of."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from node_client import CLIENT, node

import keyveil
from keyveil import REGISTRY, Plan, Schema
from keyveil.testing import example_plan

ROOT = Path(__file__).parents[2]
TOOLS = CLIENT / "node_modules" / ".bin"
SOURCES = sorted((CLIENT / "src").glob("*.js"))
PRIVATISES = """
export { readParts, readSchema } from "./src/parts.js";
export { drawCells } from "./src/report.js";
"""
ENTRIES = {
    "what privatises": (PRIVATISES, 4_000, 6_000, 6_400),
    "the client without the notice": ('export * from "./src/index.js";', 11_500, 11_500, 14_000),
    "the client with the notice": (
        'export * from "./src/index.js"; export * from "./src/consent.js";',
        14_000,
        15_500,
        18_200,
    ),
}
"""What is imported, and the bytes that a page may load for it: first, which is all for most
mechanisms; for a plan of any mechanism; and all of it in one file.
"""
ON_DEMAND = {
    "rows.js": 1_100,
    "pools.js": 1_400,
    "subset.js": 900,
    "check.js": 750,
    "messages.js": 1_000,
    "troubles.js": 350,
}
"""All modules that are loaded on demand, and the bytes that each may have."""
RELEASE = r'(?:RELEASE =|release:) "(.+?)"'
"""How modules that are loaded apart from each other state their release."""
FOR_FAULTS = {"check.js", "messages.js", "troubles.js"}
REPLAYED = """
export { readPlan } from "./src/index.js";
export { recordedCells } from "./testing/recorded.js";
"""
REPLAY = """
import { readFileSync } from "node:fs";
import { readPlan, recordedCells } from "{entry}";
for (const { plan, cases } of JSON.parse(readFileSync(0, "utf8"))) {
  const read = await readPlan(plan);
  for (const { record, words, cells } of cases)
    if (String(recordedCells(read, record, words)) !== String(cells)) throw new Error(plan.hash);
}
console.log("replayed");
"""


def tool(name: str, *words: str, given: str = "") -> str:
    """What a tool of the package's development prints."""
    program = TOOLS / name
    assert program.exists(), "the tests need the tools of clients/js: make node"
    done = subprocess.run([program, *words], input=given, capture_output=True, text=True, cwd=CLIENT)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


MINIFY = """
import { readFileSync } from "node:fs";
import { minify } from "terser";
const options = { module: true, compress: { passes: 2 }, mangle: true };
const codes = JSON.parse(readFileSync(0, "utf8"));
const minified = await Promise.all(codes.map((code) => minify(code, options)));
console.log(JSON.stringify(minified.map(({ code }) => code)));
"""


def compressed(files: Sequence[Path]) -> list[int]:
    """Bytes of modules, minified without touching names of properties, and compressed."""
    codes = json.dumps([file.read_text() for file in files])
    minified = json.loads(node("--input-type=module", "-e", MINIFY, given=codes))
    return [len(gzip.compress(code.encode(), 9)) for code in minified]


def bundled(folder: Path, code: str, *options: str) -> dict[str, Any]:
    """The files that a bundler makes of an entry, by name, with what they import and were made of."""
    report = folder / "report.json"
    form = ["--bundle", "--format=esm", "--target=es2022", f"--outdir={folder}", f"--metafile={report}"]
    tool("esbuild", *form, *options, given=code)
    # files by name: esbuild writes paths from its own folder
    return {Path(path).name: facts for path, facts in json.loads(report.read_text())["outputs"].items()}


def modules_for(plan: Plan) -> set[str]:
    """The modules on demand that a plan names, as the table in ``demand.js`` says."""
    table = re.findall(r'import\("\./(\w+\.js)"\), (.*)\]', (CLIENT / "src" / "demand.js").read_text())
    assert {module for module, _ in table} == set(ON_DEMAND) - FOR_FAULTS
    parts = plan.document().get("parts", [plan.document()])
    names = {part["encode"] for part in parts}
    names |= {channel["shape"] for part in parts for channel in part["channels"]}
    return {module for module, listed in table if names & set(re.findall(r'"(\w+)"', listed))}


def plans() -> list[Plan]:
    """A plan of each mechanism, and those of the vectors."""
    vectors = [json.loads(file.read_text()) for file in sorted((ROOT / "vectors").glob("*.json"))]
    of_all = [
        example_plan(Schema.of(min(6, mechanism.most_keys), 0, 10), name, 1.0)
        for name, mechanism in REGISTRY.items()
    ]
    return of_all + [Plan.parse(json.dumps(vector["plan"])) for vector in vectors]


def assert_documented(bounds: list[tuple[int, int]], on_demand: dict[str, int]) -> None:
    """The page of the docs says these sizes, to a tenth of a kilobyte, and limits."""
    page = (ROOT / "docs" / "browser.md").read_text()
    rows = re.findall(r"\| ([\d.]+) kB \(([\d.]+)\) " * 3 + r"\|\n", page)
    assert len(rows) == len(ENTRIES)
    limits = [str(most / 1000).removesuffix(".0") for _, most in bounds]
    (row,) = (row for row in rows if list(row[1::2]) == limits)
    for kilobytes, (size, _) in zip(row[::2], bounds, strict=True):
        assert float(kilobytes) == pytest.approx(size / 1000, abs=0.1)
    sizes = [f"{first} kB" for first, *_ in rows[1:]]
    for readme in (ROOT / "README.md", CLIENT / "README.md"):
        text = readme.read_text()
        assert re.findall(r"([\d.]+ kB) minified and compressed, ([\d.]+ kB) with the notice", text) == [
            tuple(sizes)
        ]
    for module, size in on_demand.items():
        (kilobytes,) = re.findall(rf"\| `{module}`: .* \| ([\d.]+) kB \|", page)
        assert float(kilobytes) == pytest.approx(size / 1000, abs=0.1)


@pytest.fixture(scope="module")
def bundles(tmp_path_factory):
    """For each entry the facts and the sizes of its modules, and the size of all in one file."""
    folders = {name: tmp_path_factory.mktemp("bundle") for name in ENTRIES}
    facts = {name: bundled(folder, ENTRIES[name][0], "--splitting") for name, folder in folders.items()}
    for name, folder in folders.items():
        assert list(bundled(folder / "whole", ENTRIES[name][0])) == ["stdin.js"]
    modules = {(name, file): folders[name] / file for name in ENTRIES for file in facts[name]}
    modules |= {(name, "whole"): folders[name] / "whole" / "stdin.js" for name in ENTRIES}
    sizes = dict(zip(modules, compressed(list(modules.values())), strict=True))
    return {
        name: (facts[name], {file: sizes[name, file] for file in facts[name]}, sizes[name, "whole"])
        for name in ENTRIES
    }


@pytest.mark.parametrize("name", ENTRIES)
def test_it_is_small(name, bundles):
    """As bundlers do it: modules are joined, apart from those that are loaded on demand."""
    _, most, most_of_a_plan, most_of_all = ENTRIES[name]
    files, sizes, everything = bundles[name]
    first = sizes["stdin.js"]
    later = {file: size for file, size in sizes.items() if file != "stdin.js"}
    assert all(item["kind"] == "dynamic-import" for item in files["stdin.js"]["imports"])
    on_demand = {}
    for file, size in later.items():
        (module,) = (Path(path).name for path in files[file]["inputs"])
        assert 100 < size < ON_DEMAND[module], f"{module}: {size} bytes"
        on_demand[module] = size
    # what privatises says what is wrong with a plan, and checks no record; the texts are the notice's
    assert set(ON_DEMAND) - set(on_demand) <= {"check.js", "troubles.js"}
    needed = [modules_for(plan) for plan in plans()]
    assert set() in needed
    of_a_plan = first + max(sum(on_demand[module] for module in modules) for modules in needed)
    assert_documented([(first, most), (of_a_plan, most_of_a_plan), (everything, most_of_all)], on_demand)
    assert 1000 < first < most, f"{name}: {first} bytes"
    assert first < of_a_plan < most_of_a_plan, f"{name}: {of_a_plan} bytes"
    assert of_a_plan < everything < most_of_all, f"{name}: {everything} bytes"


@pytest.mark.parametrize("options", [["--splitting"], []], ids=["split", "one file"])
def test_bundles_replay_the_vectors(options, tmp_path):
    """Modules on demand work in a bundle, apart from it and as a part of it."""
    files = bundled(tmp_path, REPLAYED, "--minify", *options)
    assert len(files) == (1 + len(set(ON_DEMAND) - {"troubles.js"}) if options else 1)
    vectors = [json.loads(file.read_text()) for file in (ROOT / "vectors").glob("*.json")]
    assert set.union(*map(modules_for, plans())) == {"rows.js", "pools.js", "subset.js"}
    (tmp_path / "package.json").write_text('{"type": "module"}')
    script = REPLAY.replace("{entry}", (tmp_path / "stdin.js").as_uri())
    assert node("--input-type=module", "-e", script, given=json.dumps(vectors)) == "replayed\n"


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
    releases = {file.name: re.findall(RELEASE, file.read_text()) for file in SOURCES}
    stating = ["demand.js", "pools.js", "rows.js", "subset.js"]
    assert {name: versions for name, versions in releases.items() if versions} == {
        name: [keyveil.__version__] for name in stating
    }
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
