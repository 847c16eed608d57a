"""The OpenAPI document, made from the same table as the routes, and a page that shows it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape
from typing import Any

from .... import __version__
from ..process.problems import CONTENT_TYPE, REASONS
from . import schemas
from .batches import BINARY, JSON, SingleReport, WireBatch
from .routes import OPERATIONS, Operation

_ANY = ("invalid", "unknown", "host", "origin", "storage", "unhealthy")
_ROLE = ("token", "forbidden")
_BODY = ("malformed", "content_type", "encoding", "too_large", "slow")

REPORTS = (
    *("malformed", "other_plan", "impossible", "closed_round", "closed_collection", "closed_epoch"),
    *("early_epoch", "full", "not_open", "paused", "clock", "too_many", "too_large", "encoding"),
    *("content_type", "slow", "rate", "overload", "storage", "unhealthy", "origin", "token"),
    *("forbidden", "unknown", "method"),
)
"""All reasons for refusing reports."""

_QUERY: dict[str, dict[str, Any]] = {
    "round": {
        "description": "a round by number; the latest without",
        "schema": {"type": "integer", "minimum": 1},
    },
    "level": {
        "description": "level of the intervals",
        "schema": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1, "default": 0.95},
    },
    "estimator": {"description": "an estimator by name", "schema": {"type": "string"}},
    "after": {
        "description": "post-processing by name, may be repeated",
        "schema": {"type": "array", "items": {"type": "string"}},
    },
    "q": {
        "description": "a query like mean(Pepsi | Hamburger, !Fries), may be repeated",
        "required": True,
        "schema": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 100},
    },
    "kind": {
        "description": "the statistic",
        "schema": {"type": "string", "enum": ["frequency", "mean", "lift"], "default": "frequency"},
    },
    "id": {
        "description": "a name under which the tally is brought in once; its content's hash without",
        "schema": {"type": "string", "pattern": "^[0-9A-Za-z]{1,64}$"},
    },
    "false_alarm": {
        "description": "how often each check may be wrong about honest people",
        "schema": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1, "default": 0.001},
    },
    "share": {
        "description": "of all reports, how many may be fake",
        "schema": {"type": "number", "minimum": 0, "exclusiveMaximum": 1, "default": 0.01},
    },
    "key": {
        "description": "a key to look at, may be repeated; all without",
        "schema": {"type": "array", "items": {"type": "string"}},
    },
    "views": {
        "description": "whether fakes drew their views like everyone, or chose them; as the check says",
        "schema": {"type": "string", "enum": ["drawn", "chosen"]},
    },
    "estimates": {
        "description": "also send estimates",
        "schema": {"type": "string", "enum": ["true", "false"]},
    },
}
_PATH: dict[str, dict[str, Any]] = {
    "name": {"type": "string"},
    "other": {"type": "string"},
    "file": {"type": "string"},
    "round": {"type": "integer", "minimum": 1},
    "epoch": {"type": "integer", "minimum": 0},
}


_TEXT = {"type": "string"}


def document() -> dict[str, Any]:
    """The whole document."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        path = re.sub(r":\w+", "", operation.path)
        paths.setdefault(path, {})[operation.method.lower()] = _operation(operation, path)
    paths["/v1/collections/{name}/reports"] = {"post": _reports()}
    for path, summary, role, ok in (
        ("/health", "Whether reports are acknowledged", None, _json(schemas.Health)),
        ("/ready", "Whether requests should come here", None, _json(schemas.Ready)),
        (
            "/metrics",
            "Metrics for Prometheus",
            "analyst",
            {"text/plain": {"schema": {"type": "string"}}},
        ),
    ):
        answers = {"200": {"description": summary, "content": ok}}
        if role is None:
            answers["503"] = {"description": "it is not so", "content": ok}
        else:
            answers.update(_refusals((*_ROLE, "host", "origin", "storage")))
        paths[path] = {"get": {"summary": summary, "responses": answers, **_security(role)}}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "keyveil collector",
            "version": __version__,
            "description": "Reports under local differential privacy in, answers out.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": schemas.components(),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(operation: Operation, path: str) -> dict[str, Any]:
    status, kind, schema = operation.answer
    answer: dict[str, Any] = {"description": operation.summary}
    if kind:
        content = {kind: {"schema": _schema(kind, schema)}}
        content.update({k: {"schema": _schema(k, s)} for k, s in operation.more.items()})
        answer["content"] = content
    reasons = [*_ANY, *operation.refusals, *(_ROLE if operation.role else ())]
    description: dict[str, Any] = {
        "summary": operation.summary,
        "parameters": [
            *(
                {"name": name, "in": "path", "required": True, "schema": _PATH[name]}
                for name in re.findall(r"{(\w+)}", path)
            ),
            *({"name": name, "in": "query", **_QUERY[name]} for name in operation.query),
        ],
    }
    if operation.body is not None:
        kind, schema = operation.body
        description["requestBody"] = {
            "required": True,
            "content": {kind: {"schema": _schema(kind, schema)}},
        }
        reasons += _BODY
    description["responses"] = {str(status): answer, **_refusals(reasons)}
    if path.endswith("/plan"):
        description["responses"]["304"] = {"description": "the plan is the one named by If-None-Match"}
    return {**description, **_security(operation.role)}


