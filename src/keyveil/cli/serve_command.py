"""``keyveil serve``, and the care of its store: checks, backups, migrations."""

from __future__ import annotations

import sys
from contextlib import closing
from math import isfinite
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from ..foundation.errors import KeyveilError
from .output import as_json, print_json, whole_number
from .store_location import (
    need,
    opened,
    plainly,
    refuse_both,
    segments_of,
    segments_option,
    store_option,
)

if TYPE_CHECKING:
    from ..service.collector.store import Store


@click.command()
@store_option
@segments_option
@click.option("--host", default="127.0.0.1", help="Another needs an admin token.")
@click.option("--port", default=8750, help="0 takes any that is free.")
@whole_number("--max-body", "body_bytes", 1024, 4 << 20, "Bytes of one request.")
@whole_number("--max-reports", "reports", 1, 10_000, "Reports of one request.", most=10_000)
@whole_number("--max-waiting", "waiting_bytes", 1024, 64 << 20, "Bytes that wait at once.")
@whole_number("--max-connections", "connections", 1, 4096, "Connections at once.")
@whole_number(
    "--max-per-address",
    "address_connections",
    1,
    1024,
    "Connections at once from one address; of a proxy, all come from its own.",
    envvar="KEYVEIL_MAX_PER_ADDRESS",
)
@click.option(
    "--reopen-seconds",
    type=click.FloatRange(0, 86_400 * 30),
    default=3600.0,
    help="For which a closed epoch keeps its ids, so that it can be reopened.",
)
@click.option(
    "--request-seconds", type=click.FloatRange(0.1, 3600), default=20.0, help="For a request to arrive."
)
def serve(address: str, segments: Path | None, host: str, port: int, **limits: Any) -> int:
    """Collect reports: one process, nothing else to start."""
    need()
    from ..service.collector.http.app import check_address, check_clock, check_new
    from ..service.collector.http.app import serve as run
    from ..service.collector.http.server import address_of, listening
    from ..service.collector.process.clock import FleetClock
    from ..service.collector.process.settings import Settings
    from ..service.collector.store import store_at

    if not isfinite(limits["request_seconds"]):
        raise KeyveilError("--request-seconds is a number from 0.1 to 3600")
    if not isfinite(limits["reopen_seconds"]):
        raise KeyveilError("--reopen-seconds is a number from 0 to 2592000")
    settings = Settings(**limits)
    if settings.waiting_bytes < settings.body_bytes:
        raise KeyveilError("--max-waiting is at least --max-body, or no request could ever pass")
    store, folder, clock = store_at(address), segments_of(address, segments), FleetClock()
    store.settings = settings
    check_new(store, host)
    try:
        with listening(host, port) as socket:  # before a new file is made
            with plainly():
                store.open()
                check_clock(store, clock, settings)
            check_address(store, host)
            click.echo(f"collecting at {address_of(socket)} (its dashboard: {address_of(socket)}/)")
            _warn_of_keys(store, folder)
            _say_what_is_missing(store, folder if segments is None else None)
            sys.stdout.flush()
            return run(store, folder, host, socket, settings, clock)
    finally:
        store.close()


def _say_what_is_missing(store: Store, default_folder: Path | None) -> None:
    """What an operator should still do: collections, tokens, a folder that several collectors share."""
    from ..service.collector.http.app import admin_token_command

    if not store.control.collections:
        click.echo(
            "There is no collection yet. Create one, also while this runs: "
            f"keyveil collection create NAME PLAN --store {quote(store.place)}"
        )
    if not store.control.tokens:
        click.echo(
            "No token exists, so only this machine can connect, with full access. Create an "
            f"admin token before you put a proxy in front: {admin_token_command(store)}"
        )
    if default_folder is not None and store.kind == "postgresql":
        click.echo(
            f"sealed epochs go to {default_folder.absolute()}: all collectors of one database must "
            "share that folder; say another with --segments or KEYVEIL_SEGMENTS"
        )


def _warn_of_keys(store: Store, segments: Path) -> None:
    """Warn on the error stream if the keys of open epochs are not those that the store names."""
    from ..service.collector.operations.verify import key_warnings

    with plainly():
        warnings = key_warnings(store, segments)
    for warning in warnings:
        click.echo(f"warning: {warning}", err=True)


# -- care ------------------------------------------------------------------------------------------


@click.command()
@click.argument("backup_folder", metavar="[BACKUP]", required=False, type=click.Path(path_type=Path))
@store_option
@segments_option
@as_json
def verify(backup_folder: Path | None, address: str, segments: Path | None, machine: bool) -> int:
    """Recount everything from the segments; the counts must match exactly. Also while serving.

    With the folder of a backup, check that backup instead of a store: it is restored to a temporary
    folder, recounted there and removed again.
    """
    from dataclasses import asdict

    from ..service.collector.operations.verify import verify as recount

    both = {"address": "--store", "segments": "--segments"}
    refuse_both(f"the backup {backup_folder}", backup_folder is not None, both)
    with TemporaryDirectory(prefix="keyveil-verify-") as scratch:
        if backup_folder is not None:
            need()
            from ..service.collector.operations.restore import restore as bring_back

            address, segments = str(Path(scratch) / "store.sqlite"), Path(scratch) / "segments"
            with plainly():
                bring_back(backup_folder, address, segments)
        with opened(address) as store:
            result = recount(store, segments_of(address, segments))
            _warn_of_keys(store, segments_of(address, segments))
    if machine:
        print_json([asdict(verdict) for verdict in result])
    for verdict in result:
        if not machine:
            epochs = f"{verdict.open_epochs} open, {verdict.sealed_epochs} sealed epochs"
            state = "; ".join(verdict.findings) or "counts match"
            if verdict.expired_epochs:
                epochs += f", {verdict.expired_epochs} expired and not checked"
            name = f"{verdict.collection} round {verdict.round}"
            click.echo(f"{name}: {verdict.reports} reports in {epochs}: {state}")
    return 1 if any(verdict.findings for verdict in result) else 0


@click.command()
@click.argument("target", metavar="FOLDER", type=click.Path(path_type=Path))
@store_option
@segments_option
def backup(target: Path, address: str, segments: Path | None) -> None:
    """Copy the store and its segments as of one moment, also while it is served."""
    need()
    from ..service.collector.operations.backup import backup as copy

    with plainly():
        facts = copy(address, segments_of(address, segments), target)
    click.echo(f"{target}: the store and {facts['files']} files of segments")


@click.command()
@click.argument("source", metavar="FOLDER", type=click.Path(path_type=Path))
@store_option
@segments_option
def restore(source: Path, address: str, segments: Path | None) -> None:
    """Restore a backup to a new store; an existing store is never replaced.

    A backup of either kind of store can be restored as either.
    """
    need()
    from ..service.collector.operations.restore import restore as bring_back
    from ..service.collector.store import store_at

    with plainly():
        bring_back(source, address, segments_of(address, segments))
    place = store_at(address).place
    option = "" if segments is None else f" --segments {quote(str(segments))}"
    click.echo(f"{place}: restored; check it with 'keyveil verify --store {quote(place)}{option}'")


@click.command()
@store_option
def migrate(address: str) -> None:
    """Bring a store's tables up to this version; nothing may serve it meanwhile."""
    need()
    from ..service.collector.store import store_at

    with closing(store_at(address)) as store, plainly():
        number = store.migrate_alone()
    click.echo(f"{number} migrations ran" if number else "nothing to do: the store is up to date")
