"""Streaming writes for Spark 4.1 and later, which pass Arrow batches."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from samsarrow.spark.sink import finish, rows_by_topic, write_rows
from samsarrow.spark.write_options import WriteOptions

_log = logging.getLogger(__name__)


class KafkaStreamWriter(DataSourceStreamArrowWriter):
    """A streaming write: exactly once in transactions, otherwise at least once, because micro-batches may repeat."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Writes one task's rows of a micro-batch."""
        return write_rows(self._options, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Completes a micro-batch after all its tasks have succeeded."""
        _log.info("micro-batch %d written: %s", batchId, finish(self._options, messages))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Logs the failure of a micro-batch.

        Rows that were sent stay in the topic, and the repetition sends them again.
        """
        _log.warning("micro-batch %d failed after %s were written", batchId, rows_by_topic(messages))
