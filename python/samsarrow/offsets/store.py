"""What keeps offsets: the protocol that all stores have, and what can go wrong with one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol, runtime_checkable

from samsarrow.exceptions import KafkaError
from samsarrow.types import OffsetAndMetadata, TopicPartition

Offsets = Mapping[TopicPartition, int | OffsetAndMetadata]
Found = dict[TopicPartition, OffsetAndMetadata | None]


@runtime_checkable
class OffsetStore(Protocol):
    """Keeps the offsets of one group, wherever that may be."""

    def load(self, partitions: Iterable[TopicPartition] | None = None) -> Found:
        """What is stored.

        Args:
            partitions: to ask for; by default all that are stored.

        Returns:
            For each partition its offset, None where nothing is stored.
        """
        ...

    def store(self, offsets: Offsets) -> None:
        """Stores offsets, each the next one to read; those of other partitions stay.

        Args:
            offsets: by partition.
        """
        ...

    def close(self) -> None:
        """Gives back what the store holds. May be called again."""
        ...


class OffsetStoreError(KafkaError):
    """Offsets cannot be kept or are not what they should be."""

    name = "OFFSET_STORE"


class StoreLockedError(OffsetStoreError):
    """Another process writes to the store."""

    name = "STORE_LOCKED"
    retriable = True


class BackwardsOffsetError(OffsetStoreError):
    """An offset would go back, and the store was not asked to let it."""

    name = "BACKWARDS_OFFSET"


class FencedOwnerError(OffsetStoreError):
    """Another owner has claimed the partition since: stop working on it."""

    name = "FENCED_OWNER"
    fatal = True


def normal(offsets: Offsets) -> dict[TopicPartition, OffsetAndMetadata]:
    """The same with plain numbers made `OffsetAndMetadata`.

    Raises:
        OffsetStoreError: an offset is negative.
    """
    full = {}
    for tp, at in offsets.items():
        one = at if isinstance(at, OffsetAndMetadata) else OffsetAndMetadata(at)
        if one.offset < 0:
            raise OffsetStoreError(f"cannot store offset {one.offset} of {tp.topic}-{tp.partition}: offsets start at 0")
        full[TopicPartition(*tp)] = one
    return full


def only(found: Mapping[TopicPartition, OffsetAndMetadata], partitions: Iterable[TopicPartition] | None) -> Found:
    """What was asked for of all that there is."""
    if partitions is None:
        return dict(sorted(found.items()))
    return {TopicPartition(*tp): found.get(TopicPartition(*tp)) for tp in partitions}
