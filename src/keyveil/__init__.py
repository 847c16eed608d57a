"""keyveil: learn from key-value data under local differential privacy.

::

    plan = Plan.of(Schema.of(["Fries", "Pepsi"], 1, 5), "kvue", epsilon=1)
    tally = Tally(plan).add(plan.report({"Pepsi": 4.5}))
    answers = estimate(plan, tally)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .audit import Audit, audit
from .channel import Channel, Proof
from .coins import Coins
from .errors import (
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
from .estimate import Answers, Estimate, KeyAnswer, estimate
from .mechanism import Mechanism
from .mechanisms import REGISTRY
from .people import People
from .plan import Plan
from .report import Report, Reports
from .schema import Record, Schema
from .tally import Tally
from .views import Views

if TYPE_CHECKING:
    from .budget import Budget
    from .client import AsyncClient, Client
    from .estimate.conditional import Conditionals
    from .query import Query

_LATER = {
    "AsyncClient": "client",
    "Budget": "budget",
    "Client": "client",
    "Conditionals": "estimate.conditional",
    "Query": "query",
}
"""Names that a device does not need, and where they are; loaded when first asked for."""


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
    globals()[name] = found
    return found


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
