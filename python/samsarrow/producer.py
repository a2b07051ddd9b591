"""Sending records and Arrow data to Kafka."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

import pyarrow as pa

from samsarrow import _core
from samsarrow._faces import Blocking, now
from samsarrow._producer import Headers, OnDelivery, Payload, ProducerBase
from samsarrow.exceptions import KafkaError
from samsarrow.group import ConsumerGroupMetadata, Offsets
from samsarrow.types import Seconds, TopicPartition

if TYPE_CHECKING:
    from samsarrow.values.decode import Format


class Producer(Blocking, ProducerBase):
    """Sends records. Idempotent and with `acks=all` by default (KIP-679); may be used from many threads.

    No connection is made before the first record. A producer belongs to the process that made it.

    Args:
        config: options with dotted names, `{"bootstrap.servers": "localhost:9092"}`.
        **options: the same as keywords, `linger_ms=20`. docs/options.md lists all. `partitioner` may also be a function
            `partitioner(topic, key, value, partitions)`, called with two bytes or None for every record that names no
            partition, on the thread that sends; it gives a number below `partitions`, and what it raises is raised by
            the call that sends. For Arrow data it is called row by row, which is slow: there a column of partitions,
            named by `send_batch(partition=...)`, is the better way. `sasl_oauthbearer_token_provider` takes a function,
            too (`TokenProvider`).

    Raises:
        ConfigurationError: an option is unknown, given twice or has a value that cannot be.
    """

    def send(
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
        """Hands one record over; it is sent with others of its partition.

        The call waits only for room in `buffer.memory` and for a topic's metadata, at most `max.block.ms`.

        Args:
            topic: to send to.
            value: bytes, or text as UTF-8; None is a tombstone.
            key: the same; equal keys go to one partition (as in the Java client, unless `partitioner` says otherwise).
            headers: pairs of name and value in their order, names may repeat; or a mapping.
            partition: to send to, by default chosen by the key.
            timestamp: milliseconds since 1970 or a `datetime`, by default now.
            on_delivery: called once as `on_delivery(metadata, error)`, one of them None, on a thread of the client's,
                where all callbacks of the process are called one after the other. It may use any client, this one
                too; `flush` and `close` wait for callbacks, but not within one. An exception in it goes to
                `sys.unraisablehook`. While 100,000 wait to be called, `send` waits with them.

        Returns:
            The pending result: `.result(timeout)` gives a `RecordMetadata` or raises, so does `await`.

        Raises:
            MessageTooLargeError: the record is larger than `max.request.size`.
            UnknownTopicOrPartitionError: the topic does not exist.
            ConfigurationError: the topic has no such partition.
            KafkaTimeoutError: no room or no metadata within `max.block.ms`.
        """
        sent = self._sent(topic, value, key, headers, partition, timestamp, on_delivery)
        return sent if isinstance(sent, _core.Delivery) else now(sent)

    def send_batch(
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
        """Sends all rows of Arrow data, straight from its columns.

        The call returns when the rows are in the send buffer; larger data waits for `buffer.memory` as it goes out.

        Args:
            topic: to send to.
            data: a record batch, a table, a reader or anything else with `__arrow_c_array__` or `__arrow_c_stream__`.
            key: name of the column of keys: binary or string of any kind, or a dictionary of those. By default the
                column `key`, if there is one.
            value: name of the column of values, of the same types; by default the column `value`. With `value_format`
                of any type, or the names of several columns, which then make up a struct.
            headers: name of a column `list<struct<key: string, value: binary>>`; by default the column `headers`.
            partition: name of a column of integers; null leaves the choice to the key.
            timestamp: name of a column of timestamps, or of integers in milliseconds; null is now.
            value_format: how values are written that are not bytes already; a null value is a tombstone in any format.
                `json`: each value as one JSON text, a struct as an object with all its members, null or not. Bytes are
                hexadecimal text, decimals numbers with all their digits, dates and times ISO 8601 (in UTC, where there
                is a time zone), NaN and infinities null; keys of maps become text.
                `ipc`: each value as an Arrow IPC stream of its own, that `pyarrow.ipc.open_stream` reads: a struct as
                a row of columns, any other value as the only column of a row. Dictionary and run-end encoded values
                are unpacked. The schema takes some hundred bytes of each.
                `Avro(…)`, or the name of a type of Kafka's own, `"long"`: as `encode_values` writes them. A registry is
                asked before the first row is written.
            key_format: how keys are written: `Avro(…)`, or the name of a type of Kafka's own.

        Returns:
            The pending result: `.result(timeout)` gives `PartitionReceipt`s, sorted by partition, or raises.

        Raises:
            TypeError: `data` is no Arrow data.
            ConfigurationError: a column is missing or of a type that cannot be sent; nothing is sent. Or a value cannot
                be written in the format, as a date after the year 262142; the text names its row.
            BadValueError: a row does not fit the schema that it is written with; it has the row, the field and the
                reason. Rows before those of its batch may be sent.
            RegistryError: the registry cannot be asked for a schema, or refuses it. Nothing is sent.
            MessageTooLargeError: a row is larger than `max.request.size`; the text names it. Nothing of its batch is
                sent; with `value_format`, where values are written as they are sent, the text says what was.
        """
        return now(self._send_batch(topic, data, key, value, headers, partition, timestamp, value_format, key_format))

    def flush(self, timeout: Seconds | None = None) -> None:
        """Sends what waits for company and waits for the answers to everything that was handed over, and for callbacks.

        Args:
            timeout: seconds, by default as long as it takes (at most `delivery.timeout.ms`).

        Raises:
            KafkaTimeoutError: not all answers came in time; the records are still being sent.
        """
        now(self._flush(timeout))

    def client_instance_id(self, timeout: Seconds | None = None) -> UUID:
        """The id by which brokers know this client's metrics (KIP-714), for the logs of both sides.

        Args:
            timeout: seconds, by default `max.block.ms`.

        Raises:
            IllegalStateError: `enable.metrics.push` is off.
            UnsupportedVersionError: the brokers take no metrics: they are older than Kafka 3.7, or have no plugin.
            KafkaTimeoutError: no broker could be asked in time.
        """
        return now(self._client_instance_id(timeout))

    def partitions_for(self, topic: str) -> list[TopicPartition]:
        """The partitions of a topic, in order."""
        return now(self._partitions_for(topic))

    @contextmanager
    def transaction(self) -> Iterator[Producer]:
        """A transaction for the length of a `with` block: committed at its end, aborted if it raises.

            with producer.transaction():
                producer.send("counts", value)
                producer.send_offsets_to_transaction(batch, consumer.group_metadata())

        The first one also does what `init_transactions` does. Whatever leaves the block, Ctrl-C included, aborts; the
        exception is raised on. If the commit fails for a reason that an abort heals, it is aborted too and the error
        raised: its `abortable` is true, and the next transaction may succeed.

        Raises:
            KafkaTimeoutError: the commit was not done within `max.block.ms`. Its outcome is open; nothing is aborted.
                Call `commit_transaction` again to learn it.
            ProducerFencedError: another producer with the same `transactional.id` took over.
            KafkaError: why nothing was committed.
        """
        self.begin_transaction()
        try:
            yield self
        except BaseException as error:
            now(self._abort_after(error))
            raise
        try:
            self.commit_transaction()
        except KafkaError as error:
            if error.abortable:
                now(self._abort_after(error))
            raise

    def init_transactions(self, timeout: Seconds | None = None) -> None:
        """Takes the `transactional.id` over: producers that had it before are fenced, what they left open is aborted.

        To be called once, where that should not wait for the first `begin_transaction`, which does it otherwise.

        Args:
            timeout: seconds, by default `max.block.ms`.

        Raises:
            IllegalStateError: there is no `transactional.id`, or it was done before.
            KafkaTimeoutError: no coordinator answered in time; the call may be repeated.
            InvalidTransactionTimeoutError: `transaction.timeout.ms` is more than the broker allows.
        """
        now(self._init_transactions(timeout))

    def begin_transaction(self) -> None:
        """Opens a transaction: what is sent from now on belongs to it.

        Raises:
            IllegalStateError: one is open already, or there is no `transactional.id`.
            KafkaError: with `abortable`, the last one must be aborted first; with `fatal`, the producer can do no more.
        """
        now(self._begin_transaction())

    def commit_transaction(self, timeout: Seconds | None = None) -> None:
        """Sends what waits, and commits once all of it is delivered.

        Args:
            timeout: seconds, by default `max.block.ms`.

        Raises:
            KafkaTimeoutError: it was not done in time. It goes on, and until its outcome is known only this call may be
                made: it waits for the same outcome.
            ProducerFencedError: another producer with the same `transactional.id` took over. Nothing was committed.
            KafkaError: with `abortable`, a record or an offset could not be sent; call `abort_transaction`. With
                `fatal`, the producer can do no more.
            IllegalStateError: no transaction is open.
        """
        now(self._commit_transaction(timeout))

    def abort_transaction(self, timeout: Seconds | None = None) -> None:
        """Drops records that are not sent yet, waits for those on their way, and aborts.

        Results of records that are dropped raise `TransactionAbortedError`.

        Args:
            timeout: seconds, by default `max.block.ms`.

        Raises:
            KafkaTimeoutError: it was not done in time. It goes on; call it again.
            KafkaError: with `fatal`, the producer can do no more; the coordinator aborts what is open.
            IllegalStateError: no transaction is open, or a commit has not come to its end.
        """
        now(self._abort_transaction(timeout))

    def send_offsets_to_transaction(
        self, offsets: Offsets | pa.RecordBatch, group_metadata: ConsumerGroupMetadata, timeout: Seconds | None = None
    ) -> None:
        """Makes offsets of a group part of the transaction: they are committed with it or not at all.

        The consumer must not commit by itself: `enable.auto.commit=false`.

        Args:
            offsets: a batch, for the offsets after its last rows, or offsets by partition, each the next one to read.
            group_metadata: `Consumer.group_metadata()` after the poll that gave the rows: offsets of a member that has
                lost its partitions since are refused (KIP-447).
            timeout: seconds, by default `max.block.ms`.

        Raises:
            IllegalGenerationError: the group has rebalanced. As for all errors with `abortable`, the transaction must
                be aborted.
            UnknownMemberIdError: the consumer is no member any more.
            FencedInstanceIdError: another consumer has the same `group.instance.id`.
            KafkaTimeoutError: not done in time; it goes on, and the commit waits for it.
            IllegalStateError: no transaction is open.
        """
        now(self._send_offsets_to_transaction(offsets, group_metadata, timeout))

    def close(self, timeout: Seconds | None = None) -> None:
        """Aborts an open transaction, flushes, and ends all connections. May be called again.

        Whatever a signal handler raises, Ctrl-C too, ends the wait within 200 ms; what is left to do goes on in the
        background until the timeout.

        Args:
            timeout: seconds, by default as long as it takes (at most `delivery.timeout.ms`); records that are not
                delivered then fail.

        Raises:
            KafkaTimeoutError: some records were not delivered in time.
        """
        now(self._close(timeout))

    def __enter__(self) -> Producer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
