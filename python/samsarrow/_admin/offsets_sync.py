"""Blocking methods of `Admin` for committed offsets and partition offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from samsarrow._admin import offsets as _offsets
from samsarrow._admin.common import AdminBase
from samsarrow.admin_types import (
    OffsetSpec,
)
from samsarrow.group_types import (
    ShareOffset,
)
from samsarrow.results import Results
from samsarrow.types import (
    OffsetAndMetadata,
    OffsetAndTimestamp,
    Seconds,
    TopicPartition,
)


class OffsetAdmin(AdminBase):
    """Methods of `Admin` for committed offsets and partition offsets."""

    def commit_offsets(
        self,
        group: str,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        *,
        api_version: int | None = None,
        retention: Seconds | None = None,
        timestamp: int | datetime | None = None,
        timeout: Seconds | None = None,
    ) -> dict[TopicPartition, None]:
        """Commits offsets for a group from outside: the group must have no members.

        Args:
            group: name of the group.
            offsets: offsets to commit. ZooKeeper stores offsets only, without metadata and leader epochs.
            api_version: version of the request: 0 stores in ZooKeeper, later ones in Kafka. By default the option
                `api.version.offset_commit`, or the newest.
            retention: retention time of the offsets, in versions 2 to 4; otherwise the broker decides.
            timestamp: commit time of the offsets, milliseconds since 1970 or a `datetime`, in version 1.
            timeout: seconds, by default `default.api.timeout.ms`.

        Raises:
            PartialFailureError: some offsets were not committed, with the error of each partition.
            KafkaError: the whole request failed: the group has members, the broker no longer supports the version, the
                coordinator cannot be reached.
        """
        return _offsets.commit_offsets(
            self._open,
            group,
            offsets,
            api_version=api_version,
            retention=retention,
            timestamp=timestamp,
            timeout=timeout,
        ).wait()

    def fetch_offsets(
        self,
        group: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        api_version: int | None = None,
        require_stable: bool = False,
        timeout: Seconds | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Returns a group's committed offsets.

        Args:
            group: name of the group.
            partitions: partitions to return; by default all of the group, which versions 0 and 1 cannot return.
            api_version: version of the request: 0 reads from ZooKeeper, later ones from Kafka. By default the option
                `api.version.offset_fetch`, or the newest.
            require_stable: wait for open transactions with offsets, from version 7 on.
            timeout: seconds, by default `default.api.timeout.ms`.

        Returns:
            The offset of each partition, None without a committed offset.
        """
        return _offsets.fetch_offsets(
            self._open, group, partitions, api_version=api_version, require_stable=require_stable, timeout=timeout
        ).wait()

    def fetch_offsets_many(
        self,
        groups: Iterable[str] | Mapping[str, Iterable[TopicPartition] | None],
        *,
        api_version: int | None = None,
        require_stable: bool = False,
        timeout: Seconds | None = None,
    ) -> Results[str, dict[TopicPartition, OffsetAndMetadata | None]]:
        """Returns the committed offsets of several groups.

        Groups with the same coordinator share one request if the broker supports it (version 8 and later).

        Args:
            groups: names, for all partitions of each group, or partitions by name; None for all partitions.
            api_version: as in `fetch_offsets`.
            require_stable: as in `fetch_offsets`.
            timeout: seconds, by default `default.api.timeout.ms`.

        Returns:
            The offsets of each group.
        """
        return _offsets.fetch_offsets_many(
            self._open, groups, api_version=api_version, require_stable=require_stable, timeout=timeout
        ).wait()

    def delete_offsets(
        self, group: str, partitions: Iterable[TopicPartition], *, timeout: Seconds | None = None
    ) -> dict[TopicPartition, None]:
        """Deletes a group's offsets in some partitions, of topics that no member subscribes to.

        Args:
            group: name of the group.
            partitions: partitions whose offsets to delete.
            timeout: seconds, by default `default.api.timeout.ms`.

        Raises:
            PartialFailureError: some offsets were not deleted, with the error of each partition.
            KafkaError: the whole request failed: the group does not exist.
        """
        return _offsets.delete_offsets(self._open, group, partitions, timeout=timeout).wait()

    def list_offsets(
        self,
        partitions: Mapping[TopicPartition, OffsetSpec | int | datetime],
        *,
        read_committed: bool = False,
        timeout: Seconds | None = None,
    ) -> Results[TopicPartition, OffsetAndTimestamp | None]:
        """Looks up offsets of partitions at their leaders.

        Args:
            partitions: offset to look up, by partition: an `OffsetSpec`, or a time, milliseconds since 1970 or a
                `datetime`, for the first record at or after it.
            read_committed: treat the first open transaction as the end.
            timeout: seconds, by default `default.api.timeout.ms`.

        Returns:
            The offsets, with timestamp -1 if the broker returns none; None if no such record exists.
        """
        return _offsets.list_offsets(self._open, partitions, read_committed=read_committed, timeout=timeout).wait()

    def list_share_offsets(
        self, groups: Iterable[str] | Mapping[str, Iterable[TopicPartition] | None], *, timeout: Seconds | None = None
    ) -> Results[str, Results[TopicPartition, ShareOffset | None]]:
        """Returns the positions of share groups (KIP-932, Kafka 4.1).

        Args:
            groups: names, for all partitions of each group, or partitions by name; None for all partitions.
            timeout: seconds, by default `default.api.timeout.ms`.

        Returns:
            The partitions of each group, None for a partition that it has not started to read.
        """
        return _offsets.list_share_offsets(self._open, groups, timeout=timeout).wait()

    def alter_share_offsets(
        self, group: str, offsets: Mapping[TopicPartition, int], *, timeout: Seconds | None = None
    ) -> dict[TopicPartition, None]:
        """Moves the positions of a share group without members (KIP-932, Kafka 4.1).

        Args:
            group: name of the group.
            offsets: the next offset by partition.
            timeout: seconds, by default `default.api.timeout.ms`.

        Raises:
            PartialFailureError: some partitions were not changed, with the error of each.
            KafkaError: the whole request failed: the group has members, or does not exist.
        """
        return _offsets.alter_share_offsets(self._open, group, offsets, timeout=timeout).wait()

    def delete_share_offsets(
        self, group: str, topics: Iterable[str], *, timeout: Seconds | None = None
    ) -> dict[str, None]:
        """Deletes the positions of a share group without members in topics (KIP-932, Kafka 4.1).

        Args:
            group: name of the group.
            topics: names.
            timeout: seconds, by default `default.api.timeout.ms`.

        Raises:
            PartialFailureError: some topics were not deleted from the group, with the error of each.
            KafkaError: the whole request failed: the group has members, or does not exist.
        """
        return _offsets.delete_share_offsets(self._open, group, topics, timeout=timeout).wait()
