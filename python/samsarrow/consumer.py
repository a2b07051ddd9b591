"""Consumers that read Kafka as Arrow batches."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from datetime import datetime
from inspect import isawaitable
from types import TracebackType
from typing import TYPE_CHECKING
from uuid import UUID

import pyarrow as pa

from samsarrow import _core
from samsarrow._bounded_reader import read_to_ends
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
    """Reads topics as a member of a group, or manually assigned partitions; `poll` returns `pyarrow.RecordBatch`es.

    Columns: `key binary`, `value binary`, `topic dictionary<int32, string>`, `partition int32`, `offset int64`,
    `timestamp timestamp[ms, UTC]`, `timestamp_type int8` (0 the producer's time, 1 the broker's, null for records of
    message format v0, which have no timestamp). `include_headers` adds `headers list<struct<key: string, value:
    binary>>`, `include_leader_epoch` adds `leader_epoch int32`. Nulls and empty values are kept distinct. With
    `layout="view"` keys and values are `binary_view`.

    The consumer connects on the first call that needs a connection. It belongs to the process that created it. Its
    methods may be called from many threads, but only one thread at a time may poll: a poll means that earlier rows are
    finished. Listeners and callbacks run in the thread that polls, callbacks also in one that commits.

    With `enable.auto.commit`, the default with a `group.id`, a `poll` commits the rows that earlier polls returned, and
    never rows that the application may still be processing. `close` also commits the rows of the last poll; a `with`
    block that ends with an exception does not.

    Args:
        config: options with dotted names, `{"bootstrap.servers": "localhost:9092", "group.id": "g"}`.
        **options: the same options as keywords, `group_id="g"`. docs/options.md lists all options.
            `partition_assignment_strategy` also takes a sequence of names and your own `Assignor`s,
            `sasl_oauthbearer_token_provider` a function (`TokenProvider`).
        key_format: the format of keys: `Avro(…)`, or the name of one of Kafka's own types, `"long"`. docs/values.md
            lists the resulting types of the column `key`.
        value_format: the format of values. A registry's schema is found by topic; several topics, or a pattern, need a
            format with a schema or a subject.
        on_decode_error: effect of a key or value that its format cannot read. `raise`: a poll returns the rows before
            it, and the next polls raise `BadValueError` with its position until you seek past it. `null`: the row
            stays, with a null, its bytes in `raw_key binary` or `raw_value binary` and the reason in `key_error string`
            or `value_error string`. `DeadLetter(…)`: the record is sent to another topic.
        raw_values: adds `raw_key` and `raw_value`, the undecoded bytes.

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
        """Leaves the group, or drops the manual assignment; reading stops.

        Calls the listener's `on_partitions_revoked`; with `enable.auto.commit`, commits finished rows.
        """
        run_sync(self._unsubscribe(timeout))

    def client_instance_id(self, timeout: Seconds | None = None) -> UUID:
        """The id under which brokers store this client's metrics (KIP-714), to match logs of both sides.

        Args:
            timeout: seconds, by default `default.api.timeout.ms`.

        Raises:
            IllegalStateError: `enable.metrics.push` is off.
            UnsupportedVersionError: the brokers accept no metrics: they are older than Kafka 3.7, or have no plugin.
            KafkaTimeoutError: no broker responded in time.
        """
        return run_sync(self._client_instance_id(timeout))

    def poll(self, timeout: Seconds = 1.0) -> pa.RecordBatch:
        """Returns the next rows, of one partition or several.

        Args:
            timeout: seconds to wait for the first row.

        Returns:
            Up to `max.poll.records` rows; none if nothing arrived in time. The schema is always the same. Positions
            move past the returned rows, and only those.

        Raises:
            ConfigurationError: nothing is subscribed or assigned, so no row can arrive.
            IllegalStateError: another thread polls this consumer, or this is called within a poll, by a listener or a
                callback.
            WakeupError: `wakeup` was called.
            Exception: an exception of a listener or a callback, raised after the rebalance.
            OffsetOutOfRangeError: the position no longer exists and `auto.offset.reset` is `none`.
            CorruptRecordError: a fetched batch is corrupt; seek past it to continue.
            BadValueError: the next row cannot be read in the consumer's formats; every poll raises it until you seek
                past its `partition` and `offset`.
            RegistryError: the registry cannot be reached for a schema. Positions do not move.
            KafkaError: any other error that prevents reading an assigned partition, raised once per occurrence.
        """
        return run_sync(self._poll(timeout))

    def records(self, timeout: Seconds = 1.0) -> Iterator[ConsumerRecord]:
        """Iterates over the rows of one `poll`."""
        batch = self.poll(timeout)
        return _core.RecordIter(batch) if self._typed is None else self._typed.records(batch)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yields non-empty batches as they arrive, until the consumer is closed."""
        while self._core is not None:
            try:
                batch = self.poll(1.0)
            except ClosedError:
                if self._core is None:
                    return
                # Raised by the producer of a listener or a DeadLetter, not by this consumer.
                raise
            if batch.num_rows:
                yield batch

    def reader(self, *, timeout: Seconds | None = None) -> pa.RecordBatchReader:
        """Reads every assigned partition up to its current end, as a reader that ends there.

        A subscribed consumer joins its group first. Reading moves the positions, as `poll` does; paused partitions are
        skipped. After a rebalance it continues with the partitions that the group has assigned, up to their ends.
        Polars, DuckDB and other libraries accept the reader directly.

        Args:
            timeout: seconds to join the group and find the ends, by default `default.api.timeout.ms`.

        Raises:
            ConfigurationError: nothing is subscribed or assigned.
            KafkaTimeoutError: the group assigned no partitions in time, or a broker did not respond.
        """
        ends = run_sync(self._current_ends(timeout))
        return pa.RecordBatchReader.from_batches(self.schema, _all(read_to_ends(self, ends)))

    def commit(self, what: Committable | None = None, *, timeout: Seconds | None = None) -> None:
        """Commits offsets to the group, and waits for the acknowledgement.

        Args:
            what: None for the positions of all assigned partitions; a batch for the positions after its rows, which lie
                past the transaction markers and aborted records that follow them (KIP-1094) and have the leader epoch;
                a record for the position after it; or offsets by partition, each the next one to read.
            timeout: seconds, by default `default.api.timeout.ms`.

        Raises:
            ConfigurationError: `group.id` is not set.
            OffsetMetadataTooLargeError: the metadata is longer than the broker allows.
            RebalanceInProgressError: the group is rebalancing, and may assign these partitions to others.
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
            require_stable: whether to wait for open transactions that commit offsets (KIP-447); by default with
                `isolation.level=read_committed`.
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
        """The first available offset of each partition."""
        return run_sync(self._beginning_offsets(partitions, timeout))

    def end_offsets(
        self, partitions: Iterable[TopicPartition], *, timeout: Seconds | None = None
    ) -> dict[TopicPartition, int]:
        """The end of each partition: its high watermark, or its last stable offset with `read_committed`."""
        return run_sync(self._end_offsets(partitions, timeout))

    def offsets_for_times(
        self, times: Mapping[TopicPartition, int | datetime], *, timeout: Seconds | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Finds the first record at or after a time.

        Args:
            times: milliseconds since 1970 or a `datetime`, by partition.
            timeout: seconds, by default `default.api.timeout.ms`.

        Returns:
            None for a partition without such a record.
        """
        return run_sync(self._offsets_for_times(times, timeout))

    def lag(self, *, timeout: Seconds | None = None) -> dict[TopicPartition, int]:
        """The number of offsets between position and end, for every assigned partition.

        Fetch responses contain the end offsets: partitions with a response within the last second need no request.

        Raises:
            IllegalStateError: the group has not assigned partitions yet; call `poll` first.
        """
        return run_sync(self._lag(timeout))

    def partitions_for(self, topic: str, *, timeout: Seconds | None = None) -> list[TopicPartition]:
        """The partitions of a topic, in order.

        Raises:
            UnknownTopicOrPartitionError: the topic does not exist.
        """
        return run_sync(self._partitions_for(topic, timeout))

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Moves these partitions, or all assigned ones, to their first offset."""
        run_sync(self._seek_to(self._open.seek_to_beginning, partitions))

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Moves these partitions, or all assigned ones, to their end."""
        run_sync(self._seek_to(self._open.seek_to_end, partitions))

    def seek_to_committed(self, *partitions: TopicPartition) -> None:
        """Moves to the group's committed offsets; partitions without one follow `auto.offset.reset`."""
        run_sync(self._seek_to(self._open.seek_to_committed, partitions))

    def seek_to_timestamp(self, when: int | datetime, *partitions: TopicPartition) -> None:
        """Moves to the first record at or after a time, or to the end if no such record exists.

        Args:
            when: milliseconds since 1970, or a `datetime`.
            *partitions: partitions to move, by default all assigned ones.
        """
        run_sync(self._seek_to_timestamp(when, partitions))

    def close(self, timeout: Seconds | None = None) -> None:
        """Commits finished rows (with `enable.auto.commit`), leaves the group and closes all connections.

        Calls the listener's `on_partitions_revoked`. Calls waiting in other threads raise `ClosedError`. May be called
        again, and from signal handlers and listeners: within `on_partitions_revoked` or `on_partitions_lost` it closes
        immediately, without another call of the listener; the `poll` that called the listener raises `ClosedError`.

        An exception from a signal handler, Ctrl-C included, ends the wait within 200 ms; closing continues in the
        background until the timeout.

        Args:
            timeout: seconds to close, by default `default.api.timeout.ms`, limited to 30; time spent in a listener is
                not counted.
        """
        run_sync(self._close(True, timeout))

    def __enter__(self) -> Consumer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After an exception the rows of the last poll may not be processed: only earlier ones are committed.
        run_sync(self._close(kind is None, None))


def _all(batches: AsyncGenerator[pa.RecordBatch, None]) -> Iterator[pa.RecordBatch]:
    """Yields the batches of a blocking consumer's generator."""
    try:
        while True:
            yield run_sync(batches.__anext__())
    except StopAsyncIteration:
        pass
    finally:
        run_sync(batches.aclose())
