"""Routes that the dashboard adds: who is asking, collections at a glance, rules, forecasts, tokens."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import Response

from ..engine import admin, analyses
from ..engine.answer_desk import check_level
from ..engine.service import Service
from ..process.problems import Problem
from ..store.collection import Collection
from . import schemas
from .access import header, require_here
from .batches import JSON
from .request_fields import number_of, round_of, struct_of
from .routes import operation
from .web import json

_C = "/v1/collections/{name}"
_SLOW = ("busy", "late")


@operation(
    "GET", "/v1/session", "What the sender of this request may do", None, schema=schemas.SessionFacts,
)  # fmt: skip
async def session(service: Service, request: Request, _: Collection) -> Response:
    headers = request.scope["headers"]
    if not service.guarded:
        require_here(headers)
        return json({"role": "admin", "collection": None, "token": False})
    authorization = header(headers, b"authorization")
    token = None if authorization is None else service.token_of(authorization)
    if token is None:
        return json({"role": None, "collection": None, "token": True})
    names = {collection.id: collection.name for collection in service.control.collections.values()}
    name = None if token.collection is None else names.get(token.collection)
    return json({"role": token.role, "collection": name, "token": True})


@operation(
    "GET", "/v1/overview", "Collections at a glance", "analyst", schema=schemas.Overview,
)  # fmt: skip
async def overview(service: Service, request: Request, _: Collection) -> Response:
    return json({"collections": await asyncio.to_thread(service.overview)})


@operation(
    "GET", _C + "/plan-facts", "What the plan asks, in words and numbers", "analyst",
    schema=schemas.PlanFacts, query=("round",),
)  # fmt: skip
async def plan_facts(service: Service, request: Request, collection: Collection) -> Response:
    round_ = round_of(request, collection)
    book = await asyncio.to_thread(service.store.book, round_)
    return json(await asyncio.to_thread(analyses.plan_facts, book.plan))


@operation(
    "GET", _C + "/rules", "Association rules above noise", "analyst", schema=schemas.RuleList,
    query=("round", "level", "false_discovery", "lift", "given", "conditions"), refusals=_SLOW,
)  # fmt: skip
async def rules(service: Service, request: Request, collection: Collection) -> Response:
    level = check_level(number_of(request, "level", 0.95))
    false_discovery, lift = number_of(request, "false_discovery", 0.05), number_of(request, "lift", 1.0)
    most, given = number_of(request, "conditions", 1), request.query_params.get("given", "held")
    if most not in (1, 2, 3):
        raise Problem("invalid", "'conditions' is 1, 2 or 3")
    asked = (level, false_discovery, lift, given, int(most))
    return json(await analyses.rules(service.answers, round_of(request, collection), *asked))


@operation(
    "GET", _C + "/needed", "How many people queries need", "analyst", schema=schemas.PeopleForQueries,
    query=("q", "round", "level"), refusals=_SLOW,
)  # fmt: skip
async def needed(service: Service, request: Request, collection: Collection) -> Response:
    level = check_level(number_of(request, "level", 0.95))
    queries, round_ = request.query_params.getlist("q"), round_of(request, collection)
    return json(await analyses.needed(service.answers, round_, queries, level))


@operation(
    "GET", _C + "/forecast", "The error so far, and against more people", "analyst",
    schema=schemas.ErrorForecast, query=("people", "round"), refusals=_SLOW,
)  # fmt: skip
async def forecast(service: Service, request: Request, collection: Collection) -> Response:
    people = number_of(request, "people", 0.0) if "people" in request.query_params else None
    return json(await analyses.forecast(service.answers, round_of(request, collection), people))


# -- tokens ----------------------------------------------------------------------------------------


@operation("GET", "/v1/tokens", "All tokens, without their secrets", "admin", schema=schemas.Tokens)
async def list_tokens(service: Service, request: Request, _: Collection) -> Response:
    names = {collection.id: collection.name for collection in service.control.collections.values()}
    rows = [
        {
            "id": token.id,
            "role": token.role,
            "collection": None if token.collection is None else names.get(token.collection, ""),
            "label": token.label,
            "revoked": token.revoked,
        }
        for token in service.control.tokens.values()
    ]
    return json({"tokens": rows})


@operation(
    "POST", "/v1/tokens", "Make a token; its text is in this answer alone", "admin", status=201,
    schema=schemas.MadeToken, body=(JSON, schemas.NewToken),
)  # fmt: skip
async def make_token(service: Service, request: Request, _: Collection) -> Response:
    asked: schemas.NewToken = await struct_of(service, request, schemas.NewToken)
    text = await service.writer.call(
        lambda store: admin.add_token(store, asked.role, asked.collection, asked.label)
    )
    name = text.split("_", 2)[1]
    service.log.say("token_created", token=name, role=asked.role)
    return json({"id": name, "text": text}, 201)


@operation("DELETE", "/v1/tokens/{token}", "Revoke a token at once", "admin", status=204, kind="")
async def revoke(service: Service, request: Request, _: Collection) -> Response:
    name = request.path_params["token"]
    await service.writer.call(lambda store: admin.revoke_token(store, name))
    service.log.say("token_revoked", token=name)
    return Response(status_code=204)
