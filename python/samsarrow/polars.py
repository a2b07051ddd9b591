"""Topics in Polars: `scan_topic` returns a lazy frame that fetches only what a query needs.

Needs Polars: `pip install 'samsarrow[polars]'`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

try:
    import polars as pl
    from polars.io.plugins import register_io_source
except ImportError:
    raise ImportError("samsarrow.polars needs Polars: pip install 'samsarrow[polars]'") from None

from samsarrow import _core
from samsarrow._bounded_reader import set_ends
from samsarrow._predicate import NEVER, matching_rows
from samsarrow.config import kafka_name, merge
from samsarrow.consumer import Consumer
from samsarrow.exceptions import ConfigurationError, KafkaTimeoutError, OffsetOutOfRangeError
from samsarrow.types import TopicPartition

__all__ = ["scan_topic"]

# Maximum bytes of a Fetch response for a query with a row limit: a base and an amount per row. From the third value on,
# responses of the default size are better.
_FEW_BYTES, _ROW_BYTES, _MANY_BYTES = 1 << 16, 1 << 10, 1 << 24


def scan_topic(
    topic: str, config: Mapping[str, Any] | None = None, *, lateness: timedelta | None = None, **options: Any
) -> pl.LazyFrame:
    """Returns a topic as a lazy frame: its current contents, read on each `collect`.

        flights = scan_topic("flights", bootstrap_servers="localhost:9092")
        flights.filter(pl.col("timestamp") >= yesterday).select(pl.col("value").str.json_decode(schema)).collect()

    Columns are the same as in `Consumer.poll`: `key` and `value` `Binary`, `topic` `Categorical`, `partition` `Int32`,
    `offset` `Int64`, `timestamp` `Datetime("ms", "UTC")`, `timestamp_type` `Int8`; `include_headers` adds `headers`,
    `include_leader_epoch` adds `leader_epoch`. Rows of a partition are in order.

    The call itself looks up the partitions and their ends; rows appended later are not in the result. `collect` then
    fetches:

    - only partitions in which the filter may hold: `partition` compared with numbers;
    - from the first offset at which it may hold to the last one: `offset` compared with numbers, and `timestamp` from
        the first record at or after the time, which the broker finds in its index;
    - up to a row limit (`head`, `limit`) that comes before any filter, or until a streaming query has enough rows;
    - and converts only the columns that the query uses; headers are decoded if the query uses them.

    Comparisons with literals, `is_between` and `is_in` narrow the fetch, joined by `&` and `|` at any depth; the rest
    of the filter is applied to the fetched rows.

    Args:
        topic: name of the topic.
        config: options of `Consumer` with dotted names. `layout` is `view` by default, which Polars takes without a
            copy; `auto.offset.reset` is `none`, so that deleting rows while they are read is an error.
        lateness: how much earlier than a previous record of its partition a record can be; zero if timestamps never
            decrease, as with `message.timestamp.type=LogAppendTime`. Then an upper bound of `timestamp` stops reading a
            partition at the first record that is later by more than that. By default a partition is read to its end.
        **options: the same options as keywords.

    Returns:
        A lazy frame that contains the options: a serialized plan includes passwords.

    Raises:
        ConfigurationError: an option is unknown, has an invalid value, or is for groups: a scan is not a member of a
            group and commits nothing.
        UnknownTopicOrPartitionError: the topic does not exist.
        KafkaTimeoutError: no broker responded within `default.api.timeout.ms`; from `collect` also if no row arrived
            for that long.
        OffsetOutOfRangeError: from `collect`: rows of the frame were deleted while they were read, or the topic was
            truncated or recreated since the call.
        polars.exceptions.ComputeError: with Polars before 2.0, instead of the errors of `collect`, with their message.
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
        empty = consumer.schema.empty_table()
    frame = pl.DataFrame(pl.from_arrow(empty))
    source = _Topic(topic, {**defaults, **own}, ends, frame, lateness)
    return register_io_source(source.read, schema=frame.schema, is_pure=True)


class _Topic:
    """A topic as the source of a lazy frame."""

    def __init__(
        self, topic: str, options: dict[str, Any], ends: dict[int, int], empty: pl.DataFrame, lateness: timedelta | None
    ) -> None:
        self._topic, self._options, self._ends = topic, options, ends
        self._empty, self._lateness = empty, lateness

    def __repr__(self) -> str:
        # Omits the options, which may contain a password.
        return f"<topic {self._topic}>"

    def read(
        self, with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        """Yields the rows among the first `n_rows` that match the predicate; called by `register_io_source`."""
        columns = self._empty.columns if with_columns is None else with_columns
        # The limit counts rows before the filter, so the predicate must not reduce the fetch then.
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
        """Returns options of a consumer that fetches little more than these columns and rows."""
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
        """Returns the first offset and the end of each partition from which rows are fetched."""
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
            # Rounded up to milliseconds.
            added = -(-self._lateness // timedelta(milliseconds=1))
            late = {tp: bounds.times.end + added for tp, bounds in rows.items() if bounds.times.end + added < NEVER}
        to_time = consumer.offsets_for_times(late) if late else {}
        spans = {}
        for tp, bounds in rows.items():
            first = max(begins[tp], bounds.offsets.first)
            end = min(self._ends[tp.partition], bounds.offsets.end)
            if tp in from_time:
                start = from_time[tp]
                # None: no record is that late.
                first = max(first, end if start is None else start.offset)
            if (until := to_time.get(tp)) is not None:
                end = min(end, until.offset)
            if first < end:
                spans[tp] = first, end
        return spans

    def _frames(
        self, consumer: Consumer, spans: Mapping[TopicPartition, tuple[int, int]], columns: list[str]
    ) -> Iterator[pl.DataFrame]:
        """Yields the rows of these spans."""
        ends = {tp: end for tp, (_, end) in spans.items()}
        consumer.assign(ends)
        # All partitions start together: a broker that is asked for a few of them, which are then at their ends, may
        # delay its response by half a second.
        consumer.pause(*ends)
        for tp, (first, _) in spans.items():
            consumer.seek(tp, first)
        consumer.resume(*ends)
        limit, core = consumer._open.default_timeout(), consumer._open
        set_ends(core, ends)
        deadline = _core.Deadline(limit)
        while behind := core.bounds()[0]:
            batch = consumer.poll(1.0)
            if batch.num_rows or core.bounds()[0] != behind:
                deadline = _core.Deadline(limit)
            elif deadline.passed():
                names = ", ".join(f"{tp[0]}-{tp[1]} at {position} of {end}" for tp, position, end in behind)
                raise KafkaTimeoutError(f"no row arrived for {limit:g} s: {names}; the log has the reason")
            if batch.num_rows:
                yield self._frame(batch, columns)

    def _frame(self, batch: Any, columns: list[str]) -> pl.DataFrame:
        """Returns the requested columns of a batch."""
        # Without columns (`pl.len()`), `offset` carries the number of rows.
        names = dict.fromkeys([*columns, "offset"])
        return pl.DataFrame(pl.from_arrow(batch.select(list(names)))).select(columns)
