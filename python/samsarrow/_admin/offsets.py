"""Requests for committed offsets and partition offsets.

Each function returns a pending call, which `Admin` waits for and `AsyncAdmin` awaits. The docstrings are at the methods
of these classes.
"""

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
    if isinstance(groups, str):
        raise TypeError("groups must be several names or a mapping, not one str")
    rows = _group_rows(groups)
    return _core.admin_fetch_offsets(core, rows, api_version, require_stable, to_seconds(timeout)).then(_groups)


@names_arguments
def delete_offsets(
    core: _core.Admin, group: str, partitions: Iterable[TopicPartition], *, timeout: Seconds | None = None
) -> Call[dict[TopicPartition, None]]:
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
    if isinstance(groups, str):
        raise TypeError("groups must be several names or a mapping, not one str")
    return _core.admin_list_share_offsets(core, _group_rows(groups), to_seconds(timeout)).then(_share_offsets)


@names_arguments
def alter_share_offsets(
    core: _core.Admin, group: str, offsets: Mapping[TopicPartition, int], *, timeout: Seconds | None = None
) -> Call[dict[TopicPartition, None]]:
    rows = [(to_pair(tp), offset) for tp, offset in offsets.items()]
    return _core.admin_alter_share_offsets(core, group, rows, to_seconds(timeout)).then(writes(_tp))


@names_arguments
def delete_share_offsets(
    core: _core.Admin, group: str, topics: Iterable[str], *, timeout: Seconds | None = None
) -> Call[dict[str, None]]:
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
