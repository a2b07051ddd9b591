"""Topics in Polars: `scan_topic` returns a lazy frame that fetches only what a query needs.

Needs Polars: `pip install 'polars>=1.36.1'`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

try:
    import polars as pl
    from polars.io.plugins import register_io_source
except ImportError:
    raise ImportError("samsarrow.polars needs Polars: pip install 'polars>=1.36.1'") from None

from samsarrow._predicate import NEVER, matching_rows
from samsarrow._range_reader import RangeBatches, RangeReader
from samsarrow._sync import run_sync
from samsarrow.config import kafka_name, merge
from samsarrow.consumer import Consumer
from samsarrow.exceptions import ConfigurationError, OffsetOutOfRangeError
from samsarrow.ranges.lookup import TopicIds
from samsarrow.types import TopicPartition

__all__ = ["scan_topic"]

# Maximum size of a Fetch response for a query with a row limit, in bytes: a base plus an amount per row. If the sum
# reaches the third number, the default size is used.
_FEW_BYTES, _ROW_BYTES, _MANY_BYTES = 1 << 16, 1 << 10, 1 << 24


def scan_topic(
    topic: str, config: Mapping[str, Any] | None = None, *, lateness: timedelta | None = None, **options: Any
) -> pl.LazyFrame:
    """Returns a lazy frame with the current contents of a topic, which is read by each `collect`.

        flights = scan_topic("flights", bootstrap_servers="localhost:9092")
        recent = flights.filter(pl.col("timestamp") >= yesterday)
        recent.select(pl.col("value").str.json_decode(schema)).collect()

    Columns are the same as in `Consumer.poll`: `key` and `value` `Binary`, `topic` `Categorical`, `partition` `Int32`,
    `offset` `Int64`, `timestamp` `Datetime("ms", "UTC")`, `timestamp_type` `Int8`; `include_headers` adds `headers`,
    `include_leader_epoch` adds `leader_epoch`. Rows of a partition are in order.

    This call looks up the partitions and their end offsets, so rows that are appended later are not in the result.
    `collect` then fetches:

    - only partitions whose rows may match the filter, if it compares `partition` with numbers;
    - only offsets whose rows may match, if the filter compares `offset` with numbers, or `timestamp` with times; the
        broker finds the first record at or after a time in its index;
    - only rows up to a limit (`head`, `limit`) that comes before any filter, or until a streaming query has enough
    rows;
    - and decodes or converts only the columns that the query uses.

    Comparisons with literals, `is_between` and `is_in`, joined by `&` and `|`, narrow the fetch. The whole filter is
    then applied to the fetched rows.

    Args:
        topic: name of the topic.
        config: options of `Consumer` with dotted names. `layout` is `view` by default, because Polars imports views
            without a copy. `auto.offset.reset` is `none`, so that an error is raised if rows are deleted while they are
            read.
        lateness: maximum time by which a record can be earlier than a previous record of its partition; zero if
            timestamps never decrease, as with `message.timestamp.type=LogAppendTime`. If it is set and the filter has
            an upper bound of `timestamp`, a partition is read up to the first record that is later than the bound by
            more than this time. By default a partition is read to its end.
        **options: the same options as keywords.

    Returns:
        A lazy frame that contains the options: a serialized plan includes passwords.

    Raises:
        ConfigurationError: an option is unknown, has an invalid value, or is for groups: a scan is not a member of a
            group and commits nothing.
        UnknownTopicOrPartitionError: the topic does not exist.
        KafkaTimeoutError: no broker responded within `default.api.timeout.ms`; also raised by `collect` if no row
            arrived for this time.
        OffsetOutOfRangeError: raised by `collect` if rows of the frame were deleted while they were read, or if the
            topic was truncated or recreated since this call.
        polars.exceptions.ComputeError: raised instead of the errors of `collect` by Polars before 2.0, with the same
        messages.
    """
    if not isinstance(topic, str):
        raise ConfigurationError(f"scan_topic takes the name of one topic, not {type(topic).__name__}")
    if lateness is not None and (not isinstance(lateness, timedelta) or lateness < timedelta()):
        raise ConfigurationError(f"lateness is a timedelta of zero or more, not {lateness!r}")
    own = {kafka_name(name): value for name, value in merge(config, options)}
    for name in ("group.id", "enable.auto.commit"):
        if name in own:
            raise ConfigurationError(f"a scan is not a member of a group and commits nothing: omit {name}")
    defaults = {"layout": "view", "auto.offset.reset": "none"}
    missing: dict[str, Any] = {name.replace(".", "_"): value for name, value in defaults.items() if name not in own}
    with Consumer(config, **options, **missing) as consumer:
        partitions = consumer.partitions_for(topic)
        ends = {tp.partition: end for tp, end in consumer.end_offsets(partitions).items()}
        timeout = consumer._open.default_timeout()
        topic_id = run_sync(TopicIds(consumer._run, merge(config, options), topic).find(timeout))
        empty = consumer.schema.empty_table()
    frame = pl.DataFrame(pl.from_arrow(empty))
    source = _Topic(topic, topic_id, {**defaults, **own}, ends, frame, lateness)
    return register_io_source(source.read, schema=frame.schema, is_pure=True)


class _Topic:
    """Source of a lazy frame, which reads a topic."""

    def __init__(
        self,
        topic: str,
        topic_id: bytes | None,
        options: dict[str, Any],
        ends: dict[int, int],
        empty: pl.DataFrame,
        lateness: timedelta | None,
    ) -> None:
        self._topic, self._topic_id, self._options, self._ends = topic, topic_id, options, ends
        self._empty, self._lateness = empty, lateness

    def __repr__(self) -> str:
        # Omits the options, which may contain a password.
        return f"<topic {self._topic}>"

    def read(
        self, with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        """Yields the rows among the first `n_rows` that match the predicate; called by Polars."""
        columns = self._empty.columns if with_columns is None else with_columns
        # A row limit counts rows before the filter, so the predicate must not narrow the fetch if there is a limit.
        rows = matching_rows(predicate if n_rows is None else None, self._ends)
        remaining = n_rows
        if remaining == 0 or not rows:
            return
        with Consumer(self._consumer_options(columns, n_rows)) as consumer:
            spans = self._spans(consumer, {TopicPartition(self._topic, p): bounds for p, bounds in rows.items()})
            for frame in self._frames(consumer, spans, columns) if spans else ():
                kept = frame if remaining is None else frame.head(remaining)
                if remaining is not None:
                    remaining -= kept.height
                yield kept if predicate is None else kept.filter(predicate)
                if remaining == 0:
                    return

    def _consumer_options(self, columns: list[str], n_rows: int | None) -> dict[str, Any]:
        """Returns the options of a consumer that fetches little more than the requested columns and rows."""
        options = dict(self._options)
        if "headers" not in columns:
            options.pop("include.headers", None)
        if "leader_epoch" not in columns:
            options.pop("include.leader.epoch", None)
        if n_rows is not None:
            few = _FEW_BYTES + n_rows * _ROW_BYTES
            if few < _MANY_BYTES:
                options = {"fetch.max.bytes": few, "queued.max.bytes": few, "max.poll.records": n_rows, **options}
        return options

    def _spans(self, consumer: Consumer, rows: Mapping[TopicPartition, Any]) -> dict[TopicPartition, tuple[int, int]]:
        """Returns the first offset and the end offset of each partition from which rows are fetched."""
        current = consumer.end_offsets(rows)
        for tp, end in current.items():
            if end < self._ends[tp.partition]:
                raise OffsetOutOfRangeError(
                    f"{tp.topic}-{tp.partition} ends at offset {end} and ended at {self._ends[tp.partition]} when it "
                    "was scanned: the topic was truncated or recreated; call scan_topic again"
                )
        begins = consumer.beginning_offsets(rows)
        early = {tp: bounds.times.first for tp, bounds in rows.items() if bounds.times.first}
        from_time = consumer.offsets_for_times(early) if early else {}
        late = {}
        if self._lateness is not None:
            # Rounds up to milliseconds.
            added = -(-self._lateness // timedelta(milliseconds=1))
            late = {tp: bounds.times.end + added for tp, bounds in rows.items() if bounds.times.end + added < NEVER}
        to_time = consumer.offsets_for_times(late) if late else {}
        spans = {}
        for tp, bounds in rows.items():
            first = max(begins[tp], bounds.offsets.first)
            end = min(self._ends[tp.partition], bounds.offsets.end)
            if tp in from_time:
                start = from_time[tp]
                # None means that the partition has no record at or after the time, so nothing is read.
                first = max(first, end if start is None else start.offset)
            if (until := to_time.get(tp)) is not None:
                end = min(end, until.offset)
            if first < end:
                spans[tp] = first, end
        return spans

    def _frames(
        self, consumer: Consumer, spans: Mapping[TopicPartition, tuple[int, int]], columns: list[str]
    ) -> Iterator[pl.DataFrame]:
        """Yields the rows of the given offset ranges, as frames with the requested columns."""
        reader = RangeReader(
            consumer,
            spans,
            limit=consumer._open.default_timeout(),
            find_topic_id=TopicIds(consumer._run, list(self._options.items()), self._topic).find,
            topic_id=self._topic_id,
        )
        for batch in RangeBatches(reader):
            yield self._frame(batch, columns)

    def _frame(self, batch: Any, columns: list[str]) -> pl.DataFrame:
        """Returns a batch as a frame with the requested columns."""
        # If no columns are requested, for example by `pl.len()`, the column `offset` is read to keep the number of
        # rows.
        names = dict.fromkeys([*columns, "offset"])
        return pl.DataFrame(pl.from_arrow(batch.select(list(names)))).select(columns)
