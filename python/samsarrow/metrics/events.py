"""Rare client events."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from samsarrow.types import TopicPartition


@dataclass(frozen=True, slots=True)
class Connected:
    """A connection to a broker was established. Bootstrap servers are brokers -1, -2, and so on.

    Attributes:
        node: id of the broker.
        address: host and port.
    """

    node: int
    address: str


@dataclass(frozen=True, slots=True)
class Disconnected:
    """A connection to a broker was closed or lost.

    Attributes:
        node: id of the broker.
        address: host and port.
        reason: the reason, as text.
    """

    node: int
    address: str
    reason: str


@dataclass(frozen=True, slots=True)
class AuthenticationFailed:
    """The broker or the client rejected a login or a TLS handshake.

    Attributes:
        node: id of the broker.
        address: host and port.
        reason: the reason for the rejection, as text without secrets.
    """

    node: int
    address: str
    reason: str


@dataclass(frozen=True, slots=True)
class Throttled:
    """A broker throttled the client because of a quota (KIP-219).

    Attributes:
        node: id of the broker.
        address: host and port.
        seconds: duration of the throttling in seconds.
    """

    node: int
    address: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Rebalanced:
    """Partitions were assigned or revoked.

    Attributes:
        change: `assigned`, `revoked`, or `lost` if other members may already own the partitions.
        partitions: the partitions.
    """

    change: str
    partitions: tuple[TopicPartition, ...]

    @classmethod
    def of(cls, change: str, partitions: Iterable[tuple[str, int]]) -> Rebalanced:
        """Creates an event, with partitions from (topic, partition) pairs."""
        return cls(change, tuple(TopicPartition(*tp) for tp in partitions))


@dataclass(frozen=True, slots=True)
class OffsetReset:
    """The next offset to read is not in the log. Reading follows `auto.offset.reset`, or continues where logs diverged.

    Attributes:
        partition: the partition.
        offset: offset that is not in the log.
        reason: the reason, as text.
    """

    partition: TopicPartition
    offset: int
    reason: str

    @classmethod
    def of(cls, topic: str, partition: int, offset: int, reason: str) -> OffsetReset:
        """Creates an event, with the partition from a topic and a number."""
        return cls(TopicPartition(topic, partition), offset, reason)


@dataclass(frozen=True, slots=True)
class Fenced:
    """A consumer lost its membership, or another producer has taken over the transactional id.

    Attributes:
        reason: error that the broker returned.
    """

    reason: str


Event: TypeAlias = Connected | Disconnected | AuthenticationFailed | Throttled | Rebalanced | OffsetReset | Fenced
"""Any of the events."""

OnEvent: TypeAlias = Callable[[Event], object]
"""`on_event=` of every client: called for each event on a dedicated thread, one after another for all clients of the
process. While 10,000 events are pending, further events are dropped. Exceptions of the function go to
`sys.unraisablehook`."""
