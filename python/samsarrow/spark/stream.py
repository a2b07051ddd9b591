"""Streaming reads with read limits and Trigger.AvailableNow, for Spark 4.2 and later."""

from __future__ import annotations

from typing import Any

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows, SupportsTriggerAvailableNow

from samsarrow.spark.options import ReadOptions
from samsarrow.spark.stream_base import Json, StreamReader


class KafkaStreamReader(StreamReader, SupportsTriggerAvailableNow):
    """A streaming read that gets the query's offsets and a read limit from Spark."""

    def __init__(self, options: ReadOptions) -> None:
        super().__init__(options)
        self._freezing = False
        self._reported: Json | None = None

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        """Returns the read limit that the options set.

        Spark has no limit that combines a maximum and a minimum. If both are set, the planner applies the minimum.
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
        """Returns the end offsets of the next micro-batch; `start` itself if no new records have arrived."""
        self.check_schemas()
        # Trigger.Once passes ReadAllAvailable, which overrides the limits of the options.
        everything = isinstance(limit, ReadAllAvailable)
        rows = {"rows": limit.max_rows if isinstance(limit, ReadMaxRows) else None}
        response = self.driver.request("latest", start=start, limit=None if everything else rows, freeze=self._freezing)
        self._reported = response["latest"]
        end: dict[str, Any] = response["offsets"]
        # Returns `start` itself if the offsets are equal, because its text must not change: checkpoints of Spark's own
        # connector have other whitespace.
        return start if end == start else end

    def reportLatestOffset(self) -> Json | None:  # noqa: N802
        """Returns the current end offsets of the partitions, which Spark reports in the query's progress."""
        return self._reported
