"""Consumers that read Kafka as Arrow batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from inspect import isawaitable
from types import TracebackType
from typing import TYPE_CHECKING
from uuid import UUID

import pyarrow as pa

from samsarrow import _core
from samsarrow._bounded_reader import BoundedBatches
from samsarrow._consumer import CommitCallback, ConsumerBase
from samsarrow._sync import Blocking, run_sync
from samsarrow._unclosed import close_consumer
from samsarrow.exceptions import ClosedError
from samsarrow.group import Committable
from samsarrow.types import (
    ConsumerRecord,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    Seconds,
    TopicPartition,
)

if TYPE_CHECKING:
    from samsarrow.values.dead_letter import DeadLetter
    from samsarrow.values.typed_columns import TypedColumns

__all__ = ["CommitCallback", "Consumer"]


class Consumer(Blocking, ConsumerBase):
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

    @staticmethod
    def _finalize(core: _core.Consumer) -> None:
        close_consumer(core)

    @staticmethod
    async def _on_result(returned: object) -> None:
        if isawaitable(returned):
            if (close := getattr(returned, "close", None)) is not None:
                close()
            raise TypeError("a Consumer does not await its listeners and callbacks: use an AsyncConsumer")

    @staticmethod
    async def _wait_delivered(delivery: _core.BatchDelivery) -> None:
        delivery.result()

    def _prepare_typed(self, typed: TypedColumns) -> None:
        run_sync(typed.prepare(self._run, self._topics()))

    def _check_dead_letter(self, dead_letter: DeadLetter) -> None:
        if not isinstance(dead_letter.producer, Blocking):
            raise TypeError("the DeadLetter of a Consumer needs a Producer")

    def unsubscribe(self, *, timeout: Seconds | None = None) -> None:
        """Stops reading: leaves the group, or drops the manual assignment.

        Calls the listener's `on_partitions_revoked`; with `enable.auto.commit`, commits finished rows.
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

    def poll(self, timeout: Seconds = 1.0) -> pa.RecordBatch:
        """Returns the next rows, of one partition or several.

        Args:
            timeout: seconds to wait for the first row.

        Returns:
            Up to `max.poll.records` rows; none if nothing arrived in time. All batches have the same schema. Positions
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
        return run_sync(self._poll(timeout))

    def records(self, timeout: Seconds = 1.0) -> Iterator[ConsumerRecord]:
        """Iterates over the rows of one `poll`."""
        batch = self.poll(timeout)
        return _core.RecordIter(batch) if self._typed is None else self._typed.records(batch)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yields non-empty batches as they arrive, until the consumer is closed."""
        return _Batches(self)

    def reader(self, *, timeout: Seconds | None = None) -> pa.RecordBatchReader:
        """Returns a reader of every assigned partition up to its current end.

        A subscribed consumer joins its group first. Reading moves the positions, as `poll` does; paused partitions are
        skipped. After a rebalance it continues with the partitions that the group has assigned, up to their ends.
        Polars, DuckDB and other libraries accept the reader directly. After an error, such as that of a value that
        cannot be decoded, the reader continues with the next row; if the consumer is closed, it raises `ClosedError`.

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
                the leader epoch. A record commits the position after the record. A mapping by partition has the offsets
                of the next records to read.
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
        partitions: Iterable[TopicPartition],
        *,
        require_stable: bool | None = None,
        timeout: Seconds | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Returns the group's committed offsets.

        Args:
            partitions: partitions to look up, in one request.
            require_stable: whether to wait until no transaction with offsets of the group is open (KIP-447); by default
                only with `isolation.level=read_committed`.
            timeout: seconds, by default `default.api.timeout.ms`.

        Returns:
            The offset of each partition, None without a committed offset.
        """
        return run_sync(self._committed(partitions, require_stable, timeout))

    def position(self, partition: TopicPartition, *, timeout: Seconds | None = None) -> int:
        """The offset of the next row that `poll` returns from an assigned partition."""
        return run_sync(self._position(partition, timeout))

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], *, timeout: Seconds | None = None
    ) -> dict[TopicPartition, int]:
        """The log start offset of each partition."""
        return run_sync(self._beginning_offsets(partitions, timeout))

    def end_offsets(
        self, partitions: Iterable[TopicPartition], *, timeout: Seconds | None = None
    ) -> dict[TopicPartition, int]:
        """The end offset of each partition: the high watermark, or with `read_committed` the last stable offset."""
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

    def lag(self, *, timeout: Seconds | None = None) -> dict[TopicPartition, int]:
        """The number of offsets between position and end, for every assigned partition.

        Fetch responses contain end offsets, so partitions with a response within the last second need no request.

        Raises:
            IllegalStateError: the group has not assigned partitions yet; call `poll` first.
        """
        return run_sync(self._lag(timeout))

    def partitions_for(self, topic: str, *, timeout: Seconds | None = None) -> list[TopicPartition]:
        """The partitions of a topic, sorted by number.

        Raises:
            UnknownTopicOrPartitionError: the topic does not exist.
        """
        return run_sync(self._partitions_for(topic, timeout))

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Moves the positions of these partitions, or of all assigned partitions, to the log start offset."""
        run_sync(self._seek_to(self._open.seek_to_beginning, partitions))

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Moves the positions of these partitions, or of all assigned partitions, to the end."""
        run_sync(self._seek_to(self._open.seek_to_end, partitions))

    def seek_to_committed(self, *partitions: TopicPartition) -> None:
        """Moves positions to the group's committed offsets. Partitions without one follow `auto.offset.reset`."""
        run_sync(self._seek_to(self._open.seek_to_committed, partitions))

    def seek_to_timestamp(self, when: int | datetime, *partitions: TopicPartition) -> None:
        """Moves positions to the first record at or after a time, or to the end if no such record exists.

        Args:
            when: milliseconds since 1970, or a `datetime`.
            *partitions: partitions to move, by default all assigned partitions.
        """
        run_sync(self._seek_to_timestamp(when, partitions))

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


class _Batches:
    """Endless iterator over polls. It continues after an error, such as that of a value that cannot be decoded."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer

    def __iter__(self) -> _Batches:
        return self

    def __next__(self) -> pa.RecordBatch:
        while not self._consumer.closed:
            try:
                batch = self._consumer.poll(1.0)
            except ClosedError:
                if self._consumer.closed:
                    break
                # The error comes from the producer of a listener or of a `DeadLetter`, not from this consumer.
                raise
            if batch.num_rows:
                return batch
        raise StopIteration
