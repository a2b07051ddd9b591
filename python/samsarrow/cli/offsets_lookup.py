"""Lookup of partition offsets with ListOffsets: first offsets, end offsets, and offsets for a time."""

from __future__ import annotations

from collections.abc import Iterable

from samsarrow.admin_types import OffsetSpec
from samsarrow.cli.connection import Connection
from samsarrow.exceptions import KafkaError
from samsarrow.results import Results
from samsarrow.types import OffsetAndTimestamp, TopicPartition

OffsetResults = Results[TopicPartition, OffsetAndTimestamp | None]


def beginnings(connection: Connection, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Returns the log start offset of each partition."""
    return _all(look_up(connection, partitions, OffsetSpec.EARLIEST), "first offset")


def ends(connection: Connection, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Returns the end offset of each partition."""
    return _all(look_up(connection, partitions, OffsetSpec.LATEST), "end")


def at(connection: Connection, partitions: Iterable[TopicPartition], time: int) -> dict[TopicPartition, int]:
    """Returns the offset of the first record at or after a time in milliseconds, for partitions with such a record."""
    return _known(look_up(connection, partitions, time))


def look_up(connection: Connection, partitions: Iterable[TopicPartition], spec: OffsetSpec | int) -> OffsetResults:
    """Looks up offsets with one request per leader. Looking up a missing partition in the result raises its error."""
    return connection.admin.list_offsets(dict.fromkeys(partitions, spec))


def _all(found: OffsetResults, kind: str) -> dict[TopicPartition, int]:
    """Returns the offsets of all partitions. Raises the first error, or an error if an offset is missing."""
    known = _known(found)
    for tp in found:
        if tp not in known:
            raise KafkaError(f"the brokers returned no {kind} of {tp.topic}-{tp.partition}: run the command again")
    return known


def _known(found: OffsetResults) -> dict[TopicPartition, int]:
    """Returns the offsets that were found. Raises the first error."""
    each = ((tp, found[tp]) for tp in found)
    return {tp: offset.offset for tp, offset in each if offset is not None}
