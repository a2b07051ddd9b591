"""Reports of the progress of streaming queries after every micro-batch."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from samsarrow.types import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SourceProgress:
    """Progress of a query's source after a micro-batch.

    Attributes:
        query: name of the query, or its id if it has no name.
        batch: number of the micro-batch.
        records: records read in the micro-batch.
        records_per_second: records processed per second of the micro-batch.
        behind: offsets from the query's position to the end, by partition.
        seconds: duration of the micro-batch, including planning and checkpoint.
        arriving_per_second: records per second that arrived since the previous micro-batch.
        bytes: bytes of keys and values read in the micro-batch; None unless `count_bytes` counts them.
        written: rows that the sink received; None if Spark does not know, as in foreachBatch.
    """

    query: str
    batch: int
    records: int
    records_per_second: float
    behind: Mapping[TopicPartition, int]
    seconds: float = 0.0
    arriving_per_second: float = 0.0
    bytes: int | None = None
    written: int | None = None

    @property
    def bytes_per_second(self) -> float | None:
        """Bytes processed per second; None unless `count_bytes` counts them."""
        return None if self.bytes is None or not self.seconds else self.bytes / self.seconds

    @property
    def min_offsets_behind_latest(self) -> int:
        """The smallest lag of all partitions."""
        return min(self.behind.values(), default=0)

    @property
    def max_offsets_behind_latest(self) -> int:
        """The largest lag of all partitions."""
        return max(self.behind.values(), default=0)

    @property
    def avg_offsets_behind_latest(self) -> float:
        """The mean lag of all partitions."""
        return sum(self.behind.values()) / len(self.behind) if self.behind else 0.0


def count_bytes(frame: DataFrame, source: int = 0) -> DataFrame:
    """Returns the same rows, and makes `ProgressListener` report the bytes of their keys and values.

    Spark does not report the number of bytes that a Python source has read. Therefore this function counts them right
    after the source: `count_bytes(spark.readStream.format("samsarrow")....load())`.

    Args:
        frame: a streaming read with the columns `key` and `value`, or one of them. Decoded columns are counted if the
            frame has `raw_key` or `raw_value`, or if they are text or bytes.
        source: index of the source in `sources` of the progress, if the query has several.
    """
    from pyspark.sql import functions as f

    types = dict(frame.dtypes)
    named = [f"raw_{name}" if f"raw_{name}" in types else name for name in ("key", "value")]
    counted = [name for name in named if types.get(name) in ("binary", "string")]
    lengths = [f.coalesce(f.octet_length(name), f.lit(0)) for name in counted]
    size = sum(lengths[1:], lengths[0]) if lengths else f.lit(0)
    return frame.observe(_observation(source), f.coalesce(f.sum(size), f.lit(0)).alias("bytes"))


def _observation(source: int) -> str:
    return f"samsarrow.source.{source}"


class ProgressListener(StreamingQueryListener):
    """Listener that reports the lag of queries on Kafka: `spark.streams.addListener(ProgressListener())`.

    Spark's own connector reports the same numbers in `sources[].metrics`, which a Python source cannot fill. The
    progress is also logged to `samsarrow.spark.listener`.

    Args:
        report: called with the progress of each Kafka source, for example to set a gauge. Exceptions of the function
            are logged.
    """

    def __init__(self, report: Callable[[SourceProgress], object] | None = None) -> None:
        self._report = report

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """Does nothing, because progress is reported after micro-batches."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Logs and reports the progress of each Kafka source after a micro-batch."""
        for progress in source_progress(event.progress):
            _log.info(
                "query %s, micro-batch %d: %d records, %.0f per second%s; %d offsets behind at least, %d at most, %.1f "
                "on average of %d partitions",
                progress.query,
                progress.batch,
                progress.records,
                progress.records_per_second,
                "" if (rate := progress.bytes_per_second) is None else f", {rate:.0f} bytes per second",
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
        """Does nothing."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Logs the error of a query that failed."""
        if event.exception:
            _log.warning("query %s ended with an error: %s", event.id, event.exception.splitlines()[0])


def source_progress(progress: Any) -> list[SourceProgress]:
    """Returns the progress of the sources that read Kafka, with samsarrow or with Spark's own connector.

    Args:
        progress: a `StreamingQueryProgress`.
    """
    reports = []
    seconds = progress.durationMs.get("triggerExecution", 0) / 1000
    # -1 means that Spark does not count the rows of this kind of sink.
    written = progress.sink.numOutputRows if progress.sink.numOutputRows >= 0 else None
    for number, source in enumerate(progress.sources):
        end, latest = _offsets(source.endOffset), _offsets(source.latestOffset)
        if end is None or latest is None:
            continue
        behind = {tp: max(0, at - end.get(tp, at)) for tp, at in latest.items()}
        query = progress.name or str(progress.id)
        observed = progress.observedMetrics.get(_observation(number))
        reports.append(
            SourceProgress(
                query,
                progress.batchId,
                source.numInputRows,
                source.processedRowsPerSecond or 0.0,
                behind,
                seconds,
                source.inputRowsPerSecond or 0.0,
                None if observed is None else observed["bytes"],
                written,
            )
        )
    return reports


def _offsets(reported: Any) -> dict[TopicPartition, int] | None:
    """Parses the offsets that a source reports. Returns None if the source is not a Kafka source."""
    try:
        topics = json.loads(reported) if isinstance(reported, str) else reported
        return {TopicPartition(t, int(p)): int(at) for t, ps in topics.items() for p, at in ps.items()}
    except (AttributeError, TypeError, ValueError):
        return None
