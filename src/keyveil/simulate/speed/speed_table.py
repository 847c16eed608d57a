"""The result of a comparison of speed: rows of ratios, their aims, and the machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .machine_limits import machine_words
from .peer_packages import PACKAGES

NUMPY, TUNED, LIMIT, KVUE, FASTEST = "NumPy", "tuned NumPy", "limit", "KVUE", "packages"
SHARES = (LIMIT, KVUE)
"""Comparisons in which keyveil is slower, shown as percentages."""


@dataclass(frozen=True)
class SpeedRow:
    """One task: what keyveil takes, and how many times as long others take for the same."""

    name: str
    value: float
    """Seconds for one ``of``, or MiB."""
    of: str
    """What the value is about: "person", "report", "call", "process" or "MiB"."""
    ratios: Mapping[str, float] = field(default_factory=dict)
    """Time of another form divided by ours: above 1 keyveil is faster."""
    aims: Mapping[str, float] = field(default_factory=dict)
    """The least ratio by its name; "seconds" is the largest value."""

    def at(self, name: str) -> float | None:
        """A ratio; that of the fastest package for ``packages``. None if it was not measured."""
        if name != FASTEST:
            return self.ratios.get(name)
        return min((r for n, r in self.ratios.items() if n in PACKAGES), default=None)

    @property
    def missed(self) -> dict[str, float]:
        """The aims that were measured and missed: the ratio, or the value, that was found."""
        measured = {name: self.value if name == "seconds" else self.at(name) for name in self.aims}
        return {
            name: value
            for name, value in measured.items()
            if value is not None
            and (value > self.aims[name] if name == "seconds" else value < self.aims[name])
        }

    @property
    def shown_value(self) -> str:
        """The value with its unit."""
        if self.of == "MiB":
            return f"{self.value:.0f} MiB"
        for size, unit in ((1, "s"), (1e-3, "ms"), (1e-6, "us")):
            if self.value >= size:
                return f"{self.value / size:.3g} {unit}"
        return f"{self.value * 1e9:.3g} ns"

    @property
    def shown_aims(self) -> str:
        """The aims in words, those that were missed marked."""
        words, missed = [], self.missed
        for name, aim in self.aims.items():
            text = f"{_percent(aim)} of {name}" if name in SHARES else f"{aim:g} x {name}"
            if name == "seconds":
                text = SpeedRow("", aim, "call").shown_value
            words.append(f"{text} (missed)" if name in missed else text)
        return ", ".join(words)

    def document(self) -> dict[str, Any]:
        """The row as JSON."""
        unit = "MiB" if self.of == "MiB" else "seconds"
        return {
            "task": self.name,
            "of": self.of,
            unit: self.value,
            "ratios": dict(self.ratios),
            "aims": dict(self.aims),
            "missed": self.missed,
        }


@dataclass(frozen=True)
class SpeedTable:
    """All rows of one run."""

    rows: Sequence[SpeedRow]
    machine: dict[str, object]

    @property
    def columns(self) -> list[str]:
        """The names of ratios that some row has, in their order."""
        known = [NUMPY, TUNED, *PACKAGES, LIMIT, KVUE]
        return [name for name in known if any(name in row.ratios for row in self.rows)]

    def cells(self) -> tuple[list[str], list[list[str]]]:
        """Headings and lines of text: ratios first."""
        named = [f"of {name}" if name in SHARES else name for name in self.columns]
        heads = ["task", *named, "keyveil", "aim"]
        lines = []
        for row in self.rows:
            ratios = [_shown(name, row.ratios.get(name)) for name in self.columns]
            lines.append([row.name, *ratios, row.shown_value, row.shown_aims])
        return heads, lines

    @property
    def words(self) -> str:
        """The machine in a line."""
        return machine_words(self.machine)

    def document(self) -> dict[str, Any]:
        """Everything as JSON."""
        return {"machine": self.machine, "rows": [row.document() for row in self.rows]}


def _shown(name: str, ratio: float | None) -> str:
    if ratio is None:
        return ""
    if name in SHARES:
        return _percent(ratio)
    if ratio >= 20:
        return f"{ratio:,.0f} x"
    return f"{ratio:.1f} x" if ratio >= 1 else f"{ratio:.1g} x"


def _percent(share: float) -> str:
    """A share as text, with a decimal below ten percent."""
    return f"{share:.0%}" if share >= 0.0995 else f"{share:.1%}"
