"""What a streaming query is behind, told with every micro-batch."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from samsarrow.types import TopicPartition

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SourceProgress:
    """A source of a query after a micro-batch.

    Attributes:
        query: its name, or its id where it has none.
        batch: number of the micro-batch.
        records: that were read in it.
        records_per_second: at which they were processed.
        behind: offsets from where the query is to the end, by partition.
    """

    query: str
    batch: int
    records: int
    records_per_second: float
    behind: Mapping[TopicPartition, int]

    @property
    def min_offsets_behind_latest(self) -> int:
        """Of the partition that is behind least."""
        return min(self.behind.values(), default=0)

    @property
    def max_offsets_behind_latest(self) -> int:
        """Of the partition that is behind most."""
        return max(self.behind.values(), default=0)

    @property
    def avg_offsets_behind_latest(self) -> float:
        """Over all partitions."""
        return sum(self.behind.values()) / len(self.behind) if self.behind else 0.0


class ProgressListener(StreamingQueryListener):
    """Tells how far queries on Kafka are behind: `spark.streams.addListener(ProgressListener())`.

    The numbers are those that Spark's own connector puts into `sources[].metrics`, which a Python source cannot fill.
    Each is also written into the log `samsarrow.spark.listener`.

    Args:
        report: called with the progress of each source of Kafka, for a gauge or a table. What it raises is written into
            the log.
    """

    def __init__(self, report: Callable[[SourceProgress], object] | None = None) -> None:
        self._report = report

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """Nothing is behind yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """A micro-batch is done."""
        for progress in source_progress(event.progress):
            _log.info(
                "query %s, micro-batch %d: %d records, %.0f a second; %d offsets behind at least, %d at most, %.1f on "
                "average of %d partitions",
                progress.query,
                progress.batch,
                progress.records,
                progress.records_per_second,
                progress.min_offsets_behind_latest,
                progress.max_offsets_behind_latest,
                progress.avg_offsets_behind_latest,
                len(progress.behind),
            )
            if self._report is not None:
                try:
                    self._report(progress)
                except Exception:
                    _log.exception("the progress of query %s could not be reported", progress.query)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Nothing has changed."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Nothing is reported any more."""
        if event.exception:
            _log.warning("query %s ended with an error: %s", event.id, event.exception.splitlines()[0])


def source_progress(progress: Any) -> list[SourceProgress]:
    """The progress of the sources that read Kafka, ours and Spark's own.

    Args:
        progress: a `StreamingQueryProgress`.
    """
    found = []
    for source in progress.sources:
        end, latest = _offsets(source.endOffset), _offsets(source.latestOffset)
        if end is None or latest is None:
            continue
        behind = {tp: max(0, at - end.get(tp, at)) for tp, at in latest.items()}
        query = progress.name or str(progress.id)
        rate = source.processedRowsPerSecond or 0.0
        found.append(SourceProgress(query, progress.batchId, source.numInputRows, rate, behind))
    return found


def _offsets(told: Any) -> dict[TopicPartition, int] | None:
    """Offsets as Kafka sources tell them; None for those of others."""
    try:
        topics = json.loads(told) if isinstance(told, str) else told
        return {TopicPartition(t, int(p)): int(at) for t, ps in topics.items() for p, at in ps.items()}
    except (AttributeError, TypeError, ValueError):
        return None
