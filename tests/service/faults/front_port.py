"""A TCP port in front of PostgreSQL's socket, on which a test can disturb connections."""

from __future__ import annotations

import socket
from urllib.parse import parse_qs, urlsplit


class FrontPort:
    """The port, and the address of the same database through it; ``words`` are added to its query."""

    def __init__(self, address: str, *words: str) -> None:
        parts = urlsplit(address)
        query = parse_qs(parts.query)
        self.lead_to(query["host"][0])
        self.listener = socket.create_server(("127.0.0.1", 0))
        port = self.listener.getsockname()[1]
        options = [f"options={stated.replace('=', '%3D')}" for stated in query.get("options", [])[:1]]
        parameters = "&".join([*words, *options])
        self.address = f"postgresql://keyveil@127.0.0.1:{port}{parts.path}" + (
            f"?{parameters}" if parameters else ""
        )

    def lead_to(self, folder: str) -> None:
        """Lead new connections to the server whose socket is in a folder."""
        self._target = f"{folder}/.s.PGSQL.5432"

    def accepted(self) -> tuple[socket.socket, socket.socket] | None:
        """The next connection, and one to PostgreSQL for it; None if that refuses."""
        near, _ = self.listener.accept()
        far = socket.socket(socket.AF_UNIX)
        try:
            far.connect(self._target)
        except OSError:
            near.close()
            far.close()
            return None
        return near, far
