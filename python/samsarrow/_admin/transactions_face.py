"""Transactions: listed, described, ended by force (KIP-664), for programs that wait."""

from __future__ import annotations

from collections.abc import Iterable

from samsarrow._admin import transactions as _transactions
from samsarrow._admin.plain import Face
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


class TransactionAdmin(Face):
    """A part of `Admin`, which see."""

    def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        longer_than: Seconds | None = None,
        pattern: str | None = None,
        timeout: Seconds | None = None,
    ) -> dict[str, TransactionListing]:
        """Transactional ids of all brokers (Kafka 3.0).

        Args:
            states: only these, such as `Ongoing`.
            producer_ids: only those of these producers.
            longer_than: only those with a transaction that is open for longer, seconds (KIP-994, Kafka 3.8).
            pattern: only those that this regular expression (RE2) matches (KIP-1152, Kafka 4.1).
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
        """Transactions by their transactional ids (Kafka 3.0).

        Args:
            transactional_ids: names.
            timeout: seconds, by default `default.api.timeout.ms`.

        Returns:
            The transactions, `TransactionalIdNotFoundError` for an id that nobody knows.
        """
        return _transactions.describe_transactions(self._open, transactional_ids, timeout=timeout).wait()

    def describe_producers(
        self, partitions: Iterable[TopicPartition], *, timeout: Seconds | None = None
    ) -> Results[TopicPartition, tuple[ProducerState, ...]]:
        """Who writes to partitions with idempotence, as their leaders know it (Kafka 2.8).

        Args:
            partitions: which.
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
        """Ends an open transaction in one partition, as aborted, whatever its coordinator thinks.

        For transactions that `find_hanging` finds. Of one that its coordinator still knows it would lose records: for
        that
        see `fence_producers`.

        Args:
            partition: where.
            producer_id: whose, from `describe_producers`.
            producer_epoch: of the producer.
            coordinator_epoch: from `describe_producers`, if there is one.
            timeout: seconds, by default `default.api.timeout.ms`.

        Raises:
            InvalidProducerEpochError: the producer has another epoch by now.
        """
        return _transactions.abort_transaction(
            self._open, partition, producer_id, producer_epoch, coordinator_epoch=coordinator_epoch, timeout=timeout
        ).wait()

    def fence_producers(
        self, transactional_ids: Iterable[str], *, timeout: Seconds | None = None
    ) -> dict[str, FencedProducer]:
        """Fences the producers of transactional ids; their open transactions are aborted (KIP-664).

        Args:
            transactional_ids: names.
            timeout: seconds, by default `default.api.timeout.ms`.

        Raises:
            PartialFailureError: with the error of each id whose producers were not fenced.
        """
        return _transactions.fence_producers(self._open, transactional_ids, timeout=timeout).wait()

    def find_hanging(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        longer_than: Seconds = 900,
        timeout: Seconds | None = None,
    ) -> tuple[HangingTransaction, ...]:
        """Transactions that keep partitions from being read, and that no coordinator will end (KIP-664, Kafka 3.0).

        Args:
            partitions: where to look; by default everywhere.
            longer_than: how long nothing has been written, seconds: at least the `transaction.max.timeout.ms` of the
                brokers.
            timeout: seconds, by default `default.api.timeout.ms`.
        """
        return _transactions.find_hanging(self._open, partitions, longer_than=longer_than, timeout=timeout).wait()
