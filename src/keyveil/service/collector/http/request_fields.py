"""Reads requests: bodies within their limits, and what a query string says."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from starlette.requests import Request

from ....foundation.errors import choices
from ..engine.service import Service
from ..process.problems import Problem
from ..store.collection import Collection, Round
from . import schemas
from .batches import JSON
from .body_faults import fault_in

ADMIN_BODY = 64 << 20


async def body_of(service: Service, request: Request, kinds: tuple[str, ...]) -> bytes:
    """The body, within the limits of content type, size and time."""
    main = request.headers.get("content-type", "").split(";", 1)[0].strip().lower()
    if main not in kinds:
        raise Problem("content_type", f"send {' or '.join(kinds)}")
    if request.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise Problem("encoding")
    parts, size = [], 0
    try:
        async with asyncio.timeout(service.settings.request_seconds):
            async for part in request.stream():
                size += len(part)
                if size > ADMIN_BODY:
                    raise Problem("too_large", f"a body has at most {ADMIN_BODY} bytes")
                parts.append(part)
    except TimeoutError:
        raise Problem("slow") from None
    return b"".join(parts)


async def struct_of(service: Service, request: Request, kind: type[Any]) -> Any:
    """A JSON body of a type. The problem says what is wrong; only admins send such bodies."""
    body = await body_of(service, request, (JSON,))
    try:
        return msgspec.json.decode(body, type=kind)
    except (ValueError, RecursionError):
        if kind is schemas.NewCollection and _is_plan(body):
            raise Problem("malformed", BARE_PLAN) from None
        raise Problem("malformed", fault_in(body, kind, quoting=True)) from None


BARE_PLAN = (
    'the body is a plan alone; send {"name": "a-name", "plan": PLAN}, and optionally "terms" and "state"'
)


class _Format(msgspec.Struct):
    """The format of any document of keyveil."""

    format: str


def _is_plan(body: bytes) -> bool:
    """Whether a body is the document of a plan."""
    try:
        return msgspec.json.decode(body, type=_Format).format.startswith("keyveil/plan/")
    except (ValueError, RecursionError):
        return False


def check_parameters(request: Request, known: tuple[str, ...]) -> None:
    """Refuse a query string with a parameter that the route does not have."""
    for name in request.query_params:
        if name not in known:
            hint = choices(name, known) if known else "this route has none"
            raise Problem("invalid", f"unknown parameter {name[:40]!r}; {hint}")


def flag_of(request: Request, name: str) -> bool:
    """Whether the query string says that something is true; false if it says nothing."""
    text = request.query_params.get(name, "false")
    if text not in ("true", "false"):
        raise Problem("invalid", f"'{name}' must be true or false")
    return text == "true"


def number_of(request: Request, name: str, default: float) -> float:
    """A number from the query string."""
    text = request.query_params.get(name)
    if text is None:
        return default
    try:
        return float(text)
    except ValueError:
        raise Problem("invalid", f"'{name}' must be a number") from None


def round_of(request: Request, collection: Collection) -> Round:
    """The round that the query string names; the latest if it names none."""
    text = request.query_params.get("round")
    if text is None:
        return collection.round
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise Problem("invalid", "'round' must be a whole number")
    return collection.numbered(int(text))
