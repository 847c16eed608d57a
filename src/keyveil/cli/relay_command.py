"""``keyveil relay``: a crowd between devices and a collector."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from ..foundation.errors import KeyveilError
from .arguments import Given
from .output import whole_number
from .store_location import certificates_option, need


@click.command()
@click.option("--to", required=True, metavar="URL", help="The collector; https unless on this machine.")
@click.option(
    "--wait", required=True, type=int, metavar="K", help="Reports that leave together at the least."
)
@click.option("--listen", default="127.0.0.1:8751", metavar="HOST:PORT", help="Port 0: any free.")
@click.option("--collection", "names", multiple=True, help="Relay this one only; may be repeated.")
@click.option("--token", envvar="KEYVEIL_RELAY_TOKEN", help="An ingest token of the relay's own.")
@certificates_option
@click.option("--delta", default=1e-9, help="Of the shuffle-model epsilon.")
@whole_number("--hold", "hold_bytes", 1, 256 << 20, "Bytes of held reports.")
@click.option(
    "--memory",
    type=click.Path(dir_okay=False, path_type=Path),
    default="keyveil-relay.sqlite",
    envvar="KEYVEIL_RELAY_MEMORY",
    help="The file of what has left; keep it over restarts, or K does not hold.",
)
@click.option(
    "--metrics-token",
    "watcher",
    envvar="KEYVEIL_METRICS_TOKEN",
    help="For /metrics; without one they are for this machine alone.",
)
def relay(to: str, wait: int, listen: str, watcher: str | None, **options: Any) -> int:
    """Collect reports, wait for K, shuffle, forward in bulk.

    Devices use the relay's address as if it were the collector's. A report is acknowledged (200) when
    the collector has it, and until then said to be held (202). Pages of origins that the collection
    allows may send, too. A relay has a memory of its own: two relays never share one.
    """
    need("a relay")
    from ..service.collector.http.server import address_of, listening
    from ..service.collector.relay.relay import Relay, checked_wait
    from ..service.collector.relay.relay_app import serve as run
    from ..service.collector.relay.upstream import states

    given = Given(**options)
    if not 0 < given.delta < 1:
        raise KeyveilError("delta lies between 0 and 1, and well below one by the number of people")
    host, _, port = listen.rpartition(":")
    if not host or not port.isascii() or not port.isdigit():
        raise KeyveilError("--listen is an address and a port, like 127.0.0.1:8751")
    for line in states(to, given.names, checked_wait(wait), given.delta, given.certificates):
        click.echo(line)
    with listening(host, int(port)) as socket:
        app = Relay(to, wait, **options)
        click.echo(
            f"relaying to {app.upstream.to} at {address_of(socket)}: {wait:,} reports at a time or "
            f"more; what has left is remembered in {given.memory}"
        )
        sys.stdout.flush()
        return run(app, host, socket, watcher)
