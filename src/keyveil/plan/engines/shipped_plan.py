"""Plans and coins as workers get them: plans by their text, which each process audits once."""

from __future__ import annotations

from ...foundation.coins import Coins
from ...foundation.errors import PlanError
from ..plan import Plan

MOST = 64
"""Number of plans that a process remembers."""

_known: dict[str, Plan] = {}


def check_plan(plan: object) -> None:
    """Refuse what is no plan, such as the path of one."""
    if not isinstance(plan, Plan):
        raise PlanError(f"this takes a plan, not {type(plan).__name__}: Plan.load(path) reads one")


def ship(plan: Plan) -> str:
    """The text of a plan, to be pickled to workers. This process does not audit it again."""
    check_plan(plan)
    text = plan.dumps()
    return _remember(text, plan)


def unship(text: str) -> Plan:
    """The plan of a text."""
    plan = _known.get(text)
    if plan is None:
        plan = Plan.parse(text)
        _remember(text, plan)
    return plan


def job_coins(coins: Coins | None) -> Coins:
    """The coins of a job: as stated, or one secure key for all of its tasks.

    ``Coins.secure()`` takes a new key in every process, so a task that runs again would draw second,
    different reports of the same people.
    """
    return Coins.for_job() if coins is None or coins.renewed else coins


def _remember(text: str, plan: Plan) -> str:
    while len(_known) >= MOST:
        _known.pop(next(iter(_known)), None)
    _known[text] = plan
    return text
