"""A real standalone cluster of Spark on loopback: one master and two workers, on ports of their own."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from keyveil import Coins

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
        "spark.cores.max": "20",  # ten of each worker; one is left for another application
        "spark.default.parallelism": "6",
        "spark.sql.leafNodeDefaultParallelism": "3",
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
    """One master, two workers with eleven slots each. ``stop`` ends every process that was started.

    Both workers are there before an application starts: else it takes all slots of the first one.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.processes = folder, list[subprocess.Popen[bytes]]()
        port = free_port()
        self.url = f"spark://127.0.0.1:{port}"
        here = ("--host", "127.0.0.1", "--webui-port", "0")
        self.start("master", "org.apache.spark.deploy.master.Master", *here, "--port", str(port))
        wait_until(lambda: _answers(port), "the master does not answer")
        for number in (1, 2):
            room = ("--cores", "11", "--memory", "3g", "--work-dir", str(folder / f"work-{number}"))
            worker = "org.apache.spark.deploy.worker.Worker"
            self.start(f"worker-{number}", worker, *here, "--port", "0", *room, self.url)
        log = folder / "master.log"
        wait_until(lambda: log.read_text().count("Registering worker") == 2, "a worker does not come")

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

    def applications(self) -> set[tuple[str, str]]:
        """Each worker with each application that it has worked for."""
        return {(path.parent.name, path.name) for path in self.folder.glob("work-?/app-*")}

    def kill_worker(self, number: int) -> None:
        """Kill a worker and its executor, as a machine that goes dark."""
        self.end(self.processes.pop(number))

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
    with without_pandas_warning():
        made = builder.getOrCreate()
    made.sparkContext.setLogLevel("OFF")
    return made


@contextmanager
def without_pandas_warning() -> Iterator[None]:
    """While Spark imports its modules: as an error it makes Spark believe that pandas is missing."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        yield


class Gate:
    """Lets a test stop tasks in their middle: those that arrive wait until the gate is open."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)

    def arrive(self, job: str) -> None:
        """A task of a job is here; go on when the gate is open."""
        folder = Path(self.folder)
        (worker,) = re.findall(r"/(work-\d)/", os.getcwd() + "/")
        (folder / f"{worker} {job} {os.getpid()} {time.time_ns()}").touch()
        wait_until((folder / "open").exists, "the gate was never opened")

    def jobs_on(self, worker: int) -> set[str]:
        """The jobs that have a task of this worker here."""
        return {path.name.split()[1] for path in Path(self.folder).glob(f"work-{worker} *")}

    def tasks_of(self, job: str) -> int:
        """The number of tasks of a job that have been here; one that runs again counts again."""
        return len(list(Path(self.folder).glob(f"work-? {job} *")))

    def open(self) -> None:
        """Let all tasks pass."""
        (Path(self.folder) / "open").touch()


class GatedCoins(Coins):
    """Coins that stop a task at a gate when it has read its people and begins to draw their reports."""

    def __init__(self, coins: Coins, gate: Gate, job: str) -> None:
        self.coins, self.gate, self.job = coins, gate, job

    def for_reports(self, plan_hash: str) -> Coins:
        self.gate.arrive(self.job)
        return self.coins.for_reports(plan_hash)


class ConnectServer:
    """A server of Spark Connect with two slots, on loopback; a task that fails runs once more."""

    def __init__(self, folder: Path) -> None:
        port = free_port()
        self.url, self.log = f"sc://127.0.0.1:{port}", folder / "server.log"
        own = {
            **settings(folder),
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(port),
            "spark.sql.adaptive.coalescePartitions.enabled": "true",
        }
        words = [str(Path(environment()["SPARK_HOME"], "bin", "spark-submit"))]
        words += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
        words += [
            "--master",
            "local[2,2]",
        ]
        words += [word for name, value in own.items() for word in ("--conf", f"{name}={value}")]
        env = {**environment(), "KEYVEIL_FAST": "0", "SPARK_DAEMON_MEMORY": "640m"}
        with self.log.open("wb") as out:
            self._process = subprocess.Popen(
                [*words, "spark-internal"], env=env, stdout=out, stderr=out, start_new_session=True
            )
        try:
            wait_until(
                lambda: _answers(port) or self._process.poll() is not None, "the server does not answer"
            )
            assert self._process.poll() is None, self.log.read_text()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End the server and all that it started."""
        Cluster.end(self._process)
