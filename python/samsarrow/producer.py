"""Producers that send records and Arrow data to Kafka."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

from samsarrow import _core
from samsarrow._arguments import names_arguments
from samsarrow._producer import Errors, Headers, OnDelivery, Payload, ProducerBase
from samsarrow._sync import Blocking, run_sync
from samsarrow.exceptions import KafkaError
from samsarrow.group import Committable, ConsumerGroupMetadata
from samsarrow.types import Seconds, TopicPartition

if TYPE_CHECKING:
    from samsarrow.values.decode import Format


class Producer(Blocking, ProducerBase):
    """Sends records and Arrow data. By default idempotent with `acks=all` (KIP-679). Safe to use from many threads.

    Calls that wait for brokers take a `timeout`, in seconds or as a `timedelta`: as a keyword, or by position if it is
    the only argument. None, the default, is `max.block.ms`; for `flush`, `close` and the `result` of a delivery it is
    no limit besides `delivery.timeout.ms`. `send` and `send_batch` wait up to `max.block.ms`.

    The producer connects when it sends the first record. It belongs to the process that created it. Close it, or use it
    in a `with` block. A garbage-collected producer still delivers its records in the background; at the exit of the
    interpreter it has 5 s to deliver them. Records that are not delivered in this time are logged.

    Args:
        config: options with dotted names, `{"bootstrap.servers": "localhost:9092"}`.
        errors: whether `flush`, `close` and the end of a `with` block `raise` the first error of undelivered records,
            or `log` the errors. This applies to records whose result the application has not read by `result`,
            `exception`, an await or a callback. If the application calls none of these for 5 s, the errors are logged
            in any case.
        **options: the same options as keywords, `linger_ms=20`. docs/options.md lists all options. `partitioner` may
            also be a function `partitioner(topic, key, value, partitions)`. It is called with bytes or None as key and
            value, for every record without a partition, in the sending thread, and returns a number below `partitions`;
            the send call raises its exceptions. For Arrow data it is called for each row, which is slow: use a column
            of partitions, named by `send_batch(partition=...)`. `sasl_oauthbearer_token_provider` may also be a
            function (`TokenProvider`).

    Raises:
        ConfigurationError: an option is unknown, given twice or has an invalid value.
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
        """Sends one record, in a batch with other records of its partition.

        The call waits only for space in `buffer.memory` and for a topic's metadata, up to `max.block.ms`.

        Args:
            topic: topic to send to.
            value: bytes, or text as UTF-8; None is a tombstone.
            key: bytes, text or None. Equal keys go to the same partition, which is the partition that the Java client
                chooses unless `partitioner` is set.
            headers: pairs of name and value, in which names may repeat, or a mapping.
            partition: partition to send to; by default the partitioner chooses it by the key.
            timestamp: milliseconds since 1970 or a `datetime`, by default now.
            on_delivery: called once as `on_delivery(metadata, error)`, one of them None, on a client thread that runs
                all callbacks of the process one after another. It may use any client, including this one. `flush` and
                `close` wait for callbacks, unless they are called within a callback. Exceptions of the callback go to
                `sys.unraisablehook`; if the record was not delivered, the delivery error is logged as well. While
                100,000 callbacks are pending, `send` waits.

        Returns:
            The pending result: `.result(timeout)` returns a `RecordMetadata` or raises, and so does `await`.

        Raises:
            MessageTooLargeError: the record is larger than `max.request.size`.
            UnknownTopicOrPartitionError: the topic does not exist.
            ConfigurationError: the topic has no such partition.
            KafkaTimeoutError: no buffer memory or no metadata was available within `max.block.ms`.
        """
        if self._queue is not None and headers is None and timestamp is None and on_delivery is None:
            queued = self._queue(topic, value, key, None, partition, None)
            return queued if type(queued) is _core.Delivery else run_sync(self._send_reserved(queued))
        pending = self._start_send(topic, value, key, headers, partition, timestamp, on_delivery)
        return pending if isinstance(pending, _core.Delivery) else run_sync(pending)

    @names_arguments
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
        """Sends all rows of Arrow data, directly from its columns.

        Returns once all rows are in the send buffer. For data larger than `buffer.memory` the call waits until earlier
        rows have been sent.

        Args:
            topic: topic to send to.
            data: a record batch, a table, a reader or anything else with `__arrow_c_array__` or `__arrow_c_stream__`.
            key: name of the column of keys, which has any binary or string type, or is a dictionary of such a type. By
                default the column `key`, if it exists.
            value: name of the column of values, which has one of these types; by default the column `value`. With
                `value_format`, the column may have any type, or `value` may be the names of several columns, which form
                a struct.
            headers: name of the column of headers, `list<struct<key: string, value: binary>>`; by default the column
                `headers`.
            partition: name of the column of partition numbers; if a number is null, the partitioner chooses the
                partition by the key.
            timestamp: name of the column of timestamps, or of integers in milliseconds; null stands for the current
                time.
            value_format: format of values that are not bytes; a null value is a tombstone in any format. `json`: each
                value becomes one JSON text. A struct becomes an object with all its members, including nulls. Bytes are
                written as hexadecimal text, decimals as numbers with all their digits, dates and times in ISO 8601 (in
                UTC if their type has a time zone), keys of maps as text. NaN and infinities are errors. `ipc`: each
                value becomes a separate Arrow IPC stream for `pyarrow.ipc.open_stream`. A struct becomes a row with one
                column per field, any other value becomes a row with a single column. Dictionary and run-end encoded
                values are decoded. Each value contains its schema, which takes a few hundred bytes. `Avro(…)`, or the
                name of one of Kafka's own types, such as `"long"`: values are encoded as by `encode_values`. Schemas
                are requested from a registry before the first row is written.
            key_format: format of keys: `Avro(…)`, or the name of one of Kafka's own types.

        Returns:
            The pending result: `.result(timeout)` returns `PartitionReceipt`s, sorted by partition, or raises.
            The error has `outcomes`, like the pending result: `PartOutcome`s of delivered and undelivered rows.

        Raises:
            TypeError: `data` is not Arrow data.
            ConfigurationError: a column is missing or has a type that cannot be sent; nothing is sent. Or the format
                cannot represent a value, such as a date after the year 262142; the message has the row number.
            BadValueError: a row does not fit the schema. The error has the row, the field and the reason. Rows of
                earlier batches may have been sent.
            RegistryError: a schema cannot be fetched from the registry or registered there. Nothing is sent.
            MessageTooLargeError: a row is larger than `max.request.size`; the message has the row number. No row of its
                record batch is sent. With `value_format`, values are encoded while earlier rows are sent, and the
                message has the number of rows that were sent.

        Row numbers in messages count all rows of the call. If an error occurs after rows were queued, its `delivery` is
        the pending result of these rows. Exceptions of a `pyarrow.RecordBatchReader`, such as `Consumer.reader()`, are
        raised unchanged.
        """
        return run_sync(
            self._send_batch(topic, data, key, value, headers, partition, timestamp, value_format, key_format)
        )

    def flush(self, timeout: Seconds | None = None, *, errors: Errors | None = None) -> None:
        """Sends all pending records and waits for their acknowledgements, and for callbacks.

        Args:
            timeout: seconds, by default unlimited (records fail after `delivery.timeout.ms`).
            errors: `raise` or `log`, by default the producer's.

        Raises:
            KafkaTimeoutError: not all acknowledgements arrived in time; the records are still being sent.
            KafkaError: records were not delivered, and the application has not read their deliveries. The first error
                is raised, with the number of failed records. Each failure is raised only once. Failures in a
                transaction are raised when the transaction is committed.
        """
        run_sync(self._flush(timeout, errors))

    def client_instance_id(self, timeout: Seconds | None = None) -> UUID:
        """The id under which brokers store this client's metrics (KIP-714).

        Use it to find the client in the logs and metrics of the brokers.

        Args:
            timeout: seconds, by default `max.block.ms`.

        Raises:
            IllegalStateError: `enable.metrics.push` is off.
            UnsupportedVersionError: the brokers accept no metrics, because they are older than Kafka 3.7 or have no
                telemetry plugin.
            KafkaTimeoutError: no broker responded in time.
        """
        return run_sync(self._client_instance_id(timeout))

    def partitions_for(self, topic: str, *, timeout: Seconds | None = None) -> list[TopicPartition]:
        """The partitions of a topic, sorted by number.

        Args:
            topic: name of the topic.
            timeout: seconds, by default `max.block.ms`.

        Raises:
            UnknownTopicOrPartitionError: the topic does not exist.
            KafkaTimeoutError: no broker responded in time.
        """
        return run_sync(self._partitions_for(topic, timeout))

    @contextmanager
    def transaction(self) -> Iterator[Producer]:
        """Runs a `with` block as a transaction, which is committed at the end or aborted if the block raises.

            with producer.transaction():
                producer.send("counts", value)
                producer.send_offsets_to_transaction(batch, consumer.group_metadata())

        The first transaction also runs `init_transactions`. Any exception that leaves the block, Ctrl-C included,
        aborts the transaction and is raised. If the commit fails with an error that is `abortable`, the transaction is
        aborted and the error raised; the next transaction may succeed.

        Raises:
            KafkaTimeoutError: the commit did not finish within `max.block.ms`. The outcome is unknown, and the
                transaction is not aborted. Call `commit_transaction` again to wait for the outcome.
            ProducerFencedError: another producer with the same `transactional.id` took over.
            KafkaError: nothing was committed, for the reason in the error.
        """
        self.begin_transaction()
        try:
            yield self
        except BaseException as error:
            run_sync(self._abort_after(error))
            raise
        try:
            self.commit_transaction()
        except KafkaError as error:
            if error.abortable:
                run_sync(self._abort_after(error))
            raise

    def init_transactions(self, timeout: Seconds | None = None) -> None:
        """Takes over the `transactional.id`: fences its earlier producers and aborts their open transactions.

        This call is optional: the first `begin_transaction` does the same if necessary, and waits until it is done.

        Args:
            timeout: seconds, by default `max.block.ms`.

        Raises:
            IllegalStateError: `transactional.id` is not set, or the producer has already initialized its transactions.
            KafkaTimeoutError: no coordinator responded in time. You may call this method again.
            InvalidTransactionTimeoutError: `transaction.timeout.ms` is more than the broker allows.
        """
        run_sync(self._init_transactions(timeout))

    def begin_transaction(self, timeout: Seconds | None = None) -> None:
        """Begins a transaction: records sent from now on belong to it.

        Args:
            timeout: seconds for `init_transactions`, if the call runs it; by default `max.block.ms`.

        Raises:
            IllegalStateError: a transaction is already open, or `transactional.id` is not set.
            KafkaTimeoutError: no coordinator responded in time. You may call this method again.
            KafkaError: if the error is `abortable`, the last transaction must be aborted first; if it is `fatal`, the
                producer cannot be used any more.
        """
        run_sync(self._begin_transaction(timeout))

    def commit_transaction(self, timeout: Seconds | None = None) -> None:
        """Sends pending records, and commits once all records of the transaction are delivered.

        Args:
            timeout: seconds, by default `max.block.ms`.

        Raises:
            KafkaTimeoutError: the commit did not finish in time. It continues in the background. Until its outcome is
                known, only `commit_transaction` may be called, which waits for this outcome.
            ProducerFencedError: another producer with the same `transactional.id` took over. Nothing was committed.
            KafkaError: if the error is `abortable`, a record or an offset could not be sent; call `abort_transaction`.
                If it is `fatal`, the producer cannot be used any more.
            IllegalStateError: no transaction is open.
        """
        run_sync(self._commit_transaction(timeout))

    def abort_transaction(self, timeout: Seconds | None = None) -> None:
        """Drops unsent records, waits for those in flight, and aborts the transaction.

        The results of dropped records raise `TransactionAbortedError`.

        Args:
            timeout: seconds, by default `max.block.ms`.

        Raises:
            KafkaTimeoutError: the abort did not finish in time. It continues in the background; call this method again
                to wait for it.
            KafkaError: if the error is `fatal`, the producer cannot be used any more, and the coordinator aborts the
                open transaction.
            IllegalStateError: no transaction is open, or a commit is not finished.
        """
        run_sync(self._abort_transaction(timeout))

    def send_offsets_to_transaction(
        self, offsets: Committable, group_metadata: ConsumerGroupMetadata, *, timeout: Seconds | None = None
    ) -> None:
        """Adds offsets of a group to the transaction. The offsets are committed with the transaction, or not at all.

        The consumer must not commit automatically: `enable.auto.commit=false`.

        Args:
            offsets: as in `Consumer.commit`: a batch, a record, or offsets by partition, each the next one to read. The
                offsets of a batch lie past the transaction markers and aborted records that were fetched with its rows.
                Markers and records that were fetched later are covered by the next batch, or by the consumer's
                `position`.
            group_metadata: result of `Consumer.group_metadata()`, called after the poll that returned the rows. The
                coordinator uses it to reject offsets of a member that has since lost its partitions (KIP-447).
            timeout: seconds, by default `max.block.ms`.

        Raises:
            IllegalGenerationError: the group has rebalanced. Abort the transaction, as after every error that is
                `abortable`.
            TransactionAbortableError: a topic was deleted since its rows were read, and possibly created again (Kafka
                4.4, which identifies topics by id, KIP-1319).
            UnknownMemberIdError: the consumer is no longer a member.
            FencedInstanceIdError: another consumer has the same `group.instance.id`.
            KafkaTimeoutError: the request did not finish in time. It continues in the background, and the commit waits
                for it.
            IllegalStateError: no transaction is open.
        """
        run_sync(self._send_offsets_to_transaction(offsets, group_metadata, timeout))

    def close(self, timeout: Seconds | None = None, *, errors: Errors | None = None) -> None:
        """Aborts an open transaction, flushes, and closes all connections. May be called again.

        An exception from a signal handler, Ctrl-C included, ends the wait within 200 ms; closing continues in the
        background until the timeout.

        Args:
            timeout: seconds, by default unlimited (records fail after `delivery.timeout.ms`). Records that are not
                delivered in this time fail.
            errors: `raise` or `log`, by default the producer's.

        Raises:
            KafkaTimeoutError: some records were not delivered in time.
            KafkaError: records were not delivered, and the application has not read their deliveries, as in `flush`.
        """
        run_sync(self._close(timeout, errors))

    def __enter__(self) -> Producer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        run_sync(self._exit_block(error))
