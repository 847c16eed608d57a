"""Addresses of a collector: what a client sends to, and whether it is this machine."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit

from .client_error import ClientError


def checked_url(url: str) -> str:
    """A collector's checked address. Another machine needs https, so that nobody can change the plan."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        raise ClientError("a collector's address looks like https://example.org") from None
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
        raise ClientError("a collector's address looks like https://example.org")
    if parts.username is not None or parts.password is not None:
        raise ClientError(
            "a collector's address must not contain a name or password; give the token separately"
        )
    if parts.scheme == "http" and not is_loopback(host):
        raise ClientError("a collector on another machine needs https")
    return url.rstrip("/")


def is_loopback(host: str) -> bool:
    """Whether a host name or address is this machine's loopback."""
    try:
        return host == "localhost" or ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
