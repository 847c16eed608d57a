"""The types of requests and responses. They validate requests and make up the OpenAPI document."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

Name = Annotated[str, Meta(min_length=1, max_length=64, pattern="^[a-z0-9]([a-z0-9-]*[a-z0-9])?$")]
Whole = Annotated[int, Meta(ge=0)]
State = Literal["open", "paused", "closed"]


class TermsIn(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Terms of a new collection, or those that change."""

    people: Annotated[int, Meta(ge=1, le=2**53)] | msgspec.UnsetType | None = msgspec.UNSET
    opens: Annotated[int, Meta(ge=0, le=2**40)] | msgspec.UnsetType | None = msgspec.UNSET
    closes: Annotated[int, Meta(ge=0, le=2**40)] | msgspec.UnsetType | None = msgspec.UNSET
    epoch: Annotated[int, Meta(ge=1, le=366 * 86400)] | msgspec.UnsetType = msgspec.UNSET
    grace: Annotated[int, Meta(ge=0, le=366 * 86400)] | msgspec.UnsetType = msgspec.UNSET
    early: Annotated[int, Meta(ge=0, le=366 * 86400)] | msgspec.UnsetType = msgspec.UNSET
    token: bool | msgspec.UnsetType = msgspec.UNSET
    origins: Annotated[list[str], Meta(max_length=100)] | msgspec.UnsetType = msgspec.UNSET
    rate: Annotated[int, Meta(ge=1, le=10**9)] | msgspec.UnsetType | None = msgspec.UNSET
    keep: Annotated[int, Meta(ge=1, le=36500)] | msgspec.UnsetType | None = msgspec.UNSET
    replaces: str | msgspec.UnsetType | None = msgspec.UNSET

    def given(self) -> dict[str, Any]:
        """Only the terms that were given."""
        every = {name: getattr(self, name) for name in self.__struct_fields__}
        return {name: value for name, value in every.items() if value is not msgspec.UNSET}


class NewCollection(Struct, forbid_unknown_fields=True):
    """A collection to be made."""

    name: Name
    plan: dict[str, Any]
    state: Literal["open", "paused"] = "open"
    terms: TermsIn = msgspec.field(default_factory=TermsIn)


class NewState(Struct, forbid_unknown_fields=True):
    """What a collection's state shall be."""

    state: State


class Failed(Struct):
    """A report that was not taken."""

    id: str
    reason: str
    retry: bool


class Accepted(Struct):
    """The answer to a batch: only failed reports are named."""

    accepted: Whole
    failed: list[Failed]


class ProblemDetails(Struct):
    """A refusal (RFC 9457). ``retry`` says whether to send again, after ``Retry-After`` seconds."""

    type: str
    title: str
    status: Annotated[int, Meta(ge=400, le=599)]
    detail: str
    reason: str
    retry: bool


class EpochNow(Struct):
    """How epochs are counted: ``now`` is the number of the present one."""

    now: Whole
    seconds: Annotated[int, Meta(ge=1)]
    grace: Whole
    early: Whole


class Limits(Struct):
    """What one request may carry."""

    reports: Whole
    bytes: Whole


class Public(Struct):
    """What a client needs to know of a collection."""

    name: str
    state: Literal["open", "paused", "closed", "not_open", "full"]
    round: Annotated[int, Meta(ge=1)]
    plan: str
    epoch: EpochNow
    opens: int | None
    closes: int | None
    token: bool
    origins: list[str]
    """Web origins whose pages may send reports; a relay allows the same."""
    limits: Limits


class Created(Public):
    """A collection that was made, and what whoever made it should know."""

    warnings: list[str]


class Listing(Struct):
    """All collections."""

    collections: list[Public]


class RoundStatus(Struct):
    """A round, and where its reports are."""

    round: int
    plan: str
    closed: bool
    reports: Whole
    open_epochs: list[dict[str, Any]]
    sealed_epochs: list[dict[str, Any]]


class Status(Public):
    """What analysts and admins see of a collection."""

    terms: dict[str, Any]
    made: int
    closed_before: Whole
    rounds: list[RoundStatus]
    refusals: dict[str, int]
    changed: Whole
    """Reports sent again soon after, with other cells, since this process began; the first stands."""
    offers: dict[str, list[str]]
    """``answers``: what the plan answers of each key; ``estimators``: by which of them."""


