"""Brokers, features, the quorum, replicas and quotas: types for `Admin`."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from samsarrow._html import HtmlRepr
from samsarrow.access import AclOperation
from samsarrow.types import TopicPartition


class ElectionType(enum.IntEnum):
    """The replica to elect as leader: the preferred replica, or any live replica, which may lose records (KIP-460)."""

    PREFERRED = 0
    UNCLEAN = 1


class UpgradeType(enum.IntEnum):
    """The allowed change of a feature: upgrades, downgrades that lose no metadata, or any downgrade (KIP-778)."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class _Any(enum.Enum):
    ANY = "any"


ANY = _Any.ANY
"""Matches every name of a type of entity with quotas, and the default."""


@dataclass(frozen=True, slots=True)
class BrokerDescription:
    """A broker of the cluster.

    Attributes:
        id: id of the broker.
        host: host for clients.
        port: port for clients.
        rack: rack of the broker; None if unknown.
        fenced: whether the broker is registered but fenced (KIP-1073).
    """

    id: int
    host: str
    port: int
    rack: str | None
    fenced: bool


@dataclass(frozen=True, slots=True)
class ClusterDescription(HtmlRepr):
    """A cluster.

    Attributes:
        cluster_id: id of the cluster; None from brokers before 0.10.1.
        controller: id of the controller, or of a broker that forwards requests to the controller; None if unknown.
        brokers: brokers in the order of their ids; controllers if the client uses `bootstrap.controllers`.
        authorized_operations: operations on the cluster that this client may perform; None unless requested.
    """

    cluster_id: str | None
    controller: int | None
    brokers: tuple[BrokerDescription, ...]
    authorized_operations: tuple[AclOperation, ...] | None = None


@dataclass(frozen=True, slots=True)
class FeatureMetadata(HtmlRepr):
    """Features of a cluster (KIP-584).

    Attributes:
        finalized: lowest and highest finalized level, by feature.
        epoch: epoch of the finalized levels; None if unknown.
        supported: lowest and highest level that the responding broker supports.
    """

    finalized: Mapping[str, tuple[int, int]]
    epoch: int | None
    supported: Mapping[str, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class FeatureUpdate:
    """A new level of a feature.

    Attributes:
        level: new level; 0 disables the feature.
        upgrade_type: whether a downgrade is allowed.
    """

    level: int
    upgrade_type: UpgradeType = UpgradeType.UPGRADE


@dataclass(frozen=True, slots=True)
class QuorumReplica:
    """A node of the metadata quorum.

    Attributes:
        id: id of the node.
        directory_id: id of its log directory; None from brokers before 3.9.
        log_end_offset: end offset of its log.
        last_fetch_timestamp: time of its last fetch, milliseconds since 1970; None if unknown.
        last_caught_up_timestamp: last time at which the node had all records of the leader, milliseconds since 1970;
            None if unknown.
    """

    id: int
    directory_id: UUID | None
    log_end_offset: int
    last_fetch_timestamp: int | None
    last_caught_up_timestamp: int | None


@dataclass(frozen=True, slots=True)
class RaftEndpoint:
    """A listener of a controller.

    Attributes:
        name: name of the listener.
        host: host of the listener.
        port: port of the listener.
    """

    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class QuorumInfo(HtmlRepr):
    """The metadata quorum (KIP-595).

    Attributes:
        leader: id of the leader.
        leader_epoch: number that increases with each leader election.
        high_watermark: offset up to which a majority of voters has all records.
        voters: nodes that vote in leader elections.
        observers: nodes that replicate the metadata log without voting.
        nodes: listeners of controllers, by node id; empty from brokers before 3.9.
    """

    leader: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
    nodes: Mapping[int, tuple[RaftEndpoint, ...]]


@dataclass(frozen=True, slots=True)
class PartitionReassignment:
    """A reassignment of a partition that is in progress (KIP-455).

    Attributes:
        replicas: brokers with a replica, old and new.
        adding: brokers that get a replica.
        removing: brokers whose replica will be removed.
    """

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ReplicaInfo:
    """A replica in a log directory.

    Attributes:
        partition: the partition.
        size: its size in bytes.
        offset_lag: number of offsets from the end of the replica to the high watermark; for a future replica, to the
            end of the current replica.
        future: whether the replica is being copied to this log directory from another one on the broker.
    """

    partition: TopicPartition
    size: int
    offset_lag: int
    future: bool


@dataclass(frozen=True, slots=True)
class LogDir(HtmlRepr):
    """A log directory of a broker.

    Attributes:
        path: path of the log directory.
        replicas: replicas in the log directory; empty if unknown.
        error: the reason why the replicas are unknown; None if they are known.
        total_bytes: size of the volume; None from brokers before 3.3.
        usable_bytes: free bytes of the volume; None from brokers before 3.3.
        cordoned: whether no new replicas may be placed in the log directory (KIP-1066).
    """

    path: str
    replicas: tuple[ReplicaInfo, ...]
    error: Exception | None
    total_bytes: int | None
    usable_bytes: int | None
    cordoned: bool


@dataclass(frozen=True, slots=True)
class Replica:
    """A replica of a partition on a broker.

    Attributes:
        topic: topic of the partition.
        partition: number of the partition.
        broker: id of the broker with the replica.
    """

    topic: str
    partition: int
    broker: int


@dataclass(frozen=True, slots=True)
class QuotaEntity:
    """The entity to which a quota applies (KIP-546).

    If the name of a component is None, the quota is the default for entities without a quota of their own.

    Attributes:
        parts: name by type of component: `{"user": "alice"}`, `{"user": "alice", "client-id": None}`,
            `{"ip": "10.0.0.1"}`.
    """

    parts: Mapping[str, str | None]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", dict(sorted(self.parts.items())))

    def __hash__(self) -> int:
        return hash(tuple(self.parts.items()))
