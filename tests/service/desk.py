"""A collector in process, without sockets, on a stated clock; and a PostgreSQL of the tests' own."""

from __future__ import annotations

import asyncio
import io
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import httpx
from stated_clock import StatedClock

from keyveil import Coins, Plan, Schema
from keyveil.service.collector.engine.service import Service
from keyveil.service.collector.http.app import app
from keyveil.service.collector.http.batches import BINARY
from keyveil.service.collector.process.settings import Settings
from keyveil.service.collector.store import Store, store_at

KEYS = ["Fries", "Pepsi", "Salad"]
NOW = StatedClock().time


def plan_of(
    mechanism: str = "kvue", keys: list[str] | int = KEYS, epsilon: object = 1, **more: Any
) -> Plan:
    names = [f"k{i}" for i in range(keys)] if isinstance(keys, int) else keys
    return Plan.of(Schema.of(names, 1, 5), mechanism, epsilon, **more)


PLAN = plan_of()


class Desk:
    """One collector process, in process: requests go straight into the application."""

    def __init__(
        self,
        address: str,
        folder: Path,
        clock: StatedClock | None = None,
        settings: Settings | None = None,
        store: Store | None = None,
    ) -> None:
        self.address, self.folder = address, folder
        self.clock = clock or StatedClock()
        self.store: Store = store or store_at(address)
        self.store.open()
        self.log = io.StringIO()
        self.loop = asyncio.new_event_loop()
        settings = settings or Settings(reopen_seconds=0)
        self.service = Service(
            self.store, folder / "segments", self.clock, settings, self.log, threaded=False
        )
        self.app = app(self.service, seal=False)
        self.run(self.service.start(seal=False))
        transport = httpx.ASGITransport(self.app)
        self.client = httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1")

    def run(self, work: Any) -> Any:
        return self.loop.run_until_complete(work)

    def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        response: httpx.Response = self.run(self.client.request(method, path, **more))
        return response

    def get(self, path: str, **more: Any) -> httpx.Response:
        return self.ask("GET", path, **more)

    def post(self, path: str, **more: Any) -> httpx.Response:
        return self.ask("POST", path, **more)

    # -- what most tests do ------------------------------------------------------------------------

    def create(self, name: str = "menu", plan: Plan = PLAN, **terms: Any) -> dict[str, Any]:
        response = self.post(
            "/v1/collections", json={"name": name, "plan": plan.document(), "terms": terms}
        )
        assert response.status_code == 201, response.text
        return response.json()

    def epoch(self) -> int:
        return int(self.clock.now()) // 86_400

    def send(self, reports: list[dict[str, Any]], name: str = "menu", **more: Any) -> httpx.Response:
        body = {"plan": PLAN.hash, "epoch": self.epoch(), "reports": reports, **more}
        return self.post(f"/v1/collections/{name}/reports", json=body)

    def send_bytes(
        self, body: bytes, name: str = "menu", kind: str = BINARY, **headers: str
    ) -> httpx.Response:
        return self.post(
            f"/v1/collections/{name}/reports", content=body, headers={"content-type": kind, **headers}
        )

    def status(self, name: str = "menu") -> dict[str, Any]:
        self.service.writer.tick()
        return self.get(f"/v1/collections/{name}/status").json()

    def reports(self, name: str = "menu") -> int:
        return int(self.status(name)["rounds"][-1]["reports"])

    def keep(self) -> None:
        self.run(self.service.sealer.seal_due())

    def close(self) -> None:
        if not self.loop.is_closed():
            self.run(self.client.aclose())
            self.run(self.service.stop())
            self.run(self.loop.shutdown_default_executor())
            self.loop.close()
            self.store.close()

    def die(self) -> None:
        """As by kill -9: nothing is finished, nothing is told."""
        self.run(self.client.aclose())
        self.service.answers.close()
        self.run(self.loop.shutdown_default_executor())
        self.loop.close()
        self.store.close()


def fresh(
    number: int = 1, plan: Plan = PLAN, record: Any = None, stated: str | None = None
) -> list[dict[str, Any]]:
    """Reports of honest clients, under new ids; the same every time by a ``stated`` key."""
    coins = None if stated is None else Coins.stated(stated)
    return [
        {"id": os.urandom(16).hex(), "cells": list(plan.report(record or {"Pepsi": 4}, coins, n).cells)}
        for n in range(number)
    ]


