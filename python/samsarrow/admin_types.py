"""Types for topics, settings, groups and transactions in `Admin`."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from samsarrow.access import AclOperation
from samsarrow.types import OffsetAndMetadata, TopicPartition


class ConfigResourceType(enum.IntEnum):
    """The type of a resource with settings."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(enum.IntEnum):
    """The origin of a setting's value."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class ConfigType(enum.IntEnum):
    """The type of a setting's values; UNKNOWN from brokers before Kafka 2.6."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class OffsetSpec(enum.IntEnum):
    """The offset of a partition to look up, if not by time.

    Attributes:
        LATEST: the end; with `read_committed` the first record of the first open transaction.
        EARLIEST: the first available offset.
        MAX_TIMESTAMP: the offset of the record with the largest timestamp (KIP-734, Kafka 3.0).
        EARLIEST_LOCAL: the first offset on the leader's own disk (KIP-405, Kafka 3.5).
        LATEST_TIERED: the last offset in tiered storage (KIP-1005, Kafka 3.9).
        EARLIEST_PENDING_UPLOAD: the first offset that is not in tiered storage yet (KIP-1023, Kafka 4.2).
    """

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """A topic that was created, or validated.

    Attributes:
        name: name of the topic.
        topic_id: None if brokers do not support topic ids, and if the topic was only validated.
        partitions: number of partitions; None if the broker does not report it (before 2.4).
        replication_factor: None if the broker does not report it.
    """

    name: str
    topic_id: UUID | None
    partitions: int | None
    replication_factor: int | None


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """The new number of partitions of a topic.

    Attributes:
        count: total number of partitions, including existing ones.
        assignment: the brokers of each new partition; by default the controller decides.
    """

    count: int
    assignment: tuple[tuple[int, ...], ...] | None = None


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """A partition.

    Attributes:
        partition: number of the partition.
        leader: id of its leader; None without a leader.
        leader_epoch: increases with each election; None if the broker does not report it (before 2.1).
        replicas: brokers with a replica, the preferred leader first.
        isr: brokers that are in sync.
        offline: brokers that cannot be reached.
        eligible: brokers that may lead although not in sync (KIP-966); None if the broker does not report it.
        last_eligible: brokers that were last able to lead; None if the broker does not report it.
    """

    partition: int
    leader: int | None
    leader_epoch: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]
    eligible: tuple[int, ...] | None
    last_eligible: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic.

    Attributes:
        name: name of the topic.
        topic_id: None if brokers do not support topic ids.
        internal: whether it is internal to Kafka.
        partitions: partitions in the order of their numbers.
        authorized_operations: operations that this client is allowed on the topic; None unless requested.
    """

    name: str
    topic_id: UUID | None
    internal: bool
    partitions: tuple[PartitionDescription, ...]
    authorized_operations: tuple[AclOperation, ...] | None = None


@dataclass(frozen=True, slots=True)
class ConfigResource:
    """A resource with settings.

    Attributes:
        type: type of the resource.
        name: name of a topic, group or client metrics subscription; a broker's id as text, empty for all brokers.
    """

    type: ConfigResourceType
    name: str

    @classmethod
    def topic(cls, name: str) -> ConfigResource:
        """The settings of a topic."""
        return cls(ConfigResourceType.TOPIC, name)

    @classmethod
    def broker(cls, broker: int | None = None) -> ConfigResource:
        """The settings of a broker, by default the settings shared by all brokers."""
        return cls(ConfigResourceType.BROKER, "" if broker is None else str(broker))

    @classmethod
    def logger(cls, broker: int) -> ConfigResource:
        """The levels of a broker's loggers (KIP-412)."""
        return cls(ConfigResourceType.BROKER_LOGGER, str(broker))

    @classmethod
    def group(cls, name: str) -> ConfigResource:
        """The settings of a group (KIP-848)."""
        return cls(ConfigResourceType.GROUP, name)

    @classmethod
    def client_metrics(cls, name: str) -> ConfigResource:
        """A client metrics subscription (KIP-714)."""
        return cls(ConfigResourceType.CLIENT_METRICS, name)


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    """A source that was searched for a value.

    Attributes:
        name: name of the setting in that source.
        value: None without a value, and for a secret.
        source: the source.
    """

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """A setting.

    Attributes:
        name: name of the setting.
        value: None without a value, and for a secret.
        source: origin of the value.
        read_only: whether it cannot change while the broker runs.
        sensitive: whether it is secret.
        type: type of its values.
        documentation: its documentation, if requested.
        synonyms: the sources that were searched for values, if requested; the first one with a value is used.
    """

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool
    sensitive: bool
    type: ConfigType
    documentation: str | None
    synonyms: tuple[ConfigSynonym, ...]


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """Changes to the settings of one resource (KIP-339).

    Attributes:
        set: new values.
        delete: settings to reset to their default.
        append: values to add to lists, such as `{"cleanup.policy": "compact"}`.
        subtract: values to remove from lists.
    """

    set: Mapping[str, str] = field(default_factory=dict)
    delete: tuple[str, ...] = ()
    append: Mapping[str, str] = field(default_factory=dict)
    subtract: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """The lag of a group in a partition.

    Attributes:
        partition: the partition.
        committed: the group's committed offset.
        end: end of the partition; None if unknown.
        error: the reason why the end is unknown, None if it is known.
    """

    partition: TopicPartition
    committed: OffsetAndMetadata
    end: int | None
    error: Exception | None

    @property
    def lag(self) -> int | None:
        """The number of offsets from the committed offset to the end, 0 or more; None if the end is unknown."""
        return None if self.end is None else max(0, self.end - self.committed.offset)


