"""Groups, their members, and how far behind they are.

Each function gives the call that both `Admin` and `AsyncAdmin` make; they have the documentation.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from samsarrow import _core
from samsarrow._admin.arguments import names_arguments
from samsarrow._admin.common import names_of, operations
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
    asked = names_of("states", states), names_of("types", types), protocols
    listed = _core.admin_list_groups(core, *asked, to_seconds(timeout))
    return listed.then(lambda rows: {row[0]: GroupListing(*row) for row in rows})


@names_arguments
def describe_groups(
    core: _core.Admin,
    groups: Iterable[str],
    *,
    include_authorized_operations: bool = False,
    timeout: Seconds | None = None,
) -> Call[Results[str, GroupDescription]]:
    names = names_of("groups", groups)
    found = _core.admin_describe_groups(core, names, include_authorized_operations, to_seconds(timeout))
    return found.then(_described)


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
    some = None if members is None else [m if isinstance(m, RemovedMember) else RemovedMember(m) for m in members]
    plain = None if some is None else [(m.member_id, m.instance_id) for m in some]
    done = _core.admin_remove_members(core, group, plain, reason, to_seconds(timeout))
    return done.then(writes(lambda raw: RemovedMember(*raw)))


@names_arguments
def group_lag(
    core: _core.Admin, groups: Iterable[str], *, read_committed: bool = False, timeout: Seconds | None = None
) -> Call[Results[str, GroupLag]]:
    found = _core.admin_group_lag(core, names_of("groups", groups), read_committed, to_seconds(timeout))
    return found.then(_lags)


@names_arguments
def describe_share_groups(
    core: _core.Admin, groups: Iterable[str], *, timeout: Seconds | None = None
) -> Call[Results[str, ShareGroupDescription]]:
    found = _core.admin_describe_share_groups(core, names_of("groups", groups), to_seconds(timeout))
    return found.then(_shares)


@names_arguments
def describe_streams_groups(
    core: _core.Admin, groups: Iterable[str], *, timeout: Seconds | None = None
) -> Call[Results[str, StreamsGroupDescription]]:
    found = _core.admin_describe_streams_groups(core, names_of("groups", groups), to_seconds(timeout))
    return found.then(_streams)


def _described(rows: list[tuple[str, Any, KafkaError | None]]) -> Results[str, GroupDescription]:
    named = [(group, (group, told), error) for group, told, error in rows]
    made: Results[str, GroupDescription] = reads(str, _group, (str, GroupDescription))(named)
    return made


def _group(row: tuple[str, tuple[Any, ...]]) -> GroupDescription:
    group, (kind, state, protocol_type, assignor, rows, allowed) = row
    members = []
    for member_id, instance_id, client_id, host, assignment, target in rows:
        its = tuple(TopicPartition(*tp) for tp in assignment)
        coming = None if target is None else tuple(TopicPartition(*tp) for tp in target)
        members.append(MemberDescription(member_id, instance_id, client_id, host, its, coming))
    return GroupDescription(group, kind, state, protocol_type, assignor, tuple(members), operations(allowed))


def _lags(rows: list[tuple[str, Any, KafkaError | None]]) -> Results[str, GroupLag]:
    def lag(row: tuple[str, list[tuple[Any, ...]]]) -> GroupLag:
        group, its = row
        partitions = (PartitionLag(TopicPartition(*tp), OffsetAndMetadata(*at), end, e) for tp, at, end, e in its)
        return GroupLag(group, tuple(partitions))

    named = [(group, (group, told), error) for group, told, error in rows]
    made: Results[str, GroupLag] = reads(str, lag, (str, GroupLag))(named)
    return made


def _shares(rows: list[tuple[str, Any, KafkaError | None]]) -> Results[str, ShareGroupDescription]:
    def group(row: tuple[str, tuple[Any, ...]]) -> ShareGroupDescription:
        name, (state, epoch, assignment_epoch, assignor, members) = row
        made = (
            ShareMember(
                member_id, rack, epoch, client_id, host, tuple(topics), tuple(TopicPartition(*tp) for tp in its)
            )
            for member_id, rack, epoch, client_id, host, topics, its in members
        )
        return ShareGroupDescription(name, state, epoch, assignment_epoch, assignor, tuple(made))

    named = [(name, (name, told), error) for name, told, error in rows]
    made: Results[str, ShareGroupDescription] = reads(str, group, (str, ShareGroupDescription))(named)
    return made


def _streams(rows: list[tuple[str, Any, KafkaError | None]]) -> Results[str, StreamsGroupDescription]:
    def tasks(row: tuple[Any, Any, Any]) -> StreamsTasks:
        return StreamsTasks(*({part: tuple(its) for part, its in kind.items()} for kind in row))

    def group(row: tuple[str, tuple[Any, ...]]) -> StreamsGroupDescription:
        name, (state, epoch, assignment_epoch, topology_epoch, parts, members) = row
        subtopologies = (Subtopology(part, *(tuple(topics) for topics in its)) for part, *its in parts)
        made = (StreamsMember(*[*whom, tasks(has), tasks(target)]) for whom, has, target in members)
        return StreamsGroupDescription(
            name, state, epoch, assignment_epoch, topology_epoch, tuple(subtopologies), tuple(made)
        )

    named = [(name, (name, told), error) for name, told, error in rows]
    made: Results[str, StreamsGroupDescription] = reads(str, group, (str, StreamsGroupDescription))(named)
    return made
