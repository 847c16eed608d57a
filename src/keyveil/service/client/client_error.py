"""The error of a client."""

from __future__ import annotations

from ...foundation.errors import KeyveilError


class ClientError(KeyveilError):
    """The collector cannot be reached or trusted, or accepts no answers now. Nothing was sent."""
