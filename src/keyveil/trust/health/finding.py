"""The result of a check, and the correction of p-values for many tests."""

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
    """The result of one check: its statistic, its p-value and what it means."""

    check: str
    statistic: float
    p_value: float
    """The probability, or an upper bound on it, of a statistic as extreme in an honest tally."""
    false_alarm: float
    """The level. A p-value below it is suspicious; at most this share of honest tallies has one."""
    verdict: str
    """fine, suspicious or not checked."""
    meaning: str
    where: tuple[str, ...] = ()
    """Names of the views, keys or seeds that are suspicious on their own."""

    @property
    def suspicious(self) -> bool:
        """Whether the p-value is below the level."""
        return self.verdict == "suspicious"

    def document(self) -> dict[str, Any]:
        """As JSON."""
        members = dict(self.__dict__)
        members["where"] = list(self.where)
        if self.verdict == "not checked":
            members["statistic"] = members["p_value"] = None
        return members


@dataclass(frozen=True)
class HealthReport:
    """The findings of all checks."""

    reports: int
    findings: tuple[Finding, ...]

    @property
    def suspicious(self) -> bool:
        """Whether any check is suspicious."""
        return any(finding.suspicious for finding in self.findings)

    @property
    def false_alarm(self) -> float:
        """The probability, at most, that an honest tally has a suspicious finding."""
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
    """The finding of a check that does not apply, with the reason."""
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
    """A finding whose meaning is ``odd`` if the p-value is below the level, else ``fine``."""
    suspicious = p_value < false_alarm
    named = tuple(where[:MOST_NAMED]) if suspicious else ()
    verdict = "suspicious" if suspicious else "fine"
    return Finding(
        check,
        float(statistic),
        min(1.0, p_value),
        false_alarm,
        verdict,
        odd if suspicious else fine,
        named,
    )


def holm(p_values: Floats, rate: float) -> np.ndarray:
    """Which of the p-values are rejected at a rate for all of them together (Holm)."""
    order = np.argsort(p_values, kind="stable")
    count = len(p_values)
    rejected = np.minimum.accumulate(p_values[order] * (count - np.arange(count)) < rate)
    suspicious = np.zeros(count, bool)
    suspicious[order[rejected]] = True
    return suspicious


def corrected(p_values: Floats) -> float:
    """The smallest p-value, corrected for the number of p-values (Bonferroni)."""
    return min(1.0, float(p_values.min(initial=1.0)) * len(p_values))
