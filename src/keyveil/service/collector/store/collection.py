"""Collections: a plan, or a chain of plans, with its terms and its state."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any
from urllib.parse import urlsplit

from ....foundation.errors import choices, nearest
from ..process.problems import Problem
from .tokens import Token

NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")
STATES = ("open", "paused", "closed")
MOST_EPOCH = 2**32 - 1
"""The largest number in the four bytes of a batch; epochs of a second reach the year 2106."""
MOST_TIME = 2**40
MOST_LENGTH = 366 * 86_400
MOST_OPEN = 64
"""Maximum number of epochs open at once."""


@dataclass(frozen=True)
class Terms:
    """What the operator decides for a collection. ``epoch``, ``grace`` and ``early`` never change."""

    people: int | None = None
    """Maximum number of reports in a round."""
    opens: int | None = None
    """Time from which reports are accepted, in seconds since 1970; None for immediately."""
    closes: int | None = None
    """Time at which the collection closes."""
    epoch: int = 86_400
    """Length of an epoch in seconds. A report names its epoch, and its id counts once within it."""
    grace: int = 86_400
    """Seconds after its end during which an epoch still accepts reports."""
    early: int = 3_600
    """Seconds before its start from which an epoch accepts reports, for devices whose clocks are fast.
    """
    token: bool = False
    """Whether reports need an ingest token."""
    origins: tuple[str, ...] = ()
    """Web origins whose pages may send reports; ``*`` for all."""
    rate: int | None = None
    """Reports per second that one collector process accepts; None for no limit."""
    keep: int | None = None
    """Days for which sealed reports are kept; None for ever. Counts are always kept."""
    replaces: str | None = None
    """The collection that this one replaces as a new version."""

    FIXED = ("epoch", "grace", "early", "replaces")
    """Terms that never change, because ids are stored by them."""

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Terms:
        """Checked terms; a problem names what is wrong."""
        unknown = set(given) - set(cls.__dataclass_fields__)
        if unknown:
            raise _unknown_term(unknown, cls.__dataclass_fields__)
        terms = cls(**{**given, "origins": _origins(given.get("origins", ()))})
        terms._check()
        return terms

    def _check(self) -> None:
        for name, low, high in (
            *(("people", 1, 2**53), ("opens", 0, MOST_TIME), ("closes", 0, MOST_TIME)),
            *(("rate", 1, 10**9), ("keep", 1, 36_500)),
            *(("epoch", 1, MOST_LENGTH), ("grace", 0, MOST_LENGTH), ("early", 0, MOST_LENGTH)),
        ):
            value = getattr(self, name)
            if value is None and name not in self.FIXED:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise Problem("invalid", f"'{name}' must be a whole number from {low} to {high}")
        if not isinstance(self.token, bool):
            raise Problem("invalid", "'token' must be true or false")
        at_once = (self.grace + self.early) // self.epoch + 2
        if at_once > MOST_OPEN:
            least = (self.grace + self.early) // (MOST_OPEN - 1) + 1
            raise Problem(
                "invalid",
                f"with epoch {self.epoch}, grace {self.grace} and early {self.early} seconds, {at_once} "
                f"epochs are open at once, and at most {MOST_OPEN} may be: give an epoch of at least "
                f"{least} seconds, or a shorter grace",
            )
        if self.opens is not None and self.closes is not None and self.closes <= self.opens:
            raise Problem("invalid", "a collection must close after it opens")
        if self.replaces is not None and not is_name(self.replaces):
            raise Problem("invalid", "'replaces' must be the name of a collection")

    def changed(self, given: Mapping[str, Any]) -> Terms:
        """The terms with some of them changed. Those in ``FIXED`` cannot change."""
        changeable = [name for name in self.__dataclass_fields__ if name not in self.FIXED]
        unknown = set(given) - set(self.__dataclass_fields__)
        if unknown:
            raise _unknown_term(unknown, changeable)
        if set(given) & set(self.FIXED):
            raise Problem("invalid", f"{', '.join(self.FIXED)} cannot change: create a new collection")
        return Terms.of({**asdict(self), **given})

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {**asdict(self), "origins": list(self.origins)}

    # -- epochs ----------------------------------------------------------------------------------

    def epoch_at(self, now: float) -> int:
        """The epoch at a time."""
        return max(0, int(now // self.epoch))

    def end(self, epoch: int) -> float:
        """The time at which an epoch and its grace end, in seconds since 1970."""
        return float((epoch + 1) * self.epoch + self.grace)

    def over(self, epoch: int, now: float) -> bool:
        """Whether an epoch and its grace have ended."""
        return self.end(epoch) <= now

    def ahead(self, epoch: int, now: float) -> bool:
        """Whether it is too early for an epoch's reports."""
        return epoch * self.epoch - self.early > now

    def first_open(self, now: float) -> int:
        """The first epoch that has not ended."""
        return max(0, int((now - self.grace) // self.epoch))


@dataclass(frozen=True)
class Round:
    """One plan of a collection. A collection without a chain has one round."""

    id: int
    collection: int
    number: int
    plan: str
    """Hash of the plan."""
    closed: bool = False


@dataclass(frozen=True)
class Collection:
    """A name, terms, a state, and its rounds in order."""

    id: int
    name: str
    state: str
    terms: Terms
    closed_before: int
    """Epochs below this number are closed for good; their ids are deleted."""
    made: int = 0
    rounds: tuple[Round, ...] = ()

    @property
    def round(self) -> Round:
        """The latest round."""
        return self.rounds[-1]

    def round_of(self, plan: str) -> Round | None:
        """The round of a plan, by its hash."""
        return next((round_ for round_ in self.rounds if round_.plan == plan), None)

    def numbered(self, number: int | None) -> Round:
        """A round by its number; the latest if None."""
        if number is None:
            return self.round
        for round_ in self.rounds:
            if round_.number == number:
                return round_
        raise Problem("unknown", f"this collection has rounds 1 to {len(self.rounds)}")

    def is_full(self, reports: int) -> bool:
        """Whether a round with this number of reports accepts no more."""
        return self.terms.people is not None and reports >= self.terms.people

    def state_at(self, now: float, full: bool = False) -> str:
        """The state including the dates and whether the round is ``full``.

        It is ``not_open`` before the collection opens.
        """
        if self.state == "closed" or (self.terms.closes is not None and now >= self.terms.closes):
            return "closed"
        if self.terms.opens is not None and now < self.terms.opens:
            return "not_open"
        return "full" if full and self.state == "open" else self.state

    def refusal(self, round_: Round, epoch: int, now: float, trusted: bool = True) -> str | None:
        """Why new reports of a round and epoch are refused at a time; None if they are accepted."""
        if epoch < self.closed_before:
            return "closed_epoch"
        if self.state == "closed":
            return "closed_collection"
        if round_.closed or round_.id != self.round.id:
            return "closed_round"
        by_time = self._refusal_by_time(epoch, now)
        if by_time is not None:
            return by_time if trusted else "clock"
        return "paused" if self.state == "paused" else None

    def _refusal_by_time(self, epoch: int, now: float) -> str | None:
        state = self.state_at(now)
        if state == "closed":
            return "closed_collection"
        if state == "not_open":
            return "not_open"
        if self.terms.over(epoch, now):
            return "closed_epoch"
        return "early_epoch" if self.terms.ahead(epoch, now) else None


@dataclass(frozen=True)
class Control:
    """All collections and tokens at one time. It is replaced as a whole when anything changes."""

    collections: Mapping[str, Collection] = field(default_factory=dict)
    tokens: Mapping[str, Token] = field(default_factory=dict)
    _numbered: Mapping[int, Collection] = field(default_factory=dict, repr=False)
    _rounds: Mapping[int, Round] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, collections: Mapping[str, Collection], tokens: Mapping[str, Token]) -> Control:
        """These collections, by name, and tokens."""
        return cls().changed((), collections, tokens)

    def changed(
        self, numbers: Iterable[int], read: Mapping[str, Collection], tokens: Mapping[str, Token]
    ) -> Control:
        """With some collections read again, by number; those that were not found are gone.

        Dictionaries are copied and not built anew: the cost hardly grows with the other collections.
        """
        collections, numbered, rounds = dict(self.collections), dict(self._numbered), dict(self._rounds)
        for old in filter(None, map(self.by_id, numbers)):
            del collections[old.name], numbered[old.id]
            for round_ in old.rounds:
                del rounds[round_.id]
        for collection in read.values():
            collections[collection.name] = numbered[collection.id] = collection
            rounds.update((round_.id, round_) for round_ in collection.rounds)
        return Control(collections, tokens, numbered, rounds)

    @property
    def in_order(self) -> list[Collection]:
        """The collections by name."""
        return [self.collections[name] for name in sorted(self.collections)]

    def named(self, name: str) -> Collection:
        """A collection by name, for those who may list all names."""
        collection = self.collections.get(name)
        if collection is None:
            near = nearest(name[:64], self.collections)
            hint = "" if near is None else f"; did you mean {near}?"
            raise Problem("unknown", f"there is no collection {name[:64]!r}{hint}")
        return collection

    def named_publicly(self, name: str) -> Collection:
        """A collection by name, for anyone: the refusal tells no other name."""
        if name not in self.collections:
            raise Problem("unknown", "there is no collection of this name")
        return self.collections[name]

    def by_id(self, number: int) -> Collection | None:
        """A collection by its number, if it still exists."""
        return self._numbered.get(number)

    def round_by_id(self, number: int) -> Round | None:
        """A round by its number, if it still exists."""
        return self._rounds.get(number)

    def over(self, at: tuple[int, int]) -> bool:
        """Whether the epoch of a round, both by number, is closed for good or its collection deleted."""
        round_ = self._rounds.get(at[0])
        collection = None if round_ is None else self.by_id(round_.collection)
        return collection is None or at[1] < collection.closed_before


def is_name(value: object) -> bool:
    """Whether a value is a valid name of a collection: 1 to 64 lower-case letters, digits, hyphens."""
    return isinstance(value, str) and NAME.fullmatch(value) is not None


def checked_name(value: object) -> str:
    """A valid name; a problem otherwise."""
    if not is_name(value):
        raise Problem(
            "invalid", "a collection's name has 1 to 64 lower-case letters, digits and hyphens"
        )
    return str(value)


def _unknown_term(unknown: Iterable[str], known: Iterable[str]) -> Problem:
    name = min(unknown)
    return Problem("invalid", f"{name[:64]!r} is not a term; {choices(name[:64], known)}")


def _origins(given: object) -> tuple[str, ...]:
    wrong = Problem("invalid", "'origins' must be a list of origins such as https://example.org, or *")
    if not isinstance(given, list | tuple) or len(given) > 100:
        raise wrong
    for origin in given:
        if not isinstance(origin, str) or not is_origin(origin):
            raise wrong
    return tuple(given)


def is_origin(origin: str) -> bool:
    """Whether a text is the origin of web pages, such as https://example.org, or ``*`` for all."""
    if origin == "*":
        return True
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    if parts.scheme not in ("http", "https") or origin != f"{parts.scheme}://{parts.netloc}":
        return False
    return bool(parts.netloc) and "@" not in parts.netloc and origin.isascii() and len(origin) <= 300
