"""What happens seldom."""

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
        reason: why, in words.
    """

    node: int
    address: str
    reason: str


@dataclass(frozen=True, slots=True)
class AuthenticationFailed:
    """A login, or a TLS handshake, was refused, by the broker or by the client.

    Attributes:
        node: the broker.
        address: host and port.
        reason: why, in words, without secrets.
    """

    node: int
    address: str
    reason: str


@dataclass(frozen=True, slots=True)
class Throttled:
    """A broker asked to be left alone because of a quota (KIP-219).

    Attributes:
        node: the broker.
        address: host and port.
        seconds: for how long.
    """

    node: int
    address: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Rebalanced:
    """Partitions came or went.

    Attributes:
        change: `assigned`, `revoked`, or `lost`, where others have them already.
        partitions: which.
    """

    change: str
    partitions: tuple[TopicPartition, ...]

    @classmethod
    def of(cls, change: str, partitions: Iterable[tuple[str, int]]) -> Rebalanced:
        """Of pairs."""
        return cls(change, tuple(TopicPartition(*tp) for tp in partitions))


@dataclass(frozen=True, slots=True)
class OffsetReset:
    """The offset to read next is not in the log: reading goes on where `auto.offset.reset` says, or where logs part.

    Attributes:
        partition: of which partition.
        offset: that was to be read.
        reason: why, in words.
    """

    partition: TopicPartition
    offset: int
    reason: str

    @classmethod
    def of(cls, topic: str, partition: int, offset: int, reason: str) -> OffsetReset:
        """Of plain values."""
        return cls(TopicPartition(topic, partition), offset, reason)


@dataclass(frozen=True, slots=True)
class Fenced:
    """A member is no member any more, or another producer has taken this one's place.

    Attributes:
        reason: what the broker said.
    """

    reason: str


Event: TypeAlias = Connected | Disconnected | AuthenticationFailed | Throttled | Rebalanced | OffsetReset | Fenced
"""Any of the events."""

OnEvent: TypeAlias = Callable[[Event], object]
"""`on_event=` of every client: called for each event on a thread of its own, one after the other for all clients of the
process. While 10,000 events wait for it, more are dropped. An exception in it goes to `sys.unraisablehook`."""
