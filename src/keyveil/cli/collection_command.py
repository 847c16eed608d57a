"""``keyveil collection``: make and run collections."""

from __future__ import annotations

import time
from dataclasses import asdict
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..foundation.errors import PlanError
from ..foundation.exact import rounded_up
from .arguments import Given, confirm, level_option, plan_argument, read_plan, yes_option
from .output import as_json, counted, duration, print_json, print_rows, print_table
from .store_location import (
    certificates_option,
    opened,
    refuse_both,
    refuse_without,
    segments_of,
    segments_option,
    store_option,
    with_store,
)

if TYPE_CHECKING:
    from ..plan.plan import Plan
    from ..service.collector.store import Store


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
@plan_argument
@store_option
@click.option("--people", type=int, help="Largest number of reports in a round.")
@click.option("--opens", help="A date in UTC.")
@click.option("--closes", help="A date in UTC.")
@click.option(
    "--epoch",
    type=int,
    help="Seconds of an epoch; a day by default. Devices know 3600, 21600, 43200, 86400, 604800.",
)
@click.option("--grace", type=int, help="Seconds for which an epoch takes late reports; a day.")
@click.option("--early", type=int, help="Seconds before an epoch from which it takes reports; an hour.")
@click.option("--token", is_flag=True, help="Take reports with an ingest token only.")
@click.option("--origin", "origins", multiple=True, help="Pages that may send, like https://a.org.")
@click.option("--rate", type=int, help="Largest number of reports in a second.")
@click.option("--keep", type=int, help="Days for which sealed segments are kept.")
@click.option("--replaces", help="The collection that this is a new version of.")
@click.option("--paused", is_flag=True, help="Make it, but take no reports yet.")
def collection_create(name: str, plan_path: str, address: str, **given: Any) -> None:
    """A new collection of the plan in a file."""
    from ..service.client.client_core import EPOCHS
    from ..service.collector.engine import admin
    from ..service.collector.engine.plan_difference import compare_plans
    from ..service.collector.store.collection import is_origin

    document = read_plan(plan_path)
    state = "paused" if given.pop("paused") else "open"
    given["opens"], given["closes"] = _date(given["opens"]), _date(given["closes"])
    given["origins"] = list(given["origins"])
    for origin in given["origins"]:
        if not is_origin(origin):
            raise PlanError(
                f"--origin {origin}: an origin looks like https://survey.example, or * for all"
            )
    terms = {key: value for key, value in given.items() if value is not None}
    with opened(address, make=True) as store:
        collection = admin.create(store, name, document, terms, _now(store), state)
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
            old = _first_plan(store, collection.terms.replaces)
            _print_comparison(compare_plans(old, store.book(collection.round).plan))


@collection.command("list")
@with_store
@as_json
def collection_list(store: Store, machine: bool) -> None:
    """All collections."""
    rows = []
    with store.reading() as session:
        for collection in store.control.collections.values():
            latest = collection.round
            reports = store.reports(session, latest)
            state = collection.state_at(time.time(), collection.is_full(reports))
            plan = latest.plan if machine else latest.plan[:12]
            rows.append((collection.name, state, latest.number, reports, plan))
    print_rows(["name", "state", "round", "reports", "plan"], rows, machine)


@collection.command("show")
@click.argument("name")
@with_store
def collection_show(store: Store, name: str) -> None:
    """Everything about one collection, as JSON."""
    from ..service.collector.engine.service import status_of

    print_json(status_of(store, store.control.named(name), time.time()))


def _now(store: Store) -> float:
    """The time that decides: the database's, if the store is one."""
    from ..service.collector.process.clock import FleetClock

    clock = FleetClock()
    store.hear(clock)
    return clock.now()


