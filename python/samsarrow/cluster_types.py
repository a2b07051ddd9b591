"""Brokers, features, the quorum, replicas and quotas: types for `Admin`."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from samsarrow.access import AclOperation
from samsarrow.types import TopicPartition


class ElectionType(enum.IntEnum):
    """The replica to elect as leader: the preferred one, or any live one, which may lose records (KIP-460)."""

    PREFERRED = 0
    UNCLEAN = 1


class UpgradeType(enum.IntEnum):
    """The direction of a feature change: upgrade, downgrade without loss, or any downgrade (KIP-778)."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class _Any(enum.Enum):
    ANY = "any"


ANY = _Any.ANY
"""Matches every name of a type of entity with quotas, and the default."""


@dataclass(frozen=True, slots=True)
class BrokerDescription:
    """A broker.

    Attributes:
        id: id of the broker.
        host: host for clients.
        port: port for clients.
        rack: its rack; None if unknown.
        fenced: whether it is registered but fenced (KIP-1073).
    """

    id: int
    host: str
    port: int
    rack: str | None
    fenced: bool


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """A cluster.

    Attributes:
        cluster_id: None if brokers do not report it (before 0.10.1).
        controller: id of the controller, or of a broker that forwards to it; None without one.
        brokers: brokers in the order of their ids; controllers if the client uses `bootstrap.controllers`.
        authorized_operations: operations that this client is allowed on the cluster; None unless requested.
    """

    cluster_id: str | None
    controller: int | None
    brokers: tuple[BrokerDescription, ...]
    authorized_operations: tuple[AclOperation, ...] | None = None


@dataclass(frozen=True, slots=True)
class FeatureMetadata:
    """Features of a cluster (KIP-584).

    Attributes:
        finalized: lowest and highest finalized level, by feature.
        epoch: epoch of the finalized levels; None if the broker does not report it.
        supported: lowest and highest level that the responding broker supports.
    """

    finalized: Mapping[str, tuple[int, int]]
    epoch: int | None
    supported: Mapping[str, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class FeatureUpdate:
    """A new level of a feature.

    Attributes:
        level: 0 disables it.
        upgrade_type: whether a downgrade is allowed.
    """

    level: int
    upgrade_type: UpgradeType = UpgradeType.UPGRADE


@dataclass(frozen=True, slots=True)
class QuorumReplica:
    """A node of the metadata quorum.

    Attributes:
        id: id of the node.
        directory_id: id of its log directory; None if the broker does not report it (before 3.9).
        log_end_offset: end offset of its log.
        last_fetch_timestamp: time of its last fetch, milliseconds since 1970; None if unknown.
        last_caught_up_timestamp: last time it had all records, milliseconds since 1970; None if unknown.
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
        host: its host.
        port: its port.
    """

    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class QuorumInfo:
    """The metadata quorum (KIP-595).

    Attributes:
        leader: id of the leader.
        leader_epoch: increases with each election.
        high_watermark: offset that a majority has.
        voters: the voters.
        observers: the observers.
        nodes: listeners of controllers, by id; empty if the broker does not report it (before 3.9).
    """

    leader: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
    nodes: Mapping[int, tuple[RaftEndpoint, ...]]


@dataclass(frozen=True, slots=True)
class PartitionReassignment:
    """Replicas that are being moved (KIP-455).

    Attributes:
        replicas: all replicas, old and new.
        adding: replicas being added.
        removing: replicas being removed.
    """

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ReplicaInfo:
    """A replica on a disk.

    Attributes:
        partition: the partition.
        size: its size in bytes.
        offset_lag: number of offsets it is behind.
        future: whether it is being copied here from another disk.
    """

    partition: TopicPartition
    size: int
    offset_lag: int
    future: bool


@dataclass(frozen=True, slots=True)
class LogDir:
    """A disk of a broker.

    Attributes:
        path: its path.
        replicas: replicas on the disk; empty if unknown.
        error: the reason why they are unknown, None if they are known.
        total_bytes: size of the disk; None if the broker does not report it (before 3.3).
        usable_bytes: free space; None if the broker does not report it.
        cordoned: whether it accepts no new replicas (KIP-1066).
    """

    path: str
    replicas: tuple[ReplicaInfo, ...]
    error: Exception | None
    total_bytes: int | None
    usable_bytes: int | None
    cordoned: bool


@dataclass(frozen=True, slots=True)
class Replica:
    """A replica.

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
    """The entity of a quota (KIP-546). A part named None is the default, for entities without a quota of their own.

    Attributes:
        parts: type and name: `{"user": "alice"}`, `{"user": "alice", "client-id": None}`, `{"ip": "10.0.0.1"}`.
    """

    parts: Mapping[str, str | None]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", dict(sorted(self.parts.items())))

    def __hash__(self) -> int:
        return hash(tuple(self.parts.items()))
