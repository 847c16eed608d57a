"""Plan: the public contract, an immutable program for clients whose integers prove its epsilon."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..channel import Channel, Proof, worst_of
from ..channel.layout import Layout
from ..foundation.coins import Coins, Person, Stream
from ..foundation.errors import ChannelError, PlanError
from ..foundation.exact import own_context, text
from ..people.people import People
from ..people.scale import DOCUMENT, ExactScale
from ..people.schema import Record, Schema
from ..people.views import Views
from .encoding import Encoding
from .packing import Packing
from .plan_parts import (
    ENCODE,
    NO_ENCODING,
    WORDS_BEFORE,
    PartViews,
    PlanPart,
    check_parts,
    first_views,
    flattened_channels,
    part_counts,
    perturb_parts,
    pick_parts,
    weights_of,
)
from .recipe import Draft, Recipe, written
from .registry import REGISTRY, encoding_named, mechanism_named
from .report import Report, Reports

if TYPE_CHECKING:
    from ..people.beliefs import Beliefs
    from ..people.prior import Prior
    from .tally import Tally

FORMAT = "keyveil/plan/1"

CLIENT = {"unknown_key": "ignore", "outside_range": "clip", "no_number": "not held", "cap": "none"}
"""What a device does with a record that breaks a rule, so that it never falls silent."""


MOST_BYTES = 16 << 20
"""Maximum size of a plan's document; a larger one is refused before it is parsed."""

HASH_BYTES = len('"hash":"",') + 64 + 1
"""Bytes of the member ``hash`` in a document, plus the line feed at the end of a file."""

MOST_SUBSET_STATES = 1 << 13
"""Maximum number of states of all ``subset`` channels: a proof takes quadratic time."""
TOO_MANY_SUBSETS = f"the subset channels of a plan have at most {MOST_SUBSET_STATES} states in all"


