"""Types of arguments and results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from operator import index
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from uuid import UUID

from samsarrow._html import HtmlRepr
from samsarrow.access import AclOperation
from samsarrow.exceptions import ConfigurationError

if TYPE_CHECKING:
    from samsarrow.exceptions import KafkaError

INT32 = 2**31 - 1
INT64 = 2**63 - 1
# Maximum seconds of a timeout, 31 years. The Rust client does not represent every float.
_LONGEST = 1e9

Seconds: TypeAlias = float | timedelta
"""A time span: seconds as a number, or a `timedelta`."""

Setting: TypeAlias = str | float | timedelta | Sequence[str]
"""The value of a setting of a topic or another resource: text, a number, a bool, or a list of texts.

Settings in milliseconds, whose names end in `.ms`, may also be a `timedelta`.
"""

Header: TypeAlias = tuple[str, bytes | None]
"""One record header. Names may repeat and the order is kept."""


class TopicPartition(NamedTuple):
    """One partition of a topic."""

    topic: str
    partition: int


Partitions: TypeAlias = TopicPartition | Iterable[TopicPartition]
"""A partition, or an iterable of partitions. Methods take any number of these as positional arguments."""


class OffsetAndMetadata(NamedTuple):
    """A committed offset.

    Attributes:
        offset: the next offset to read.
        metadata: any text that is stored with the offset.
        leader_epoch: leader epoch of the last record that was read, if known (KIP-320).
    """

    offset: int
    metadata: str = ""
    leader_epoch: int | None = None


class OffsetAndTimestamp(NamedTuple):
    """An offset found by time.

    Attributes:
        offset: offset of the first record at or after the time.
        timestamp: timestamp of this record, in milliseconds since 1970.
        leader_epoch: leader epoch of this record, if the broker sends it.
    """

    offset: int
    timestamp: int
    leader_epoch: int | None = None

    @property
    def datetime(self) -> datetime:
        """The timestamp as a `datetime` in UTC."""
        return to_datetime(self.timestamp)


@dataclass(frozen=True, slots=True)
class Latency(HtmlRepr):
    """Statistics of durations, in seconds. Percentiles are rounded up by up to an eighth.

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
        key: bytes, or an object of the type of `key_format`. None and empty keys are different.
        value: bytes, or an object of the type of `value_format`, such as a `dict` for a record. None is a tombstone.
        headers: headers in order, in which names may repeat; empty unless the consumer has `include_headers`.
        leader_epoch: leader epoch of the record's batch; None unless the consumer has `include_leader_epoch`.
        delivery_count: number of deliveries of the record to its share group, including this one; None unless a share
            consumer has returned it.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int | None
    timestamp_type: int | None
    key: Any
    value: Any
    headers: list[Header]
    leader_epoch: int | None = None
    delivery_count: int | None = None

    @property
    def datetime(self) -> datetime | None:
        """The timestamp as a `datetime` in UTC, None if the record has no timestamp."""
        return None if self.timestamp is None else to_datetime(self.timestamp)


