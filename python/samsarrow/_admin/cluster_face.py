"""The cluster as a whole: brokers, features, the quorum that keeps the metadata, for programs that wait."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

from samsarrow._admin import cluster as _cluster
from samsarrow._admin.plain import Face
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


class ClusterAdmin(Face):
    """A part of `Admin`, which see."""

    def describe_cluster(
        self,
        *,
        include_fenced: bool = False,
        include_authorized_operations: bool = False,
        timeout: Seconds | None = None,
    ) -> ClusterDescription:
        """The brokers and the controller.

        Args:
            include_fenced: also brokers that are registered and may not serve (KIP-1073, Kafka 4.0).
            include_authorized_operations: also return what this client may do with the cluster (KIP-430, Kafka 2.3).
            timeout: seconds, by default `default.api.timeout.ms`.
        """
        return _cluster.describe_cluster(
            self._open,
            include_fenced=include_fenced,
            include_authorized_operations=include_authorized_operations,
            timeout=timeout,
        ).wait()

    def describe_features(self, *, timeout: Seconds | None = None) -> FeatureMetadata:
        """The features that are in use, and those that a broker supports (KIP-584).

        Args:
            timeout: seconds, by default `default.api.timeout.ms`.
        """
        return _cluster.describe_features(self._open, timeout=timeout).wait()

    def update_features(
        self, updates: Mapping[str, int | FeatureUpdate], *, validate_only: bool = False, timeout: Seconds | None = None
    ) -> dict[str, None]:
        """Changes the levels of features (KIP-584, Kafka 2.7).

        Args:
            updates: the new level by feature, or a `FeatureUpdate`, which may go down.
            validate_only: only check whether they could be changed (Kafka 3.3).
            timeout: seconds, by default `default.api.timeout.ms`.

        Raises:
            PartialFailureError: with the error of each feature that was not changed: `FeatureUpdateFailedError` and
                others.
        """
        return _cluster.update_features(self._open, updates, validate_only=validate_only, timeout=timeout).wait()

    def describe_quorum(self, *, timeout: Seconds | None = None) -> QuorumInfo:
        """Who keeps the metadata, and how far each is (KIP-836, Kafka 3.3 without ZooKeeper).

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
        """Lets a controller vote (KIP-853, Kafka 3.9).

        Args:
            voter: its node id.
            directory_id: of its log, from its meta.properties.
            endpoints: where it listens.
            cluster_id: if given, another cluster refuses.
            timeout: seconds, by default `default.api.timeout.ms`.

        Raises:
            DuplicateVoterError: it votes already.
        """
        return _cluster.add_raft_voter(
            self._open, voter, directory_id, endpoints, cluster_id=cluster_id, timeout=timeout
        ).wait()

    def remove_raft_voter(
        self, voter: int, directory_id: UUID, *, cluster_id: str | None = None, timeout: Seconds | None = None
    ) -> None:
        """Keeps a controller from voting (KIP-853, Kafka 3.9).

        Args:
            voter: its node id.
            directory_id: of its log.
            cluster_id: if given, another cluster refuses.
            timeout: seconds, by default `default.api.timeout.ms`.

        Raises:
            VoterNotFoundError: it does not vote.
        """
        return _cluster.remove_raft_voter(
            self._open, voter, directory_id, cluster_id=cluster_id, timeout=timeout
        ).wait()

    def unregister_broker(self, broker: int, *, timeout: Seconds | None = None) -> None:
        """Forgets a broker that is gone for good (KIP-631, without ZooKeeper).

        Args:
            broker: its id.
            timeout: seconds, by default `default.api.timeout.ms`.

        Raises:
            BrokerIdNotRegisteredError: there is no such broker.
        """
        return _cluster.unregister_broker(self._open, broker, timeout=timeout).wait()
