"""Verdicts: what a collector's response means for the report that was sent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from email.utils import parsedate_to_datetime
from typing import Any

FINAL = frozenset(
    {"closed_epoch", "closed_collection", "closed_round", "full", "impossible", "other_plan"}
)
"""Reasons after which a report is dropped: it may have been counted, or never will be."""
LATER = frozenset({408, 425, 429})
"""The only 4xx statuses after which the same request is sent again later."""
LONGEST = 86_400.0
"""Maximum number of seconds that a server may make a client wait."""


@dataclass(frozen=True)
class Response:
    """A response; status 0 if there was none."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    fault: str = ""
    """Why the response was not read to its end; empty if it was."""

    def document(self) -> dict[str, Any]:
        """The body as a JSON object; empty if it is not one."""
        try:
            document = json.loads(self.body)
        except (ValueError, RecursionError):
            return {}
        return document if isinstance(document, dict) else {}


@dataclass(frozen=True)
class Outcome:
    """What happened to a device's report to a collection."""

    collection: str
    plan: str
    epsilon: Decimal
    state: str
    """As in the ledger: counted, held, waiting, refused, dropped, lost."""
    reason: str = ""
    after: float = 0.0
    """For a waiting report: the time before which it is not sent."""

    @property
    def counted(self) -> bool:
        """Whether the collector has counted it."""
        return self.state == "counted"


@dataclass(frozen=True)
class Verdict:
    """The meaning of one response to a report."""

    state: str
    reason: str
    after: float = 0.0
    """Seconds that the server asks to wait."""


def judge(response: Response, name: str, now: float) -> Verdict:
    """The meaning of a response for the report with an id.

    Only a collector's own answer settles a report. The login page of a hotel network with status 200 has
    counted nothing, and its 410 has closed nothing.
    """
    body, after = response.document(), retry_after(response, now)
    if response.status in (200, 202):
        return _judge_taken(response.status, body, name, after)
    reason = body.get("reason")
    reason = reason if isinstance(reason, str) and len(reason) <= 40 else f"status {response.status}"
    if response.status in LATER or response.status >= 500 or not 400 <= response.status < 500:
        return Verdict("waiting", reason if response.status else "unreachable", after)
    return Verdict("dropped" if reason in FINAL else "refused", reason)


def _judge_taken(status: int, body: dict[str, Any], name: str, after: float) -> Verdict:
    failed, accepted = body.get("failed"), body.get("accepted")
    if isinstance(failed, list) and isinstance(accepted, int) and not isinstance(accepted, bool):
        for failure in failed:
            if isinstance(failure, dict) and failure.get("id") == name:
                reason = str(failure.get("reason"))[:40]
                if reason in FINAL:
                    return Verdict("dropped", reason)
                return Verdict("waiting" if failure.get("retry") is True else "refused", reason, after)
        if status == 200 and accepted >= 1:
            return Verdict("counted", "")
        if status == 202 and body.get("held") == 1:
            return Verdict("held", "a relay waits for others", after)
    return Verdict("waiting", "unreadable", after)


def retry_after(response: Response, now: float) -> float:
    """Seconds that the server asks to wait, in either form of the header."""
    given = response.headers.get("retry-after", "").strip()
    if given.isascii() and given.isdigit():
        return min(float(given[:12]), LONGEST)
    try:
        return min(max(0.0, parsedate_to_datetime(given).timestamp() - now), LONGEST)
    except (TypeError, ValueError, OverflowError):
        return 0.0
