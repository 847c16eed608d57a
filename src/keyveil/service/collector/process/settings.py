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
    shutdown_seconds: float = 20.0
    """Time that accepted requests have to finish when the process is asked to end."""

    def __post_init__(self) -> None:
        for setting in fields(self):
            if not (isfinite(getattr(self, setting.name)) and getattr(self, setting.name) > 0):
                raise KeyveilError(f"the setting {setting.name} must be a number above 0")
