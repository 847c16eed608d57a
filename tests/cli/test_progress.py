"""Progress bars: in a terminal they say how far a command is and leave nothing behind."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys

import pytest
from process import user_environment
from rich.progress import Progress

from keyveil import Plan, Schema
from keyveil.cli.output import duration
from keyveil.cli.terminal_progress import HowFar


@pytest.fixture
def folder(tmp_path):
    rows = "".join(f"{person},k{key},1\n" for person in range(300) for key in range(2))
    (tmp_path / "people.csv").write_text("person,key,value\n" + rows)
    (tmp_path / "keys.txt").write_text("k0\nk1\n")
    return tmp_path


COMMANDS = {
    "planning": "plan --keys keys.txt --range 1,5 --epsilon 2 --mechanism auto --people 5000 -o p.json",
    "privatising": "privatise plan.json people.csv -o r.kv",
}


def started(folder, words, errors):
    code = "import sys; from keyveil.cli.command import run; sys.exit(run(sys.argv[1:]))"
    environment = user_environment(TERM="xterm", COLUMNS="100")
    command = [sys.executable, "-c", code, *words.split()]
    return subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=errors, env=environment, text=True
    )


def run(folder, words):
    """What a command writes to its streams if these are pipes."""
    command = started(folder, words, subprocess.PIPE)
    streams = command.communicate()
    assert command.returncode == 0, streams
    return streams


def in_terminal(folder, words):
    """What a command writes to a terminal as its error stream."""
    ours, theirs = pty.openpty()
    command = started(folder, words, theirs)
    os.close(theirs)
    parts = []
    while True:
        try:
            parts.append(os.read(ours, 1 << 16))
        except OSError:  # how Linux says that nobody writes to a terminal any more
            break
    os.close(ours)
    command.communicate()
    assert command.returncode == 0
    return b"".join(parts).decode()


def test_bars_show_in_a_terminal_alone_and_leave_nothing(folder):
    Plan.of(Schema.of(["k0", "k1"], 1, 5), "kvue", 1).save(folder / "plan.json")
    for label, words in COMMANDS.items():
        shown = in_terminal(folder, words)
        assert label in shown, words
        assert "/?" not in shown, "no total is shown before it is known"
        last = re.split(r"\x1b\[2K", shown)[-1]  # after the line was cleared
        assert label not in last, "a bar is gone at the end"
        for name in ("p.json", "r.kv"):
            (folder / name).unlink(missing_ok=True)
        for stream in run(folder, words):
            assert label not in stream
            assert "\x1b" not in stream, "no bar in a file or a pipe"


def test_a_bar_says_what_is_counted():
    bar = Progress()  # never started, so nothing is shown
    bar.add_task("comparing", total=None)
    (task,), column = bar.tasks, HowFar("plans")
    assert str(column.render(task)) == ""
    bar.update(task.id, completed=2, total=1200)
    assert str(column.render(task)) == "2 of 1,200 plans"
    assert [duration(s) for s in (0.4, 80, 100, 5000, 5400)] == ["0 s", "80 s", "2 min", "83 min", "2 h"]
