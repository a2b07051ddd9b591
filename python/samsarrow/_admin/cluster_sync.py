"""Blocking methods of `Admin` for brokers, features and the metadata quorum."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

from samsarrow._admin import cluster as _cluster
from samsarrow._admin.common import AdminBase
from samsarrow.cluster_types import (
    ClusterDescription,
    FeatureMetadata,
    FeatureUpdate,
    QuorumInfo,
    RaftEndpoint,
)
from samsarrow.types import (
    Seconds,
)


class ClusterAdmin(AdminBase):
    """Methods of `Admin` for brokers, features and the metadata quorum."""

    def describe_cluster(
        self,
        *,
        include_fenced: bool = False,
        include_authorized_operations: bool = False,
        timeout: Seconds | None = None,
    ) -> ClusterDescription:
        """Describes the cluster: its brokers and its controller.

        Args:
            include_fenced: also return brokers that are registered but fenced (KIP-1073, Kafka 4.0).
            include_authorized_operations: also return the operations that this client may perform (KIP-430, Kafka 2.3).
            timeout: seconds, by default `default.api.timeout.ms`.
        """
        return _cluster.describe_cluster(
            self._open,
            include_fenced=include_fenced,
            include_authorized_operations=include_authorized_operations,
            timeout=timeout,
        ).wait()

    def describe_features(self, *, timeout: Seconds | None = None) -> FeatureMetadata:
        """Returns the features of the cluster: finalized levels and the levels that a broker supports (KIP-584).

        Args:
            timeout: seconds, by default `default.api.timeout.ms`.
        """
        return _cluster.describe_features(self._open, timeout=timeout).wait()

    def update_features(
        self, updates: Mapping[str, int | FeatureUpdate], *, validate_only: bool = False, timeout: Seconds | None = None
    ) -> dict[str, None]:
        """Changes the levels of features (KIP-584, Kafka 2.7).

        Args:
            updates: by feature, the new level, or a `FeatureUpdate`, which can also allow a downgrade.
            validate_only: only check whether the change is possible (Kafka 3.3).
            timeout: seconds, by default `default.api.timeout.ms`.

        Raises:
            PartialFailureError: some features were not changed, with the error of each: `FeatureUpdateFailedError` and
                others.
        """
        return _cluster.update_features(self._open, updates, validate_only=validate_only, timeout=timeout).wait()

    def describe_quorum(self, *, timeout: Seconds | None = None) -> QuorumInfo:
        """Describes the metadata quorum and the progress of its nodes (KIP-836, Kafka 3.3 in KRaft mode).

        Args:
            timeout: seconds, by default `default.api.timeout.ms`.
        """
        return _cluster.describe_quorum(self._open, timeout=timeout).wait()

    def add_raft_voter(
        self,
        voter: int,
        directory_id: UUID,
        endpoints: Iterable[RaftEndpoint],
        *,
        cluster_id: str | None = None,
        timeout: Seconds | None = None,
    ) -> None:
        """Adds a controller to the voters (KIP-853, Kafka 3.9).

        Args:
            voter: node id of the controller.
            directory_id: id of its log directory, from its meta.properties.
            endpoints: its listeners.
            cluster_id: if set, any other cluster rejects the request.
            timeout: seconds, by default `default.api.timeout.ms`.

        Raises:
            DuplicateVoterError: the controller is already a voter.
        """
        return _cluster.add_raft_voter(
            self._open, voter, directory_id, endpoints, cluster_id=cluster_id, timeout=timeout
        ).wait()

    def remove_raft_voter(
        self, voter: int, directory_id: UUID, *, cluster_id: str | None = None, timeout: Seconds | None = None
    ) -> None:
        """Removes a controller from the voters (KIP-853, Kafka 3.9).

        Args:
            voter: node id of the controller.
            directory_id: id of its log directory.
            cluster_id: if set, any other cluster rejects the request.
            timeout: seconds, by default `default.api.timeout.ms`.

        Raises:
            VoterNotFoundError: the controller is not a voter.
        """
        return _cluster.remove_raft_voter(
            self._open, voter, directory_id, cluster_id=cluster_id, timeout=timeout
        ).wait()

    def unregister_broker(self, broker: int, *, timeout: Seconds | None = None) -> None:
        """Unregisters a broker that was removed from the cluster for good (KIP-631, KRaft mode only).

        Args:
            broker: id of the broker.
            timeout: seconds, by default `default.api.timeout.ms`.

        Raises:
            BrokerIdNotRegisteredError: the broker is not registered.
        """
        return _cluster.unregister_broker(self._open, broker, timeout=timeout).wait()
