"""Consumers for event loops that read Kafka as Arrow batches."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from datetime import datetime
from types import TracebackType
from uuid import UUID

import pyarrow as pa

from samsarrow._any_consumer import AsyncRecords, AwaitingConsumer
from samsarrow._bounded_reader import AsyncBoundedBatches
from samsarrow._consumer import ConsumerBase
from samsarrow._stream import AsyncBatchStream
from samsarrow._sync import checkpoint, documented_by
from samsarrow.consumer import Consumer
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

__all__ = ["AsyncBatchStream", "AsyncConsumer"]


@documented_by(Consumer)
class AsyncConsumer(AwaitingConsumer, ConsumerBase):
    """`Consumer` for event loops: asyncio, uvloop, trio and anyio. Names and arguments are the same as in `Consumer`.

        async with AsyncConsumer(bootstrap_servers="localhost:9092", group_id="g") as consumer:
            consumer.subscribe(["t"])
            async for batch in consumer:
                await consumer.commit(batch)

    It can be created without a running event loop. Methods without I/O (`subscribe`, `assign`, `seek`, `pause`) are not
    coroutines. Listeners and callbacks of commits may be coroutine functions.

    A cancelled `poll` loses neither rows nor rebalance events. If its listener was cancelled, the next poll calls the
    listener again, so a listener is called one or more times for each event. Cancelling a `commit` only ends the wait:
    the commit may or may not happen, and later commits run after it. A cancelled `close` continues in the background,
    and the next `close` waits for it. Only one task may poll at a time.

    Args:
        config: options with dotted names, as in `Consumer`.
        **options: the same options as keywords.

    Raises:
        ConfigurationError: an option is unknown, given twice or has an invalid value.
    """

    async def unsubscribe(self, timeout: Seconds | None = None) -> None:
        await self._unsubscribe(timeout)

    async def client_instance_id(self, timeout: Seconds | None = None) -> UUID:
        return await self._client_instance_id(timeout)

    async def poll(self, timeout: Seconds | None = 1.0, *, max_records: int | None = None) -> pa.RecordBatch:
        await checkpoint()
        return await self._poll(timeout, max_records=max_records)

    def records(
        self, timeout: Seconds | None = 1.0, *, max_records: int | None = None
    ) -> AsyncIterator[ConsumerRecord]:
        return AsyncRecords(self, lambda: self.poll(timeout, max_records=max_records))

    def __aiter__(self) -> AsyncIterator[pa.RecordBatch]:
        """Yields non-empty batches as they arrive, until the consumer is closed, as `stream()` does."""
        return AsyncBatchStream(self)

    def stream(
        self, *, idle: Seconds | None = None, max_rows: int | None = None, signals: bool = False
    ) -> AsyncBatchStream:
        return AsyncBatchStream(self, idle, max_rows, signals)

    def reader(self, timeout: Seconds | None = None) -> AsyncIterator[pa.RecordBatch]:
        """Reads every assigned partition up to its current end, batch by batch.

        A subscribed consumer joins its group first. Reading moves the positions, as `poll` does; paused partitions are
        skipped. After an error, the iterator continues with the next row; if the consumer is closed, it raises
        `ClosedError`. If a topic is deleted before its end is reached, the iterator raises
        `UnknownTopicOrPartitionError`, and then continues with the other topics. A position past the end of a log
        follows `auto.offset.reset`, as in `poll`. If you leave the loop early, close the iterator, for example with
        `aclosing` of contextlib.

        Args:
            timeout: seconds to join the group and look up the ends, by default `default.api.timeout.ms`.

        Raises:
            ConfigurationError: nothing is subscribed or assigned.
            KafkaTimeoutError: the group assigned no partitions in time, or a broker did not respond.
        """
        return AsyncBoundedBatches(self, timeout)

    async def commit(self, what: Committable | None = None, *, timeout: Seconds | None = None) -> None:
        await self._commit(what, timeout)

    async def committed(
        self,
        *partitions: Partitions,
        require_stable: bool | None = None,
        timeout: Seconds | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        return await self._committed(partitions, require_stable, timeout)

    async def position(self, partition: TopicPartition, *, timeout: Seconds | None = None) -> int:
        return await self._position(partition, timeout)

    async def beginning_offsets(
        self, *partitions: Partitions, timeout: Seconds | None = None
    ) -> dict[TopicPartition, int]:
        return await self._beginning_offsets(partitions, timeout)

    async def end_offsets(self, *partitions: Partitions, timeout: Seconds | None = None) -> dict[TopicPartition, int]:
        return await self._end_offsets(partitions, timeout)

    async def offsets_for_times(
        self, times: Mapping[TopicPartition, int | datetime], *, timeout: Seconds | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        return await self._offsets_for_times(times, timeout)

    async def lag(self, timeout: Seconds | None = None) -> dict[TopicPartition, int]:
        return await self._lag(timeout)

    async def partitions_for(self, topic: str, *, timeout: Seconds | None = None) -> list[TopicPartition]:
        return await self._partitions_for(topic, timeout)

    async def topics(self, timeout: Seconds | None = None) -> list[str]:
        return await self._run(self._open.topics(to_seconds(timeout)))

    async def assign_topics(self, *topics: str | Iterable[str], timeout: Seconds | None = None) -> None:
        await self._assign_topics(topics, timeout)

    async def seek_to_beginning(self, *partitions: Partitions, timeout: Seconds | None = None) -> None:
        await self._seek_to(self._open.seek_to_beginning, partitions, timeout)

    async def seek_to_end(self, *partitions: Partitions, timeout: Seconds | None = None) -> None:
        await self._seek_to(self._open.seek_to_end, partitions, timeout)

    async def seek_to_committed(self, *partitions: Partitions, timeout: Seconds | None = None) -> None:
        await self._seek_to(self._open.seek_to_committed, partitions, timeout)

    async def seek_to_timestamp(
        self, when: int | datetime, *partitions: Partitions, timeout: Seconds | None = None
    ) -> None:
        await self._seek_to_timestamp(when, partitions, timeout)

    async def close(self, timeout: Seconds | None = None) -> None:
        await self._close(True, timeout)

    async def __aenter__(self) -> AsyncConsumer:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After an exception, the rows of the last poll may not be processed, so only rows of earlier polls are
        # committed.
        await self._close(kind is None, None)
