"""One task: the records of one offset range, as Arrow batches of the size that Spark likes."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from samsarrow import _core
from samsarrow.consumer import Consumer
from samsarrow.exceptions import (
    BadValueError,
    ConfigurationError,
    KafkaError,
    KafkaTimeoutError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
)
from samsarrow.spark import values
from samsarrow.spark.clients import admin_options, here
from samsarrow.spark.errors import report_loss
from samsarrow.spark.handles import ADMINS, reading
from samsarrow.spark.letters import Letters
from samsarrow.spark.options import ReadOptions
from samsarrow.spark.ranges import OffsetRange
from samsarrow.spark.schema import ToSpark, arrow_schema
from samsarrow.types import TopicPartition

# Spark's way from Python to rows is at its best between 2k and 50k rows a batch; IPC takes no more than 2 GiB.
MIN_ROWS = 8_000
MAX_ROWS = 50_000
MAX_BYTES = 4 << 20
# A broker answers with as much as it may, whatever the end of the range: small ranges ask for little.
SMALL_RANGE = 10_000
SMALL_FETCH = 1 << 20
POLL_S = 0.5
# Between attempts at an offset that a new leader does not have yet.
CATCH_UP_S = 0.1
# A batch that is read this long after it was planned is reported: Spark keeps a DataFrame's plan for all its actions.
OLD_PLAN_S = 600.0
# The plans that this worker has reported, each once, and at most so many.
_reported: set[tuple[str, float]] = set()
MAX_REPORTED = 64

_log = logging.getLogger(__name__)


def read_range(options: ReadOptions, wanted: OffsetRange) -> Iterator[pa.RecordBatch]:
    """The range's records, in order, none outside it, with exactly the schema that Spark expects."""
    _report_old_plan(wanted)
    schema = arrow_schema(options.columns, options.text, options.types)
    to_spark = ToSpark(schema, wanted.topic, options.types)
    batches = gather(_Reading(options, wanted).batches())
    if options.decoded:
        for one in options.decoded:
            if one.letters == wanted.topic:
                raise ConfigurationError(
                    f"topic {wanted.topic} is read, and {one.name}.deadletter.topic, too: it would grow"
                )
        batches = values.decoded(options.decoded, batches, Letters(options.kafka, wanted.token).send)
    for batch in batches:
        try:
            yield to_spark(batch)
        except BadValueError as error:
            first, last = (batch.column("offset")[row].as_py() for row in (0, -1))
            error.add_note(f"It is in {wanted.topic}-{wanted.partition}, in offsets {first} to {last}.")
            raise


def _report_old_plan(wanted: OffsetRange) -> None:
    """Warns of rows that a DataFrame lacks because it was planned long ago."""
    if wanted.planned is None or (age := time.time() - wanted.planned) < OLD_PLAN_S:
        return
    plan = (wanted.topic, wanted.planned)
    if plan in _reported:
        return
    if len(_reported) >= MAX_REPORTED:
        _reported.clear()
    _reported.add(plan)
    _log.warning(
        "topic %s is read as it was %.0f minutes ago, when the DataFrame was planned, without later records and "
        "partitions: Spark keeps the plan of a Python source for all actions on a DataFrame or view. Load it again, or "
        "use samsarrow-jvm",
        wanted.topic,
        age / 60,
    )


def consumer_options(options: ReadOptions, wanted: OffsetRange) -> dict[str, Any]:
    """The options of a task's consumer."""
    config: dict[str, Any] = {"max.poll.records": MAX_ROWS}
    if len(wanted) <= SMALL_RANGE:
        config["max.partition.fetch.bytes"] = SMALL_FETCH
    # A group is there for the offsets that the driver commits; tasks have nothing to do with it.
    config |= {n: value for n, value in here(options.kafka, wanted.token).items() if n != "group.id"}
    headers = "headers" in options.columns or values.needs_headers(options.decoded)
    return config | {"auto.offset.reset": "none", "include.headers": headers}