@collection.command("reopen")
@click.argument("name")
@click.argument("number", metavar="EPOCH")
@store_option
@segments_option
def collection_reopen(name: str, number: str, address: str, segments: Path | None) -> None:
    """Take reports of an EPOCH that was closed in error, and of those after it.

    This works until its ids are gone: an hour, unless 'serve --reopen-seconds' says otherwise.
    """
    from ..service.collector.engine import admin

    if not (number.isascii() and number.isdigit() and len(number) <= 10):
        raise PlanError(
            f"an epoch is a number, not {number!r}: the log line 'epoch_closed' and "
            f"'keyveil collection show {name}' have it"
        )
    epoch = int(number)
    with opened(address) as store:
        store.segments_folder = segments_of(address, segments)
        admin.reopen(store, name, epoch, _now(store))
        click.echo(f"{name}: epoch {epoch} takes reports again")


def _state_command(verb: str, state: str, words: str) -> None:
    """A command that sets the state of a collection."""

    @collection.command(verb, help=words)
    @click.argument("name")
    @with_store
    def set_state(store: Store, name: str) -> None:
        from ..service.collector.engine import admin

        click.echo(f"{name}: {admin.set_state(store, name, state).state}")


_state_command("open", "open", "Take reports.")
_state_command("pause", "paused", "Take none for now; devices send again later.")


@collection.command("close")
@click.argument("name")
@yes_option
@with_store
def collection_close(store: Store, name: str, yes: bool) -> None:
    """Take no more, for good; the answers stay."""
    from ..service.collector.engine import admin

    if store.control.named(name).state != "closed":
        confirm(f"close {name} for good?", yes)
    click.echo(f"{name}: {admin.set_state(store, name, 'closed').state}")


@collection.command("change")
@click.argument("name")
@click.argument("given", metavar="TERM=VALUE...", nargs=-1, required=True)
@with_store
def collection_change(store: Store, name: str, given: tuple[str, ...]) -> None:
    """Change terms that may change: people, opens, closes, token, origins, rate, keep.

    Like people=5000 closes=2030-01-31 origins=https://a.org,https://b.org token=true; or rate=none for
    no limit. The plan, epoch, grace and early stand for good.
    """
    from ..service.collector.engine import admin

    terms = dict(_term(text) for text in given)
    document = admin.set_terms(store, name, terms).terms.document()
    click.echo(f"{name}: " + ", ".join(f"{term} {_said(term, document[term])}" for term in terms))


def _said(term: str, value: Any) -> str:
    """The value of a term in words."""
    if value is None:
        return {"opens": "at once", "closes": "never", "keep": "for ever"}.get(term, "no limit")
    if term in ("opens", "closes"):
        return datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%d %H:%M UTC")
    if isinstance(value, list):
        return ", ".join(value) or "none"
    return str(value).lower()


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
@click.option("--empty", is_flag=True, help="Go on although the round has no reports.")
@with_store
def collection_next(store: Store, name: str, empty: bool) -> None:
    """Close the round, publish what it learned as the next plan, open that."""
    from ..service.collector.engine import admin

    latest = admin.next_round(store, name, empty).round
    click.echo(f"{name}: round {latest.number}, plan {latest.plan[:12]}")


@collection.command("delete")
@click.argument("name")
@store_option
@segments_option
@yes_option
def collection_delete(name: str, address: str, segments: Path | None, yes: bool) -> None:
    """Remove a closed collection and all that it collected."""
    from ..service.collector.engine import admin
    from ..service.collector.store.segments import folder_of, remove

    with opened(address) as store:
        admin.check_deletable(store, name)
        confirm(f"remove {name} and all its reports?", yes)
        store.segments_folder = segments_of(address, segments)
        gone = admin.delete(store, name)
        remove(folder_of(store.segments_folder, gone))
        click.echo(f"{name}: deleted")


