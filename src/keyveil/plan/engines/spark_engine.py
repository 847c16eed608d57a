"""Apache Spark as an engine: segments are tasks, results are added up as a tree.

Spark Connect has DataFrames alone. A classic session also has a SparkContext, whose tasks cost less.
"""

from __future__ import annotations

import logging
import operator
import os
import pickle
import re
import shutil
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, reduce
from pathlib import Path
from typing import Any

from ...foundation import errors
from ...foundation.errors import KeyveilError, installation
from ...people.tables.frames import arrow
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
    r"StatusCode\.(UNAVAILABLE)": "the server of Spark Connect does not answer any more",
}
"""What Spark says if its workers or its server fail, and what we say."""
PATIENCE = 30.0
"""Seconds after which a quiet session says that no worker has come, and a server does not answer."""
FEW = 32
"""Number of results that the driver adds up by itself."""
ADDERS = 8
"""Most tasks that add up results before the driver does."""
CONNECT = "sc://"
"""How the address of a server of Spark Connect begins."""
MOST_WORKERS = 1 << 16
"""Number of workers that a session can be seen to have if it does not say."""
PICKLED = "content binary"
"""The column of results: each is pickled, and adds up."""


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

    @cached_property
    def workers(self) -> int:
        context = context_of(self.session)
        if context is not None:
            return int(context.defaultParallelism)
        from pyspark.sql import functions as f

        places = self.session.range(MOST_WORKERS).select(f.spark_partition_id().alias("place"))
        with plain_errors(), self._watched():
            ((last,),) = places.agg(f.max("place")).collect()
        return int(last) + 1

    def sum(
        self, work: Callable[[S], R], segments: Sequence[S], progress: Progress | None = None
    ) -> R | None:
        if not segments:
            return None
        with plain_errors(), self._watched():
            total: R
            if (context := context_of(self.session)) is not None:
                total = _tasks(context, work, segments).treeReduce(operator.add)
            else:
                results = _rows(self.session, work, segments)
                if len(segments) > FEW:
                    results = add_in_tasks(results, ADDERS)
                total = reduce(operator.add, contents(results))
        if progress is not None:
            progress(len(segments), len(segments))
        return total

    def each(
        self, work: Callable[[S], Any], segments: Sequence[S], progress: Progress | None = None
    ) -> Iterator[Any]:
        if not segments:
            return
        with plain_errors(), self._watched():
            results: Iterable[Any]
            if (context := context_of(self.session)) is not None:
                results = _tasks(context, work, segments).collect()
            else:
                results = contents(_rows(self.session, work, segments), "id")
        for done, result in enumerate(results, 1):
            yield result
            if progress is not None:
                progress(done, len(segments))

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Say that no worker has come; Spark itself would say so in the log that is off."""
        context = context_of(self.session)
        timer = threading.Timer(PATIENCE, _say_if_alone, [context, PATIENCE])
        timer.daemon = True
        if self._quiet and context is not None:
            timer.start()
        try:
            yield
        finally:
            timer.cancel()


def _tasks(context: Any, work: Callable[[S], Any], segments: Sequence[S]) -> Any:
    """What comes of each segment, in a task of its own."""
    return context.parallelize(segments, len(segments)).map(work)


def _rows(session: Any, work: Callable[[S], Any], segments: Sequence[S]) -> Any:
    """The same where there is no SparkContext: columns ``id`` and ``content``.

    A task has its own segment alone. It costs about twice as much as a task of a SparkContext, which
    shows where a segment is counted in a few milliseconds.
    """
    from pyspark.sql import functions as f

    pa, number = arrow(), len(segments)
    rows = pa.table({"id": range(number), "segment": [pickled(segment) for segment in segments]})
    one_each = session.range(0, number, 1, number)  # a row in each of as many partitions
    shipped = one_each.join(f.broadcast(session.createDataFrame(rows)), "id")
    return map_in_arrow(shipped, RunSegments(work), f"id bigint, {PICKLED}")


def context_of(session: Any) -> Any:
    """The SparkContext of a session; None on Spark Connect, which has none."""
    return getattr(session, "sparkContext", None)


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
    """The running session, or a new one: at ``master``, or as Spark's own settings say.

    A master such as ``sc://host:15002`` is a server of Spark Connect, as is the variable SPARK_REMOTE.
    """
    with needing_pyspark():
        from pyspark.sql import SparkSession

        active = SparkSession.getActiveSession()
    if active is not None:
        return active
    place = os.environ.get("SPARK_REMOTE", "") if master is None else master
    if place.startswith(CONNECT):
        return _remote_session(place)
    return _own_session(master, quiet)


def _own_session(master: str | None, quiet: bool) -> Any:
    """A session whose driver is a Java of this machine."""
    with needing_pyspark():
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
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
            "spark://host:7077, yarn, local[2] or sc://host:15002"
        ) from None
    except Py4JError:
        place = "with its settings" if master is None else f"at {master}"
        raise KeyveilError(f"Spark does not start {place}: no cluster answers") from None


def _remote_session(place: str) -> Any:
    """A session of a server of Spark Connect, which answers: Spark itself would try for ten minutes."""
    shown = place.partition(";")[0]  # what follows may be a token
    with needing_pyspark(), _without_pandas_warning():
        import grpc  # type: ignore[import-untyped]
        from pyspark.sql import SparkSession
        from pyspark.sql.connect.client import DefaultChannelBuilder
    try:
        with DefaultChannelBuilder(place).toChannel() as channel:
            grpc.channel_ready_future(channel).result(PATIENCE)
        return SparkSession.builder.remote(place).getOrCreate()
    except grpc.FutureTimeoutError:
        raise KeyveilError(f"no server of Spark Connect answers at {shown}") from None
    except ValueError:
        raise KeyveilError(f"{shown} is no address of Spark Connect; one is sc://host:15002") from None


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
        return frame.mapInArrow(_Briefly(work), schema)


def add_in_tasks(results: Any, tasks: int) -> Any:
    """The sums of a frame's results (column ``content``): one for each of so many tasks, or fewer."""
    return map_in_arrow(results.select("content").repartition(tasks), AddResults(), PICKLED)


