"""Exactly-once writes of micro-batches: each task writes in a transaction that also commits a marker.

Spark repeats a failed micro-batch with the same number. A task first takes over the transactional id of its query and
task number, which aborts or completes the open transaction of an earlier attempt. It then reads its marker. If this is
the marker of the same micro-batch, the rows are already in the topic and are skipped. If the task's or the driver's
marker is of a later micro-batch, the checkpoint was restored from an older copy, and nothing is written.

The marker is the committed offset of a separate group. Rows and marker are in one transaction, so both are visible or
neither is. This requires that each task gets the same rows in every attempt, which is checked by the metadata of the
marker.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from samsarrow import _core
from samsarrow.group import ConsumerGroupMetadata
from samsarrow.producer import Producer
from samsarrow.spark.clients import localize
from samsarrow.spark.commit_markers import CountedBatches, commit_marker, read_marker
from samsarrow.spark.task_context import Attempt, TaskId
from samsarrow.spark.write_options import WriteOptions
from samsarrow.spark.write_task import Written, find_topic, send_all
from samsarrow.types import OffsetAndMetadata, TopicPartition


def write_once(options: WriteOptions, batches: Iterator[pa.RecordBatch]) -> Written:
    """Writes the rows that a task has in a micro-batch, unless an earlier attempt has written them."""
    task_id = TaskId.current()
    attempt = _attempt(options, task_id)
    # The driver's marker is checked too, because a task without rows in the last micro-batch has no marker for it.
    if (begun := read_marker(options, attempt.group)) is not None:
        attempt.is_written(begun.offset, False)
    counted = CountedBatches(batches, options)
    config = localize(options.kafka, options.token)
    with Producer({**config, **attempt.producer_options(config)}) as producer:
        # Fences earlier attempts before the marker is read, because one of them may be about to commit a marker.
        producer.init_transactions()
        marker = read_marker(options, attempt.transactional_id)
        if marker is not None and attempt.is_written(marker.offset, True):
            for _ in counted:
                pass
            attempt.check_skipped_rows(marker.metadata, *counted.summary)
            return Written(attempt=Attempt(task_id, repeated=True))
        first = next(iter_rows := (batch for batch in counted if batch.num_rows), None)
        if first is None:
            return Written(attempt=Attempt(task_id))
        topics: set[str] = set()

        def check_topic(topic: str) -> None:
            find_topic(options.kafka, options.token, producer, topics, topic)

        with producer.transaction():
            written = send_all(options, producer, _chain(first, iter_rows), check_topic)
            # The marker can be the committed offset of any topic, because the group has no other offsets.
            written.attempt = Attempt(task_id, min(written.rows))
            offset = OffsetAndMetadata(*attempt.task_marker(*counted.summary))
            group = ConsumerGroupMetadata(attempt.transactional_id, "", -1, None)
            producer.send_offsets_to_transaction({TopicPartition(min(written.rows), 0): offset}, group)
    return written


def _attempt(options: WriteOptions, task_id: TaskId) -> _core.SparkAttempt:
    return _core.SparkAttempt(task_id.query, str(task_id.batch), task_id.task, options.prefix, options.accepted)


def _chain(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest


def check_tasks(options: WriteOptions, written: Sequence[Written]) -> None:
    """Commits the number of tasks that wrote a micro-batch. In a repetition, compares it with the earlier number first.

    Args:
        options: options of the write.
        written: results of all tasks of the micro-batch.

    Raises:
        ReplayMismatchError: an earlier attempt wrote this micro-batch with another number of tasks.
    """
    attempts = [result.attempt for result in written if result.attempt is not None]
    if not attempts:
        return
    attempt, tasks = _attempt(options, attempts[0].task_id), len(written)
    if any(attempt.repeated for attempt in attempts):
        _compare_tasks(options, attempt, tasks)
    topics = [attempt.topic for attempt in attempts if attempt.topic is not None]
    if topics:
        marker = OffsetAndMetadata(*attempt.driver_marker(tasks))
        commit_marker(options, attempt.group, TopicPartition(min(topics), 0), marker)


def _compare_tasks(options: WriteOptions, attempt: _core.SparkAttempt, tasks: int) -> None:
    begun = read_marker(options, attempt.group)
    if begun is None:
        return
    markers = (read_marker(options, group) for group in attempt.compare_tasks(begun.offset, begun.metadata, tasks))
    offset, _ = attempt.driver_marker(tasks)
    if any(marker is not None and marker.offset == offset for marker in markers):
        attempt.report_tasks(begun.metadata, tasks)
