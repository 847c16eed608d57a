"""Two transports over the core: one synchronous, one asynchronous.

Nothing links one request to another. Each has its own connection, cookies are not kept, redirects are
not followed, and the headers are the same for everyone.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from decimal import Decimal
from http.cookiejar import CookieJar, DefaultCookiePolicy
from inspect import isawaitable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

from ...foundation.errors import installation
from ...foundation.exact import Number
from ...plan.budget import read_record
from ...plan.plan import Plan
from .certificates import no_response, trusted
from .client_core import LEAST_EPOCH, Ask, Call, Core, Patience, Reading, Steps, Wait, even
from .client_error import ClientError
from .ledger import MOST_WAITING, Entry, Ledger
from .service_url import checked_url
from .verdict import Outcome, Response

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")


def default_state() -> Path:
    """The default folder of a person's ledger; all collectors share it."""
    home = os.environ.get("XDG_STATE_HOME")
    return (Path(home) if home else Path.home() / ".local" / "state") / "keyveil"


def _options(
    transport: Any, proxy: str | None, timeout: float, certificates: str | Path | None
) -> dict[str, Any]:
    try:
        import httpx
    except ImportError:
        raise ClientError(f"the client needs: {installation('client')}") from None
    return {
        "transport": transport,
        "proxy": proxy,
        "timeout": timeout,
        "headers": {"user-agent": "keyveil", "accept": "*/*", "accept-encoding": "identity"},
        "cookies": CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        "follow_redirects": False,
        "limits": httpx.Limits(max_keepalive_connections=0),
        "trust_env": False,
        "verify": trusted(certificates),
    }


def _folder(state: str | Path | None) -> Path:
    """The folder of the ledger."""
    if state is None:
        return default_state()
    if not isinstance(state, str | Path):
        raise ClientError("state is the folder of the ledger; name other arguments: cap=4")
    folder = Path(state)
    if folder.is_file():
        raise ClientError(f"state is the folder of the ledger; {folder} is a file")
    return folder


class _Client(ABC):
    """What both clients have: a ledger to read, and the core. ``Client`` explains the arguments."""

    def __init__(
        self,
        url: str,
        state: str | Path | None = None,
        *,
        cap: Number | None = None,
        allow: Number | None = None,
        allow_epoch: int = LEAST_EPOCH,
        secret_file: str | Path | None = None,
        token: str | None = None,
        patience: Patience | None = None,
        most_waiting: int = MOST_WAITING,
        timeout: float = 20.0,
        proxy: str | None = None,
        certificates: str | Path | None = None,
        transport: Any = None,
        pause: Callable[[float], Any] | None = None,
        clock: Callable[[], float] = time.time,
        jitter: Callable[[], float] = even,
    ) -> None:
        options = _options(transport, proxy, timeout, certificates)
        checked_url(url)
        if patience is not None and not isinstance(patience, Patience):
            raise ClientError("patience is a Patience, like Patience(attempts=2)")
        folder = _folder(state)
        self.ledger = Ledger(folder / "ledger.json", cap, secret_file, most_waiting)
        """All answers with their costs, for the person to read."""
        self._core = Core(
            url, self.ledger, allow, token, patience or Patience(), clock, jitter, allow_epoch
        )
        self._begin(options, pause)

    _closed = False

    @abstractmethod
    def _begin(self, options: dict[str, Any], pause: Callable[[float], Any] | None) -> None:
        """Open the transport."""

    @property
    def url(self) -> str:
        """The collector's address."""
        return self._core.url

    @property
    def cap(self) -> Decimal:
        """Maximum total epsilon of all answers."""
        return self.ledger.cap

    @property
    def spent(self) -> Decimal:
        """Total epsilon of all answers so far."""
        return self.ledger.spent

    @property
    def left(self) -> Decimal:
        """Epsilon that may still be spent."""
        return self.ledger.left

    def _check_open(self) -> None:
        if self._closed:
            raise ClientError("this client is closed; make a new one")

    def answers(self, name: str | None = None) -> list[Entry]:
        """All answers, or those to one collection of this collector."""
        return self.ledger.answers() if name is None else self.ledger.of(self._core.place(name))


