"""Offsets: committed by groups, known by leaders.

Each function gives the call that both `Admin` and `AsyncAdmin` make; they have the documentation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from samsarrow import _core
from samsarrow._admin.arguments import names_arguments
from samsarrow._admin.common import names_of
from samsarrow._admin.common import to_partition as _tp
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
    plain = [(to_pair(tp), to_committed(o)) for tp, o in offsets.items()]
    when = None if timestamp is None else to_milliseconds(timestamp)
    kept = to_seconds(retention)
    done = _core.admin_commit_offsets(core, group, plain, api_version, kept, when, to_seconds(timeout))
    return done.then(writes(_tp))


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
    asked = None if partitions is None else [to_pair(tp) for tp in partitions]
    found = _core.admin_fetch_offsets(core, [(group, asked)], api_version, require_stable, to_seconds(timeout))
    return found.then(lambda rows: _groups(rows)[group])


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
    wanted: Mapping[str, Iterable[TopicPartition] | None]
    wanted = groups if isinstance(groups, Mapping) else dict.fromkeys(groups)
    plain = [(group, None if tps is None else [to_pair(tp) for tp in tps]) for group, tps in wanted.items()]
    return _core.admin_fetch_offsets(core, plain, api_version, require_stable, to_seconds(timeout)).then(_groups)


@names_arguments
def delete_offsets(
    core: _core.Admin, group: str, partitions: Iterable[TopicPartition], *, timeout: Seconds | None = None
) -> Call[dict[TopicPartition, None]]:
    plain = [to_pair(tp) for tp in partitions]
    return _core.admin_delete_offsets(core, group, plain, to_seconds(timeout)).then(writes(_tp))


@names_arguments
def list_offsets(
    core: _core.Admin,
    partitions: Mapping[TopicPartition, OffsetSpec | int | datetime],
    *,
    read_committed: bool = False,
    timeout: Seconds | None = None,
) -> Call[Results[TopicPartition, OffsetAndTimestamp | None]]:
    plain = []
    for tp, wanted in partitions.items():
        at = wanted if isinstance(wanted, OffsetSpec) else to_milliseconds(wanted)
        if not isinstance(wanted, OffsetSpec) and at < 0:
            raise ValueError(f"{tp}: a time of {at}: it must be 0 or more; use OffsetSpec for the first or last offset")
        plain.append((to_pair(tp), int(at)))
    found = _core.admin_list_offsets(core, plain, read_committed, to_seconds(timeout))
    return found.then(_found)


@names_arguments
def list_share_offsets(
    core: _core.Admin,
    groups: Iterable[str] | Mapping[str, Iterable[TopicPartition] | None],
    *,
    timeout: Seconds | None = None,
) -> Call[Results[str, Results[TopicPartition, ShareOffset | None]]]:
    if isinstance(groups, str):
        raise TypeError("groups must be several names or a mapping, not one str")
    wanted: Mapping[str, Iterable[TopicPartition] | None]
    wanted = groups if isinstance(groups, Mapping) else dict.fromkeys(groups)
    plain = [(group, None if tps is None else [to_pair(tp) for tp in tps]) for group, tps in wanted.items()]
    return _core.admin_list_share_offsets(core, plain, to_seconds(timeout)).then(_shares)


@names_arguments
def alter_share_offsets(
    core: _core.Admin, group: str, offsets: Mapping[TopicPartition, int], *, timeout: Seconds | None = None
) -> Call[dict[TopicPartition, None]]:
    plain = [(to_pair(tp), offset) for tp, offset in offsets.items()]
    return _core.admin_alter_share_offsets(core, group, plain, to_seconds(timeout)).then(writes(_tp))


@names_arguments
def delete_share_offsets(
    core: _core.Admin, group: str, topics: Iterable[str], *, timeout: Seconds | None = None
) -> Call[dict[str, None]]:
    names = names_of("topics", topics)
    return _core.admin_delete_share_offsets(core, group, names, to_seconds(timeout)).then(writes(str))


Fetched = dict[TopicPartition, OffsetAndMetadata | None]


def _groups(rows: list[tuple[str, Any, KafkaError | None]]) -> Results[str, Fetched]:
    def offsets(its: list[tuple[Any, Any]]) -> Fetched:
        return {TopicPartition(*tp): None if at is None else OffsetAndMetadata(*at) for tp, at in its}

    made: Results[str, Fetched] = reads(str, offsets, (str, Mapping[TopicPartition, OffsetAndMetadata]))(rows)
    return made


def _found(rows: list[tuple[Any, Any, KafkaError | None]]) -> Results[TopicPartition, OffsetAndTimestamp | None]:
    one = lambda at: None if at is None else OffsetAndTimestamp(*at)  # noqa: E731
    made: Results[TopicPartition, OffsetAndTimestamp | None]
    made = reads(_tp, one, (TopicPartition, OffsetAndTimestamp | None))(rows)
    return made


def _shares(
    rows: list[tuple[str, Any, KafkaError | None]],
) -> Results[str, Results[TopicPartition, ShareOffset | None]]:
    one = lambda at: None if at is None else ShareOffset(*at)  # noqa: E731
    of_group = reads(_tp, one, (TopicPartition, ShareOffset | None))
    made: Results[str, Results[TopicPartition, ShareOffset | None]] = reads(str, of_group, (str, str))(rows)
    return made
