"""Stores of offsets in Kafka, ZooKeeper, a file or a database, and functions that move offsets between stores."""

from typing import TYPE_CHECKING, Any

from samsarrow.offsets.file import FileOffsetStore
from samsarrow.offsets.kafka import KafkaOffsetStore, ZooKeeperOffsetStore
from samsarrow.offsets.sql import SqlOffsetStore
from samsarrow.offsets.store import (
    BackwardsOffsetError,
    FencedOwnerError,
    OffsetStore,
    OffsetStoreError,
    StoreLockedError,
)

if TYPE_CHECKING:
    from samsarrow.offsets.rows import next_offsets

__all__ = [
    "BackwardsOffsetError",
    "FencedOwnerError",
    "FileOffsetStore",
    "KafkaOffsetStore",
    "OffsetStore",
    "OffsetStoreError",
    "SqlOffsetStore",
    "StoreLockedError",
    "ZooKeeperOffsetStore",
    "next_offsets",
]


def __getattr__(name: str) -> Any:
    """Loads `next_offsets` on first use, because it imports Arrow."""
    if name != "next_offsets":
        raise AttributeError(f"module 'samsarrow.offsets' has no attribute {name!r}")
    from samsarrow.offsets.rows import next_offsets

    globals()[name] = next_offsets
    return next_offsets
