"""Reading Kafka as Arrow batches."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from datetime import datetime
from inspect import isawaitable
from types import TracebackType
from typing import TYPE_CHECKING
from uuid import UUID

import pyarrow as pa

from samsarrow import _core
from samsarrow._consumer import CommitCallback, ConsumerBase, leave
from samsarrow._faces import Blocking, now
from samsarrow._rows import up_to
from samsarrow.exceptions import ClosedError
from samsarrow.group import Offsets
from samsarrow.types import (
    ConsumerRecord,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    Seconds,
    TopicPartition,
    to_milliseconds,
)

if TYPE_CHECKING:
    from samsarrow.values.columns import TypedColumns
    from samsarrow.values.dead_letter import DeadLetter

__all__ = ["CommitCallback", "Consumer"]


class Consumer(Blocking, ConsumerBase):
    """Reads topics as a member of a group, or partitions assigned by hand; `poll` gives `pyarrow.RecordBatch`es.

    Columns: `key binary`, `value binary`, `topic dictionary<int32, string>`, `partition int32`, `offset int64`,
    `timestamp timestamp[ms, UTC]`, `timestamp_type int8` (0 the producer's time, 1 the broker's, null for records of
    message format v0, which have no time); with `include_headers` also `headers list<struct<key: string, value:
    binary>>`, with `include_leader_epoch` also `leader_epoch int32`. Null is null and empty is empty. With
    `layout="view"` keys and values are `binary_view`.

    No connection is made before the first call that needs one. A consumer belongs to the process that made it; its
    methods may be called from many threads, and listeners and callbacks run in the thread that polls.

    With `enable.auto.commit`, the default where there is a `group.id`, a `poll` commits what the polls before it gave:
    rows that the program has not come back from are never committed. `close` commits what the last poll gave too; a
    `with` block that ends by an exception does not.

    Args:
        config: options with dotted names, `{"bootstrap.servers": "localhost:9092", "group.id": "g"}`.
        **options: the same as keywords, `group_id="g"`. docs/options.md lists all. `partition_assignment_strategy` also
            takes a sequence of names and `Assignor`s of your own, `sasl_oauthbearer_token_provider` a function
            (`TokenProvider`).
        key_format: how keys are written: `Avro(…)`, or the name of a type of Kafka's own, `"long"`. The column `key`
            has the type that docs/values.md says.
        value_format: the same of values. A registry's schema is found by the topic; several topics, or a pattern, need
            a format with a schema or a subject.
        bad_values: what happens to a key or value that its format cannot read. `raise`: a poll gives the rows before
            it, the next raises `BadValueError` with the position on it, as often as it is called. `null`: the row
            stays, with a null for it, its bytes in `raw_key binary` or `raw_value binary` and what is wrong in
            `key_error string` or `value_error string`. `DeadLetter(…)`: it goes to another topic.
        raw_values: adds `raw_key` and `raw_value`, the bytes of what is decoded.

    Raises:
        ConfigurationError: an option is unknown, given twice or has a value that cannot be.
    """

    @staticmethod
    def _abandon(core: _core.Consumer) -> None:
        leave(core)

    @staticmethod
    async def _heard(returned: object) -> None:
        if isawaitable(returned):
            if (close := getattr(returned, "close", None)) is not None:
                close()
            raise TypeError("a Consumer does not await its listeners and callbacks: use an AsyncConsumer")

    @staticmethod
    async def _delivered(delivery: _core.BatchDelivery) -> None:
        delivery.result()

    def _prepare_typed(self, typed: TypedColumns) -> None:
        now(typed.prepare(self._do, self._topics()))

    def _check_letters(self, letters: DeadLetter) -> None:
        if not isinstance(letters.producer, Blocking):
            raise TypeError("the DeadLetter of a Consumer needs a Producer")

    def unsubscribe(self, *, timeout: Seconds | None = None) -> None:
        """Leaves the group, or drops what is assigned by hand; nothing is read any more.

        The listener's `on_partitions_revoked` is called; with `enable.auto.commit` what is finished is committed.
        """
        now(self._unsubscribe(timeout))

    def client_instance_id(self, timeout: Seconds | None = None) -> UUID:
        """The id by which brokers know this client's metrics (KIP-714), for the logs of both sides.

        Args:
            timeout: seconds, by default `default.api.timeout.ms`.

        Raises:
            IllegalStateError: `enable.metrics.push` is off.
            UnsupportedVersionError: the brokers take no metrics: they are older than Kafka 3.7, or have no plugin.
            KafkaTimeoutError: no broker could be asked in time.
        """
        return now(self._client_instance_id(timeout))

    def poll(self, timeout: Seconds = 1.0) -> pa.RecordBatch:
        """The next rows, of one partition or several.

        Args:
            timeout: seconds to wait for the first row.

        Returns:
            At most `max.poll.records` rows; none when nothing came in time. The schema is always the same. Positions
            move past the rows that are returned, and only those.

        Raises:
            ConfigurationError: nothing is subscribed to or assigned, so nothing could ever come.
            WakeupError: `wakeup` was called.
            Exception: what a listener or a callback raised, once the rebalance is done.
            OffsetOutOfRangeError: the position is gone and `auto.offset.reset` is `none`.
            CorruptRecordError: a fetched batch is damaged; seek past it to go on.
            BadValueError: the next row cannot be read in the consumer's formats; its `partition` and `offset` say where
                it is, to seek past it.
            RegistryError: the registry cannot be asked how values are written. Positions stay before them.
            KafkaError: anything else that keeps an assigned partition from being read, once each time it is met.
        """
        return now(self._poll(timeout))

    def records(self, timeout: Seconds = 1.0) -> Iterator[ConsumerRecord]:
        """The rows of one `poll`, one by one."""
        batch = self.poll(timeout)
        return _core.Rows(batch) if self._typed is None else self._typed.records(batch)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Batches as they come, never an empty one, for ever or until the consumer is closed."""
        while self._core is not None:
            try:
                batch = self.poll(1.0)
            except ClosedError:
                return
            if batch.num_rows:
                yield batch

    def reader(self, *, timeout: Seconds | None = None) -> pa.RecordBatchReader:
        """What is there now, as a reader that ends: every assigned partition up to its end at this moment.

        A consumer that has subscribed joins its group first. Reading moves the positions, as `poll` does; partitions
        that are paused are left alone. Polars, DuckDB and others take it as it is.

        Args:
            timeout: seconds that it may take to join the group and to find the ends, by default
                `default.api.timeout.ms`.

        Raises:
            ConfigurationError: nothing is subscribed to or assigned.
            KafkaTimeoutError: the group gave no partitions in time, or a broker did not answer.
        """
        held, ends = now(self._ends(timeout))
        return pa.RecordBatchReader.from_batches(self.schema, _all(up_to(self, ends, held)))

    def commit(self, what: Offsets | pa.RecordBatch | None = None, *, timeout: Seconds | None = None) -> None:
        """Commits offsets to the group, and waits until that is done.

        Args:
            what: None for the positions of all assigned partitions; a batch for the offsets after its last rows; or
                offsets by partition, each the next one to read.
            timeout: seconds, by default `default.api.timeout.ms`.

        Raises:
            ConfigurationError: there is no `group.id`.
            OffsetMetadataTooLargeError: the metadata is longer than the broker allows.
            KafkaTimeoutError: it could not be done in time; the text has the last error.
        """
        now(self._commit(what, timeout))

    def committed(
        self,
        partitions: Iterable[TopicPartition],
        *,
        require_stable: bool | None = None,
        timeout: Seconds | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed.

        Args:
            partitions: to ask for, in one request.
            require_stable: whether to wait for open transactions that commit offsets (KIP-447); by default with
                `isolation.level=read_committed`.
            timeout: seconds, by default `default.api.timeout.ms`.

        Returns:
            For each partition its offset, None where nothing was committed.
        """
        return now(self._committed(partitions, require_stable, timeout))

    def position(self, partition: TopicPartition, *, timeout: Seconds | None = None) -> int:
        """The offset of the next row that `poll` will give of an assigned partition."""
        return now(self._position(partition, timeout))

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], *, timeout: Seconds | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset of each partition that is still there."""
        return now(self._beginning_offsets(partitions, timeout))

    def end_offsets(
        self, partitions: Iterable[TopicPartition], *, timeout: Seconds | None = None
    ) -> dict[TopicPartition, int]:
        """The end of each partition: its high watermark, with `read_committed` its last stable offset."""
        return now(self._end_offsets(partitions, timeout))

    def offsets_for_times(
        self, times: Mapping[TopicPartition, int | datetime], *, timeout: Seconds | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after a time.

        Args:
            times: milliseconds since 1970 or a `datetime`, by partition.
            timeout: seconds, by default `default.api.timeout.ms`.

        Returns:
            None for a partition without such a record.
        """
        return now(self._offsets_for_times(times, timeout))

    def lag(self, *, timeout: Seconds | None = None) -> dict[TopicPartition, int]:
        """How many offsets lie between position and end, of every assigned partition.

        Brokers send the ends with the records: no request is made for partitions that had an answer within a second.

        Raises:
            IllegalStateError: the group has given no partitions yet: it does in `poll`.
        """
        return now(self._lag(timeout))

    def partitions_for(self, topic: str, *, timeout: Seconds | None = None) -> list[TopicPartition]:
        """The partitions of a topic, in order.

        Raises:
            UnknownTopicOrPartitionError: the topic does not exist.
        """
        return now(self._partitions_for(topic, timeout))

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Goes on at the first offset of these partitions, of all that are assigned if none is named."""
        now(self._seek_to("beginning", partitions))

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Goes on at the end of these partitions, of all that are assigned if none is named."""
        now(self._seek_to("end", partitions))

    def seek_to_committed(self, *partitions: TopicPartition) -> None:
        """Goes on at the group's committed offsets; without one, where `auto.offset.reset` says."""
        now(self._seek_to("committed", partitions))

    def seek_to_timestamp(self, when: int | datetime, *partitions: TopicPartition) -> None:
        """Goes on at the first record at or after a time; at the end where there is none.

        Args:
            when: milliseconds since 1970, or a `datetime`.
            *partitions: all that are assigned if none is named.
        """
        now(self._seek_to(to_milliseconds(when), partitions))

    def close(self, timeout: Seconds | None = None) -> None:
        """Commits what is finished (with `enable.auto.commit`), leaves the group and ends all connections.

        The listener's `on_partitions_revoked` is called. Calls that wait in other threads raise `ClosedError`. May
        be called again, and by signal handlers and listeners: called within `on_partitions_revoked` or
        `on_partitions_lost` it closes at once and calls the listener no more; a `poll` that had called the
        listener then raises `ClosedError`.

        Whatever a signal handler raises, Ctrl-C too, ends the wait within 200 ms; what is left to do goes on in the
        background until the timeout.

        Args:
            timeout: seconds that it may take, by default `default.api.timeout.ms`; what a listener takes is its own.
        """
        now(self._close(True, timeout))

    def __enter__(self) -> Consumer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After an exception the program may not be done with what the last poll gave.
        now(self._close(kind is None, None))


def _all(batches: AsyncGenerator[pa.RecordBatch, None]) -> Iterator[pa.RecordBatch]:
    """What a blocking consumer's generator gives."""
    try:
        while True:
            yield now(batches.__anext__())
    except StopAsyncIteration:
        pass
    finally:
        now(batches.aclose())
