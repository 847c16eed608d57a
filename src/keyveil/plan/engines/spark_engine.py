"""Apache Spark as an engine: segments are tasks, results are added up as a tree."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ...foundation.errors import KeyveilError
from .engine import Engine, Progress, R, S


class SparkEngine(Engine):
    """Runs segments as tasks of a Spark session. The files must be readable by all workers.

    The workers need keyveil installed, or shipped with ``--py-files``.
    """

    def __init__(self, session: Any = None) -> None:
        self.session = session if session is not None else spark_session()

    def sum(
        self, work: Callable[[S], R], segments: Sequence[S], progress: Progress | None = None
    ) -> R | None:
        if not segments:
            return None
        with said_plainly():
            total: R = self._tasks(work, segments).treeReduce(operator.add)
        if progress is not None:
            progress(len(segments), len(segments))
        return total

    def each(
        self, work: Callable[[S], Any], segments: Sequence[S], progress: Progress | None = None
    ) -> Iterator[Any]:
        if not segments:
            return
        with said_plainly():
            results = self._tasks(work, segments).collect()
        for done, result in enumerate(results, 1):
            yield result
            if progress is not None:
                progress(done, len(segments))

    def _tasks(self, work: Callable[[S], Any], segments: Sequence[S]) -> Any:
        return self.session.sparkContext.parallelize(segments, len(segments)).map(work)


def spark_session() -> Any:
    """The running session, or a new one as Spark's own settings say."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise KeyveilError("Spark is not installed: pip install 'keyveil[spark]'") from None
    return SparkSession.builder.appName("keyveil").getOrCreate()


class said_plainly:  # noqa: N801 - reads as a verb in a with statement
    """Turns a failed task's KeyveilError into that error on the driver, in one line."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        text = str(error) if error is not None else ""
        if error is None or isinstance(error, KeyveilError) or "keyveil.foundation.errors." not in text:
            return
        from ...foundation import errors

        for line in text.splitlines():
            name, found, message = line.strip().partition(": ")
            short = name.removeprefix("keyveil.foundation.errors.")
            if found and short != name and hasattr(errors, short):
                raise getattr(errors, short)(message) from None
