"""Micro-batches written exactly once: each task in a transaction that also notes the number of the micro-batch.

Spark repeats a micro-batch that did not end well, with the same number. A task first takes over the transactional id of
its place in the query, which ends whatever an earlier attempt left open; then it looks whether the note of this
micro-batch is there. If so its rows are in the topic already, and are passed over. A note of a later one, its own or
the driver's, says that the checkpoint was restored from an older copy: nothing is written.

The note is the committed offset of a group of its own: rows and note are in one transaction, so there are both or
neither. This holds as long as a repetition gives each task the same rows, which the note helps to check.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import pyarrow as pa

from samsarrow.group import ConsumerGroupMetadata
from samsarrow.producer import Producer
from samsarrow.spark.clients import here
from samsarrow.spark.notes import PREFIX, Counted, ReplayMismatchError, agree, count_of_tasks, note_of, note_tasks
from samsarrow.spark.places import Attempt, Place
from samsarrow.spark.send import Written, find_topic, send_all
from samsarrow.spark.write_options import WriteOptions
from samsarrow.types import OffsetAndMetadata, TopicPartition

_log = logging.getLogger(__name__)

# Kafka's own minute is little for a micro-batch; brokers allow 15 of them by default.
TRANSACTION_TIMEOUT_MS = "300000"


def write_once(options: WriteOptions, batches: Iterator[pa.RecordBatch]) -> Written:
    """Writes a task's rows of a micro-batch, unless an earlier attempt has."""
    place = Place.here()
    query = _query(options, place)
    name = f"{query}-{place.task}"
    # The driver's note: not every task has written in the last micro-batch, and none may write now.
    _refuse_rolled_back(place, note_of(options, query), "it has written")
    counted = Counted(batches, options)
    config = {"transaction.timeout.ms": TRANSACTION_TIMEOUT_MS, **here(options.kafka, options.token)}
    with Producer({**config, "transactional.id": name}) as producer:
        # Before looking for the note: an earlier attempt may be about to commit it.
        producer.init_transactions()
        noted = note_of(options, name)
        _refuse_rolled_back(place, noted, f"its task {place.task} has written")
        if noted is not None and noted.offset > place.batch:
            return _pass_over(options, counted, noted, place)
        first = next(iter_rows := (batch for batch in counted if batch.num_rows), None)
        if first is None:
            return Written(attempt=Attempt(place))
        topics: set[str] = set()

        def found(topic: str) -> None:
            find_topic(options.kafka, options.token, producer, topics, topic)

        with producer.transaction():
            written = send_all(options, producer, _chain(first, iter_rows), found)
            # Any topic will do for the note: the group has no other offset than this.
            written.attempt = Attempt(place, min(written.rows))
            note = {TopicPartition(min(written.rows), 0): OffsetAndMetadata(place.batch + 1, counted.note)}
            producer.send_offsets_to_transaction(note, ConsumerGroupMetadata(name, "", -1, None))
    return written


def _query(options: WriteOptions, place: Place) -> str:
    """The group in which the driver notes; those of tasks, and their transactional ids, have their number behind it."""
    return f"{options.prefix or PREFIX}-{place.query}"


def _refuse_rolled_back(place: Place, noted: OffsetAndMetadata | None, what: str) -> None:
    if noted is not None and noted.offset > place.batch + 1:
        raise ReplayMismatchError(
            f"query {place.query} is at micro-batch {place.batch}, but {what} micro-batch {noted.offset - 1} already: "
            "the checkpoint was restored from an older copy, or two queries share it. Nothing was written. Restore a "
            "checkpoint that is as new as the topic, or accept that rows are written twice by giving another "
            "transactionalIdPrefix"
        )


def _chain(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest


def _pass_over(options: WriteOptions, counted: Counted, noted: OffsetAndMetadata, place: Place) -> Written:
    for _ in counted:
        pass
    if not agree(noted.metadata, counted.note):
        _differs(
            options,
            place.batch,
            f"micro-batch {place.batch} of query {place.query} was written by task {place.task} with {noted.metadata}, "
            f"and its repetition brings {counted.note}: exactlyOnce needs the same rows in the same tasks each time "
            "(no shuffle that depends on chance, the same minPartitions and number of shuffle partitions)",
        )
    _log.info(
        "micro-batch %d is in the topic already (task %d of query %s): %d rows skipped",
        place.batch,
        place.task,
        place.query,
        counted.rows,
    )
    return Written(attempt=Attempt(place, repeated=True))


def check_tasks(options: WriteOptions, written: Sequence[Written]) -> None:
    """Notes how many tasks wrote a micro-batch, and compares that where it is repeated.

    Args:
        options: of the write.
        written: by all tasks of the micro-batch.

    Raises:
        ReplayMismatchError: other tasks wrote this micro-batch before.
    """
    attempts = [one.attempt for one in written if one.attempt is not None]
    if not attempts:
        return
    place, tasks = attempts[0].place, len(written)
    group = _query(options, place)
    if any(attempt.repeated for attempt in attempts):
        _compare_tasks(options, place, tasks, group)
    topics = [attempt.topic for attempt in attempts if attempt.topic is not None]
    if topics:
        note_tasks(options, group, min(topics), place.batch, tasks)


def _compare_tasks(options: WriteOptions, place: Place, tasks: int, group: str) -> None:
    noted = note_of(options, group)
    before = count_of_tasks(noted) if noted is not None else None
    if noted is None or before is None:
        return
    if noted.offset == place.batch + 1:
        others = before != tasks
    else:
        # It did not get as far as the driver's note. Tasks that there were in the micro-batch before may have written.
        names = (f"{group}-{task}" for task in range(tasks, before))
        notes = (note_of(options, name) for name in names)
        others = any(note is not None and note.offset == place.batch + 1 for note in notes)
    if others:
        _differs(
            options,
            place.batch,
            f"micro-batch {place.batch} of query {place.query} was written by {before} tasks, and its repetition has "
            f"{tasks}: rows may be in the topic twice. Restart with the same minPartitions and number of shuffle "
            "partitions",
        )


def _differs(options: WriteOptions, batch: int, text: str) -> None:
    """A repetition is not like what was written: an error, unless that is accepted for this micro-batch."""
    if options.accepted != batch:
        raise ReplayMismatchError(
            f"{text}. The option allowReplayMismatch={batch} continues anyway: records in the topic stay, and tasks "
            "that have written skip their rows"
        )
    _log.warning("%s (allowReplayMismatch=%d: continuing)", text, batch)
