"""What each route does, who may use it, and its entry in the OpenAPI document."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import FileResponse, Response

from ....plan.tally import Tally
from ..engine import admin
from ..engine.answer_desk import tally_facts
from ..engine.plan_difference import compare_plans
from ..engine.service import Service
from ..process.problems import Problem
from ..store.collection import Collection, checked_name
from ..store.segments import files_of, folder_of, remove
from . import schemas
from .access import require
from .batches import JSON
from .live import stream
from .request_fields import body_of, flag_of, number_of, round_of, struct_of
from .web import json

TALLY = "application/vnd.keyveil.tally"
PARQUET = "application/vnd.apache.parquet"

Handler = Callable[[Service, Request, Collection], Awaitable[Response]]


@dataclass(frozen=True)
class Operation:
    """One method of one path."""

    method: str
    path: str
    summary: str
    role: str | None
    """The role that is required; None for anyone."""
    handler: Handler
    status: int = 200
    kind: str = JSON
    """Content type of a successful response; empty if it has no body."""
    schema: type | None = None
    query: tuple[str, ...] = ()
    body: tuple[str, type | None] | None = None
    refusals: tuple[str, ...] = ()
    public: bool = False
    """Whether pages of allowed origins may read the response."""
    more: Mapping[str, type | None] = field(default_factory=dict)
    """Other content types of a successful response."""
    etag: str = ""
    """What status 304 means here; empty if the response has no ETag."""


OPERATIONS: list[Operation] = []
"""All routes except those for reports and for the process itself.

