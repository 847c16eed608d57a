"""Recipe: how a mechanism makes plans: its facts, its parameters, its draft of a plan."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar

from ..channel import Channel, Table
from ..foundation.errors import ChannelError, PlanError, nearest
from ..foundation.exact import decimal, epsilon_of, own_context, text
from ..foundation.search import largest_fitting_real
from ..people.scale import DOCUMENT, ExactScale, Quantity
from ..people.schema import Schema
from ..people.views import Views

if TYPE_CHECKING:
    from .plan import Plan
    from .plan_parts import PlanPart
    from .tally import Tally

CALIBRATIONS = ("paper", "tight")


@dataclass(frozen=True)
class Parameter:
    """A choice a mechanism leaves open, with its default, its bounds and what it does.

    A default and bounds that are values or spreads are on [-1, 1], as in a plan's document.
    """

    default: int | str
    low: int | str
    high: int | str
    what: str
    quantity: Quantity = Quantity.NUMBER

    def read(self, name: str, value: object, scale: ExactScale = DOCUMENT) -> int | Decimal:
        """The value within bounds, as in a document: whole where the default is whole, else decimal.

        A value or spread is given on ``scale``.
        """
        number = scale.unit(decimal(value, name), self.quantity)
        if not Decimal(self.low) <= number <= Decimal(self.high):
            raise PlanError(f"{name} must lie {self._bounds(scale)}: {self.what}{self._note(scale)}")
        if isinstance(self.default, int):
            if number != int(number):
                raise PlanError(f"{name} must be a whole number: {self.what}")
            return int(number)
        return number

    def shown(self, value: int | str, scale: ExactScale) -> int | str:
        """A document's value as people type and read it."""
        if self.quantity is Quantity.NUMBER:
            return value
        return text(scale.shown(Decimal(value), self.quantity))

    def _bounds(self, scale: ExactScale) -> str:
        if self.quantity is Quantity.NUMBER:
            return f"between {self.low} and {self.high}"
        return f"in [{self.shown(self.low, scale)}, {self.shown(self.high, scale)}]{scale.words}"

    def _note(self, scale: ExactScale) -> str:
        return "" if self.quantity is Quantity.NUMBER else scale.note


@dataclass(frozen=True)
class Choice:
    """A choice between names."""

    default: str
    names: tuple[str, ...]
    what: str

    def read(self, name: str, value: object, scale: ExactScale = DOCUMENT) -> str:
        """One of the names."""
        if value not in self.names:
            raise PlanError(f"{name} must be one of {', '.join(self.names)}: {self.what}")
        return str(value)

    def shown(self, value: int | str, scale: ExactScale) -> int | str:
        """The name as it is."""
        return value


@dataclass(frozen=True)
class Text:
    """A choice in words of the caller's own."""

    default: str
    what: str

    def read(self, name: str, value: object, scale: ExactScale = DOCUMENT) -> str:
        """The words."""
        if not isinstance(value, str):
            raise PlanError(f"{name} must be text: {self.what}")
        return value

    def shown(self, value: int | str, scale: ExactScale) -> int | str:
        """The words as they are."""
        return value


@dataclass(frozen=True)
class Draft:
    """What a mechanism decides about a plan."""

    schema: Schema
    views: Views
    encode: str
    channels: tuple[Channel, ...]
    promised: Decimal
    channel_of: tuple[int, ...] | None = None
    """The channel of each view; None if all share the first."""
    chain: Mapping[str, Any] | None = None
    parameters: Mapping[str, int | str | Decimal] = field(default_factory=dict)
    parts: tuple[PlanPart, ...] | None = None
    """The parts of a plan of parts, which replace views, encoding and channels."""


