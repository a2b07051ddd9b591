"""Read task, which reads the records of one offset range as Arrow batches of a size that suits Spark."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from samsarrow import _core
from samsarrow.exceptions import (
    BadValueError,
    KafkaError,
    KafkaTimeoutError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
)
from samsarrow.spark.arrow_columns import ToSpark, arrow_schema
from samsarrow.spark.client_cache import ADMINS, reading
from samsarrow.spark.clients import admin_options, localize
from samsarrow.spark.errors import report_loss
from samsarrow.spark.options import ReadOptions
from samsarrow.spark.ranges import OffsetRange
from samsarrow.types import TopicPartition

if TYPE_CHECKING:
    from samsarrow.consumer import Consumer

# Spark converts batches to rows fastest if they have 2k to 50k rows. Its IPC allows at most 2 GiB per batch.
MIN_ROWS = 8_000
MAX_ROWS = 50_000
MAX_BYTES = 4 << 20
# Brokers fill Fetch responses with records beyond the end of a range, so small ranges use a smaller maximum size.
SMALL_RANGE = 10_000
SMALL_FETCH = 1 << 20
POLL_S = 0.5
# Seconds between attempts to read an offset that a new leader does not have yet.
CATCH_UP_S = 0.1
# Age in seconds from which reads of a plan log a warning. Spark keeps the plan of a DataFrame for all its actions.
OLD_PLAN_S = 600.0
# Old plans that this worker has already reported, at most `MAX_REPORTED`.
_reported: set[tuple[str, float]] = set()
MAX_REPORTED = 64

_log = logging.getLogger(__name__)


def read_range(options: ReadOptions, offset_range: OffsetRange) -> Iterator[pa.RecordBatch]:
    """Yields the records of a range in order, as batches with exactly the schema that Spark expects."""
    _report_old_plan(offset_range)
    schema = arrow_schema(options.columns, options.text, options.types)
    to_spark = ToSpark(schema, offset_range.topic, options.types)
    batches = join_small(_RangeReader(options, offset_range).batches())
    if options.decoded:
        # Imported here because reads of bytes do not need formats, the registry client and a producer.
        from samsarrow.spark import values
        from samsarrow.spark.dead_letters import DeadLetterSender

        batches = values.decoded(options.decoded, batches, DeadLetterSender(options.kafka, offset_range.token).send)
    for batch in batches:
        try:
            yield to_spark(batch)
        except BadValueError as error:
            first, last = (batch.column("offset")[row].as_py() for row in (0, -1))
            error.add_note(f"It is in {offset_range.topic}-{offset_range.partition}, in offsets {first} to {last}.")
            raise


def _report_old_plan(offset_range: OffsetRange) -> None:
    """Logs a warning if a DataFrame was planned so long ago that newer records are missing."""
    if offset_range.planned is None or (age := time.time() - offset_range.planned) < OLD_PLAN_S:
        return
    plan = (offset_range.topic, offset_range.planned)
    if plan in _reported:
        return
    if len(_reported) >= MAX_REPORTED:
        _reported.clear()
    _reported.add(plan)
    _log.warning(
        "topic %s is read as it was %.0f minutes ago, when the DataFrame was planned, without later records and "
        "partitions: Spark keeps the plan of a Python source for all actions on a DataFrame or view. Load it again, or "
        "use samsarrow-jvm",
        offset_range.topic,
        age / 60,
    )


def consumer_options(options: ReadOptions, offset_range: OffsetRange) -> dict[str, Any]:
    """Returns the options of a task's consumer."""
    config: dict[str, Any] = {"max.poll.records": MAX_ROWS}
    if len(offset_range) <= SMALL_RANGE:
        config["max.partition.fetch.bytes"] = SMALL_FETCH
    # `group.id` is left out, because only the driver commits offsets.
    config |= {n: value for n, value in localize(options.kafka, offset_range.token).items() if n != "group.id"}
    headers = "headers" in options.columns
    if options.decoded:
        from samsarrow.spark import values

        headers = headers or values.needs_headers(options.decoded)
    return config | {"auto.offset.reset": "none", "include.headers": headers}


