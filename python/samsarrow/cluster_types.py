"""Names for what `Admin` does to a cluster: its brokers, features, quorum, replicas and quotas."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from samsarrow.access import AclOperation
from samsarrow.types import TopicPartition


class ElectionType(enum.IntEnum):
    """Who becomes the leader: the preferred replica, or any that is alive, which may lose records (KIP-460)."""

    PREFERRED = 0
    UNCLEAN = 1


class UpgradeType(enum.IntEnum):
    """How the level of a feature changes: up, down if nothing is lost, down whatever is lost (KIP-778)."""

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
        id: of the broker.
        host: where clients reach it.
        port: where clients reach it.
        rack: where it is; None for unknown.
        fenced: whether it is registered and may not serve (KIP-1073).
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
        cluster_id: None where brokers do not report it (before 0.10.1).
        controller: the id of the controller, or of a broker that leads to it; None if there is none.
        brokers: in the order of their ids; controllers where the client starts from `bootstrap.controllers`.
        authorized_operations: what this client may do with the cluster; None unless asked for.
    """

    cluster_id: str | None
    controller: int | None
    brokers: tuple[BrokerDescription, ...]
    authorized_operations: tuple[AclOperation, ...] | None = None


@dataclass(frozen=True, slots=True)
class FeatureMetadata:
    """Features of a cluster (KIP-584).

    Attributes:
        finalized: the lowest and the highest level that are in use, by feature.
        epoch: when that was decided, as a number that rises; None where the broker does not report it.
        supported: the lowest and the highest level that the broker that answered supports.
    """

    finalized: Mapping[str, tuple[int, int]]
    epoch: int | None
    supported: Mapping[str, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class FeatureUpdate:
    """A new level of a feature.

    Attributes:
        level: 0 switches it off.
        upgrade_type: whether it may go down.
    """

    level: int
    upgrade_type: UpgradeType = UpgradeType.UPGRADE


@dataclass(frozen=True, slots=True)
class QuorumReplica:
    """A member of the quorum that keeps the metadata.

    Attributes:
        id: of the node.
        directory_id: of its log; None where the broker does not report it (before 3.9).
        log_end_offset: the end of its log.
        last_fetch_timestamp: when it last asked, milliseconds since 1970; None for unknown.
        last_caught_up_timestamp: when it last had all, milliseconds since 1970; None for unknown.
    """

    id: int
    directory_id: UUID | None
    log_end_offset: int
    last_fetch_timestamp: int | None
    last_caught_up_timestamp: int | None


@dataclass(frozen=True, slots=True)
class RaftEndpoint:
    """Where a controller listens.

    Attributes:
        name: of the listener.
        host: where it is reached.
        port: where it is reached.
    """

    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class QuorumInfo:
    """Who keeps the metadata (KIP-595).

    Attributes:
        leader: its id.
        leader_epoch: rises with each election.
        high_watermark: what a majority has.
        voters: those that elect.
        observers: those that follow.
        nodes: where controllers listen, by id; empty where the broker does not report it (before 3.9).
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
        replicas: all, old and new.
        adding: those that are coming.
        removing: those that are going.
    """

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ReplicaInfo:
    """A replica on a disk.

    Attributes:
        partition: which.
        size: in bytes.
        offset_lag: how many offsets it is behind.
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
        path: where it is mounted.
        replicas: what is on it; empty if that is not known.
        error: why that is not known, None if it is.
        total_bytes: how large it is; None where the broker does not report it (before 3.3).
        usable_bytes: how much is free; None where the broker does not report it.
        cordoned: whether it takes no new replicas (KIP-1066).
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
        topic: of the partition.
        partition: its number.
        broker: the broker that has it.
    """

    topic: str
    partition: int
    broker: int


@dataclass(frozen=True, slots=True)
class QuotaEntity:
    """Who a quota is for (KIP-546). A part with the name None is the default, for all without a quota of their own.

    Attributes:
        parts: type and name: `{"user": "alice"}`, `{"user": "alice", "client-id": None}`, `{"ip": "10.0.0.1"}`.
    """

    parts: Mapping[str, str | None]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", dict(sorted(self.parts.items())))

    def __hash__(self) -> int:
        return hash(tuple(self.parts.items()))
