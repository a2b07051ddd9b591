"""A streaming read, as all versions of Spark ask for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader

if TYPE_CHECKING:
    from pyspark.sql.datasource import InputPartition

    from samsarrow.spark.driver import Driver
    from samsarrow.spark.evolution import Evolution
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
        self._evolution: Evolution | None = None

    @property
    def driver(self) -> Driver:
        """The driver's part, made when it is first asked something."""
        from samsarrow.spark.driver import Driver

        if self._driver is None:
            self._driver = Driver(self._options)
        return self._driver

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options.for_tasks(), "_driver": None, "_evolution": None}

    def check_schemas(self) -> None:
        """Before a micro-batch is planned: whether schemas have newer versions, where that ends the query.

        Raises:
            SchemaEvolvedError: one has.
        """
        if any(one.evolution is not None for one in self._options.typed):
            from samsarrow.spark.evolution import Evolution

            if self._evolution is None:
                self._evolution = Evolution(self._options.typed)
            self._evolution.check()

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
        evolution, self._evolution = self._evolution, None
        if driver is not None:
            driver.close()
        if evolution is not None:
            evolution.close()
