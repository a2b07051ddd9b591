"""Streaming writes, as Spark asks for them."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from samsarrow.spark.sink import finish, total, write_rows
from samsarrow.spark.write_options import WriteOptions

_log = logging.getLogger(__name__)


class KafkaStreamWriter(DataSourceStreamArrowWriter):
    """A streaming write: at least once, as Spark repeats micro-batches that fail, or exactly once in transactions."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """One task's rows of a micro-batch."""
        return write_rows(self._options, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """All tasks of the micro-batch are done."""
        _log.info("micro-batch %d written: %s", batchId, finish(self._options, messages))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """A task failed; what others sent stays, and is sent again with the repetition."""
        _log.warning("micro-batch %d failed after %s were written", batchId, total(messages))
