"""The option ``--engine`` of commands that work on many people or reports."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from ..foundation.errors import KeyveilError

if TYPE_CHECKING:
    from ..plan.engines import Engine


def engine_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--engine``, ``--processes`` and ``--master`` to a command."""
    for option in (
        click.option(
            "--master",
            metavar="URL",
            help="A Spark cluster, like spark://host:7077, or a server of Spark Connect, like "
            "sc://host:15002; by default as Spark is configured.",
        ),
        click.option(
            "--processes",
            type=click.IntRange(1),
            help="Processes of the local engine; all processors by default.",
        ),
        click.option(
            "--engine",
            type=click.Choice(["local", "spark"]),
            default="local",
            help="Where the work is done: on this machine, or on Apache Spark.",
        ),
    ):
        command = option(command)
    return command


def engine_of(name: str, processes: int | None, master: str | None) -> Engine:
    """The engine that the options name."""
    if name == "local":
        from ..plan.engines.local_pool import LocalPool

        if master is not None:
            raise KeyveilError("--master is for --engine spark")
        return LocalPool(processes)
    if processes is not None:
        raise KeyveilError("--processes is for --engine local; Spark has its own settings")
    from ..plan.engines.spark_engine import SparkEngine

    return SparkEngine(master=master, quiet=True)
