"""Addresses of a collector: what a client sends to, and whether it is this machine."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit

from .client_error import ClientError

LOOKS = "a collector's address looks like https://example.org"


def checked_url(url: str) -> str:
    """A collector's checked address. Another machine needs https, so that nobody can change the plan."""
    try:
        if not isinstance(url, str) or not url.isprintable() or " " in url:
            raise ValueError
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        raise ClientError(LOOKS) from None
    if "//" not in url:
        raise ClientError(f"{LOOKS}; the part https:// is missing")
    if parts.scheme not in ("http", "https") or not host:
        raise ClientError(LOOKS)
    if "?" in url or "#" in url:
        raise ClientError(f"{LOOKS}; leave out the ? or # and what follows it")
    if "/v1/collections" in parts.path:
        raise ClientError(f"{LOOKS}; leave out /v1/collections and what follows it")
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
