"""The token of a collector, as a client sends it."""

from __future__ import annotations

from .client_error import ClientError


def checked_token(token: object) -> str:
    """A token without the space around it, like the line end of its file."""
    checked = token.strip() if isinstance(token, str) else ""
    if not checked or not checked.isascii() or not checked.isprintable() or " " in checked:
        raise ClientError("a token is one word on one line, as keyveil token create prints it")
    return checked
