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

import logging
from collections.abc import Iterator, Sequence

import pyarrow as pa

from samsarrow.group import ConsumerGroupMetadata
from samsarrow.producer import Producer
from samsarrow.spark.clients import localize
from samsarrow.spark.commit_markers import (
    PREFIX,
    CountedBatches,
    read_marker,
    same_rows,
    task_count_of,
    write_task_count,
)
from samsarrow.spark.errors import ReplayMismatchError
from samsarrow.spark.task_context import Attempt, TaskId
from samsarrow.spark.write_options import WriteOptions
from samsarrow.spark.write_task import Written, find_topic, send_all
from samsarrow.types import OffsetAndMetadata, TopicPartition

_log = logging.getLogger(__name__)

# Kafka's default of one minute is too short for a micro-batch. Brokers allow up to 15 minutes by default.
TRANSACTION_TIMEOUT_MS = "300000"


def write_once(options: WriteOptions, batches: Iterator[pa.RecordBatch]) -> Written:
    """Writes the rows that a task has in a micro-batch, unless an earlier attempt has written them."""
    task_id = TaskId.current()
    query = _query_group(options, task_id)
    name = f"{query}-{task_id.task}"
    # The driver's marker is checked too, because a task without rows in the last micro-batch has no marker for it.
    _reject_rolled_back(task_id, read_marker(options, query), "it has written")
    counted = CountedBatches(batches, options)
    config = {"transaction.timeout.ms": TRANSACTION_TIMEOUT_MS, **localize(options.kafka, options.token)}
    with Producer({**config, "transactional.id": name}) as producer:
        # Fences earlier attempts before the marker is read, because one of them may be about to commit a marker.
        producer.init_transactions()
        marker = read_marker(options, name)
        _reject_rolled_back(task_id, marker, f"its task {task_id.task} has written")
        if marker is not None and marker.offset > task_id.batch:
            return _skip_rows(options, counted, marker, task_id)
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
            offsets = {TopicPartition(min(written.rows), 0): OffsetAndMetadata(task_id.batch + 1, counted.metadata)}
            producer.send_offsets_to_transaction(offsets, ConsumerGroupMetadata(name, "", -1, None))
    return written


def _query_group(options: WriteOptions, task_id: TaskId) -> str:
    """Returns the group of the driver's marker. The groups and transactional ids of tasks also have the task number."""
    return f"{options.prefix or PREFIX}-{task_id.query}"


def _reject_rolled_back(task_id: TaskId, marker: OffsetAndMetadata | None, writer: str) -> None:
    if marker is not None and marker.offset > task_id.batch + 1:
        raise ReplayMismatchError(
            f"query {task_id.query} is at micro-batch {task_id.batch}, but {writer} micro-batch {marker.offset - 1} "
            "already: the checkpoint was restored from an older copy, or two queries share it. Nothing was written. "
            "Restore a checkpoint that is as new as the topic, or accept that rows are written twice by giving another "
            "transactionalIdPrefix"
        )


def _chain(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest


def _skip_rows(options: WriteOptions, counted: CountedBatches, marker: OffsetAndMetadata, task_id: TaskId) -> Written:
    for _ in counted:
        pass
    if not same_rows(marker.metadata, counted.metadata):
        _report_mismatch(
            options,
            task_id.batch,
            f"micro-batch {task_id.batch} of query {task_id.query} was written by task {task_id.task} with "
            f"{marker.metadata}, and its repetition brings {counted.metadata}: exactlyOnce needs the same rows in the "
            "same tasks each time (no shuffle that depends on chance, the same minPartitions and number of shuffle "
            "partitions)",
        )
    _log.info(
        "micro-batch %d is in the topic already (task %d of query %s): %d rows skipped",
        task_id.batch,
        task_id.task,
        task_id.query,
        counted.rows,
    )
    return Written(attempt=Attempt(task_id, repeated=True))


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
    task_id, tasks = attempts[0].task_id, len(written)
    group = _query_group(options, task_id)
    if any(attempt.repeated for attempt in attempts):
        _compare_tasks(options, task_id, tasks, group)
    topics = [attempt.topic for attempt in attempts if attempt.topic is not None]
    if topics:
        write_task_count(options, group, min(topics), task_id.batch, tasks)


def _compare_tasks(options: WriteOptions, task_id: TaskId, tasks: int, group: str) -> None:
    marker = read_marker(options, group)
    before = task_count_of(marker) if marker is not None else None
    if marker is None or before is None:
        return
    if marker.offset == task_id.batch + 1:
        mismatch = before != tasks
    else:
        # The first attempt failed before it wrote the driver's marker. It may have had more tasks than this attempt, as
        # many as the previous micro-batch, so the markers of these tasks are checked.
        names = (f"{group}-{task}" for task in range(tasks, before))
        markers = (read_marker(options, name) for name in names)
        mismatch = any(marker is not None and marker.offset == task_id.batch + 1 for marker in markers)
    if mismatch:
        _report_mismatch(
            options,
            task_id.batch,
            f"micro-batch {task_id.batch} of query {task_id.query} was written by {before} tasks, and its repetition "
            f"has {tasks}: rows may be in the topic twice. Restart with the same minPartitions and number of shuffle "
            "partitions",
        )


def _report_mismatch(options: WriteOptions, batch: int, text: str) -> None:
    """Raises an error about a repeated micro-batch that differs, unless `allowReplayMismatch` is its number."""
    if options.accepted != batch:
        raise ReplayMismatchError(
            f"{text}. The option allowReplayMismatch={batch} continues anyway: records in the topic stay, and tasks "
            "that have written skip their rows"
        )
    _log.warning("%s (allowReplayMismatch=%d: continuing)", text, batch)
