"""What README and the first pages promise besides their code: extras, completion, a short reading."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from unittest.mock import Mock

import click
import pytest

import keyveil
from keyveil import FinishedError
from keyveil.cli.command import run

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
INSTALL = (ROOT / "docs" / "install.md").read_text()
COMMAND = (ROOT / "docs" / "command.md").read_text()
WORDS_A_MINUTE = 240
"""How fast adults read prose."""
BIN = Path(sys.executable).parent
FILES = {"bash": ".bashrc", "zsh": ".zshrc", "fish": ".config/fish/config.fish"}
TRIES = {
    "bash": "COMP_WORDS=(keyveil priv); COMP_CWORD=1; _keyveil_completion keyveil; echo ${COMPREPLY[@]}",
    "zsh": "print $_comps[keyveil]; _KEYVEIL_COMPLETE=zsh_complete COMP_WORDS='keyveil priv' "
    "COMP_CWORD=1 keyveil",
    "fish": "complete -C 'keyveil priv'",
}
"""What shows in each shell that a word is completed."""


def prose(page: str) -> list[str]:
    """The words of a page, without code, tables, pictures and addresses."""
    text = re.sub(r"^```.*?^```$", " ", page, flags=re.M | re.S)
    text = re.sub(r"^[|!].*$|`[^`\n]*`|\]\([^)]*\)", " ", text, flags=re.M)
    return re.findall(r"[A-Za-z][\w'-]*", text)


def test_a_newcomer_reads_the_first_part_of_readme_in_five_minutes():
    """Up to what it promises; comparisons, the tree and the list of pages are for those who stay."""
    first = README[: README.index("\n## What it promises")]
    assert {"\n## Install", "\n## In Python", "\n## At the terminal"} <= set(
        re.findall(r"\n## [^\n]+", first)
    )
    assert 500 < len(prose(first)) < 5 * WORDS_A_MINUTE
    assert len(prose(README)) < 10 * WORDS_A_MINUTE
    assert prose("One `two`\n```\nthree\n```\n| four |\n[five](six)") == ["One", "five"]


def test_what_readme_leaves_to_other_pages_is_there_and_linked():
    for page, headings in {
        "docs/install.md": ("Parts", "Versions of Python"),
        "docs/command.md": ("All commands", "Exit codes", "Completion with the Tab key"),
    }.items():
        assert f"]({page})" in README
        assert {f"## {heading}" for heading in headings} <= set((ROOT / page).read_text().splitlines())


def test_the_exit_codes_are_those_of_the_command(tmp_path, monkeypatch):
    codes = {int(code) for code in re.findall(r"^\| (\d+) \|", COMMAND, re.M)}
    broken = tmp_path / "broken.json"
    cases = json.loads((ROOT / "vectors" / "bad" / "plans.json").read_text())["cases"]
    broken.write_text(cases[0]["text"])
    exit_codes = {
        run(["--version"]),
        run(["estimate", "nowhere.json", "nowhere.kv"]),
        run(["estimate", "--nothing"]),
        FinishedError.exit_code,
        run(["audit", str(broken)]),
    }
    monkeypatch.setattr(click.Group, "main", Mock(side_effect=KeyboardInterrupt))
    exit_codes.add(run(["demo"]))
    assert exit_codes == codes


def test_the_app_developer_reads_what_to_do_in_every_state_and_at_every_error():
    page = (ROOT / "docs" / "app-developer.md").read_text()
    rows = re.findall(r"^\| (?:states? )?(`.+?) \|", page, re.M)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    table = (ROOT / "docs" / "client.md").read_text().partition("| State | Means | Sent again |")[2]
    states = set(re.findall(r"^\| `(\w+)` \|", table.partition("\n\n")[0], re.M))
    assert len(states) == 6
    assert named == states | {"ClientError", "BudgetError", "PlanError"}
    assert all(hasattr(keyveil, error) for error in named - states)


def test_every_extra_is_in_the_table():
    table = INSTALL[INSTALL.index("| if you want | extra |") :].partition("\n\n")[0]
    named = re.findall(r"\| `(\w+)` \|$", table, re.MULTILINE)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert len(named) == len(set(named))
    assert set(named) == set(extras) - {"all", "dev"}


@pytest.mark.parametrize("shell", FILES)
def test_a_new_shell_completes_the_command(shell, tmp_path):
    """With the page's lines alone in the file that it names, and no environment active."""
    path, lines = re.findall(rf"^In `~/([^`\n]+)`:\n\n```{shell}\n(.*?)^```$", COMMAND, re.M | re.S)[0]
    assert path == FILES[shell]
    assert "PATH_OF_THE_CLONE/.venv/bin" in lines
    assert shutil.which(shell), f"`make shells` installs {shell}"
    file = tmp_path / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(lines.replace("PATH_OF_THE_CLONE/.venv/bin", str(BIN)))
    clean = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "TERM": "dumb"}
    done = subprocess.run(
        [shell, "-c", f". {file}; {TRIES[shell]}"],
        env=clean,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "privatise" in done.stdout, done.stderr
    assert done.stderr == ""
    without = lines.replace("PATH_OF_THE_CLONE/.venv/bin", str(tmp_path))
    file.write_text(without)
    done = subprocess.run([shell, str(file)], env=clean, capture_output=True, text=True, check=False)
    assert "keyveil" in done.stderr, "a wrong path is said, so the check above can fail"