class RecordMetadata(NamedTuple):
    """The position of a written record.

    Attributes:
        topic: topic of the record.
        partition: partition of the record.
        offset: offset in the partition; -1 if the broker does not report it. This is so with `acks=0`, and for a record
            that was resent after its acknowledgement was lost, if the broker no longer remembers the offset.
        timestamp: milliseconds since 1970; the broker's time if the topic uses `LogAppendTime`.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int | None

    @property
    def datetime(self) -> datetime | None:
        """The timestamp as a `datetime` in UTC, None if the record has no timestamp."""
        return None if self.timestamp is None else to_datetime(self.timestamp)


@dataclass(frozen=True, slots=True)
class PartitionReceipt:
    """Consecutive rows of a `send_batch` that were written to one partition.

    Attributes:
        topic: topic of the rows.
        partition: partition of the rows.
        base_offset: offset of the first row; -1 if the broker does not report it.
        count: number of rows.
    """

    topic: str
    partition: int
    base_offset: int
    count: int


@dataclass(frozen=True, slots=True)
class PartOutcome:
    """Result of rows of a `send_batch` that were sent to a broker in one batch.

    Attributes:
        topic: topic of the rows.
        partition: partition of the rows.
        base_offset: offset of the first row, -1 if the broker does not report it; None if the rows were not delivered.
        count: number of rows.
        rows: range of row numbers in the call that contains these rows: the number of the first row, and the number
            after the last row. If the length of the range is more than `count`, it also contains rows of other
            partitions.
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
        num_partitions: number of partitions; -1 for the broker's default.
        replication_factor: replication factor; -1 for the broker's default.
        configs: settings of the topic, such as `{"cleanup.policy": "compact", "retention.ms": timedelta(days=1)}`.
        assignment: the broker ids of each partition's replicas, the preferred leader first. It determines the number of
            partitions and the replication factor.
    """

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, Setting] = field(default_factory=dict)
    assignment: Sequence[Sequence[int]] = ()


class TopicListing(NamedTuple):
    """An existing topic.

    Attributes:
        name: name of the topic.
        topic_id: id of the topic; None if brokers do not support topic ids.
        partitions: number of partitions.
        internal: whether the topic is internal to Kafka.
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
        state: state of the group, such as `Stable` or `Empty`; None from brokers before 2.6.
        type: `classic`, `consumer` (KIP-848), `share` or `streams`; None from brokers before 3.8.
    """

    group: str
    protocol_type: str
    state: str | None
    type: str | None


@dataclass(frozen=True, slots=True)
class MemberDescription(HtmlRepr):
    """A member of a group.

    Attributes:
        member_id: id of the member.
        instance_id: id of a static member (KIP-345).
        client_id: client id of the member.
        host: host of the member.
        assignment: assigned partitions.
        target: partitions that the member will be assigned; None in classic groups.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]
    target: tuple[TopicPartition, ...] | None


@dataclass(frozen=True, slots=True)
class GroupDescription(HtmlRepr):
    """A group as described by its coordinator.

    Attributes:
        group: name of the group.
        type: `classic`, or `consumer` if the coordinator assigns partitions (KIP-848).
        state: state of the group, such as `Stable` or `Empty`.
        protocol_type: `consumer` for consumers, empty for a group that has only offsets.
        assignor: name of the assignor; empty if the group has no members.
        members: members in the order of their ids.
        authorized_operations: operations on the group that this client may perform; None unless requested.
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
    """Converts a duration to seconds.

    Raises:
        TypeError: the duration is neither a number nor a timedelta.
    """
    if time is None:
        return None
    if isinstance(time, float | int):
        return min(time, _LONGEST)
    if isinstance(time, timedelta):
        return min(time.total_seconds(), _LONGEST)
    if isinstance(time, str) or not hasattr(time, "__float__"):
        raise TypeError(f"a timeout is a number of seconds or a timedelta: got {time!r}")
    return min(float(time), _LONGEST)


def to_count(name: str, count: int | None) -> int | None:
    """Returns a maximum number of rows, None for no maximum.

    Raises:
        TypeError: the argument is not an integer.
        ConfigurationError: the number is less than 1.
    """
    if count is None:
        return None
    try:
        number = index(count)
    except TypeError:
        raise TypeError(f"{name} must be an int, not {type(count).__name__}") from None
    if number < 1:
        # Imported here because `exceptions` refers to the types of this module.
        from samsarrow.exceptions import ConfigurationError

        raise ConfigurationError(f"{name} must be at least 1, not {number}")
    # No batch has more rows, and the Rust client takes 64 bits.
    return min(number, INT64)


def check_topic(topic: str) -> None:
    """Rejects an argument that is not a topic name.

    The error does not show a value of another type: a configuration that is passed in place of a topic has passwords,
    and a table has rows.

    Raises:
        ConfigurationError: the argument is empty or not text.
    """
    if not isinstance(topic, str) or not topic:
        # Imported here because `exceptions` refers to the types of this module.
        from samsarrow.exceptions import ConfigurationError

        kind = "an empty text" if isinstance(topic, str) else type(topic).__name__
        raise ConfigurationError(f"topic is the name of one topic, not {kind}")


def to_milliseconds(time: int | datetime) -> int:
    """Converts a time to milliseconds since 1970.

    A `datetime` without a time zone is local time, as everywhere in Python.

    Raises:
        ConfigurationError: the time is out of range.
        TypeError: the time is neither an integer nor a `datetime`.
    """
    if isinstance(time, datetime):
        try:
            return round(time.timestamp() * 1000)
        except (OverflowError, ValueError, OSError) as error:
            raise ConfigurationError(f"time {time} cannot be converted to milliseconds since 1970: {error}") from error
    try:
        milliseconds = index(time)
    except TypeError:
        raise TypeError(f"a time is an int, in milliseconds since 1970, or a datetime: got {time!r}") from None
    return checked(milliseconds, "a time in milliseconds since 1970", -INT64 - 1, INT64)


def checked(number: int, name: str, minimum: int, maximum: int) -> int:
    """Returns the number.

    Raises:
        ConfigurationError: the number is out of range.
    """
    if minimum <= number <= maximum:
        return number
    raise ConfigurationError(f"{name} must be from {minimum} to {maximum}, not {number}")


def to_setting(name: str, value: Setting) -> str:
    """Converts the value of a setting to text.

    Raises:
        TypeError: the value has another type, or is a `timedelta` for a setting that is not in milliseconds.
        ConfigurationError: the duration is not a multiple of a millisecond.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, timedelta) and name.endswith(".ms"):
        milliseconds, rest = divmod(value, timedelta(milliseconds=1))
        if rest:
            raise ConfigurationError(f"setting {name} must be a multiple of a millisecond, not {value}")
        return str(milliseconds)
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        return ",".join(value)
    if isinstance(value, float):
        return str(value)
    try:
        return str(index(value))  # type: ignore[arg-type]
    except TypeError:
        kind = type(value).__name__
        raise TypeError(
            f"setting {name} must be text, a number, true or false, or a list of texts, not {kind}"
        ) from None


