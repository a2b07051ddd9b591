"""One task: the records of one offset range, as Arrow batches of the size that Spark likes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader

from samsarrow.spark.schema import arrow_schema, to_spark

if TYPE_CHECKING:
    from pyspark.sql.datasource import InputPartition

    from samsarrow.spark.options import ReadOptions
    from samsarrow.spark.ranges import OffsetRange

# Spark's way from Python to rows is at its best between 2k and 50k rows a batch; IPC takes no more than 2 GiB.
MIN_ROWS = 2_000
MAX_ROWS = 50_000
MAX_BYTES = 4 << 20


class KafkaReader(DataSourceReader):
    """A batch read. Holds options only: Spark pickles it, and a worker makes its own consumer."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """Asked on the driver: which ranges there are to read."""
        from samsarrow.spark.ranges import plan

        return list(plan(self._options))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Asked in a task: the range's records, in order, none outside it."""
        from samsarrow.spark.ranges import OffsetRange

        if not isinstance(partition, OffsetRange):
            # Where there is no range at all, Spark asks once with a partition of its own.
            return
        schema = arrow_schema(self._options.include_headers)
        for batch in gather(self._fetch(partition)):
            yield to_spark(batch, schema)

    def _fetch(self, wanted: OffsetRange) -> Iterator[pa.RecordBatch]:
        """Polls until the position has passed the range: holes and markers move it without giving rows."""
        from samsarrow.consumer import Consumer
        from samsarrow.exceptions import KafkaTimeoutError
        from samsarrow.types import TopicPartition

        timeout = self._options.poll_timeout_s
        tp = TopicPartition(wanted.topic, wanted.partition)
        config = {
            "max.poll.records": MAX_ROWS,
            **self._options.kafka,
            "auto.offset.reset": "none",
            # A group is named for the broker's quotas and logs; its offsets are not the source's to move.
            "enable.auto.commit": False,
            "include_headers": self._options.include_headers,
        }
        with Consumer(config) as consumer:
            consumer.assign([tp])
            consumer.seek(tp, wanted.start)
            position, deadline = wanted.start, time.monotonic() + timeout
            while position < wanted.end:
                batch = consumer.poll(min(1.0, timeout))
                reached = consumer.position(tp)
                if reached > position:
                    position, deadline = reached, time.monotonic() + timeout
                elif time.monotonic() > deadline:
                    raise KafkaTimeoutError(
                        f"no record of {tp.topic}-{tp.partition} arrived for {timeout:g} s: at offset {position}, "
                        f"reading up to {wanted.end} (kafkaConsumer.pollTimeoutMs)"
                    )
                if position > wanted.end and batch.num_rows:
                    batch = batch.slice(0, _rows_before(batch.column("offset"), wanted.end))
                if batch.num_rows:
                    yield batch


def _rows_before(offsets: pa.Array, end: int) -> int:
    """How many rows have an offset below `end`; offsets rise, so the search halves."""
    low, high = 0, len(offsets)
    while low < high:
        middle = (low + high) // 2
        if offsets[middle].as_py() < end:
            low = middle + 1
        else:
            high = middle
    return low


def gather(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Joins batches that are too small to be worth a trip to the JVM; larger ones pass untouched."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        size += batch.get_total_buffer_size() if rows < MIN_ROWS else 0
        if rows >= MIN_ROWS or size >= MAX_BYTES:
            yield pa.concat_batches(held) if len(held) > 1 else batch
            held, rows, size = [], 0, 0
    if held:
        yield pa.concat_batches(held)
