"""Types for topics, settings, groups and transactions in `Admin`."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from samsarrow._html import HtmlRepr
from samsarrow.access import AclOperation
from samsarrow.types import OffsetAndMetadata, Setting, TopicPartition


class ConfigResourceType(enum.IntEnum):
    """The type of a resource that has settings."""

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
    """The type of a setting's values; `UNKNOWN` from brokers before Kafka 2.6, which do not report the type."""

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
    """A kind of offset that can be looked up in a partition, instead of the offset for a time.

    Attributes:
        LATEST: the high watermark; with `read_committed` the last stable offset, which is at the first open
            transaction.
        EARLIEST: the log start offset.
        MAX_TIMESTAMP: the offset of the record with the largest timestamp (KIP-734, Kafka 3.0).
        EARLIEST_LOCAL: the first offset on the leader's own disk (KIP-405, Kafka 3.5).
        LATEST_TIERED: the last offset that was copied to tiered storage (KIP-1005, Kafka 3.9).
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
    """A topic that was created, or that was only validated.

    Attributes:
        name: name of the topic.
        topic_id: id of the topic; None if it was only validated, or if the brokers do not support topic ids.
        partitions: number of partitions; None from brokers before 2.4.
        replication_factor: replication factor; None from brokers before 2.4.
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
        assignment: the broker ids of the replicas of each new partition; by default the controller chooses the brokers.
    """

    count: int
    assignment: tuple[tuple[int, ...], ...] | None = None


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """A partition.

    Attributes:
        partition: number of the partition.
        leader: broker id of the leader; None without a leader.
        leader_epoch: number that increases with each leader election; None from brokers before 2.1.
        replicas: brokers with a replica, the preferred leader first.
        isr: brokers whose replicas are in sync.
        offline: brokers whose replicas are offline.
        eligible: brokers that may become the leader although their replicas are not in sync (KIP-966); None if the
            broker does not report them.
        last_eligible: last known eligible leaders (KIP-966); None if the
            broker does not report them.
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
class TopicDescription(HtmlRepr):
    """A topic.

    Attributes:
        name: name of the topic.
        topic_id: id of the topic; None if brokers do not support topic ids.
        internal: whether the topic is internal to Kafka.
        partitions: partitions in the order of their numbers.
        authorized_operations: operations on the topic that this client may perform; None unless requested.
    """

    name: str
    topic_id: UUID | None
    internal: bool
    partitions: tuple[PartitionDescription, ...]
    authorized_operations: tuple[AclOperation, ...] | None = None


@dataclass(frozen=True, slots=True)
class ConfigResource:
    """A resource that has settings: a topic, a broker, its loggers, a group or a client metrics subscription.

    Attributes:
        type: type of the resource.
        name: name of a topic, group or client metrics subscription; a broker's id as text, empty for all brokers.
    """

    type: ConfigResourceType
    name: str

    @classmethod
    def topic(cls, name: str) -> ConfigResource:
        """Returns the resource with the settings of a topic."""
        return cls(ConfigResourceType.TOPIC, name)

    @classmethod
    def broker(cls, broker: int | None = None) -> ConfigResource:
        """Returns the resource with the settings of a broker, by default those shared by all brokers."""
        return cls(ConfigResourceType.BROKER, "" if broker is None else str(broker))

    @classmethod
    def logger(cls, broker: int) -> ConfigResource:
        """Returns the resource with the log levels of a broker's loggers (KIP-412)."""
        return cls(ConfigResourceType.BROKER_LOGGER, str(broker))

    @classmethod
    def group(cls, name: str) -> ConfigResource:
        """Returns the resource with the settings of a group (KIP-848)."""
        return cls(ConfigResourceType.GROUP, name)

    @classmethod
    def client_metrics(cls, name: str) -> ConfigResource:
        """Returns the resource with the settings of a client metrics subscription (KIP-714)."""
        return cls(ConfigResourceType.CLIENT_METRICS, name)


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    """A source in which a setting may have a value.

    Attributes:
        name: name of the setting in that source.
        value: value in that source; None if it has no value, and for a secret.
        source: kind of the source.
    """

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """A setting.

    Attributes:
        name: name of the setting.
        value: value in effect; None without a value, and for a secret.
        source: origin of the value.
        read_only: whether the setting cannot be changed while the broker runs.
        sensitive: whether the value is secret.
        type: type of the setting's values.
        documentation: documentation of the setting, if requested.
        synonyms: the sources of the setting in order of precedence, if requested. The first source with a value is in
            effect.
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

    set: Mapping[str, Setting] = field(default_factory=dict)
    delete: tuple[str, ...] = ()
    append: Mapping[str, Setting] = field(default_factory=dict)
    subtract: Mapping[str, Setting] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PartitionLag(HtmlRepr):
    """The lag of a group in a partition.

    Attributes:
        partition: the partition.
        committed: the group's committed offset.
        end: end of the partition; None if unknown.
        error: the reason why the end is unknown; None if the end is known.
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
class GroupLag(HtmlRepr):
    """The lag of a group.

    Attributes:
        group: name of the group.
        partitions: partitions with a committed offset.
    """

    group: str
    partitions: tuple[PartitionLag, ...]

    @property
    def total(self) -> int:
        """The sum of the lags of all partitions with a known end."""
        return sum(partition.lag or 0 for partition in self.partitions)


@dataclass(frozen=True, slots=True)
class RemovedMember:
    """A member to remove from a group, identified by its member id or by its instance id.

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
        producer_id: producer id of its current producer.
        state: state of the transactional id, such as `Empty` or `Ongoing`.
    """

    transactional_id: str
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """A transactional id and its transaction.

    Attributes:
        coordinator: broker id of its coordinator.
        state: state of the transactional id, such as `Empty` or `Ongoing`.
        producer_id: id of its producer.
        producer_epoch: epoch of the producer.
        timeout_ms: maximum duration of a transaction, milliseconds.
        start_timestamp: start of the transaction, milliseconds since 1970; None if no transaction is open.
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
    """The state of a producer in a partition that it has written to.

    Attributes:
        producer_id: id of the producer.
        producer_epoch: epoch of the producer.
        last_sequence: sequence number of its last record; -1 if the partition has no record of the producer.
        last_timestamp: timestamp of its last record, milliseconds since 1970; -1 if the partition has no record of the
            producer.
        coordinator_epoch: epoch of the coordinator that ended its last transaction; None if no transaction has ended.
        transaction_start: first offset of its open transaction; None if no transaction is open.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int | None
    transaction_start: int | None


@dataclass(frozen=True, slots=True)
class HangingTransaction:
    """A hanging transaction, which blocks readers of a partition and which no coordinator will end (KIP-664).

    Attributes:
        partition: the partition.
        producer: state of its producer in the partition.
        transactional_id: transactional id; None if no coordinator has it any more.
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
