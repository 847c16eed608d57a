"""Structured Streaming: files or messages that arrive, into a tally that grows and restarts exactly."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from ...foundation.errors import KeyveilError, ReportError
from ...people.tables.frames import arrow
from ..packing import IMPOSSIBLE, Packing
from ..plan import Plan
from ..report import Report, check_plan_name
from ..report_file import MAGIC, parse
from ..tally import Tally
from .report_columns import to_batch
from .report_files import ReportFiles
from .report_segments import check_path, is_data
from .shipped_plan import check_plan, ship, unship
from .spark_engine import SparkEngine, context_of, map_in_arrow, plain_errors, spark_session
from .spark_frames import check_frame, check_reports, report_schema, tally
from .stream_state import StreamState

LOG = logging.getLogger("keyveil.spark")
FILES = "path string, modificationTime timestamp, length bigint, content binary"
MAX_AGE = "36500d"
"""Spark forgets files that are older than this, and would not count one that arrives late."""


class RunningTally:
    """A streaming query that adds reports to a tally, and its state on disk."""

    def __init__(self, state: StreamState, query: Any) -> None:
        self.state, self.query = state, query
        """``query`` is Spark's: ``query.stop()``, ``query.awaitTermination()``, ``query.status``."""

    @property
    def tally(self) -> Tally:
        """The tally of all batches so far."""
        return self.state.tally

    @property
    def rejected(self) -> dict[str, Any]:
        """What was left out so far: messages by reason, and files with what is wrong with them."""
        return self.state.rejected


def running_tally(
    source: Any,
    plan: Plan,
    state: str | Path,
    *,
    session: Any = None,
    available_now: bool = False,
    files_at_once: int = 1000,
) -> RunningTally:
    """Start to count reports as they arrive, with all that is known in the folder ``state``.

    ``source`` is a folder into which files of reports of any form are moved when they are complete, or a
    streaming DataFrame: of reports, or of messages in a column ``value``, as Kafka has them. A message
    is one JSON report, several on lines, or a packed file. ``state`` belongs to this stream alone and
    is on storage of the driver that lasts; on Spark Connect the server sees it under the same path.
    After a crash the same call goes on: nothing is counted twice and nothing is lost.
    ``state/tally.kv`` is the latest tally. ``available_now`` counts what is there, and ends.
    """
    check_plan(plan)
    if isinstance(source, str | Path):
        check_path(source)
        frame = _files(spark_session() if session is None else session, Path(source), files_at_once)
    else:
        check_frame(source, plan, streams=True)
        if not source.isStreaming:
            raise ReportError("a running tally needs a streaming DataFrame; tally() counts all others")
        frame = messages(source, plan) if "value" in source.columns else source
        check_reports(frame, plan)
    kept = StreamState(Path(state).absolute(), plan)
    kept.check()
    if context_of(frame.sparkSession) is None:
        kept.mark()  # batches are added on the machine of the server
    work = AddFiles(kept, Path(source).absolute()) if isinstance(source, str | Path) else AddRows(kept)
    writer = frame.writeStream.foreachBatch(work).option("checkpointLocation", str(kept.checkpoint))
    if available_now:
        writer = writer.trigger(availableNow=True)
    with plain_errors():
        return RunningTally(kept, writer.start())


def messages(frame: Any, plan: Plan) -> Any:
    """The reports in messages (column ``value``, text or bytes); an unreadable one is impossible."""
    kind = dict(frame.dtypes)["value"]
    if kind not in ("string", "binary"):
        raise ReportError(f"the column 'value' of messages holds {kind}; it must be text or binary")
    values = frame.selectExpr("cast(value as binary) as value")
    return map_in_arrow(values, _ReadMessages(ship(plan)), report_schema(plan.packing))


def _files(session: Any, folder: Path, at_once: int) -> Any:
    """A stream of the paths of files; their content is read by tasks, not by this stream."""
    if not folder.is_dir():
        raise ReportError(f"there is no folder {folder} to read reports from")
    options = {"recursiveFileLookup": "true", "maxFileAge": MAX_AGE, "maxFilesPerTrigger": at_once}
    reader = session.readStream.format("binaryFile").schema(FILES).options(**options)
    return reader.load(folder.absolute().as_uri()).select("path")


@dataclass
class AddFiles:
    """Adds the files of a batch. A file whose content is bad is left out whole, and named."""

    state: StreamState
    folder: Path

    def __call__(self, batch: Any, number: int) -> None:
        self.state.check_mark()
        if self.state.has(number):
            return
        paths = [Path(unquote(urlsplit(row.path).path)) for row in batch.collect()]
        files = sorted(str(path) for path in paths if is_data(path, self.folder))
        engine = SparkEngine(batch.sparkSession)
        total, rejected = self._count(files, engine)
        self.state.add(number, total, rejected)
        for name, reason in rejected.items():
            LOG.warning("%s is left out: %s", name, reason)

    def _count(self, paths: list[str], engine: SparkEngine) -> tuple[Tally, dict[str, str]]:
        """All files at once; if the content of one is bad, each by itself in one more job.

        Only a ReportError is about content. All other errors end the query, and the batch comes again.
        """
        files, rejected = ReportFiles([], self.state.plan), dict[str, str]()
        for path in paths:
            try:
                files.add(path)
            except ReportError as error:
                rejected[path] = str(error)
        try:
            total = files.counted(engine)
        except ReportError:
            total, refused = files.counted_by_file(engine)
            rejected |= refused
        return total, {path: why.removeprefix(f"{path}: ") for path, why in rejected.items()}


@dataclass
class AddRows:
    """Adds the rows of a batch. A report that cannot be counted is left out, and its reason counted."""

    state: StreamState

    def __call__(self, batch: Any, number: int) -> None:
        self.state.check_mark()
        if self.state.has(number):
            return
        rejected: Counter[str] = Counter()
        total = tally(batch, self.state.plan, rejected=rejected)
        self.state.add(number, total, rejected)
        if rejected:
            left_out = ", ".join(f"{number} {reason}" for reason, number in rejected.items())
            LOG.warning("reports of a batch are left out: %s", left_out)


@dataclass(frozen=True)
class _ReadMessages:
    """Reads messages into the columns of reports, a batch of them at a time."""

    plan: str

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        plan = unship(self.plan)
        packing = plan.packing
        for batch in batches:
            rows, unreadable = list[bytes](), 0
            for content in batch.column(0).to_pylist():
                try:
                    rows.append(_in_message(plan, content or b""))
                except KeyveilError:
                    unreadable += 1
            read = to_batch(packing.reports(packing.rows(b"".join(rows))), packing, signed=True)
            yield read
            yield _impossible(read.schema, packing, unreadable)


def _impossible(schema: Any, packing: Packing, number: int) -> Any:
    """Reports that no device could send, which stand for messages that cannot be read."""
    pa = arrow()
    content = [[-1] * number, [bytes(packing.bits_width)] * number]
    arrays = [pa.array(own, column.type) for own, column in zip(content, schema, strict=False)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _in_message(plan: Plan, content: bytes) -> bytes:
    """The rows of the reports in a message, all of them or none."""
    packing = plan.packing
    if content.startswith(MAGIC):
        return b"".join(packing.packed(batch).tobytes() for batch in parse(plan, content))
    rows = list[bytes]()
    for line in content.splitlines():
        if line.strip():
            report = Report.parse(line)
            check_plan_name(report.plan, plan.hash, "the report belongs")
            row = packing.row(report.cells)
            if row is None:
                raise ReportError(IMPOSSIBLE)
            rows.append(row)
    if not rows:
        raise ReportError("the message is empty")
    return b"".join(rows)
