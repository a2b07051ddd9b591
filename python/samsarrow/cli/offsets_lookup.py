"""Offsets that leaders know of partitions: first ones, ends, and those of a time."""

from __future__ import annotations

from collections.abc import Iterable

from samsarrow.admin_types import OffsetSpec
from samsarrow.cli.connection import Connection
from samsarrow.exceptions import KafkaError
from samsarrow.results import Results
from samsarrow.types import OffsetAndTimestamp, TopicPartition

Found = Results[TopicPartition, OffsetAndTimestamp | None]


def beginnings(connection: Connection, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """The first offsets that are there."""
    return _all(look_up(connection, partitions, OffsetSpec.EARLIEST), "first offset")


def ends(connection: Connection, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """The offsets that records to come will have."""
    return _all(look_up(connection, partitions, OffsetSpec.LATEST), "end")


def at(connection: Connection, partitions: Iterable[TopicPartition], time: int) -> dict[TopicPartition, int]:
    """The first offsets at or after a time in milliseconds; partitions that have none are left out."""
    return _known(look_up(connection, partitions, time))


def look_up(connection: Connection, partitions: Iterable[TopicPartition], what: OffsetSpec | int) -> Found:
    """Asks each leader once for all of its partitions. A partition that does not exist is an error of its own."""
    return connection.admin.list_offsets(dict.fromkeys(partitions, what))


def _all(found: Found, what: str) -> dict[TopicPartition, int]:
    """The offsets of all partitions, each of which has one; the first error is raised."""
    known = _known(found)
    for tp in found:
        if tp not in known:
            raise KafkaError(f"the brokers returned no {what} of {tp.topic}-{tp.partition}: run the command again")
    return known


def _known(found: Found) -> dict[TopicPartition, int]:
    """The offsets; the first error is raised."""
    each = ((tp, found[tp]) for tp in found)
    return {tp: offset.offset for tp, offset in each if offset is not None}
