"""Blocking methods of `Admin` for topics, their partitions and records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from samsarrow._admin import topics as _topics
from samsarrow._admin.common import AdminBase
from samsarrow.admin_types import (
    CreatedTopic,
    NewPartitions,
    TopicDescription,
)
from samsarrow.results import Results
from samsarrow.types import (
    NewTopic,
    Seconds,
    TopicListing,
    TopicPartition,
)


class TopicAdmin(AdminBase):
    """Methods of `Admin` for topics, their partitions and records."""

    def create_topics(
        self,
        topics: Sequence[str | NewTopic],
        *,
        num_partitions: int = 1,
        replication_factor: int = -1,
        configs: Mapping[str, str] | None = None,
        validate_only: bool = False,
        timeout: Seconds | None = None,
    ) -> dict[str, CreatedTopic]:
        """Creates topics.

        Args:
            topics: names, which take the settings below, or `NewTopic`s with their own.
            num_partitions: for names; -1 for the broker's default.
            replication_factor: for names; -1 for the broker's default.
            configs: for names.
            validate_only: only check whether the topics could be created (Kafka 0.10.2).
            timeout: seconds, by default `default.api.timeout.ms`.

        Returns:
            The topics by name.

        Raises:
            PartialFailureError: some topics were not created, with the error of each, `TopicAlreadyExistsError` and
                others.
        """
        return _topics.create_topics(
            self._open,
            topics,
            num_partitions=num_partitions,
            replication_factor=replication_factor,
            configs=configs,
            validate_only=validate_only,
            timeout=timeout,
        ).wait()

    def delete_topics(self, topics: Sequence[str | UUID], *, timeout: Seconds | None = None) -> dict[str | UUID, None]:
        """Deletes topics.

        Args:
            topics: names, or ids (KIP-516, Kafka 2.8).
            timeout: seconds, by default `default.api.timeout.ms`.

        Raises:
            PartialFailureError: some topics were not deleted, with the error of each, `UnknownTopicOrPartitionError`
                and others.
        """
        return _topics.delete_topics(self._open, topics, timeout=timeout).wait()

    def list_topics(
        self, names: Iterable[str] | None = None, *, timeout: Seconds | None = None
    ) -> Results[str, TopicListing]:
        """Lists topics by name.

        Args:
            names: topics to return; missing ones are omitted, and a name that the brokers reject, such as an invalid
                one, has its own error. By default all topics, internal ones included.
            timeout: seconds, by default `default.api.timeout.ms`.
        """
        return _topics.list_topics(self._open, names, timeout=timeout).wait()

    def describe_topics(
        self,
        topics: Iterable[str | UUID],
        *,
        page_size: int = 2000,
        include_authorized_operations: bool = False,
        timeout: Seconds | None = None,
    ) -> Results[str | UUID, TopicDescription]:
        """Describes topics with their partitions, leaders and replicas.

        Args:
            topics: names, or ids (KIP-516, Kafka 3.1).
            page_size: maximum number of partitions in a response (KIP-966); brokers before 3.8 return all together.
            include_authorized_operations: also return the operations this client is allowed (KIP-430, Kafka 2.3).
            timeout: seconds, by default `default.api.timeout.ms`.

        Returns:
            The topics, `UnknownTopicOrPartitionError` for one that does not exist.
        """
        return _topics.describe_topics(
            self._open,
            topics,
            page_size=page_size,
            include_authorized_operations=include_authorized_operations,
            timeout=timeout,
        ).wait()

    def create_partitions(
        self,
        partitions: Mapping[str, int | NewPartitions],
        *,
        validate_only: bool = False,
        timeout: Seconds | None = None,
    ) -> dict[str, None]:
        """Adds partitions to topics (KIP-195). Records with keys go to different partitions from then on.

        Args:
            partitions: total number of partitions by topic, including existing ones.
            validate_only: only check whether the partitions could be created.
            timeout: seconds, by default `default.api.timeout.ms`.

        Raises:
            PartialFailureError: some topics were not changed, with the error of each, `InvalidPartitionsError` and
                others.
        """
        return _topics.create_partitions(self._open, partitions, validate_only=validate_only, timeout=timeout).wait()

    def delete_records(
        self, before: Mapping[TopicPartition, int], *, timeout: Seconds | None = None
    ) -> dict[TopicPartition, int]:
        """Deletes the records before an offset (KIP-107).

        Args:
            before: the offset by partition; -1 is the end, which deletes all records.
            timeout: seconds, by default `default.api.timeout.ms`.

        Returns:
            The new first offset of each partition.

        Raises:
            PartialFailureError: some partitions were not changed, with the error of each: `OffsetOutOfRangeError` for
                an offset beyond the end, `PolicyViolationError` for a topic that is only compacted.
        """
        return _topics.delete_records(self._open, before, timeout=timeout).wait()
