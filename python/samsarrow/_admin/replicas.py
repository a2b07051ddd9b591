"""Requests for leaders, replica assignments and log directories."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from samsarrow import _core
from samsarrow._admin.common import to_partition as _tp
from samsarrow._arguments import names_arguments
from samsarrow.cluster_types import (
    ElectionType,
    LogDir,
    PartitionReassignment,
    Replica,
    ReplicaInfo,
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
def elect_leaders(
    core: _core.Admin,
    partitions: Iterable[TopicPartition] | None = None,
    *,
    election: ElectionType = ElectionType.PREFERRED,
    timeout: Seconds | None = None,
) -> Call[dict[TopicPartition, bool]]:
    """Elects leaders (KIP-183, KIP-460).

    Args:
        partitions: partitions to elect leaders of; by default all partitions whose leader would change.
        election: whether to elect the preferred replica, or any live replica.
        timeout: seconds, by default `default.api.timeout.ms`.

    Returns:
        By partition, True if a new leader was elected, False if no election was needed.

    Raises:
        PartialFailureError: the elections of some partitions failed. It has the error of each partition, such as
            `PreferredLeaderNotAvailableError` or `EligibleLeadersNotAvailableError`.
    """
    pairs = None if partitions is None else [to_pair(tp) for tp in partitions]
    call = _core.admin_elect_leaders(core, ElectionType(election).value, pairs, to_seconds(timeout))
    return call.then(writes(_tp, lambda key, changed: changed))


@names_arguments
def alter_reassignments(
    core: _core.Admin,
    replicas: Mapping[TopicPartition, Iterable[int] | None],
    *,
    allow_replication_factor_change: bool = True,
    timeout: Seconds | None = None,
) -> Call[dict[TopicPartition, None]]:
    """Starts moving replicas to other brokers (KIP-455, Kafka 2.4).

    Args:
        replicas: by partition, the brokers to move its replicas to, the preferred leader first; None cancels a move
            in progress.
        allow_replication_factor_change: whether the number of replicas may change (KIP-860, Kafka 4.1).
        timeout: seconds, by default `default.api.timeout.ms`.

    Raises:
        PartialFailureError: the reassignments of some partitions were rejected. It has the error of each partition,
            such as `InvalidReplicaAssignmentError` or `NoReassignmentInProgressError`.
    """
    rows = [(to_pair(tp), None if brokers is None else list(brokers)) for tp, brokers in replicas.items()]
    call = _core.admin_alter_reassignments(core, rows, allow_replication_factor_change, to_seconds(timeout))
    return call.then(writes(_tp))


@names_arguments
def list_reassignments(
    core: _core.Admin, partitions: Iterable[TopicPartition] | None = None, *, timeout: Seconds | None = None
) -> Call[dict[TopicPartition, PartitionReassignment]]:
    """Lists the reassignments in progress (KIP-455, Kafka 2.4).

    Args:
        partitions: partitions to look up; by default all. Partitions without a reassignment are omitted.
        timeout: seconds, by default `default.api.timeout.ms`.
    """
    pairs = None if partitions is None else [to_pair(tp) for tp in partitions]
    call = _core.admin_list_reassignments(core, pairs, to_seconds(timeout))
    return call.then(lambda rows: {_tp(tp): PartitionReassignment(*map(tuple, brokers)) for tp, brokers in rows})


@names_arguments
def log_dirs(
    core: _core.Admin, brokers: Iterable[int] | None = None, *, timeout: Seconds | None = None
) -> Call[Results[int, tuple[LogDir, ...]]]:
    """Describes the log directories of brokers and the replicas in them (KIP-113).

    Args:
        brokers: ids; by default all.
        timeout: seconds, by default `default.api.timeout.ms`.

    Returns:
        The log directories of each broker.
    """
    ids = None if brokers is None else list(brokers)
    call = _core.admin_log_dirs(core, ids, to_seconds(timeout))
    return call.then(reads(int, _dirs, (int, tuple[LogDir])))


@names_arguments
def move_replicas(
    core: _core.Admin, replicas: Mapping[Replica, str], *, timeout: Seconds | None = None
) -> Call[dict[Replica, None]]:
    """Moves replicas to other log directories of their brokers (KIP-113); `log_dirs` shows the progress.

    Args:
        replicas: by replica, the path of the log directory. A replica that does not exist yet will be created
            there.
        timeout: seconds, by default `default.api.timeout.ms`.

    Raises:
        PartialFailureError: the moves of some replicas were rejected. It has the error of each replica, such as
            `LogDirNotFoundError` or `ReplicaNotAvailableError`.
    """
    rows = [(((replica.topic, replica.partition), replica.broker), path) for replica, path in replicas.items()]
    call = _core.admin_move_replicas(core, rows, to_seconds(timeout))
    return call.then(writes(lambda raw: Replica(raw[0][0], raw[0][1], raw[1])))


def _dirs(rows: list[tuple[Any, ...]]) -> tuple[LogDir, ...]:
    dirs = []
    for path, replica_rows, error, total, usable, cordoned in rows:
        replicas = tuple(ReplicaInfo(_tp(tp), size, lag, future) for tp, size, lag, future in replica_rows)
        dirs.append(LogDir(path, replicas, error, total, usable, cordoned))
    return tuple(dirs)
