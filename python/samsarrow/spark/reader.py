"""A batch read: planned on the driver, read in tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader

from samsarrow.spark.pushdown import Predicates
from samsarrow.spark.ranges import OffsetRange

if TYPE_CHECKING:
    from pyspark.sql.datasource import InputPartition

    from samsarrow.spark.options import ReadOptions


class KafkaReader(DataSourceReader):
    """A batch read. Holds options only: Spark pickles it, and a worker makes its own consumer."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._predicates = Predicates()
        # A reader with a `pushFilters` of its own cannot be used at all unless
        # `spark.sql.python.filterPushdown.enabled` is set, which a worker cannot see. This one is taken for the
        # inherited one where it is not set, and called where it is.
        self.pushFilters = _PushFilters(self._predicates)  # type: ignore[method-assign]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_options": self._options.for_tasks()}

    def partitions(self) -> list[InputPartition]:
        """Asked on the driver: which ranges there are to read."""
        from samsarrow.spark.driver import Driver

        with Driver(self._options) as driver:
            return list(driver.ranges("batch", filters=self._predicates.question()))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Asked in a task: the range's records, in order, none outside it."""
        from samsarrow.spark.fetch import read_range

        if not isinstance(partition, OffsetRange):
            # Where there is no range at all, Spark asks once with a partition of its own.
            return iter(())
        return read_range(self._options, partition)


class _PushFilters:
    """`pushFilters` of a reader: takes what it can use and leaves every filter to Spark too."""

    def __init__(self, predicates: Predicates) -> None:
        self._predicates = predicates

    @property
    def __func__(self) -> Any:
        return getattr(DataSourceReader, "pushFilters", None)

    def __call__(self, filters: list[Any]) -> Iterable[Any]:
        self._predicates.take(filters)
        return filters
