"""Tokens: who may do what. Only the hash of a token is stored."""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import urlsafe_b64encode
from dataclasses import dataclass

from ....foundation.coins import fresh_bytes

ROLES = ("admin", "analyst", "ingest")
"""An admin may do everything. An analyst reads answers, never single reports. Ingest sends reports."""

_SHAPE = re.compile(r"kv_([0-9a-f]{16})_([0-9A-Za-z_-]{43})")


@dataclass(frozen=True)
class Token:
    """A token as it is stored."""

    id: str
    role: str
    collection: int | None
    """The collection that it is for; None for all collections."""
    digest: bytes
    label: str = ""
    revoked: bool = False

    def matches(self, secret: str) -> bool:
        """Whether a secret is this token's, in constant time."""
        return hmac.compare_digest(self.digest, digest_of(secret)) and not self.revoked

    def allows(self, role: str, collection: int | None) -> bool:
        """Whether it allows a role. An admin's token allows every role."""
        if self.collection is not None and self.collection != collection:
            return False
        return self.role == role or self.role == "admin"


def fresh() -> tuple[str, bytes, str]:
    """A new token: its public name, the digest of its secret of 256 random bits, and its text."""
    name, secret = fresh_bytes(8).hex(), urlsafe_b64encode(fresh_bytes(32)).rstrip(b"=").decode()
    return name, digest_of(secret), f"kv_{name}_{secret}"


def digest_of(secret: str) -> bytes:
    """The stored hash of a secret. A secret of 256 random bits needs no slow hash."""
    return hashlib.sha256(b"keyveil token\0" + secret.encode()).digest()


def read(text: str) -> tuple[str, str] | None:
    """The public name and secret in a token's text; None if it is not a token."""
    match = _SHAPE.fullmatch(text)
    return (match[1], match[2]) if match else None
