"""Names for the values that go in and come out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

from samsarrow.access import AclOperation

Seconds: TypeAlias = float | timedelta
"""A time span: seconds as a number, or a `timedelta`."""

Header: TypeAlias = tuple[str, bytes | None]
"""One record header. Names may repeat and the order is kept."""


class TopicPartition(NamedTuple):
    """One partition of a topic."""

    topic: str
    partition: int


class OffsetAndMetadata(NamedTuple):
    """A committed offset.

    Attributes:
        offset: the next one to read.
        metadata: any text, kept with it.
        leader_epoch: of the last record that was read, if known (KIP-320).
    """

    offset: int
    metadata: str = ""
    leader_epoch: int | None = None


class OffsetAndTimestamp(NamedTuple):
    """An offset that was looked up by time.

    Attributes:
        offset: of the first record at or after that time.
        timestamp: of that record, in milliseconds since 1970.
        leader_epoch: of that record, if the broker sends it.
    """

    offset: int
    timestamp: int
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class Latency:
    """How long something took, in seconds. Percentiles are an eighth too large at most.

    Attributes:
        p50: half took no longer.
        p95: 95 % took no longer.
        p99: 99 % took no longer.
        max: none took longer.
        count: how many there were.
        sum: all of them one after the other.
    """

    p50: float
    p95: float
    p99: float
    max: float
    count: int
    sum: float


class ConsumerRecord(NamedTuple):
    """One record as a row.

    Attributes:
        topic: where it is from.
        partition: where it is from.
        offset: where it is from.
        timestamp: milliseconds since 1970, None for a record without.
        timestamp_type: 0 for the producer's time, 1 for the broker's, None for a record of message format v0.
        key: bytes, or what `key_format` makes of them. None is not the same as empty.
        value: bytes, or what `value_format` makes of them: a `dict` of a record. None is a tombstone.
        headers: in their order, names may repeat; empty unless the consumer has `include_headers`.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int | None
    timestamp_type: int | None
    key: Any
    value: Any
    headers: list[Header]


class RecordMetadata(NamedTuple):
    """Where a record landed.

    Attributes:
        topic: written to.
        partition: written to.
        offset: in the partition; -1 where the broker does not report it: with `acks=0`, and for a record that was sent
            again because the answer was lost, when newer ones have made the broker forget where it is.
        timestamp: milliseconds since 1970, the broker's where the topic uses its time.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int | None


@dataclass(frozen=True, slots=True)
class PartitionReceipt:
    """Rows of a `send_batch` that landed one after the other in a partition.

    Attributes:
        partition: written to.
        base_offset: of the first of them; -1 where the broker does not report it.
        count: how many.
    """

    partition: int
    base_offset: int
    count: int


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create.

    Attributes:
        name: of the topic.
        num_partitions: -1 takes the broker's default.
        replication_factor: -1 takes the broker's default.
        configs: settings of the topic, such as `{"cleanup.policy": "compact"}`.
        assignment: the brokers of each partition, the preferred leader first; both numbers follow from it.
    """

    name: str
    num_partitions: int = 1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)
    assignment: Sequence[Sequence[int]] = ()


class TopicListing(NamedTuple):
    """A topic that exists.

    Attributes:
        name: of the topic.
        topic_id: None where brokers have none.
        partitions: how many.
        internal: whether Kafka keeps it for itself.
    """

    name: str
    topic_id: UUID | None
    partitions: int
    internal: bool


class Node(NamedTuple):
    """A broker.

    Attributes:
        id: of the broker.
        host: where clients reach it.
        port: where clients reach it.
    """

    id: int
    host: str
    port: int


class GroupListing(NamedTuple):
    """A group that exists.

    Attributes:
        group: its name.
        protocol_type: `consumer` for consumers, empty for a group that has only offsets.
        state: `Stable`, `Empty` and so on; None where the broker does not report it (before 2.6).
        type: `classic`, `consumer` (KIP-848), `share`, `streams`; None where the broker does not report it
            (before 3.8).
    """

    group: str
    protocol_type: str
    state: str | None
    type: str | None


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A member of a group.

    Attributes:
        member_id: its id.
        instance_id: what makes it a static member (KIP-345).
        client_id: what the client calls itself.
        host: where it is.
        assignment: the partitions that it has.
        target: the partitions that it is going to have; None in classic groups.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]
    target: tuple[TopicPartition, ...] | None


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """What a coordinator knows of a group.

    Attributes:
        group: its name.
        type: `classic`, or `consumer` for one whose coordinator assigns (KIP-848).
        state: `Stable`, `Empty` and so on.
        protocol_type: `consumer` for consumers, empty for a group that has only offsets.
        assignor: who assigns; empty without members.
        members: in the order of their ids.
        authorized_operations: what this client may do with it; None unless asked for.
    """

    group: str
    type: str
    state: str
    protocol_type: str
    assignor: str
    members: tuple[MemberDescription, ...]
    authorized_operations: tuple[AclOperation, ...] | None = None

    @property
    def active(self) -> bool:
        """Whether it has members, or is about to."""
        return self.state not in ("Empty", "Dead")


def to_seconds(time: Seconds | None) -> float | None:
    """Seconds as a number."""
    return time.total_seconds() if isinstance(time, timedelta) else time


def to_milliseconds(time: int | datetime) -> int:
    """Milliseconds since 1970. A `datetime` without a time zone is local time, as everywhere in Python."""
    return round(time.timestamp() * 1000) if isinstance(time, datetime) else time


def to_pair(partition: TopicPartition) -> tuple[str, int]:
    """Topic and partition, checked: text is a sequence too, and would be taken apart."""
    if not isinstance(partition, tuple) or len(partition) != 2:
        raise TypeError(f"expected a TopicPartition, got {partition!r}")
    return partition[0], partition[1]


def to_committed(offset: int | OffsetAndMetadata) -> tuple[int, str, int | None]:
    """Offset, metadata and leader epoch, checked."""
    if isinstance(offset, int):
        return offset, "", None
    if not isinstance(offset, tuple):
        raise TypeError(f"expected an offset or OffsetAndMetadata, got {offset!r}")
    return offset[0], offset[1], offset[2]