The application and its document use it.
"""

_C = "/v1/collections/{name}"
_ASKED = ("round", "estimator", "level")
_SLOW = ("busy", "late")


def operation(
    method: str, path: str, summary: str, role: str | None, **facts: Any
) -> Callable[[Handler], Handler]:
    """Add a handler to ``OPERATIONS``."""

    def add(handler: Handler) -> Handler:
        OPERATIONS.append(Operation(method, path, summary, role, handler, **facts))
        return handler

    return add


class _Number(Convertor[int]):
    """A number in a path. Its length is bounded, so parsing it is cheap."""

    regex = "[0-9]{1,10}"

    def convert(self, value: str) -> int:
        return int(value)

    def to_string(self, value: int) -> str:
        return str(value)


register_url_convertor("number", _Number())


# -- collections -----------------------------------------------------------------------------------


@operation("GET", "/v1/collections", "All collections", "analyst", schema=schemas.Listing)
async def list_collections(service: Service, request: Request, _: Collection) -> Response:
    return json({"collections": [service.public(collection) for collection in service.control.in_order]})


@operation(
    "POST", "/v1/collections", "Make a collection of a plan", "admin", status=201,
    schema=schemas.Created, body=(JSON, schemas.NewCollection), refusals=("exists", "unknown"),
)  # fmt: skip
async def create(service: Service, request: Request, _: Collection) -> Response:
    asked: schemas.NewCollection = await struct_of(service, request, schemas.NewCollection)
    checked_name(asked.name)
    now = service.clock.now()
    plan = await asyncio.to_thread(admin.checked_plan, asked.plan)
    collection = await service.writer.call(
        lambda store: admin.create(
            store, asked.name, plan.dumps(), asked.terms.given(), now, asked.state
        )
    )
    service.log.say("collection_created", collection=collection.name, plan=collection.round.plan)
    answer = {**service.public(collection), "warnings": admin.warnings_of(service.control, collection)}
    return json(answer, 201, location=f"/v1/collections/{collection.name}")


@operation("GET", _C, "What a client needs to know", None, schema=schemas.Public, public=True)
async def show(service: Service, request: Request, collection: Collection) -> Response:
    return json(service.public(collection))


@operation(
    "PATCH", _C, "Change terms that may change", "admin", schema=schemas.Public,
    body=(JSON, schemas.TermsIn), refusals=("state",),
)  # fmt: skip
async def change_terms(service: Service, request: Request, collection: Collection) -> Response:
    asked: schemas.TermsIn = await struct_of(service, request, schemas.TermsIn)
    given = asked.given()
    changed = await service.writer.call(lambda store: admin.set_terms(store, collection.name, given))
    service.log.say("terms_changed", collection=changed.name, terms=sorted(given))
    return json(service.public(changed))


@operation(
    "DELETE", _C, "Remove a closed collection and all it collected", "admin", status=204, kind="",
    refusals=("state",),
)  # fmt: skip
async def delete(service: Service, request: Request, collection: Collection) -> Response:
    gone = await service.writer.call(lambda store: admin.delete(store, collection.name))
    await asyncio.to_thread(remove, folder_of(service.segments, gone))
    service.log.say("collection_deleted", collection=gone.name)
    return Response(status_code=204)


@operation(
    "POST", _C + "/state", "Open, pause or close; closed is for good", "admin",
    schema=schemas.Public, body=(JSON, schemas.NewState), refusals=("state",),
)  # fmt: skip
async def change_state(service: Service, request: Request, collection: Collection) -> Response:
    asked: schemas.NewState = await struct_of(service, request, schemas.NewState)
    changed = await service.writer.call(
        lambda store: admin.set_state(store, collection.name, asked.state)
    )
    service.log.say("state_changed", collection=changed.name, state=changed.state)
    return json(service.public(changed))


@operation(
    "POST", _C + "/rounds", "Close the round, publish what it learned, open the next", "admin",
    status=201, schema=schemas.Public, query=("empty",),
    refusals=("finished", "closed_collection", "state"),
)  # fmt: skip
async def next_round(service: Service, request: Request, collection: Collection) -> Response:
    empty = flag_of(request, "empty")
    changed = await service.writer.call(lambda store: admin.next_round(store, collection.name, empty))
    service.log.say("round_opened", collection=changed.name, round=changed.round.number)
    return json(service.public(changed), 201)


@operation(
    "GET", _C + "/plan", "The plan of the latest round, or of one", None, query=("round",), public=True,
    etag="the plan is the one named by If-None-Match",
)  # fmt: skip
async def plan(service: Service, request: Request, collection: Collection) -> Response:
    round_ = round_of(request, collection)
    book = await asyncio.to_thread(service.store.book, round_)
    tag = f'"{round_.plan}"'
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers={"etag": tag})
    return Response(book.document, 200, {"etag": tag}, JSON)


@operation("GET", _C + "/status", "Reports, refusals, epochs, rounds", "analyst", schema=schemas.Status)
async def status(service: Service, request: Request, collection: Collection) -> Response:
    return json(await service.status(collection))


# -- answers ---------------------------------------------------------------------------------------


@operation(
    "GET", _C + "/estimates", "Frequency and mean of every key", "analyst",
    schema=schemas.Estimates, query=(*_ASKED, "after"), refusals=_SLOW,
)  # fmt: skip
async def estimates(service: Service, request: Request, collection: Collection) -> Response:
    asked = request.query_params
    round_ = round_of(request, collection)
    level = number_of(request, "level", 0.95)
    estimator, after = asked.get("estimator"), asked.getlist("after")
    return json(await service.answers.estimates(round_, estimator, level, after))


@operation(
    "GET", _C + "/queries", "Answers to queries", "analyst",
    schema=schemas.QueryAnswers, query=("q", *_ASKED), refusals=_SLOW,
)  # fmt: skip
async def queries(service: Service, request: Request, collection: Collection) -> Response:
    asked = request.query_params
    round_ = round_of(request, collection)
    level, estimator = number_of(request, "level", 0.95), asked.get("estimator", "best")
    return json(await service.answers.queries(round_, asked.getlist("q"), estimator, level))


@operation(
    "GET", _C + "/conditional", "A statistic of each key given each other", "analyst",
    schema=schemas.Matrix, query=("kind", *_ASKED), refusals=_SLOW,
)  # fmt: skip
async def conditional(service: Service, request: Request, collection: Collection) -> Response:
    asked = request.query_params
    round_ = round_of(request, collection)
    level, estimator = number_of(request, "level", 0.95), asked.get("estimator", "best")
    return json(await service.answers.matrix(round_, asked.get("kind", "frequency"), estimator, level))


@operation(
    "GET", _C + "/checks", "What no honest population could have sent", "analyst",
    schema=schemas.Checks, query=("round", "false_alarm"), refusals=_SLOW,
)  # fmt: skip
async def checks(service: Service, request: Request, collection: Collection) -> Response:
    round_ = round_of(request, collection)
    return json(await service.answers.checks(round_, number_of(request, "false_alarm", 0.001)))


@operation(
    "GET", _C + "/fakes", "How far a share of fakes may have moved each answer", "analyst",
    schema=schemas.Fakes, query=("round", "share", "level", "key", "views"), refusals=_SLOW,
)  # fmt: skip
async def fakes(service: Service, request: Request, collection: Collection) -> Response:
    asked = request.query_params
    round_, share = round_of(request, collection), number_of(request, "share", 0.01)
    level, keys = number_of(request, "level", 0.95), asked.getlist("key")
    return json(await service.answers.fakes(round_, share, keys, asked.get("views"), level))


@operation(
    "GET", _C + "/tally", "The tally itself", "analyst", kind=TALLY, query=("round",),
    more={JSON: schemas.Counts},
)  # fmt: skip
async def tally(service: Service, request: Request, collection: Collection) -> Response:
    round_ = round_of(request, collection)
    version, counted = await service.answers.tally(round_)
    if JSON in request.headers.get("accept", ""):
        return json({**tally_facts(round_, counted, version), "counts": counted.counts.tolist()})
    return Response(await asyncio.to_thread(counted.dumps), 200, media_type=TALLY)


@operation(
    "POST", _C + "/tallies", "Bring in a tally made elsewhere, once", "admin",
    schema=schemas.BroughtIn, query=("round", "id"), body=(TALLY, None),
    refusals=("full", "closed_collection"),
)  # fmt: skip
async def bring_in(service: Service, request: Request, collection: Collection) -> Response:
    content = await body_of(service, request, (TALLY,))
    round_ = round_of(request, collection)
    book = await asyncio.to_thread(service.store.book, round_)
    brought = await asyncio.to_thread(Tally.parse, book.plan, content)
    digest = hashlib.sha256(brought.counts.tobytes()).hexdigest()
    name = request.query_params.get("id", digest)
    if not name.isascii() or not name.isalnum() or len(name) > 64:
        raise Problem("invalid", "'id' has at most 64 letters and digits")
    packed = brought.dumps()
    added = await service.writer.call(lambda store: store.bring_in(round_, brought.counts, name, packed))
    service.log.say("tally_brought_in", collection=collection.name, added=added)
    return json({"added": added, "reports": brought.reports})


@operation(
    "GET", _C + "/live", "Server-sent events: the tally as it grows", "analyst",
    kind="text/event-stream", query=("estimates",), refusals=("busy",),
)  # fmt: skip
async def live(service: Service, request: Request, collection: Collection) -> Response:
    estimates = flag_of(request, "estimates")
    if request.method == "HEAD":
        return Response(media_type="text/event-stream")
    return stream(service, collection.name, request.scope["headers"], estimates)


@operation("GET", _C + "/segments", "Manifests of the sealed epochs", "admin", schema=schemas.Segments)
async def segments(service: Service, request: Request, collection: Collection) -> Response:
    def look() -> list[dict[str, Any]]:
        with service.store.reading() as session:
            return [
                {**sealed.manifest, "expired": sealed.expired}
                for round_ in collection.rounds
                for sealed in service.store.sealed(session, round_)
            ]

    return json({"segments": await asyncio.to_thread(look)})


@operation(
    "GET", _C + "/segments/{round:number}/{epoch:number}/{file}", "One Parquet segment", "admin",
    kind=PARQUET,
)  # fmt: skip
async def segment(service: Service, request: Request, collection: Collection) -> Response:
    path = request.path_params
    round_ = collection.numbered(path["round"])

    def look() -> set[str]:
        with service.store.reading() as session:
            return {
                file["name"]
                for sealed in service.store.sealed(session, round_)
                if sealed.epoch == path["epoch"] and not sealed.expired
                for file in files_of(sealed.manifest)
            }

    if path["file"] not in await asyncio.to_thread(look):
        raise Problem("unknown", "there is no such segment; see the list of segments")
    file = folder_of(service.segments, collection, round_, path["epoch"]) / path["file"]
    if not file.is_file():
        raise Problem("unknown", "the segment is not on this machine")
    return FileResponse(file, media_type=PARQUET)


@operation(
    "GET", _C + "/compare/{other}", "How a new version differs, and what is unsafe", "analyst",
    schema=schemas.Comparison,
)  # fmt: skip
async def compare(service: Service, request: Request, collection: Collection) -> Response:
    other = service.control.named_publicly(request.path_params["other"])
    require(service, request.scope["headers"], "analyst", other)
    plans = [
        (await asyncio.to_thread(service.store.book, compared.rounds[0])).plan
        for compared in (collection, other)
    ]
    return json(compare_plans(*plans))
