"""Consumers that read Kafka as Arrow batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from types import TracebackType
from uuid import UUID

import pyarrow as pa

from samsarrow._any_consumer import BlockingConsumer
from samsarrow._bounded_reader import BoundedBatches
from samsarrow._consumer import CommitCallback, ConsumerBase
from samsarrow._stream import BatchStream
from samsarrow._sync import run_sync
from samsarrow.group import Committable
from samsarrow.types import (
    ConsumerRecord,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    Partitions,
    Seconds,
    TopicPartition,
    to_seconds,
)

__all__ = ["BatchStream", "CommitCallback", "Consumer"]


class Consumer(BlockingConsumer, ConsumerBase):
    """Reads topics as a member of a group, or manually assigned partitions; `poll` returns a `pyarrow.RecordBatch`.

    Columns: `key binary`, `value binary`, `topic dictionary<int32, string>`, `partition int32`, `offset int64`,
    `timestamp timestamp[ms, UTC]`, `timestamp_type int8` (0 for the producer's time, 1 for the broker's time, null for
    records of message format v0, which have no timestamp). `include_headers` adds
    `headers list<struct<key: string, value: binary>>`, `include_leader_epoch` adds `leader_epoch int32`. Nulls and
    empty values are kept distinct. With `layout="view"` keys and values are `binary_view`.

    The consumer connects on the first call that needs a connection. It belongs to the process that created it. Its
    methods may be called from many threads, but only one thread at a time may poll: each poll marks the rows of earlier
    polls as finished. Listeners run in the thread that polls. Commit callbacks run in a thread that polls or commits.

    With `enable.auto.commit`, the default with a `group.id`, a `poll` commits the rows that earlier polls returned, and
    never rows that the application may still be processing. `close` also commits the rows of the last poll, but a
    `with` block that ends with an exception does not.

    Calls that wait for brokers take a `timeout`, in seconds or as a `timedelta`: as a keyword, or by position if it is
    the only argument. None, the default, is `default.api.timeout.ms`; only `poll(None)` waits without a limit.
    Partitions are passed one by one or as an iterable.

    Args:
        config: options with dotted names, `{"bootstrap.servers": "localhost:9092", "group.id": "g"}`.
        **options: the same options as keywords, `group_id="g"`. docs/options.md lists all options.
            `partition_assignment_strategy` also accepts a sequence of names and your own `Assignor`s, and
            `sasl_oauthbearer_token_provider` a function (`TokenProvider`).
        key_format: the format of keys: `Avro(…)`, or the name of one of Kafka's own types, `"long"`. docs/values.md
            lists the resulting types of the column `key`.
        value_format: the format of values. By default, the topic determines the subject in a registry. If the consumer
            reads several topics or a pattern, the format must have a schema or a subject.
        on_decode_error: effect of a key or value that cannot be decoded. `raise`: a poll returns the rows before the
            record, and the next polls raise `BadValueError` with its position until you seek past it. `null`: the
            decoded key or value is null, its bytes are in `raw_key binary` or `raw_value binary`, and the reason is in
            `key_error string` or `value_error string`. `DeadLetter(…)`: the record is sent to another topic.
        raw_values: whether to add the columns `raw_key` and `raw_value` with the undecoded bytes.

    Raises:
        ConfigurationError: an option is unknown, given twice or has an invalid value.
    """

    def unsubscribe(self, timeout: Seconds | None = None) -> None:
        """Stops reading: leaves the group, or drops the manual assignment.

        Calls the listener's `on_partitions_revoked`; with `enable.auto.commit`, commits finished rows.

        Args:
            timeout: seconds for the commits, by default `default.api.timeout.ms`.
        """
        run_sync(self._unsubscribe(timeout))

    def client_instance_id(self, timeout: Seconds | None = None) -> UUID:
        """The id under which brokers store this client's metrics (KIP-714).

        Use it to find the client in the logs and metrics of the brokers.

        Args:
            timeout: seconds, by default `default.api.timeout.ms`.

        Raises:
            IllegalStateError: `enable.metrics.push` is off.
            UnsupportedVersionError: the brokers accept no metrics, because they are older than Kafka 3.7 or have no
                telemetry plugin.
            KafkaTimeoutError: no broker responded in time.
        """
        return run_sync(self._client_instance_id(timeout))

    def poll(self, timeout: Seconds | None = 1.0, *, max_records: int | None = None) -> pa.RecordBatch:
        """Returns the next rows, of one partition or several.

        Args:
            timeout: seconds to wait for the first row. 0 does not wait; None waits until a row arrives.
            max_records: maximum number of rows, by default `max.poll.records`. The other rows remain for later polls.

        Returns:
            Up to `max_records` rows; none if nothing arrived in time. All batches have the same schema. Positions
            move only past the returned rows.

        Raises:
            ConfigurationError: nothing is subscribed or assigned, so no row can arrive.
            IllegalStateError: another thread is polling this consumer, or a listener or a callback called this method
                during a poll.
            WakeupError: `wakeup` was called.
            Exception: a listener or a callback raised it. Exceptions of listeners are raised after the rebalance.
            OffsetOutOfRangeError: the position no longer exists and `auto.offset.reset` is `none`.
            CorruptRecordError: a fetched batch is corrupt; seek past it to continue.
            BadValueError: the next row cannot be decoded in the consumer's formats. Every poll raises the error until
                you seek past its `partition` and `offset`.
            RegistryError: a schema cannot be fetched from the registry. Positions do not move.
            KafkaError: another error prevents reading an assigned partition. It is raised once per occurrence.
        """
        return run_sync(self._poll(timeout, max_records=max_records))

    def records(self, timeout: Seconds | None = 1.0, *, max_records: int | None = None) -> Iterator[ConsumerRecord]:
        """Iterates over the rows of one `poll`. `stream().records()` iterates over all rows.

        Args:
            timeout: as in `poll`.
            max_records: as in `poll`.
        """
        return self._records_of(self.poll(timeout, max_records=max_records))

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yields non-empty batches as they arrive, until the consumer is closed, as `stream()` does."""
        return BatchStream(self)

    def stream(self, *, idle: Seconds | None = None, max_rows: int | None = None, signals: bool = False) -> BatchStream:
        """Yields non-empty batches as they arrive, until a condition ends the loop or the consumer is closed.

            for batch in consumer.stream(signals=True):
                process(batch)

        Requesting the next batch marks the earlier ones as processed, as `poll` does. When the loop ends, all its rows
        are processed: with `enable.auto.commit` they are then committed, before the code after the loop runs. Without,
        call `commit(batch)` in the loop. A `break` or an exception commits nothing by itself; `close` and the `with`
        block of the consumer follow their own rules. Rows that the loop has not yielded are not committed, and later
        polls return them.

        The result is an iterator and a context manager. Its `ended_by` is the reason why it ended, its `records()`
        iterates over rows, its `close()` ends it early. After an error, such as that of a value that cannot be decoded,
        it continues with the next row.

        Args:
            idle: ends the loop if no row arrives for this many seconds. Neither processing in the loop nor the time to
                join the group counts. Use more than `fetch.max.wait.ms`, for which a broker may delay a response.
                Unreachable brokers send no rows either: to read up to a known end, use `reader`.
            max_rows: ends the loop after this many rows. The last batch is smaller if necessary.
            signals: whether SIGTERM and SIGINT end the loop, after the batch in progress. Sets handlers for these
                signals from the first batch to the end of the loop, or until the first signal: a second one has the
                effect that it had before. If a signal arrives and the loop is then left early, the next stream with
                `signals` ends immediately.

        Raises:
            ConfigurationError: `idle` or `max_rows` is not positive.
            IllegalStateError: `signals` is set in another thread than the main thread.
            KafkaTimeoutError: `idle` is set, and the group assigned no partitions within `default.api.timeout.ms`.
            Exception: `poll` raised it.
        """
        return BatchStream(self, idle, max_rows, signals)

    def reader(self, timeout: Seconds | None = None) -> pa.RecordBatchReader:
        """Returns a reader of every assigned partition up to its current end.

        A subscribed consumer joins its group first. Reading moves the positions, as `poll` does; paused partitions are
        skipped. After a rebalance it continues with the partitions that the group has assigned, up to their ends.
        Polars, DuckDB and other libraries accept the reader directly. After an error, such as that of a value that
        cannot be decoded, the reader continues with the next row; if the consumer is closed, it raises `ClosedError`.
        If a topic is deleted before its end is reached, it raises `UnknownTopicOrPartitionError`, and then continues
        with the other topics. A position past the end of a log follows `auto.offset.reset`, as in `poll`.

        Args:
            timeout: seconds to join the group and look up the ends, by default `default.api.timeout.ms`.

        Raises:
            ConfigurationError: nothing is subscribed or assigned.
            KafkaTimeoutError: the group assigned no partitions in time, or a broker did not respond.
        """
        ends = run_sync(self._current_ends(timeout))
        return pa.RecordBatchReader.from_batches(self.schema, BoundedBatches(self, ends))

    def commit(self, what: Committable | None = None, *, timeout: Seconds | None = None) -> None:
        """Commits offsets to the group, and waits for the acknowledgement.

        Args:
            what: None commits the positions of all assigned partitions. A batch commits the positions after its rows,
                which lie past the transaction markers and aborted records that follow the rows (KIP-1094) and include
                the leader epoch. A record commits its offset + 1, the position after the record; with
                `include_leader_epoch` also its leader epoch. A mapping by partition has the offsets of the next records
                to read: numbers, or `OffsetAndMetadata` with a text and a leader epoch.
            timeout: seconds, by default `default.api.timeout.ms`.

        Raises:
            ConfigurationError: `group.id` is not set.
            OffsetMetadataTooLargeError: the metadata is longer than the broker allows.
            RebalanceInProgressError: the group is rebalancing, and may assign these partitions to other members.
            UnknownMemberIdError: the consumer is currently not a member of the group.
            KafkaTimeoutError: the commit did not finish in time; the message has the last error.
        """
        run_sync(self._commit(what, timeout))

    def committed(
        self,
        *partitions: Partitions,
        require_stable: bool | None = None,
        timeout: Seconds | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Returns the group's committed offsets.

        Args:
            *partitions: partitions to look up, in one request; by default all assigned partitions.
            require_stable: whether to wait until no transaction with offsets of the group is open (KIP-447); by default
                only with `isolation.level=read_committed`.
            timeout: seconds, by default `default.api.timeout.ms`.

        Returns:
            The offset of each partition, None without a committed offset.
        """
        return run_sync(self._committed(partitions, require_stable, timeout))

    def position(self, partition: TopicPartition, *, timeout: Seconds | None = None) -> int:
        """The offset of the next row that `poll` returns from an assigned partition.

        Args:
            partition: one partition.
            timeout: seconds to wait until the position is known, by default `default.api.timeout.ms`.
        """
        return run_sync(self._position(partition, timeout))

    def beginning_offsets(self, *partitions: Partitions, timeout: Seconds | None = None) -> dict[TopicPartition, int]:
        """The log start offset of each partition.

        Args:
            *partitions: partitions to look up; by default all assigned partitions.
            timeout: seconds, by default `default.api.timeout.ms`.
        """
        return run_sync(self._beginning_offsets(partitions, timeout))

    def end_offsets(self, *partitions: Partitions, timeout: Seconds | None = None) -> dict[TopicPartition, int]:
        """The end offset of each partition: the high watermark, or with `read_committed` the last stable offset.

        Args:
            *partitions: partitions to look up; by default all assigned partitions.
            timeout: seconds, by default `default.api.timeout.ms`.
        """
        return run_sync(self._end_offsets(partitions, timeout))

    def offsets_for_times(
        self, times: Mapping[TopicPartition, int | datetime], *, timeout: Seconds | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Finds the first record at or after a time.

        Args:
            times: by partition, milliseconds since 1970 or a `datetime`.
            timeout: seconds, by default `default.api.timeout.ms`.

        Returns:
            The offset and timestamp of the record in each partition; None for a partition without such a record.
        """
        return run_sync(self._offsets_for_times(times, timeout))

    def lag(self, timeout: Seconds | None = None) -> dict[TopicPartition, int]:
        """The number of offsets between position and end, for every assigned partition.

        Fetch responses contain end offsets, so partitions with a response within the last second need no request.

        Args:
            timeout: seconds, by default `default.api.timeout.ms`.

        Raises:
            IllegalStateError: the group has not assigned partitions yet; call `poll` first.
        """
        return run_sync(self._lag(timeout))

    def partitions_for(self, topic: str, *, timeout: Seconds | None = None) -> list[TopicPartition]:
        """The partitions of a topic, sorted by number.

        Args:
            topic: name of the topic.
            timeout: seconds, by default `default.api.timeout.ms`.

        Raises:
            UnknownTopicOrPartitionError: the topic does not exist.
        """
        return run_sync(self._partitions_for(topic, timeout))

    def topics(self, timeout: Seconds | None = None) -> list[str]:
        """The names of all topics that this user may see, sorted, without Kafka's internal topics.

        Args:
            timeout: seconds, by default `default.api.timeout.ms`.

        Raises:
            KafkaTimeoutError: no broker responded in time.
        """
        return run_sync(self._run(self._open.topics(to_seconds(timeout))))

    def assign_topics(self, *topics: str | Iterable[str], timeout: Seconds | None = None) -> None:
        """Assigns all partitions of topics to the consumer, which does not join the group, as `assign` does.

        Partitions that are added to a topic later are not assigned: call the method again, or use `subscribe`.

        Args:
            *topics: topic names, one by one or as an iterable.
            timeout: seconds to look up the partitions, by default `default.api.timeout.ms`.

        Raises:
            UnknownTopicOrPartitionError: a topic does not exist. Nothing is assigned.
            ConfigurationError: the consumer is subscribed to topics.
        """
        run_sync(self._assign_topics(topics, timeout))

    def seek_to_beginning(self, *partitions: Partitions, timeout: Seconds | None = None) -> None:
        """Moves positions to the log start offset.

        Args:
            *partitions: partitions to move, by default all assigned partitions.
            timeout: seconds, by default `default.api.timeout.ms`.
        """
        run_sync(self._seek_to(self._open.seek_to_beginning, partitions, timeout))

    def seek_to_end(self, *partitions: Partitions, timeout: Seconds | None = None) -> None:
        """Moves positions to the end.

        Args:
            *partitions: partitions to move, by default all assigned partitions.
            timeout: seconds, by default `default.api.timeout.ms`.
        """
        run_sync(self._seek_to(self._open.seek_to_end, partitions, timeout))

    def seek_to_committed(self, *partitions: Partitions, timeout: Seconds | None = None) -> None:
        """Moves positions to the group's committed offsets. Partitions without one follow `auto.offset.reset`.

        Args:
            *partitions: partitions to move, by default all assigned partitions.
            timeout: seconds, by default `default.api.timeout.ms`.
        """
        run_sync(self._seek_to(self._open.seek_to_committed, partitions, timeout))

    def seek_to_timestamp(self, when: int | datetime, *partitions: Partitions, timeout: Seconds | None = None) -> None:
        """Moves positions to the first record at or after a time, or to the end if no such record exists.

        Args:
            when: milliseconds since 1970, or a `datetime`.
            *partitions: partitions to move, by default all assigned partitions.
            timeout: seconds, by default `default.api.timeout.ms`.
        """
        run_sync(self._seek_to_timestamp(when, partitions, timeout))

    def close(self, timeout: Seconds | None = None) -> None:
        """Commits finished rows (with `enable.auto.commit`), leaves the group and closes all connections.

        Calls the listener's `on_partitions_revoked`. Calls waiting in other threads raise `ClosedError`. May be called
        again, and from signal handlers and listeners: within `on_partitions_revoked` or `on_partitions_lost` the
        consumer closes immediately, without calling the listener again, and the `poll` that called the listener raises
        `ClosedError`.

        An exception from a signal handler, Ctrl-C included, ends the wait within 200 ms; closing continues in the
        background until the timeout.

        Args:
            timeout: seconds to close, by default `default.api.timeout.ms`, at most 30. Time spent in a listener is not
                counted.
        """
        run_sync(self._close(True, timeout))

    def __enter__(self) -> Consumer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After an exception, the rows of the last poll may not be processed, so only rows of earlier polls are
        # committed.
        run_sync(self._close(kind is None, None))
