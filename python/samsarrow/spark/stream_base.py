"""Base of streaming reads, which is common to all Spark versions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition

    from samsarrow.spark.driver import Driver
    from samsarrow.spark.options import ReadOptions

# Next offsets to read by topic and partition, as `{"topic":{"0":23}}`. They are sorted by topic and partition number,
# because Spark compares their texts.
Json = dict[str, dict[str, int]]


class StreamReader(DataSourceStreamReader):
    """Base class of streaming reads.

    One object is on the driver for the whole query. Pickled copies are sent to tasks and only read.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._driver: Driver | None = None

    @property
    def driver(self) -> Driver:
        """The planner, created at first use."""
        from samsarrow.spark.driver import Driver

        if self._driver is None:
            self._driver = Driver(self._options)
        return self._driver

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options.for_tasks(), "_driver": None}

    def check_schemas(self) -> None:
        """Checks for newer schema versions, if they end the query. Called before a micro-batch is planned.

        Raises:
            SchemaEvolvedError: a schema of the query has a newer version.
        """
        if self._options.checks_schemas:
            schemas = {
                typed.name: json.loads(typed.schema) for typed in self._options.typed if typed.schema is not None
            }
            self.driver.request("evolution", found=schemas)

    def initialOffset(self) -> Json:  # noqa: N802
        """Returns the offsets at which a new query starts."""
        offsets: Json = self.driver.request("initial")["offsets"]
        return offsets

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Plans the offset ranges of a micro-batch, one per task."""
        return list(self.driver.ranges("ranges", start=start, end=end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Reads the records of one offset range. Runs in a task."""
        from samsarrow.spark.fetch import read_range
        from samsarrow.spark.ranges import OffsetRange

        assert isinstance(partition, OffsetRange), "Spark reads the partitions that it was given"
        return read_range(self._options, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Commits the offsets of records that the sink has stored.

        Spark calls this when it plans the next micro-batch.
        """
        self.driver.request("commit", end=end)

    def stop(self) -> None:
        """Closes all connections."""
        driver, self._driver = self._driver, None
        if driver is not None:
            driver.close()
