"""Batch writes, as Spark asks for them."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from samsarrow.exceptions import ConfigurationError
from samsarrow.spark.send import Written, write_batches
from samsarrow.spark.write_options import WriteOptions

_log = logging.getLogger(__name__)


class KafkaWriter(DataSourceArrowWriter):
    """A batch write, at least once: tasks that Spark repeats send their rows again."""

    def __init__(self, options: WriteOptions, overwrite: bool) -> None:
        if overwrite:
            raise ConfigurationError('a topic cannot be overwritten: write with .mode("append")')
        if options.exactly_once:
            raise ConfigurationError(
                "option exactlyOnce is for streaming queries: a batch write has no number by which its repetition "
                "could be told"
            )
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """One task's rows."""
        return write_batches(self._options, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """All tasks are done; their rows are stored already."""
        _log.info("written: %s", total(messages))


def total(messages: list[WriterCommitMessage | None]) -> dict[str, int]:
    """Rows by topic of all tasks."""
    rows: dict[str, int] = {}
    for message in messages:
        if isinstance(message, Written):
            for topic, count in message.rows.items():
                rows[topic] = rows.get(topic, 0) + count
    return rows
