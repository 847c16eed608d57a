"""The collector under load: wrk on loopback, with and without a store, in one run."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from statistics import median

from keyveil import Plan, Schema

from .table import Outcome, Table, rows, times

KEYS = 100
AIM_SHARE, AIM_LATE, AIM_BATCH, AIM_ESTIMATE = 0.6, 25.0, 20.0, 0.050
AIM_GROWTH, AIM_RESTART = 40, 1.0
"""Aims: growth of memory in megabytes from a quarter of the reports to all; seconds of a restart."""
BATCH = 100

# With "none" the server decodes, checks and answers reports without a store.
SERVER = """
import sys
from pathlib import Path
from keyveil.service.collector.http.app import serve
from keyveil.service.collector.http.server import listening
from keyveil.service.collector.store import store_at
from keyveil.service.collector.engine.writer import Writer

if sys.argv[1] == "none":
    def submit(self, parcel):
        future = self._loop.create_future()
        future.set_result(None)
        return future
    Writer.submit = submit
store = store_at(sys.argv[2])
store.open()
found = listening("127.0.0.1", 0)
print(found.getsockname()[1], flush=True)
serve(store, Path(sys.argv[3]), "127.0.0.1", found)
store.close()
"""

LOAD = """
local ffi = require("ffi")
local plan, epoch, n = os.getenv("PLAN"), tonumber(os.getenv("EPOCH")), tonumber(os.getenv("N"))
local keys, random = tonumber(os.getenv("KEYS")), math.random
ffi.cdef("typedef struct __attribute__((packed)) { uint64_t first, second; uint16_t code; } report;")
local reports = ffi.new("report[?]", n)
local state = ffi.new("uint64_t[2]")
ffi.copy(state, io.open("/dev/urandom", "rb"):read(16), 16)
math.randomseed(tonumber(state[0] % 2147483647ULL))
-- xorshift128+: ids need not be secret here, and they must not take the processor from the collector
local function word()
  local x, y = state[0], state[1]
  state[0] = y
  x = bit.bxor(x, bit.lshift(x, 23))
  state[1] = bit.bxor(x, y, bit.rshift(x, 17), bit.rshift(y, 26))
  return state[1] + y
end
local function u32(x)
  return string.char(x % 256, math.floor(x / 256) % 256, math.floor(x / 65536) % 256, 0)
end
local head = "KVBATCH1" .. plan:gsub("..", function(h) return string.char(tonumber(h, 16)) end)
head = head .. u32(epoch) .. u32(n)
wrk.method = "POST"
local json = os.getenv("KIND") == "json"
wrk.headers["Content-Type"] = json and "application/json" or "application/vnd.keyveil.batch"
local function batch()
  for i = 0, n - 1 do
    local report = reports[i]
    report.first, report.second = word(), word()
    report.code = random(0, 3 * keys - 1)
  end
  return head .. ffi.string(reports, 18 * n)
end
local function document()
  local t = {}
  for i = 1, n do
    local cell, id = 4 * random(0, keys - 1), bit.tohex(word(), 16) .. bit.tohex(word(), 16)
    t[i] = '{"id":"' .. id .. '","cells":[' .. cell .. "," .. cell + 1 + random(0, 2) .. "]}"
  end
  return '{"plan":"' .. plan .. '","epoch":' .. epoch .. ',"reports":[' .. table.concat(t, ",") .. "]}"
end
request = function()
  return wrk.format(nil, nil, nil, json and document() or batch())
end
"""

LOADS = {
    "one report, JSON": ("json", 1),
    "100 reports, JSON": ("json", BATCH),
    "100, binary": ("raw", BATCH),
}


def processor_time(process: int, ended: bool = False) -> float:
    """Processor time of a process so far, in seconds; with ``ended`` that of its ended children, too."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11 : 15 if ended else 13])) / os.sysconf("SC_CLK_TCK")