class Recipe(ABC):
    """The half of a mechanism that makes plans; the other half, ``Decoding``, reads their tallies."""

    name: ClassVar[str]
    paper_name: str = ""
    """Its name in papers; empty for a mechanism of keyveil."""
    source: ClassVar[str]
    """Where it is from, with venue and year."""
    speaks_of: ClassVar[str]
    """What one report speaks of, in words for people."""
    answers: tuple[str, ...] = ("frequency", "mean")
    """Which of frequency, mean and mass of a key it can answer."""
    note: str = ""
    """What a reader of the answers must know."""
    makes_parts: ClassVar[bool] = False
    """Whether its plans have parts."""
    wasteful: ClassVar[bool] = False
    """Whether the published parameters prove less than they promise."""
    fewest_keys: ClassVar[int] = 1
    most_keys: ClassVar[int] = 1 << 20
    bits: ClassVar[str]
    """Bits of one report over d keys, as a formula."""
    parameters: ClassVar[Mapping[str, Parameter | Choice | Text]] = {}

    @abstractmethod
    def draft(self, schema: Schema, epsilon: Decimal, tight: bool, chosen: Mapping[str, Any]) -> Draft:
        """The plan this mechanism makes of a schema and a promise."""

    def __repr__(self) -> str:
        return f"Mechanism({self.name!r})"

    def of_plan(self, plan: Plan) -> Recipe:
        """The mechanism with the answers and notes of one plan, if these depend on its parts."""
        return self

    def parameters_of(self, parts: Sequence[PlanPart]) -> dict[str, int | str]:
        """The parameters of a plan of these parts."""
        raise PlanError(f"{self.name} makes no plans of parts")

    def next(self, plan: Plan, tally: Tally) -> Draft:
        """The next round of a chain of plans."""
        raise PlanError(f"{self.name} has one round; there is no next plan")

    def chain_fault(self, chain: object, keys: int) -> str:
        """What is wrong with a document's chain over so many keys; empty if nothing is."""
        return "" if chain is None else f"{self.name} has one round; its plan has no chain"

    def parameter_fault(self, given: Mapping[str, Any]) -> str:
        """What is wrong with a document's parameters; empty if each is there, within its bounds."""
        missing = [name for name in self.parameters if name not in given]
        if missing:
            return f"the plan lacks {missing[0]!r}, a parameter of {self.name}"
        if len(given) > len(self.parameters):
            known = ", ".join(self.parameters) or "none"
            return f"the plan has a parameter that {self.name} does not know; known: {known}"
        try:
            read = written(self.chosen(given))
        except PlanError as error:
            return str(error)
        return "" if read == given else f"the plan's parameters of {self.name} are not in their one form"

    def plan_fault(self, plan: Plan) -> str:
        """What in a plan contradicts its parameters, so that no estimator could read it; or empty."""
        return ""

    def true_epsilon(self, epsilon: Decimal) -> Decimal:
        """What the published mechanism really proves at a nominal epsilon, over all its rounds."""
        keys = max(2, self.fewest_keys)
        schema = Schema.of(keys)
        with own_context():
            drafted = self.draft(schema, epsilon, False, self.chosen(self.example(schema)))
        return max(channel.proof().epsilon for channel in drafted.channels)

    def example(self, schema: Schema) -> dict[str, str]:
        """The parameters of an example plan; empty if the defaults suffice."""
        return {}

    def chosen(self, given: Mapping[str, Any], scale: ExactScale = DOCUMENT) -> dict[str, Any]:
        """Every parameter's value as in a document, the given ones checked, the others at their default.

        Given values and spreads are on ``scale``.
        """
        unknown = set(given) - set(self.parameters)
        if unknown:
            known, wrong = ", ".join(self.parameters) or "none", min(unknown)
            near = nearest(wrong, self.parameters)
            hint = "" if near is None else f"did you mean {near}? "
            raise PlanError(f"{self.name} has no parameter {wrong!r}; {hint}known: {known}")
        return {
            name: parameter.read(name, given[name], scale)
            if name in given
            else parameter.read(name, parameter.default)
            for name, parameter in self.parameters.items()
        }

    def own_defaults(
        self, keys: int, epsilon: Decimal, chosen: Mapping[str, Any]
    ) -> Mapping[str, int | str]:
        """Defaults that depend on the plan and stand in place of the parameters' own."""
        return {}

    def shown(self, parameters: Mapping[str, int | str], scale: ExactScale) -> dict[str, int | str]:
        """A document's parameters as people type and read them; ``chosen`` reads them back."""
        return {name: self.parameters[name].shown(value, scale) for name, value in parameters.items()}

    def plan_draft(
        self,
        schema: Schema,
        epsilon: object,
        calibrate: str,
        given: Mapping[str, Any],
        scale: ExactScale = DOCUMENT,
    ) -> Draft:
        """A checked draft, with its parameters on record; given values and spreads are on ``scale``."""
        if calibrate not in CALIBRATIONS:
            raise PlanError(f"unknown calibration {calibrate!r}; known: {', '.join(CALIBRATIONS)}")
        chosen = self.chosen(given, scale)
        keys = len(schema.keys)
        if keys < self.fewest_keys:
            raise PlanError(f"{self.name} needs at least {self.fewest_keys} keys; this plan has {keys}")
        if keys > self.most_keys:
            other = "pairs" if keys <= 1000 and self.name != "pairs" else "pair_collision"
            raise PlanError(f"{self.name} takes at most {self.most_keys} keys, not {keys}: use {other}")
        promised = epsilon_of(epsilon)
        own = self.own_defaults(keys, promised, chosen)
        chosen |= {name: value for name, value in own.items() if name not in given}
        drafted = self.draft(schema, promised, calibrate == "tight", chosen)
        return with_parameters(drafted, chosen)


def with_parameters(draft: Draft, chosen: Mapping[str, Any]) -> Draft:
    """The draft with its parameters on record."""
    return Draft(
        draft.schema,
        draft.views,
        draft.encode,
        draft.channels,
        draft.promised,
        draft.channel_of,
        draft.chain,
        dict(chosen),
        draft.parts,
    )


def written(parameters: Mapping[str, Any]) -> dict[str, int | str]:
    """Parameters as they stand in a plan: whole numbers as they are, decimals as strings."""
    return {n: text(v) if isinstance(v, Decimal) else v for n, v in parameters.items()}


def kept(table: Table, promised: Decimal) -> bool:
    """Whether a table keeps a promise. A table with an output that a state never sends keeps none."""
    try:
        return table.proof().keeps(promised)
    except ChannelError:
        return False


def fitted(build: Callable[[float], Table], nominal: float, promised: Decimal) -> Table:
    """The table at ``nominal``, or at the nearest smaller parameter whose integers keep the promise.

    Rounding to 32 bits may break a tight promise in the tenth digit; then the parameter is lowered
    by a billionth, two, four ... of itself until the exact proof holds.
    """
    table, cut = build(nominal), 1e-9
    while not kept(table, promised):
        if cut > 1e-2:
            table.check(promised)
        table = build(nominal * (1 - cut))
        cut *= 2
    return table


def largest(build: Callable[[float], Table], promised: Decimal) -> Table:
    """The table with the largest nominal parameter whose proven epsilon keeps the promise."""
    nominal = float(promised)
    nominal = largest_fitting_real(nominal, nominal * 4, lambda x: kept(build(x), promised))
    return fitted(build, nominal, promised)
