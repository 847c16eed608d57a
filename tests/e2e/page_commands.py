"""Commands of the pages: run within the page's process, and compared with what the page shows."""

from __future__ import annotations

import re
from contextlib import redirect_stdout
from io import StringIO
from math import isclose

from keyveil.cli.command import run

NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")


def run_as_shown(words: list[str], shown: list[str]) -> None:
    """Run a command; it must succeed and print ``shown``, unless that is empty."""
    printed = StringIO()
    with redirect_stdout(printed):
        code = run(words)
    lines = printed.getvalue().rstrip().splitlines()
    print(*lines, sep="\n")
    assert code == 0, words
    assert not shown or same(lines, shown), (words, lines)


def same(printed: list[str], shown: list[str]) -> bool:
    """Whether lines agree in their words, and in their numbers up to the last digit."""
    first, second = ("\n".join(" ".join(line.split()) for line in lines) for lines in (printed, shown))
    numbers = [[float(n.replace(",", "")) for n in NUMBER.findall(text)] for text in (first, second)]
    return NUMBER.sub("0", first) == NUMBER.sub("0", second) and all(
        isclose(a, b, rel_tol=1e-3, abs_tol=1.01e-4) for a, b in zip(*numbers, strict=True)
    )
