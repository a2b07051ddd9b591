"""Stores of offsets in Kafka, ZooKeeper, a file or a database, and functions that move offsets between stores."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from samsarrow.offsets.file import FileOffsetStore
from samsarrow.offsets.sql import SqlOffsetStore
from samsarrow.offsets.store import (
    BackwardsOffsetError,
    FencedOwnerError,
    OffsetStore,
    OffsetStoreError,
    StoreLockedError,
)

if TYPE_CHECKING:
    from samsarrow.offsets.kafka import KafkaOffsetStore, ZooKeeperOffsetStore
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


# Modules of names that are loaded on first use, because they import Arrow or `Admin`. Other modules of this package,
# which the command line uses, need neither.
_LAZY = {"KafkaOffsetStore": "kafka", "ZooKeeperOffsetStore": "kafka", "next_offsets": "rows"}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'samsarrow.offsets' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"samsarrow.offsets.{_LAZY[name]}"), name)
    return value
