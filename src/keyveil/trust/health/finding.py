"""What a check finds, and how many p-values are one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...foundation.arrays import Floats

FALSE_ALARM = 1e-3
MOST_NAMED = 20


@dataclass(frozen=True)
class Finding:
    """One check: what was found, how likely that is by chance, and what it means."""

    check: str
    statistic: float
    p_value: float
    """The chance, or a bound on it, that an honest tally is found as odd as this one."""
    false_alarm: float
    """A p-value below this is suspicious; so honest tallies are found suspicious at most so often."""
    verdict: str
    """fine, suspicious or not checked."""
    meaning: str
    where: tuple[str, ...] = ()
    """Views, keys or seeds that are suspicious each by itself."""

    @property
    def suspicious(self) -> bool:
        """Whether honest people would hardly ever be found like this."""
        return self.verdict == "suspicious"

    def document(self) -> dict[str, Any]:
        """As JSON."""
        made = dict(self.__dict__)
        made["where"] = list(self.where)
        if self.verdict == "not checked":
            made["statistic"] = made["p_value"] = None
        return made


@dataclass(frozen=True)
class HealthReport:
    """The findings of all checks."""

    reports: int
    findings: tuple[Finding, ...]

    @property
    def suspicious(self) -> bool:
        """Whether any check is."""
        return any(finding.suspicious for finding in self.findings)

    @property
    def false_alarm(self) -> float:
        """How often, at most, an honest tally has any suspicious finding."""
        return sum(f.false_alarm for f in self.findings if f.verdict != "not checked")

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "reports": self.reports,
            "suspicious": self.suspicious,
            "false_alarm": self.false_alarm,
            "findings": [finding.document() for finding in self.findings],
        }


def unchecked(check: str, why: str, false_alarm: float) -> Finding:
    return Finding(check, 0.0, 1.0, false_alarm, "not checked", why)


def finding(
    check: str,
    statistic: float,
    p_value: float,
    false_alarm: float,
    fine: str,
    odd: str,
    where: Sequence[str] = (),
) -> Finding:
    odd_one = p_value < false_alarm
    named = tuple(where[:MOST_NAMED]) if odd_one else ()
    verdict = "suspicious" if odd_one else "fine"
    return Finding(
        check, float(statistic), min(1.0, p_value), false_alarm, verdict, odd if odd_one else fine, named
    )


def holm(p_values: Floats, rate: float) -> np.ndarray:
    """Which of many p-values are suspicious at a rate that is for all of them together."""
    order = np.argsort(p_values, kind="stable")
    many = len(p_values)
    kept = np.minimum.accumulate(p_values[order] * (many - np.arange(many)) < rate)
    found = np.zeros(many, bool)
    found[order[kept]] = True
    return found


def corrected(p_values: Floats) -> float:
    """The p-value of the oddest of many."""
    return min(1.0, float(p_values.min(initial=1.0)) * len(p_values))
