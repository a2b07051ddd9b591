"""Producers for event loops that send records and Arrow data to Kafka."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

from samsarrow import _core
from samsarrow._arguments import names_arguments
from samsarrow._producer import Errors, Headers, OnDelivery, Payload, ProducerBase
from samsarrow._sync import Awaiting, checkpoint, documented_by, shielded
from samsarrow.exceptions import KafkaError
from samsarrow.group import Committable, ConsumerGroupMetadata
from samsarrow.producer import Producer
from samsarrow.types import RecordMetadata, Seconds, TopicPartition

if TYPE_CHECKING:
    from samsarrow.values.decode import Format

# Number of sends between two checkpoints. Checkpoints are needed because `send` does not wait while buffer memory is
# available. This number of sends takes less than 1 ms.
SENDS_PER_CHECKPOINT = 256


@documented_by(Producer)
class AsyncProducer(Awaiting, ProducerBase):
    """`Producer` for event loops: asyncio, uvloop, trio and anyio. Names and arguments are the same as in `Producer`.

    It can be created without a running event loop, and may be used by several loops and threads. Methods without I/O
    are not coroutines. `send` only waits for space in `buffer.memory`; its result is awaited separately:

        delivery = await producer.send("t", b"value")
        metadata = await delivery
        metadata = await producer.send_and_wait("t", b"value")

    A cancelled `send` does not send its record. A cancelled `send_batch` stops sending; a note of the exception has the
    number of rows that are queued. Cancelling `await delivery`, `flush` or `close` only ends the wait; call them again
    to continue. A cancelled transaction call continues in the background, and calling the same method again waits for
    it. A cancelled `begin_transaction` opens no transaction.

    Args:
        config: options with dotted names, as in `Producer`.
        errors: as in `Producer`.
        **options: the same options as keywords.

    Raises:
        ConfigurationError: an option is unknown, given twice or has an invalid value.
    """

    _sends = 0

    @staticmethod
    async def _run_to_end(work: Coroutine[Any, Any, None]) -> None:
        await shielded(work)

    async def send(
        self,
        topic: str,
        value: Payload,
        key: Payload = None,
        *,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp: int | datetime | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> _core.Delivery:
        self._sends += 1
        if not self._sends % SENDS_PER_CHECKPOINT:
            # Runs before the record is queued, so that a caller that is cancelled here has sent nothing.
            await checkpoint()
        if self._queue is not None and headers is None and timestamp is None and on_delivery is None:
            queued = self._queue(topic, value, key, None, partition, None)
            return queued if type(queued) is _core.Delivery else await self._send_reserved(queued)
        pending = self._start_send(topic, value, key, headers, partition, timestamp, on_delivery)
        return pending if isinstance(pending, _core.Delivery) else await pending

    async def send_and_wait(
        self,
        topic: str,
        value: Payload,
        key: Payload = None,
        *,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp: int | datetime | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> RecordMetadata:
        """Sends one record and waits for its acknowledgement, like awaiting the result of `await send(...)`.

        Raises:
            KafkaError: `send` failed, or the record was not delivered.
        """
        if self._queue is not None and headers is None and timestamp is None and on_delivery is None:
            queued = self._queue(topic, value, key, None, partition, None)
            return await (queued if type(queued) is _core.Delivery else await self._send_reserved(queued))
        pending = self._start_send(topic, value, key, headers, partition, timestamp, on_delivery)
        return await (pending if isinstance(pending, _core.Delivery) else await pending)

    @names_arguments
    async def send_batch(
        self,
        topic: str,
        data: Any,
        *,
        key: str | None = None,
        value: str | Sequence[str] | None = None,
        headers: str | None = None,
        partition: str | None = None,
        timestamp: str | None = None,
        value_format: Literal["json", "ipc"] | Format | None = None,
        key_format: Format | None = None,
    ) -> _core.BatchDelivery:
        return await self._send_batch(topic, data, key, value, headers, partition, timestamp, value_format, key_format)

    async def flush(self, timeout: Seconds | None = None, *, errors: Errors | None = None) -> None:
        await self._flush(timeout, errors)

    async def client_instance_id(self, timeout: Seconds | None = None) -> UUID:
        return await self._client_instance_id(timeout)

    async def partitions_for(self, topic: str, *, timeout: Seconds | None = None) -> list[TopicPartition]:
        return await self._partitions_for(topic, timeout)

    def transaction(self) -> _Transaction:
        """Runs an `async with` block as a transaction, which is committed at the end or aborted if the block raises.

            async with producer.transaction():
                await producer.send("counts", value)
                await producer.send_offsets_to_transaction(batch, consumer.group_metadata())

        The first transaction also runs `init_transactions`. Any exception that leaves the block, including a
        cancellation, aborts the transaction. The block waits for the abort, even if it is cancelled again, and then
        raises the exception. If the commit fails with an error that is `abortable`, the transaction is aborted and the
        error raised; the next transaction may succeed. A cancelled commit continues: `commit_transaction` returns its
        outcome.

        Raises:
            KafkaTimeoutError: the commit did not finish within `max.block.ms`. The outcome is unknown, and the
                transaction is not aborted. Call `commit_transaction` again to wait for the outcome.
            ProducerFencedError: another producer with the same `transactional.id` took over.
            KafkaError: nothing was committed, for the reason in the error.
        """
        return _Transaction(self)

    async def init_transactions(self, timeout: Seconds | None = None) -> None:
        await self._init_transactions(timeout)

    async def begin_transaction(self, timeout: Seconds | None = None) -> None:
        await self._begin_transaction(timeout)

    async def commit_transaction(self, timeout: Seconds | None = None) -> None:
        await self._commit_transaction(timeout)

    async def abort_transaction(self, timeout: Seconds | None = None) -> None:
        await self._abort_transaction(timeout)

    async def send_offsets_to_transaction(
        self, offsets: Committable, group_metadata: ConsumerGroupMetadata, *, timeout: Seconds | None = None
    ) -> None:
        await self._send_offsets_to_transaction(offsets, group_metadata, timeout)

    async def close(self, timeout: Seconds | None = None, *, errors: Errors | None = None) -> None:
        await self._close(timeout, errors)

    async def __aenter__(self) -> AsyncProducer:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._exit_block(error)


class _Transaction:
    """Context manager returned by `AsyncProducer.transaction`."""

    def __init__(self, producer: AsyncProducer) -> None:
        self._producer = producer

    async def __aenter__(self) -> AsyncProducer:
        await self._producer.begin_transaction()
        return self._producer

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, GeneratorExit):
            # The event loop has ended, so nothing can be awaited.
            self._producer._open.abort_transaction(None).start()
        elif error is not None:
            await shielded(self._producer._abort_after(error))
        else:
            try:
                await self._producer.commit_transaction()
            except KafkaError as failure:
                if failure.abortable:
                    await shielded(self._producer._abort_after(failure))
                raise
