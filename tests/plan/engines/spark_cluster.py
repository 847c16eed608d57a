"""A real standalone cluster of Spark on loopback: one master and two workers, on ports of their own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from keyveil import Coins, Tally
from keyveil.people.tables.frames import Columns
from keyveil.plan.engines.privatising import privatised_rows
from keyveil.plan.engines.shipped_plan import unship

HERE = Path(__file__).parent
QUICK_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto"
PATIENCE = 300


def environment() -> dict[str, str]:
    """What Spark's processes need: loopback alone, our Python, and the modules of the tests."""
    import pyspark

    return {
        **os.environ,
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": QUICK_JVM,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(HERE),
    }


def settings(folder: Path) -> dict[str, str]:
    """Settings of a small application."""
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.cores.max": "6",  # three of each worker; one is left for another application
        "spark.driver.extraJavaOptions": QUICK_JVM,
        "spark.executor.extraJavaOptions": QUICK_JVM,
        "spark.executorEnv.PYTHONPATH": str(HERE),
        "spark.executorEnv.KEYVEIL_FAST": "0",  # tasks start sooner, and the results must be the same
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.adaptive.coalescePartitions.enabled": "false",
        "spark.task.maxFailures": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "spark"),
    }


class Cluster:
    """One master, two workers with four slots each. ``stop`` ends every process that was started."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.processes = folder, list[subprocess.Popen[bytes]]()
        port = free_port()
        self.url = f"spark://127.0.0.1:{port}"
        here = ("--host", "127.0.0.1", "--webui-port", "0")
        self.start("master", "org.apache.spark.deploy.master.Master", *here, "--port", str(port))
        wait_until(lambda: _answers(port), "the master does not answer")
        for number in (1, 2):
            room = ("--cores", "4", "--memory", "3g", "--work-dir", str(folder / f"work-{number}"))
            worker = "org.apache.spark.deploy.worker.Worker"
            self.start(f"worker-{number}", worker, *here, "--port", "0", *room, self.url)

    def start(self, name: str, *words: str) -> Path:
        """Start a daemon of Spark in a process group of its own; its log."""
        log = self.folder / f"{name}.log"
        command = [str(Path(environment()["SPARK_HOME"], "bin", "spark-class")), *words]
        with log.open("wb") as out:
            self.processes.append(
                subprocess.Popen(
                    command, env=environment(), stdout=out, stderr=out, start_new_session=True
                )
            )
        return log

    def kill_worker(self) -> None:
        """Kill the last worker and its executor, as a machine that goes dark."""
        self.end(self.processes.pop())

    @staticmethod
    def end(process: subprocess.Popen[bytes]) -> None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def stop(self) -> None:
        """End all processes, workers first."""
        while self.processes:
            self.end(self.processes.pop())


def wait_until(holds: Callable[[], bool], otherwise: str) -> None:
    """Wait until a condition holds; an error if that takes too long."""
    give_up = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > give_up:
            raise TimeoutError(otherwise)
        time.sleep(0.02)


def _answers(port: int) -> bool:
    with socket.socket() as place:
        return place.connect_ex(("127.0.0.1", port)) == 0


def free_port() -> int:
    """A port that no one uses now."""
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return int(place.getsockname()[1])


def session(folder: Path, master: str) -> Any:
    """A session on the cluster, or another master."""
    from pyspark.sql import SparkSession

    os.environ.update({k: v for k, v in environment().items() if k != "PYTHONPATH"})
    builder = SparkSession.builder.appName("keyveil tests").master(master)
    for name, value in settings(folder).items():
        builder = builder.config(name, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("OFF")
    return made


class Gate:
    """Lets a test stop tasks in their middle: those that arrive wait until the gate is open."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)

    def arrive(self) -> None:
        """A task is here; go on when the gate is open."""
        folder = Path(self.folder)
        (folder / f"at-{os.getpid()}-{time.monotonic_ns()}").touch()
        wait_until((folder / "open").exists, "the gate was never opened")

    def wait_for(self, tasks: int) -> None:
        """Until so many tasks are here."""
        here = Path(self.folder)
        wait_until(lambda: len(list(here.glob("at-*"))) >= tasks, "too few tasks came to the gate")

    def open(self) -> None:
        """Let all tasks pass."""
        (Path(self.folder) / "open").touch()

    def __call__(self, batches: Any) -> Any:
        """For ``mapInArrow``: the same rows, past the gate."""
        self.arrive()
        yield from batches


@dataclass(frozen=True)
class PrivatiseAndCount:
    """Privatises a segment under several plans, and counts; all but the first two stop at a gate."""

    plans: tuple[str, ...]
    coins: Coins
    gate: Gate

    def __call__(self, numbered: tuple[int, Any]) -> np.ndarray:
        number, segment = numbered
        if number >= 2:
            self.gate.arrive()
        columns, counts = Columns("person", "key", "value", lenient=True), []
        for plan in map(unship, self.plans):
            tally = Tally(plan)
            for batch in privatised_rows(plan, segment.table(columns), columns, self.coins):
                tally.add(batch)
            counts.append(tally.counts)
        return np.concatenate(counts)
