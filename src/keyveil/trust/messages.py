"""Messages: everything that leaves a device for one report, split into cells, id and the rest.

A message is a list of HTTP requests, or the bytes of one report. The bytes may be JSON (a report, or a
batch of one report), a binary batch of one report, or a report file with one report. The cells and the
id are random. Every other part must be the same in all messages, whatever the record; ``message_audit``
checks that.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO

from ..foundation.errors import ReportError
from ..plan.plan import Plan
from ..plan.report import Report, is_hex
from ..plan.report_file import MAGIC as FILE
from ..plan.report_file import ReportWriter, parse

BATCH = b"KVBATCH1"
"""The first bytes of a binary batch: see docs/wire.md."""
_BATCH_HEAD = 48
_ID = b"(id)"
_CELLS = re.compile(rb'("cells"\s*:\s*\[)[^\]]*\]')


@dataclass(frozen=True)
class Request:
    """One HTTP request as it is sent, with the order and spelling of its headers."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""


Sent = str | bytes | Request | Sequence[Request]
"""What a device sent for one report."""


@dataclass(frozen=True)
class Message:
    """The parts of one report's message."""

    cells: tuple[int, ...]
    """The cells in the order in which they were sent."""
    id: bytes | None
    """The sixteen bytes of the report's id; None if it has none."""
    parts: Mapping[str, object]
    """All parts but cells and id, by name."""
    exact: bytes
    """The whole message without its id. It must be the same for all messages with these cells."""


def read_message(plan: Plan, sent: Sent) -> Message:
    """The parts of a message. Raises ``ReportError`` unless it carries one report of the plan."""
    if isinstance(sent, str | bytes):
        return _read_body(plan, sent.encode() if isinstance(sent, str) else sent)
    requests = [sent] if isinstance(sent, Request) else list(sent)
    bodies = [_read_body(plan, request.body) if request.body else None for request in requests]
    carried = [body for body in bodies if body is not None]
    if not carried:
        raise ReportError("the message carries no report")
    if len({(body.cells, body.id) for body in carried}) > 1:
        raise ReportError("the message carries several reports; audit one device at a time")
    first = carried[0]
    parts: dict[str, object] = {"number of requests": len(requests)}
    exact = []
    for number, (request, carrying) in enumerate(zip(requests, bodies, strict=True), 1):
        parts |= _request_parts(f"request {number}", request, carrying, first.id)
        head = [request.method, request.url, *(f"{name}: {value}" for name, value in request.headers)]
        text = _without_id("\n".join(head).encode(), first.id)
        exact += [text, carrying.exact if carrying else b""]
    return Message(first.cells, first.id, parts, b"\n\n".join(exact))


def _request_parts(
    name: str, request: Request, body: Message | None, report_id: bytes | None
) -> dict[str, object]:
    """The parts of one request, by name. A correct content-length depends on the cells alone."""
    parts: dict[str, object] = {
        f"{name}, method": request.method,
        f"{name}, address": _without_id(request.url.encode(), report_id),
        f"{name}, names and order of headers": tuple(header for header, _ in request.headers),
    }
    for header, value in request.headers:
        right = header.lower() == "content-length" and value == str(len(request.body))
        known = b"right" if right else _without_id(value.encode(), report_id)
        at = f"{name}, header {header.lower()}"
        parts[at] = (*parts.get(at, ()), known)  # type: ignore[misc]
    if body is not None:
        parts |= {f"{name}, {part}": value for part, value in body.parts.items()}
    return parts


def _without_id(text: bytes, report_id: bytes | None) -> bytes:
    return text if report_id is None else text.replace(report_id.hex().encode(), _ID)


def _read_body(plan: Plan, body: bytes) -> Message:
    if body.startswith(FILE):
        parsed = _read_file(plan, body)
    elif body.startswith(BATCH):
        parsed = _read_batch(plan, body)
    else:
        parsed = _read_json(plan, body)
    if list(parsed.cells) != sorted(set(parsed.cells)):
        raise ReportError("cells are sent once each, in ascending order; another order may tell more")
    plan.packing.check(Report(plan.hash, parsed.cells))
    return parsed


def _read_json(plan: Plan, body: bytes) -> Message:
    try:
        document = json.loads(body)
        batch = "reports" in document
        (report,) = document["reports"] if batch else (document,)
        cells, name, epoch = report["cells"], report.get("id"), document.get("epoch")
        known = document["plan"] == plan.hash
    except (ValueError, TypeError, KeyError, AttributeError):
        raise ReportError("a message is JSON with the plan and the cells of one report") from None
    if not known:
        raise ReportError("the message names another plan")
    if not isinstance(cells, list) or any(type(cell) is not int for cell in cells):
        raise ReportError("a report's cells are whole numbers")
    if name is not None and not is_hex(name, 32):
        raise ReportError("a report's id has 32 lower-case hexadecimal digits")
    report_id = None if name is None else bytes.fromhex(name)
    exact = _without_id(body, report_id)
    blank, lists = _CELLS.subn(rb"\1#]", exact)
    if lists != 1:
        raise ReportError("a message has one list of cells")
    parts = {"epoch": epoch, "length without the cells": len(blank), "body": blank}
    return Message(tuple(cells), report_id, parts, exact)


def _read_batch(plan: Plan, body: bytes) -> Message:
    head, report_id, row = body[:_BATCH_HEAD], body[_BATCH_HEAD:][:16], body[_BATCH_HEAD + 16 :]
    if len(head) < _BATCH_HEAD or head[8:40].hex() != plan.hash:
        raise ReportError("the message names another plan")
    if int.from_bytes(head[44:48], "little") != 1:
        raise ReportError("the message carries several reports; audit one device at a time")
    packing = plan.packing
    if len(row) != packing.width:
        raise ReportError("the batch is not as long as its report")
    (cells,) = packing.cells_of(packing.reports(packing.rows(row)))
    parts = {"epoch": int.from_bytes(head[40:44], "little"), "body": head}
    return Message(cells, report_id, parts, head + row)


def _read_file(plan: Plan, content: bytes) -> Message:
    batches = [batch for batch in parse(plan, content) if len(batch)]
    if len(batches) != 1 or len(batches[0]) != 1:
        raise ReportError("the file has several reports, or none; audit one person at a time")
    rewritten = BytesIO()
    writer = ReportWriter(plan, rewritten)
    writer.add(batches[0])
    writer.close()
    same = rewritten.getvalue() == content
    parts = {"length": len(content), "bytes beside the report": b"" if same else content}
    (cells,) = plan.packing.cells_of(batches[0])
    return Message(cells, None, parts, content)
