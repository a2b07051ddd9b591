"""Requests for brokers, features and the metadata quorum."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any
from uuid import UUID

from samsarrow import _core
from samsarrow._admin.common import operations
from samsarrow._arguments import names_arguments
from samsarrow.cluster_types import (
    BrokerDescription,
    ClusterDescription,
    FeatureMetadata,
    FeatureUpdate,
    QuorumInfo,
    QuorumReplica,
    RaftEndpoint,
)
from samsarrow.results import writes
from samsarrow.types import (
    Seconds,
    to_seconds,
)

if TYPE_CHECKING:
    from samsarrow._core import Call


@names_arguments
def describe_cluster(
    core: _core.Admin,
    *,
    include_fenced: bool = False,
    include_authorized_operations: bool = False,
    timeout: Seconds | None = None,
) -> Call[ClusterDescription]:
    """Describes the cluster: its brokers and its controller.

    Args:
        include_fenced: also return brokers that are registered but fenced (KIP-1073, Kafka 4.0).
        include_authorized_operations: also return the operations that this client may perform (KIP-430, Kafka 2.3).
        timeout: seconds, by default `default.api.timeout.ms`.
    """
    call = _core.admin_describe_cluster(core, include_fenced, include_authorized_operations, to_seconds(timeout))
    return call.then(_cluster)


@names_arguments
def describe_features(core: _core.Admin, *, timeout: Seconds | None = None) -> Call[FeatureMetadata]:
    """Returns the features of the cluster: finalized levels and the levels that a broker supports (KIP-584).

    Args:
        timeout: seconds, by default `default.api.timeout.ms`.
    """
    call = _core.admin_describe_features(core, to_seconds(timeout))
    return call.then(lambda row: FeatureMetadata(*row))


@names_arguments
def update_features(
    core: _core.Admin,
    updates: Mapping[str, int | FeatureUpdate],
    *,
    validate_only: bool = False,
    timeout: Seconds | None = None,
) -> Call[dict[str, None]]:
    """Changes the levels of features (KIP-584, Kafka 2.7).

    Args:
        updates: by feature, the new level, or a `FeatureUpdate`, which can also allow a downgrade.
        validate_only: only check whether the change is possible (Kafka 3.3).
        timeout: seconds, by default `default.api.timeout.ms`.

    Raises:
        PartialFailureError: some features were not changed, with the error of each: `FeatureUpdateFailedError` and
            others.
    """
    changes = {f: FeatureUpdate(new) if isinstance(new, int) else new for f, new in updates.items()}
    levels = {feature: (change.level, change.upgrade_type.value) for feature, change in changes.items()}
    return _core.admin_update_features(core, levels, validate_only, to_seconds(timeout)).then(writes(str))


@names_arguments
def describe_quorum(core: _core.Admin, *, timeout: Seconds | None = None) -> Call[QuorumInfo]:
    """Describes the metadata quorum and the progress of its nodes (KIP-836, Kafka 3.3 in KRaft mode).

    Args:
        timeout: seconds, by default `default.api.timeout.ms`.
    """
    return _core.admin_describe_quorum(core, to_seconds(timeout)).then(_quorum)


@names_arguments
def add_raft_voter(
    core: _core.Admin,
    voter: int,
    directory_id: UUID,
    endpoints: Iterable[RaftEndpoint],
    *,
    cluster_id: str | None = None,
    timeout: Seconds | None = None,
) -> Call[None]:
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
    listeners = [(endpoint.name, endpoint.host, endpoint.port) for endpoint in endpoints]
    return _core.admin_add_raft_voter(core, cluster_id, (voter, directory_id.bytes), listeners, to_seconds(timeout))


@names_arguments
def remove_raft_voter(
    core: _core.Admin, voter: int, directory_id: UUID, *, cluster_id: str | None = None, timeout: Seconds | None = None
) -> Call[None]:
    """Removes a controller from the voters (KIP-853, Kafka 3.9).

    Args:
        voter: node id of the controller.
        directory_id: id of its log directory.
        cluster_id: if set, any other cluster rejects the request.
        timeout: seconds, by default `default.api.timeout.ms`.

    Raises:
        VoterNotFoundError: the controller is not a voter.
    """
    return _core.admin_remove_raft_voter(core, cluster_id, (voter, directory_id.bytes), to_seconds(timeout))


@names_arguments
def unregister_broker(core: _core.Admin, broker: int, *, timeout: Seconds | None = None) -> Call[None]:
    """Unregisters a broker that was removed from the cluster for good (KIP-631, KRaft mode only).

    Args:
        broker: id of the broker.
        timeout: seconds, by default `default.api.timeout.ms`.

    Raises:
        BrokerIdNotRegisteredError: the broker is not registered.
    """
    return _core.admin_unregister_broker(core, broker, to_seconds(timeout))


@names_arguments
def unregister_controller(core: _core.Admin, controller: int, *, timeout: Seconds | None = None) -> Call[None]:
    """Unregisters a controller that was removed from the cluster for good (Kafka 4.4).

    Args:
        controller: id of the controller.
        timeout: seconds, by default `default.api.timeout.ms`.

    Raises:
        ControllerIdNotRegisteredError: the controller is not registered.
        UnsupportedVersionError: the brokers are older than Kafka 4.4.
    """
    return _core.admin_unregister_controller(core, controller, to_seconds(timeout))


def _cluster(row: tuple[str | None, int | None, list[tuple[Any, ...]], list[int] | None]) -> ClusterDescription:
    cluster_id, controller, rows, allowed = row
    brokers = tuple(BrokerDescription(*broker) for broker in rows)
    return ClusterDescription(cluster_id, controller, brokers, operations(allowed))


def _replica(row: tuple[Any, ...]) -> QuorumReplica:
    replica, directory, end, fetch, caught_up = row
    directory_id = UUID(bytes=bytes(directory))
    last_fetch, last_caught_up = (None if time < 0 else time for time in (fetch, caught_up))
    return QuorumReplica(replica, directory_id if directory_id.int else None, end, last_fetch, last_caught_up)


def _quorum(row: tuple[Any, ...]) -> QuorumInfo:
    leader, epoch, high_watermark, voters, observers, nodes = row
    endpoints = {node: tuple(RaftEndpoint(*listener) for listener in listeners) for node, listeners in nodes.items()}
    voting, observing = (tuple(_replica(replica) for replica in replicas) for replicas in (voters, observers))
    return QuorumInfo(leader, epoch, high_watermark, voting, observing, endpoints)
