"""Why a request or a report is refused, in the form of RFC 9457."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ....foundation.errors import KeyveilError

CONTENT_TYPE = "application/problem+json"


@dataclass(frozen=True)
class Reason:
    """A reason for refusal: its HTTP status, its title, and whether the client should send again."""

    status: int
    title: str
    retry: bool = False
    after: int = 1
    """Minimum number of seconds before the client sends again."""


REASONS: dict[str, Reason] = {
    # one report
    "impossible": Reason(422, "no honest client could send this report"),
    "closed_epoch": Reason(410, "the epoch is closed; drop the report, it may have been counted"),
    "early_epoch": Reason(425, "the epoch has not begun; send again later", True, 600),
    "full": Reason(410, "the collection has as many reports as it may take"),
    # a whole batch
    "malformed": Reason(400, "the body cannot be read"),
    "other_plan": Reason(409, "the reports belong to another plan"),
    "closed_round": Reason(410, "the round is closed"),
    "closed_collection": Reason(410, "the collection is closed"),
    "not_open": Reason(503, "the collection is not open yet; send again later", True, 60),
    "paused": Reason(503, "the collection is paused; send again later", True, 60),
    "clock": Reason(503, "the collector's clock is in doubt; send again later", True, 60),
    "too_many": Reason(413, "too many reports in one request"),
    "too_large": Reason(413, "the body is too large"),
    "encoding": Reason(415, "compressed bodies are not taken"),
    "content_type": Reason(415, "the content type is not taken here"),
    "slow": Reason(408, "the body did not arrive in time", True),
    "rate": Reason(429, "too many reports a second for this collection; send again later", True),
    "overload": Reason(429, "the collector has too much to do; send again later", True),
    "storage": Reason(503, "the store cannot take the reports now; send again later", True, 5),
    "key_missing": Reason(503, "the key of the epoch's ids is missing; send again later", True, 60),
    "unhealthy": Reason(503, "the collector has stopped taking reports; send again later", True, 30),
    "origin": Reason(403, "pages of this origin may not use this collection"),
    "host": Reason(403, "without tokens the collector answers its own machine only"),
    # anything else
    "token": Reason(401, "a token is needed"),
    "forbidden": Reason(403, "this token does not allow that"),
    "unknown": Reason(404, "there is no such thing here"),
    "method": Reason(405, "the method is not taken here"),
    "exists": Reason(409, "the name is taken"),
    "state": Reason(409, "the collection's state does not allow that"),
    "finished": Reason(409, "the chain of plans has no next round"),
    "invalid": Reason(400, "the request cannot be answered"),
    "busy": Reason(429, "too many requests of this kind at once; ask again later", True),
    "late": Reason(503, "the answer takes too long now; ask for less, or again later", True, 10),
    "internal": Reason(500, "something went wrong inside the collector"),
}
"""All reasons for refusal by name."""


class Problem(KeyveilError):
    """A refusal on its way to the client. Its detail never contains a report.

    ``number`` is the number of reports refused; only the counters use it.
    """

    def __init__(self, reason: str, detail: str = "", **more: Any) -> None:
        kind = REASONS[reason]
        super().__init__(detail or kind.title)
        self.reason, self.kind, self.more = reason, kind, more

    def document(self) -> dict[str, Any]:
        """Body of the response."""
        return {
            "type": f"urn:keyveil:problem:{self.reason}",
            "title": self.kind.title,
            "status": self.kind.status,
            "detail": str(self),
            "reason": self.reason,
            "retry": self.kind.retry,
            **{name: fact for name, fact in self.more.items() if name != "number"},
        }
