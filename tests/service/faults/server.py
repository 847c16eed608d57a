"""The collector as ``keyveil serve`` runs it: STORE SEGMENTS [forgetful | stale] [setting=...].

Epochs are kept more often, and sets of ids so small that most lie in files. ``forgetful`` and ``stale``
are broken twins: one does not know the ids of before a restart, the other not the last of them.
"""

from __future__ import annotations

import sys
from pathlib import Path

from scratch import forgetful, make_small, stale

from keyveil.service.collector.http.app import serve
from keyveil.service.collector.http.server import address_of, listening
from keyveil.service.collector.process.settings import Settings
from keyveil.service.collector.store import store_at
from keyveil.service.collector.store.sqlite import SqliteStore


def main(address: str, segments: str, *more: str) -> int:
    make_small(20)
    for twin in (forgetful, stale):
        if twin.__name__ in more:
            SqliteStore._set = twin  # type: ignore[method-assign]
    SqliteStore.checkpoint_pages = 100
    store = store_at(address)
    store.open()
    pairs = [word.split("=") for word in more if "=" in word]
    given = {name: type(getattr(Settings, name))(value) for name, value in pairs}
    settings = Settings(**{"seal_seconds": 0.05, "tick_seconds": 0.1, "reopen_seconds": 0.0, **given})
    try:
        with listening("127.0.0.1", 0) as found:
            print(address_of(found), flush=True)
            return serve(store, Path(segments), "127.0.0.1", found, settings)
    finally:
        store.close()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
