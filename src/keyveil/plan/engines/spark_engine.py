"""Apache Spark as an engine: segments are tasks, results are added up as a tree."""

from __future__ import annotations

import logging
import operator
import os
import re
import shutil
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from ...foundation import errors
from ...foundation.errors import KeyveilError, installation
from .engine import Engine, Progress, R, S

NO_JAVA = (
    "Spark needs Java 17 or newer: install it (the package openjdk-17-jre-headless), or set JAVA_HOME"
)
LOG = logging.getLogger("keyveil.spark")
OWN_ERRORS = f"{errors.__name__}."
UNFIT = (
    ": install keyveil[data,fast] in a Python of the driver's version on every worker, and set "
    "PYSPARK_PYTHON to it"
)
OF_WORKERS = {
    r"ModuleNotFoundError: (No module named '[\w.]+')": "{} in the Python of the workers" + UNFIT,
    r"(Python in worker has different version: .*?),": "{}" + UNFIT,
    r'(Cannot run program ".*?")': "a worker fails: {}" + UNFIT,
    r"(?m)^\s*\w*Error: \[Errno \d+\] (.*)$": (
        "a worker fails: {}; the driver and all workers must read and write the files under one path"
    ),
    r"(?m)^\s*(?:[\w.]*\.)?(\w*MemoryError)|(Python worker exited unexpectedly|ExecutorLostFailure)": (
        "a worker was ended several times, most often for lack of memory; give workers more "
        "(spark.executor.memory and spark.executor.memoryOverhead), or fewer cores"
    ),
}
"""What Spark says if its workers fail, and what we say."""
PATIENCE = 30.0
"""Seconds after which a quiet session says that no worker has come."""


class SparkEngine(Engine):
    """Runs segments as tasks of a Spark session. The files must be readable by all workers.

    The workers need keyveil installed. Without a session it is the running one, or a new one: at
    ``master``, or as Spark's own settings say. It starts when the first task does, so that what is wrong
    with the files is told before. Once it has started, a ``quiet`` session logs nothing.
    """

    on_one_machine = False

    def __init__(self, session: Any = None, master: str | None = None, quiet: bool = False) -> None:
        self._given, self._master, self._quiet = session, master, quiet

    @cached_property
    def session(self) -> Any:
        """The session of Spark."""
        return self._given if self._given is not None else spark_session(self._master, self._quiet)

    @property
    def workers(self) -> int:
        return int(self.session.sparkContext.defaultParallelism)

    def sum(
        self, work: Callable[[S], R], segments: Sequence[S], progress: Progress | None = None
    ) -> R | None:
        if not segments:
            return None
        with plain_errors(), self._watched():
            total: R = self._tasks(work, segments).treeReduce(operator.add)
        if progress is not None:
            progress(len(segments), len(segments))
        return total

    def each(
        self, work: Callable[[S], Any], segments: Sequence[S], progress: Progress | None = None
    ) -> Iterator[Any]:
        if not segments:
            return
        with plain_errors(), self._watched():
            results = self._tasks(work, segments).collect()
        for done, result in enumerate(results, 1):
            yield result
            if progress is not None:
                progress(done, len(segments))

    def _tasks(self, work: Callable[[S], Any], segments: Sequence[S]) -> Any:
        return self.session.sparkContext.parallelize(segments, len(segments)).map(work)

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Say that no worker has come; Spark itself would say so in the log that is off."""
        timer = threading.Timer(PATIENCE, _say_if_alone, [self.session.sparkContext, PATIENCE])
        timer.daemon = True
        if self._quiet:
            timer.start()
        try:
            yield
        finally:
            timer.cancel()


def _say_if_alone(context: Any, seconds: float) -> None:
    """Warn if a cluster has given no executor; the driver is one of those that Spark lists."""
    if not context.master.startswith("local") and context._jsc.sc().getExecutorMemoryStatus().size() < 2:
        LOG.warning(
            "%s has given no worker in %.0f s; waiting goes on (it needs a free worker with 1 GB of "
            "memory that reaches this machine)",
            context.master,
            seconds,
        )


def spark_session(master: str | None = None, quiet: bool = False) -> Any:
    """The running session, or a new one: at ``master``, or as Spark's own settings say."""
    with needing_pyspark():
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    home = os.environ.get("JAVA_HOME")
    if not (Path(home, "bin", "java").exists() if home else shutil.which("java")):
        raise KeyveilError(NO_JAVA)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else workers take any python3
    try:
        builder = SparkSession.builder.appName("keyveil")
        if quiet:  # what goes wrong in a task is raised here, in one line
            builder = builder.config("spark.log.level", "OFF")
            builder = builder.config("spark.ui.showConsoleProgress", "false")
        with _without_pandas_warning():
            return (builder if master is None else builder.master(master)).getOrCreate()
    except PySparkException as error:
        reason = str(error).splitlines()[0]
        raise KeyveilError(
            f"Spark does not start ({reason}); it needs Java 17 or newer, and a master like "
            "spark://host:7077, yarn or local[2]"
        ) from None
    except Py4JError:
        place = "with its settings" if master is None else f"at {master}"
        raise KeyveilError(f"Spark does not start {place}: no cluster answers") from None


@contextmanager
def needing_pyspark() -> Iterator[None]:
    """Say in one line how to install Spark, where its package is missing."""
    try:
        yield
    except ImportError:
        raise KeyveilError(f"Spark is not installed: {installation('spark')}") from None


def map_in_arrow(frame: Any, work: Callable[[Any], Any], schema: str) -> Any:
    """``frame.mapInArrow``, without Spark's warning about versions of pandas, which is not used here."""
    with _without_pandas_warning():
        return frame.mapInArrow(work, schema)


@contextmanager
def _without_pandas_warning() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        yield


@contextmanager
def plain_errors() -> Iterator[None]:
    """Turn the failure of a task into its own KeyveilError, in one line, on the driver."""
    try:
        yield
    except KeyveilError:
        raise
    except Exception as error:
        for line in str(error).splitlines():
            name, separator, message = line.strip().partition(": ")
            kind = getattr(errors, name.removeprefix(OWN_ERRORS), None)
            if separator and name.startswith(OWN_ERRORS) and isinstance(kind, type):
                raise kind(message) from None
        for pattern, words in OF_WORKERS.items():
            if match := re.search(pattern, str(error)):
                raise KeyveilError(words.format(match[1])) from None
        raise
