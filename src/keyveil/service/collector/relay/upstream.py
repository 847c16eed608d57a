"""The collector behind a relay: what it says about its collections, and how reports are sent to it."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from dataclasses import dataclass, replace
from decimal import Decimal
from math import inf, nextafter
from pathlib import Path
from typing import Any

import httpx
import msgspec

from ....foundation.errors import KeyveilError
from ....plan.plan import Plan
from ....trust.shuffle import Amplified, amplified, line
from ...client.access_token import checked_token
from ...client.certificates import no_response, trusted
from ...client.client_core import MOST_PLAN, MOST_RESPONSE, Ask
from ...client.http_client import read_within
from ...client.service_url import checked_url
from ..http import batches
from ..process.clock import Clock
from ..process.logs import Log
from ..process.problems import REASONS, Problem
from ..store.collection import Terms, is_name
from .crowd import OVERHEAD

FRESH = 5.0
"""Seconds for which the collector's description of a collection is used."""
MOST_AGAIN = 20
"""Maximum number of additional requests in that time, made when a device names an unknown plan."""
MOST_SETTLED = 8 << 20
"""Maximum size of the collector's answer to a batch, which may name every report in it."""
MOST_STRANGERS = 8
"""Maximum number of simultaneous requests for unknown names."""
MOST_KNOWN = 1000
"""Maximum number of collections, and of unknown names, that are remembered."""


@dataclass
class KnownCollection:
    """What the relay knows about a collection, and until when it is used."""

    name: str
    about: dict[str, Any]
    document: bytes
    plan: Plan
    shuffled: Amplified
    fresh_until: float
    asked_again: int = 0
    """Number of additional requests in the current period."""

    @property
    def terms(self) -> Terms:
        """How the collection counts epochs, and the web origins whose pages may send reports."""
        epoch = self.about["epoch"]
        origins = tuple(o for o in self.about.get("origins", ()) if isinstance(o, str))
        return Terms(epoch=epoch["seconds"], grace=epoch["grace"], early=epoch["early"], origins=origins)

    @property
    def request_size(self) -> int:
        """The most reports in one request to the collector."""
        stated = self.about.get("limits")
        limits = stated if isinstance(stated, dict) else {}
        reports, size = (limits.get(part) for part in ("reports", "bytes"))
        by_bytes = ((size if type(size) is int else 1 << 20) - 64) // (16 + self.plan.packing.width)
        return max(1, min(reports if type(reports) is int else 1000, by_bytes))