class _Reading:
    """A range that is read up to its end, which the core keeps to: holes and markers move it without giving rows."""

    def __init__(self, options: ReadOptions, wanted: OffsetRange) -> None:
        self._options = options
        self._wanted = wanted
        self._tp = TopicPartition(wanted.topic, wanted.partition)
        self._position = wanted.start

    def batches(self) -> Iterator[pa.RecordBatch]:
        """What there is in the range, as it comes."""
        config = consumer_options(self._options, self._wanted)
        end, timeout = self._wanted.end, self._options.poll_timeout_s
        with reading(config, self._tp, self._position, end) as consumer:
            deadline = _core.Deadline(timeout)
            while self._is_before_the_end(consumer):
                before = self._position
                batch = self._poll(consumer, min(POLL_S, timeout))
                if batch is None:
                    return
                if batch.num_rows:
                    # The position is past these rows: what fails from here on fails the task.
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
        """Updates the position; returns whether there is more to read."""
        unfinished, without_end = consumer._open.bounds()
        if without_end:
            raise KafkaError(f"{self._name} is read without an end instead of up to {self._wanted.end}")
        for _, position, _ in unfinished:
            if position is not None:
                self._position = position
        return bool(unfinished)

    @property
    def _name(self) -> str:
        return f"{self._tp.topic}-{self._tp.partition}"

    def _poll(self, consumer: Consumer, timeout: float) -> pa.RecordBatch | None:
        """The next rows, maybe none; None when the rest of the range is lost."""
        try:
            return consumer.poll(timeout)
        except OffsetOutOfRangeError:
            first, last = self._log(consumer)
        except UnknownTopicOrPartitionError as error:
            self._lost(f"the partition is gone: {error}")
            return None
        end = self._wanted.end
        if self._position < first:
            self._lost(f"the log starts at {first} now: older records were deleted, by retention or by hand")
            if first >= end:
                return None
            consumer.seek(self._tp, first)
        elif self._position > last:
            self._lost(f"the log ends at {last}: it was truncated, or the topic was deleted and recreated")
            return None
        else:
            # Not so any more, or not of every replica: a new leader has to catch up.
            time.sleep(CATCH_UP_S)
            consumer.seek(self._tp, self._position)
        return pa.RecordBatch.from_pylist([], schema=consumer.schema)

    def _is_beyond_the_log(self, consumer: Consumer) -> bool:
        """Whether nothing comes because the log ends within the range."""
        first, last = self._log(consumer)
        if self._position < last:
            return False
        self._lost(
            f"the log, which starts at {first}, ends at {last}: the records up to {self._wanted.end} were never there, "
            "or the log was truncated, or the topic was deleted and recreated"
        )
        return True

    def _log(self, consumer: Consumer) -> tuple[int, int]:
        """First offset and end of the log, whatever transactions are open."""
        if self._options.kafka.get("isolation.level", "").lower() == "read_committed":
            # What belongs to an admin client is imported where a task needs one.
            from samsarrow.admin_types import OffsetSpec

            ends = (OffsetSpec.EARLIEST, OffsetSpec.LATEST)
            with ADMINS.lease(admin_options(self._options.kafka, self._wanted.token)) as handle:
                first, last = (handle.client.list_offsets({self._tp: spec})[self._tp] for spec in ends)
            if first is None or last is None:
                raise KafkaError(f"the brokers returned no first offset or no end of {self._name}: read again")
            return first.offset, last.offset
        return consumer.beginning_offsets([self._tp])[self._tp], consumer.end_offsets([self._tp])[self._tp]

    def _lost(self, why: str) -> None:
        planned = self._wanted.planned
        if planned is not None:
            why += f"; the DataFrame was planned {max(0.0, time.time() - planned):.0f} s ago: load it again"
        report_loss(
            f"offsets {self._position} to {self._wanted.end} of {self._name} cannot be read: {why}",
            self._options.fail_on_data_loss,
        )


def gather(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Joins batches that are too small to be worth a trip to the JVM; larger ones pass untouched."""
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
