"""Streaming writes in Spark 4.0, which gives a Python sink rows instead of Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from samsarrow.spark.send import write_batches
from samsarrow.spark.write_options import WriteOptions

# Rows that are made into one Arrow batch.
_ROWS = 10_000


class RowStreamWriter(DataSourceStreamWriter):
    """A streaming write: at least once, as Spark repeats micro-batches that fail, or exactly once in transactions."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        """One task's rows of a micro-batch."""
        batches = to_batches(iterator, self._schema)
        if self._options.exactly_once:
            from samsarrow.spark.exactly_once import write_once

            return write_once(self._options, batches)
        return write_batches(self._options, batches)


def to_batches(rows: Iterator[Row], schema: StructType) -> Iterator[pa.RecordBatch]:
    """Rows as Arrow batches."""
    from pyspark.sql.pandas.types import to_arrow_schema

    arrow = to_arrow_schema(schema, timezone="UTC")
    while some := list(islice(rows, _ROWS)):
        yield pa.RecordBatch.from_pylist([row.asDict(recursive=True) for row in some], arrow)
