"""Requests for committed offsets and partition offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from samsarrow import _core
from samsarrow._admin.common import names_of
from samsarrow._admin.common import to_partition as _tp
from samsarrow._arguments import names_arguments
from samsarrow.admin_types import (
    OffsetSpec,
)
from samsarrow.exceptions import KafkaError
from samsarrow.group_types import (
    ShareOffset,
)
from samsarrow.results import Results, reads, writes
from samsarrow.types import (
    OffsetAndMetadata,
    OffsetAndTimestamp,
    Seconds,
    TopicPartition,
    to_committed,
    to_milliseconds,
    to_pair,
    to_seconds,
)

if TYPE_CHECKING:
    from samsarrow._core import Call


@names_arguments
def commit_offsets(
    core: _core.Admin,
    group: str,
    offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
    *,
    api_version: int | None = None,
    retention: Seconds | None = None,
    timestamp: int | datetime | None = None,
    timeout: Seconds | None = None,
) -> Call[dict[TopicPartition, None]]:
    """Commits offsets on behalf of a group, which must have no members.

    Args:
        group: name of the group.
        offsets: offsets to commit. ZooKeeper stores offsets only, without metadata and leader epochs.
        api_version: version of the request. Version 0 stores the offsets in ZooKeeper, later versions in Kafka. By
            default the option `api.version.offset_commit`, or the newest.
        retention: seconds for which the broker keeps the offsets. Only versions 2 to 4 of the request have a
            retention. By default, and in other versions, the broker decides.
        timestamp: commit time of the offsets, milliseconds since 1970 or a `datetime`. Only version 1 of the
            request has a commit time.
        timeout: seconds, by default `default.api.timeout.ms`.

    Raises:
        PartialFailureError: some offsets were not committed. It has the error of each partition.
        KafkaError: the whole request failed, for example because the group has members, the broker does not support
            the version, or the coordinator cannot be reached.
    """
    rows = [(to_pair(tp), to_committed(o)) for tp, o in offsets.items()]
    time = None if timestamp is None else to_milliseconds(timestamp)
    seconds = to_seconds(retention)
    call = _core.admin_commit_offsets(core, group, rows, api_version, seconds, time, to_seconds(timeout))
    return call.then(writes(_tp))


@names_arguments
def fetch_offsets(
    core: _core.Admin,
    group: str,
    partitions: Iterable[TopicPartition] | None = None,
    *,
    api_version: int | None = None,
    require_stable: bool = False,
    timeout: Seconds | None = None,
) -> Call[dict[TopicPartition, OffsetAndMetadata | None]]:
    """Returns a group's committed offsets.

    Args:
        group: name of the group.
        partitions: partitions to look up; by default all partitions with a committed offset, which versions 0 and 1
            cannot return.
        api_version: version of the request. Version 0 reads from ZooKeeper, later versions from Kafka. By default
            the option `api.version.offset_fetch`, or the newest.
        require_stable: wait until no transaction with offsets of the group is open; needs version 7 or later.
        timeout: seconds, by default `default.api.timeout.ms`.

    Returns:
        The offset of each partition, None without a committed offset.
    """
    pairs = None if partitions is None else [to_pair(tp) for tp in partitions]
    call = _core.admin_fetch_offsets(core, [(group, pairs)], api_version, require_stable, to_seconds(timeout))
    return call.then(lambda rows: _groups(rows)[group])


@names_arguments
def fetch_offsets_many(
    core: _core.Admin,
    groups: Iterable[str] | Mapping[str, Iterable[TopicPartition] | None],
    *,
    api_version: int | None = None,
    require_stable: bool = False,
    timeout: Seconds | None = None,
) -> Call[Results[str, dict[TopicPartition, OffsetAndMetadata | None]]]:
    """Returns the committed offsets of several groups.

    Groups with the same coordinator share one request if the broker supports it (version 8 and later).

    Args:
        groups: names of groups, or a mapping from each name to the partitions to look up, None for all partitions.
        api_version: as in `fetch_offsets`.
        require_stable: as in `fetch_offsets`.
        timeout: seconds, by default `default.api.timeout.ms`.

    Returns:
        The offsets of each group.
    """
    if isinstance(groups, str):
        raise TypeError("groups must be several names or a mapping, not one str")
    rows = _group_rows(groups)
    return _core.admin_fetch_offsets(core, rows, api_version, require_stable, to_seconds(timeout)).then(_groups)


@names_arguments
def delete_offsets(
    core: _core.Admin, group: str, partitions: Iterable[TopicPartition], *, timeout: Seconds | None = None
) -> Call[dict[TopicPartition, None]]:
    """Deletes a group's committed offsets of some partitions. No member of the group may subscribe to their topics.

    Args:
        group: name of the group.
        partitions: partitions whose offsets to delete.
        timeout: seconds, by default `default.api.timeout.ms`.

    Raises:
        PartialFailureError: some offsets were not deleted. It has the error of each partition.
        KafkaError: the whole request failed, for example because the group does not exist.
    """
    pairs = [to_pair(tp) for tp in partitions]
    return _core.admin_delete_offsets(core, group, pairs, to_seconds(timeout)).then(writes(_tp))


@names_arguments
def list_offsets(
    core: _core.Admin,
    partitions: Mapping[TopicPartition, OffsetSpec | int | datetime],
    *,
    read_committed: bool = False,
    timeout: Seconds | None = None,
) -> Call[Results[TopicPartition, OffsetAndTimestamp | None]]:
    """Looks up offsets of partitions at their leaders.

    Args:
        partitions: by partition, the offset to look up: an `OffsetSpec`; or a time (milliseconds since 1970, or a
            `datetime`) to find the first record at or after that time.
        read_committed: return the last stable offset as the end, instead of the high watermark.
        timeout: seconds, by default `default.api.timeout.ms`.

    Returns:
        The offsets; the timestamp is -1 if the broker returns none. None if no record at or after the time exists.
    """
    rows = []
    for tp, spec in partitions.items():
        time = spec if isinstance(spec, OffsetSpec) else to_milliseconds(spec)
        if not isinstance(spec, OffsetSpec) and time < 0:
            raise ValueError(
                f"{tp}: a time of {time}: it must be 0 or more; use OffsetSpec for the first or last offset"
            )
        rows.append((to_pair(tp), int(time)))
    call = _core.admin_list_offsets(core, rows, read_committed, to_seconds(timeout))
    return call.then(_listed)


@names_arguments
def list_share_offsets(
    core: _core.Admin,
    groups: Iterable[str] | Mapping[str, Iterable[TopicPartition] | None],
    *,
    timeout: Seconds | None = None,
) -> Call[Results[str, Results[TopicPartition, ShareOffset | None]]]:
    """Returns the start offsets of share groups (KIP-932, Kafka 4.1).

    Args:
        groups: names of groups, or a mapping from each name to the partitions to look up, None for all partitions.
        timeout: seconds, by default `default.api.timeout.ms`.

    Returns:
        The start offset and lag by partition, for each group. None for a partition that the group has not started
        to read.
    """
    if isinstance(groups, str):
        raise TypeError("groups must be several names or a mapping, not one str")
    return _core.admin_list_share_offsets(core, _group_rows(groups), to_seconds(timeout)).then(_share_offsets)


@names_arguments
def alter_share_offsets(
    core: _core.Admin, group: str, offsets: Mapping[TopicPartition, int], *, timeout: Seconds | None = None
) -> Call[dict[TopicPartition, None]]:
    """Sets the start offsets of a share group, which must have no members (KIP-932, Kafka 4.1).

    Args:
        group: name of the group.
        offsets: by partition, the offset of the first record to read.
        timeout: seconds, by default `default.api.timeout.ms`.

    Raises:
        PartialFailureError: the offsets of some partitions were not set. It has the error of each partition.
        KafkaError: the whole request failed, for example because the group has members or does not exist.
    """
    rows = [(to_pair(tp), offset) for tp, offset in offsets.items()]
    return _core.admin_alter_share_offsets(core, group, rows, to_seconds(timeout)).then(writes(_tp))


@names_arguments
def delete_share_offsets(
    core: _core.Admin, group: str, topics: Iterable[str], *, timeout: Seconds | None = None
) -> Call[dict[str, None]]:
    """Deletes the start offsets of a share group in topics; the group must have no members (KIP-932, Kafka 4.1).

    Args:
        group: name of the group.
        topics: names.
        timeout: seconds, by default `default.api.timeout.ms`.

    Raises:
        PartialFailureError: the start offsets of some topics were not deleted. It has the error of each topic.
        KafkaError: the whole request failed, for example because the group has members or does not exist.
    """
    names = names_of("topics", topics)
    return _core.admin_delete_share_offsets(core, group, names, to_seconds(timeout)).then(writes(str))


Fetched = dict[TopicPartition, OffsetAndMetadata | None]


def _group_rows(
    groups: Iterable[str] | Mapping[str, Iterable[TopicPartition] | None],
) -> list[tuple[str, list[tuple[str, int]] | None]]:
    partitions: Mapping[str, Iterable[TopicPartition] | None]
    partitions = groups if isinstance(groups, Mapping) else dict.fromkeys(groups)
    return [(group, None if tps is None else [to_pair(tp) for tp in tps]) for group, tps in partitions.items()]


def _groups(rows: list[tuple[str, Any, KafkaError | None]]) -> Results[str, Fetched]:
    def offsets(pairs: list[tuple[Any, Any]]) -> Fetched:
        return {TopicPartition(*tp): None if row is None else OffsetAndMetadata(*row) for tp, row in pairs}

    results: Results[str, Fetched] = reads(str, offsets, (str, Mapping[TopicPartition, OffsetAndMetadata]))(rows)
    return results


def _listed(rows: list[tuple[Any, Any, KafkaError | None]]) -> Results[TopicPartition, OffsetAndTimestamp | None]:
    offset = lambda row: None if row is None else OffsetAndTimestamp(*row)  # noqa: E731
    results: Results[TopicPartition, OffsetAndTimestamp | None]
    results = reads(_tp, offset, (TopicPartition, OffsetAndTimestamp | None))(rows)
    return results


def _share_offsets(
    rows: list[tuple[str, Any, KafkaError | None]],
) -> Results[str, Results[TopicPartition, ShareOffset | None]]:
    offset = lambda row: None if row is None else ShareOffset(*row)  # noqa: E731
    group = reads(_tp, offset, (TopicPartition, ShareOffset | None))
    results: Results[str, Results[TopicPartition, ShareOffset | None]] = reads(str, group, (str, str))(rows)
    return results