class Answered(Struct):
    """What every answer says of the tally that it is made from."""

    round: int
    plan: str
    reports: Whole
    version: Whole


class Estimates(Answered):
    """Frequency and mean of every key."""

    mechanism: str
    estimator: str
    level: float
    after: list[str]
    note: str
    keys: list[dict[str, Any]]


class QueryAnswers(Answered):
    """Answers in the order of the queries."""

    answers: list[dict[str, Any]]


class Matrix(Answered):
    """Row k, column c: the statistic of key k given key c; null on the diagonal."""

    kind: str
    keys: list[str]
    matrix: list[list[dict[str, Any] | None]]


class Checks(Answered):
    """Findings on the tally, each with its rate of false alarms."""

    suspicious: bool
    false_alarm: float
    findings: list[dict[str, Any]]
    latest_epoch: int | None


class Ends(Struct):
    """Where one key's honest answers may lie: low and high end, null where nothing bounds it."""

    key: str
    frequency: tuple[float | None, float | None] | None
    mean: tuple[float | None, float | None] | None
    mass: tuple[float | None, float | None] | None


class Fakes(Answered):
    """What a share of fakes may have done; ``views``: drawn as honest clients do, or chosen."""

    share: float
    level: float
    views: Literal["drawn", "chosen"]
    keys: list[Ends]


class Counts(Answered):
    """The tally, cell by cell."""

    counts: list[Whole]


class BroughtIn(Struct):
    """Whether a tally was added, or had been before."""

    added: bool
    reports: Whole


class Segments(Struct):
    """Manifests of the sealed epochs."""

    segments: list[dict[str, Any]]


class Comparison(Struct):
    """How two collections' plans differ."""

    same_plan: bool
    differences: list[dict[str, Any]]
    unsafe: list[str]
    comparable: bool
    epsilon_of_both: str


class SessionFacts(Struct):
    """What the sender of a request may do."""

    role: Literal["admin", "analyst", "ingest"] | None
    """Null without a token, or with one that is unknown or was revoked."""
    collection: str | None
    """The collection that the token is for; null for all."""
    token: bool
    """Whether requests need a token; false while none exists, on the collector's own machine."""


class Glance(Struct):
    """One collection of the overview."""

    name: str
    state: Literal["open", "paused", "closed", "not_open", "full"]
    round: Annotated[int, Meta(ge=1)]
    reports: Whole
    """Reports of the latest round."""
    people: int | None
    """The most reports that a round accepts."""
    mechanism: str
    keys: Whole
    promised: str
    proven: str
    refused: Whole


class Overview(Struct):
    """All collections at a glance."""

    collections: list[Glance]


class PlanFacts(Struct):
    """What a plan asks, in words and numbers."""

    mechanism: str
    source: str
    speaks_of: str
    answers: list[str]
    note: str
    keys: Whole
    promised: str
    proven: str
    bits: float
    """Information in a report."""
    cells: Whole
    """Cells of the tally."""


class RuleList(Answered):
    """Association rules, the surest first; ``found`` may be more than are listed."""

    level: float
    false_discovery: float
    control: str
    found: Whole
    tested: Whole
    rules: list[dict[str, Any]]


class PeopleFor(Struct):
    """People that a query needs; null if no number is known to suffice, and why."""

    query: str
    people: int | None
    why: Literal["", "no view", "no reports", "nobody"]


class PeopleForQueries(Answered):
    """People that queries need, in their order."""

    answers: list[PeopleFor]


class ErrorForecast(Answered):
    """The error so far, and rows of predicted errors by people; means on ``scale``."""

    scale: dict[str, Any]
    so_far: dict[str, Any] | None
    curve: list[dict[str, Any]]


class TokenRow(Struct):
    """A token without its secret."""

    id: str
    role: str
    collection: str | None
    label: str
    revoked: bool


class Tokens(Struct):
    """All tokens."""

    tokens: list[TokenRow]


class NewToken(Struct, forbid_unknown_fields=True):
    """A token to be made."""

    role: Literal["admin", "analyst", "ingest"]
    collection: str | None = None
    label: Annotated[str, Meta(max_length=100)] = ""


class MadeToken(Struct):
    """A new token; its text is never shown again."""

    id: str
    text: str


class Health(Struct):
    """Whether the process acknowledges reports, and what an operator should look at."""

    healthy: bool
    warnings: list[str]


class Ready(Struct):
    """Whether requests should come here."""

    ready: bool
    why: list[str]
