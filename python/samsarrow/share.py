"""Consumers of share groups, which read Kafka as Arrow batches and acknowledge single records."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from uuid import UUID

import pyarrow as pa

from samsarrow._any_consumer import BlockingConsumer
from samsarrow._share import AcknowledgementCallback, OffsetRanges, ShareConsumerBase
from samsarrow._share_rows import AcknowledgeType, Rows
from samsarrow._sync import run_sync
from samsarrow.exceptions import ClosedError, KafkaError
from samsarrow.types import ConsumerRecord, Seconds, TopicPartition

__all__ = ["AcknowledgeType", "AcknowledgementCallback", "OffsetRanges", "Rows", "ShareConsumer"]


class ShareConsumer(BlockingConsumer, ShareConsumerBase):
    """Reads topics as a member of a share group (KIP-932): a queue, whose members share partitions.

        with ShareConsumer(bootstrap_servers="localhost:9092", group_id="g") as consumer:
            consumer.subscribe(["orders"])
            for batch in consumer:
                process(batch)

    Needs Kafka 4.2 or later; Kafka 4.1 has a preview without renewal. `poll` returns the columns of `Consumer` and
    `delivery_count int16`, the number of times that the record was delivered, including this one. Each row is locked
    for the members of the group until it is acknowledged, or until its lock ends after 30 seconds (`lock_timeout`). It
    is delivered again unless it was accepted or rejected, five times at most (`group.share.delivery.count.limit`).
    Order holds only within the rows of one poll.

    Implicit acknowledgement, the default: each `poll`, `commit` and `close` accepts the rows of the poll before. A
    `with` block that ends with an exception releases them; in Java also `close` releases. Explicit: `acknowledge`
    decides about each row before the next `poll`. `close` releases rows without a decision.

    **A new group reads only what is written from then on**, because the group's `share.auto.offset.reset` is `latest`
    by default. It is an option of the group: `samsarrow configs set group:NAME share.auto.offset.reset=earliest`.

    The consumer belongs to the process that created it. Its methods may be called from many threads, but only one
    thread at a time may poll.

    Args:
        config: options with dotted names, `{"bootstrap.servers": "localhost:9092", "group.id": "g"}`.
        **options: the same options as keywords, `group_id="g"`: those of `Consumer`, except those that the group or the
            coordinator decides. `max.poll.records` is 2000 by default.
        acknowledgement: `implicit` or `explicit`; the option `share.acknowledgement.mode`.
        acquire_mode: with `batch_optimized`, a poll returns whole record batches, which may be more than
            `max.poll.records` rows; with `record_limit` never more (KIP-1206, Kafka 4.2). The option
            `share.acquire.mode`.
        auto_renew: whether locks of returned rows are renewed at two thirds of their time until the rows are
            acknowledged, or until `max.poll.interval.ms` has passed since the last poll. Needs `explicit`.
        key_format: the format of keys, as in `Consumer`.
        value_format: the format of values, as in `Consumer`.
        on_decode_error: effect of a key or value that cannot be decoded. `raise`: a poll returns the rows before the
            record, and the next poll raises `BadValueError` with its position. An implicit consumer then releases the
            record; with an explicit one, decide with `acknowledge((error.partition, error.offset), "reject")`. `null`:
            as in `Consumer`. `release` and `reject`: the record is skipped with this acknowledgement. `DeadLetter(…)`:
            the record is sent to another topic and then accepted.
        raw_values: whether to add the columns `raw_key` and `raw_value` with the undecoded bytes.

    Raises:
        ConfigurationError: an option is unknown, given twice or invalid, belongs to other groups, or `group.id` is not
            set.
    """

    def client_instance_id(self, timeout: Seconds | None = None) -> UUID:
        """The id under which brokers store this client's metrics (KIP-714).

        Args:
            timeout: seconds, by default `default.api.timeout.ms`.

        Raises:
            IllegalStateError: `enable.metrics.push` is off.
            UnsupportedVersionError: the brokers accept no metrics.
            KafkaTimeoutError: no broker responded in time.
        """
        return run_sync(self._client_instance_id(timeout))

    def poll(self, timeout: Seconds | None = 1.0) -> pa.RecordBatch:
        """Returns the next rows, of one partition or several, and locks them for this consumer.

        An implicit consumer accepts the rows of the poll before. The first poll joins the group, which takes about a
        second. A new group reads only what is written after it began (see `ShareConsumer`).

        Args:
            timeout: seconds to wait for the first row. 0 does not wait; None waits until a row arrives.

        Returns:
            The rows; none if nothing arrived in time. All batches have the same schema.

        Raises:
            ConfigurationError: nothing is subscribed.
            IllegalStateError: the consumer is explicit and a row of the last poll is undecided, or another thread is
                polling.
            WakeupError: `wakeup` was called.
            UnsupportedVersionError: the brokers are older than Kafka 4.1, or the feature `share.version` is off.
            GroupIdNotFoundError: a group of another type has this id.
            GroupAuthorizationFailedError: reading with this group is not allowed.
            TopicAuthorizationFailedError: reading a topic is not allowed.
            GroupMaxSizeReachedError: the group has as many members as brokers allow.
            CorruptRecordError: a fetched batch is corrupt. Its records are rejected, or released if they only cannot be
                decompressed.
            BadValueError: the next row cannot be decoded in the consumer's formats.
            KafkaError: another error prevents reading a partition. It is raised once per occurrence.
        """
        return run_sync(self._poll(timeout))

    def records(self, timeout: Seconds | None = 1.0) -> Iterator[ConsumerRecord]:
        """Iterates over the rows of one `poll`.

        An implicit consumer accepts all these rows with the next `poll`, also those that the loop has not reached. To
        leave the loop early, acknowledge rows yourself (`acknowledgement="explicit"`).

        Args:
            timeout: as in `poll`.
        """
        return self._records_of(self.poll(timeout))

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yields non-empty batches as they arrive, until the consumer is closed."""
        while not self.closed:
            try:
                batch = self.poll(None)
            except ClosedError:
                return
            yield batch

    def commit(self, timeout: Seconds | None = None) -> dict[TopicPartition, KafkaError | None]:
        """Sends all decisions and waits for the responses. An implicit consumer accepts the rows of the last poll.

        Args:
            timeout: seconds, by default `default.api.timeout.ms`.

        Returns:
            For each partition with decisions since the last commit None, or the first error: records of this partition
            may be delivered again. `InvalidRecordStateError` says that locks had ended.

        Raises:
            KafkaTimeoutError: a broker did not respond in time.
            WakeupError: `wakeup` was called. The decisions may still take effect.
        """
        return run_sync(self._commit(timeout))

    def renew(self, rows: Rows, timeout: Seconds | None = None) -> dict[TopicPartition, KafkaError | None]:
        """Starts the locks of rows again, sends all decisions, and waits for the responses (KIP-1222, Kafka 4.2).

        The rows stay with the application and are not returned again. Decide about them later; polls may run before.

        Args:
            rows: as in `acknowledge`.
            timeout: seconds, by default `default.api.timeout.ms`.

        Returns:
            As `commit`. The error of a partition says that its locks were not renewed.

        Raises:
            IllegalStateError: the consumer is implicit, or it does not have one of the rows.
            KafkaTimeoutError: a broker did not respond in time.
        """
        return run_sync(self._renew(rows, timeout))

    def close(self, timeout: Seconds | None = None) -> None:
        """Sends the last decisions, leaves the group and closes all connections.

        Rows without a decision return to the group at once; an implicit consumer accepts the rows of the last poll. May
        be called again.

        Args:
            timeout: seconds to close, by default `default.api.timeout.ms`, at most 30.
        """
        run_sync(self._close(True, timeout))

    def __enter__(self) -> ShareConsumer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After an exception, the rows of the last poll may not be processed, so they return to the group.
        run_sync(self._close(kind is None, None))
