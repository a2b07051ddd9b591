"""Consumers of share groups for event loops."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import TracebackType
from uuid import UUID

import pyarrow as pa

from samsarrow._any_consumer import AsyncRecords, AwaitingConsumer
from samsarrow._share import ShareConsumerBase
from samsarrow._share_rows import Rows
from samsarrow._sync import checkpoint, documented_by
from samsarrow.exceptions import ClosedError, KafkaError
from samsarrow.share import ShareConsumer
from samsarrow.types import ConsumerRecord, Seconds, TopicPartition

__all__ = ["AsyncShareConsumer"]


@documented_by(ShareConsumer)
class AsyncShareConsumer(AwaitingConsumer, ShareConsumerBase):
    """`ShareConsumer` for event loops: asyncio, uvloop, trio and anyio. Names and arguments are the same.

        async with AsyncShareConsumer(bootstrap_servers="localhost:9092", group_id="g") as consumer:
            consumer.subscribe(["t"])
            async for batch in consumer:
                await process(batch)

    It can be created without a running event loop. Methods without I/O (`subscribe`, `acknowledge`) are not coroutines.
    Callbacks of `commit_async` may be coroutine functions. A cancelled `poll` loses no rows: the next one returns them.
    Cancelling a `commit` only ends the wait. A cancelled `close` continues in the background; the next `close` waits
    for it. Only one task may poll at a time.

    Args:
        config: options with dotted names, as in `ShareConsumer`.
        **options: the same options as keywords, and the arguments of `ShareConsumer`.

    Raises:
        ConfigurationError: an option is unknown, given twice or invalid, or belongs to other groups.
    """

    async def client_instance_id(self, timeout: Seconds | None = None) -> UUID:
        return await self._client_instance_id(timeout)

    async def poll(self, timeout: Seconds | None = 1.0) -> pa.RecordBatch:
        await checkpoint()
        return await self._poll(timeout)

    def records(self, timeout: Seconds | None = 1.0) -> AsyncIterator[ConsumerRecord]:
        return AsyncRecords(self, lambda: self.poll(timeout))

    def __aiter__(self) -> AsyncIterator[pa.RecordBatch]:
        """Yields non-empty batches as they arrive, until the consumer is closed."""
        return _Batches(self)

    async def commit(self, timeout: Seconds | None = None) -> dict[TopicPartition, KafkaError | None]:
        return await self._commit(timeout)

    async def renew(self, rows: Rows, timeout: Seconds | None = None) -> dict[TopicPartition, KafkaError | None]:
        return await self._renew(rows, timeout)

    async def close(self, timeout: Seconds | None = None) -> None:
        await self._close(True, timeout)

    async def __aenter__(self) -> AsyncShareConsumer:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After an exception, the rows of the last poll may not be processed, so they return to the group.
        await self._close(kind is None, None)


class _Batches:
    """Iterator over batches. It is not a generator, which would need a finalizer if the loop ends early."""

    def __init__(self, consumer: AsyncShareConsumer) -> None:
        self._consumer = consumer

    def __aiter__(self) -> _Batches:
        return self

    async def __anext__(self) -> pa.RecordBatch:
        try:
            return await self._consumer.poll(None)
        except ClosedError:
            raise StopAsyncIteration from None
