"""Replicas: who leads, where they are, on which disks, for programs that wait."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from samsarrow._admin import replicas as _replicas
from samsarrow._admin.plain import Face
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


class ReplicaAdmin(Face):
    """A part of `Admin`, which see."""

    def elect_leaders(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        election: ElectionType = ElectionType.PREFERRED,
        timeout: Seconds | None = None,
    ) -> dict[TopicPartition, bool]:
        """Elects leaders (KIP-183, KIP-460).

        Args:
            partitions: which; by default all whose leader is another than it should be.
            election: who may win.
            timeout: seconds, by default `default.api.timeout.ms`.

        Returns:
            For each partition whether an election was needed.

        Raises:
            PartialFailureError: with the error of each partition that has no new leader:
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
        """Begins to move replicas to other brokers (KIP-455, Kafka 2.4).

        Args:
            replicas: the brokers by partition, the preferred leader first; None gives up what is under way.
            allow_replication_factor_change: whether there may be more or fewer than now (KIP-860, Kafka 4.1).
            timeout: seconds, by default `default.api.timeout.ms`.

        Raises:
            PartialFailureError: with the error of each partition that stays as it is: `InvalidReplicaAssignmentError`,
                `NoReassignmentInProgressError` and others.
        """
        return _replicas.alter_reassignments(
            self._open, replicas, allow_replication_factor_change=allow_replication_factor_change, timeout=timeout
        ).wait()

    def list_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None, *, timeout: Seconds | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        """The replicas that are being moved (KIP-455, Kafka 2.4).

        Args:
            partitions: which; by default all. Those whose replicas stay where they are are left out.
            timeout: seconds, by default `default.api.timeout.ms`.
        """
        return _replicas.list_reassignments(self._open, partitions, timeout=timeout).wait()

    def log_dirs(
        self, brokers: Iterable[int] | None = None, *, timeout: Seconds | None = None
    ) -> Results[int, tuple[LogDir, ...]]:
        """What is on the disks of brokers (KIP-113).

        Args:
            brokers: ids; by default all.
            timeout: seconds, by default `default.api.timeout.ms`.

        Returns:
            The disks by broker.
        """
        return _replicas.log_dirs(self._open, brokers, timeout=timeout).wait()

    def move_replicas(self, replicas: Mapping[Replica, str], *, timeout: Seconds | None = None) -> dict[Replica, None]:
        """Moves replicas to other disks of their brokers (KIP-113); `log_dirs` shows how far they are.

        Args:
            replicas: the path of the disk by replica. A replica that is not there yet will be put there.
            timeout: seconds, by default `default.api.timeout.ms`.

        Raises:
            PartialFailureError: with the error of each replica that stays where it is: `LogDirNotFoundError`,
                `ReplicaNotAvailableError` and others.
        """
        return _replicas.move_replicas(self._open, replicas, timeout=timeout).wait()
