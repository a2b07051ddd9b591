"""Micro-batches written exactly once: each task in a transaction that also notes the number of the micro-batch.

Spark repeats a micro-batch that did not end well, with the same number. A task first takes over the transactional id of
its place in the query, which ends whatever an earlier attempt left open; then it looks whether the note of this
micro-batch is there. If so its rows are in the topic already, and are passed over.

The note is the committed offset of a group of its own: rows and note are in one transaction, so there are both or
neither. This holds as long as a repetition gives each task the same rows, which the note helps to check.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from samsarrow.admin import Admin
from samsarrow.config import options_of
from samsarrow.exceptions import KafkaError
from samsarrow.group import ConsumerGroupMetadata
from samsarrow.producer import Producer
from samsarrow.spark.send import Written, find_topic, send_all
from samsarrow.spark.write_options import WriteOptions
from samsarrow.types import OffsetAndMetadata, TopicPartition

_log = logging.getLogger(__name__)

# Kafka's own minute is little for a micro-batch; brokers allow 15 of them by default.
TRANSACTION_TIMEOUT_MS = "300000"


# Of the names of transactions.
PREFIX = "samsarrow-spark"


class RepetitionError(KafkaError):
    """A micro-batch cannot be written exactly once: it brings other rows than before, or later ones are written."""

    name = "REPETITION"


@dataclass(frozen=True)
class Place:
    """Where a task is in a query: the same for every attempt of a micro-batch.

    Attributes:
        query: its id, which its checkpoint keeps.
        batch: number of the micro-batch.
        task: number of the task.
    """

    query: str
    batch: int
    task: int

    @classmethod
    def here(cls) -> Place:
        """That of the task that runs here.

        Raises:
            KafkaError: Spark does not tell it, so that nothing could be written exactly once.
        """
        context = TaskContext.get()
        query = context.getLocalProperty("sql.streaming.queryId") if context else None
        batch = context.getLocalProperty("streaming.sql.batchId") if context else None
        if context is None or not query or batch is None:
            raise KafkaError(
                "exactlyOnce needs a streaming query, or foreachBatch in one: its id and the number of the micro-batch "
                "are what Spark does not tell here. Nothing was written"
            )
        return cls(query, int(batch), context.partitionId())


class _Counted:
    """Batches as they pass, counted."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self.rows = self.bytes = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            self.rows += batch.num_rows
            # Lengths, not buffers: those may be larger than what is in them.
            self.bytes += pc.sum(pc.binary_length(batch.column("value"))).as_py() or 0
            yield batch

    @property
    def note(self) -> str:
        return json.dumps({"rows": self.rows, "bytes": self.bytes})


def write_once(options: WriteOptions, batches: Iterator[pa.RecordBatch]) -> Written:
    """Writes a task's rows of a micro-batch, unless an earlier attempt has."""
    place = Place.here()
    name = f"{options.prefix or PREFIX}-{place.query}-{place.task}"
    counted = _Counted(batches)
    config = {"transaction.timeout.ms": TRANSACTION_TIMEOUT_MS, **options.kafka, "transactional.id": name}
    with Producer(config) as producer:
        # Before looking for the note: an earlier attempt may be about to commit it.
        producer.init_transactions()
        noted = _noted(options, name)
        if noted is not None and noted.offset > place.batch + 1:
            raise RepetitionError(
                f"query {place.query} is at micro-batch {place.batch}, but its task {place.task} has written "
                f"micro-batch {noted.offset - 1} already: the checkpoint was restored from an older copy, or two "
                "queries share it. Nothing was written. Restore a checkpoint that is as new as the topic, or accept "
                "that rows are written twice by giving another transactionalIdPrefix"
            )
        if noted is not None and noted.offset > place.batch:
            return _pass_over(counted, noted, place, name)
        first = next(iter_rows := (batch for batch in counted if batch.num_rows), None)
        if first is None:
            return Written()
        topics: set[str] = set()

        def found(topic: str) -> None:
            find_topic(options, producer, topics, topic)

        with producer.transaction():
            written = send_all(options, producer, _chain(first, iter_rows), found)
            # Any topic will do for the note: the group has no other offset than this.
            at = TopicPartition(min(written.rows), 0)
            note = {at: OffsetAndMetadata(place.batch + 1, counted.note)}
            producer.send_offsets_to_transaction(note, ConsumerGroupMetadata(name, "", -1, None))
    return written


def _chain(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest


def _noted(options: WriteOptions, group: str) -> OffsetAndMetadata | None:
    config = {name: value for name, value in options.kafka.items() if name in options_of("admin")}
    with Admin(config) as admin:
        found = admin.fetch_offsets(group, require_stable=True)
    return max((at for at in found.values() if at is not None), default=None)


def _pass_over(counted: _Counted, noted: OffsetAndMetadata, place: Place, name: str) -> Written:
    for _ in counted:
        pass
    if noted.offset == place.batch + 1 and noted.metadata and counted.note != noted.metadata:
        raise RepetitionError(
            f"micro-batch {place.batch} of query {place.query} was written by task {place.task} with {noted.metadata}, "
            f"and its repetition brings {counted.note}: exactlyOnce needs the same rows in the same tasks each time "
            "(no shuffle that depends on chance, the same minPartitions and number of shuffle partitions)"
        )
    _log.info("micro-batch %d is in the topic already (%s): %d rows passed over", place.batch, name, counted.rows)
    return Written()
