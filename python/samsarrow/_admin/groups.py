"""Requests for groups, their members and their lag."""

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
    """Returns the broker that coordinates a group.

    Args:
        group: any name; the group need not exist.
        timeout: seconds, by default `default.api.timeout.ms`.
    """
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
    """Lists the groups of all brokers, by name. If several filters are set, a group must match all of them.

    Args:
        states: only groups in one of these states, `Stable`, `Empty` and so on, in any case (KIP-518, Kafka 2.6).
        types: only groups of one of these types, `classic`, `consumer`, `share`, `streams`, in any case (KIP-848,
            Kafka 3.8).
        protocol_types: only groups of one of these protocol types, such as `consumer`, `connect`, or the empty
            string for a group that has only offsets (KIP-1043). The client applies this filter, so it works with
            every broker version.
        timeout: seconds, by default `default.api.timeout.ms`.
    """
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
    """Returns the state and members of groups of the classic protocol and of the consumer protocol (KIP-848).

    Args:
        groups: names.
        include_authorized_operations: also return the operations that this client may perform (KIP-430, Kafka 2.3).
        timeout: seconds, by default `default.api.timeout.ms`.

    Returns:
        The groups. Looking up a group that does not exist raises `GroupIdNotFoundError`.
    """
    names = names_of("groups", groups)
    call = _core.admin_describe_groups(core, names, include_authorized_operations, to_seconds(timeout))
    return call.then(_described)


@names_arguments
def delete_groups(core: _core.Admin, groups: Iterable[str], *, timeout: Seconds | None = None) -> Call[dict[str, None]]:
    """Deletes groups and their offsets. The groups must have no members, and can be of any type.

    Args:
        groups: names.
        timeout: seconds, by default `default.api.timeout.ms`.

    Raises:
        PartialFailureError: some groups were not deleted. It has the error of each, such as `NonEmptyGroupError` or
            `GroupIdNotFoundError`.
    """
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
    """Removes members from a group (KIP-345). A removed member whose process still runs joins the group again.

    Args:
        group: name of the group.
        members: member ids, or `RemovedMember`s, which can also identify static members by `instance_id`; by
            default all members.
        reason: reason for the broker's log (KIP-800).
        timeout: seconds, by default `default.api.timeout.ms`.

    Raises:
        PartialFailureError: some members were not removed. It has the error of each, such as
            `UnknownMemberIdError`.
        KafkaError: the request failed as a whole.
    """
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
    """Returns the lag of groups in the partitions for which they have committed offsets.

    Sends one request to each coordinator (Kafka 3.0) and each leader, regardless of the number of groups.

    Args:
        groups: names.
        read_committed: count up to the last stable offset, where consumers with `read_committed` stop reading,
            instead of the high watermark.
        timeout: seconds, by default `default.api.timeout.ms`.

    Returns:
        The groups. The lag of a group without committed offsets has no partitions.
    """
    call = _core.admin_group_lag(core, names_of("groups", groups), read_committed, to_seconds(timeout))
    return call.then(_lags)


@names_arguments
def describe_share_groups(
    core: _core.Admin, groups: Iterable[str], *, timeout: Seconds | None = None
) -> Call[Results[str, ShareGroupDescription]]:
    """Returns the state and members of share groups (KIP-932, Kafka 4.1).

    Args:
        groups: names.
        timeout: seconds, by default `default.api.timeout.ms`.

    Returns:
        The groups. Looking up a group that does not exist raises `GroupIdNotFoundError`.
    """
    call = _core.admin_describe_share_groups(core, names_of("groups", groups), to_seconds(timeout))
    return call.then(_share_groups)


@names_arguments
def describe_streams_groups(
    core: _core.Admin, groups: Iterable[str], *, timeout: Seconds | None = None
) -> Call[Results[str, StreamsGroupDescription]]:
    """Returns the state, topology and members of Kafka Streams groups (KIP-1071, Kafka 4.1).

    Args:
        groups: names.
        timeout: seconds, by default `default.api.timeout.ms`.

    Returns:
        The groups. Looking up a group that does not exist raises `GroupIdNotFoundError`.
    """
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
        name, (state, epoch, assignment_epoch, topology_epoch, assignor, topology, member_rows) = row
        subtopologies = (Subtopology(part, *(tuple(topics) for topics in kinds)) for part, *kinds in topology)
        members = (
            StreamsMember(*[*member, tasks(assignment), tasks(target)]) for member, assignment, target in member_rows
        )
        return StreamsGroupDescription(
            name, state, epoch, assignment_epoch, topology_epoch, tuple(subtopologies), tuple(members), assignor
        )

    named = [(name, (name, row), error) for name, row, error in rows]
    results: Results[str, StreamsGroupDescription] = reads(str, group, (str, StreamsGroupDescription))(named)
    return results
