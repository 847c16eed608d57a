"""A topic as Kafka has it, without Kafka: columns, partitions, and offsets that can be read again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

COLUMNS = (
    "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, "
    "timestampType int"
)


def send(folder: Path, partition: int, *messages: bytes | None) -> None:
    """Put messages at the end of a partition; None is a message without a value."""
    folder.mkdir(exist_ok=True)
    with (folder / str(partition)).open("a") as file:
        file.writelines(json.dumps(None if m is None else m.hex()) + "\n" for m in messages)


class Topic(DataSource):
    """A source of a stream; its option ``folder`` names the place of the messages."""

    @classmethod
    def name(cls) -> str:
        return "topic"

    def schema(self) -> str:
        return COLUMNS

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
        return _Reader(self.options["folder"])


class _Offsets(InputPartition):
    def __init__(self, partition: str, start: int, end: int) -> None:
        self.partition, self.start, self.end = partition, start, end


class _Reader(DataSourceStreamReader):
    def __init__(self, folder: str) -> None:
        self.folder = folder

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {path.name: 0 for path in sorted(Path(self.folder).iterdir())}

    def latestOffset(self) -> dict[str, int]:  # noqa: N802
        return {name: len(self._messages(name)) for name in self.initialOffset()}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [_Offsets(name, start.get(name, 0), last) for name, last in end.items()]

    def read(self, partition: Any) -> Iterator[tuple[Any, ...]]:
        messages, number = self._messages(partition.partition), int(partition.partition)
        for offset in range(partition.start, partition.end):
            yield None, messages[offset], "reports", number, offset, datetime(2026, 1, 1), 0

    def _messages(self, partition: str) -> list[bytes | None]:
        lines = map(json.loads, (Path(self.folder) / partition).read_text().splitlines())
        return [None if line is None else bytes.fromhex(line) for line in lines]
