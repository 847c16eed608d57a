"""keyveil: learn from key-value data under local differential privacy.

::

    plan = Plan.of(Schema.of(["Fries", "Pepsi"], 1, 5), "kvue", epsilon=1)
    tally = Tally(plan).add(plan.report({"Pepsi": 4.5}))
    answers = estimate(plan, tally)
"""

from .audit import Audit, audit
from .budget import Budget
from .channel import Channel, Proof
from .coins import Coins
from .errors import (
    BudgetError,
    ChannelError,
    CoinsError,
    FinishedError,
    KeyveilError,
    PlanError,
    RecordError,
    ReportError,
    SchemaError,
    TableError,
)
from .estimate import Answers, Estimate, KeyAnswer, estimate
from .mechanism import Mechanism
from .mechanisms import REGISTRY
from .people import People
from .plan import Plan
from .report import Report, Reports
from .schema import Record, Schema
from .tally import Tally
from .views import Views

__all__ = [
    "REGISTRY",
    "Answers",
    "Audit",
    "Budget",
    "BudgetError",
    "Channel",
    "ChannelError",
    "Coins",
    "CoinsError",
    "Estimate",
    "FinishedError",
    "KeyAnswer",
    "KeyveilError",
    "Mechanism",
    "People",
    "Plan",
    "PlanError",
    "Proof",
    "Record",
    "RecordError",
    "Report",
    "ReportError",
    "Reports",
    "Schema",
    "SchemaError",
    "TableError",
    "Tally",
    "Views",
    "audit",
    "estimate",
]
__version__ = "0.1.0"