class Collector:
    """A server process with its own folder; its store may be shared with others."""

    def __init__(
        self,
        mode: str,
        plan: Plan,
        store: str = "store.sqlite",
        segments: str = "segments",
        create: bool = True,
        people: int | None = None,
    ) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="kv-bench-"))
        plan.save(self.folder / "plan.json")
        (self.folder / "load.lua").write_text(LOAD)
        keyveil = str(Path(sys.executable).parent / "keyveil")
        words = ["collection", "create", "bench", "plan.json", "--store", store]
        words += [] if people is None else ["--people", str(people)]
        if create:
            subprocess.run([keyveil, *words], cwd=self.folder, check=True, capture_output=True)
        self.plan, self._words = plan, [mode, store, segments]
        self._serve()

    def _serve(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVER, *self._words],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout is not None
        self.host = f"http://127.0.0.1:{int(self.process.stdout.readline())}"
        self.url = f"{self.host}/v1/collections/bench"

    def load(self, kind: str, number: int, seconds: int, connections: int = 64) -> tuple[float, float]:
        """Requests per second, and the 99th percentile of their latency in milliseconds."""
        return self.result(self.begin(kind, number, seconds, connections))

    def begin(
        self, kind: str, number: int, seconds: int, connections: int = 64
    ) -> subprocess.Popen[str]:
        """Start a load."""
        return subprocess.Popen(self._wrk(seconds, connections), **self._how(kind, number))

    def result(self, loading: subprocess.Popen[str]) -> tuple[float, float]:
        """Requests per second and latency of a load, when it has ended."""
        text = loading.communicate()[0]
        if "Non-2xx" in text or "Socket errors" in text:
            raise RuntimeError(f"the collector refused or broke: {text}")
        rate = re.search(r"Requests/sec:\s+([\d.]+)", text)
        late = re.search(r"99%\s+([\d.]+)(us|ms|s)", text)
        assert rate is not None
        assert late is not None
        return float(rate[1]), float(late[1]) * {"us": 0.001, "ms": 1.0, "s": 1000.0}[late[2]]

    def estimates(self, seconds: int) -> list[float]:
        """The seconds that each estimate takes while reports come in."""
        loading = subprocess.Popen(self._wrk(seconds, 32), **self._how("raw", BATCH))
        taken = []
        end = time.monotonic() + seconds - 0.5
        while time.monotonic() < end:
            time.sleep(0.2)
            begun = time.perf_counter()
            urllib.request.urlopen(f"{self.url}/estimates").read()
            taken.append(time.perf_counter() - begun)
        loading.communicate()
        return taken

    def processor(self) -> float:
        """Processor time of the process so far, in seconds."""
        return processor_time(self.process.pid)

    def memory(self) -> float:
        """Resident memory of the process in megabytes."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        match = re.search(r"VmRSS:\s+(\d+)", text)
        assert match is not None
        return int(match[1]) / 1024

    def restart(self) -> tuple[float, float]:
        """Kill and restart it; seconds until it is ready, and until a report is counted."""
        self.process.kill()
        self.process.communicate()
        begun = time.perf_counter()
        self._serve()
        while not self._answers(f"{self.host}/ready"):
            time.sleep(0.01)
        ready = time.perf_counter() - begun
        report = {"id": os.urandom(16).hex(), "cells": list(self.plan.report({}).cells)}
        epoch = int(time.time()) // 86_400
        body = json.dumps({"plan": self.plan.hash, "epoch": epoch, "reports": [report]}).encode()
        request = urllib.request.Request(
            f"{self.url}/reports", body, {"content-type": "application/json"}
        )
        while not self._answers(request):  # 503 while the ids of a large epoch are read
            time.sleep(0.01)
        return ready, time.perf_counter() - begun

    def _answers(self, url: str | urllib.request.Request) -> bool:
        try:
            urllib.request.urlopen(url).read()
        except OSError:
            return False
        return True

    def _wrk(self, seconds: int, connections: int) -> list[str]:
        words = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}", "--latency", "-s", "load.lua"]
        return [*words, f"{self.url}/reports"]

    def _how(self, kind: str, number: int) -> dict[str, object]:
        facts = {"PLAN": self.plan.hash, "EPOCH": int(time.time()) // 86_400, "N": number, "KIND": kind}
        facts["KEYS"] = KEYS
        environment = {**os.environ, **{name: str(value) for name, value in facts.items()}}
        return {"cwd": self.folder, "env": environment, "stdout": subprocess.PIPE, "text": True}

    def end(self) -> None:
        """Stop it and remove its folder."""
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate()
        shutil.rmtree(self.folder, ignore_errors=True)


def run(quick: bool) -> Outcome:
    """Rates in interleaved rounds, estimates while ingesting, memory over many reports."""
    if shutil.which("wrk") is None:
        return Outcome("collector", (), {}, ("collector: wrk is not installed, nothing was measured",))
    plan = Plan.of(Schema.of(KEYS, 1, 5), "kvue", 1)
    rounds, seconds = (1, 2) if quick else (3, 5)
    rates: dict[tuple[str, str], list[float]] = {}
    late: dict[tuple[str, str], list[float]] = {}
    work: dict[tuple[str, str], list[float]] = {}
    for _ in range(rounds):
        for mode in ("none", "sqlite"):
            server = Collector(mode, plan)
            try:
                server.load("json", 1, 1)  # warm
                for name, (kind, number) in LOADS.items():
                    before = server.processor()
                    rate, slow = server.load(kind, number, seconds)
                    used = (server.processor() - before) / (rate * number * seconds)
                    rates.setdefault((mode, name), []).append(rate * number)
                    work.setdefault((mode, name), []).append(used)
                    late.setdefault((mode, name), []).append(slow)
            finally:
                server.end()
    middle = {key: median(values) for key, values in rates.items()}
    cost = {key: min(values) for key, values in work.items()}
    first, *batches = LOADS
    lines = [
        (
            name,
            f"{middle['sqlite', name]:,.0f}",
            f"{middle['none', name]:,.0f}",
            f"{middle['sqlite', name] / middle['none', name]:.0%}",
            f"{cost['none', name] / cost['sqlite', name]:.0%}",
            times(middle["sqlite", name] / middle["sqlite", first]),
            f"{median(late['sqlite', name]):.0f} ms",
        )
        for name in LOADS
    ]
    shown = Table(
        f"Durable reports a second, {KEYS} keys, median of {rounds}",
        ("request", "SQLite", "no store", "share", "by processor time", "against one by one", "p99"),
        rows(lines),
        f"Aims: at least {AIM_SHARE:.0%} of the same server without a store; {AIM_BATCH:.0f} x as many "
        f"reports in batches of {BATCH}; 99 % of single reports durable within {AIM_LATE:.0f} ms. "
        "By processor time: what a report costs the server without a store, divided by what it costs "
        "with one, the least of all rounds each. wrk and whatever else runs share the machine, whose "
        f"load average was {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores.",
    )
    estimate_time, memory, restart = _beside(plan, quick)
    missed = []
    for name in LOADS:
        share = middle["sqlite", name] / middle["none", name]
        if share < AIM_SHARE:
            missed.append(f"collector: {name}: {share:.0%} of no store, aim {AIM_SHARE:.0%}")
    slow = median(late["sqlite", first])
    if slow > AIM_LATE:
        missed.append(f"collector: 99th percentile {slow:.0f} ms, aim {AIM_LATE:.0f} ms")
    best = max(middle["sqlite", name] for name in batches) / middle["sqlite", first]
    if best < AIM_BATCH:
        missed.append(f"collector: {best:.0f} x as many in batches, aim {AIM_BATCH:.0f} x")
    if estimate_time > AIM_ESTIMATE:
        missed.append(f"collector: an estimate took {estimate_time * 1000:.0f} ms, aim 50 ms")
    growth = memory[-1][1] - memory[0][1]
    if growth > AIM_GROWTH and not quick:
        missed.append(f"collector: memory grew by {growth:.0f} MB, aim {AIM_GROWTH} MB")
    if restart[0] > AIM_RESTART:
        missed.append(f"collector: ready {restart[0]:.1f} s after a start, aim {AIM_RESTART:.0f} s")
    figures = {
        "rates": {f"{mode}, {name}": value for (mode, name), value in middle.items()},
        "processor": {f"{mode}, {name}": value for (mode, name), value in cost.items()},
        "estimate": estimate_time,
        "memory": memory,
        "restart": restart,
    }
    tables = (shown, _memory_table(estimate_time, memory, restart))
    return Outcome("collector", tables, figures, tuple(missed))


def _beside(plan: Plan, quick: bool) -> tuple[float, list[tuple[int, float]], tuple[float, float]]:
    """Time of an estimate under load, memory over many reports, and a restart afterwards."""
    server = Collector("sqlite", plan)
    try:
        taken = server.estimates(3 if quick else 8)
        memory = []
        first, most = (200_000, 1_000_000) if quick else (2_500_000, 10_000_000)
        while len(memory) < 2 or memory[-1][0] < most:
            server.load("raw", 5000, 1 if quick else 4, connections=8)
            with urllib.request.urlopen(f"{server.url}/estimates") as answer:
                match = re.search(rb'"reports":(\d+)', answer.read())
            assert match is not None
            if int(match[1]) >= first:
                memory.append((int(match[1]), server.memory()))
        return median(taken), memory, server.restart()
    finally:
        server.end()


def _memory_table(
    estimate_time: float, memory: list[tuple[int, float]], restart: tuple[float, float]
) -> Table:
    shown = [*memory[: -1 : max(1, len(memory) // 4)], memory[-1]]
    lines = [(f"{reports:,}", f"{size:.0f} MB") for reports, size in dict(shown).items()]
    sizes = [size for _, size in memory]
    return Table(
        "Memory as one epoch's reports add up",
        ("reports", "resident"),
        rows(lines),
        f"Between {min(sizes):.0f} and {max(sizes):.0f} MB, while all ids of the epoch are known. "
        f"Killed then and started again, it was ready after {restart[0]:.1f} s; the first report, "
        f"for which all ids are read anew, was counted after {restart[1]:.1f} s. "
        f"An estimate of {KEYS} keys while reports came in took {estimate_time * 1000:.0f} ms (median).",
    )
