"""StandIn: an in-process collector of one plan that keeps every request as it came.

Pass it to a ``Client``, an ``AsyncClient`` or a relay (``transport=StandIn(plan)``), so that an audit
sees all that a device sends.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import httpx

from ...plan.plan import Plan
from ...trust.messages import Request

NOW = 1_800_000_000.0
"""The time of day here. Give a client ``clock=lambda: NOW``, so that the epoch is the same for all."""
SECONDS = 86_400


class StandIn(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Answers as a collector would. ``failures`` are the statuses of the first answers to reports."""

    def __init__(self, plan: Plan, failures: Iterable[int] = ()) -> None:
        self.plan = plan
        self.requests: list[Request] = []
        """All requests, in order."""
        self._failures = list(failures)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Keep a request and answer it."""
        request.read()
        return self._answer(request)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Keep a request and answer it."""
        await request.aread()
        return self._answer(request)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        headers = tuple((name.decode(), value.decode()) for name, value in request.headers.raw)
        self.requests.append(Request(request.method, str(request.url), headers, request.content))
        status = 200
        if request.method == "POST":
            status = self._failures.pop(0) if self._failures else 200
            said = json.dumps({"accepted": int(status == 200), "failed": []})
        elif request.url.path.endswith("/plan"):
            said = self.plan.dumps()
        else:
            said = json.dumps(self._about())
        return httpx.Response(status, stream=httpx.ByteStream(said.encode()))

    def _about(self) -> dict[str, Any]:
        epoch = {"now": int(NOW) // SECONDS, "seconds": SECONDS, "grace": SECONDS, "early": 3600}
        limits = {"reports": 1000, "bytes": 1 << 20}
        return {
            "plan": self.plan.hash,
            "state": "open",
            "token": False,
            "epoch": epoch,
            "limits": limits,
        }
