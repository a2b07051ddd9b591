"""A batch read: planned on the driver, read in tasks."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader

from samsarrow.spark.ranges import OffsetRange

if TYPE_CHECKING:
    from pyspark.sql.datasource import InputPartition

    from samsarrow.spark.options import ReadOptions


class KafkaReader(DataSourceReader):
    """A batch read. Holds options only: Spark pickles it, and a worker makes its own consumer.

    There is no `pushFilters`. Spark (seen in 4.1 to 4.3) keeps what a Python source planned with its filters in the
    table object that all scans of a DataFrame share, so ranges narrowed for one filter would be those of every other
    scan too.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_options": self._options.for_tasks()}

    def partitions(self) -> list[InputPartition]:
        """Asked on the driver: which ranges there are to read.

        Spark asks once for a DataFrame, and keeps the answer for all its actions.
        """
        from samsarrow.spark.driver import Driver

        planned = time.time()
        with Driver(self._options) as driver:
            return [replace(one, planned=planned) for one in driver.ranges("batch")]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Asked in a task: the range's records, in order, none outside it."""
        from samsarrow.spark.fetch import read_range

        if not isinstance(partition, OffsetRange):
            # Where there is no range at all, Spark asks once with a partition of its own.
            return iter(())
        return read_range(self._options, partition)
