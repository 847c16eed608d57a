"""The progress bar of the library: in a notebook's cell, in a terminal, and nowhere else."""

from __future__ import annotations

import io
import sys
from types import SimpleNamespace

import pytest

from keyveil.foundation import progress_bar as bars


class Cell:
    """Stands for the output of a cell: what is shown, and shown instead of it."""

    def __init__(self):
        self.shown = []

    def display(self, data, *, raw, display_id):
        assert raw
        assert display_id
        self.shown.append(data)
        return SimpleNamespace(update=lambda data, raw: self.shown.append(data))


def test_a_notebook_shows_a_bar_that_is_gone_at_the_end(monkeypatch):
    cell = Cell()
    kernel = SimpleNamespace(config={"IPKernelApp": {}})
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: kernel))
    monkeypatch.setattr(bars, "import_module", lambda name: cell)
    with bars.progress_bar("a < b", 2000) as on_progress:
        on_progress(1000)
    first, half, last = cell.shown
    assert first["text/plain"] == "a < b: 0 of 2,000"
    assert half["text/html"] == (
        '<div>a &lt; b <progress value="1000" max="2000"></progress> 1,000 of 2,000</div>'
    )
    assert not any(last.values())


def test_a_terminal_shows_a_bar_and_a_file_none(monkeypatch):
    for terminal in (True, False):
        stream = io.StringIO()
        stream.isatty = lambda terminal=terminal: terminal
        monkeypatch.setattr(sys, "stderr", stream)
        with bars.progress_bar("comparing", 4000) as on_progress:
            on_progress(2)
            on_progress(4000)
        assert ("comparing" in stream.getvalue()) == terminal
        assert ("0 of 4,000, ? left" in stream.getvalue()) == terminal
        assert stream.getvalue().split("\r")[-1] == "", "nothing is left on the line"


def test_nobody_is_shown_a_bar_that_is_not_wanted(monkeypatch):
    monkeypatch.setattr(bars, "in_notebook", lambda: pytest.fail("asked"))
    with bars.progress_bar("comparing", 4, wanted=False) as on_progress:
        on_progress(1)
