"""Batch reads, which are planned on the driver and read in tasks."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader

from samsarrow.spark.ranges import OffsetRange

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition

    from samsarrow.spark.options import ReadOptions


class KafkaReader(DataSourceReader):
    """A batch read. It has only options, because Spark pickles it for workers, which create their own consumers.

    It does not implement `pushFilters`: Spark (seen in 4.1 to 4.3) keeps the plan of a Python source with its filters
    in the table object that all scans of a DataFrame share, so ranges that were narrowed for one filter would apply to
    every other scan too.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_options": self._options.for_tasks()}

    def partitions(self) -> list[InputPartition]:
        """Plans the offset ranges to read. Runs on the driver.

        Spark calls this once per DataFrame and keeps the result for all its actions.
        """
        from samsarrow.spark.driver import Driver

        planned = time.time()
        with Driver(self._options) as driver:
            return [replace(offset_range, planned=planned) for offset_range in driver.ranges("batch")]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Reads the records of a range in order. Runs in a task."""
        from samsarrow.spark.fetch import read_range

        if not isinstance(partition, OffsetRange):
            # If no ranges were planned, Spark calls this method once with a default `InputPartition`.
            return iter(())
        return read_range(self._options, partition)
