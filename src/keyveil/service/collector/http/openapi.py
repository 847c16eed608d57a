"""The OpenAPI document, made from the same table as the routes, and a page that shows it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape
from typing import Any

import msgspec

from .... import __version__
from ....estimate.learn.rules import SIGNS
from ....estimate.together.query import KINDS
from ..engine.analyses import MOST_PEOPLE
from ..process.problems import CONTENT_TYPE, REASONS
from . import analysis_routes as analysis_routes  # adds its operations
from . import client_files, schemas  # noqa: F401  (the route of client_files is one of OPERATIONS)
from .batches import BINARY, JSON, SingleReport, WireBatch
from .routes import OPERATIONS, Operation

_ANY = ("invalid", "unknown", "host", "origin", "storage", "unhealthy")
_ROLE = ("token", "forbidden")
_BODY = ("malformed", "content_type", "encoding", "too_large", "slow")

REPORTS = (
    *("malformed", "other_plan", "impossible", "closed_round", "closed_collection", "closed_epoch"),
    *("early_epoch", "full", "not_open", "paused", "clock", "too_many", "too_large", "encoding"),
    *("content_type", "slow", "rate", "overload", "storage", "key_missing", "unhealthy", "origin"),
    *("token", "forbidden", "unknown", "method"),
)
"""All reasons for refusing reports."""

_TEXT: dict[str, Any] = {"type": "string"}
_TEXTS = {"type": "array", "items": _TEXT}
_SHARE = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}

_QUERY: dict[str, tuple[str, dict[str, Any]]] = {
    "round": ("a round by number; the latest without", {"type": "integer", "minimum": 1}),
    "level": ("level of the intervals", {**_SHARE, "default": 0.95}),
    "estimator": ("an estimator by name", _TEXT),
    "after": ("post-processing by name, may be repeated", _TEXTS),
    "q": (
        "a query like mean(Pepsi | Hamburger, !Fries), may be repeated",
        {**_TEXTS, "minItems": 1, "maxItems": 100},
    ),
    "kind": ("the statistic", {**_TEXT, "enum": list(KINDS), "default": "frequency"}),
    "id": (
        "a name under which the tally is brought in once; its content's hash without",
        {**_TEXT, "pattern": "^[0-9A-Za-z]{1,64}$"},
    ),
    "false_alarm": (
        "how often each check may be wrong about honest people",
        {**_SHARE, "default": 0.001},
    ),
    "share": (
        "of all reports, how many may be fake",
        {"type": "number", "minimum": 0, "exclusiveMaximum": 1, "default": 0.01},
    ),
    "key": ("a key to look at, may be repeated; all without", _TEXTS),
    "views": (
        "whether fakes drew their views like everyone, or chose them; as the check says",
        {**_TEXT, "enum": ["drawn", "chosen"]},
    ),
    "false_discovery": (
        "of the rules listed, the share that may be false",
        {**_SHARE, "default": 0.05},
    ),
    "lift": ("test for a lift above this", {"type": "number", "exclusiveMinimum": 0, "default": 1}),
    "given": ("signs of conditions", {**_TEXT, "enum": list(SIGNS), "default": "held"}),
    "conditions": (
        "conditions of a rule, at most",
        {"type": "integer", "minimum": 1, "maximum": 3, "default": 1},
    ),
    "people": (
        "the number of people around which errors are predicted",
        {"type": "number", "minimum": 1, "maximum": MOST_PEOPLE},
    ),
    "empty": ("go on although the round has no reports", {**_TEXT, "enum": ["true", "false"]}),
    "estimates": ("also send estimates", {**_TEXT, "enum": ["true", "false"]}),
}
"""The description and the schema of each parameter of a query."""
_NUMBERS = {"round": 1, "epoch": 0}
"""The parameters in a path that are integers, with their minimum; all others are texts."""


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
        ("/metrics", "Metrics for Prometheus", "analyst", {"text/plain": {"schema": _TEXT}}),
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
            "schemas": _components(),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _components() -> dict[str, Any]:
    """The JSON schemas of all types by name."""
    types = [WireBatch, SingleReport, schemas.Accepted, schemas.ProblemDetails]
    types += [schemas.Health, schemas.Ready]
    for operation in OPERATIONS:
        body = () if operation.body is None else operation.body[1:]
        types += [kind for kind in (operation.schema, *operation.more.values(), *body) if kind]
    _, schemas_by_name = msgspec.json.schema_components(
        types, ref_template="#/components/schemas/{name}"
    )
    return schemas_by_name


def _operation(operation: Operation, path: str) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": operation.summary}
    if operation.kind:
        kinds = {operation.kind: operation.schema, **operation.more}
        answer["content"] = {kind: {"schema": _schema(kind, schema)} for kind, schema in kinds.items()}
    reasons = [*_ANY, *operation.refusals, *(_ROLE if operation.role else ())]
    reasons += ["origin"] if operation.public else []
    description: dict[str, Any] = {
        "summary": operation.summary,
        "parameters": [
            *(
                {"name": name, "in": "path", "required": True, "schema": _path_schema(name)}
                for name in re.findall(r"{(\w+)}", path)
            ),
            *map(_query_parameter, operation.query),
        ],
    }
    if operation.body is not None:
        kind, schema = operation.body
        description["requestBody"] = {
            "required": True,
            "content": {kind: {"schema": _schema(kind, schema)}},
        }
        reasons += _BODY
    description["responses"] = {str(operation.status): answer, **_refusals(reasons)}
    if operation.etag:
        description["responses"]["304"] = {"description": operation.etag}
    return {**description, **_security(operation.role)}


def _path_schema(name: str) -> dict[str, Any]:
    return {"type": "integer", "minimum": _NUMBERS[name]} if name in _NUMBERS else _TEXT


def _query_parameter(name: str) -> dict[str, Any]:
    description, schema = _QUERY[name]
    required = {"required": True} if "minItems" in schema else {}
    return {"name": name, "in": "query", "description": description, **required, "schema": schema}


def _reports() -> dict[str, Any]:
    return {
        "summary": "Send reports; the answer comes when they are durable, and names those that failed",
        "parameters": [{"name": "name", "in": "path", "required": True, "schema": _TEXT}],
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
