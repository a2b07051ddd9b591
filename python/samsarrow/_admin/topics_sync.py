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
            topics: names of topics to create with the settings below, or `NewTopic`s with settings of their own.
            num_partitions: number of partitions of topics that are passed as names; -1 for the broker's default.
            replication_factor: replication factor of topics that are passed as names; -1 for the broker's default.
            configs: settings of topics that are passed as names.
            validate_only: only check whether the topics could be created (Kafka 0.10.2).
            timeout: seconds, by default `default.api.timeout.ms`.

        Returns:
            The created topics, by name.

        Raises:
            PartialFailureError: some topics were not created. It has the error of each, such as
                `TopicAlreadyExistsError`.
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
            PartialFailureError: some topics were not deleted. It has the error of each, such as
                `UnknownTopicOrPartitionError`.
        """
        return _topics.delete_topics(self._open, topics, timeout=timeout).wait()

    def list_topics(
        self, names: Iterable[str] | None = None, *, timeout: Seconds | None = None
    ) -> Results[str, TopicListing]:
        """Lists topics by name.

        Args:
            names: names of topics to return. Topics that do not exist are omitted. Looking up a name that the brokers
                reject, such as an invalid name, raises its error. By default all topics are returned, including
                internal ones.
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
            page_size: maximum number of partitions in a response (KIP-966); brokers before 3.8 return all partitions in
                one response.
            include_authorized_operations: also return the operations that this client may perform (KIP-430, Kafka 2.3).
            timeout: seconds, by default `default.api.timeout.ms`.

        Returns:
            The topics. Looking up a topic that does not exist raises `UnknownTopicOrPartitionError`.
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
        """Adds partitions to topics (KIP-195). From then on, keys map to other partitions than before.

        Args:
            partitions: total number of partitions by topic, including existing ones.
            validate_only: only check whether the partitions could be created.
            timeout: seconds, by default `default.api.timeout.ms`.

        Raises:
            PartialFailureError: some topics got no partitions. It has the error of each topic, such as
                `InvalidPartitionsError`.
        """
        return _topics.create_partitions(self._open, partitions, validate_only=validate_only, timeout=timeout).wait()

    def delete_records(
        self, before: Mapping[TopicPartition, int], *, timeout: Seconds | None = None
    ) -> dict[TopicPartition, int]:
        """Deletes the records of partitions before given offsets (KIP-107).

        Args:
            before: by partition, the offset of the first record to keep; -1 deletes all records up to the end.
            timeout: seconds, by default `default.api.timeout.ms`.

        Returns:
            The new log start offset of each partition.

        Raises:
            PartialFailureError: records of some partitions were not deleted. It has the error of each partition:
                `OffsetOutOfRangeError` for an offset beyond the end, `PolicyViolationError` if the topic is compacted
                and its cleanup policy does not include `delete`.
        """
        return _topics.delete_records(self._open, before, timeout=timeout).wait()
