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
        """Lists the groups of all brokers by name: all groups, or the ones that match all filters.

        Args:
            states: only groups in one of these states, `Stable`, `Empty` and so on, in any case (KIP-518, Kafka 2.6).
            types: only groups of one of these types, `classic`, `consumer`, `share`, `streams`, in any case (KIP-848,
                Kafka 3.8).
            protocol_types: only groups of one of these: `consumer`, `connect`, or the empty string for a group that has
                only offsets (KIP-1043). The client compares them, so any broker version works.
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
        """Returns state and members of groups of the classic and the new protocol (KIP-848).

        Args:
            groups: names.
            include_authorized_operations: also return the operations this client is allowed (KIP-430, Kafka 2.3).
            timeout: seconds, by default `default.api.timeout.ms`.

        Returns:
            The groups, `GroupIdNotFoundError` for one that does not exist.
        """
        return _groups.describe_groups(
            self._open, groups, include_authorized_operations=include_authorized_operations, timeout=timeout
        ).wait()

    def delete_groups(self, groups: Iterable[str], *, timeout: Seconds | None = None) -> dict[str, None]:
        """Deletes groups without members, with their offsets: consumer groups, Kafka Streams groups, share groups.

        Args:
            groups: names.
            timeout: seconds, by default `default.api.timeout.ms`.

        Raises:
            PartialFailureError: some groups were not deleted, with the error of each: `NonEmptyGroupError`,
                `GroupIdNotFoundError` and others.
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
        """Removes members from a group (KIP-345). Members that still run join again.

        Args:
            group: name of the group.
            members: member ids, or `RemovedMember`s, which can name static members; by default all.
            reason: reason for the broker's log (KIP-800).
            timeout: seconds, by default `default.api.timeout.ms`.

        Raises:
            PartialFailureError: some members were not removed, with the error of each, `UnknownMemberIdError` and
                others.
            KafkaError: the request failed as a whole.
        """
        return _groups.remove_members(self._open, group, members, reason=reason, timeout=timeout).wait()

    def group_lag(
        self, groups: Iterable[str], *, read_committed: bool = False, timeout: Seconds | None = None
    ) -> Results[str, GroupLag]:
        """Returns the lag of groups in the partitions with committed offsets.

        Sends one request to each coordinator (Kafka 3.0) and each leader, regardless of the number of groups.

        Args:
            groups: names.
            read_committed: count up to the first open transaction, as far as `read_committed` consumers can read.
            timeout: seconds, by default `default.api.timeout.ms`.

        Returns:
            The groups; a group that has committed nothing has no partitions.
        """
        return _groups.group_lag(self._open, groups, read_committed=read_committed, timeout=timeout).wait()

    def describe_share_groups(
        self, groups: Iterable[str], *, timeout: Seconds | None = None
    ) -> Results[str, ShareGroupDescription]:
        """Returns state and members of share groups (KIP-932, Kafka 4.1).

        Args:
            groups: names.
            timeout: seconds, by default `default.api.timeout.ms`.

        Returns:
            The groups, `GroupIdNotFoundError` for one that does not exist.
        """
        return _groups.describe_share_groups(self._open, groups, timeout=timeout).wait()

    def describe_streams_groups(
        self, groups: Iterable[str], *, timeout: Seconds | None = None
    ) -> Results[str, StreamsGroupDescription]:
        """Returns state, topology and members of Kafka Streams groups (KIP-1071, Kafka 4.1).

        Args:
            groups: names.
            timeout: seconds, by default `default.api.timeout.ms`.

        Returns:
            The groups, `GroupIdNotFoundError` for one that does not exist.
        """
        return _groups.describe_streams_groups(self._open, groups, timeout=timeout).wait()
