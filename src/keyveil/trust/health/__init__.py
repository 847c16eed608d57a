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

from ...foundation.errors import PlanError
from ...plan.plan import Plan
from ...plan.tally import Tally
from .agreement import check_agreement
from .change import check_change
from .draws import check_dummies, check_seeds, check_views, drawn_evenly
from .finding import FALSE_ALARM, Finding, HealthReport, holm
from .mixture import check_mixture
from .shares import check_marks, check_rare, check_shares


def health(
    plan: Plan, tally: Tally, other: Tally | None = None, *, false_alarm: float = FALSE_ALARM
) -> HealthReport:
    """All checks of a tally, each at the rate ``false_alarm``; ``other`` is a tally to compare with."""
    tally.belongs_to(plan)
    if not 0 < false_alarm < 1:
        raise PlanError("a rate of false alarms lies between 0 and 1, like 0.001")
    if not tally.reports or (other is not None and not other.reports):
        raise PlanError("a tally without reports has no health; count some first")
    findings = [
        check_views(plan, tally, false_alarm),
        check_seeds(plan, tally, false_alarm),
        check_mixture(plan, tally, false_alarm),
        check_shares(plan, tally, false_alarm),
        check_marks(plan, tally, false_alarm),
        check_rare(plan, tally, false_alarm),
        check_dummies(plan, tally, false_alarm),
        check_agreement(plan, tally, false_alarm),
    ]
    if other is not None:
        other.belongs_to(plan)
        findings.append(check_change(plan, tally, other, false_alarm))
    return HealthReport(tally.reports, tuple(findings))


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
