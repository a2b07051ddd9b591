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

# What an answer may hold where only some rows are wanted: this, and as much for each row, up to a size at which answers
# of the usual size are better.
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
        A frame that contains the options: a serialized plan has the logins among them.

    Raises:
        ConfigurationError: an option is unknown, has an invalid value, or is for groups: a scan is not a member of a
            group and commits nothing.
        UnknownTopicOrPartitionError: the topic does not exist.
        KafkaTimeoutError: no broker answered within `default.api.timeout.ms`; from `collect` also if no row arrived for
            that long.
        OffsetOutOfRangeError: from `collect`: rows of the frame were deleted while they were read, or the topic was
            truncated or recreated since the call.
        polars.exceptions.ComputeError: with Polars before 2.0, instead of the errors of `collect`, with their message.
    """
    if not isinstance(topic, str):
        raise ConfigurationError(f"scan_topic takes the name of one topic, not {type(topic).__name__}")
    if lateness is not None and (not isinstance(lateness, timedelta) or lateness < timedelta()):
        raise ConfigurationError(f"lateness is a timedelta of zero or more, not {lateness!r}")
    given = {kafka_name(name): value for name, value in merge(config, options)}
    for name in ("group.id", "enable.auto.commit"):
        if name in given:
            raise ConfigurationError(f"a scan is not a member of a group and commits nothing: omit {name}")
    defaults = {"layout": "view", "auto.offset.reset": "none"}
    missing: dict[str, Any] = {name.replace(".", "_"): value for name, value in defaults.items() if name not in given}
    with Consumer(config, **options, **missing) as consumer:
        partitions = consumer.partitions_for(topic)
        ends = {tp.partition: end for tp, end in consumer.end_offsets(partitions).items()}
        empty = consumer.schema.empty_table()
    frame = pl.DataFrame(pl.from_arrow(empty))
    source = _Topic(topic, {**defaults, **given}, ends, frame, lateness)
    return register_io_source(source.read, schema=frame.schema, is_pure=True)


class _Topic:
    """What a frame reads."""

    def __init__(
        self, topic: str, options: dict[str, Any], ends: dict[int, int], empty: pl.DataFrame, lateness: timedelta | None
    ) -> None:
        self._topic, self._options, self._ends = topic, options, ends
        self._empty, self._lateness = empty, lateness

    def __repr__(self) -> str:
        # Without the options, which may hold a password.
        return f"<topic {self._topic}>"

    def read(
        self, with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        """What `register_io_source` calls: the first `n_rows`, of those the ones for which the predicate holds."""
        columns = self._empty.columns if with_columns is None else with_columns
        # A limit counts rows from before the filter, so that none of those may be left out.
        rows = matching_rows(predicate if n_rows is None else None, self._ends)
        left = n_rows
        if left == 0 or not rows:
            return
        with Consumer(self._for(columns, n_rows)) as consumer:
            spans = self._spans(consumer, {TopicPartition(self._topic, p): found for p, found in rows.items()})
            for frame in self._frames(consumer, spans, columns) if spans else ():
                kept = frame if left is None else frame.head(left)
                if left is not None:
                    left -= kept.height
                yield kept if predicate is None else kept.filter(predicate)
                if left == 0:
                    return

    def _for(self, columns: list[str], n_rows: int | None) -> dict[str, Any]:
        """Options of a consumer that reads this and little more."""
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
        """First offset and end of all partitions of which something is to be fetched."""
        now = consumer.end_offsets(rows)
        for tp, end in now.items():
            if end < self._ends[tp.partition]:
                raise OffsetOutOfRangeError(
                    f"{tp.topic}-{tp.partition} ends at offset {end} and ended at {self._ends[tp.partition]} when it "
                    "was scanned: the topic was truncated or recreated; call scan_topic again"
                )
        begins = consumer.beginning_offsets(rows)
        early = {tp: found.times.first for tp, found in rows.items() if found.times.first}
        from_time = consumer.offsets_for_times(early) if early else {}
        late = {}
        if self._lateness is not None:
            # Whole milliseconds, and none too few.
            added = -(-self._lateness // timedelta(milliseconds=1))
            late = {tp: found.times.end + added for tp, found in rows.items() if found.times.end + added < NEVER}
        to_time = consumer.offsets_for_times(late) if late else {}
        spans = {}
        for tp, found in rows.items():
            first = max(begins[tp], found.offsets.first)
            end = min(self._ends[tp.partition], found.offsets.end)
            if tp in from_time:
                at = from_time[tp]
                # No record is as late.
                first = max(first, end if at is None else at.offset)
            if (until := to_time.get(tp)) is not None:
                end = min(end, until.offset)
            if first < end:
                spans[tp] = first, end
        return spans

    def _frames(
        self, consumer: Consumer, spans: Mapping[TopicPartition, tuple[int, int]], columns: list[str]
    ) -> Iterator[pl.DataFrame]:
        """The rows of these spans."""
        ends = {tp: end for tp, (_, end) in spans.items()}
        consumer.assign(ends)
        # All at once: a broker that is asked for some, which then have no more, has half a second to answer.
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
        """Returns the columns of a batch that are used."""
        # With none (`pl.len()`), a column says how many rows there are.
        names = dict.fromkeys([*columns, "offset"])
        return pl.DataFrame(pl.from_arrow(batch.select(list(names)))).select(columns)
