"""The limits of a collector process."""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import isfinite

from ....foundation.errors import KeyveilError


@dataclass(frozen=True)
class Settings:
    """Limits of one collector process. Each has a test that tries to exceed it."""

    body_bytes: int = 4 << 20
    """Maximum size of a request body."""
    head_bytes: int = 1 << 16
    """Approximate maximum size of a request head; larger ones get 431."""
    reports: int = 10_000
    """Maximum number of reports in one request."""
    waiting_bytes: int = 64 << 20
    """Maximum size of all bodies received so far that are incomplete or wait for the store.

    Above it, the slowest body is dropped (408) if it has taken long, otherwise the new request is
    refused (429).
    """
    waiting_requests: int = 4096
    """Maximum number of requests that are incomplete or wait for the store."""
    request_seconds: float = 20.0
    """Time allowed for a request head to arrive, and again for its body; after that, 408."""
    idle_seconds: float = 15.0
    """Time after which an idle connection between requests is closed."""
    send_seconds: float = 30.0
    """Time within which a client must accept what is sent to it."""
    connections: int = 4096
    """Maximum number of open connections.

    Above it, a new connection replaces one that waits for no answer.
    """
    address_connections: int = 1024
    """Maximum number of open connections from one address (IPv6: one /64 network).

    Behind a proxy all connections come from the proxy's address; set it to the number that the proxy may
    open.
    """
    silent_seconds: float = 5.0
    """Time after which a connection that never sent anything is closed."""
    group_reports: int = 10_000
    """Maximum number of reports in one transaction."""
    lanes: int = 2
    """Number of transactions of reports that a collector has at the same time in PostgreSQL."""
    streams: int = 64
    """Maximum number of simultaneous live streams."""
    analyses: int = 32
    """Maximum number of waiting answers in each of the two lanes."""
    answer_seconds: float = 30.0
    """Time within which an answer must be ready, waiting included; after that, 503."""
    tick_seconds: float = 0.5
    """Interval at which changes by other processes are read."""
    seal_seconds: float = 5.0
    """Interval at which epochs are checked for closing and sealing."""
    behind_seconds: float = 900.0
    """Time that an epoch may wait to be sealed before the collector is no longer ready."""
    reopen_seconds: float = 3600.0
    """Time for which a closed epoch keeps its ids, so that it can be reopened; 0 for none."""
    shutdown_seconds: float = 20.0
    """Time after which the process ends once it is asked to, whatever the store does."""
    clock_seconds: float = 30.0
    """Largest difference between this machine's clock and the database's."""
    probe_seconds: float = 2.0
    """Interval at which a collector tries to write to its store, with or without reports."""
    ready_seconds: float = 8.0
    """Time after the last successful write to the store after which the collector is not ready."""
    connect_seconds: float = 4.0
    """Time for a connection to the database."""
    lock_seconds: float = 2.0
    """Time that a transaction waits for a lock of another."""
    statement_seconds: float = 8.0
    """Time for one statement of the database; a second more, and the connection is cut."""
    transaction_seconds: float = 6.0
    """Time after which the database ends a transaction whose process does nothing."""
    reading_seconds: float = 60.0
    """The same two limits for transactions that only read: answers, sealing, copies."""

    def __post_init__(self) -> None:
        for setting in fields(self):
            value, may_be_0 = getattr(self, setting.name), setting.name == "reopen_seconds"
            if not (isfinite(value) and (value > 0 or (may_be_0 and value == 0))):
                raise KeyveilError(f"the setting {setting.name} must be a number above 0")
