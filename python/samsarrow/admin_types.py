"""Names for what `Admin` does to topics, settings, groups and transactions."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from samsarrow.access import AclOperation
from samsarrow.types import OffsetAndMetadata, TopicPartition


class ConfigResourceType(enum.IntEnum):
    """What has settings."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(enum.IntEnum):
    """Where the value of a setting is from."""

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
    """Which offset of a partition to look up, where it is not a time.

    Attributes:
        LATEST: the end; with `read_committed` the first record of the first open transaction.
        EARLIEST: the first that is still there.
        MAX_TIMESTAMP: of the record with the largest timestamp (KIP-734, Kafka 3.0).
        EARLIEST_LOCAL: the first on the leader's own disk (KIP-405, Kafka 3.5).
        LATEST_TIERED: the last in tiered storage (KIP-1005, Kafka 3.9).
        EARLIEST_PENDING_UPLOAD: the first that is not in tiered storage yet (KIP-1023, Kafka 4.2).
    """

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """A topic that was created, or could be.

    Attributes:
        name: of the topic.
        topic_id: None where brokers have none, and where it was only checked.
        partitions: how many; None where the broker does not report it (before 2.4).
        replication_factor: None where the broker does not report it.
    """

    name: str
    topic_id: UUID | None
    partitions: int | None
    replication_factor: int | None


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """How many partitions a topic is to have.

    Attributes:
        count: with those that it has.
        assignment: the brokers of each new partition; by default the controller decides.
    """

    count: int
    assignment: tuple[tuple[int, ...], ...] | None = None


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """A partition.

    Attributes:
        partition: its number.
        leader: the broker that leads it; None if none does.
        leader_epoch: rises with each election; None where the broker does not report it (before 2.1).
        replicas: the brokers that have it, the preferred leader first.
        isr: those in sync.
        offline: those that cannot be reached.
        eligible: those that may lead though not in sync (KIP-966); None where the broker does not report it.
        last_eligible: those that could lead last; None where the broker does not report it.
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
        name: of the topic.
        topic_id: None where brokers have none.
        internal: whether Kafka keeps it for itself.
        partitions: in the order of their numbers.
        authorized_operations: what this client may do with it; None unless asked for.
    """

    name: str
    topic_id: UUID | None
    internal: bool
    partitions: tuple[PartitionDescription, ...]
    authorized_operations: tuple[AclOperation, ...] | None = None


@dataclass(frozen=True, slots=True)
class ConfigResource:
    """What has settings.

    Attributes:
        type: of what kind.
        name: a topic, group or subscription to client metrics; of a broker its id as text, empty for all brokers.
    """

    type: ConfigResourceType
    name: str

    @classmethod
    def topic(cls, name: str) -> ConfigResource:
        """The settings of a topic."""
        return cls(ConfigResourceType.TOPIC, name)

    @classmethod
    def broker(cls, broker: int | None = None) -> ConfigResource:
        """The settings of a broker, by default those that all brokers share."""
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
        """A subscription to metrics of clients (KIP-714)."""
        return cls(ConfigResourceType.CLIENT_METRICS, name)


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    """Where a value was looked for.

    Attributes:
        name: of the setting there.
        value: None for none, and for what is secret.
        source: where.
    """

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """A setting.

    Attributes:
        name: of the setting.
        value: None for none, and for what is secret.
        source: where the value is from.
        read_only: whether it cannot change while the broker runs.
        sensitive: whether it is secret.
        type: of its values.
        documentation: what it is for, if that was asked for.
        synonyms: where values were looked for, if that was asked for; the first one counts.
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
    """Changes of the settings of one resource (KIP-339).

    Attributes:
        set: new values.
        delete: settings that get their default again.
        append: what is added to lists, such as `{"cleanup.policy": "compact"}`.
        subtract: what is taken out of lists.
    """

    set: Mapping[str, str] = field(default_factory=dict)
    delete: tuple[str, ...] = ()
    append: Mapping[str, str] = field(default_factory=dict)
    subtract: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """How far a group is behind in a partition.

    Attributes:
        partition: which.
        committed: what the group has committed.
        end: of the partition; None if it is not known.
        error: why it is not known, None if it is.
    """

    partition: TopicPartition
    committed: OffsetAndMetadata
    end: int | None
    error: Exception | None

    @property
    def lag(self) -> int | None:
        """How many offsets are between: never less than 0; None if the end is not known."""
        return None if self.end is None else max(0, self.end - self.committed.offset)


@dataclass(frozen=True, slots=True)
class GroupLag:
    """How far a group is behind.

    Attributes:
        group: its name.
        partitions: those that it has committed for.
    """

    group: str
    partitions: tuple[PartitionLag, ...]

    @property
    def total(self) -> int:
        """The sum over the partitions whose end is known."""
        return sum(one.lag or 0 for one in self.partitions)


@dataclass(frozen=True, slots=True)
class RemovedMember:
    """A member to put out of a group, by one of both.

    Attributes:
        member_id: its id.
        instance_id: what makes it a static member (KIP-345).
    """

    member_id: str = ""
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class TransactionListing:
    """A transactional id.

    Attributes:
        transactional_id: its name.
        producer_id: its producer.
        state: `Empty`, `Ongoing` and so on.
    """

    transactional_id: str
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """A transactional id and its transaction.

    Attributes:
        coordinator: the broker that coordinates it.
        state: `Empty`, `Ongoing` and so on.
        producer_id: its producer.
        producer_epoch: the producer's epoch.
        timeout_ms: how long a transaction may be open, milliseconds.
        start_timestamp: when it began, milliseconds since 1970; None if none is open.
        partitions: that are in it.
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
    """What a partition knows of a producer that writes to it.

    Attributes:
        producer_id: its id.
        producer_epoch: its epoch.
        last_sequence: of its last record, -1 for none.
        last_timestamp: of its last record, milliseconds since 1970, -1 for none.
        coordinator_epoch: of the coordinator that ended its last transaction; None for none.
        transaction_start: the offset at which its open transaction begins; None for none.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int | None
    transaction_start: int | None


@dataclass(frozen=True, slots=True)
class HangingTransaction:
    """A transaction that keeps a partition from being read, and that no coordinator will end (KIP-664).

    Attributes:
        partition: where.
        producer: whose, as the partition knows it.
        transactional_id: None if no coordinator knows it any more.
    """

    partition: TopicPartition
    producer: ProducerState
    transactional_id: str | None


@dataclass(frozen=True, slots=True)
class FencedProducer:
    """What a transactional id has after its producers were fenced.

    Attributes:
        producer_id: the id.
        producer_epoch: the new epoch.
    """

    producer_id: int
    producer_epoch: int
