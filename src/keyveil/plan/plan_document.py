"""A plan as a document: canonical JSON, its hash, and files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..foundation.errors import PlanError
from ..foundation.exact import text
from .plan_fields import PlanFields

if TYPE_CHECKING:
    from .plan import Plan

FORMAT = "keyveil/plan/1"

CLIENT = {"unknown_key": "ignore", "outside_range": "clip", "no_number": "not held", "cap": "none"}
"""What a device does with a record that breaks a rule, so that it never falls silent."""


MOST_BYTES = 16 << 20
"""Maximum size of a plan's document; a larger one is refused before it is parsed."""

HASH_BYTES = len('"hash":"",') + 64 + 1
"""Bytes of the member ``hash`` in a document, plus the line feed at the end of a file."""


def canonical(document: Mapping[str, Any]) -> bytes:
    """RFC 8785 for what plans hold: ASCII member names, whole numbers, strings, lists, objects."""
    return json.dumps(
        document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode()


class PlanDocument(PlanFields):
    """The members of a plan's document, its hash and its file."""

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
