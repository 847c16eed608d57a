"""``keyveil serve`` and what belongs to it: collections, tokens, backups, checks."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import KeyveilError, PlanError
from .show import as_json, print_json, print_table

if TYPE_CHECKING:
    from ..collector.store import Store

_store = click.option(
    "--store",
    "address",
    default="keyveil.sqlite",
    show_default=True,
    envvar="KEYVEIL_STORE",
    help="A SQLite file, or postgresql://... for several collectors at once.",
)
_segments = click.option(
    "--segments",
    type=click.Path(path_type=Path),
    envvar="KEYVEIL_SEGMENTS",
    help="Where sealed epochs go; beside the SQLite file by default.",
)


def _segments_of(address: str, segments: Path | None) -> Path:
    if segments is not None:
        return segments
    if "://" in address and not address.startswith("sqlite://"):
        return Path("keyveil.segments")
    path = Path(address.removeprefix("sqlite://"))
    return path.with_name(path.name + ".segments")


def _need() -> None:
    """Say which extra the collector needs, where it is not installed."""
    if any(find_spec(name) is None for name in ("apsw", "msgspec", "psycopg", "starlette", "uvicorn")):
        raise KeyveilError("the collector needs: pip install 'keyveil[collector]'")


@contextmanager
def _opened(address: str, make: bool = False) -> Iterator[Store]:
    """The store, for a change beside whoever serves it."""
    _need()
    from ..collector.store import StoreError, store_at

    store = store_at(address)
    path = getattr(store, "path", None)
    if path is not None and not make and not path.is_file():
        raise StoreError(
            f"there is no store at {path}: 'keyveil serve' or 'collection create' makes one"
        )
    store.open(serving=False)
    try:
        yield store
    finally:
        store.close()


# -- the service -----------------------------------------------------------------------------------


@click.command()
@_store
@_segments
@click.option("--host", default="127.0.0.1", show_default=True, help="Another needs an admin token.")
@click.option("--port", default=8750, show_default=True, help="0 takes any that is free.")
@click.option("--max-body", default=4 << 20, show_default=True, help="Bytes of one request.")
@click.option(
    "--max-reports",
    type=click.IntRange(1, 10_000),
    default=10_000,
    show_default=True,
    help="Reports of one request.",
)
@click.option("--max-waiting", default=64 << 20, show_default=True, help="Bytes that wait at once.")
@click.option("--request-seconds", default=20.0, show_default=True, help="For a request to arrive.")
def serve(
    address: str,
    segments: Path | None,
    host: str,
    port: int,
    max_body: int,
    max_reports: int,
    max_waiting: int,
    request_seconds: float,
) -> int:
    """Collect reports: one process, nothing else to start."""
    _need()
    from ..collector.serve import address_of, check_address, listening
    from ..collector.serve import serve as run
    from ..collector.settings import Settings
    from ..collector.store import store_at

    store = store_at(address)
    store.open()
    settings = Settings(
        body_bytes=max_body,
        reports=max_reports,
        waiting_bytes=max_waiting,
        request_seconds=request_seconds,
    )
    try:
        check_address(store, host)
        with listening(host, port) as found:
            click.echo(f"collecting at {address_of(found)} (its API: {address_of(found)}/)")
            sys.stdout.flush()
            return run(store, _segments_of(address, segments), host, found, settings)
    finally:
        store.close()


# -- collections -----------------------------------------------------------------------------------


@click.group()
def collection() -> None:
    """Make and run collections; also while they are served."""


def _date(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise PlanError("a date looks like 2030-01-31 or 2030-01-31T12:00, in UTC") from None
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp())


@collection.command("create")
@click.argument("name")
@click.argument("plan_path", metavar="PLAN", type=click.Path())
@_store
@click.option("--people", type=int, help="Reports that a round takes at the most.")
@click.option("--opens", help="A date in UTC.")
@click.option("--closes", help="A date in UTC.")
@click.option("--epoch", type=int, help="Seconds of an epoch; a day by default.")
@click.option("--grace", type=int, help="Seconds for which an epoch takes late reports; a day.")
@click.option("--token", is_flag=True, help="Take reports with an ingest token only.")
@click.option("--origin", "origins", multiple=True, help="Pages that may send, like https://a.org.")
@click.option("--rate", type=int, help="Reports a second at the most.")
@click.option("--keep", type=int, help="Days for which sealed segments are kept.")
@click.option("--replaces", help="The collection that this is a new version of.")
@click.option("--paused", is_flag=True, help="Make it, but take no reports yet.")
def collection_create(name: str, plan_path: str, address: str, **given: Any) -> None:
    """A new collection of the plan in a file."""
    from ..collector import admin
    from ..collector.compare import compare_plans

    try:
        document = Path(plan_path).read_bytes()
    except OSError as error:
        raise PlanError(f"cannot read the plan {plan_path}: {error.strerror}") from None
    state = "paused" if given.pop("paused") else "open"
    given["opens"], given["closes"] = _date(given["opens"]), _date(given["closes"])
    given["origins"] = list(given["origins"])
    terms = {key: value for key, value in given.items() if value is not None}
    with _opened(address, make=True) as store:
        made = admin.create(store, name, document, terms, time.time(), state)
        click.echo(f"{name}: {made.state}, plan {made.round.plan[:12]}")
        if made.terms.replaces is not None:
            old = store.book(store.control.named(made.terms.replaces).rounds[0]).plan
            _print_comparison(compare_plans(old, store.book(made.round).plan))


@collection.command("list")
@_store
@as_json
def collection_list(address: str, machine: bool) -> None:
    """All collections."""
    with _opened(address) as store:
        rows = []
        with store.reading() as session:
            for one in store.control.collections.values():
                sql = "select coalesce(sum(reports), 0) from heads where round = ?"
                reports = int(session.rows(sql, (one.round.id,))[0][0])
                rows.append(
                    (one.name, one.state_at(time.time()), one.round.number, reports, one.round.plan)
                )
    headings = ["name", "state", "round", "reports", "plan"]
    if machine:
        print_json([dict(zip(headings, row, strict=True)) for row in rows])
    else:
        print_table(headings, [[*map(str, row[:4]), row[4][:12]] for row in rows])


@collection.command("show")
@click.argument("name")
@_store
def collection_show(name: str, address: str) -> None:
    """Everything about one collection, as JSON."""
    from ..collector.service import status_of

    with _opened(address) as store:
        print_json(status_of(store, store.control.named(name), time.time()))


def _state(name: str, address: str, state: str) -> None:
    from ..collector import admin

    with _opened(address) as store:
        click.echo(f"{name}: {admin.set_state(store, name, state).state}")


@collection.command("open")
@click.argument("name")
@_store
def collection_open(name: str, address: str) -> None:
    """Take reports."""
    _state(name, address, "open")


@collection.command("pause")
@click.argument("name")
@_store
def collection_pause(name: str, address: str) -> None:
    """Take none for now; devices send again later."""
    _state(name, address, "paused")


@collection.command("close")
@click.argument("name")
@_store
def collection_close(name: str, address: str) -> None:
    """Take no more, for good."""
    _state(name, address, "closed")


@collection.command("next-round")
@click.argument("name")
@_store
def collection_next(name: str, address: str) -> None:
    """Close the round, publish what it learned as the next plan, open that."""
    from ..collector import admin

    with _opened(address) as store:
        made = admin.next_round(store, name)
        click.echo(f"{name}: round {made.round.number}, plan {made.round.plan[:12]}")


@collection.command("delete")
@click.argument("name")
@_store
@_segments
@click.option("--yes", is_flag=True, help="Do not ask.")
def collection_delete(name: str, address: str, segments: Path | None, yes: bool) -> None:
    """Remove a closed collection and all that it collected."""
    from ..collector import admin
    from ..collector.segments import folder_of, remove

    with _opened(address) as store:
        store.control.named(name)
        if not yes:
            click.confirm(f"remove {name} and all its reports?", abort=True)
        gone = admin.delete(store, name)
        remove(folder_of(_segments_of(address, segments), gone))
        click.echo(f"{name}: deleted")


@collection.command("compare")
@click.argument("old")
@click.argument("new")
@_store
@as_json
def collection_compare(old: str, new: str, address: str, machine: bool) -> None:
    """What a new version changes, and which changes are unsafe."""
    from ..collector.compare import compare_plans

    with _opened(address) as store:
        plans = [store.book(store.control.named(name).rounds[0]).plan for name in (old, new)]
        found = compare_plans(*plans)
    if machine:
        print_json(found)
    else:
        _print_comparison(found)


def _print_comparison(found: dict[str, Any]) -> None:
    rows = [[d["what"], str(d["old"]), str(d["new"]), d["unsafe"]] for d in found["differences"]]
    if rows:
        print_table(["difference", "old", "new", "unsafe because"], rows)
    click.echo(f"a person who answers both tells epsilon {found['epsilon_of_both']} in all")


# -- tokens ----------------------------------------------------------------------------------------


@click.group()
def token() -> None:
    """Make, rotate and revoke tokens; also while the collector serves."""


@token.command("create")
@click.option("--role", type=click.Choice(["admin", "analyst", "ingest"]), required=True)
@click.option("--collection", "name", help="For one collection only.")
@click.option("--label", default="", help="What it is for.")
@_store
def token_create(role: str, name: str | None, label: str, address: str) -> None:
    """A new token, printed once; only its hash is stored."""
    from ..collector import admin

    with _opened(address, make=True) as store:
        click.echo(admin.add_token(store, role, name, label))


@token.command("list")
@_store
@as_json
def token_list(address: str, machine: bool) -> None:
    """All tokens, without their secrets."""
    with _opened(address) as store:
        names = {one.id: one.name for one in store.control.collections.values()}
        rows = [
            (
                t.id,
                t.role,
                names.get(t.collection or -1, ""),
                t.label,
                "revoked" if t.revoked else "works",
            )
            for t in store.control.tokens.values()
        ]
    headings = ["id", "role", "collection", "label", "state"]
    if machine:
        print_json([dict(zip(headings, row, strict=True)) for row in rows])
    else:
        print_table(headings, rows)


def _works(revoked: bool) -> str:
    return "revoked" if revoked else "works"


@token.command("rotate")
@click.argument("name", metavar="ID")
@_store
def token_rotate(name: str, address: str) -> None:
    """A new secret for the same rights; the old one stops working at once."""
    from ..collector import admin

    with _opened(address) as store:
        click.echo(admin.rotate_token(store, _token_id(name)))


@token.command("revoke")
@click.argument("name", metavar="ID")
@_store
def token_revoke(name: str, address: str) -> None:
    """A token stops working at once."""
    from ..collector import admin

    with _opened(address) as store:
        admin.revoke_token(store, _token_id(name))
        click.echo("revoked")


def _token_id(text: str) -> str:
    """A token's id, also out of a whole token."""
    from ..collector.tokens import read

    found = read(text)
    return found[0] if found else text


