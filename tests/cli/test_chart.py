"""Charts in the terminal: known lines give known rows."""

from __future__ import annotations

from itertools import pairwise
from math import nan

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyveil.cli import terminal_chart as chart
from keyveil.cli.output import plain_only
from keyveil.cli.terminal_chart import Panel, columns, fitted, legend, say, side_by_side

FALLING = Panel("error", [1, 10, 100], [[1, 0.1, 0.01], [1, 1, 1]], 10)
GAP = Panel("other", [1, 10, 100], [[1, 0.1, 0.01], [1, nan, 1]], 100)


def rows(panels: list[Panel], width: int, plain: bool, height: int = 4) -> list[str]:
    return [click.unstyle(row) for row in side_by_side(panels, width, plain, height)]


def test_known_lines_in_braille():
    assert rows([FALLING, GAP], 32, False) == [
        "       error         other",
        "    1 ┤⠙1⡉⠉2⠉⠉⠉⠉⠉2  ┤⠑1⡀       ⠈",
        "  0.1 ┤  ⠈⠒⢄⡀       ┤  ⠈⠒⢄⡀    ┊",
        " 0.05 ┤     ⠈⠢1     ┤     ⠈⠢1  ┊",
        " 0.01 ┤     ┊  ⠉⠢⢄  ┤        ⠉⠢⢄",
        "      └┴─┴──┴────┴  └┴─┴──┴────┴",
        "       1 2 10  100   1 2 10  100",
    ]


def test_known_lines_in_ascii():
    assert rows([FALLING], 18, True) == [
        "       error",
        "    1 |.1..2.....2",
        "  0.1 |  ....",
        " 0.05 |     ..1",
        " 0.01 |     :  ...",
        "      +'-'--'----'",
        "       1 2 10  100",
    ]


def test_lines_that_coincide_show_their_numerals_in_turn():
    flat = Panel("", [1, 10], [[1, 1]] * 4, 1)
    middle = next(row for row in rows([flat], 46, True) if "2" in row and row.lstrip()[0] == "1")
    assert [sign for sign in middle.split("|")[1] if sign.isdigit()] == list("1234123412341")


def test_a_steep_line_has_no_gap():
    steep = Panel("", [1, 10, 11, 100], [[1, 1, 1e-3, 1e-3]], 1)
    inside = [row[7:] for row in rows([steep], 46, True, 6)[1:-2]]
    assert all(set(row) & set(".1") for row in inside)


@given(st.lists(st.floats(1e-6, 1e3) | st.just(nan), min_size=3, max_size=3), st.integers(80, 140))
def test_no_row_is_wider_than_asked_and_every_known_column_is_drawn(line, width):
    panel = Panel("error ± against people", [1, 10, 1000], [line], 10)
    picture = rows([panel, panel], width, False, 7)
    assert all(len(row) <= width for row in picture)
    drawn = any(sign == "1" or "⠀" < sign <= "⣿" for row in picture[1:8] for sign in row.split("┤")[-1])
    assert drawn == any(value == value for value in line)


@pytest.mark.parametrize("width", [40, 60, 79, 80, 120])
def test_charts_stand_beside_each_other_only_where_there_is_room(width):
    panels = [Panel(f"{name} ± against epsilon", *FALLING[1:]) for name in ("frequency", "mean")]
    low = panels[1]._replace(lines=[[1e-3, 1e-4, 1e-5]])
    picture = [click.unstyle(row) for row in fitted([panels[0], low], width, False, 5)]
    assert all(len(row) <= width for row in picture)
    titles = [row for row in picture if "against" in row]
    assert [row.count("against") for row in titles] == ([2] if width >= 80 else [1, 1])
    scales = [row.replace("┤", "│").partition("│")[0] for row in picture if "┤" in row or "│" in row]
    assert scales[:5] == scales[-5:]  # one scale for both
    assert len(scales) == (5 if width >= 80 else 10)


@given(st.lists(st.sampled_from(["kvue", "optimal", "pckv_grr"]), min_size=1, max_size=6))
def test_a_legend_is_broken_between_its_lines(names):
    lines = click.unstyle(legend(names, 30)).split("\n")
    assert all(len(row) <= 30 for row in lines)
    assert "   ".join(lines) == click.unstyle(legend(names, 999))


@given(st.lists(st.text("abc-é", min_size=1, max_size=12), min_size=1, max_size=40), st.integers(12, 90))
def test_prose_is_broken_between_words_in_a_terminal_alone(words, width):
    with pytest.MonkeyPatch.context() as patch:
        outputs: list[str] = []
        patch.setattr(chart.click, "echo", outputs.append)
        patch.setenv("COLUMNS", str(width))
        patch.setattr(chart.sys.stdout, "isatty", lambda: True, raising=False)
        say(" ".join(words))
        patch.setattr(chart.sys.stdout, "isatty", lambda: False, raising=False)
        say(" ".join(words))
    rows = outputs[0].split("\n")
    assert all(len(row) <= width for row in rows)
    assert outputs[0].split() == words
    assert all(len(row) + 1 + len(after.split()[0]) > width for row, after in pairwise(rows))
    assert outputs[1] == " ".join(words)


def test_colours_are_for_terminals_that_want_them(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert legend(["kvue", "rr"]) == "\x1b[36m\x1b[1m1 kvue (chosen)\x1b[0m   \x1b[33m2 rr\x1b[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    assert legend(["kvue", "rr"]) == "1 kvue (chosen)   2 rr"
    assert legend(["kvue", "rr"], first="least error") == "1 kvue (least error)   2 rr"
    assert not any("\x1b" in row for row in side_by_side([FALLING], 40, False))


@pytest.mark.parametrize(("there", "width"), [(40, 40), (100, 100), (300, 140)])
def test_the_width_follows_the_terminal(monkeypatch, there, width):
    monkeypatch.setenv("COLUMNS", str(there))
    monkeypatch.setattr(chart.sys.stdout, "isatty", lambda: True, raising=False)
    assert columns() == width
    monkeypatch.setattr(chart.sys.stdout, "isatty", lambda: False, raising=False)
    assert columns() == 80


@pytest.mark.parametrize(
    ("encoding", "environment", "plain"),
    [
        ("utf-8", {}, False),
        ("utf-8", {"LANG": "en_GB.UTF-8"}, False),
        ("utf-8", {"LANG": "C.UTF-8"}, False),
        ("utf-8", {"LANG": "C"}, True),
        ("utf-8", {"LANG": "C", "LC_CTYPE": "C.UTF-8"}, True),  # Python's own word
        ("utf-8", {"LANG": "C", "LC_CTYPE": "en_GB.UTF-8"}, False),
        ("utf-8", {"LANG": "en_GB.UTF-8", "LC_ALL": "POSIX"}, True),
        ("cp1252", {}, True),
        ("ascii", {"LANG": "en_GB.UTF-8"}, True),
        (None, {}, True),
        ("unheard-of", {}, True),
    ],
)
def test_when_only_ascii_can_be_shown(encoding, environment, plain):
    assert plain_only(encoding, environment) == plain
