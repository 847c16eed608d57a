"""Two collectors on one PostgreSQL, and what can lie between them and it."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
from desk import PLAN, fresh

from keyveil.service.collector.engine import admin
from keyveil.service.collector.store import store_at

from .front_port import FrontPort
from .kill import Client, Known, Server, wrong_counts

QUICK = (
    "lock_seconds=1",
    "statement_seconds=2",
    "transaction_seconds=3",
    "connect_seconds=2",
    "ready_seconds=3",
    "probe_seconds=0.5",
    "shutdown_seconds=4",
)
"""Limits of time that keep the tests short."""


def until(holds: Callable[[], Any], seconds: float) -> float:
    """Wait until something holds; the seconds that took. It must hold within ``seconds``."""
    begun = time.monotonic()
    while True:
        if holds():
            return time.monotonic() - begun
        assert time.monotonic() - begun < seconds, "it did not happen in time"
        time.sleep(0.05)


class Fleet:
    """Collectors that serve ``menu``, with clients that send to all of them."""

    def __init__(
        self, address: str, folder: Path, words: tuple[tuple[str, ...], ...] = ((), ())
    ) -> None:
        self.address, self.folder = address, folder
        self.servers = [Server(address, folder, *QUICK, *more) for more in words]
        for server in self.servers:
            server.begin()
        for server in self.servers:
            server.listen()
        self.clients: list[Client] = []
        self.known = Known()
        self.retry_after: str | None = None
        """When the last answer to ``send`` says that the client may send again."""
        self._loads = 0

    def send(self, number: int, name: str = "menu", seconds: float = 20) -> tuple[int, Any]:
        """Send a report to one collector; status and body, or (0, None) without an answer."""
        reports = fresh(1)
        body = {"plan": PLAN.hash, "epoch": int(time.time()) // 86_400, "reports": reports}
        url = f"http://127.0.0.1:{self.servers[number].port}/v1/collections/{name}/reports"
        try:
            answer = httpx.post(url, json=body, timeout=seconds)
        except httpx.HTTPError:
            self._note(name, reports, counted=False)
            return 0, None
        self._note(name, reports, counted=answer.status_code == 200)
        self.retry_after = answer.headers.get("retry-after")
        return answer.status_code, answer.json()

    def _note(self, name: str, reports: list[dict[str, Any]], counted: bool) -> None:
        if name != "menu":
            return
        rows_by_id = self.known.counted if counted else self.known.perhaps
        for report in reports:
            row = PLAN.packing.row(report["cells"])
            assert row is not None
            rows_by_id[bytes.fromhex(report["id"])] = int.from_bytes(row, "little")

    def get(self, number: int, path: str) -> httpx.Response | None:
        try:
            return httpx.get(f"http://127.0.0.1:{self.servers[number].port}{path}", timeout=5)
        except httpx.HTTPError:
            return None

    def unready(self, number: int) -> list[str]:
        """Why a collector is not ready; empty if it is."""
        answer = self.get(number, "/ready")
        return ["no answer"] if answer is None else answer.json()["why"]

    def metric(self, number: int, name: str) -> float:
        """The value of a metric, by the beginning of its line; 0 if it is missing."""
        answer = self.get(number, "/metrics")
        assert answer is not None
        lines = [line for line in answer.text.splitlines() if line.startswith(f"keyveil_{name} ")]
        lines += [line for line in answer.text.splitlines() if line.startswith(f"keyveil_{name}{{")]
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines)

    def events(self, number: int, name: str) -> list[dict[str, Any]]:
        """The lines of one kind in a collector's log."""
        lines = [json.loads(line) for line in self.servers[number].log.splitlines()]
        return [line for line in lines if line["event"] == name]

    def load(self) -> None:
        """Let clients send, each to all collectors."""
        self._loads += 1
        seeds = [(self._loads, number) for number in range(2)]
        self.clients = [Client(self.servers, "menu", 86_400, seed) for seed in seeds]
        for client in self.clients:
            client.start()

    def flows(self) -> bool:
        """Whether every collector takes a report."""
        return all(self.send(number, seconds=5)[0] == 200 for number in range(len(self.servers)))

    def settle(self) -> None:
        """End the clients; every acknowledged report counts once, and nothing else does."""
        for client in self.clients:
            client.going = False
        for client in self.clients:
            client.join(60)
            assert client.wrong == []
            self.known.add(client.known)
        self.clients = []
        self.check()

    def end(self) -> None:
        """The same, and the collectors end well."""
        self.settle()
        assert [server.end() for server in self.servers] == [0, 0]

    def kill(self) -> None:
        """Leave no process behind."""
        for server in self.servers:
            if server.wait(0) is None:
                os.kill(server.pid, signal.SIGKILL)
                server.wait(10)

    def check(self) -> None:
        store = store_at(self.address)
        store.open(serving=False)
        try:
            wrong = wrong_counts(store, self.folder, {"menu": self.known})
            assert wrong == [], wrong
        finally:
            store.close()


