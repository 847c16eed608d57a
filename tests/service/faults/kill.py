"""Real collectors that are killed while clients send, and what the clients know afterwards."""

from __future__ import annotations

import http.client
import json
import random
import subprocess
import sys
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from desk import PLAN

from keyveil.service.collector.http import batches
from keyveil.service.collector.operations.verify import verify
from keyveil.service.collector.store import Store
from keyveil.service.collector.store.epoch_keys import KeyFolder

from .keys import read_ids

SERVER = Path(__file__).with_name("server.py")
CODES = int(PLAN.layout.codes)


class Server:
    """One collector process at a time; its port changes whenever it is started."""

    def __init__(self, store: str, folder: Path, *more: str) -> None:
        self._words = [sys.executable, str(SERVER), store, str(folder / "segments"), *more]
        self._log = folder / f"log-{time.monotonic_ns()}"
        self._process: subprocess.Popen[str] | None = None
        self.port = 0
        self.seconds: list[float] = []
        """From each start to readiness."""

    def begin(self) -> None:
        """Start it, and do not wait."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._words, stdout=subprocess.PIPE, stderr=log, text=True)

    def start(self) -> None:
        begun = time.monotonic()
        self.begin()
        self.listen()
        self.seconds.append(time.monotonic() - begun)

    def listen(self) -> None:
        """Wait until it listens."""
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, self._log.read_text()
        self.port = int(line.rsplit(":", 1)[1])

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        assert self._process is not None
        assert self._process.poll() is None, self._log.read_text()
        self._process.kill()
        self._process.wait(30)
        self._close()

    def end(self) -> int:
        assert self._process is not None
        self._process.terminate()
        code = self._process.wait(60)
        self._close()
        return code

    @property
    def log(self) -> str:
        """What it has logged."""
        return self._log.read_text()

    def wait(self, seconds: float) -> int | None:
        """Its exit code, if it ends by itself within so many seconds."""
        assert self._process is not None
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        self._close()
        return code

    def _close(self) -> None:
        if self._process is not None and self._process.stdout is not None:
            self._process.stdout.close()


@dataclass
class Known:
    """What a client knows of the reports it sent, by id."""

    counted: dict[bytes, int] = field(default_factory=dict)
    """Acknowledged: the code of each."""
    perhaps: dict[bytes, int] = field(default_factory=dict)
    """Sent, and given up without an answer that settles it."""

    def add(self, other: Known) -> None:
        self.counted.update(other.counted)
        self.perhaps.update(other.perhaps)


class Client(threading.Thread):
    """Sends reports, each until it is answered; sometimes gives up; sometimes sends old ones again."""

    def __init__(self, servers: list[Server], name: str, seconds: int, seed: object) -> None:
        super().__init__(daemon=True)
        self._servers, self._collection, self._epoch = servers, name, seconds
        self._coins = random.Random(f"client {seed}")
        self.known = Known()
        self.going = True
        self.wrong: list[str] = []
        self._old: deque[tuple[int, bytes, bytes]] = deque(maxlen=50)
        self._line: tuple[int, http.client.HTTPConnection] | None = None

    def run(self) -> None:
        try:
            while self.going:
                self._one()
        except Exception as error:
            self.wrong.append(repr(error))
        if self._line is not None:
            self._line[1].close()

    def _one(self) -> None:
        coins = self._coins
        if self._old and coins.random() < 0.15:
            self._send(*coins.choice(self._old))  # an old one again: harmless, whatever comes of it
            return
        number = coins.choice([1, 1, 3, 20, 150])
        ids = coins.randbytes(16 * number)
        codes = np.array([coins.randrange(CODES) for _ in range(number)], PLAN.layout.code_type)
        rows = codes.tobytes()
        epoch = int(time.time()) // self._epoch
        names = [ids[at : at + 16] for at in range(0, len(ids), 16)]
        report = dict(zip(names, codes.tolist(), strict=True))
        unknown = False
        while True:
            answer = self._send(epoch, ids, rows)
            if answer is None:
                unknown = True
                if not self.going or coins.random() < 0.002:
                    self.known.perhaps.update(report)
                    return
                time.sleep(0.01)
                continue
            status, body = answer
            if status == 200:
                if body["failed"]:
                    self.wrong.append(f"in part: {body}")
                self.known.counted.update(report)
                self._old.append((epoch, ids, rows))
                return
            if body["reason"] == "closed_epoch":
                if unknown:  # it may have been counted before
                    self.known.perhaps.update(report)
                return
            if not body["retry"]:
                self.wrong.append(body["reason"])
                return
            unknown = unknown or body["reason"] in ("storage", "unhealthy")
            time.sleep(0.02)

    def _send(self, epoch: int, ids: bytes, rows: bytes) -> tuple[int, Any] | None:
        """The answer; None if none came."""
        server = self._coins.choice(self._servers)
        if self._line is None or self._line[0] != server.port:
            if self._line is not None:
                self._line[1].close()
            self._line = server.port, http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
        body = batches.encode_binary(PLAN.hash, epoch, ids, rows)
        path = f"/v1/collections/{self._collection}/reports"
        try:
            self._line[1].request("POST", path, body, {"content-type": batches.BINARY})
            response = self._line[1].getresponse()
            return response.status, json.loads(response.read())
        except (OSError, http.client.HTTPException):
            self._line[1].close()
            self._line = None
            return None


def kill_and_count(
    store: Store, address: str, folder: Path, kills: int, several: int, seed: int, *more: str
) -> tuple[list[str], dict[str, float]]:
    """Kill collectors at random moments under load; what is wrong then, and some figures."""
    coins = random.Random(f"kills {seed}")
    servers = [Server(address, folder, *more) for _ in range(several)]
    for server in servers:
        server.start()
    clients = [Client(servers, "menu", 86_400, (seed, number)) for number in range(3)]
    clients += [Client(servers, "quick", 1, (seed, "quick", number)) for number in range(2)]
    for client in clients:
        client.start()
    for _ in range(kills):
        victim = coins.choice(servers)
        time.sleep(coins.uniform(0.0, 0.4))
        victim.kill()
        if coins.random() < 0.15:  # and once more, while it starts
            victim.begin()
            time.sleep(coins.uniform(0.0, 1.0))
            victim.kill()
        victim.start()
    time.sleep(0.3)
    for client in clients:
        client.going = False
    for client in clients:
        client.join(60)
    wrong = [text for client in clients for text in client.wrong]
    known = {"menu": Known(), "quick": Known()}
    for client in clients:
        known[client._collection].add(client.known)
    for server in servers:
        if server.end() != 0:
            wrong.append("a collector did not end well")
    store.open(serving=False)
    try:
        wrong += wrong_counts(store, folder, known)
    finally:
        store.close()
    seconds = [second for server in servers for second in server.seconds]
    figures = {
        "acknowledged": sum(len(reports.counted) for reports in known.values()),
        "given up": sum(len(reports.perhaps) for reports in known.values()),
        "median start": sorted(seconds)[len(seconds) // 2],
        "slowest start": max(seconds),
    }
    return wrong, figures


def wrong_counts(store: Store, folder: Path, known: dict[str, Known]) -> list[str]:
    """Compare what clients know with the counts, and the counts with the segments."""
    wrong = []
    for verdict in verify(store, folder / "segments"):
        wrong += [f"{verdict.collection}: {finding}" for finding in verdict.findings]
    for name, reports in known.items():
        round_ = store.control.named(name).round
        counts = store.counts_stored(round_)
        sure, most = (_marks(reports.counted), _marks({**reports.counted, **reports.perhaps}))
        if (counts < sure).any():
            wrong.append(f"{name}: acknowledged reports are lost")
        if (counts > most).any():
            wrong.append(f"{name}: reports are counted twice, or were never sent")
    with store.reading() as session:
        round_ = store.control.named("menu").round
        packing = store.book(round_).plan.packing
        logged: dict[bytes, int] = {}
        keys = KeyFolder(folder / "segments" / "keys")
        for epoch in store.epochs(session, round_):
            for segment in store.segments(session, round_, epoch):
                ids = read_ids(session, keys, round_.id, epoch, segment.ids)
                names = [ids[at : at + 16] for at in range(0, len(ids), 16)]
                codes = packing.reports(packing.rows(segment.payload)).codes.tolist()
                logged.update(zip(names, codes, strict=True))
    menu = known["menu"]
    if any(logged.get(name) != code for name, code in menu.counted.items()):
        wrong.append("menu: an acknowledged id is not in the log, or is another report's")
    if any({**menu.perhaps, **menu.counted}.get(name) != code for name, code in logged.items()):
        wrong.append("menu: the log has what was never sent")
    return wrong


def _marks(reports: dict[bytes, int]) -> np.ndarray:
    packing = PLAN.packing
    total = np.zeros(PLAN.layout.cells, np.int64)
    if reports:
        codes = np.array(list(reports.values()), PLAN.layout.code_type)
        cells, often = packing.marks(codes.view(np.uint8).reshape(-1, packing.width))
        total[cells] += often
    return total