@collection.command("export")
@click.argument("name")
@click.argument("target", metavar="FOLDER", type=click.Path(path_type=Path))
@store_option
@segments_option
@as_json
def collection_export(
    name: str, target: Path, address: str, segments: Path | None, machine: bool
) -> None:
    """Send sealed epochs to a FOLDER from which 'keyveil tally' and Spark read them; also while serving.

    Epochs that are there are not sent again, so the command may run every hour. Each round has a folder.
    """
    from ..service.collector.operations.export import export
    from ..service.collector.process.settings import Settings

    with opened(address) as store:
        sent = export(store, segments_of(address, segments), name, target)
        terms = store.control.named(name).terms
    if machine:
        print_json(asdict(sent))
    elif not sent.epochs + sent.before + sent.expired:
        why = "it has no reports"
        if sent.waiting:
            after = duration(terms.grace + Settings.reopen_seconds)
            open_ = "1 epoch is" if sent.waiting == 1 else f"{sent.waiting} epochs are"
            why = f"{open_} open; an epoch is sealed about {after} after its end"
        click.echo(f"{name}: nothing is sealed yet: {why}")
    else:
        click.echo(
            f"{target}: {counted(sent.epochs, 'new epoch')} with {counted(sent.reports, 'report')}, "
            f"{sent.before:,} there before, {sent.expired:,} no longer kept"
        )


@collection.command("answers")
@click.argument("name")
@click.argument("queries", metavar="[QUERY]...", nargs=-1)
@store_option
@click.option("--url", help="A running collector, like http://127.0.0.1:8750, in place of --store.")
@click.option("--token", envvar="KEYVEIL_TOKEN", help="An analyst's token, for --url.")
@certificates_option
@click.option("--round", "number", type=click.IntRange(1), help="A round; the latest without.")
@click.option("--estimator", help="By name, as for 'keyveil estimate' or 'keyveil query'.")
@level_option
@as_json
def collection_answers(name: str, **options: Any) -> None:
    """What a collection has learned: every key, or the answers to queries.

    A QUERY looks like 'mean(Pepsi | Fries)'. Answers are those of 'keyveil estimate' and 'keyveil query'
    on the collection's tally; they are computed on this machine.
    """
    from ..estimate.together.conditional import ESTIMATORS
    from .collection_answers import read_over_http, read_store
    from .estimate_command import show_estimates
    from .query_command import read_queries, show_answers

    given = Given(**options, after=(), keys=(), plot=None)
    refuse_both("--url", given.url is not None, {"address": "--store"})
    refuse_without(
        "--url", given.url is not None, {"token": "--token", "certificates": "--certificates"}
    )
    if given.url is None:
        number, tally = read_store(given.address, name, given.number)
    else:
        number, tally = read_over_http(given.url, name, given.number, given.token, given.certificates)
    if not tally.reports:
        raise PlanError(f"{name!r} has no reports yet in round {number}")
    title = f"{name}: round {number}, {counted(tally.reports, 'report')}"
    if given.queries:
        given.estimator = given.estimator or ESTIMATORS[0]
        show_answers(tally, read_queries(tally.plan, given.queries), given, title)
    else:
        show_estimates(tally, given, "PILOT TALLY", title)


@collection.command("compare")
@click.argument("old")
@click.argument("new")
@with_store
@as_json
def collection_compare(store: Store, old: str, new: str, machine: bool) -> None:
    """What a new version changes, and which changes are unsafe."""
    from ..service.collector.engine.plan_difference import compare_plans

    comparison = compare_plans(_first_plan(store, old), _first_plan(store, new))
    if machine:
        print_json(comparison)
    else:
        _print_comparison(comparison)


def _first_plan(store: Store, name: str) -> Plan:
    """The plan of a collection's first round."""
    return store.book(store.control.named(name).rounds[0]).plan


def _print_comparison(comparison: dict[str, Any]) -> None:
    rows = [
        [d["what"], _compared(d["what"], d["old"]), _compared(d["what"], d["new"]), d["unsafe"]]
        for d in comparison["differences"]
    ]
    if rows:
        print_table(["difference", "old", "new", "unsafe because"], rows)
    who = "whichever a person answers, it" if comparison["same_plan"] else "a person who answers both"
    click.echo(f"{who} tells epsilon {rounded_up(Decimal(comparison['epsilon_of_both']))} in all")


def _compared(what: str, value: Any) -> str:
    """One side of a difference for people."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {value[name]}" for name in sorted(value)) or "none"
    return rounded_up(Decimal(value)) if what.endswith("epsilon") else str(value)
