"""Blocking methods of `Admin` for leaders, replicas and log directories."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from samsarrow._admin import replicas as _replicas
from samsarrow._admin.common import AdminBase
from samsarrow.cluster_types import (
    ElectionType,
    LogDir,
    PartitionReassignment,
    Replica,
)
from samsarrow.results import Results
from samsarrow.types import (
    Seconds,
    TopicPartition,
)


class ReplicaAdmin(AdminBase):
    """Methods of `Admin` for leaders, replicas and log directories."""

    def elect_leaders(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        election: ElectionType = ElectionType.PREFERRED,
        timeout: Seconds | None = None,
    ) -> dict[TopicPartition, bool]:
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
        return _replicas.elect_leaders(self._open, partitions, election=election, timeout=timeout).wait()

    def alter_reassignments(
        self,
        replicas: Mapping[TopicPartition, Iterable[int] | None],
        *,
        allow_replication_factor_change: bool = True,
        timeout: Seconds | None = None,
    ) -> dict[TopicPartition, None]:
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
        return _replicas.alter_reassignments(
            self._open, replicas, allow_replication_factor_change=allow_replication_factor_change, timeout=timeout
        ).wait()

    def list_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None, *, timeout: Seconds | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        """Lists the reassignments in progress (KIP-455, Kafka 2.4).

        Args:
            partitions: partitions to look up; by default all. Partitions without a reassignment are omitted.
            timeout: seconds, by default `default.api.timeout.ms`.
        """
        return _replicas.list_reassignments(self._open, partitions, timeout=timeout).wait()

    def log_dirs(
        self, brokers: Iterable[int] | None = None, *, timeout: Seconds | None = None
    ) -> Results[int, tuple[LogDir, ...]]:
        """Describes the log directories of brokers and the replicas in them (KIP-113).

        Args:
            brokers: ids; by default all.
            timeout: seconds, by default `default.api.timeout.ms`.

        Returns:
            The log directories of each broker.
        """
        return _replicas.log_dirs(self._open, brokers, timeout=timeout).wait()

    def move_replicas(self, replicas: Mapping[Replica, str], *, timeout: Seconds | None = None) -> dict[Replica, None]:
        """Moves replicas to other log directories of their brokers (KIP-113); `log_dirs` shows the progress.

        Args:
            replicas: by replica, the path of the log directory. A replica that does not exist yet will be created
                there.
            timeout: seconds, by default `default.api.timeout.ms`.

        Raises:
            PartialFailureError: the moves of some replicas were rejected. It has the error of each replica, such as
                `LogDirNotFoundError` or `ReplicaNotAvailableError`.
        """
        return _replicas.move_replicas(self._open, replicas, timeout=timeout).wait()