class _RangeReader:
    """Reader of one offset range. Offsets without rows, such as control records, only advance the position."""

    def __init__(self, options: ReadOptions, offset_range: OffsetRange) -> None:
        self._options = options
        self._range = offset_range
        self._tp = TopicPartition(offset_range.topic, offset_range.partition)
        self._position = offset_range.start

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the batches of the range as they arrive."""
        config = consumer_options(self._options, self._range)
        end, timeout = self._range.end, self._options.poll_timeout_s
        with reading(config, self._tp, self._position, end) as consumer:
            deadline = _core.Deadline(timeout)
            while self._is_before_the_end(consumer):
                before = self._position
                batch = self._poll(consumer, min(POLL_S, timeout))
                if batch is None:
                    return
                if batch.num_rows:
                    # The position is past these rows, so an error from here on must fail the task.
                    yield batch
                elif self._is_before_the_end(consumer) and self._position == before:
                    if self._is_beyond_the_log(consumer):
                        return
                    if deadline.passed():
                        raise KafkaTimeoutError(
                            f"no record of {self._name} arrived for {timeout:g} s: at offset {self._position}, reading "
                            f"up to {end} (kafkaConsumer.pollTimeoutMs)"
                        )
                    continue
                deadline = _core.Deadline(timeout)

    def _is_before_the_end(self, consumer: Consumer) -> bool:
        """Updates the position. Returns true if rows remain to be read."""
        unfinished, without_end, _ = consumer._open.bounds()
        if without_end:
            raise KafkaError(f"{self._name} is read without an end instead of up to {self._range.end}")
        for _, position, _ in unfinished:
            if position is not None:
                self._position = position
        return bool(unfinished)

    @property
    def _name(self) -> str:
        return f"{self._tp.topic}-{self._tp.partition}"

    def _poll(self, consumer: Consumer, timeout: float) -> pa.RecordBatch | None:
        """Returns the next batch, which may be empty; None if the rest of the range is lost."""
        try:
            return consumer.poll(timeout)
        except OffsetOutOfRangeError:
            first, last = self._log(consumer)
        except UnknownTopicOrPartitionError as error:
            self._lost(f"the partition is gone: {error}")
            return None
        end = self._range.end
        if self._position < first:
            self._lost(f"the log starts at {first} now: older records were deleted, by retention or by hand")
            if first >= end:
                return None
            consumer.seek(self._tp, first)
        elif self._position > last:
            self._lost(f"the log ends at {last}: it was truncated, or the topic was deleted and recreated")
            return None
        else:
            # Retries after a pause: either the log has the offset by now, or the new leader still has to fetch it from
            # another replica.
            time.sleep(CATCH_UP_S)
            consumer.seek(self._tp, self._position)
        return pa.RecordBatch.from_pylist([], schema=consumer.schema)

    def _is_beyond_the_log(self, consumer: Consumer) -> bool:
        """Returns true if the log ends within the range, so that no more rows will arrive."""
        first, last = self._log(consumer)
        if self._position < last:
            return False
        self._lost(
            f"the log, which starts at {first}, ends at {last}: the records up to {self._range.end} were never there, "
            "or the log was truncated, or the topic was deleted and recreated"
        )
        return True

    def _log(self, consumer: Consumer) -> tuple[int, int]:
        """Returns the log start offset and the high watermark, even with `read_committed`."""
        if self._options.kafka.get("isolation.level", "").lower() == "read_committed":
            # Imported here because few tasks need an admin client.
            from samsarrow.admin_types import OffsetSpec

            ends = (OffsetSpec.EARLIEST, OffsetSpec.LATEST)
            with ADMINS.lease(admin_options(self._options.kafka, self._range.token)) as handle:
                first, last = (handle.client.list_offsets({self._tp: spec})[self._tp] for spec in ends)
            if first is None or last is None:
                raise KafkaError(f"the brokers returned no first offset or no end of {self._name}: read again")
            return first.offset, last.offset
        return consumer.beginning_offsets([self._tp])[self._tp], consumer.end_offsets([self._tp])[self._tp]

    def _lost(self, why: str) -> None:
        planned = self._range.planned
        if planned is not None:
            why += f"; the DataFrame was planned {max(0.0, time.time() - planned):.0f} s ago: load it again"
        report_loss(
            f"offsets {self._position} to {self._range.end} of {self._name} cannot be read: {why}",
            self._options.fail_on_data_loss,
        )


def join_small(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Joins batches that are too small to be sent to the JVM efficiently. Larger batches are passed on unchanged."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= MIN_ROWS or size >= MAX_BYTES:
            yield pa.concat_batches(held) if len(held) > 1 else batch
            held, rows, size = [], 0, 0
    if held:
        yield pa.concat_batches(held)
