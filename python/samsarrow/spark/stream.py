"""A streaming read with limits and Trigger.AvailableNow: Spark 4.2 and later."""

from __future__ import annotations

from typing import Any

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows, SupportsTriggerAvailableNow

from samsarrow.spark.offsets import Json, from_json, to_json
from samsarrow.spark.stream_base import StreamReader


class KafkaStreamReader(StreamReader, SupportsTriggerAvailableNow):
    """Spark tells it where the query is, and how much it may read."""

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        """What the options allow. There is no limit for most and least together: the least is kept to here."""
        if self._options.max_offsets:
            return ReadMaxRows(self._options.max_offsets)
        if self._options.min_offsets:
            return ReadMinRows(self._options.min_offsets)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """The query reads what is there now."""
        self.planner.freeze()

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:  # noqa: N802
        """The end of the next micro-batch; `start` itself where there is none."""
        limited = self._options.max_offsets or self._options.min_offsets
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        begin = from_json(start)
        end = self.planner.latest(begin, rows, bool(limited) and isinstance(limit, ReadAllAvailable))
        # In the words of the checkpoint: those of the other connector are spaced differently.
        return start if end == begin else to_json(end)

    def reportLatestOffset(self) -> Json | None:  # noqa: N802
        """Where the partitions end, for the query's progress."""
        reported = self.planner.reported
        return None if reported is None else to_json(reported)
