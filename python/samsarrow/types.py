"""Types of arguments and results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from operator import index
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from uuid import UUID

from samsarrow.access import AclOperation

if TYPE_CHECKING:
    from samsarrow.exceptions import KafkaError

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
        offset: the next offset to read.
        metadata: any text, stored with the offset.
        leader_epoch: leader epoch of the last record that was read, if known (KIP-320).
    """

    offset: int
    metadata: str = ""
    leader_epoch: int | None = None


class OffsetAndTimestamp(NamedTuple):
    """An offset found by time.

    Attributes:
        offset: offset of the first record at or after that time.
        timestamp: timestamp of that record, in milliseconds since 1970.
        leader_epoch: leader epoch of that record, if the broker sends it.
    """

    offset: int
    timestamp: int
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class Latency:
    """Durations in seconds. Percentiles are rounded up, by up to an eighth.

    Attributes:
        p50: median duration.
        p95: 95th percentile.
        p99: 99th percentile.
        max: longest duration.
        count: number of durations.
        sum: sum of all durations.
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
        topic: topic of the record.
        partition: partition of the record.
        offset: offset of the record.
        timestamp: milliseconds since 1970, None if the record has no timestamp.
        timestamp_type: 0 for the producer's time, 1 for the broker's, None for a record of message format v0.
        key: bytes, or the type of `key_format`. None differs from empty.
        value: bytes, or the type of `value_format`, such as a `dict` for a record. None is a tombstone.
        headers: headers in order, names may repeat; empty unless the consumer has `include_headers`.
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
    """The position of a written record.

    Attributes:
        topic: topic of the record.
        partition: partition of the record.
        offset: offset in the partition; -1 if the broker does not report it: with `acks=0`, and for a record that was
            resent after a lost acknowledgement and whose offset the broker no longer remembers.
        timestamp: milliseconds since 1970, the broker's time if the topic uses it.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int | None


@dataclass(frozen=True, slots=True)
class PartitionReceipt:
    """Consecutive rows of a `send_batch` in one partition.

    Attributes:
        partition: partition of the rows.
        base_offset: offset of the first row; -1 if the broker does not report it.
        count: number of rows.
    """

    partition: int
    base_offset: int
    count: int


@dataclass(frozen=True, slots=True)
class PartOutcome:
    """Result of rows of a `send_batch` that went to a broker together.

    Attributes:
        topic: topic of the rows.
        partition: partition of the rows.
        base_offset: offset of the first row, -1 if the broker does not report it; None if the rows were not delivered.
        count: number of rows.
        rows: range of row numbers in the call that contains these rows: the first, and the one after the last. It
            contains only these rows if its length is `count`; rows of several partitions may share a range.
        error: the reason why the rows were not delivered, None if they were.
    """

    topic: str
    partition: int
    base_offset: int | None
    count: int
    rows: tuple[int, int]
    error: KafkaError | None


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create.

    Attributes:
        name: name of the topic.
        num_partitions: -1 for the broker's default.
        replication_factor: -1 for the broker's default.
        configs: settings of the topic, such as `{"cleanup.policy": "compact"}`.
        assignment: the brokers of each partition, the preferred leader first; determines both numbers above.
    """

    name: str
    num_partitions: int = 1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)
    assignment: Sequence[Sequence[int]] = ()


class TopicListing(NamedTuple):
    """An existing topic.

    Attributes:
        name: name of the topic.
        topic_id: None if brokers do not support topic ids.
        partitions: number of partitions.
        internal: whether it is internal to Kafka.
    """

    name: str
    topic_id: UUID | None
    partitions: int
    internal: bool


class Node(NamedTuple):
    """A broker.

    Attributes:
        id: id of the broker.
        host: host for clients.
        port: port for clients.
    """

    id: int
    host: str
    port: int


class GroupListing(NamedTuple):
    """An existing group.

    Attributes:
        group: name of the group.
        protocol_type: `consumer` for consumers, empty for a group that has only offsets.
        state: `Stable`, `Empty` and so on; None if the broker does not report it (before 2.6).
        type: `classic`, `consumer` (KIP-848), `share`, `streams`; None if the broker does not report it (before 3.8).
    """

    group: str
    protocol_type: str
    state: str | None
    type: str | None


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A member of a group.

    Attributes:
        member_id: id of the member.
        instance_id: id of a static member (KIP-345).
        client_id: client id of the member.
        host: host of the member.
        assignment: assigned partitions.
        target: partitions that the member will get; None in classic groups.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]
    target: tuple[TopicPartition, ...] | None


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group as described by its coordinator.

    Attributes:
        group: name of the group.
        type: `classic`, or `consumer` if the coordinator assigns partitions (KIP-848).
        state: `Stable`, `Empty` and so on.
        protocol_type: `consumer` for consumers, empty for a group that has only offsets.
        assignor: name of the assignor; empty without members.
        members: members in the order of their ids.
        authorized_operations: operations that this client is allowed on the group; None unless requested.
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
        """True if the group has members, or will have members after a rebalance that has started."""
        return self.state not in ("Empty", "Dead")


def to_seconds(time: Seconds | None) -> float | None:
    """Returns seconds as a number.

    Raises:
        TypeError: it is neither a number nor a timedelta.
    """
    if time is None or isinstance(time, float | int):
        return time
    if isinstance(time, timedelta):
        return time.total_seconds()
    if isinstance(time, str) or not hasattr(time, "__float__"):
        raise TypeError(f"a timeout is a number of seconds or a timedelta: got {time!r}")
    return float(time)


def to_milliseconds(time: int | datetime) -> int:
    """Returns milliseconds since 1970. A `datetime` without a time zone is local time, as everywhere in Python."""
    if isinstance(time, datetime):
        return round(time.timestamp() * 1000)
    try:
        if -(2**63) <= (milliseconds := index(time)) < 2**63:
            return milliseconds
        raise OverflowError(f"a time in milliseconds since 1970 is out of range: {time}")
    except TypeError:
        raise TypeError(f"a time is an int, in milliseconds since 1970, or a datetime: got {time!r}") from None


def to_pair(partition: TopicPartition) -> tuple[str, int]:
    """Returns topic and partition.

    Raises:
        TypeError: it is not a `TopicPartition` or another tuple of text and an integer.
    """
    if not isinstance(partition, tuple) or len(partition) != 2:
        raise TypeError(f"expected a TopicPartition, got {partition!r}")
    topic, number = partition
    if not isinstance(topic, str):
        raise TypeError(f"the topic of a TopicPartition is a str: got {partition!r}")
    try:
        return topic, index(number)
    except TypeError:
        raise TypeError(f"the partition of a TopicPartition is an int: got {partition!r}") from None


def to_committed(offset: int | OffsetAndMetadata) -> tuple[int, str, int | None]:
    """Returns offset, metadata and leader epoch.

    Raises:
        TypeError: it is neither an integer nor an `OffsetAndMetadata` of integers and text.
    """
    number, metadata, epoch = offset if isinstance(offset, tuple) and len(offset) == 3 else (offset, "", None)
    try:
        if isinstance(metadata, str):
            return index(number), metadata, None if epoch is None else index(epoch)
    except TypeError:
        pass
    raise TypeError(f"expected an offset or OffsetAndMetadata, got {offset!r}")
