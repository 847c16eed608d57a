"""Health of a tally: checks for what no honest population could have sent, with false-alarm rates.

Some facts about honest reports do not depend on what people hold. Each check tests one of them:

- ``views`` and ``seeds``: devices draw them with public weights.
- ``mixture``: the outputs of a view, or the signs of a key, follow a mixture of the channel's rows.
- ``shares``: no cell, position, item or key occurs less or more often than the channel allows for any
  record. So no frequency exceeds 1, no mass exceeds its frequency, and no sum of frequencies the cap.
- ``marks``: reports mark as many positions as the channel makes them mark.
- ``rare``: many items together are not named less often than lies alone name them.
- ``dummies``: devices that pad draw their dummies evenly.
- ``agreement``: all views that hold a key say the same about it.
- ``change``: this tally and a second one are draws from one population.

People are a fixed, unknown crowd. Their reports are independent but not identically distributed, and
every test allows for that. A count of unequal coins lies between the binomials of the least and the most
likely coin, and its tails are no heavier than those of a binomial of their mean (Hoeffding 1956, 1963).
P-values are exact or upper bounds, except where chi-square is named; there every cell expects ten. They
are corrected for the number of tests (Holm). A check that does not apply says so.

Fakes who stay inside these limits look like people: fakes who draw their view and lie about one key look
like more people who hold it. ``poison`` says how much they can change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ...foundation.errors import PlanError
from ...plan.plan import Plan
from ...plan.tally import Tally
from .agreement import check_agreement
from .change import check_change
from .draws import check_dummies, check_seeds, check_views, drawn_evenly
from .finding import FALSE_ALARM, Finding, HealthReport, holm, unchecked
from .mixture import check_mixture
from .shares import check_marks, check_rare, check_shares


def health(
    plan: Plan, tally: Tally, other: Tally | None = None, *, false_alarm: float = FALSE_ALARM
) -> HealthReport:
    """All checks of a plan's tally at the rate ``false_alarm`` each; ``other`` is a second one."""
    tally.belongs_to(plan)
    if not 0 < false_alarm < 1:
        raise PlanError("a rate of false alarms lies between 0 and 1, like 0.001")
    if not tally.reports or (other is not None and not other.reports):
        raise PlanError("a tally without reports has no health; count some first")
    findings = [check_views(plan, tally, false_alarm)]
    findings += [_in_parts(check, plan, false_alarm, tally) for check in _CHECKS]
    if other is not None:
        other.belongs_to(plan)
        findings.append(_in_parts(check_change, plan, false_alarm, tally, other))
    return HealthReport(tally.reports, tuple(findings))


_CHECKS = (
    check_seeds,
    check_mixture,
    check_shares,
    check_marks,
    check_rare,
    check_dummies,
    check_agreement,
)


def _in_parts(check: Callable[..., Finding], plan: Plan, false_alarm: float, *tallies: Tally) -> Finding:
    """A check of tallies; of a plan of parts the worst of its parts, corrected for their number."""
    if plan.parts is None:
        return check(plan, *tallies, false_alarm)
    rate = false_alarm / len(plan.parts)
    rows = zip(plan.part_plans, *(plan.part_tallies(tally) for tally in tallies), strict=True)
    findings = [
        check(own, *counts, rate) for own, *counts in rows if all(part.reports for part in counts)
    ]
    if not findings:
        return unchecked("change", "no part of the plan has reports in both tallies", false_alarm)
    checked = [entry for entry in findings if entry.verdict != "not checked"]
    worst = min(checked or findings, key=lambda entry: entry.p_value)
    p_value = min(1.0, worst.p_value * len(plan.parts))
    return replace(worst, p_value=p_value, false_alarm=false_alarm)


__all__ = [
    "FALSE_ALARM",
    "Finding",
    "HealthReport",
    "check_agreement",
    "check_change",
    "check_dummies",
    "check_marks",
    "check_mixture",
    "check_rare",
    "check_seeds",
    "check_shares",
    "check_views",
    "drawn_evenly",
    "health",
    "holm",
]
