"""Settings: the bounds within which the collector serves."""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import isfinite

from ....foundation.errors import KeyveilError


@dataclass(frozen=True)
class Settings:
    """Limits of one collector process; every one of them has a test that tries to get around it."""

    body_bytes: int = 4 << 20
    """Of one request's body."""
    head_bytes: int = 1 << 16
    """Of one request's head, about; above, 431."""
    reports: int = 10_000
    """In one request."""
    waiting_bytes: int = 64 << 20
    """Of what has come of all bodies that are being read or wait for the store; above, the slowest of
    those that take long is given up (408), and if there is none, 429."""
    waiting_requests: int = 4096
    """That are being read or wait for the store."""
    request_seconds: float = 20.0
    """Within which a request's head must have arrived, and then its body; above, 408."""
    idle_seconds: float = 15.0
    """After which a connection without a request is closed."""
    send_seconds: float = 30.0
    """Within which a client must take what is sent to it."""
    connections: int = 4096
    """Open at once; above, a new one takes the place of one that waits for no answer."""
    address_connections: int = 1024
    """Open at once from one address (of IPv6, from one network of 64 bits). Behind a proxy that is the
    proxy's: it should be as many as the proxy may open."""
    silent_seconds: float = 5.0
    """After which a connection that never sent anything is closed."""
    group_reports: int = 10_000
    """In one transaction."""
    streams: int = 64
    """Live answers at once."""
    analyses: int = 32
    """Answers that wait at once, in each of the two lanes."""
    answer_seconds: float = 30.0
    """Within which an answer must be there, waiting included; above, 503."""
    tick_seconds: float = 0.5
    """How often other processes' counts and changes are looked up."""
    seal_seconds: float = 5.0
    """How often epochs are looked at, for closing and sealing."""
    shutdown_seconds: float = 20.0
    """Within which accepted requests finish when the process is told to end."""

    def __post_init__(self) -> None:
        for setting in fields(self):
            if not (isfinite(getattr(self, setting.name)) and getattr(self, setting.name) > 0):
                raise KeyveilError(f"the setting {setting.name} is a number above 0")
