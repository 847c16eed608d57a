"""``keyveil token``: make, rotate and revoke tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .output import as_json, print_rows
from .store_location import opened, store_option, with_store

if TYPE_CHECKING:
    from ..service.collector.store import Store


@click.group()
def token() -> None:
    """Make, rotate and revoke tokens; also while the collector serves."""


@token.command("create")
@click.option("--role", type=click.Choice(["admin", "analyst", "ingest"]), required=True)
@click.option("--collection", "name", help="For one collection only.")
@click.option("--label", default="", show_default=False, help="What it is for.")
@store_option
def token_create(role: str, name: str | None, label: str, address: str) -> None:
    """A new token, printed once; only its hash is stored."""
    from ..service.collector.engine import admin

    with opened(address) as store:
        click.echo(admin.add_token(store, role, name, label))


@token.command("list")
@with_store
@as_json
def token_list(store: Store, machine: bool) -> None:
    """All tokens, without their secrets."""
    names = {collection.id: collection.name for collection in store.control.collections.values()}
    rows = [
        (t.id, t.role, names.get(t.collection or -1, ""), t.label, "revoked" if t.revoked else "works")
        for t in store.control.tokens.values()
    ]
    print_rows(["id", "role", "collection", "label", "state"], rows, machine)


@token.command("rotate")
@click.argument("name", metavar="ID")
@with_store
def token_rotate(store: Store, name: str) -> None:
    """A new secret for the same rights; the old one stops working at once."""
    from ..service.collector.engine import admin

    click.echo(admin.rotate_token(store, _token_id(name)))


@token.command("revoke")
@click.argument("name", metavar="ID")
@with_store
def token_revoke(store: Store, name: str) -> None:
    """A token stops working at once."""
    from ..service.collector.engine import admin

    admin.revoke_token(store, _token_id(name))
    click.echo("revoked")


def _token_id(text: str) -> str:
    """The id of a token, from the id or from the whole token."""
    from ..service.collector.store.tokens import read

    token = read(text)
    return token[0] if token else text
