"""A streaming read with limits and Trigger.AvailableNow: Spark 4.2 and later."""

from __future__ import annotations

from typing import Any

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows, SupportsTriggerAvailableNow

from samsarrow.spark.options import ReadOptions
from samsarrow.spark.stream_base import Json, StreamReader


class KafkaStreamReader(StreamReader, SupportsTriggerAvailableNow):
    """Spark passes it where the query is, and how much it may read."""

    def __init__(self, options: ReadOptions) -> None:
        super().__init__(options)
        self._freezing = False
        self._reported: Json | None = None

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        """What the options allow. There is no limit for most and least together: the least is kept to by the core."""
        if self._options.max_offsets:
            return ReadMaxRows(self._options.max_offsets)
        if self._options.min_offsets:
            return ReadMinRows(self._options.min_offsets)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """The query reads what is there as its first micro-batch is planned, and nothing that comes later."""
        self._freezing = True

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:  # noqa: N802
        """The end of the next micro-batch; `start` itself where there is none."""
        self.check_schemas()
        # None is all there is, whatever the options say: that is what Trigger.Once wants.
        everything = isinstance(limit, ReadAllAvailable)
        rows = {"rows": limit.max_rows if isinstance(limit, ReadMaxRows) else None}
        answer = self.driver.ask("latest", start=start, limit=None if everything else rows, freeze=self._freezing)
        self._reported = answer["latest"]
        end: dict[str, Any] = answer["offsets"]
        # In the words of the checkpoint: those of the other connector are spaced differently.
        return start if end == start else end

    def reportLatestOffset(self) -> Json | None:  # noqa: N802
        """Where the partitions end, for the query's progress."""
        return self._reported
