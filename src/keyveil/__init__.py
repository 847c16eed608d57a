"""keyveil: learn from key-value data under local differential privacy.

::

    schema = kv.Schema.from_frame(frame, person="user", key="film", value="stars", low=1, high=5)
    plan = kv.Plan.choose(schema, epsilon=2, people=100_000)
    tally = plan.collect(frame)
    tally.estimate().to_frame()

Modules on one subject: ``engines`` (files larger than memory, on all processors), ``learn`` (rules,
trees, classifiers, cubes), ``poison`` (what fake clients can do), ``shuffle`` (privacy among many
reports), ``spark`` (Apache Spark), ``synthetic`` (made-up people), ``tables`` (files of people, keys and
values), ``theory`` (laws and exact errors behind mechanisms) and ``testing`` (checks of a mechanism or a
client of one's own).
"""

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .foundation.lazy_names import loaded_later

if TYPE_CHECKING:
    from . import testing as testing
    from .channel import Channel, Proof
    from .estimate import Answers, Estimate, KeyAnswer, estimate
    from .estimate import learn as learn
    from .estimate.together.conditional import Conditionals
    from .estimate.together.people_needed import people_needed
    from .estimate.together.query import Query
    from .estimate.together.query_answer import ConditionalMatrix, QueryAnswer, QueryResults
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
    from .foundation.notices import ComparisonWarning, PeopleWarning, PlannerWarning
    from .mechanisms import REGISTRY
    from .mechanisms.mechanism import Mechanism
    from .people import synthetic as synthetic
    from .people import tables as tables
    from .people.beliefs import Beliefs
    from .people.people import People
    from .people.population import Population
    from .people.prior import Prior
    from .people.schema import Record, Schema
    from .people.views import Views
    from .plan import engines as engines
    from .plan.audit import Audit, audit
    from .plan.budget import Budget
    from .plan.plan import Plan
    from .plan.report import Report, Reports
    from .plan.tally import Tally
    from .planner.advice import Advice
    from .planner.first_round import pilot_people
    from .planner.outlook import outlook
    from .planner.pilot import pilot_beliefs
    from .service.client import AsyncClient, Client, ClientError, Ledger, Outcome, Patience
    from .simulate import spark as spark
    from .simulate import theory as theory
    from .simulate.comparison import MechanismComparison, compare
    from .trust import poison as poison
    from .trust import shuffle as shuffle
    from .trust.health import health
    from .trust.message_audit import audit_messages, guess_bound

_LATER = {
    "Advice": "planner.advice",
    "Answers": "estimate.answer",
    "AsyncClient": "service.client",
    "Audit": "plan.audit",
    "Beliefs": "people.beliefs",
    "Budget": "plan.budget",
    "BudgetError": "foundation.errors",
    "Channel": "channel.law",
    "ChannelError": "foundation.errors",
    "Client": "service.client",
    "ClientError": "service.client",
    "Coins": "foundation.coins",
    "CoinsError": "foundation.errors",
    "ComparisonWarning": "foundation.notices",
    "ConditionalMatrix": "estimate.together.query_answer",
    "Conditionals": "estimate.together.conditional",
    "Estimate": "estimate.answer",
    "FinishedError": "foundation.errors",
    "KeyAnswer": "estimate.answer",
    "KeyveilError": "foundation.errors",
    "Ledger": "service.client",
    "Mechanism": "mechanisms.mechanism",
    "MechanismComparison": "simulate.comparison",
    "Outcome": "service.client",
    "Patience": "service.client",
    "People": "people.people",
    "PeopleWarning": "foundation.notices",
    "PlannerWarning": "foundation.notices",
    "Plan": "plan.plan",
    "PlanError": "foundation.errors",
    "Population": "people.population",
    "Prior": "people.prior",
    "Proof": "channel.proof",
    "Query": "estimate.together.query",
    "QueryAnswer": "estimate.together.query_answer",
    "QueryError": "foundation.errors",
    "QueryResults": "estimate.together.query_answer",
    "REGISTRY": "plan.registry",
    "Record": "people.schema",
    "RecordError": "foundation.errors",
    "Report": "plan.report",
    "ReportError": "foundation.errors",
    "Reports": "plan.report",
    "Schema": "people.schema",
    "SchemaError": "foundation.errors",
    "TableError": "foundation.errors",
    "Tally": "plan.tally",
    "UnknownKeyError": "foundation.errors",
    "Views": "people.views",
    "audit": "plan.audit",
    "audit_messages": "trust.message_audit",
    "compare": "simulate.comparison",
    "guess_bound": "trust.message_audit",
    "health": "trust.health",
    "outlook": "planner.outlook",
    "people_needed": "estimate.together.people_needed",
    "pilot_beliefs": "planner.pilot",
    "pilot_people": "planner.first_round",
}
"""Public names and their modules. Each is loaded when it is first asked for, so an import is fast."""


_SUBJECTS = {
    "engines": "plan.engines",
    "learn": "estimate.learn",
    "poison": "trust.poison",
    "shuffle": "trust.shuffle",
    "spark": "simulate.spark",
    "synthetic": "people.synthetic",
    "tables": "people.tables",
    "testing": "testing",
    "theory": "simulate.theory",
}
"""Modules of the package that are public under a short name: ``from keyveil import learn``."""

__getattr__ = loaded_later(__name__, _LATER, _SUBJECTS)


def __dir__() -> list[str]:
    """The names to import from here, those that are loaded later too."""
    return sorted({*__all__, *_SUBJECTS, "__all__", "__doc__", "__version__"})


class _Package(ModuleType):
    """The package. Its name ``estimate`` is the function; the import system would set the folder."""

    @property
    def estimate(self) -> Any:
        from .estimate import estimate

        return estimate

    @estimate.setter
    def estimate(self, folder: ModuleType) -> None:
        """Keep the function."""


sys.modules[__name__].__class__ = _Package


__all__ = [
    "REGISTRY",
    "Advice",
    "Answers",
    "AsyncClient",
    "Audit",
    "Beliefs",
    "Budget",
    "BudgetError",
    "Channel",
    "ChannelError",
    "Client",
    "ClientError",
    "Coins",
    "CoinsError",
    "ComparisonWarning",
    "ConditionalMatrix",
    "Conditionals",
    "Estimate",
    "FinishedError",
    "KeyAnswer",
    "KeyveilError",
    "Ledger",
    "Mechanism",
    "MechanismComparison",
    "Outcome",
    "Patience",
    "People",
    "PeopleWarning",
    "Plan",
    "PlanError",
    "PlannerWarning",
    "Population",
    "Prior",
    "Proof",
    "Query",
    "QueryAnswer",
    "QueryError",
    "QueryResults",
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
    "audit_messages",
    "compare",
    "estimate",
    "guess_bound",
    "health",
    "outlook",
    "people_needed",
    "pilot_beliefs",
    "pilot_people",
]
__version__ = "0.1.0"
"""The one place of the version; everything else reads it or is compared with it."""