# -- PostgreSQL ------------------------------------------------------------------------------------


def postgres_binaries() -> Path | None:
    """The newest PostgreSQL on this machine."""
    folders = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    if folders:
        return max(folders, key=lambda path: float(path.parent.name))
    on_path = shutil.which("initdb")
    return Path(on_path).resolve().parent if on_path else None


_LIFE = """
read nothing
for attempt in 1 2 3 4 5; do
  "$@" >/dev/null 2>&1 && break
  sleep 1
done
rm -rf "$0"
"""
"""The shell that ends a server: it waits until whoever started it closes the pipe, or is gone. A server
that is only just starting is not there at the first attempt."""


class Postgres:
    """A server of our own: private folder, private socket, no network port.

    It ends with the process that started it, however that ends: a shell in a session of its own waits
    for the end of a pipe, which the system closes for a process that is killed, too. Forked processes
    close their end at once, so that none of them that lives on keeps the server.
    """

    def __init__(self, binaries: Path, primary: Postgres | None = None) -> None:
        """A new server; or a standby that follows another, until it is promoted."""
        self.folder = Path(tempfile.mkdtemp(prefix="kv-pg-"))
        self._binaries = binaries
        self._user = "postgres" if os.geteuid() == 0 else None
        if self._user:
            shutil.chown(self.folder, self._user)
        stop = self._words("pg_ctl", "-D", str(self.folder / "data"), "-m", "immediate", "-w", "stop")
        self._life = subprocess.Popen(
            ["sh", "-c", _LIFE, str(self.folder), *stop],
            stdin=subprocess.PIPE,
            start_new_session=True,
            cwd="/",
        )
        assert self._life.stdin is not None
        os.register_at_fork(after_in_child=self._life.stdin.close)
        words = ["-D", str(self.folder / "data"), "-U", "keyveil", "--no-sync"]
        if primary is None:
            self._run("initdb", *words, "-A", "trust")
        else:
            self._run("pg_basebackup", *words, "-h", str(primary.folder), "-R", "-c", "fast")
        self._number = 0
        self._start()

    def _start(self) -> None:
        options = (
            f"-c listen_addresses='' -c unix_socket_directories={self.folder} -c max_connections=60"
        )
        self._run(
            *("pg_ctl", "-D", str(self.folder / "data"), "-w", "-o", options),
            *("-l", str(self.folder / "log"), "start"),
        )

    def _words(self, program: str, *arguments: str) -> list[str]:
        words = [str(self._binaries / program), *arguments]
        if not self._user:
            return words
        return ["setpriv", f"--reuid={self._user}", f"--regid={self._user}", "--clear-groups", *words]

    def _run(self, program: str, *arguments: str) -> None:
        words = self._words(program, *arguments)
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL, cwd=self.folder, timeout=60)

    def database(self) -> str:
        """The address of a new, empty schema: as good as a database, and made at once."""
        import psycopg

        self._number += 1
        name = f"test_{self._number}"
        address = f"postgresql://keyveil@/postgres?host={self.folder}"
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(f"create schema {name}")
        return f"{address}&options=-csearch_path%3D{name}"

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a statement, by a connection of its own."""
        import psycopg

        address = f"postgresql://keyveil@/postgres?host={self.folder}"
        with psycopg.connect(address, autocommit=True) as connection:
            cursor = connection.execute(sql)
            return cursor.fetchall() if cursor.description else []

    def set_read_only(self, read_only: bool) -> None:
        """Refuse all writing from the next transaction on, as a standby does; or end that."""
        self.ask(f"alter system set default_transaction_read_only = {'on' if read_only else 'off'}")
        self.ask("select pg_reload_conf()")

    def promote(self) -> None:
        """Let a standby take over."""
        self._run("pg_ctl", "-D", str(self.folder / "data"), "-w", "promote")

    def down(self) -> None:
        """End the server at once, as a crash does."""
        self._run("pg_ctl", "-D", str(self.folder / "data"), "-m", "immediate", "-w", "stop")

    def up(self) -> None:
        """Start it again, unless it runs."""
        if not (self.folder / "data" / "postmaster.pid").exists():
            self._start()

    def stop(self) -> None:
        assert self._life.stdin is not None
        if not (self.folder / "data" / "postmaster.pid").exists():  # it is down: nothing to wait for
            self._life.kill()
            shutil.rmtree(self.folder)
        self._life.stdin.close()
        self._life.wait(60)
