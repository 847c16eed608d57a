"""Commands that pages show exist: those in sentences, and those in blocks that take too long to run.

``test_docs`` runs the blocks of code; this looks at the words of every other command.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from keyveil.cli.command import keyveil

ROOT = Path(__file__).parents[2]
WRITTEN = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *(ROOT / name for name in ("deploy/README.md", "clients/js/README.md", "examples/web/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`([^`\n]+)`")
CALL = re.compile(r"(?:^|[ /])keyveil ([a-z][^|;#&`]*)")


def shown(page: str) -> Iterator[str]:
    """The words after ``keyveil`` of each command on a page, Python aside."""
    for language, code in BLOCK.findall(page):
        if language in ("", "console", "sh", "text"):
            lines = code.replace("\\\n", " ").splitlines()
            yield from (words for line in lines for words in CALL.findall(line.strip("$ ")))
    for code in INLINE.findall(BLOCK.sub("", page)):
        if match := CALL.match(code.removeprefix("python -m ").removeprefix(".venv/bin/")):
            yield match[1]


def unknown(words: str) -> str | None:
    """What a command names that keyveil does not have, or None."""
    command: click.Command = keyveil
    rest = shlex.split(words.replace("'", "") if words.count("'") % 2 else words)
    while isinstance(command, click.Group) and rest and re.fullmatch(r"[a-z-]+", rest[0]):
        name = rest.pop(0)
        inner = command.get_command(click.Context(command), name)
        if inner is None:
            return name
        command = inner
    options = {name for each in command.get_params(click.Context(command)) for name in each.opts}
    options |= {name for each in command.params for name in each.secondary_opts}
    given = [word.partition("=")[0] for word in rest if re.match(r"--?[a-z]", word)]
    return next((word for word in given if word not in options), None)


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_that_a_page_shows_exists(page):
    named = {words: unknown(words) for words in shown(page.read_text())}
    named.pop("stated coins", None)  # words of docs/wire.md that are hashed, no command
    assert {words: word for words, word in named.items() if word} == {}


def test_commands_are_found_and_wrong_ones_are_seen():
    everywhere = {words for page in WRITTEN for words in shown(page.read_text())}
    assert len(everywhere) > 100
    assert {words.split()[0] for words in everywhere} >= {"serve", "relay", "reproduce"}
    assert unknown("plan --keys 3 -o p.json") is None
    assert unknown("plan --key 3") == "--key"
    assert unknown("collection make menu") == "make"
    assert list(shown("```sh\nkeyveil tally a b\n```\nor `keyveil demo`, `keyveil.Client`")) == [
        "tally a b",
        "demo",
    ]


def test_programs_and_targets_that_pages_name_exist():
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([\w-]+):", makefile, re.M))
    benches = {path.stem for path in (ROOT / "bench").glob("*.py")}
    for page in WRITTEN:
        text = page.read_text()
        for target in re.findall(r"(?:`|^\$ )make ([a-z-]+)", text, re.M):
            assert target in targets, (page.name, target)
        for place in re.findall(r"\b(?:examples|deploy)/[\w/.-]+\.\w+", text):
            assert (ROOT / place).exists(), (page.name, place)
        for name in re.findall(r"python -m bench\.(\w+)", text):
            assert name in benches, (page.name, name)
