"""A topic on a broker that speaks Kafka's protocol, and a source of Spark that reads it.

The broker is the one that librdkafka has for tests: it listens on loopback and has messages in memory.
Spark's own Kafka package is a jar that Python's package index does not have; the source here gives its
columns, and offsets that can be read again.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

TOPIC = "reports"
PARTITIONS = (0, 1)
"""Those that the tests write to."""
SECONDS = 20.0
"""Time within which the broker must answer."""
COLUMNS = (
    "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, "
    "timestampType int"
)


class Broker:
    """A broker of this process, and an idempotent producer that sends to it."""

    def __init__(self) -> None:
        self._cluster = Producer({"test.mock.num.brokers": 1, "log_level": 0})
        (first,) = self._cluster.list_topics(timeout=SECONDS).brokers.values()
        self.address = f"{first.host}:{first.port}"
        self._producer = Producer({"bootstrap.servers": self.address, "enable.idempotence": True})

    def send(self, partition: int, *messages: bytes | None) -> None:
        """Put messages at the end of a partition; None is a message without a value."""
        for message in messages:
            self._producer.produce(TOPIC, message, partition=partition)
        assert self._producer.flush(SECONDS) == 0, "every message is on the broker"


class Topic(DataSource):
    """A source of a stream; its option ``broker`` is the address of a broker."""

    @classmethod
    def name(cls) -> str:
        return "topic"

    def schema(self) -> str:
        return COLUMNS

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
        return _Reader(self.options["broker"])


class _Offsets(InputPartition):
    def __init__(self, partition: str, start: int, end: int) -> None:
        self.partition, self.start, self.end = partition, start, end


class _Reader(DataSourceStreamReader):
    def __init__(self, broker: str) -> None:
        self.broker = broker

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {str(number): 0 for number in PARTITIONS}

    def latestOffset(self) -> dict[str, int]:  # noqa: N802
        consumer = self._consumer()
        places = (TopicPartition(TOPIC, number) for number in PARTITIONS)
        ends = {str(at.partition): consumer.get_watermark_offsets(at, SECONDS)[1] for at in places}
        consumer.close()
        return ends

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [_Offsets(number, start.get(number, 0), last) for number, last in end.items()]

    def read(self, partition: Any) -> Iterator[tuple[Any, ...]]:
        """The messages of a task, from the broker."""
        if partition.start == partition.end:
            return
        number, consumer = int(partition.partition), self._consumer()
        consumer.assign([TopicPartition(TOPIC, number, partition.start)])
        for offset in range(partition.start, partition.end):
            message = consumer.poll(SECONDS)
            assert message is not None, "the broker did not answer"
            assert (message.error(), message.offset()) == (None, offset)
            yield None, message.value(), TOPIC, number, offset, datetime(2026, 1, 1), 0
        consumer.close()

    def _consumer(self) -> Consumer:
        facts = {"group.id": "keyveil", "enable.auto.commit": False, "auto.offset.reset": "error"}
        return Consumer({"bootstrap.servers": self.broker, **facts})
