"""``keyveil collection``: make and run collections."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from ..foundation.errors import PlanError
from .output import as_json, counted, print_json, print_table
from .store_location import opened, segments_of, segments_option, store_option


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
@store_option
@click.option("--people", type=int, help="Reports that a round takes at the most.")
@click.option("--opens", help="A date in UTC.")
@click.option("--closes", help="A date in UTC.")
@click.option(
    "--epoch",
    type=int,
    help="Seconds of an epoch; a day by default. Devices know 3600, 21600, 43200, 86400, 604800.",
)
@click.option("--grace", type=int, help="Seconds for which an epoch takes late reports; a day.")
@click.option("--early", type=int, help="Seconds before its beginning in which it takes any; an hour.")
@click.option("--token", is_flag=True, help="Take reports with an ingest token only.")
@click.option("--origin", "origins", multiple=True, help="Pages that may send, like https://a.org.")
@click.option("--rate", type=int, help="Reports a second at the most.")
@click.option("--keep", type=int, help="Days for which sealed segments are kept.")
@click.option("--replaces", help="The collection that this is a new version of.")
@click.option("--paused", is_flag=True, help="Make it, but take no reports yet.")
def collection_create(name: str, plan_path: str, address: str, **given: Any) -> None:
    """A new collection of the plan in a file."""
    from ..service.client.client_core import EPOCHS
    from ..service.collector.engine import admin
    from ..service.collector.engine.plan_difference import compare_plans

    try:
        document = Path(plan_path).read_bytes()
    except OSError as error:
        raise PlanError(f"cannot read the plan {plan_path}: {error.strerror}") from None
    state = "paused" if given.pop("paused") else "open"
    given["opens"], given["closes"] = _date(given["opens"]), _date(given["closes"])
    given["origins"] = list(given["origins"])
    terms = {key: value for key, value in given.items() if value is not None}
    with opened(address, make=True) as store:
        collection = admin.create(store, name, document, terms, time.time(), state)
        click.echo(f"{name}: {collection.state}, plan {collection.round.plan[:12]}")
        for warning in admin.warnings_of(store.control, collection):
            click.echo(f"warning: {warning}", err=True)
        if collection.terms.epoch not in EPOCHS:
            usual = ", ".join(map(str, EPOCHS))
            click.echo(
                f"devices answer in epochs of {usual} seconds; in this one only those that are started "
                f"with allow_epoch={collection.terms.epoch}",
                err=True,
            )
        if collection.terms.replaces is not None:
            old = store.book(store.control.named(collection.terms.replaces).rounds[0]).plan
            _print_comparison(compare_plans(old, store.book(collection.round).plan))


@collection.command("list")
@store_option
@as_json
def collection_list(address: str, machine: bool) -> None:
    """All collections."""
    with opened(address) as store:
        rows = []
        with store.reading() as session:
            for collection in store.control.collections.values():
                sql = "select coalesce(sum(reports), 0) from heads where round = ?"
                reports = int(session.rows(sql, (collection.round.id,))[0][0])
                rows.append(
                    (
                        collection.name,
                        collection.state_at(time.time()),
                        collection.round.number,
                        reports,
                        collection.round.plan,
                    )
                )
    headings = ["name", "state", "round", "reports", "plan"]
    if machine:
        print_json([dict(zip(headings, row, strict=True)) for row in rows])
    else:
        print_table(headings, [[*map(str, row[:4]), row[4][:12]] for row in rows])


@collection.command("show")
@click.argument("name")
@store_option
def collection_show(name: str, address: str) -> None:
    """Everything about one collection, as JSON."""
    from ..service.collector.engine.service import status_of

    with opened(address) as store:
        print_json(status_of(store, store.control.named(name), time.time()))


def _state(name: str, address: str, state: str) -> None:
    from ..service.collector.engine import admin

    with opened(address) as store:
        click.echo(f"{name}: {admin.set_state(store, name, state).state}")


@collection.command("open")
@click.argument("name")
@store_option
def collection_open(name: str, address: str) -> None:
    """Take reports."""
    _state(name, address, "open")


@collection.command("pause")
@click.argument("name")
@store_option
def collection_pause(name: str, address: str) -> None:
    """Take none for now; devices send again later."""
    _state(name, address, "paused")


@collection.command("close")
@click.argument("name")
@store_option
def collection_close(name: str, address: str) -> None:
    """Take no more, for good."""
    _state(name, address, "closed")


@collection.command("change")
@click.argument("name")
@click.argument("given", metavar="TERM=VALUE...", nargs=-1, required=True)
@store_option
def collection_change(name: str, given: tuple[str, ...], address: str) -> None:
    """Change terms that may change: people, opens, closes, token, origins, rate, keep.

    Like people=5000 closes=2030-01-31 origins=https://a.org,https://b.org token=true; or rate=none for
    no limit. The plan, epoch, grace and early stand for good.
    """
    from ..service.collector.engine import admin

    terms = dict(_term(text) for text in given)
    with opened(address) as store:
        document = admin.set_terms(store, name, terms).terms.document()
    click.echo(f"{name}: " + ", ".join(f"{term} {document[term]}" for term in terms))


def _term(text: str) -> tuple[str, Any]:
    """A term and its value, which the store checks."""
    term, _, value = text.partition("=")
    if not term or not value:
        raise PlanError("a term looks like people=5000, or people=none for no limit")
    if term == "origins":
        return term, [] if value == "none" else value.split(",")
    if value == "none":
        return term, None
    if term in ("opens", "closes"):
        return term, _date(value)
    if value in ("true", "false"):
        return term, value == "true"
    return term, int(value) if value.isascii() and value.isdigit() else value


@collection.command("next-round")
@click.argument("name")
@store_option
def collection_next(name: str, address: str) -> None:
    """Close the round, publish what it learned as the next plan, open that."""
    from ..service.collector.engine import admin

    with opened(address) as store:
        latest = admin.next_round(store, name).round
        click.echo(f"{name}: round {latest.number}, plan {latest.plan[:12]}")


@collection.command("delete")
@click.argument("name")
@store_option
@segments_option
@click.option("--yes", is_flag=True, help="Do not ask.")
def collection_delete(name: str, address: str, segments: Path | None, yes: bool) -> None:
    """Remove a closed collection and all that it collected."""
    from ..service.collector.engine import admin
    from ..service.collector.store.segments import folder_of, remove

    with opened(address) as store:
        store.control.named(name)
        if not yes:
            click.confirm(f"remove {name} and all its reports?", abort=True)
        store.segments_folder = segments_of(address, segments)
        gone = admin.delete(store, name)
        remove(folder_of(store.segments_folder, gone))
        click.echo(f"{name}: deleted")


@collection.command("answers")
@click.argument("name")
@click.argument("queries", metavar="[QUERY]...", nargs=-1)
@store_option
@click.option("--url", help="A running collector, like http://127.0.0.1:8750, in place of --store.")
@click.option("--token", envvar="KEYVEIL_TOKEN", help="An analyst's token, for --url.")
@click.option("--round", "number", type=click.IntRange(1), help="A round; the latest without.")
@click.option("--estimator", help="By name, as for 'keyveil estimate' or 'keyveil query'.")
@click.option("--level", default=0.95, help="Level of the intervals.")
@as_json
@click.pass_context
def collection_answers(
    context: click.Context,
    name: str,
    queries: tuple[str, ...],
    address: str,
    url: str | None,
    token: str | None,
    number: int | None,
    estimator: str | None,
    level: float,
    machine: bool,
) -> None:
    """What a collection has learned: every key, or the answers to queries.

    A QUERY looks like 'mean(Pepsi | Fries)'. Answers are those of 'keyveil estimate' and 'keyveil query'
    on the collection's tally; they are made here.
    """
    from .collection_answers import read_over_http, read_store
    from .estimate_command import estimate
    from .query_command import query

    answers = (
        read_store(address, name, number) if url is None else read_over_http(url, name, number, token)
    )
    if not answers.reports:
        raise PlanError(f"{name!r} has no reports yet in round {answers.round}")
    if not machine:
        click.echo(f"{name}: round {answers.round}, {counted(answers.reports, 'report')}")
    given: dict[str, Any] = {} if estimator is None else {"estimator": estimator}
    with answers.files() as (plan_path, tally_path):
        given |= {"plan_path": plan_path, "tally_path": tally_path, "level": level, "machine": machine}
        if queries:
            context.invoke(query, queries=queries, **given)
        else:
            context.invoke(estimate, **given)


@collection.command("compare")
@click.argument("old")
@click.argument("new")
@store_option
@as_json
def collection_compare(old: str, new: str, address: str, machine: bool) -> None:
    """What a new version changes, and which changes are unsafe."""
    from ..service.collector.engine.plan_difference import compare_plans

    with opened(address) as store:
        plans = [store.book(store.control.named(name).rounds[0]).plan for name in (old, new)]
        comparison = compare_plans(*plans)
    if machine:
        print_json(comparison)
    else:
        _print_comparison(comparison)


def _print_comparison(comparison: dict[str, Any]) -> None:
    rows = [[d["what"], str(d["old"]), str(d["new"]), d["unsafe"]] for d in comparison["differences"]]
    if rows:
        print_table(["difference", "old", "new", "unsafe because"], rows)
    who = "whichever a person answers, it" if comparison["same_plan"] else "a person who answers both"
    click.echo(f"{who} tells epsilon {comparison['epsilon_of_both']} in all")
