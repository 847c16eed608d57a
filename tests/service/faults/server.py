"""The collector as ``keyveil serve`` runs it: STORE SEGMENTS [forgetful | stale] [setting=...].

``ahead=FILE`` reads the seconds by which its clock is ahead from a file. ``trap=NAME`` stops the
process, as SIGSTOP does, in the middle of a transaction with a report of that collection.

Epochs are kept more often, and sets of ids so small that most lie in files. ``forgetful`` and ``stale``
are broken twins: one does not know the ids of before a restart, the other not the last of them.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from scratch import forgetful, make_small, stale

from keyveil.service.collector.http.app import serve
from keyveil.service.collector.http.server import address_of, listening
from keyveil.service.collector.process.clock import FleetClock, SystemClock
from keyveil.service.collector.process.settings import Settings
from keyveil.service.collector.store import Store, store_at
from keyveil.service.collector.store.sqlite import SqliteStore


class AheadClock(SystemClock):
    """The machine's clock, ahead by as many seconds as a file says."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def now(self) -> float:
        return super().now() + float(self._path.read_text())


def set_trap(name: str) -> None:
    """Stop this process within the first transaction that logs a report of a collection."""
    log = Store._log

    def stop(self: Store, session: Any, group: Any, *more: Any) -> None:
        log(self, session, group, *more)
        if group.collection.name == name and not sprung:
            sprung.append(name)
            os.kill(os.getpid(), signal.SIGSTOP)
            time.sleep(0.5)  # the signal may reach another thread first

    sprung: list[str] = []
    Store._log = stop  # type: ignore[method-assign]


def main(address: str, segments: str, *more: str) -> int:
    make_small(20)
    for twin in (forgetful, stale):
        if twin.__name__ in more:
            SqliteStore._epoch_ids = twin  # type: ignore[method-assign]
    SqliteStore.checkpoint_pages = 100
    store = store_at(address)
    pairs = dict(word.split("=") for word in more if "=" in word)
    clock = FleetClock(AheadClock(pairs.pop("ahead"))) if "ahead" in pairs else None
    if "trap" in pairs:
        set_trap(pairs.pop("trap"))
    given = {name: type(getattr(Settings, name))(value) for name, value in pairs.items()}
    settings = Settings(**{"seal_seconds": 0.05, "tick_seconds": 0.1, "reopen_seconds": 0.0, **given})
    store.settings = settings
    store.open()
    try:
        with listening("127.0.0.1", 0) as listener:
            print(address_of(listener), flush=True)
            return serve(store, Path(segments), "127.0.0.1", listener, settings, clock)
    finally:
        store.close()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