def contents(results: Any, order: str | None = None) -> Iterator[Any]:
    """The results of a frame (column ``content``), which come to the driver; in order of a column."""
    rows = results.collect()
    if order is not None:
        rows.sort(key=operator.itemgetter(order))
    return (pickle.loads(row.content) for row in rows)


@dataclass(frozen=True)
class RunSegments:
    """Works on the segments of a task, of which there is one."""

    work: Callable[[Any], Any]

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        pa = arrow()
        for batch in batches:
            for place, segment in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                result = pickled(self.work(pickle.loads(segment)))
                yield pa.RecordBatch.from_pydict({"id": [place], "content": [result]})


@dataclass(frozen=True)
class AddResults:
    """Adds up the results that come to a task; nothing comes of none."""

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        results = (content for batch in batches for content in batch.column(0))
        total: Any = None
        for content in results:
            result = pickle.loads(content.as_buffer())
            total = result if total is None else total + result
        if total is not None:
            yield arrow().RecordBatch.from_pydict({"content": [pickled(total)]})


def pickled(value: object) -> bytes:
    """A value as Spark itself pickles what it sends: also one whose class the user's script has."""
    from pyspark import cloudpickle

    content: bytes = cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
    return content


@dataclass(frozen=True)
class _Briefly:
    """Work whose errors have no long traceback, if ``plain_errors`` makes one line of them.

    A server of Spark Connect may cut what it says of an error after two thousand characters.
    """

    work: Callable[[Any], Any]

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        try:
            yield from self.work(batches)
        except (KeyveilError, ImportError, MemoryError, OSError) as error:
            raise error.with_traceback(None) from None


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
