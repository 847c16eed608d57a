"""Who may do what: tokens, origins, and the own machine where there are no tokens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import ip_address
from urllib.parse import urlsplit

from ..engine.service import Service
from ..process.problems import Problem
from ..store.collection import Collection

Headers = Iterable[tuple[bytes, bytes]]

FORWARDED = frozenset(
    (
        *(b"forwarded", b"via", b"x-real-ip", b"x-client-ip", b"x-cluster-client-ip", b"client-ip"),
        *(b"true-client-ip", b"cf-connecting-ip", b"cf-ray", b"cdn-loop", b"fastly-client-ip"),
        *(b"fly-client-ip", b"x-envoy-external-address", b"x-original-forwarded-for"),
        *(b"x-appengine-user-ip", b"x-azure-clientip"),
    )
)
"""What proxies add to a request of someone elsewhere, beside all that begins with ``x-forwarded``."""


def header(headers: Headers, name: bytes) -> str | None:
    """A header's value; the first, if it is given twice."""
    for key, value in headers:
        if key == name:
            return value.decode("latin-1")
    return None


def is_loopback(host: str) -> bool:
    """Whether a host name or address is the own machine's."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def require(service: Service, headers: Headers, role: str, collection: Collection | None = None) -> None:
    """Refuse a request that may not act in a role."""
    if not service.guarded:
        require_here(headers)
        return
    authorization = header(headers, b"authorization")
    if authorization is None:
        raise Problem("token")
    token = service.token_of(authorization)
    if token is None:
        raise Problem("token", "this token is not known, or was revoked")
    if not token.allows(role, None if collection is None else collection.id):
        raise Problem("forbidden")


def require_here(headers: Headers) -> None:
    """Refuse who is not on this machine, where the process listens to this machine alone.

    A page of the web that reaches it through the person's browser is known by the Host that it named,
    or by what the browser says of where it comes from (Origin, Sec-Fetch-Site); someone elsewhere, by
    what a proxy adds.
    """
    if not is_loopback(_host_of("//" + (header(headers, b"host") or ""))):
        raise Problem("host")
    if any(key in FORWARDED or key.startswith(b"x-forwarded") for key, _ in headers):
        raise Problem("host", "a proxy stands before this: it needs tokens, make one for an admin first")
    origin = header(headers, b"origin")
    if origin is not None and not is_loopback(_host_of(origin)):
        raise Problem("origin")
    if any(
        key == b"sec-fetch-site" and value.strip().lower() == b"cross-site" for key, value in headers
    ):
        raise Problem("origin")


def require_ingest(service: Service, headers: Headers, collection: Collection) -> None:
    """Refuse reports without an ingest token, where the collection asks for one."""
    if not collection.terms.token:
        return
    authorization = header(headers, b"authorization")
    if authorization is None:
        raise Problem("token", "this collection takes reports with a token only")
    token = service.token_of(authorization)
    if token is None:
        raise Problem("token", "this token is not known, or was revoked")
    if not token.allows("ingest", collection.id):
        raise Problem("forbidden")


# -- pages on other sites ----------------------------------------------------------------------------


def allowed(origins: Sequence[str], origin: str) -> bool:
    """Whether pages of an origin may send reports and read plans."""
    return "*" in origins or origin in origins


def cors(origins: Sequence[str], origin: str | None) -> list[tuple[bytes, bytes]]:
    """The headers that let a page of an allowed origin read a response; no cookies are ever meant."""
    if origin is None or not allowed(origins, origin):
        return []
    return [
        (b"access-control-allow-origin", b"*" if "*" in origins else origin.encode("latin-1")),
        (b"access-control-expose-headers", b"retry-after, etag"),
        (b"vary", b"origin"),
    ]


def preflight(origins: Sequence[str], origin: str | None) -> list[tuple[bytes, bytes]]:
    """The headers that answer a browser that asks before it sends."""
    basic = cors(origins, origin)
    if not basic:
        return [(b"vary", b"origin")]
    return [
        *basic,
        (b"access-control-allow-methods", b"GET, POST"),
        (b"access-control-allow-headers", b"authorization, content-type, if-none-match"),
        (b"access-control-max-age", b"600"),
    ]


def _host_of(address: str) -> str:
    """The host that an address names; empty if it can not be read."""
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""
