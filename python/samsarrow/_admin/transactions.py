"""Requests to list, describe and abort transactions (KIP-664)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from samsarrow import _core
from samsarrow._admin.common import names_of
from samsarrow._admin.common import to_partition as _tp
from samsarrow._arguments import names_arguments
from samsarrow.admin_types import (
    FencedProducer,
    HangingTransaction,
    ProducerState,
    TransactionDescription,
    TransactionListing,
)
from samsarrow.results import Results, reads, writes
from samsarrow.types import (
    Seconds,
    TopicPartition,
    to_pair,
    to_seconds,
)

if TYPE_CHECKING:
    from samsarrow._core import Call


@names_arguments
def list_transactions(
    core: _core.Admin,
    *,
    states: Iterable[str] = (),
    producer_ids: Iterable[int] = (),
    longer_than: Seconds | None = None,
    pattern: str | None = None,
    timeout: Seconds | None = None,
) -> Call[dict[str, TransactionListing]]:
    """Lists the transactional ids of all brokers (Kafka 3.0).

    Args:
        states: only transactional ids in one of these states, such as `Ongoing`.
        producer_ids: only transactional ids with one of these producer ids.
        longer_than: only transactional ids whose transaction has been open for more than this number of seconds
            (KIP-994, Kafka 3.8).
        pattern: only transactional ids that match this regular expression (RE2; KIP-1152, Kafka 4.1).
        timeout: seconds, by default `default.api.timeout.ms`.
    """
    call = _core.admin_list_transactions(
        core, names_of("states", states), list(producer_ids), to_seconds(longer_than), pattern, to_seconds(timeout)
    )
    return call.then(lambda rows: {row[0]: TransactionListing(*row) for row in rows})


@names_arguments
def describe_transactions(
    core: _core.Admin, transactional_ids: Iterable[str], *, timeout: Seconds | None = None
) -> Call[Results[str, TransactionDescription]]:
    """Describes transactions by their transactional ids (Kafka 3.0).

    Args:
        transactional_ids: names.
        timeout: seconds, by default `default.api.timeout.ms`.

    Returns:
        The transactions. Looking up an unknown transactional id raises `TransactionalIdNotFoundError`.
    """
    ids = names_of("transactional_ids", transactional_ids)
    call = _core.admin_describe_transactions(core, ids, to_seconds(timeout))
    return call.then(reads(str, _described, (str, TransactionDescription)))


@names_arguments
def describe_producers(
    core: _core.Admin, partitions: Iterable[TopicPartition], *, timeout: Seconds | None = None
) -> Call[Results[TopicPartition, tuple[ProducerState, ...]]]:
    """Lists the idempotent and transactional producers that the leaders of partitions remember (Kafka 2.8).

    Args:
        partitions: partitions that the producers have written to.
        timeout: seconds, by default `default.api.timeout.ms`.
    """
    call = _core.admin_describe_producers(core, [to_pair(tp) for tp in partitions], to_seconds(timeout))
    return call.then(reads(_tp, _producers, (TopicPartition, tuple[ProducerState])))


@names_arguments
def abort_transaction(
    core: _core.Admin,
    partition: TopicPartition,
    producer_id: int,
    producer_epoch: int,
    *,
    coordinator_epoch: int | None = None,
    timeout: Seconds | None = None,
) -> Call[None]:
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
    pair, epoch = to_pair(partition), coordinator_epoch
    return _core.admin_abort_transaction(core, pair, producer_id, producer_epoch, epoch, to_seconds(timeout))


@names_arguments
def fence_producers(
    core: _core.Admin, transactional_ids: Iterable[str], *, timeout: Seconds | None = None
) -> Call[dict[str, FencedProducer]]:
    """Fences the producers of transactional ids and aborts their open transactions (KIP-664).

    Args:
        transactional_ids: names.
        timeout: seconds, by default `default.api.timeout.ms`.

    Raises:
        PartialFailureError: the producers of some transactional ids were not fenced. It has the error of each id.
    """
    ids = names_of("transactional_ids", transactional_ids)
    call = _core.admin_fence_producers(core, ids, to_seconds(timeout))
    return call.then(writes(str, lambda key, row: FencedProducer(*row)))


@names_arguments
def find_hanging(
    core: _core.Admin,
    partitions: Iterable[TopicPartition] | None = None,
    *,
    longer_than: Seconds = 900,
    timeout: Seconds | None = None,
) -> Call[tuple[HangingTransaction, ...]]:
    """Finds transactions that block readers and that no coordinator will end (KIP-664, Kafka 3.0).

    Args:
        partitions: partitions to search; by default all.
        longer_than: seconds since the last write of the transaction. A value below the brokers'
            `transaction.max.timeout.ms` can match transactions that are still running.
        timeout: seconds, by default `default.api.timeout.ms`.
    """
    pairs = None if partitions is None else [to_pair(tp) for tp in partitions]
    seconds = to_seconds(longer_than)
    call = _core.admin_find_hanging(core, pairs, 0.0 if seconds is None else seconds, to_seconds(timeout))
    return call.then(_hanging)


def _described(row: tuple[Any, ...]) -> TransactionDescription:
    coordinator, state, producer, epoch, limit, start, pairs = row
    partitions = tuple(_tp(tp) for tp in pairs)
    return TransactionDescription(coordinator, state, producer, epoch, limit, start, partitions)


def _producers(rows: list[tuple[Any, ...]]) -> tuple[ProducerState, ...]:
    return tuple(ProducerState(*row) for row in rows)


def _hanging(rows: list[tuple[Any, Any, str | None]]) -> tuple[HangingTransaction, ...]:
    return tuple(HangingTransaction(_tp(tp), ProducerState(*state), name) for tp, state, name in rows)
