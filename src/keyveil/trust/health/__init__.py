"""Health of a tally: what no honest population could have sent, each check with its false-alarm rate.

Whatever people hold, some things about their reports are known beforehand. ``views`` and ``seeds``:
devices draw them with public weights. ``mixture``: the outputs of a view, or the signs of a key, follow
a mixture of the channel's rows. ``shares``: no cell, position or item, and no key by either sign, is met
less or more often than the channel allows from any record, so that no frequency lies above 1, no mass
above its frequency, and no sum of frequencies above the cap.
``marks``: how many positions reports mark. ``rare``: many items together are not named less often than
lies alone name them. ``dummies``: devices that pad draw them evenly.
``agreement``: all views that hold a key tell the same of it. ``change``, with a second tally: whether
both are draws from one population.

People are a fixed, unknown crowd. Their reports are independent but not alike, and every test allows for
that: a count of unlike coins lies between the binomials of the least and the most likely one, and is no
further out than a binomial of their mean (Hoeffding 1956, 1963). P-values are exact or bounds, except
where chi-square is named (then every cell expects ten), and are corrected for how many were looked at
(Holm). A check that does not apply says so; nothing is dropped.

What stays inside these limits cannot be told from people: fakes that draw their view and lie about one
key look like more people who hold it. ``poison`` says how far that can go.
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
    """All checks of a tally, each with the stated rate of false alarms; ``other`` is compared to it."""
    tally.belongs_to(plan)
    if not 0 < false_alarm < 1:
        raise PlanError("a rate of false alarms lies between 0 and 1, like 0.001")
    if not tally.reports or (other is not None and not other.reports):
        raise PlanError("a tally without reports has no health; count some first")
    made = [
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
        made.append(check_change(plan, tally, other, false_alarm))
    return HealthReport(tally.reports, tuple(made))


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
