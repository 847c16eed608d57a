"""Access rights: tokens, web origins, and requests from this machine while there are no tokens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from urllib.parse import urlsplit

from ...client.service_url import is_loopback
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
"""Headers that proxies add to a request, besides all that begin with ``x-forwarded``."""


def header(headers: Headers, name: bytes) -> str | None:
    """The value of a header; the first if it occurs twice; None if it is missing."""
    for key, value in headers:
        if key == name:
            return value.decode("latin-1")
    return None


def require(service: Service, headers: Headers, role: str, collection: Collection | None = None) -> None:
    """Refuse a request whose token does not allow the role."""
    if not service.guarded:
        require_here(headers)
        return
    _require_token(service, headers, role, collection)


def require_ingest(service: Service, headers: Headers, collection: Collection) -> None:
    """Refuse reports without an ingest token if the collection requires one."""
    if collection.terms.token:
        missing = "this collection accepts reports only with a token"
        _require_token(service, headers, "ingest", collection, missing)


def _require_token(
    service: Service, headers: Headers, role: str, collection: Collection | None, missing: str = ""
) -> None:
    authorization = header(headers, b"authorization")
    if authorization is None:
        raise Problem("token", missing)
    token = service.token_of(authorization)
    if token is None:
        raise Problem("token", "this token is unknown or was revoked")
    if not token.allows(role, None if collection is None else collection.id):
        # the same words whether there is such a collection or not
        allowed = f"it takes one with the role {role}, for all collections or for this one"
        raise Problem("forbidden", f"this token does not allow that: {allowed}")


def require_here(headers: Headers) -> None:
    """Refuse a request that does not come from this machine. Used while there are no tokens.

    The process listens on loopback only, but a web page may reach it through a person's browser, and
    other machines through a proxy. The page is recognised by the Host header, by Origin or by
    Sec-Fetch-Site; the proxy by the headers that it adds.
    """
    if not is_loopback(_host_of("//" + (header(headers, b"host") or ""))):
        raise Problem("host")
    if any(key in FORWARDED or key.startswith(b"x-forwarded") for key, _ in headers):
        raise Problem("host", "the request came through a proxy; create an admin token first")
    origin = header(headers, b"origin")
    if origin is not None and not is_loopback(_host_of(origin)):
        raise Problem("origin")
    if any(
        key == b"sec-fetch-site" and value.strip().lower() == b"cross-site" for key, value in headers
    ):
        raise Problem("origin")


# -- pages on other sites ----------------------------------------------------------------------------


def allowed(origins: Sequence[str], origin: str) -> bool:
    """Whether pages of an origin may send reports and read plans."""
    return "*" in origins or origin in origins


def cors(origins: Sequence[str], origin: str | None) -> list[tuple[bytes, bytes]]:
    """The headers that let a page of an allowed origin read a response. Cookies are never allowed."""
    if origin is None or not allowed(origins, origin):
        return []
    return [
        (b"access-control-allow-origin", b"*" if "*" in origins else origin.encode("latin-1")),
        (b"access-control-expose-headers", b"retry-after, etag"),
        (b"vary", b"origin"),
    ]


ANY_PAGE = [(b"access-control-allow-origin", b"*"), (b"vary", b"origin")]
"""The headers that let pages of every origin read a refusal.

Only for refusals of public routes that say no more than that a name or the page's origin is not known
here: whoever can reach the collector learns the same without a browser.
"""


def preflight(origins: Sequence[str], origin: str | None) -> list[tuple[bytes, bytes]]:
    """The headers that answer a browser's preflight request."""
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
    """The host of an address; empty if the address is malformed."""
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""