@dataclass(frozen=True, slots=True)
class GroupLag:
    """The lag of a group.

    Attributes:
        group: name of the group.
        partitions: partitions with a committed offset.
    """

    group: str
    partitions: tuple[PartitionLag, ...]

    @property
    def total(self) -> int:
        """The sum over the partitions with a known end."""
        return sum(partition.lag or 0 for partition in self.partitions)


@dataclass(frozen=True, slots=True)
class RemovedMember:
    """A member to remove from a group, identified by one of its two ids.

    Attributes:
        member_id: id of the member.
        instance_id: id of a static member (KIP-345).
    """

    member_id: str = ""
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class TransactionListing:
    """A transactional id.

    Attributes:
        transactional_id: the id.
        producer_id: id of its producer.
        state: `Empty`, `Ongoing` and so on.
    """

    transactional_id: str
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """A transactional id and its transaction.

    Attributes:
        coordinator: id of its coordinator.
        state: `Empty`, `Ongoing` and so on.
        producer_id: id of its producer.
        producer_epoch: epoch of the producer.
        timeout_ms: maximum duration of a transaction, milliseconds.
        start_timestamp: start of the transaction, milliseconds since 1970; None if none is open.
        partitions: partitions of the transaction.
    """

    coordinator: int
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_timestamp: int | None
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class ProducerState:
    """A producer as seen by a partition that it writes to.

    Attributes:
        producer_id: id of the producer.
        producer_epoch: epoch of the producer.
        last_sequence: sequence of its last record, -1 without one.
        last_timestamp: timestamp of its last record, milliseconds since 1970, -1 without one.
        coordinator_epoch: epoch of the coordinator that ended its last transaction; None without one.
        transaction_start: first offset of its open transaction; None without one.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int | None
    transaction_start: int | None


@dataclass(frozen=True, slots=True)
class HangingTransaction:
    """A hanging transaction: it blocks readers of a partition, and no coordinator will end it (KIP-664).

    Attributes:
        partition: the partition.
        producer: its producer, as seen by the partition.
        transactional_id: None if no coordinator knows it any more.
    """

    partition: TopicPartition
    producer: ProducerState
    transactional_id: str | None


@dataclass(frozen=True, slots=True)
class FencedProducer:
    """The new producer id and epoch of a transactional id whose producers were fenced.

    Attributes:
        producer_id: the producer id.
        producer_epoch: the new epoch.
    """

    producer_id: int
    producer_epoch: int
