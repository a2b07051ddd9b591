"""Base class of `Producer` and `AsyncProducer`."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Unpack
from uuid import UUID

from samsarrow import _core
from samsarrow._names import METHODS, OtherClientsMethod
from samsarrow._sync import Runner, base_of_clients
from samsarrow._unclosed import unregister, wait_at_exit, watch_producer
from samsarrow.config import identity, merge
from samsarrow.exceptions import ClosedError, ConfigurationError, KafkaError
from samsarrow.group import Committable, ConsumerGroupMetadata, MemberMetadata, to_offsets
from samsarrow.metrics.client import ProducerMetrics, of_producer, to_uuid
from samsarrow.partitioner import Partitioned, choose_partition, take_partitioner
from samsarrow.types import (
    RecordMetadata,
    Seconds,
    TopicPartition,
    check_topic,
    to_milliseconds,
    to_seconds,
)

Payload = bytes | bytearray | memoryview | str | None
OnDelivery = Callable[[RecordMetadata | None, Exception | None], object]
Headers = Iterable[tuple[str, Payload]] | Mapping[str, Payload]
Values = str | Sequence[str] | None
Errors = Literal["raise", "log"]

if TYPE_CHECKING:
    from samsarrow.options import ProducerOptions
    from samsarrow.values.decode import Format


@base_of_clients
class ProducerBase(Runner):
    """Base of both producers. Methods that may wait are coroutines, which wait through `_run`."""

    @staticmethod
    async def _run_to_end(work: Coroutine[Any, Any, None]) -> None:
        """Runs `work` to its end, even in a task that is cancelled."""
        await work

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        *,
        errors: Errors = "raise",
        **options: Unpack[ProducerOptions],
    ) -> None:
        self._raises = _raises(errors)
        self._partitioner, pairs = take_partitioner(merge(config, options))
        self._core: _core.Producer | None = _core.Producer(pairs)
        # Queues a record, in the most frequent case of a topic, a value and a key only. None if the partitioner is a
        # function or the producer is closed.
        self._queue = None if self._partitioner is not None else self._core.send
        self._identity = identity(pairs)
        self._closing: _core.Producer | None = None
        # Delivers the queued records if the application does not close the producer.
        self._finalizer = watch_producer(self, self._core)

    @property
    def _open(self) -> _core.Producer:
        if self._core is None:
            raise ClosedError("the producer is closed")
        return self._core

    @property
    def closed(self) -> bool:
        """True if the producer is closed."""
        return self._core is None

    def __repr__(self) -> str:
        # The attributes are missing if the constructor raised.
        name = f"{type(self).__name__} {getattr(self, '_identity', '')}".rstrip()
        return f"<{name}{'' if getattr(self, '_core', None) else ', closed'}>"

    def __dir__(self) -> list[str]:
        return sorted(set(super().__dir__()) - set(METHODS["Producer"]))

    def metrics(self) -> ProducerMetrics:
        """Counts and latencies since the producer was created. Collecting them adds almost no cost to sending."""
        return of_producer(self._open.metrics())

    async def _client_instance_id(self, timeout: Seconds | None) -> UUID:
        return to_uuid(await self._run(self._open.client_instance_id(to_seconds(timeout))))

    def _start_send(
        self,
        topic: str,
        value: Payload,
        key: Payload,
        headers: Headers | None,
        partition: int | None,
        timestamp: int | datetime | None,
        on_delivery: OnDelivery | None,
    ) -> _core.Delivery | Coroutine[Any, Any, _core.Delivery]:
        """Returns the delivery if the record can be queued without waiting, otherwise a coroutine that returns it."""
        pairs = None if headers is None else _header_pairs(headers)
        when = None if timestamp is None else to_milliseconds(timestamp)
        core = self._core or self._open
        if on_delivery is not None and not callable(on_delivery):
            raise TypeError(f"on_delivery must be a function such as on_delivery(metadata, error), not {on_delivery!r}")
        if on_delivery is not None or (self._partitioner is not None and partition is None):
            return self._send(core, topic, value, key, pairs, partition, when, on_delivery)
        result = core.send(topic, value, key, pairs, partition, when)
        return result if isinstance(result, _core.Delivery) else self._send_reserved(result)

    async def _send(
        self,
        core: _core.Producer,
        topic: str,
        value: Payload,
        key: Payload,
        headers: list[tuple[str, Payload]] | None,
        partition: int | None,
        timestamp: int | None,
        on_delivery: OnDelivery | None,
    ) -> _core.Delivery:
        if on_delivery is not None and (too_many := _core.callbacks_backlog()) is not None:
            await self._run(too_many)
        if self._partitioner is not None and partition is None:
            count = await self._run(core.partition_count(topic))
            partition = choose_partition(self._partitioner, topic, key, value, count)
        result = core.send(topic, value, key, headers, partition, timestamp)
        delivery = result if isinstance(result, _core.Delivery) else await self._send_reserved(result)
        if on_delivery is not None:
            delivery._notify(on_delivery)
        return delivery

    async def _send_reserved(self, call: _core.Call[_core.Reservation]) -> _core.Delivery:
        """Waits for buffer memory, then sends the record. If the wait is cancelled, the record is not sent."""
        try:
            reservation: _core.Reservation = await self._run(call)
        finally:
            call.cancel()
        return reservation.send()

    async def _send_batch(
        self,
        topic: str,
        data: Any,
        key: str | None,
        value: Values,
        headers: str | None,
        partition: str | None,
        timestamp: str | None,
        value_format: Literal["json", "ipc"] | Format | None = None,
        key_format: Format | None = None,
    ) -> _core.BatchDelivery:
        core = self._open
        transaction = core.transaction_number()
        names = value if value is None or isinstance(value, str) else list(value)
        text = value_format if value_format in ("json", "ipc") else None
        if key_format is not None or (value_format is not None and text is None):
            # Imported here because applications that send encoded values do not need the modules.
            from samsarrow.values.decode import check_format
            from samsarrow.values.value_writer import WrittenRows

            if value_format is not None:
                check_format(value_format, "value_format", ("json", "ipc"))
            if key_format is not None:
                check_format(key_format, "key_format")
            kind = None if value_format == "json" or value_format == "ipc" else value_format
            written = await WrittenRows.of(self._run, topic, data, key, key_format, names, kind, headers)
            data, key, names, headers = written.reader, written.key, written.value, written.headers
        if self._partitioner is not None:
            count = await self._run(core.partition_count(topic))
            partitioned = Partitioned(self._partitioner, topic, count, data, key, names, partition, text)
            data, names, partition, text = partitioned.reader, partitioned.value, partitioned.name, None
        batches = core.send_batch(transaction, topic, data, key, names, headers, partition, timestamp, text)
        return await self._send_all(batches, topic)

    async def _send_all(self, batches: _core.Batches, topic: str) -> _core.BatchDelivery:
        call = None
        try:
            while (call := batches.next()) is not None:
                await self._run(call)
        except BaseException as error:
            # Stops sending if a call failed, or if the caller is cancelled or interrupted.
            queued = batches.cancel()
            if call is not None:
                call.cancel()
            if not isinstance(error, KafkaError):
                error.add_note(
                    f"send_batch to topic {topic} was stopped: {queued} rows are queued, the rest is not sent"
                )
            if queued and isinstance(error, Exception):
                error.delivery = batches.delivery()  # type: ignore[attr-defined]
            raise
        return batches.delivery()

    def _flush(self, timeout: Seconds | None, errors: Errors | None) -> Coroutine[Any, Any, None]:
        return self._run(self._open.flush(to_seconds(timeout), self._raises if errors is None else _raises(errors)))

    async def _partitions_for(self, topic: str, timeout: Seconds | None) -> list[TopicPartition]:
        check_topic(topic)
        return [TopicPartition(*tp) for tp in await self._run(self._open.partitions_for(topic, to_seconds(timeout)))]

    def _init_transactions(self, timeout: Seconds | None) -> Coroutine[Any, Any, None]:
        return self._run(self._open.init_transactions(to_seconds(timeout)))

    async def _begin_transaction(self, timeout: Seconds | None) -> None:
        begin = self._open.begin_transaction(to_seconds(timeout))
        call = begin.call()
        try:
            await self._run(call)
        except KafkaError:
            raise
        except BaseException as error:
            # A caller that is cancelled or interrupted will not end the transaction, so it is aborted here.
            if not begin.cancel():
                call.cancel()
            elif isinstance(error, GeneratorExit):
                # The event loop has ended, so nothing can be awaited.
                self._open.abort_transaction(None).start()
            else:
                await self._run_to_end(self._abort_after(error))
            raise

    def _commit_transaction(self, timeout: Seconds | None) -> Coroutine[Any, Any, None]:
        return self._run(self._open.commit_transaction(to_seconds(timeout)))

    def _abort_transaction(self, timeout: Seconds | None) -> Coroutine[Any, Any, None]:
        return self._run(self._open.abort_transaction(to_seconds(timeout)))

    async def _abort_after(self, error: BaseException) -> None:
        """Aborts the transaction after `error`. If the abort fails, its error is added to `error` as a note."""
        try:
            await self._abort_transaction(None)
        except KafkaError as failure:
            error.add_note(f"and the transaction could not be aborted: {failure}")

    def _send_offsets_to_transaction(
        self, offsets: Committable, group_metadata: ConsumerGroupMetadata, timeout: Seconds | None
    ) -> Coroutine[Any, Any, None]:
        if not isinstance(group_metadata, tuple) or len(group_metadata) != 4:
            raise TypeError(
                "group_metadata must be the result of Consumer.group_metadata(), or a ConsumerGroupMetadata, "
                f"not {type(group_metadata).__name__}"
            )
        group, member, generation, instance = group_metadata
        identity = (group, member, generation, instance)
        pairs = to_offsets(offsets)
        for (topic, partition), (offset, _, _) in pairs:
            if offset < 0:
                raise ConfigurationError(f"cannot commit offset {offset} of {topic}-{partition}: offsets start at 0")
        ids = list(group_metadata.topic_ids) if isinstance(group_metadata, MemberMetadata) else []
        return self._run(self._open.send_offsets_to_transaction(pairs, identity, ids, to_seconds(timeout)))

    async def _close(self, timeout: Seconds | None, errors: Errors | None) -> None:
        raises = self._raises if errors is None else _raises(errors)
        # Raises for an invalid timeout, while the producer is still open.
        close = None if self._core is None else self._core.close(to_seconds(timeout), raises)
        core, self._core, self._queue = self._core, None, None
        if core is not None and close is not None:
            self._closing = core
            self._finalizer.detach()
            unregister(core)
            try:
                await self._run(close)
            except KafkaError:
                raise
            except BaseException:
                # The close continues in the background. The exit waits for it, because the application may not call
                # `close` again.
                wait_at_exit(core)
                raise
        elif self._closing is not None:
            # An earlier `close` was interrupted, so records may still be in flight.
            await self._run(self._closing.flush(to_seconds(timeout), raises))
        self._closing = None

    async def _exit_block(self, error: BaseException | None) -> None:
        """Closes at the end of a `with` block.

        If the block raised `error`, a failure to close is added to `error` as a note.
        """
        if error is None:
            await self._close(None, None)
            return
        try:
            await self._close(None, "log")
        except KafkaError as failure:
            error.add_note(f"and the producer could not be closed: {failure}")


for _name in METHODS["Producer"]:
    setattr(ProducerBase, _name, OtherClientsMethod(_name))


def _raises(errors: Errors) -> bool:
    if errors not in ("raise", "log"):
        raise ConfigurationError(f'errors must be "raise" or "log", not {errors!r}')
    return errors == "raise"


def _header_pairs(headers: Headers) -> list[tuple[str, Payload]]:
    try:
        return list(headers.items() if isinstance(headers, Mapping) else headers)
    except TypeError:
        text = f"headers must be a mapping or (name, value) pairs, not {type(headers).__name__}"
        raise TypeError(text) from None
