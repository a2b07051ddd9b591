"""A streaming read, as all versions of Spark ask for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader

if TYPE_CHECKING:
    from pyspark.sql.datasource import InputPartition

    from samsarrow.spark.driver import Driver
    from samsarrow.spark.options import ReadOptions

# `{"topic":{"0":23}}`, each the next one to read, sorted by topic and number of the partition: Spark takes offsets for
# equal only if their texts are.
Json = dict[str, dict[str, int]]


class StreamReader(DataSourceStreamReader):
    """What all versions of Spark ask for.

    One object lives on the driver for the whole query; another one, pickled, goes to the tasks and only reads.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._driver: Driver | None = None

    @property
    def driver(self) -> Driver:
        """The driver's part, made when it is first asked something."""
        from samsarrow.spark.driver import Driver

        if self._driver is None:
            self._driver = Driver(self._options)
        return self._driver

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options.for_tasks(), "_driver": None}

    def initialOffset(self) -> Json:  # noqa: N802
        """Where a new query starts."""
        offsets: Json = self.driver.ask("initial")["offsets"]
        return offsets

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The tasks of a micro-batch."""
        return list(self.driver.ranges("ranges", start=start, end=end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of one range, in a task."""
        from samsarrow.spark.fetch import read_range
        from samsarrow.spark.ranges import OffsetRange

        assert isinstance(partition, OffsetRange), "Spark reads the partitions that it was given"
        return read_range(self._options, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Everything before `end` is in the sink. Spark says so once the next micro-batch is planned."""
        self.driver.ask("commit", end=end)

    def stop(self) -> None:
        """Ends all connections."""
        driver, self._driver = self._driver, None
        if driver is not None:
            driver.close()