class Upstream:
    """One collector. ``wait`` and ``delta`` are those of the relay."""

    def __init__(
        self,
        to: str,
        names: tuple[str, ...],
        token: str | None,
        wait: int,
        delta: float,
        hold_bytes: int,
        clock: Clock,
        log: Log,
        transport: httpx.AsyncBaseTransport | None = None,
        certificates: str | Path | None = None,
    ) -> None:
        self.to, self.names = checked_url(to), checked_names(names)
        self.wait, self.delta, self._hold_bytes = wait, delta, hold_bytes
        self._clock, self._log = clock, log
        self._known: dict[str, KnownCollection] = {}
        self._unknown: dict[str, float] = {}
        self._learning: dict[str, asyncio.Lock] = {}
        self._strangers = asyncio.Semaphore(MOST_STRANGERS)
        headers = {"user-agent": "keyveil-relay", "accept-encoding": "identity"}
        if token is not None:
            headers["authorization"] = f"Bearer {checked_token(token)}"
        self._http = httpx.AsyncClient(
            transport=transport,
            headers=headers,
            timeout=30,
            follow_redirects=False,
            trust_env=False,
            verify=trusted(certificates),
        )

    async def close(self) -> None:
        """Close connections."""
        await self._http.aclose()

    def last_known(self, name: str) -> KnownCollection:
        """A collection as last known."""
        return self._known[name]

    def over(self, name: str, epoch: int, now: float) -> bool:
        """Whether an epoch has ended; False for an unknown collection."""
        return name in self._known and self._known[name].terms.over(epoch, now)

    async def known(self, name: str, anew: bool = False) -> KnownCollection:
        """A collection as described by the collector at most a few seconds ago."""
        if not is_name(name) or (self.names and name not in self.names):
            raise Problem("unknown", "there is no collection of this name here")
        known = self._known.get(name)
        if known is not None and not anew and self._clock.elapsed() < known.fresh_until:
            return known
        lock = self._learning.setdefault(name, asyncio.Lock())
        try:
            async with lock:  # one request asks, the others wait for its result
                return await self._known_anew(name, known, anew)
        finally:
            if not lock.locked():
                self._learning.pop(name, None)

    async def _known_anew(
        self, name: str, before: KnownCollection | None, anew: bool
    ) -> KnownCollection:
        known, now = self._known.get(name), self._clock.elapsed()
        if known is not None and now < known.fresh_until:
            if not anew or known is not before:
                return known
            known.asked_again += 1
            if (
                known.asked_again > MOST_AGAIN
            ):  # devices must not keep the collector busy by inventing plans
                raise Problem(
                    "overload", "too many requests with unknown plans; send again later", after=5
                )
        if self._unknown.get(name, now) > now:
            raise Problem("unknown", "there is no collection of this name")
        try:
            async with self._strangers if known is None else nullcontext():
                self._known[name] = await self._learn(name, known)
        except Problem as problem:
            if problem.reason == "unknown" and known is None:
                self._note_unknown(name)
            if known is None or anew or problem.reason != "unhealthy":
                raise
            # keep holding reports while the collector is away
            known.fresh_until = self._clock.elapsed() + FRESH
        return self._known[name]

    def _note_unknown(self, name: str) -> None:
        """Remember an unknown name, so that invented names do not keep the collector busy."""
        self._unknown.pop(name, None)
        self._unknown[name] = self._clock.elapsed() + FRESH
        while len(self._unknown) > MOST_KNOWN:
            del self._unknown[next(iter(self._unknown))]

    async def _learn(self, name: str, before: KnownCollection | None) -> KnownCollection:
        if before is None and len(self._known) >= MOST_KNOWN:
            raise Problem("overload", "this relay serves its maximum number of collections")
        path = f"{self.to}/v1/collections/{name}"
        about = _about_of(await self._get(path, MOST_RESPONSE))
        until = self._clock.elapsed() + FRESH
        if before is not None and about.get("plan") == before.plan.hash:
            if self._clock.elapsed() >= before.fresh_until:
                before.asked_again = 0
            before.about, before.fresh_until = about, until
            return before
        document = await self._get(path + "/plan", MOST_PLAN)
        try:
            plan = await asyncio.to_thread(Plan.parse, document)
        except KeyveilError:
            raise Problem("unhealthy", "the collector's plan is not valid") from None
        if plan.hash != about.get("plan"):
            raise Problem("unhealthy", "the collector's plan is not the one that it names")
        if self.wait * (plan.packing.width + OVERHEAD) > self._hold_bytes:
            raise Problem(
                "unhealthy", "this relay has too little memory for the crowd that it waits for"
            )
        shuffled = await asyncio.to_thread(crowd_of, plan, self.wait, self.delta)
        self._log.say(
            "collection_known", collection=name, plan=plan.hash, wait=self.wait,
            epsilon=shuffled.epsilon, delta=shuffled.delta, local_epsilon=shuffled.local_epsilon,
        )  # fmt: skip
        return KnownCollection(name, about, document, plan, shuffled, until)

    async def _get(self, url: str, most: int) -> bytes:
        try:
            response = await read_within(self._http, Ask("GET", url, most=most))
        except (httpx.HTTPError, httpx.StreamError):
            raise Problem("unhealthy", "the collector cannot be reached; send again later") from None
        if response.fault:
            raise Problem("unhealthy", f"the collector sent {response.fault}")
        if response.status == REASONS["unknown"].status:
            raise Problem("unknown", "there is no collection of this name")
        if response.status != 200:
            raise Problem("unhealthy", "the collector does not answer now; send again later")
        return response.body

    async def post(self, name: str, body: bytes) -> tuple[int, dict[str, Any], float]:
        """Send a batch; the status (0 if there was no answer), the answer, and the seconds to wait."""
        url = f"{self.to}/v1/collections/{name}/reports"
        headers = {"content-type": batches.BINARY}
        try:
            response = await read_within(self._http, Ask("POST", url, headers, body, MOST_SETTLED))
            answer = msgspec.json.decode(response.body)
        except (httpx.HTTPError, httpx.StreamError, ValueError):
            return 0, {}, 0.0
        given = response.headers.get("retry-after", "")
        after = float(min(int(given[:9]), 3600)) if given.isascii() and given.isdigit() else 0.0
        return response.status, answer if isinstance(answer, dict) else {}, after


def crowd_of(plan: Plan, wait: int, delta: float) -> Amplified:
    """The guarantee of a crowd, and the local one.

    Both are rounded up, and the first is never larger.
    """
    crowd = amplified(plan, wait, delta)
    local = crowd.local_epsilon
    if Decimal(local) < plan.proven:
        local = nextafter(local, inf)
    return replace(crowd, epsilon=min(crowd.epsilon, local), local_epsilon=local)


def _about_of(body: bytes) -> dict[str, Any]:
    """The collector's description of a collection, as far as a relay needs it."""
    try:
        about: dict[str, Any] = msgspec.json.decode(body, type=dict[str, Any])
        if not all(
            type(about["epoch"][part]) is int and 0 <= about["epoch"][part] <= 2**40
            for part in ("now", "seconds", "grace", "early")
        ):
            raise TypeError
    except (ValueError, KeyError, TypeError):
        raise Problem(
            "unhealthy", "the address is not a collector's, or the collector has another version"
        ) from None
    return about


def checked_names(names: tuple[str, ...]) -> tuple[str, ...]:
    """Valid names of collections."""
    if not all(map(is_name, names)):
        raise KeyveilError("a collection's name has 1 to 64 lower-case letters, digits and hyphens")
    return names


def states(
    to: str, names: tuple[str, ...], wait: int, delta: float, certificates: str | Path | None = None
) -> list[str]:
    """For each named collection, the guarantee towards anyone who sees all forwarded reports."""
    url = checked_url(to)

    async def ask() -> list[str]:
        lines = []
        plain = {"accept-encoding": "identity"}
        verify = trusted(certificates)
        async with httpx.AsyncClient(timeout=30, trust_env=False, headers=plain, verify=verify) as http:
            for name in checked_names(names):
                step = Ask("GET", f"{url}/v1/collections/{name}/plan", most=MOST_PLAN)
                try:
                    response = await read_within(http, step)
                except httpx.HTTPError as error:
                    fault = no_response(error, "--certificates")
                    why = f": it sent {fault}" if fault else ""
                    raise KeyveilError(f"the collector at --to {to} cannot be reached{why}") from None
                if response.fault:
                    raise KeyveilError(f"the collector sent {response.fault}")
                if response.status != 200:
                    raise KeyveilError(f"the collector has no collection {name!r}")
                lines.append(f"{name}: {line(Plan.parse(response.body), wait, delta)}")
        return lines

    return asyncio.run(ask())
