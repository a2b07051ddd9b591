"""Blocking methods of `Admin` for leaders, replicas and disks."""

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
    """Methods of `Admin` for leaders, replicas and disks."""

    def elect_leaders(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        election: ElectionType = ElectionType.PREFERRED,
        timeout: Seconds | None = None,
    ) -> dict[TopicPartition, bool]:
        """Elects leaders (KIP-183, KIP-460).

        Args:
            partitions: partitions; by default all whose leader is not the one to elect.
            election: type of the election: the preferred replica, or any live one.
            timeout: seconds, by default `default.api.timeout.ms`.

        Returns:
            True for each partition that got a new leader, False if it already had the right one.

        Raises:
            PartialFailureError: some partitions have no new leader, with the error of each:
                `PreferredLeaderNotAvailableError`, `EligibleLeadersNotAvailableError` and others.
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
            replicas: the brokers by partition, the preferred leader first; None cancels a move.
            allow_replication_factor_change: whether the number of replicas may change (KIP-860, Kafka 4.1).
            timeout: seconds, by default `default.api.timeout.ms`.

        Raises:
            PartialFailureError: some partitions were not changed, with the error of each:
                `InvalidReplicaAssignmentError`, `NoReassignmentInProgressError` and others.
        """
        return _replicas.alter_reassignments(
            self._open, replicas, allow_replication_factor_change=allow_replication_factor_change, timeout=timeout
        ).wait()

    def list_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None, *, timeout: Seconds | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        """Lists the replicas that are being moved (KIP-455, Kafka 2.4).

        Args:
            partitions: partitions; by default all. Partitions that are not being moved are omitted.
            timeout: seconds, by default `default.api.timeout.ms`.
        """
        return _replicas.list_reassignments(self._open, partitions, timeout=timeout).wait()

    def log_dirs(
        self, brokers: Iterable[int] | None = None, *, timeout: Seconds | None = None
    ) -> Results[int, tuple[LogDir, ...]]:
        """Lists the contents of brokers' disks (KIP-113).

        Args:
            brokers: ids; by default all.
            timeout: seconds, by default `default.api.timeout.ms`.

        Returns:
            The disks by broker.
        """
        return _replicas.log_dirs(self._open, brokers, timeout=timeout).wait()

    def move_replicas(self, replicas: Mapping[Replica, str], *, timeout: Seconds | None = None) -> dict[Replica, None]:
        """Moves replicas to other disks of their brokers (KIP-113); `log_dirs` shows the progress.

        Args:
            replicas: path of the disk by replica. A replica that does not exist yet will be created there.
            timeout: seconds, by default `default.api.timeout.ms`.

        Raises:
            PartialFailureError: some replicas were not moved, with the error of each: `LogDirNotFoundError`,
                `ReplicaNotAvailableError` and others.
        """
        return _replicas.move_replicas(self._open, replicas, timeout=timeout).wait()
