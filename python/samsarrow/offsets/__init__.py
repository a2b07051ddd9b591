"""Offsets outside of a consumer: kept in Kafka, ZooKeeper, a file or a database, and moved between them."""

from samsarrow.offsets.file import FileOffsetStore
from samsarrow.offsets.kafka import KafkaOffsetStore, ZooKeeperOffsetStore
from samsarrow.offsets.sql import SqlOffsetStore
from samsarrow.offsets.store import (
    BackwardsOffsetError,
    FencedOwnerError,
    OffsetStore,
    OffsetStoreError,
    StoreLockedError,
    next_offsets,
)

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
