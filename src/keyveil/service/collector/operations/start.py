"""Starting a collector: where it may listen, and how it runs."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import TextIO

from ...client.client_core import is_loopback
from ..engine.service import Service
from ..http.app import app
from ..http.server import ServeError, address_of, listening, run
from ..process.clock import Clock
from ..process.settings import Settings
from ..store import Store

NO_ADMIN = (
    "without an admin token only this machine can connect: "
    "create one with 'keyveil token create --role admin', or use --host 127.0.0.1"
)


def check_address(store: Store, host: str) -> None:
    """Refuse to listen for other machines while there is no admin token."""
    if is_loopback(host):
        return
    admins = [t for t in store.control.tokens.values() if t.role == "admin" and not t.revoked]
    if not admins:
        raise ServeError(NO_ADMIN)


def check_new(store: Store, host: str) -> None:
    """The same check before a new store is created."""
    path = getattr(store, "path", None)
    if path is not None and not path.exists() and not is_loopback(host):
        raise ServeError(NO_ADMIN)


def serve(
    store: Store,
    segments: Path,
    host: str,
    listener: socket.socket,
    settings: Settings | None = None,
    clock: Clock | None = None,
    log: TextIO | None = None,
) -> int:
    """Serve until the process is asked to end; the exit code."""
    check_address(store, host)
    service = Service(store, segments, clock, settings, log, exposed=not is_loopback(host))
    run(service, app(service), listener)
    return 1 if service.writer.broken else 0


__all__ = ["ServeError", "address_of", "check_address", "check_new", "listening", "serve"]
