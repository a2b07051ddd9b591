"""Offsets: committed by groups, known by leaders, for programs that wait."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from samsarrow._admin import offsets as _offsets
from samsarrow._admin.plain import Face
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


class OffsetAdmin(Face):
    """A part of `Admin`, which see."""

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
        """Commits offsets for a group, from outside of it: the group must have no members.

        Args:
            group: whose offsets.
            offsets: what to commit. Storage in ZooKeeper keeps offsets only, without metadata and leader epochs.
            api_version: of the request: 0 stores in ZooKeeper, later ones in Kafka. By default the option
                `api.version.offset_commit`, or the newest.
            retention: how long the offsets are kept, in versions 2 to 4; else the broker decides.
            timestamp: when the offsets count as committed, milliseconds since 1970 or a `datetime`, in version 1.
            timeout: seconds, by default `default.api.timeout.ms`.

        Raises:
            PartialFailureError: with the error of each partition whose offset was not committed.
            KafkaError: the request failed as a whole: the group has members, the broker no longer speaks the version,
                the coordinator cannot be reached.
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
        """What a group has committed.

        Args:
            group: whose offsets.
            partitions: to ask for; by default all that the group has, which versions 0 and 1 cannot return.
            api_version: of the request: 0 reads from ZooKeeper, later ones from Kafka. By default the option
                `api.version.offset_fetch`, or the newest.
            require_stable: wait for open transactions that hold offsets, from version 7 on.
            timeout: seconds, by default `default.api.timeout.ms`.

        Returns:
            For each partition its offset, None where nothing is committed.
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
        """What several groups have committed.

        Groups with the same coordinator share one request where the broker takes that (version 8 and later).

        Args:
            groups: names, for all that each group has, or partitions by name; None are all.
            api_version: as in `fetch_offsets`.
            require_stable: as in `fetch_offsets`.
            timeout: seconds, by default `default.api.timeout.ms`.

        Returns:
            For each group its offsets.
        """
        return _offsets.fetch_offsets_many(
            self._open, groups, api_version=api_version, require_stable=require_stable, timeout=timeout
        ).wait()

    def delete_offsets(
        self, group: str, partitions: Iterable[TopicPartition], *, timeout: Seconds | None = None
    ) -> dict[TopicPartition, None]:
        """Deletes a group's offsets of some partitions, of topics that no member subscribes to.

        Args:
            group: whose offsets.
            partitions: whose offsets.
            timeout: seconds, by default `default.api.timeout.ms`.

        Raises:
            PartialFailureError: with the error of each partition whose offset was not deleted.
            KafkaError: the request failed as a whole: there is no such group.
        """
        return _offsets.delete_offsets(self._open, group, partitions, timeout=timeout).wait()

    def list_offsets(
        self,
        partitions: Mapping[TopicPartition, OffsetSpec | int | datetime],
        *,
        read_committed: bool = False,
        timeout: Seconds | None = None,
    ) -> Results[TopicPartition, OffsetAndTimestamp | None]:
        """Offsets of partitions as their leaders know them.

        Args:
            partitions: what to look up: an `OffsetSpec`, or a time, milliseconds since 1970 or a `datetime`, for the
                first
                record at or after it.
            read_committed: take the first open transaction for the end.
            timeout: seconds, by default `default.api.timeout.ms`.

        Returns:
            The offsets, with timestamp -1 where the broker gives none; None where there is no such record.
        """
        return _offsets.list_offsets(self._open, partitions, read_committed=read_committed, timeout=timeout).wait()

    def list_share_offsets(
        self, groups: Iterable[str] | Mapping[str, Iterable[TopicPartition] | None], *, timeout: Seconds | None = None
    ) -> Results[str, Results[TopicPartition, ShareOffset | None]]:
        """Where share groups are (KIP-932, Kafka 4.1).

        Args:
            groups: names, for all that each group has, or partitions by name; None are all.
            timeout: seconds, by default `default.api.timeout.ms`.

        Returns:
            For each group its partitions, None where it has not begun.
        """
        return _offsets.list_share_offsets(self._open, groups, timeout=timeout).wait()

    def alter_share_offsets(
        self, group: str, offsets: Mapping[TopicPartition, int], *, timeout: Seconds | None = None
    ) -> dict[TopicPartition, None]:
        """Moves where a share group without members goes on (KIP-932, Kafka 4.1).

        Args:
            group: which.
            offsets: the next one by partition.
            timeout: seconds, by default `default.api.timeout.ms`.

        Raises:
            PartialFailureError: with the error of each partition that was not changed.
            KafkaError: the request failed as a whole: the group has members, or does not exist.
        """
        return _offsets.alter_share_offsets(self._open, group, offsets, timeout=timeout).wait()

    def delete_share_offsets(
        self, group: str, topics: Iterable[str], *, timeout: Seconds | None = None
    ) -> dict[str, None]:
        """Forgets where a share group without members is in topics (KIP-932, Kafka 4.1).

        Args:
            group: which.
            topics: names.
            timeout: seconds, by default `default.api.timeout.ms`.

        Raises:
            PartialFailureError: with the error of each topic that was not forgotten.
            KafkaError: the request failed as a whole: the group has members, or does not exist.
        """
        return _offsets.delete_share_offsets(self._open, group, topics, timeout=timeout).wait()
