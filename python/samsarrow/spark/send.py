"""One task of a write: Arrow batches out of Spark into topics."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import WriterCommitMessage

from samsarrow.admin import Admin
from samsarrow.config import options_of
from samsarrow.exceptions import ConfigurationError, KafkaError, UnknownTopicOrPartitionError
from samsarrow.producer import Producer
from samsarrow.spark.write_options import WriteOptions

# How long a topic that is not there may take to be made by the brokers, where they do that.
CREATION_S = 5.0


@dataclass
class Written(WriterCommitMessage):
    """What a task wrote.

    Attributes:
        rows: by topic.
    """

    rows: dict[str, int] = field(default_factory=dict)


class Producers:
    """Producers of a worker process by their options, kept from task to task."""

    def __init__(self, capacity: int = 8) -> None:
        self._capacity = capacity
        self._lock = threading.Lock()
        self._idle: list[tuple[tuple[tuple[str, str], ...], Producer, set[str]]] = []
        self._pid = os.getpid()

    @contextmanager
    def lease(self, config: Mapping[str, str]) -> Iterator[tuple[Producer, set[str]]]:
        """A producer and the topics that it has found; after an error it is closed, else kept."""
        key = tuple(sorted(config.items()))
        with self._lock:
            if self._pid != os.getpid():
                # The parent's; they cannot even be closed here.
                self._idle, self._pid = [], os.getpid()
            at = next((i for i, idle in enumerate(self._idle) if idle[0] == key), None)
            producer, topics = (Producer(config), set()) if at is None else self._idle.pop(at)[1:]
        try:
            yield producer, topics
        except BaseException:
            with suppress(Exception):
                producer.close(0)
            raise
        with self._lock:
            self._idle.append((key, producer, topics))
            gone = self._idle[: -self._capacity]
            self._idle = self._idle[-self._capacity :]
        for _, old, _ in gone:
            with suppress(Exception):
                old.close(0)


WORKER = Producers()
"""The producers of this worker process."""


def write_batches(options: WriteOptions, batches: Iterator[pa.RecordBatch]) -> Written:
    """Sends all rows and waits until they are stored; what went wrong is raised."""
    with WORKER.lease(options.kafka) as (producer, topics):
        return send_all(options, producer, batches, lambda topic: find_topic(options, producer, topics, topic))


def send_all(
    options: WriteOptions, producer: Producer, batches: Iterator[pa.RecordBatch], found: Callable[[str], None]
) -> Written:
    """Sends rows with a producer.

    Args:
        options: of the write.
        producer: to send with.
        batches: of the columns that Spark has.
        found: raises for a topic that does not exist; called before anything is sent to it.
    """
    written = Written()
    deliveries = []
    named: dict[str, Any] = {name: name for name in options.columns if name not in ("topic", "key", "value", "headers")}
    for batch in batches:
        if batch.num_rows == 0:
            continue
        parts = list(_by_topic(options, batch))
        for topic, _ in parts:
            found(topic)
        for topic, rows in parts:
            deliveries.append(producer.send_batch(topic, rows, **named))
            written.rows[topic] = written.rows.get(topic, 0) + rows.num_rows
        while len(deliveries) > 64 and deliveries[0].done():
            deliveries.pop(0).result()
    for delivery in deliveries:
        delivery.result()
    return written


def _by_topic(options: WriteOptions, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of each topic, with the columns that are sent."""
    wanted = [name for name in options.columns if name != "topic"]
    rows = batch.select(wanted)
    if options.topic is not None:
        yield options.topic, rows
        return
    topics = batch.column("topic")
    if topics.null_count:
        raise ConfigurationError(
            f"{topics.null_count} of {len(topics)} rows have a null topic and were not sent: without the option "
            "topic every row needs one"
        )
    names = pc.unique(topics).to_pylist()
    for name in names:
        yield name, rows if len(names) == 1 else rows.filter(pc.equal(topics, name))


def find_topic(options: WriteOptions, producer: Producer, topics: set[str], topic: str) -> None:
    """Raises unless the topic exists, or the brokers make it when they are asked for it.

    Args:
        options: of the write.
        producer: that will send.
        topics: that it has found, to which this one is added.
        topic: to look for.

    Raises:
        UnknownTopicOrPartitionError: there is no such topic.
    """
    if topic in topics:
        return
    config = {name: value for name, value in options.kafka.items() if name in options_of("admin")}
    with Admin(config) as admin:
        there = topic in admin.list_topics([topic])
    if not there:
        # Brokers may make a topic when a producer asks for it.
        patience = min(int(CREATION_S * 1000), int(options.kafka.get("max.block.ms", "60000")))
        with Producer({**options.kafka, "max.block.ms": str(patience)}) as asking:
            try:
                asking.partitions_for(topic)
            except KafkaError as error:
                raise UnknownTopicOrPartitionError(
                    f"topic {topic} does not exist, and the brokers do not make it: nothing was sent to it ({error})"
                ) from error
    producer.partitions_for(topic)
    topics.add(topic)