# -- care ------------------------------------------------------------------------------------------


@click.command()
@_store
@_segments
@as_json
def verify(address: str, segments: Path | None, machine: bool) -> int:
    """Recount everything from the segments; the counts must match exactly. Also while serving."""
    from dataclasses import asdict

    from ..collector.verify import verify as recount

    with _opened(address) as store:
        found = recount(store, _segments_of(address, segments))
    if machine:
        print_json([asdict(verdict) for verdict in found])
    for verdict in found:
        if not machine:
            epochs = f"{verdict.open_epochs} open, {verdict.sealed_epochs} sealed epochs"
            state = "; ".join(verdict.findings) or "counts match"
            if verdict.expired_epochs:
                epochs += f", {verdict.expired_epochs} expired and not checked"
            name = f"{verdict.collection} round {verdict.round}"
            click.echo(f"{name}: {verdict.reports} reports in {epochs}: {state}")
    return 1 if any(verdict.findings for verdict in found) else 0


def _file_of(address: str) -> Path:
    if "://" in address and not address.startswith("sqlite://"):
        raise KeyveilError("this is for SQLite stores: back PostgreSQL up with pg_dump")
    return Path(address.removeprefix("sqlite://"))


@click.command()
@click.argument("target", metavar="FOLDER", type=click.Path(path_type=Path))
@_store
@_segments
def backup(target: Path, address: str, segments: Path | None) -> None:
    """Copy the store and its segments as of one moment, also while it is served."""
    _need()
    from ..collector.backup import backup as copy

    facts = copy(_file_of(address), _segments_of(address, segments), target)
    click.echo(f"{target}: the store and {facts['files']} files of segments")


@click.command()
@click.argument("source", metavar="FOLDER", type=click.Path(path_type=Path))
@_store
@_segments
def restore(source: Path, address: str, segments: Path | None) -> None:
    """Put a backup where a store shall be; never over one that is there."""
    _need()
    from ..collector.backup import restore as bring_back

    bring_back(source, _file_of(address), _segments_of(address, segments))
    click.echo(f"{address}: restored; check it with 'keyveil verify'")


@click.command()
@_store
def migrate(address: str) -> None:
    """Bring a store's tables up to this version; nothing may serve it meanwhile."""
    _need()
    from ..collector.store import store_at

    store = store_at(address)
    try:
        number = store.migrate_alone()
        click.echo(f"{number} migrations ran" if number else "nothing to do")
    finally:
        store.close()
