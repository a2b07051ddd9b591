"""What sinks have in common, in batches and in streams, whatever Spark gives them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from samsarrow.spark.encoded import encoded
from samsarrow.spark.exactly_once import check_tasks, write_once
from samsarrow.spark.send import Written, write_batches
from samsarrow.spark.write_options import WriteOptions


def write_rows(options: WriteOptions, batches: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
    """One task's rows: at least once, as tasks that Spark repeats send theirs again, or exactly once."""
    if options.encoded:
        batches = encoded(options.encoded, batches)
    return write_once(options, batches) if options.exactly_once else write_batches(options, batches)


def finish(options: WriteOptions, messages: Sequence[WriterCommitMessage | None]) -> dict[str, int]:
    """All tasks are done, and their rows stored; gives those by topic."""
    if options.exactly_once:
        check_tasks(options, [message for message in messages if isinstance(message, Written)])
    return total(messages)


def total(messages: Sequence[WriterCommitMessage | None]) -> dict[str, int]:
    """Rows by topic of all tasks that have ended well."""
    rows: dict[str, int] = {}
    for message in messages:
        if isinstance(message, Written):
            for topic, count in message.rows.items():
                rows[topic] = rows.get(topic, 0) + count
    return rows
