"""The client without a network: what to request, how to read responses, when to try again.

Every operation is a generator. It yields steps (``Ask`` a server, ``Wait`` some seconds) and receives
the responses. A transport carries out the steps, synchronously or asynchronously, and knows no more.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from math import ceil, isfinite
from numbers import Real
from typing import Any, TypeVar
from urllib.parse import quote

from ...foundation.coins import Coins
from ...foundation.errors import PlanError
from ...foundation.exact import Number
from ...plan.budget import checked_cap
from ...plan.plan import Plan
from ...plan.plan_document import MOST_BYTES
from ...plan.report import is_hex
from .access_token import checked_token
from .client_error import ClientError
from .ledger import WAITING, Entry, Ledger
from .service_url import checked_url
from .verdict import LATER, LONGEST, Outcome, Response, judge, retry_after

T = TypeVar("T")

MOST_EPOCH = 2**32 - 1
EPOCHS = (3_600, 21_600, 43_200, 86_400, 604_800)
"""Epoch lengths in seconds that devices answer: one, six and twelve hours, a day, a week.

The epoch's number goes with a report. If any length were allowed, a collector could give each device its
own length and recognise the device by the number.
"""
LEAST_EPOCH = EPOCHS[0]
"""Shortest epoch, in seconds, that a device answers by default."""


MOST_PLAN = MOST_BYTES
"""Maximum size of a plan that a client fetches."""
MOST_RESPONSE = 1 << 18
"""Maximum size of any other response."""
LONGEST_ANSWER = 300.0
"""Seconds within which a response must be complete."""


@dataclass(frozen=True)
class Ask:
    """A request to make."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes = b""
    most: int = MOST_RESPONSE
    """Maximum number of bytes read of the response."""


@dataclass(frozen=True)
class Wait:
    """Seconds to let pass."""

    seconds: float


class Reading:
    """A response as it arrives, cut off at its maximum size and time.

    Nothing is decompressed: clients ask for plain responses, and a small compressed one may expand
    without end.
    """

    def __init__(self, status: int, headers: Mapping[str, str], most: int) -> None:
        self._status, self._headers, self._most = status, headers, most
        self._body, self._until = bytearray(), time.monotonic() + LONGEST_ANSWER
        self.fault = ""
        """Why reading stopped; empty while all is well."""
        length = headers.get("content-length", "")
        if headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
            self.fault = "a compressed answer, which was not asked for"
        elif length.isascii() and length.isdigit() and (len(length) > 18 or int(length) > most):
            self.fault = self._too_long()

    def _too_long(self) -> str:
        return f"more than {self._most:,} bytes where no collector has so much to say"

    def take(self, part: bytes) -> bool:
        """Add bytes that have arrived; whether to read on."""
        if len(self._body) + len(part) > self._most:
            self.fault = self._too_long()
        elif time.monotonic() > self._until:
            self.fault = f"an answer that took longer than {LONGEST_ANSWER:g} seconds"
        else:
            self._body += part
        return not self.fault

    def response(self) -> Response:
        """The complete response, or why there is none."""
        if self.fault:
            return Response(0, fault=self.fault)
        return Response(self._status, self._headers, bytes(self._body))


@dataclass(frozen=True)
class Call:
    """A function of the program that returns the person's record; an asynchronous one is awaited."""

    read: Callable[[], object]
    record: list[object] = field(default_factory=list)
    """What it returned."""


Steps = Generator[Ask | Wait | Call, Response | None, T]


@dataclass(frozen=True)
class Patience:
    """When a report is sent again: exponential backoff with full jitter, never before Retry-After."""

    attempts: int = 4
    """Tries in one call; after that the report waits for the next call."""
    first: float = 1.0
    """Seconds before the second try; doubled with each further try."""
    most: float = 3600.0
    longest: float = 30.0
    """Maximum number of seconds that a call waits between two tries."""
    settle: float = 0.25
    """Minimum number of seconds from reading a plan to sending the report."""
    spread: float = 0.25
    """Maximum number of additional seconds, drawn at random."""

    def __post_init__(self) -> None:
        if type(self.attempts) is not int or self.attempts < 1:
            raise ClientError("attempts must be a whole number of at least 1, like 4")
        for name in ("first", "most", "longest", "settle", "spread"):
            seconds = getattr(self, name)
            if isinstance(seconds, bool) or not isinstance(seconds, Real) or not float(seconds) >= 0:
                raise ClientError(f"{name} must be seconds, 0 or more")
        if not isfinite(self.settle + self.spread):
            raise ClientError("settle and spread must be finite numbers of seconds")

    def hold(self, taken: float, jitter: float) -> float:
        """Seconds to wait before the first try, after answering took ``taken`` seconds.

        The report is then sent ``settle`` plus a random part of ``spread`` seconds after the plan was
        read, however long the record took. If that time has passed, the next multiple of it is used.
        """
        whole = self.settle + jitter * self.spread
        if whole <= 0:
            return 0.0
        taken = max(0.0, taken)
        return max(1, ceil(taken / whole)) * whole - taken

    def delay(self, tries: int, after: float, jitter: float) -> float:
        """Seconds to wait after a number of tries; ``jitter`` is uniform on [0, 1]."""
        return after + jitter * min(self.most, self.first * 2.0 ** min(tries - 1, 40))


