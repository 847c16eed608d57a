"""What README promises besides its code: the extras, and completion in a shell."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
BIN = Path(sys.executable).parent
FILES = {"bash": ".bashrc", "zsh": ".zshrc", "fish": ".config/fish/config.fish"}
TRIES = {
    "bash": "COMP_WORDS=(keyveil priv); COMP_CWORD=1; _keyveil_completion keyveil; echo ${COMPREPLY[@]}",
    "zsh": "print $_comps[keyveil]; _KEYVEIL_COMPLETE=zsh_complete COMP_WORDS='keyveil priv' "
    "COMP_CWORD=1 keyveil",
    "fish": "complete -C 'keyveil priv'",
}
"""What shows in each shell that a word is completed."""


def test_every_extra_is_in_the_table():
    table = README[README.index("| if you want | extra |") :].partition("\n\n")[0]
    named = re.findall(r"\| `(\w+)` \|$", table, re.MULTILINE)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert len(named) == len(set(named))
    assert set(named) == set(extras) - {"all", "dev"}


@pytest.mark.parametrize("shell", FILES)
def test_a_new_shell_completes_the_command(shell, tmp_path):
    """With README's lines alone in the file that it names, and no environment active."""
    said, lines = re.findall(rf"^In `~/([^`\n]+)`:\n\n```{shell}\n(.*?)^```$", README, re.M | re.S)[0]
    assert said == FILES[shell]
    assert "PATH_OF_THE_CLONE/.venv/bin" in lines
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not on this machine")
    file = tmp_path / said
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
