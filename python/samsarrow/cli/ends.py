"""Offsets that leaders know of partitions: first ones, ends, and those of a time."""

from __future__ import annotations

from collections.abc import Iterable

from samsarrow.admin_types import OffsetSpec
from samsarrow.cli.connection import Connection
from samsarrow.results import Results
from samsarrow.types import OffsetAndTimestamp, TopicPartition

Found = Results[TopicPartition, OffsetAndTimestamp | None]


def beginnings(connection: Connection, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """The first offsets that are there."""
    return _known(look_up(connection, partitions, OffsetSpec.EARLIEST))


def ends(connection: Connection, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """The offsets that records to come will have."""
    return _known(look_up(connection, partitions, OffsetSpec.LATEST))


def at(connection: Connection, partitions: Iterable[TopicPartition], time: int) -> dict[TopicPartition, int]:
    """The first offsets at or after a time in milliseconds; partitions that have none are left out."""
    return _known(look_up(connection, partitions, time))


def look_up(connection: Connection, partitions: Iterable[TopicPartition], what: OffsetSpec | int) -> Found:
    """Asks each leader once for all of its partitions. A partition that does not exist is an error of its own."""
    return connection.admin.list_offsets(dict.fromkeys(partitions, what))


def _known(found: Found) -> dict[TopicPartition, int]:
    """The offsets; the first error is raised."""
    each = ((tp, found[tp]) for tp in found)
    return {tp: offset.offset for tp, offset in each if offset is not None}
