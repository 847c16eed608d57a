"""``keyveil ledger``: what this device has told, to whom, at what cost, and what still waits."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..foundation.errors import BudgetError
from ..foundation.exact import rounded_down, rounded_up, text
from .output import as_json, counted, print_json, print_table

if TYPE_CHECKING:
    from ..service.client.ledger import Entry, Ledger


@click.command()
@click.option(
    "--state",
    type=click.Path(path_type=Path),
    help="The folder (or the ledger's file) that the client was given; by default the usual one.",
)
@click.option(
    "--apart", type=click.Path(path_type=Path), help="The device's secret, where it lies elsewhere."
)
@as_json
def ledger(state: Path | None, apart: Path | None, machine: bool) -> None:
    """What this device has answered, what that cost, the cap, and which reports wait."""
    book = _opened(state, apart)
    entries = book.answers()
    total = {"cap": text(book.cap), "spent": text(book.spent), "left": text(book.left)}
    if machine:
        places = list(dict.fromkeys(entry.collection for entry in entries))
        print_json(
            {
                **total,
                "collections": {place: text(book.spent_in(place)) for place in places},
                "answers": [_document(entry) for entry in entries],
            }
        )
        return
    click.echo(f"spent  epsilon {rounded_up(book.spent)} in all")
    click.echo(f"cap    epsilon {total['cap']}; {rounded_down(book.left)} is left")
    if entries:
        print_table(["collection", "round", "mechanism", "epsilon", "state"], _rows(book, entries))
    for entry in book.waiting():
        click.echo(f"waits  {_place(entry)}: {_waits(entry)}")


def _opened(state: Path | None, apart: Path | None) -> Ledger:
    """The ledger of a folder; none is created."""
    from ..service.client.http_client import default_state
    from ..service.client.ledger import LedgerView

    if apart is not None and apart.is_dir():
        raise BudgetError(f"{apart} is a folder; name the file of the device's secret")
    place = default_state() if state is None else state
    path = place if place.is_file() else place / "ledger.json"
    if not path.exists() and not (apart or path.with_name("device.json")).exists():
        raise BudgetError(f"there is no ledger in {place}: an app makes one when it first answers")
    return LedgerView(path, secret_file=apart)


def _rows(book: Ledger, entries: list[Entry]) -> list[list[str]]:
    """One row for each answer, and a sum for a collection with several rounds."""
    rows = []
    for place in dict.fromkeys(entry.collection for entry in entries):
        mine = [entry for entry in entries if entry.collection == place]
        rows += [
            [
                _place(e),
                str(e.round),
                e.mechanism,
                rounded_up(e.epsilon),
                f"{e.state} {e.reason}".strip(),
            ]
            for e in mine
        ]
        if len(mine) > 1 and place:
            rows.append([_place(mine[0]), "all", "", rounded_up(book.spent_in(place)), ""])
    return rows


def _state(entry: Entry) -> str:
    return f"{entry.state} {entry.reason}".strip()


def _place(entry: Entry) -> str:
    return entry.collection.replace("/v1/collections/", " ") or "no collection"


def _waits(entry: Entry) -> str:
    tried = f"tried {counted(entry.tries, 'time')}"
    if entry.state == "refused":
        return f"{tried}, refused ({entry.reason}): sent again only by flush(refused=True)"
    if entry.after <= time.time():
        return f"{tried}, may be sent now"
    at = datetime.fromtimestamp(entry.after, UTC).isoformat(sep=" ", timespec="minutes")
    return f"{tried}, not sent again before {at.removesuffix('+00:00')} UTC"


def _document(entry: Entry) -> dict[str, Any]:
    """An entry as JSON, without its report."""
    facts = {k: v for k, v in entry.__dict__.items() if k != "report"}
    return {**facts, "epsilon": text(entry.epsilon), "id": entry.report.id if entry.report else None}
