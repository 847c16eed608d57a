"""The store of a command: its address, and how it is opened while a collector uses it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from ..foundation.errors import KeyveilError, installation

if TYPE_CHECKING:
    from ..service.collector.store import Store

STORE = b"SQLite format 3\0"
"""The first bytes of a store's file."""


def _checked(context: click.Context, option: click.Parameter, address: str) -> str:
    """Refuse a file that is not a store; SQLite would treat a very short one as empty."""
    place = address.removeprefix("sqlite://")
    if "://" in place:
        return address
    path = Path(place)
    if not path.name:
        raise KeyveilError("--store needs a file's name, or postgresql://...")
    if path.is_file():
        with path.open("rb") as file:
            start = file.read(len(STORE))
        if start and start != STORE:
            raise KeyveilError(f"{path} is not a store of 'keyveil serve'; name another file")
    return address


store_option = click.option(
    "--store",
    "address",
    callback=_checked,
    default="keyveil.sqlite",
    envvar="KEYVEIL_STORE",
    help="A SQLite file, or postgresql://... for several collectors at once.",
)
segments_option = click.option(
    "--segments",
    type=click.Path(path_type=Path),
    envvar="KEYVEIL_SEGMENTS",
    help="Where sealed epochs go; by default beside the SQLite file, or keyveil.segments here.",
)
certificates_option = click.option(
    "--certificates",
    type=click.Path(dir_okay=False, path_type=Path),
    envvar="KEYVEIL_CERTIFICATES",
    help="A PEM file of the authorities to trust, if the collector's is one of your own.",
)


def refuse_both(first: str, is_given: bool, others: Mapping[str, str]) -> None:
    """Refuse options, by the names of their parameters, that are typed next to ``first``."""
    typed = _typed(others) if is_given else []
    if typed:
        raise KeyveilError(f"{first} and {typed[0]} exclude each other: give one of them")


def refuse_without(first: str, is_given: bool, others: Mapping[str, str]) -> None:
    """Refuse options, by the names of their parameters, that are typed without ``first``."""
    typed = [] if is_given else _typed(others)
    if typed:
        raise KeyveilError(f"{typed[0]} is for {first}: give both or neither")


def _typed(options: Mapping[str, str]) -> list[str]:
    """Those options that stand on the command line, not in the environment."""
    source = click.get_current_context().get_parameter_source
    return [option for name, option in options.items() if source(name) is ParameterSource.COMMANDLINE]


def segments_of(address: str, segments: Path | None) -> Path:
    """The folder of a store's sealed epochs."""
    if segments is not None:
        return segments
    if "://" in address and not address.startswith("sqlite://"):
        return Path("keyveil.segments")
    path = Path(address.removeprefix("sqlite://"))
    return path.with_name(path.name + ".segments")


def need(what: str = "the collector") -> None:
    """Say which extra the collector or a relay needs if it is not installed."""
    names = ("apsw", "httpx", "msgspec", "psycopg", "starlette", "uvicorn")
    if any(find_spec(name) is None for name in names):
        raise KeyveilError(f"{what} needs: {installation('collector')}")


@contextmanager
def plainly() -> Iterator[None]:
    """A database error in one line, without the values of the statement."""
    from ..service.collector.store import StoreBroken, StoreError, StoreUnready

    try:
        yield
    except (StoreUnready, StoreBroken) as error:
        raise StoreError(f"the store cannot be used now: {error}") from None
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in ("psycopg", "apsw"):
            raise
        raise StoreError(f"the database refuses: {type(error).__name__}") from None


@contextmanager
def opened(address: str, make: bool = False) -> Iterator[Store]:
    """The store, opened for a change while a collector may use it."""
    need()
    from ..service.collector.store import StoreError, store_at

    store = store_at(address)
    path = getattr(store, "path", None)
    if path is not None and not make and not (path.is_file() and path.stat().st_size):
        raise StoreError(
            f"there is no store at {path}: 'keyveil serve', 'keyveil migrate' or "
            "'keyveil collection create' makes one; --store names another"
        )
    with plainly():
        store.open(serving=False)
        try:
            yield store
        finally:
            store.close()


def with_store(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--store`` to a command; the opened store is the command's first argument."""

    @store_option
    @wraps(command)
    def run(*, address: str, **options: Any) -> Any:
        with opened(address) as store:
            return command(store, **options)

    return run