class Client(_Client):
    """A device that answers each collection once. It blocks while it waits for the network.

    ``url`` is the address of the collector or of a relay. ``state`` is the folder of the ledger, by
    default ``~/.local/state/keyveil``. All collectors share it, so ``cap``, the largest total epsilon,
    bounds the sum over them; it is set once, when the ledger is created. ``allow`` bounds the epsilon of
    each collection over all its rounds. ``allow_epoch`` is the shortest epoch, in seconds, that the
    device answers. ``secret_file`` is the file of the device's secret; put it outside ``state``.
    ``token`` is an ingest token, if the collection requires one. ``patience`` has the times and the
    number of tries, and ``most_waiting`` is how many reports may wait to be sent. ``timeout`` is that of
    a request in seconds, ``proxy`` the address of an HTTP proxy, and ``certificates`` a PEM file of the
    authorities that are trusted in place of the usual ones. ``transport``, ``pause``, ``clock`` and
    ``jitter`` replace the network, sleep, time and chance in tests.
    """

    def _begin(self, options: dict[str, Any], pause: Callable[[float], Any] | None) -> None:
        import httpx

        self._http, self._pause = httpx.Client(**options), pause or time.sleep
        self._busy = threading.Lock()

    def answer(self, name: str, record: object, plan: Plan | str | None = None) -> Outcome:
        """Answer the collection ``name`` once, from a person's ``record``: a mapping of keys to values.

        ``record`` may also be a function that returns one; it is called after the plan was verified. A
        repeated call only sends the same report. ``plan`` is the expected plan, or its hash.
        """
        return self._run(self._core.answer(name, record, plan))

    def flush(self, refused: bool = False) -> list[Outcome]:
        """Send the reports that wait for this collector, if their time has come.

        With ``refused`` also those that the collector refused, after a token or address was corrected.
        """
        return self._run(self._core.flush(refused))

    def plan(self, name: str) -> Plan:
        """A collection's plan, verified. Nothing is sent."""
        return self._run(self._core.plan(name))

    def about(self, name: str) -> dict[str, Any]:
        """The collector's description of a collection."""
        return self._run(self._core.about(name))

    def close(self) -> None:
        """Close connections. Waiting reports stay on disk."""
        self._closed = True
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _run(self, steps: Steps[T]) -> T:
        self._check_open()
        with self._busy:
            response: Response | None = None
            while True:
                try:
                    step = steps.send(response)
                except StopIteration as end:
                    return cast(T, end.value)
                if isinstance(step, Call):
                    step.record.append(read_record(step.read))
                    response = None
                else:
                    response = self._pause(step.seconds) if isinstance(step, Wait) else self._ask(step)

    def _ask(self, step: Ask) -> Response:
        import httpx

        try:
            with self._http.stream(
                step.method, step.url, headers=dict(step.headers), content=step.content or None
            ) as response:
                reading = Reading(response.status_code, response.headers, step.most)
                if not reading.fault:
                    for part in response.iter_raw():
                        if not reading.take(part):
                            break
                return reading.response()
        except (httpx.HTTPError, httpx.StreamError) as error:
            return Response(0, fault=no_response(error))


class AsyncClient(_Client):
    """``Client`` for asynchronous programs: the same core, the same files.

    It takes the arguments of ``Client``. It writes its files synchronously, which takes a few
    milliseconds for each answer.
    """

    def _begin(self, options: dict[str, Any], pause: Callable[[float], Any] | None) -> None:
        import httpx

        self._http, self._pause = httpx.AsyncClient(**options), pause or asyncio.sleep
        self._busy = asyncio.Lock()

    async def answer(self, name: str, record: object, plan: Plan | str | None = None) -> Outcome:
        """Answer the collection ``name`` once, from a person's ``record``: a mapping of keys to values.

        ``record`` may also be a function that returns one, also an asynchronous one; it is called after
        the plan was verified. A repeated call only sends the same report. ``plan`` is the expected plan,
        or its hash.
        """
        return await self._run(self._core.answer(name, record, plan))

    async def flush(self, refused: bool = False) -> list[Outcome]:
        """Send the reports that wait for this collector, if their time has come.

        With ``refused`` also those that the collector refused, after a token or address was corrected.
        """
        return await self._run(self._core.flush(refused))

    async def plan(self, name: str) -> Plan:
        """A collection's plan, verified. Nothing is sent."""
        return await self._run(self._core.plan(name))

    async def about(self, name: str) -> dict[str, Any]:
        """The collector's description of a collection."""
        return await self._run(self._core.about(name))

    async def aclose(self) -> None:
        """Close connections. Waiting reports stay on disk."""
        self._closed = True
        await self._http.aclose()

    def __enter__(self) -> NoReturn:
        raise ClientError("write: async with AsyncClient(...)")

    def __exit__(self, *error: object) -> None: ...

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    async def _run(self, steps: Steps[T]) -> T:
        self._check_open()
        async with self._busy:
            response: Response | None = None
            while True:
                try:
                    step = steps.send(response)
                except StopIteration as end:
                    return cast(T, end.value)
                if isinstance(step, Call):
                    held = step.read()
                    step.record.append(await held if isawaitable(held) else held)
                    response = None
                    continue
                response = await (
                    self._pause(step.seconds) if isinstance(step, Wait) else self._ask(step)
                )

    async def _ask(self, step: Ask) -> Response:
        import httpx

        try:
            return await read_within(self._http, step)
        except (httpx.HTTPError, httpx.StreamError) as error:
            return Response(0, fault=no_response(error))


async def read_within(http: httpx.AsyncClient, step: Ask) -> Response:
    """The response to a request, up to its maximum size.

    It is never decompressed: ``Reading`` refuses a compressed response by its head.
    """
    async with http.stream(
        step.method, step.url, headers=dict(step.headers), content=step.content or None
    ) as response:
        reading = Reading(response.status_code, response.headers, step.most)
        if not reading.fault:
            async for part in response.aiter_bytes():
                if not reading.take(part):
                    break
        return reading.response()
