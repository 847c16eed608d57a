"""The result of a check, and the correction of p-values for many tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...foundation.arrays import Floats

FALSE_ALARM = 1e-3
MOST_NAMED = 20
MEANINGS = {
    "views": (
        "views were drawn with the plan's weights",
        "views were not drawn with the plan's weights: someone chose what to speak of",
    ),
    "seeds": (
        "seeds were drawn evenly from the pool",
        "seeds were not drawn evenly: someone searched for those under which keys collide",
    ),
    "mixture": (
        "some honest population would have sent these outputs",
        "no honest population would have sent these outputs, whatever it holds",
    ),
    "shares": (
        "nothing is met more or less often than honest reports allow",
        "something is met more or less often than from any honest person, even if all were alike",
    ),
    "marks": (
        "reports mark as many positions as honest ones do",
        "reports mark more or fewer positions than honest ones do: someone marks many keys at once",
    ),
    "rare": (
        "rare keys are named as often as lies alone name them",
        "many rare keys are each named a little less often than by lies alone: reports went elsewhere",
    ),
    "dummies": (
        "dummy keys were drawn evenly",
        "dummy keys were not drawn evenly: someone chose which to send",
    ),
    "agreement": (
        "views that share a key tell the same of it",
        "views that share a key tell different things of it: someone answers as the view suits",
    ),
    "change": (
        "both tallies may be draws from one population",
        "the two tallies are not draws from one population: people changed, or someone began to cheat",
    ),
}
"""What each check says of a tally that passes, and of one that does not."""


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


def finding(check: str, statistic: float, p_value: float, false_alarm: float) -> Finding:
    """The finding of a check with this p-value."""
    suspicious = p_value < false_alarm
    verdict, meaning = "suspicious" if suspicious else "fine", MEANINGS[check][suspicious]
    return Finding(check, float(statistic), min(1.0, p_value), false_alarm, verdict, meaning)


def named_finding(
    check: str,
    statistic: float,
    p_values: Floats,
    false_alarm: float,
    name: Callable[[int], str],
    p_value: float | None = None,
) -> Finding:
    """The finding of many tests, with the names of those that are suspicious on their own, worst first.

    ``p_value`` is that of all tests together, by default the smallest one corrected for their number.
    """
    result = finding(check, statistic, corrected(p_values) if p_value is None else p_value, false_alarm)
    odd = np.flatnonzero(holm(p_values, false_alarm)) if result.suspicious else np.arange(0)
    names = dict.fromkeys(name(int(row)) for row in odd[np.argsort(p_values[odd], kind="stable")])
    return replace(result, where=tuple(names)[:MOST_NAMED])


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
