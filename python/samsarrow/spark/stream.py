"""A streaming read with limits and Trigger.AvailableNow: Spark 4.2 and later."""

from __future__ import annotations

from typing import Any

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows, SupportsTriggerAvailableNow

from samsarrow.spark.options import ReadOptions
from samsarrow.spark.stream_base import Json, StreamReader


class KafkaStreamReader(StreamReader, SupportsTriggerAvailableNow):
    """A streaming read to which Spark passes the query's offsets and a read limit."""

    def __init__(self, options: ReadOptions) -> None:
        super().__init__(options)
        self._freezing = False
        self._reported: Json | None = None

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        """Returns the limit of the options.

        Spark has no limit that combines a maximum and a minimum: with both, the planner applies the minimum.
        """
        if self._options.max_offsets:
            return ReadMaxRows(self._options.max_offsets)
        if self._options.min_offsets:
            return ReadMinRows(self._options.min_offsets)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Limits the query to the records that exist when its first micro-batch is planned."""
        self._freezing = True

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:  # noqa: N802
        """Returns the end offsets of the next micro-batch; `start` itself if there are no new records."""
        self.check_schemas()
        # Trigger.Once passes ReadAllAvailable, which overrides the limits of the options.
        everything = isinstance(limit, ReadAllAvailable)
        rows = {"rows": limit.max_rows if isinstance(limit, ReadMaxRows) else None}
        response = self.driver.request("latest", start=start, limit=None if everything else rows, freeze=self._freezing)
        self._reported = response["latest"]
        end: dict[str, Any] = response["offsets"]
        # Returns the same object if equal, to keep its text: checkpoints of Spark's connector use other spaces.
        return start if end == start else end

    def reportLatestOffset(self) -> Json | None:  # noqa: N802
        """Returns the end offsets of the partitions, for the query's progress."""
        return self._reported