def to_integer(value: int, name: str, minimum: int, maximum: int) -> int:
    """Converts an argument to an integer.

    Raises:
        ConfigurationError: the number is out of range.
        TypeError: the argument is not an integer.
    """
    try:
        number = index(value)
    except TypeError:
        raise TypeError(f"{name} must be int, not {type(value).__name__}") from None
    # `True` is not an id or a version, although `bool` is a subclass of `int`.
    if isinstance(value, bool):
        raise TypeError(f"{name} must be int, not bool")
    return checked(number, name, minimum, maximum)


def to_datetime(milliseconds: int) -> datetime:
    """Converts milliseconds since 1970 to a `datetime` in UTC.

    Raises:
        OverflowError: the time is outside the years 1 to 9999, which `datetime` represents.
    """
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)


def to_pairs(arguments: Iterable[Partitions]) -> list[tuple[str, int]]:
    """Converts partitions, which may be passed alone or in iterables, to tuples of topic and number.

    Raises:
        TypeError: an argument is neither a partition nor an iterable of partitions.
    """
    pairs = []
    for argument in arguments:
        # A partition is an iterable too: a tuple of a topic and a number.
        if isinstance(argument, tuple) and len(argument) == 2 and not isinstance(argument[0], tuple):
            pairs.append(to_pair(argument))
        elif isinstance(argument, Iterable) and not isinstance(argument, str | bytes):
            pairs.extend(to_pair(tp) for tp in argument)
        else:
            raise TypeError(f"expected a TopicPartition or an iterable of them, got {argument!r}")
    return pairs


def to_pair(partition: TopicPartition) -> tuple[str, int]:
    """Converts a partition to a tuple of topic and number.

    Raises:
        ConfigurationError: the number is out of range.
        TypeError: the argument is not a `TopicPartition` or another tuple of text and an integer.
    """
    if not isinstance(partition, tuple) or len(partition) != 2:
        raise TypeError(f"expected a TopicPartition, got {partition!r}")
    topic, number = partition
    if not isinstance(topic, str):
        raise TypeError(f"the topic of a TopicPartition is a str: got {partition!r}")
    try:
        return topic, checked(index(number), f"the partition of topic {topic}", 0, INT32)
    except TypeError:
        raise TypeError(f"the partition of a TopicPartition is an int: got {partition!r}") from None


def to_committed(offset: int | OffsetAndMetadata) -> tuple[int, str, int | None]:
    """Converts an offset to a tuple of offset, metadata and leader epoch.

    Raises:
        ConfigurationError: the offset or the leader epoch is out of range.
        TypeError: the argument is neither an integer nor an `OffsetAndMetadata` of integers and text.
    """
    number, metadata, epoch = offset if isinstance(offset, tuple) and len(offset) == 3 else (offset, "", None)
    try:
        if isinstance(metadata, str):
            position = index(number)
            # Other negative offsets are rejected later, with the name of the partition.
            if not -INT64 <= position < 0:
                checked(position, "an offset", 0, INT64)
            return position, metadata, None if epoch is None else checked(index(epoch), "a leader epoch", -1, INT32)
    except TypeError:
        pass
    raise TypeError(f"expected an offset or OffsetAndMetadata, got {offset!r}")
