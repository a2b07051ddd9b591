"""Batch writes."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from samsarrow.spark.sink import finish, write_rows
from samsarrow.spark.write_options import WriteOptions

_log = logging.getLogger(__name__)


class KafkaWriter(DataSourceArrowWriter):
    """A batch write: exactly once within a streaming query, otherwise at least once, because tasks may repeat."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Writes one task's rows."""
        return write_rows(self._options, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Completes the write after all tasks have stored their rows."""
        _log.info("written: %s", finish(self._options, messages))
