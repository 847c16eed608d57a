"""``keyveil demo``: a collector with a dashboard, a page that asks, and visitors who arrive."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import click

from ..foundation.files import write_whole
from ..people.example_orders import DISHES, orders
from .output import whole_number
from .output_files import OUTPUT, writes_files
from .store_location import need, plainly

HOST = "127.0.0.1"
EPSILON = 2


@click.command()
@click.option("--port", default=0, help="0 takes any that is free.")
@click.option(
    "--visitors", default=20.0, type=click.FloatRange(0.1, 1000), help="Simulated visitors a second."
)
@click.option(
    "--table",
    type=OUTPUT,
    help="Write a made-up table of orders to this CSV file instead, to try other commands on, and end.",
)
@click.option("--keys", type=OUTPUT, help="With --table: write the dishes, one per line, to this file.")
@whole_number("--guests", "guests", 1, 60_000, "With --table: number of guests.", most=10**7)
@writes_files
def demo(port: int, visitors: float, table: str | None, keys: str | None, guests: int) -> int:
    """Try it out: a menu, a dashboard, and simulated visitors, until Ctrl-C.

    Everything is in a temporary folder that is removed at the end, and only this machine can connect.
    """
    if table is not None:
        return _write_orders(Path(table), guests, keys)
    if keys is not None:
        raise click.UsageError("--keys belongs to --table")
    need("the demo")
    from ..people.schema import Schema
    from ..plan.plan import Plan
    from ..service.collector.engine import admin
    from ..service.collector.http.app import serve
    from ..service.collector.http.dashboard_route import demo_routes
    from ..service.collector.http.server import address_of, listening
    from ..service.collector.store import store_at
    from .demo_people import FOODS
    from .demo_visitors import Visitors

    plan = Plan.of(Schema.of(list(FOODS), 1, 5), "pairs", EPSILON)
    with tempfile.TemporaryDirectory(prefix="keyveil-demo-") as name, listening(HOST, port) as socket:
        folder, url = Path(name), address_of(socket)
        store = store_at(str(folder / "collector.sqlite"))
        arriving = Visitors(url, plan, visitors)
        try:
            with plainly():
                store.open()
            admin.create(store, "menu", plan.dumps(), {"origins": [url]}, time.time())
            click.echo(f"dashboard:            {url}/#/c/menu/answers")
            click.echo(f"a page that asks you: {url}/demo")
            click.echo(
                f"{visitors:g} simulated visitors a second arrive. Ctrl-C ends it; nothing stays."
            )
            sys.stdout.flush()
            arriving.start()
            with (folder / "log").open("w") as log:
                return serve(store, folder / "segments", HOST, socket, log=log, pages=demo_routes)
        except KeyboardInterrupt:
            return 0
        finally:
            arriving.stop()
            store.close()


def _write_orders(path: Path, guests: int, keys: str | None) -> int:
    """Write the made-up orders: a row for each dish, an empty one for a guest who orders nothing."""
    table = orders(guests)
    rows = ["person,key,value"]
    rows += map("{},{},{}".format, table["guest"], table["dish"], table["rating"])
    rows += (f"{guest},," for guest in sorted(set(range(guests)) - set(table["guest"].tolist())))
    write_whole(path, ("\n".join(rows) + "\n").encode())
    if keys is not None:
        write_whole(Path(keys), ("\n".join(DISHES) + "\n").encode())
    click.echo(f"{path}: {len(table['guest']):,} orders of {guests:,} guests: {', '.join(DISHES)}")
    return 0
