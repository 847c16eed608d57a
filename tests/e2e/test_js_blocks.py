"""Every JavaScript block of the pages about the client runs, in Node, against a collector."""

from __future__ import annotations

import json
import re
from pathlib import Path
from shutil import which
from subprocess import run

import pytest
from process import Process

from keyveil import Plan, Schema

ROOT = Path(__file__).parents[2]
CLIENT = ROOT / "clients" / "js"
HERE = Path(__file__).parent
BLOCK = re.compile(r"^```js\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PACKAGE_PAGE, BROWSER_PAGE = (
    BLOCK.findall(page.read_text()) for page in (CLIENT / "README.md", ROOT / "docs" / "browser.md")
)
WITH_NOTICE, WITHOUT_NOTICE, IN_NODE = PACKAGE_PAGE
CHECK, TEXTS = BROWSER_PAGE
STORED = "cap: 4, allow: 2"
"""Options of the first block, to which Node must add a file: it has no IndexedDB."""


@pytest.fixture(scope="module")
def collector(tmp_path_factory):
    folder = tmp_path_factory.mktemp("collector")
    server = Process(str(folder / "store.sqlite"), folder)
    plan = Plan.of(Schema.of(["Hamburger", "Pepsi"], 1, 5), "kvue", 1).document()
    for name in ("menu", "notice", "texts", "node"):
        named = {"name": name, "plan": plan}
        server.client.post("/v1/collections", json=named).raise_for_status()
    yield server
    server.end()


def run_in_node(folder: Path, url: str, collection: str, *parts: str) -> list[str]:
    """What the blocks print, as one module of a project that has installed the client."""
    (folder / "node_modules").mkdir()
    (folder / "node_modules" / "keyveil").symlink_to(CLIENT)
    (folder / "package.json").write_text('{"type": "module"}')
    code = "\n".join(parts).replace("https://collector.example", url)
    assert '"menu"' in code
    code = code.replace('"menu"', f'"{collection}"')
    (folder / "blocks.js").write_text(code)
    program = which("node")
    assert program is not None, "the tests need Node: apt-get install nodejs npm"
    page = ["--import", str(HERE / "standin_page.js")]
    done = run([program, *page, "blocks.js"], cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def stored(block: str) -> str:
    """The first block, with a file for the ledger."""
    assert block.count(STORED) == 1
    imported = 'import { fileStorage } from "keyveil/node";\n'
    return imported + block.replace(STORED, f'{STORED}, storage: fileStorage("ledger.json")')


def reports(collector: Process, name: str) -> int:
    return collector.client.get(f"/v1/collections/{name}/estimates").json()["reports"]


def test_the_notice_of_the_package_page_asks_and_answers(collector, tmp_path):
    agree = """
    const text = () => notice.shadow.textContent;
    await until("the question", () => text().includes("Share an answer"));
    const button = () => notice.shadow.all.find(({ part }) => part === "accept");
    await until("the button", () => button() && !button().disabled);
    const answered = new Promise((done) => notice.addEventListener("keyveil-answer", done));
    button().onclick();
    console.log((await answered).detail.state);
    """
    assert run_in_node(tmp_path, collector.url, "notice", stored(WITH_NOTICE), agree) == ["counted"]
    assert reports(collector, "notice") == 1


def test_one_call_answers_without_the_notice_and_the_budget_says_so(collector, tmp_path):
    block = WITHOUT_NOTICE.replace("console.log(", "told(")
    listener = "const told = (state, budget) => console.log(JSON.stringify([state, budget]));"
    first = stored(WITH_NOTICE).partition("// The notice")[0]
    (line,) = run_in_node(tmp_path, collector.url, "menu", listener, first, block)
    state, budget = json.loads(line)
    assert (state, float(budget["cap"])) == ("counted", 4)
    assert 0.99 < float(budget["spent"]) <= 1
    assert reports(collector, "menu") == 1


def test_node_keeps_the_ledger_in_the_file_that_the_page_names(collector, tmp_path):
    answer = 'console.log((await client.answer("menu", { Pepsi: 4.5 })).state);'
    assert run_in_node(tmp_path, collector.url, "node", IN_NODE, answer) == ["counted"]
    assert "answers" in (tmp_path / "ledger.json").read_text()
    assert reports(collector, "node") == 1


def test_the_check_prints_the_lines_that_the_page_shows(collector, tmp_path):
    output = "\n".join(run_in_node(tmp_path, collector.url, "texts", IN_NODE, CHECK))
    shown = re.findall(r"^// (.+)$", CHECK, re.MULTILINE)
    assert len(shown) == 2
    for line in shown:
        assert line in output.replace('\\"', '"').replace("\\'", "'")
    assert reports(collector, "texts") == 0


def test_texts_of_a_page_replace_those_of_the_notice(collector, tmp_path):
    look = """
    const text = () => notice.shadow.textContent;
    const has = (...words) => words.every((word) => text().includes(word));
    await until("the German title", () => has("ohne etwas zu verraten", "eine von 2 Fragen"));
    await until("a name of the page's own", () => has("Cola: ") && !has("Pepsi"));
    notice.client = new Client("http://127.0.0.1:9", { cap: 4, storage: fileStorage("other.json") });
    await until("the page's text of the trouble", () => has("gerade keine Verbindung"));
    """
    held = WITH_NOTICE.replace("record: { Pepsi: 4.5 }", "record: { Hamburger: 4, Pepsi: 4.5 }")
    (line,) = run_in_node(tmp_path, collector.url, "texts", stored(held), TEXTS, look)
    assert line.startswith("unreachable "), "the page's listener printed the code and the message"
