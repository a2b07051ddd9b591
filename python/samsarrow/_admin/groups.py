"""Requests for groups, their members and their lag.

Each function returns a pending call, which `Admin` waits for and `AsyncAdmin` awaits. The docstrings are at the methods
of these classes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from samsarrow import _core
from samsarrow._admin.common import names_of, operations
from samsarrow._arguments import names_arguments
from samsarrow.admin_types import (
    GroupLag,
    PartitionLag,
    RemovedMember,
)
from samsarrow.exceptions import KafkaError
from samsarrow.group_types import (
    ShareGroupDescription,
    ShareMember,
    StreamsGroupDescription,
    StreamsMember,
    StreamsTasks,
    Subtopology,
)
from samsarrow.results import Results, reads, writes
from samsarrow.types import (
    GroupDescription,
    GroupListing,
    MemberDescription,
    Node,
    OffsetAndMetadata,
    Seconds,
    TopicPartition,
    to_seconds,
)

if TYPE_CHECKING:
    from samsarrow._core import Call


@names_arguments
def find_coordinator(core: _core.Admin, group: str, *, timeout: Seconds | None = None) -> Call[Node]:
    return _core.admin_find_coordinator(core, group, to_seconds(timeout)).then(lambda row: Node(*row))


@names_arguments
def list_groups(
    core: _core.Admin,
    *,
    states: Iterable[str] = (),
    types: Iterable[str] = (),
    protocol_types: Iterable[str] = (),
    timeout: Seconds | None = None,
) -> Call[dict[str, GroupListing]]:
    protocols = names_of("protocol_types", protocol_types)
    filters = names_of("states", states), names_of("types", types), protocols
    call = _core.admin_list_groups(core, *filters, to_seconds(timeout))
    return call.then(lambda rows: {row[0]: GroupListing(*row) for row in rows})


@names_arguments
def describe_groups(
    core: _core.Admin,
    groups: Iterable[str],
    *,
    include_authorized_operations: bool = False,
    timeout: Seconds | None = None,
) -> Call[Results[str, GroupDescription]]:
    names = names_of("groups", groups)
    call = _core.admin_describe_groups(core, names, include_authorized_operations, to_seconds(timeout))
    return call.then(_described)


@names_arguments
def delete_groups(core: _core.Admin, groups: Iterable[str], *, timeout: Seconds | None = None) -> Call[dict[str, None]]:
    return _core.admin_delete_groups(core, names_of("groups", groups), to_seconds(timeout)).then(writes(str))


@names_arguments
def remove_members(
    core: _core.Admin,
    group: str,
    members: Iterable[str | RemovedMember] | None = None,
    *,
    reason: str = "removed by an administrator",
    timeout: Seconds | None = None,
) -> Call[dict[RemovedMember, None]]:
    if isinstance(members, str):
        raise TypeError("members must be several members, not one str")
    removed = None if members is None else [m if isinstance(m, RemovedMember) else RemovedMember(m) for m in members]
    ids = None if removed is None else [(m.member_id, m.instance_id) for m in removed]
    call = _core.admin_remove_members(core, group, ids, reason, to_seconds(timeout))
    return call.then(writes(lambda raw: RemovedMember(*raw)))


@names_arguments
def group_lag(
    core: _core.Admin, groups: Iterable[str], *, read_committed: bool = False, timeout: Seconds | None = None
) -> Call[Results[str, GroupLag]]:
    call = _core.admin_group_lag(core, names_of("groups", groups), read_committed, to_seconds(timeout))
    return call.then(_lags)


@names_arguments
def describe_share_groups(
    core: _core.Admin, groups: Iterable[str], *, timeout: Seconds | None = None
) -> Call[Results[str, ShareGroupDescription]]:
    call = _core.admin_describe_share_groups(core, names_of("groups", groups), to_seconds(timeout))
    return call.then(_share_groups)


@names_arguments
def describe_streams_groups(
    core: _core.Admin, groups: Iterable[str], *, timeout: Seconds | None = None
) -> Call[Results[str, StreamsGroupDescription]]:
    call = _core.admin_describe_streams_groups(core, names_of("groups", groups), to_seconds(timeout))
    return call.then(_streams_groups)


def _described(rows: list[tuple[str, Any, KafkaError | None]]) -> Results[str, GroupDescription]:
    named = [(group, (group, row), error) for group, row, error in rows]
    results: Results[str, GroupDescription] = reads(str, _group, (str, GroupDescription))(named)
    return results


def _group(row: tuple[str, tuple[Any, ...]]) -> GroupDescription:
    group, (kind, state, protocol_type, assignor, rows, allowed) = row
    members = []
    for member_id, instance_id, client_id, host, assignment, target in rows:
        current = tuple(TopicPartition(*tp) for tp in assignment)
        future = None if target is None else tuple(TopicPartition(*tp) for tp in target)
        members.append(MemberDescription(member_id, instance_id, client_id, host, current, future))
    return GroupDescription(group, kind, state, protocol_type, assignor, tuple(members), operations(allowed))


def _lags(rows: list[tuple[str, Any, KafkaError | None]]) -> Results[str, GroupLag]:
    def lag(row: tuple[str, list[tuple[Any, ...]]]) -> GroupLag:
        group, offsets = row
        partitions = (
            PartitionLag(TopicPartition(*tp), OffsetAndMetadata(*committed), end, error)
            for tp, committed, end, error in offsets
        )
        return GroupLag(group, tuple(partitions))

    named = [(group, (group, row), error) for group, row, error in rows]
    results: Results[str, GroupLag] = reads(str, lag, (str, GroupLag))(named)
    return results


def _share_groups(rows: list[tuple[str, Any, KafkaError | None]]) -> Results[str, ShareGroupDescription]:
    def group(row: tuple[str, tuple[Any, ...]]) -> ShareGroupDescription:
        name, (state, epoch, assignment_epoch, assignor, member_rows) = row
        members = (
            ShareMember(
                member_id, rack, epoch, client_id, host, tuple(topics), tuple(TopicPartition(*tp) for tp in assignment)
            )
            for member_id, rack, epoch, client_id, host, topics, assignment in member_rows
        )
        return ShareGroupDescription(name, state, epoch, assignment_epoch, assignor, tuple(members))

    named = [(name, (name, row), error) for name, row, error in rows]
    results: Results[str, ShareGroupDescription] = reads(str, group, (str, ShareGroupDescription))(named)
    return results


def _streams_groups(rows: list[tuple[str, Any, KafkaError | None]]) -> Results[str, StreamsGroupDescription]:
    def tasks(row: tuple[Any, Any, Any]) -> StreamsTasks:
        return StreamsTasks(*({subtopology: tuple(ids) for subtopology, ids in kind.items()} for kind in row))

    def group(row: tuple[str, tuple[Any, ...]]) -> StreamsGroupDescription:
        name, (state, epoch, assignment_epoch, topology_epoch, topology, member_rows) = row
        subtopologies = (Subtopology(part, *(tuple(topics) for topics in kinds)) for part, *kinds in topology)
        members = (
            StreamsMember(*[*member, tasks(assignment), tasks(target)]) for member, assignment, target in member_rows
        )
        return StreamsGroupDescription(
            name, state, epoch, assignment_epoch, topology_epoch, tuple(subtopologies), tuple(members)
        )

    named = [(name, (name, row), error) for name, row, error in rows]
    results: Results[str, StreamsGroupDescription] = reads(str, group, (str, StreamsGroupDescription))(named)
    return results