def canonical(document: Mapping[str, Any]) -> bytes:
    """RFC 8785 for what plans hold: ASCII member names, whole numbers, strings, lists, objects."""
    return json.dumps(
        document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode()


@dataclass(frozen=True)
class Plan:
    """Keys, how a record becomes a state, the channel's integers, promised and proven epsilon.

    A plan of parts has the views and channels of all its parts, one after the other, and no encoding of
    its own. ``part_plans`` are the plans to ask about encodings: the parts', or the plan itself.
    """

    schema: Schema
    views: Views
    encode: str
    channels: tuple[Channel, ...]
    promised: Decimal
    mechanism_name: str
    calibrate: str = "paper"
    channel_of: tuple[int, ...] | None = None
    parameters: Mapping[str, int | str] = field(default_factory=dict)
    """As in the document: values and spreads are on [-1, 1]. See ``parameters_on_scale``."""
    chain: Mapping[str, Any] | None = None
    parts: tuple[PlanPart, ...] | None = None

    def __post_init__(self) -> None:
        if sum(c.proof_steps for c in self.channels) > MOST_SUBSET_STATES:
            raise PlanError(TOO_MANY_SUBSETS)
        if self.parts is None:
            self._check_channels()
        else:
            check_parts(self.parts)
        if not self.proof.keeps(self.promised):
            raise ChannelError(
                f"the channel breaks its promise of epsilon {self.promised}: {self.proof}"
            )
        _ = self.layout.cells

    def _check_channels(self) -> None:
        encoding = self.encoding
        if not self.channels:
            raise PlanError("a plan has at least one channel")
        of = self.channel_of
        if of is not None and (
            len(of) != len(self.views) or any(not 0 <= c < len(self.channels) for c in of)
        ):
            raise PlanError("a plan with several channels names one for each view")
        if not encoding.speaks_of_views and self.views != Views.whole(len(self.schema.keys)):
            raise PlanError("this encoding speaks of all keys in one view")
        for view, channel in zip(self.views.keys, self.view_channels, strict=True):
            if not encoding.fits(self.schema, channel, view):
                raise PlanError("a channel does not fit the states of its view")

    # -- making ----------------------------------------------------------------------------------

    @classmethod
    def of(
        cls,
        schema: Schema,
        mechanism: str,
        epsilon: float | str | Decimal,
        calibrate: str = "paper",
        **parameters: Any,
    ) -> Plan:
        """The plan of a registered mechanism; ``calibrate`` is "paper" or "tight".

        Parameters that are values or spreads are on the range of the schema's keys. If keys have
        different ranges, they are on [-1, 1], whose ends are those of each key's own range.
        """
        scale = ExactScale.of(schema)
        return cls._of_parameters(schema, mechanism, epsilon, calibrate, parameters, scale)

    @classmethod
    def of_document(
        cls,
        schema: Schema,
        mechanism: str,
        epsilon: float | str | Decimal,
        calibrate: str,
        parameters: Mapping[str, Any],
    ) -> Plan:
        """The same from parameters as they stand in a document: values and spreads are on [-1, 1]."""
        return cls._of_parameters(schema, mechanism, epsilon, calibrate, parameters, DOCUMENT)

    @classmethod
    def _of_parameters(
        cls,
        schema: Schema,
        mechanism: str,
        epsilon: float | str | Decimal,
        calibrate: str,
        parameters: Mapping[str, Any],
        scale: ExactScale,
    ) -> Plan:
        kind = mechanism_named(mechanism)
        with own_context():
            drafted = kind.plan_draft(schema, epsilon, calibrate, parameters, scale)
        return cls._drafted(kind, drafted, calibrate)

    @classmethod
    def choose(
        cls,
        schema: Schema,
        epsilon: float | str | Decimal,
        people: float,
        *,
        ask: str | Sequence[str] = "both",
        prior: Prior | Beliefs | None = None,
        force: bool = False,
    ) -> Plan:
        """The plan with the least predicted error if ``people`` people answer; see ``planner.advise``.

        Without a prior it is the plan with the smallest worst regret, whatever number of keys people
        hold. If no plan can answer, the error says what it would take; ``force`` returns the best one
        anyway.
        """
        from ..planner.planner import advise

        advice = advise(schema, epsilon, people, ask=ask, prior=prior, brief=force)
        if not advice.may_answer and not force:
            raise PlanError(str(advice))
        return advice.plan

    @classmethod
    def of_parts(cls, shares: Sequence[tuple[float | str | Decimal | None, Plan]]) -> Plan:
        """A plan whose people answer one of several plans, drawn with these shares, which sum to 1.

        One share may be None: it is what the others leave. All plans have the same keys, ranges and
        promised epsilon. Decimal text says a share exactly: "0.1" rather than 0.1.
        """
        weights = weights_of([str(s) if isinstance(s, float) else s for s, _ in shares])
        parts = tuple(PlanPart(weight, plan) for weight, (_, plan) in zip(weights, shares, strict=True))
        return cls.with_parts(ENCODE, parts)

    @classmethod
    def with_parts(
        cls,
        mechanism: str,
        parts: tuple[PlanPart, ...],
        parameters: Mapping[str, int | str] | None = None,
    ) -> Plan:
        """The plan of these parts, named after a mechanism that makes parts; see ``of_parts``."""
        check_parts(parts)
        plan, kind = parts[0].plan, mechanism_named(mechanism)
        schema = plan.schema.at(max(part.plan.schema.levels for part in parts))
        channels, channel_of = flattened_channels(parts)
        given = kind.parameters_of(parts) if parameters is None else parameters
        facts = schema, PartViews.of(parts), ENCODE, channels, plan.promised, mechanism, plan.calibrate
        return cls(*facts, channel_of, given, None, parts)

    @classmethod
    def _drafted(cls, kind: Recipe, drafted: Draft, calibrate: str) -> Plan:
        if drafted.parts is not None:
            return cls.with_parts(kind.name, drafted.parts, written(drafted.parameters))
        return cls(
            drafted.schema,
            drafted.views,
            drafted.encode,
            drafted.channels,
            drafted.promised,
            kind.name,
            calibrate,
            drafted.channel_of,
            written(drafted.parameters),
            drafted.chain,
        )

    def next(self, tally: Tally) -> Plan:
        """The next round of an interactive mechanism, made from what this round learned."""
        tally.belongs_to(self)
        kind = mechanism_named(self.mechanism_name)
        with own_context():
            drafted = kind.next(self, tally)
        return self._drafted(kind, drafted, self.calibrate)

    # -- facts -----------------------------------------------------------------------------------

    @cached_property
    def encoding(self) -> Encoding:
        """How a record becomes a state; ``encode`` is its name in documents."""
        if self.parts is not None:
            raise PlanError(NO_ENCODING)
        return encoding_named(self.encode)

    @cached_property
    def part_plans(self) -> tuple[Plan, ...]:
        """The plans of the parts; of a plan without parts, itself."""
        return (self,) if self.parts is None else tuple(part.plan for part in self.parts)

    def part_tallies(self, tally: Tally) -> list[Tally]:
        """The tally of each part's plan, in the order of ``part_plans``."""
        from .tally import Tally

        if self.parts is None:
            return [tally]
        counts = part_counts(self, tally.counts)
        return [Tally(plan, own) for plan, own in zip(self.part_plans, counts, strict=True)]

    @property
    def speaks_of_size(self) -> bool:
        """Whether all that it asks is how many keys are held."""
        return all(plan.encoding.speaks_of_size for plan in self.part_plans)

    @cached_property
    def parameters_on_scale(self) -> dict[str, int | str]:
        """The parameters as they are typed and shown: values and spreads are on the range of the keys.

        ``Plan.of`` takes them and returns the same plan. If keys have different ranges, they are those
        of the document.
        """
        return self.mechanism.shown(self.parameters, ExactScale.of(self.schema))

    @cached_property
    def view_channels(self) -> tuple[Channel, ...]:
        """The channel of each view."""
        if self.channel_of is None:
            return (self.channels[0],) * len(self.views)
        return tuple(self.channels[c] for c in self.channel_of)

    @cached_property
    def cap(self) -> int:
        """The number of keys that a record is cut or padded to, or of buckets of its size; else 0."""
        return self.encoding.cap(self.view_channels[0], len(self.schema.keys))

    def views_of(self, channel: int) -> list[int]:
        """The views that draw from a channel, by its number."""
        of = self.channel_of
        return [view for view in range(len(self.views)) if of is None or of[view] == channel]

    @cached_property
    def layout(self) -> Layout:
        """The cells of the tally that reports mark."""
        return Layout(self.view_channels, self.parts is not None)

    @cached_property
    def packing(self) -> Packing:
        """How reports become codes, rows and bits, and which of them are possible."""
        return Packing(self.hash, self.layout)

    @cached_property
    def proof(self) -> Proof:
        """The worst pair of records over all channels, with the encoding before them."""
        if self.parts is not None:
            return worst_of(plan.proof for plan in self.part_plans)
        keys = len(self.schema.keys)
        return worst_of(self.encoding.proof(channel, keys) for channel in self.channels)

    @property
    def proven(self) -> Decimal:
        """The true epsilon of one report, rounded up."""
        return self.proof.epsilon

    @property
    def bits_per_report(self) -> float:
        """Minimum number of bits of a report: the view's number and the output."""
        return float(np.log2(len(self.views))) + max(c.bits() for c in self.channels)

    # -- documents -------------------------------------------------------------------------------

    @cached_property
    def _body(self) -> dict[str, Any]:
        own = self.own_members
        body: dict[str, Any] = {
            "format": FORMAT,
            "mechanism": own.pop("mechanism"),
            "epsilon": {"promised": text(self.promised), "proven": text(self.proven)},
            "schema": self.schema.document(),
            "client": CLIENT,
            **own,
        }
        if self.chain is not None:
            body["chain"] = dict(self.chain)
        return body

    @property
    def own_members(self) -> dict[str, Any]:
        """The members of the document that a part has, too: mechanism, encoding, views and channels."""
        members: dict[str, Any] = {
            "mechanism": {
                "name": self.mechanism_name,
                "calibrate": self.calibrate,
                "parameters": dict(self.parameters),
            }
        }
        if self.parts is not None:
            return {**members, "parts": [part.document() for part in self.parts]}
        members["encode"] = self.encode
        members["views"] = self.views.document(len(self.schema.keys))
        members["channels"] = [channel.document() for channel in self.channels]
        if self.channel_of is not None:
            members["channel_of"] = list(self.channel_of)
        return members

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the canonical document without its hash; the plan's name everywhere."""
        content = canonical(self._body)
        if len(content) + HASH_BYTES > MOST_BYTES:
            raise PlanError(
                f"the plan would have {len(content) >> 20} MiB, more than {MOST_BYTES >> 20}: "
                "use fewer keys, shorter names or one range for all keys"
            )
        return hashlib.sha256(content).hexdigest()

    def document(self) -> dict[str, Any]:
        """The plan as JSON, with its hash."""
        return {**self._body, "hash": self.hash}

    def dumps(self) -> str:
        """The plan's canonical text."""
        return canonical(self.document()).decode()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plan) and self.hash == other.hash

    def __hash__(self) -> int:
        return hash(self.hash)

    def __repr__(self) -> str:
        return (
            f"Plan({self.mechanism_name}, {len(self.schema.keys)} keys, epsilon {text(self.promised)}, "
            f"{self.hash[:12]})"
        )

    @classmethod
    def parse(cls, document: str | bytes | Mapping[str, Any]) -> Plan:
        """A plan that can be trusted: known version, matching hash, integers that prove epsilon."""
        from .audit import audit

        report = audit(document)
        if report.plan is None or report.findings:
            raise PlanError(report.findings[0])
        return report.plan

    def save(self, path: str | Path) -> None:
        """Write the plan as a file."""
        from ..foundation.files import write_whole

        write_whole(Path(path), self.dumps().encode() + b"\n")

    @classmethod
    def load(cls, path: str | Path) -> Plan:
        """Read and verify a plan."""
        from ..foundation.files import named, named_content

        try:
            content = Path(path).read_bytes()
        except OSError as error:
            raise PlanError(f"cannot read the plan {path}: {error.strerror}") from None
        with named(path):
            if (what := named_content(content)) not in (None, "a plan"):
                raise PlanError(f"this is {what}, not a plan")
            return cls.parse(content)

    # -- the device's side -----------------------------------------------------------------------

    def report(self, record: Record, coins: Coins | None = None, person: Person | None = None) -> Report:
        """One person's report; a record that breaks a rule is refused before the first coin.

        Without ``coins`` they are fresh from the operating system. With coins of your own, name the
        ``person``: the same stated coins, person and plan always give the same report. Secure coins
        are new ones in every call.
        """
        return self._report(self.schema.checked(record), coins, person)

    def check(self, record: Record) -> list[str]:
        """The faults of an example record, one line each; for developers, see ``Schema.check``."""
        return self.schema.check(record)

    def report_as_client(
        self, record: object, coins: Coins | None = None, person: Person | None = None
    ) -> Report:
        """A report whatever the record holds, mapped as the plan states: never refuses."""
        return self._report(self.schema.mapped(record), coins, person)

    def _report(self, held: dict[int, float], coins: Coins | None, person: Person | None) -> Report:
        if coins is not None and person is None:
            raise PlanError("with coins of your own, name the person whose stream to draw from")
        own = (coins or Coins.secure()).for_reports(self.hash)
        stream = Stream.of(own, 0 if person is None else person)
        people = People.one(held, np.zeros((1, 4), np.uint32))
        views, outputs = self.perturb(people, stream)
        return Report(self.hash, self.packing.cells(int(views[0]), outputs[0]))

    def privatise(self, people: People, coins: Coins) -> Reports:
        """The reports of many people.

        With stated coins they are the same as one by one, whatever the chunks. Secure coins are new
        ones in every call: people of two batches share no words, whatever their numbers.
        """
        from .batch import privatise

        return privatise(self, people, coins.for_reports(self.hash))

    def perturb(self, people: People, stream: Stream) -> tuple[np.ndarray, np.ndarray]:
        """Each person's view and output: pick, encode, draw."""
        if self.parts is not None:
            return perturb_parts(self, people, stream)
        picked = self.views.pick(stream.words(0, 1)[:, 0])
        rest = picked, stream.skip(1), self.cap
        states = self.encoding.encode(self.schema, self.views, people, *rest)
        return picked, self.draw(picked, states, stream)

    def draw(self, picked: np.ndarray, states: np.ndarray, stream: Stream) -> np.ndarray:
        """Each state through the channel of its view: output cells, or rows of marks."""
        if self.channel_of is None:
            return self.channels[0].draw(states, stream.skip(self.channel_start(0)))
        channel_of = np.array(self.channel_of)
        used = channel_of[picked]
        width = max(channel.cells for channel in self.channels)
        shape = len(picked) if self.layout.one_cell else (len(picked), width)
        outputs = np.zeros(shape, np.int64 if self.layout.one_cell else np.uint8)
        for number in np.unique(used):
            rows = np.flatnonzero(used == number)
            start = self.channel_start(self.channel_of.index(int(number)))
            channel = self.channels[number]
            drawn = channel.draw(states[rows], stream.only(rows).skip(start))
            if drawn.ndim == 1:
                outputs[rows] = drawn
            else:
                outputs[rows, : drawn.shape[1]] = drawn
        return outputs

    def channel_start(self, view: int) -> int:
        """Where the channel's words begin: after the view's word and the encoder's, aligned."""
        if self.parts is not None:
            plan, own = self.part_of(view)
            return WORDS_BEFORE + plan.channel_start(own)
        taken = 1 + self.encoding.words(self.schema, len(self.views.keys[view]), self.cap)
        align = self.view_channels[view].align
        return -(-taken // align) * align

    def words_of(self, view: int) -> int:
        """The number of words that a report of this view takes."""
        return self.channel_start(view) + self.view_channels[view].words

    def part_of(self, view: int) -> tuple[Plan, int]:
        """The plan of the part that a view belongs to, and the number of the view there."""
        if self.parts is None:
            return self, view
        first = first_views(self.parts)
        number = int(np.searchsorted(first, view, side="right")) - 1
        return self.parts[number].plan, view - int(first[number])

    def pick(self, stream: Stream) -> np.ndarray:
        """The view that the words of each person pick."""
        if self.parts is None:
            return self.views.pick(stream.words(0, 1)[:, 0])
        numbers, first = pick_parts(self.parts, stream.words(0, 1)[:, 0]), first_views(self.parts)
        own = np.array([plan.pick(stream.skip(WORDS_BEFORE)) for plan in self.part_plans])
        return np.asarray(first[numbers] + own[numbers, np.arange(len(numbers))])

    @cached_property
    def picking_words(self) -> tuple[tuple[int, ...], np.ndarray]:
        """Which words pick the view, and for each view the lowest words that pick it, a row each."""
        if self.parts is None:
            return (0,), np.concatenate([[0], self.views.bounds]).astype(np.uint32)[:, None]
        ends = np.cumsum([0, *(part.weight for part in self.parts)]).tolist()
        rows = [
            np.stack([np.full(len(plan.views), end), plan.picking_words[1][:, 0]], axis=1)
            for end, plan in zip(ends, self.part_plans, strict=False)
        ]
        return (0, WORDS_BEFORE), np.concatenate(rows).astype(np.uint32)

    @property
    def mechanism(self) -> Recipe:
        """The mechanism that made the plan, with the answers that this plan has."""
        return REGISTRY[self.mechanism_name].of_plan(self)
