"""A port in front of PostgreSQL that cuts a connection at a chosen message of the protocol."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading

from .front_port import FrontPort


def _said(kind: bytes, severity: bytes) -> bytes:
    body = b"S" + severity + b"\0V" + severity + b"\0C57P01\0Mthe server ends\0\0"
    return kind + struct.pack("!i", len(body) + 4) + body


LAST_WORDS = {
    "nothing": b"",
    "a warning": _said(b"N", b"WARNING"),  # of a server that is stopped at once
    "an error": _said(b"E", b"FATAL"),  # of a server that ends its sessions
}
"""What a server may say before the connection ends."""


class CutWire:
    """Passes the messages of both sides on one by one, so they stand in one order."""

    def __init__(self, address: str) -> None:
        self._port = FrontPort(address, "sslmode=disable", "gssencmode=disable")
        self.address = self._port.address
        self._order = threading.Lock()
        self._left: int | None = None
        self._words = b""
        self.seen: list[str] = []
        """The messages since ``cut_at``: F (from the client) or B (from the server), and the type."""
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_at(self, number: int, words: bytes = b"") -> None:
        """Cut the connection in place of the message that comes after so many."""
        with self._order:
            self.seen, self._left, self._words = [], number, words

    def was_cut(self) -> bool:
        """Whether that message came; it is not waited for any more."""
        with self._order:
            cut, self._left = self._left is None, None
            return cut

    def _accept(self) -> None:
        while True:
            try:
                ends = self._port.accepted()
            except OSError:
                return
            if ends is None:
                continue
            near, far = ends
            near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # messages go one by one
            for given in ((near, far, "F"), (far, near, "B")):
                threading.Thread(target=self._pass_on, args=given, daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, side: str) -> None:
        data, head = b"", 0 if side == "F" else 1  # a client's first message has no type
        with contextlib.suppress(OSError):
            while got := source.recv(1 << 16):
                data += got
                while len(data) >= head + 4:
                    size = head + int(struct.unpack_from("!i", data, head)[0])
                    if len(data) < size:
                        break
                    message, data = data[:size], data[size:]
                    if not self._passes(side + message[:head].decode(), source, target):
                        break
                    target.sendall(message)
                    head = 1
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        source.close()

    def _passes(self, message: str, source: socket.socket, target: socket.socket) -> bool:
        with self._order:
            if self._left is None:
                return True
            self.seen.append(message)
            self._left -= 1
            if self._left >= 0:
                return True
            self._left = None
            near = source if message[0] == "F" else target
            with contextlib.suppress(OSError):
                near.sendall(self._words)
            for end in (source, target):
                end.shutdown(socket.SHUT_RDWR)
            return False

    def close(self) -> None:
        self._port.listener.close()
