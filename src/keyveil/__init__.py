"""keyveil: learn from key-value data under local differential privacy.

::

    plan = Plan.of(Schema.of(["Fries", "Pepsi"], 1, 5), "kvue", epsilon=1)
    tally = Tally(plan).add(plan.report({"Pepsi": 4.5}))
    answers = estimate(plan, tally)
"""

from typing import TYPE_CHECKING

from .channel import Channel, Proof
from .estimate import Answers, Estimate, KeyAnswer, estimate
from .foundation.coins import Coins
from .foundation.errors import (
    BudgetError,
    ChannelError,
    CoinsError,
    FinishedError,
    KeyveilError,
    PlanError,
    QueryError,
    RecordError,
    ReportError,
    SchemaError,
    TableError,
    UnknownKeyError,
)
from .foundation.lazy_names import loaded_later
from .mechanisms import REGISTRY
from .people.people import People
from .people.schema import Record, Schema
from .people.views import Views
from .plan.plan import Plan
from .plan.report import Report, Reports
from .plan.tally import Tally

if TYPE_CHECKING:
    from .estimate.together.conditional import Conditionals
    from .estimate.together.query import Query
    from .mechanisms.mechanism import Mechanism
    from .plan.audit import Audit, audit
    from .plan.budget import Budget
    from .service.client import AsyncClient, Client

_LATER = {
    "AsyncClient": "service.client",
    "Audit": "plan.audit",
    "Budget": "plan.budget",
    "Client": "service.client",
    "Conditionals": "estimate.together.conditional",
    "Mechanism": "mechanisms.mechanism",
    "Query": "estimate.together.query",
    "audit": "plan.audit",
}
"""Names that an import does not need, and their modules; each is loaded when it is first asked for."""


__getattr__ = loaded_later(__name__, _LATER)


__all__ = [
    "REGISTRY",
    "Answers",
    "AsyncClient",
    "Audit",
    "Budget",
    "BudgetError",
    "Channel",
    "ChannelError",
    "Client",
    "Coins",
    "CoinsError",
    "Conditionals",
    "Estimate",
    "FinishedError",
    "KeyAnswer",
    "KeyveilError",
    "Mechanism",
    "People",
    "Plan",
    "PlanError",
    "Proof",
    "Query",
    "QueryError",
    "Record",
    "RecordError",
    "Report",
    "ReportError",
    "Reports",
    "Schema",
    "SchemaError",
    "TableError",
    "Tally",
    "UnknownKeyError",
    "Views",
    "audit",
    "estimate",
]
__version__ = "0.1.0"
