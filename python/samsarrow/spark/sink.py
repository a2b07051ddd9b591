"""Functions shared by batch and streaming sinks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from samsarrow.spark.exactly_once import check_tasks, write_once
from samsarrow.spark.value_encoders import encoded
from samsarrow.spark.write_options import WriteOptions
from samsarrow.spark.write_task import Written, write_batches


def write_rows(options: WriteOptions, batches: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
    """Writes one task's rows. Without `exactlyOnce`, a repeated task sends its rows again (at least once)."""
    if options.encoded:
        batches = encoded(options.encoded, batches)
    return write_once(options, batches) if options.exactly_once else write_batches(options, batches)


def finish(options: WriteOptions, messages: Sequence[WriterCommitMessage | None]) -> dict[str, int]:
    """Completes a write after all its tasks have stored their rows. Returns the number of rows by topic."""
    if options.exactly_once:
        check_tasks(options, [message for message in messages if isinstance(message, Written)])
    return rows_by_topic(messages)


def rows_by_topic(messages: Sequence[WriterCommitMessage | None]) -> dict[str, int]:
    """Returns the number of rows that all successful tasks wrote, by topic."""
    rows: dict[str, int] = {}
    for message in messages:
        if isinstance(message, Written):
            for topic, count in message.rows.items():
                rows[topic] = rows.get(topic, 0) + count
    return rows
