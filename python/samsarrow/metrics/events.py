"""Rare client events."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from samsarrow.types import TopicPartition


@dataclass(frozen=True, slots=True)
class Connected:
    """A connection to a broker was made. Bootstrap servers are brokers -1, -2, and so on.

    Attributes:
        node: the broker.
        address: host and port.
    """

    node: int
    address: str


@dataclass(frozen=True, slots=True)
class Disconnected:
    """A connection to a broker ended.

    Attributes:
        node: the broker.
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
        node: the broker.
        address: host and port.
        reason: the reason, as text without secrets.
    """

    node: int
    address: str
    reason: str


@dataclass(frozen=True, slots=True)
class Throttled:
    """A broker throttled the client because of a quota (KIP-219).

    Attributes:
        node: the broker.
        address: host and port.
        seconds: duration.
    """

    node: int
    address: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Rebalanced:
    """Partitions were assigned or revoked.

    Attributes:
        change: `assigned`, `revoked`, or `lost` if other members may already own them.
        partitions: the partitions.
    """

    change: str
    partitions: tuple[TopicPartition, ...]

    @classmethod
    def of(cls, change: str, partitions: Iterable[tuple[str, int]]) -> Rebalanced:
        """Creates an event from (topic, partition) pairs."""
        return cls(change, tuple(TopicPartition(*tp) for tp in partitions))


@dataclass(frozen=True, slots=True)
class OffsetReset:
    """The next offset is not in the log: reading continues as `auto.offset.reset` says, or where the logs diverged.

    Attributes:
        partition: the partition.
        offset: the missing offset.
        reason: the reason, as text.
    """

    partition: TopicPartition
    offset: int
    reason: str

    @classmethod
    def of(cls, topic: str, partition: int, offset: int, reason: str) -> OffsetReset:
        """Creates an event from the values of its fields."""
        return cls(TopicPartition(topic, partition), offset, reason)


@dataclass(frozen=True, slots=True)
class Fenced:
    """A member lost its membership, or another producer has taken over.

    Attributes:
        reason: the broker's error.
    """

    reason: str


Event: TypeAlias = Connected | Disconnected | AuthenticationFailed | Throttled | Rebalanced | OffsetReset | Fenced
"""Any of the events."""

OnEvent: TypeAlias = Callable[[Event], object]
"""`on_event=` of every client: called for each event on a dedicated thread, one after another for all clients of the
process. While 10,000 events are pending, further ones are dropped. Its exceptions go to `sys.unraisablehook`."""
