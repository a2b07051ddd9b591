"""Blocking methods of `Admin` for groups, their members and lag."""

from __future__ import annotations

from collections.abc import Iterable

from samsarrow._admin import groups as _groups
from samsarrow._admin.common import AdminBase
from samsarrow.admin_types import (
    GroupLag,
    RemovedMember,
)
from samsarrow.group_types import (
    ShareGroupDescription,
    StreamsGroupDescription,
)
from samsarrow.results import Results
from samsarrow.types import (
    GroupDescription,
    GroupListing,
    Node,
    Seconds,
)


class GroupAdmin(AdminBase):
    """Methods of `Admin` for groups, their members and lag."""

    def find_coordinator(self, group: str, *, timeout: Seconds | None = None) -> Node:
        """Returns the broker that coordinates a group.

        Args:
            group: any name; the group need not exist.
            timeout: seconds, by default `default.api.timeout.ms`.
        """
        return _groups.find_coordinator(self._open, group, timeout=timeout).wait()

    def list_groups(
        self,
        *,
        states: Iterable[str] = (),
        types: Iterable[str] = (),
        protocol_types: Iterable[str] = (),
        timeout: Seconds | None = None,
    ) -> dict[str, GroupListing]:
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
        return _groups.list_groups(
            self._open, states=states, types=types, protocol_types=protocol_types, timeout=timeout
        ).wait()

    def describe_groups(
        self,
        groups: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        timeout: Seconds | None = None,
    ) -> Results[str, GroupDescription]:
        """Returns the state and members of groups of the classic protocol and of the consumer protocol (KIP-848).

        Args:
            groups: names.
            include_authorized_operations: also return the operations that this client may perform (KIP-430, Kafka 2.3).
            timeout: seconds, by default `default.api.timeout.ms`.

        Returns:
            The groups. Looking up a group that does not exist raises `GroupIdNotFoundError`.
        """
        return _groups.describe_groups(
            self._open, groups, include_authorized_operations=include_authorized_operations, timeout=timeout
        ).wait()

    def delete_groups(self, groups: Iterable[str], *, timeout: Seconds | None = None) -> dict[str, None]:
        """Deletes groups and their offsets. The groups must have no members, and can be of any type.

        Args:
            groups: names.
            timeout: seconds, by default `default.api.timeout.ms`.

        Raises:
            PartialFailureError: some groups were not deleted. It has the error of each, such as `NonEmptyGroupError` or
                `GroupIdNotFoundError`.
        """
        return _groups.delete_groups(self._open, groups, timeout=timeout).wait()

    def remove_members(
        self,
        group: str,
        members: Iterable[str | RemovedMember] | None = None,
        *,
        reason: str = "removed by an administrator",
        timeout: Seconds | None = None,
    ) -> dict[RemovedMember, None]:
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
        return _groups.remove_members(self._open, group, members, reason=reason, timeout=timeout).wait()

    def group_lag(
        self, groups: Iterable[str], *, read_committed: bool = False, timeout: Seconds | None = None
    ) -> Results[str, GroupLag]:
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
        return _groups.group_lag(self._open, groups, read_committed=read_committed, timeout=timeout).wait()

    def describe_share_groups(
        self, groups: Iterable[str], *, timeout: Seconds | None = None
    ) -> Results[str, ShareGroupDescription]:
        """Returns the state and members of share groups (KIP-932, Kafka 4.1).

        Args:
            groups: names.
            timeout: seconds, by default `default.api.timeout.ms`.

        Returns:
            The groups. Looking up a group that does not exist raises `GroupIdNotFoundError`.
        """
        return _groups.describe_share_groups(self._open, groups, timeout=timeout).wait()

    def describe_streams_groups(
        self, groups: Iterable[str], *, timeout: Seconds | None = None
    ) -> Results[str, StreamsGroupDescription]:
        """Returns the state, topology and members of Kafka Streams groups (KIP-1071, Kafka 4.1).

        Args:
            groups: names.
            timeout: seconds, by default `default.api.timeout.ms`.

        Returns:
            The groups. Looking up a group that does not exist raises `GroupIdNotFoundError`.
        """
        return _groups.describe_streams_groups(self._open, groups, timeout=timeout).wait()