def even() -> float:
    """A secure random number, uniform on [0, 1)."""
    return float(Coins.secure().words(0, 0, 1)[0]) / 2**32


class Core:
    """One device and one collector."""

    def __init__(
        self,
        url: str,
        ledger: Ledger,
        allow: Number | None,
        token: str | None,
        patience: Patience,
        clock: Callable[[], float],
        jitter: Callable[[], float] = even,
        allow_epoch: int = LEAST_EPOCH,
    ) -> None:
        if type(allow_epoch) is not int or allow_epoch < 1:
            raise ClientError("allow_epoch must be a whole number of seconds, for example 3600")
        self._allow_epoch = allow_epoch
        self.url, self.ledger, self._patience = checked_url(url), ledger, patience
        self._allow = None if allow is None else checked_cap(allow, "allow")
        self._headers = {} if token is None else {"authorization": f"Bearer {checked_token(token)}"}
        self._clock, self._jitter = clock, jitter

    def place(self, name: str) -> str:
        """A collection's address; the ledger uses it as the collection's name."""
        if not isinstance(name, str) or not name:
            raise ClientError("name the collection to answer, like 'menu'")
        return f"{self.url}/v1/collections/{quote(name, safe='')}"

    # -- what is asked -----------------------------------------------------------------------------

    def about(self, name: str) -> Steps[dict[str, Any]]:
        """The collector's description of a collection, checked."""
        response = yield from self._fetched(self.place(name))
        about = response.document()
        epoch = about.get("epoch")
        if not (
            is_hex(about.get("plan"), 64)
            and isinstance(epoch, dict)
            and type(epoch.get("now")) is int
            and 0 <= epoch["now"] <= MOST_EPOCH
            and type(epoch.get("seconds")) is int
            and epoch["seconds"] >= 1
            and isinstance(about.get("state"), str)
        ):
            raise ClientError(
                "the address is not a keyveil collector's, or the collector has another version"
            )
        return about

    def plan(self, name: str, pinned: str | None = None) -> Steps[Plan]:
        """The collection's current plan, verified: its hash, its proof, and the pinned hash."""
        about = yield from self.about(name)
        return (yield from self._plan(name, about, pinned))

    def _plan(self, name: str, about: dict[str, Any], pinned: str | None) -> Steps[Plan]:
        if pinned is not None and about["plan"] != pinned:
            raise PlanError("the collection's plan is not the expected one")
        response = yield from self._fetched(f"{self.place(name)}/plan", MOST_PLAN)
        plan = Plan.parse(response.body)
        if plan.hash != about["plan"]:
            raise PlanError("the collector sent a plan other than the one it names")
        return plan

    def _fetched(self, url: str, most: int = MOST_RESPONSE) -> Steps[Response]:
        """Fetch a document, with a few tries."""
        for tries in range(1, self._patience.attempts + 1):
            response = yield Ask("GET", url, most=most)
            assert response is not None
            if response.fault:
                raise ClientError(f"the collector sent {response.fault}; nothing was sent")
            if response.status == 200:
                return response
            if 400 <= response.status < 500 and response.status not in LATER:
                reason = response.document().get("reason", "")
                if response.status == 404:
                    raise ClientError(
                        "there is no collection of this name, or the address is not a collector's "
                        "(status 404); nothing was sent"
                    )
                raise ClientError(f"the collector refuses: status {response.status} {reason}".strip())
            delay = self._patience.delay(tries, retry_after(response, self._clock()), self._jitter())
            if delay > self._patience.longest or tries == self._patience.attempts:
                break
            yield Wait(delay)
        raise ClientError("the collector cannot be reached now; nothing was sent")

    # -- answering ---------------------------------------------------------------------------------

    def answer(self, name: str, record: object, expected: Plan | str | None = None) -> Steps[Outcome]:
        """Answer a collection once and send the report, or send an earlier answer again."""
        place, pinned = self.place(name), _hash_of(expected)
        try:
            about = yield from self.about(name)
        except ClientError:
            waiting = [e for e in self.ledger.of(place) if e.state in WAITING and e.report]
            if not waiting:
                raise
            return _outcome(waiting[-1])
        entry = self._answered(place, about["plan"])
        if entry is None or entry.report is None:
            self._check_open(about)
            epoch = self._epoch(about["epoch"])
            plan = yield from self._plan(name, about, pinned)
            begun, jitter = self._clock(), self._jitter() if self._patience.spread else 0.0
            if callable(record) and not isinstance(record, Mapping):
                call = Call(record)
                yield call
                record = call.record[0]
            self.ledger.answer(plan, record, collection=place, epoch=epoch, allow=self._allow)
            entry = self._answered(place, plan.hash)
            assert entry is not None
            hold = self._patience.hold(self._clock() - begun, jitter)
            if hold:
                yield Wait(hold)
        elif pinned is not None and about["plan"] != pinned:
            raise PlanError("the collection's plan is not the expected one")
        return (yield from self._send(entry))

    def _answered(self, place: str, plan: str) -> Entry | None:
        return next((entry for entry in self.ledger.of(place) if entry.plan == plan), None)

    def _check_open(self, about: dict[str, Any]) -> None:
        if about["state"] == "closed":
            raise ClientError("the collection is closed; nothing was sent")
        if about["state"] != "open":
            raise ClientError("the collection accepts no answers now; nothing was sent")
        if about.get("token") is True and not self._headers:
            raise ClientError("the collection accepts reports only with a token; nothing was sent")

    def _epoch(self, stated: dict[str, Any]) -> int:
        """The epoch by the device's own clock. The collector's must agree within one.

        If the collector chose the epoch, it could choose another one for each device and recognise
        reports by it.
        """
        seconds = stated["seconds"]
        known = seconds in EPOCHS and seconds > self._allow_epoch
        if not known and seconds != self._allow_epoch:
            lengths = ", ".join(map(str, EPOCHS))
            raise ClientError(
                f"the collection's epochs have {seconds} seconds, which could tell devices apart; "
                f"{lengths} are answered from allow_epoch={self._allow_epoch} on; nothing was sent"
            )
        own = int(self._clock() // seconds)
        if not 0 <= own <= MOST_EPOCH or abs(own - stated["now"]) > 1:
            raise ClientError(
                "the collector's epoch is not that of this device's clock: one of the two is wrong; "
                "nothing was sent"
            )
        return own

    def flush(self, refused: bool = False) -> Steps[list[Outcome]]:
        """Send the waiting reports of this collector whose time has come, each in its own request.

        With ``refused`` also those that the collector refused, after a token or an address was
        corrected.
        """
        outcomes = []
        for entry in self.ledger.waiting():
            ours = entry.collection.startswith(self.url + "/v1/collections/")
            if ours and entry.report is not None and (refused or entry.state != "refused"):
                outcomes.append((yield from self._send(entry, refused)))
        return outcomes

    def _send(self, entry: Entry, refused: bool = False) -> Steps[Outcome]:
        """Try to send within the patience of one call. Each try is written to disk before it is made."""
        states = WAITING if refused else ("waiting", "held")
        for attempt in range(self._patience.attempts):
            now = self._clock()
            # further in the future: the clock was set back
            early = now < entry.after <= now + 2 * LONGEST
            if entry.state not in states or (early and attempt == 0):
                break
            entry = yield from self._try(entry)
            delay = entry.after - self._clock()
            if entry.state != "waiting" or delay > self._patience.longest:
                break
            if attempt + 1 < self._patience.attempts:
                yield Wait(max(0.0, delay))
        return _outcome(entry)

    def _try(self, entry: Entry) -> Steps[Entry]:
        assert entry.report is not None
        assert entry.report.id is not None
        tries, jitter = entry.tries + 1, self._jitter()
        planned = self._clock() + self._patience.delay(tries, 0.0, jitter)
        marked = self.ledger.mark(entry.plan, state="waiting", tries=tries, after=planned)
        if marked.state != "waiting":
            return marked  # another process of this device was faster
        body = {
            "plan": entry.plan,
            "epoch": entry.epoch,
            "reports": [{"id": entry.report.id, "cells": list(entry.report.cells)}],
        }
        headers = {**self._headers, "content-type": "application/json"}
        content = json.dumps(body, separators=(",", ":")).encode()
        response = yield Ask("POST", f"{entry.collection}/reports", headers, content)
        assert response is not None
        now = self._clock()
        verdict = judge(response, entry.report.id, now)
        after = now + self._patience.delay(tries, verdict.after, jitter)
        return self.ledger.mark(entry.plan, state=verdict.state, reason=verdict.reason, after=after)


def _hash_of(expected: Plan | str | None) -> str | None:
    """The hash of the plan that is expected."""
    if expected is None or isinstance(expected, Plan):
        return None if expected is None else expected.hash
    if not is_hex(expected, 64):
        raise ClientError("plan is the expected Plan or its hash: plan=Plan.load('plan.json')")
    return expected


def _outcome(entry: Entry) -> Outcome:
    after = entry.after if entry.state in ("waiting", "held") else 0.0
    return Outcome(entry.collection, entry.plan, entry.epsilon, entry.state, entry.reason, after)
