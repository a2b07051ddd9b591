"""A streaming read, as all versions of Spark ask for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader

from samsarrow.spark.offsets import Json, from_json, to_json

if TYPE_CHECKING:
    from pyspark.sql.datasource import InputPartition

    from samsarrow.spark.options import ReadOptions
    from samsarrow.spark.planner import StreamPlanner


class StreamReader(DataSourceStreamReader):
    """What all versions of Spark ask for.

    One object lives on the driver for the whole query; another one, pickled, goes to the tasks and only reads.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._planner: StreamPlanner | None = None

    @property
    def planner(self) -> StreamPlanner:
        """The driver's part, made when it is first asked something."""
        from samsarrow.spark.planner import StreamPlanner

        if self._planner is None:
            self._planner = StreamPlanner(self._options)
        return self._planner

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options, "_planner": None}

    def initialOffset(self) -> Json:  # noqa: N802
        """Where a new query starts."""
        return to_json(self.planner.initial())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The tasks of a micro-batch."""
        return list(self.planner.ranges(from_json(start), from_json(end)))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of one range, in a task."""
        from samsarrow.spark.fetch import read_range
        from samsarrow.spark.ranges import OffsetRange

        assert isinstance(partition, OffsetRange), "Spark reads the partitions that it was given"
        return read_range(self._options, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Everything before `end` is in the sink. Spark says so once the next micro-batch is planned."""
        self.planner.finished(from_json(end))

    def stop(self) -> None:
        """Ends all connections."""
        planner, self._planner = self._planner, None
        if planner is not None:
            planner.close()
