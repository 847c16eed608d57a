"""Which certificates of a collector are trusted, and whether a failure is a matter of TLS."""

from __future__ import annotations

import ssl
from pathlib import Path

from ...foundation.errors import KeyveilError

DISTRUSTED = (
    "a certificate that is not trusted here (if an authority of your own signed it, name the "
    "authority's file: {})"
)
"""Fault of a response that never came; with the name of the option that would help."""
UNENCRYPTED = "an answer that is not https (it may speak http)"
"""Fault of a response whose first bytes are not those of TLS."""
_NOT_TLS = {"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"}
"""What OpenSSL says of such bytes."""


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


def no_response(error: BaseException | None, option: str = "certificates=") -> str:
    """The fault of a request without a response; empty if trying again may help.

    ``option`` names the authority's file where the address was given.
    """
    seen = 0
    while error is not None and seen < 10:
        if isinstance(error, ssl.SSLCertVerificationError):
            return DISTRUSTED.format(option)
        if isinstance(error, ssl.SSLError) and error.reason in _NOT_TLS:
            return UNENCRYPTED
        error, seen = error.__cause__ or error.__context__, seen + 1
    return ""
