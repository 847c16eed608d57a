"""Which certificates of a collector are trusted, and whether a failure is a matter of trust."""

from __future__ import annotations

import ssl
from pathlib import Path

from ...foundation.errors import KeyveilError

DISTRUSTED = (
    "a certificate that is not trusted here (if an authority of your own signed it, name the "
    "authority's file: certificates=, or --certificates)"
)
"""Fault of a response that never came."""


def trusted(certificates: str | Path | None) -> ssl.SSLContext | bool:
    """What httpx takes as ``verify``: the authorities in a PEM file and no others, or the usual ones."""
    if certificates is None:
        return True
    try:
        return ssl.create_default_context(cafile=str(certificates))
    except (OSError, ssl.SSLError):
        raise KeyveilError(
            f"{certificates} is not a file of certificates: it is missing, or it is not PEM text"
        ) from None


def is_distrust(error: BaseException | None) -> bool:
    """Whether a certificate that was not trusted caused an error of the network."""
    seen = 0
    while error is not None and seen < 10:
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        error, seen = error.__cause__ or error.__context__, seen + 1
    return False


def no_response(error: BaseException) -> str:
    """The fault of a request without a response; empty if trying again may help."""
    return DISTRUSTED if is_distrust(error) else ""
