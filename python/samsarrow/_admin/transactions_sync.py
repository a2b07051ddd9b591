"""Blocking methods of `Admin` to list, describe and abort transactions (KIP-664)."""

from __future__ import annotations

from collections.abc import Iterable

from samsarrow._admin import transactions as _transactions
from samsarrow._admin.common import AdminBase
from samsarrow.admin_types import (
    FencedProducer,
    HangingTransaction,
    ProducerState,
    TransactionDescription,
    TransactionListing,
)
from samsarrow.results import Results
from samsarrow.types import (
    Seconds,
    TopicPartition,
)


class TransactionAdmin(AdminBase):
    """Methods of `Admin` to list, describe and abort transactions."""

    def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        longer_than: Seconds | None = None,
        pattern: str | None = None,
        timeout: Seconds | None = None,
    ) -> dict[str, TransactionListing]:
        """Lists the transactional ids of all brokers (Kafka 3.0).

        Args:
            states: only transactional ids in one of these states, such as `Ongoing`.
            producer_ids: only transactional ids with one of these producer ids.
            longer_than: only transactional ids whose transaction has been open for more than this number of seconds
                (KIP-994, Kafka 3.8).
            pattern: only transactional ids that match this regular expression (RE2; KIP-1152, Kafka 4.1).
            timeout: seconds, by default `default.api.timeout.ms`.
        """
        return _transactions.list_transactions(
            self._open,
            states=states,
            producer_ids=producer_ids,
            longer_than=longer_than,
            pattern=pattern,
            timeout=timeout,
        ).wait()

    def describe_transactions(
        self, transactional_ids: Iterable[str], *, timeout: Seconds | None = None
    ) -> Results[str, TransactionDescription]:
        """Describes transactions by their transactional ids (Kafka 3.0).

        Args:
            transactional_ids: names.
            timeout: seconds, by default `default.api.timeout.ms`.

        Returns:
            The transactions. Looking up an unknown transactional id raises `TransactionalIdNotFoundError`.
        """
        return _transactions.describe_transactions(self._open, transactional_ids, timeout=timeout).wait()

    def describe_producers(
        self, partitions: Iterable[TopicPartition], *, timeout: Seconds | None = None
    ) -> Results[TopicPartition, tuple[ProducerState, ...]]:
        """Lists the idempotent and transactional producers that the leaders of partitions remember (Kafka 2.8).

        Args:
            partitions: partitions that the producers have written to.
            timeout: seconds, by default `default.api.timeout.ms`.
        """
        return _transactions.describe_producers(self._open, partitions, timeout=timeout).wait()

    def abort_transaction(
        self,
        partition: TopicPartition,
        producer_id: int,
        producer_epoch: int,
        *,
        coordinator_epoch: int | None = None,
        timeout: Seconds | None = None,
    ) -> None:
        """Aborts an open transaction in one partition, without its coordinator.

        Use it for transactions that `find_hanging` returns. If the coordinator still knows the transaction, aborting it
        here loses records: use `fence_producers` instead.

        Args:
            partition: the partition.
            producer_id: id of the producer, from `describe_producers`.
            producer_epoch: epoch of the producer.
            coordinator_epoch: epoch of the coordinator from `describe_producers`; None if unknown.
            timeout: seconds, by default `default.api.timeout.ms`.

        Raises:
            InvalidProducerEpochError: the producer has a newer epoch.
        """
        return _transactions.abort_transaction(
            self._open, partition, producer_id, producer_epoch, coordinator_epoch=coordinator_epoch, timeout=timeout
        ).wait()

    def fence_producers(
        self, transactional_ids: Iterable[str], *, timeout: Seconds | None = None
    ) -> dict[str, FencedProducer]:
        """Fences the producers of transactional ids and aborts their open transactions (KIP-664).

        Args:
            transactional_ids: names.
            timeout: seconds, by default `default.api.timeout.ms`.

        Raises:
            PartialFailureError: the producers of some transactional ids were not fenced. It has the error of each id.
        """
        return _transactions.fence_producers(self._open, transactional_ids, timeout=timeout).wait()

    def find_hanging(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        longer_than: Seconds = 900,
        timeout: Seconds | None = None,
    ) -> tuple[HangingTransaction, ...]:
        """Finds transactions that block readers and that no coordinator will end (KIP-664, Kafka 3.0).

        Args:
            partitions: partitions to search; by default all.
            longer_than: seconds since the last write of the transaction. A value below the brokers'
                `transaction.max.timeout.ms` can match transactions that are still running.
            timeout: seconds, by default `default.api.timeout.ms`.
        """
        return _transactions.find_hanging(self._open, partitions, longer_than=longer_than, timeout=timeout).wait()
