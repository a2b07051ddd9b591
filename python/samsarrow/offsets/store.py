"""The protocol of offset stores, and their errors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol, runtime_checkable

from samsarrow.exceptions import ConfigurationError, KafkaError
from samsarrow.types import OffsetAndMetadata, TopicPartition, to_committed, to_pair

Offsets = Mapping[TopicPartition, int | OffsetAndMetadata]
Found = dict[TopicPartition, OffsetAndMetadata | None]


@runtime_checkable
class OffsetStore(Protocol):
    """Protocol of a store for the offsets of one group."""

    def load(self, partitions: Iterable[TopicPartition] | None = None) -> Found:
        """Returns stored offsets.

        Args:
            partitions: partitions to return; by default all stored ones.

        Returns:
            The offset of each partition, None without a stored offset.
        """
        ...

    def store(self, offsets: Offsets) -> None:
        """Stores offsets, each of which is the offset of the next record to read.

        Args:
            offsets: offsets by partition; other partitions stay unchanged.
        """
        ...

    def close(self) -> None:
        """Releases the resources of the store. May be called again."""
        ...


class OffsetStoreError(KafkaError):
    """Base of errors of offset stores: offsets cannot be stored, or stored offsets are invalid."""

    name = "OFFSET_STORE"


class StoreLockedError(OffsetStoreError):
    """The store is locked, because another process writes to it."""

    name = "STORE_LOCKED"
    retriable = True


class BackwardsOffsetError(OffsetStoreError):
    """An offset is smaller than the stored offset, which the call does not allow."""

    name = "BACKWARDS_OFFSET"


class FencedOwnerError(OffsetStoreError):
    """Another owner has claimed the partition. Stop working on the partition."""

    name = "FENCED_OWNER"
    fatal = True


def normal(offsets: Offsets) -> dict[TopicPartition, OffsetAndMetadata]:
    """Returns the offsets with plain numbers converted to `OffsetAndMetadata`.

    Raises:
        OffsetStoreError: an offset is negative.
        ConfigurationError: a partition or an offset is out of range.
        TypeError: `offsets` is not a mapping, or has a key or a value of another type.
    """
    if not isinstance(offsets, Mapping):
        kind = type(offsets).__name__
        raise TypeError(f"offsets must be a mapping of TopicPartition to the next offset, not {kind}")
    result = {}
    for key, value in offsets.items():
        tp, offset = TopicPartition(*to_pair(key)), OffsetAndMetadata(*to_committed(value))
        if offset.offset < 0:
            raise OffsetStoreError(
                f"cannot store offset {offset.offset} of {tp.topic}-{tp.partition}: offsets start at 0"
            )
        result[tp] = offset
    return result


def listed(partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Returns the partitions as a list.

    Raises:
        TypeError: `partitions` is not an iterable of `TopicPartition`s.
    """
    if isinstance(partitions, TopicPartition):
        raise TypeError(f"partitions must be a list, not one TopicPartition: pass [{partitions!r}]")
    if isinstance(partitions, str) or not isinstance(partitions, Iterable):
        raise TypeError(f"partitions must be a list of TopicPartitions, not {partitions!r}")
    return [TopicPartition(*to_pair(tp)) for tp in partitions]


def check_group(group: object) -> str:
    """Returns the name of a group.

    Raises:
        ConfigurationError: the name is empty.
        TypeError: the name is not text.
    """
    if not isinstance(group, str):
        raise TypeError(f"group must be text, not {type(group).__name__}")
    if not group:
        raise ConfigurationError("group must not be empty")
    return group


def only(stored: Mapping[TopicPartition, OffsetAndMetadata], partitions: Iterable[TopicPartition] | None) -> Found:
    """Returns the offsets of the requested partitions, or all offsets sorted by partition if `partitions` is None."""
    if partitions is None:
        return dict(sorted(stored.items()))
    return {tp: stored.get(tp) for tp in listed(partitions)}
