"""Sending records and Arrow data to Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterable, Mapping
from datetime import datetime
from types import TracebackType
from typing import Any

from samsarrow import _core
from samsarrow.config import merge
from samsarrow.exceptions import ClosedError
from samsarrow.types import RecordMetadata, Seconds, TopicPartition, to_milliseconds, to_seconds

Payload = bytes | bytearray | memoryview | str | None
OnDelivery = Callable[[RecordMetadata | None, Exception | None], object]


class Producer:
    """Sends records. Idempotent and with `acks=all` unless told otherwise (KIP-679); may be used from many threads.

    No connection is made before the first record. A producer belongs to the process that made it.

    Args:
        config: options with dotted names, `{"bootstrap.servers": "localhost:9092"}`.
        **options: the same as keywords, `linger_ms=20`. docs/options.md lists all.

    Raises:
        ConfigurationError: an option is unknown, given twice or has a value that cannot be.
    """

    def __init__(self, config: Mapping[str, Any] | None = None, **options: Any) -> None:
        self._core: _core.Producer | None = _core.Producer(merge(config, options))

    @property
    def _open(self) -> _core.Producer:
        if self._core is None:
            raise ClosedError("the producer is closed")
        return self._core

    def send(
        self,
        topic: str,
        value: Payload,
        key: Payload = None,
        *,
        headers: Iterable[tuple[str, Payload]] | Mapping[str, Payload] | None = None,
        partition: int | None = None,
        timestamp: int | datetime | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> _core.Delivery:
        """Hands one record over; it is sent with others of its partition.

        The call waits only for room in `buffer.memory` and for a topic's metadata, at most `max.block.ms`.

        Args:
            topic: to send to.
            value: bytes, or text as UTF-8; None is a tombstone.
            key: the same; equal keys go to one partition (murmur2, as in the Java client).
            headers: pairs of name and value in their order, names may repeat; or a mapping.
            partition: to send to, by default chosen by the key.
            timestamp: milliseconds since 1970 or a `datetime`, by default now.
            on_delivery: called once as `on_delivery(metadata, error)`, one of them None, on a thread of the client's.
                An exception in it goes to `sys.unraisablehook`.

        Returns:
            The pending result: `.result(timeout)` gives a `RecordMetadata` or raises, so does `await`.

        Raises:
            MessageTooLargeError: the record is larger than `max.request.size`.
            UnknownTopicOrPartitionError: the topic does not exist.
            ConfigurationError: the topic has no such partition.
            KafkaTimeoutError: no room or no metadata within `max.block.ms`.
        """
        pairs = None if headers is None else list(headers.items() if isinstance(headers, Mapping) else headers)
        when = None if timestamp is None else to_milliseconds(timestamp)
        delivery = self._open.send(topic, value, key, pairs, partition, when)
        if on_delivery is not None:
            delivery.add_done_callback(on_delivery)
        return delivery

    def send_batch(
        self,
        topic: str,
        data: Any,
        *,
        key: str | None = None,
        value: str | None = None,
        headers: str | None = None,
        partition: str | None = None,
        timestamp: str | None = None,
    ) -> _core.BatchDelivery:
        """Sends all rows of Arrow data, straight from its columns.

        The call returns when the rows are in the send buffer; larger data waits for `buffer.memory` as it goes out.

        Args:
            topic: to send to.
            data: a record batch, a table, a reader or anything else with `__arrow_c_array__` or `__arrow_c_stream__`.
            key: name of the column of keys: binary or string of any kind, or a dictionary of those. By default the
                column `key`, if there is one.
            value: name of the column of values, of the same types; by default the column `value`.
            headers: name of a column `list<struct<key: string, value: binary>>`; by default the column `headers`.
            partition: name of a column of integers; null leaves the choice to the key.
            timestamp: name of a column of timestamps, or of integers in milliseconds; null is now.

        Returns:
            The pending result: `.result(timeout)` gives `PartitionReceipt`s, sorted by partition, or raises.

        Raises:
            TypeError: `data` is no Arrow data.
            ConfigurationError: a column is missing or of a type that cannot be sent.
            MessageTooLargeError: a row is larger than `max.request.size`; the text names it. Nothing of its batch is
                sent.
        """
        return self._open.send_batch(topic, data, key, value, headers, partition, timestamp)

    def flush(self, timeout: Seconds | None = None) -> None:
        """Sends what waits for company and waits for the answers to everything that was handed over.

        Args:
            timeout: seconds, by default as long as it takes (at most `delivery.timeout.ms`).

        Raises:
            KafkaTimeoutError: not all answers came in time; the records are still being sent.
        """
        self._open.flush(to_seconds(timeout))

    def partitions_for(self, topic: str) -> list[TopicPartition]:
        """The partitions of a topic, in order."""
        return [TopicPartition(*tp) for tp in self._open.partitions_for(topic)]

    def close(self, timeout: Seconds | None = None) -> None:
        """Flushes and ends all connections. May be called again.

        Args:
            timeout: seconds, by default as long as it takes; records that are not delivered then fail.

        Raises:
            KafkaTimeoutError: some records were not delivered in time.
        """
        core, self._core = self._core, None
        if core is not None:
            core.close(to_seconds(timeout))

    def __enter__(self) -> Producer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def wait_in_asyncio(delivery: _core.Delivery) -> Generator[Any, None, RecordMetadata]:
    """What `await delivery` does: the loop is woken from the client's thread when the answer is there."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[RecordMetadata] = loop.create_future()

    def settle(metadata: RecordMetadata | None, error: Exception | None) -> None:
        if future.done():
            return
        if metadata is not None:
            future.set_result(metadata)
        elif error is not None:
            future.set_exception(error)

    delivery.add_done_callback(lambda metadata, error: loop.call_soon_threadsafe(settle, metadata, error))
    return future.__await__()