def prepared(address: str, **terms: Any) -> None:
    """Make the collection ``menu``, and ``trap`` beside it."""
    store = store_at(address)
    store.open(serving=False)
    admin.create(store, "menu", PLAN.dumps(), terms, 0.0)
    admin.create(store, "trap", PLAN.dumps(), {}, 0.0)
    store.close()


class Wire:
    """A TCP port in front of PostgreSQL's socket. It can stop forwarding without closing anything."""

    def __init__(self, address: str) -> None:
        self._port = FrontPort(address)
        self.address, self.lead_to = self._port.address, self._port.lead_to
        self.held = threading.Event()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._port.listener, selectors.EVENT_READ, None)
        self._going = True
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        while self._going:
            if self.held.is_set():
                time.sleep(0.02)
                continue
            for key, _ in self._selector.select(0.05):
                if key.data is None:
                    self._accept()
                else:
                    self._forward(key.fileobj, key.data)

    def _accept(self) -> None:
        ends = self._port.accepted()
        if ends is None:
            return
        near, far = ends
        self._selector.register(near, selectors.EVENT_READ, far)
        self._selector.register(far, selectors.EVENT_READ, near)

    def _forward(self, source: Any, target: socket.socket) -> None:
        data = b""
        with contextlib.suppress(OSError):
            data = source.recv(1 << 16)
            target.sendall(data)
        if not data:
            for end in (source, target):
                with contextlib.suppress(KeyError, ValueError):
                    self._selector.unregister(end)
                end.close()

    def close(self) -> None:
        self._going = False
        self._thread.join()
        for key in list(self._selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]
        self._selector.close()


@contextlib.contextmanager
def pooler(host: Path, database: str, size: int = 3) -> Iterator[str]:
    """PgBouncer in transaction mode in front of a database; the address."""
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    assert program is not None, "PgBouncer is needed: apt-get install pgbouncer"
    with tempfile.TemporaryDirectory(prefix="kv-pool-") as name:
        folder = Path(name)
        (folder / "users").write_text('"keyveil" ""\n')
        (folder / "ini").write_text(
            f"[databases]\n{database} = host={host} port=5432 dbname={database}\n[pgbouncer]\n"
            f"listen_addr =\nunix_socket_dir = {folder}\nlisten_port = 6432\nauth_type = trust\n"
            f"auth_file = {folder}/users\npool_mode = transaction\ndefault_pool_size = {size}\n"
            f"logfile = {folder}/log\n"
        )
        words = [program, str(folder / "ini")]
        if os.geteuid() == 0:
            for path in (folder, *folder.iterdir()):
                shutil.chown(path, "postgres")
            words = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", *words]
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            until(lambda: (folder / ".s.PGSQL.6432").exists(), 20)
            yield f"postgresql://keyveil@/{database}?host={folder}&port=6432"
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(20)