def _reports() -> dict[str, Any]:
    return {
        "summary": "Send reports; the answer comes when they are durable, and names those that failed",
        "parameters": [{"name": "name", "in": "path", "required": True, "schema": _PATH["name"]}],
        "requestBody": {
            "required": True,
            "content": {
                JSON: {"schema": {"oneOf": [_schema(JSON, WireBatch), _schema(JSON, SingleReport)]}},
                BINARY: {"schema": _schema(BINARY, None)},
            },
        },
        "responses": {
            "200": {"description": "taken, but for those named", "content": _json(schemas.Accepted)},
            **_refusals(REPORTS),
        },
        "security": [{}, {"token": []}],
    }


def _refusals(reasons: Iterable[str]) -> dict[str, Any]:
    by_status: dict[int, list[str]] = {}
    for name in dict.fromkeys(reasons):
        by_status.setdefault(REASONS[name].status, []).append(f"{name}: {REASONS[name].title}")
    content = {CONTENT_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDetails"}}}
    return {
        str(status): {"description": "; ".join(titles), "content": content}
        for status, titles in sorted(by_status.items())
    }


def _security(role: str | None) -> dict[str, Any]:
    return {"security": [{}, {"token": []}], "x-role": role} if role else {"security": []}


def _json(schema: type) -> dict[str, Any]:
    return {JSON: {"schema": _schema(JSON, schema)}}


def _schema(kind: str, schema: type | None) -> dict[str, Any]:
    if schema is not None:
        return {"$ref": f"#/components/schemas/{schema.__name__}"}
    return {"type": "object"} if kind == JSON else {}


def page() -> str:
    """The document as an HTML page without external resources."""
    rows = []
    for path, methods in document()["paths"].items():
        for method, about in methods.items():
            who = escape(about.get("x-role") or "anyone")
            rows.append(
                f"<tr><td>{method.upper()}</td><td><code>{escape(path)}</code></td>"
                f"<td>{escape(about['summary'])}</td><td>{who}</td></tr>"
            )
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><title>keyveil collector</title>"
        "<style>body{font:16px/1.5 sans-serif;max-width:70em;margin:2em auto;padding:0 1em}"
        "td{padding:.3em .8em;border-top:1px solid #ccc;vertical-align:top}</style>"
        "<h1>keyveil collector</h1><p>The whole contract: <a href=/openapi.json>openapi.json</a>.</p>"
        "<table><tr><th>Method<th>Path<th>What<th>Who</tr>" + "".join(rows) + "</table></html>"
    )
