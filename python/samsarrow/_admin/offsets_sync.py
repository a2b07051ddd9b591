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
            partitions: partitions to look up; by default all partitions with a committed offset, which versions 0 and 1
                cannot return.
            api_version: version of the request. Version 0 reads from ZooKeeper, later versions from Kafka. By default
                the option `api.version.offset_fetch`, or the newest.
            require_stable: wait until no transaction with offsets of the group is open; needs version 7 or later.
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
            groups: names of groups, or a mapping from each name to the partitions to look up, None for all partitions.
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
        """Deletes a group's committed offsets of some partitions. No member of the group may subscribe to their topics.

        Args:
            group: name of the group.
            partitions: partitions whose offsets to delete.
            timeout: seconds, by default `default.api.timeout.ms`.

        Raises:
            PartialFailureError: some offsets were not deleted. It has the error of each partition.
            KafkaError: the whole request failed, for example because the group does not exist.
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
            partitions: by partition, the offset to look up: an `OffsetSpec`; or a time (milliseconds since 1970, or a
                `datetime`) to find the first record at or after that time.
            read_committed: return the last stable offset as the end, instead of the high watermark.
            timeout: seconds, by default `default.api.timeout.ms`.

        Returns:
            The offsets; the timestamp is -1 if the broker returns none. None if no record at or after the time exists.
        """
        return _offsets.list_offsets(self._open, partitions, read_committed=read_committed, timeout=timeout).wait()

    def list_share_offsets(
        self, groups: Iterable[str] | Mapping[str, Iterable[TopicPartition] | None], *, timeout: Seconds | None = None
    ) -> Results[str, Results[TopicPartition, ShareOffset | None]]:
        """Returns the start offsets of share groups (KIP-932, Kafka 4.1).

        Args:
            groups: names of groups, or a mapping from each name to the partitions to look up, None for all partitions.
            timeout: seconds, by default `default.api.timeout.ms`.

        Returns:
            The start offset and lag by partition, for each group. None for a partition that the group has not started
            to read.
        """
        return _offsets.list_share_offsets(self._open, groups, timeout=timeout).wait()

    def alter_share_offsets(
        self, group: str, offsets: Mapping[TopicPartition, int], *, timeout: Seconds | None = None
    ) -> dict[TopicPartition, None]:
        """Sets the start offsets of a share group, which must have no members (KIP-932, Kafka 4.1).

        Args:
            group: name of the group.
            offsets: by partition, the offset of the first record to read.
            timeout: seconds, by default `default.api.timeout.ms`.

        Raises:
            PartialFailureError: the offsets of some partitions were not set. It has the error of each partition.
            KafkaError: the whole request failed, for example because the group has members or does not exist.
        """
        return _offsets.alter_share_offsets(self._open, group, offsets, timeout=timeout).wait()

    def delete_share_offsets(
        self, group: str, topics: Iterable[str], *, timeout: Seconds | None = None
    ) -> dict[str, None]:
        """Deletes the start offsets of a share group in topics; the group must have no members (KIP-932, Kafka 4.1).

        Args:
            group: name of the group.
            topics: names.
            timeout: seconds, by default `default.api.timeout.ms`.

        Raises:
            PartialFailureError: the start offsets of some topics were not deleted. It has the error of each topic.
            KafkaError: the whole request failed, for example because the group has members or does not exist.
        """
        return _offsets.delete_share_offsets(self._open, group, topics, timeout=timeout).wait()
