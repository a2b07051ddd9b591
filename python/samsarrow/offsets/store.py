"""The protocol of offset stores, and their errors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol, runtime_checkable

from samsarrow.exceptions import KafkaError
from samsarrow.types import OffsetAndMetadata, TopicPartition

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
    """
    result = {}
    for tp, value in offsets.items():
        offset = value if isinstance(value, OffsetAndMetadata) else OffsetAndMetadata(value)
        if offset.offset < 0:
            raise OffsetStoreError(
                f"cannot store offset {offset.offset} of {tp.topic}-{tp.partition}: offsets start at 0"
            )
        result[TopicPartition(*tp)] = offset
    return result


def only(stored: Mapping[TopicPartition, OffsetAndMetadata], partitions: Iterable[TopicPartition] | None) -> Found:
    """Returns the offsets of the requested partitions, or all offsets sorted by partition if `partitions` is None."""
    if partitions is None:
        return dict(sorted(stored.items()))
    return {TopicPartition(*tp): stored.get(TopicPartition(*tp)) for tp in partitions}
