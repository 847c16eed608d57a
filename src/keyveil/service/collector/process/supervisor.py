"""Tells the service manager how the process is: the notification protocol of systemd."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress


class Supervisor:
    """The service manager that started this process, if there is one.

    systemd names a datagram socket in ``NOTIFY_SOCKET`` and, if it has a watchdog, the time in which it
    expects a sign of life in ``WATCHDOG_USEC``. Without these variables nothing is sent.
    """

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._address = environment.get("NOTIFY_SOCKET", "")
        if self._address.startswith("@"):  # a name in the abstract namespace
            self._address = "\0" + self._address[1:]
        ours = environment.get("WATCHDOG_PID", "") in ("", str(os.getpid()))
        limit = environment.get("WATCHDOG_USEC", "") if ours and self._address else ""
        self.seconds = int(limit) / 1e6 if limit.isdecimal() and int(limit) else None
        """Time within which the watchdog expects a sign of life; None without a watchdog."""

    def tell(self, state: str) -> None:
        """Send a state such as ``READY=1``. An absent manager is no error."""
        if not self._address:
            return
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.setblocking(False)
            channel.sendto(state.encode(), self._address)

    async def watch(self, healthy: Callable[[], bool]) -> None:
        """Send a sign of life three times in the watchdog's time, while the process is healthy.

        It runs in the event loop that answers requests, so a blocked loop sends none, and the manager
        restarts the process.
        """
        while self.seconds is not None:
            if healthy():
                self.tell("WATCHDOG=1")
            await asyncio.sleep(self.seconds / 3)
