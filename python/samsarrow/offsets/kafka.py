"""Stores of offsets in Kafka, and in the ZooKeeper of brokers before 4.0."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, TypeVar

from samsarrow.admin import Admin
from samsarrow.exceptions import ConfigurationError, KafkaError
from samsarrow.offsets.store import Found, Offsets, check_group, listed, normal
from samsarrow.results import PartialFailureError, failure
from samsarrow.types import OffsetAndMetadata, Seconds, TopicPartition

T = TypeVar("T")
BATCH = 1000
"""Maximum number of partitions in one request."""


def batches(items: Iterable[T], size: int = BATCH) -> Iterator[list[T]]:
    """Yields the items in lists of up to `size` items."""
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch


class _BrokerStore:
    """Base of both stores, which access the offsets of a group through an `Admin`."""

    # Version of OffsetCommit and OffsetFetch; None for the newest version.
    _version: int | None = None

    def __init__(
        self,
        group: str,
        config: Mapping[str, Any] | None = None,
        *,
        admin: Admin | None = None,
        timeout: Seconds | None = None,
        **options: Any,
    ) -> None:
        if admin is not None and not isinstance(admin, Admin):
            raise TypeError(f"admin must be an Admin, not {type(admin).__name__}: offset stores block")
        if admin is not None and (config or options):
            raise ConfigurationError("an admin client has its own options: pass either a client or options")
        self.group = check_group(group)
        self._own = admin is None
        self._admin = admin if admin is not None else Admin(config, **self._options(config, options))
        self._timeout = timeout

    def __repr__(self) -> str:
        return f"<{type(self).__name__} group={self.group!r} of {self._admin!r}>"

    def _options(self, config: Mapping[str, Any] | None, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns the options of the admin client. Rejects request versions that access the other storage."""
        given = config if isinstance(config, Mapping) else {}
        for name, value in [*given.items(), *options.items()]:
            if str(name).replace("_", ".") in ("api.version.offset.commit", "api.version.offset.fetch") and (
                self._version == 0 or str(value).strip() == "0"
            ):
                text = f"option {name}={value} is not allowed here: the version follows from {type(self).__name__}"
                raise ConfigurationError(text)
        return options

    def store(self, offsets: Offsets) -> None:
        """Commits offsets, a thousand partitions per request.

        Args:
            offsets: offsets by partition.

        Raises:
            PartialFailureError: some offsets were not committed. It has the error of each partition.
            KafkaError: a request failed as a whole, for example because the group has members, or the broker no longer
                supports the version.
        """
        failures: dict[TopicPartition, KafkaError] = {}
        succeeded: dict[TopicPartition, None] = {}
        for batch in batches(normal(offsets).items()):
            try:
                succeeded |= self._admin.commit_offsets(
                    self.group, dict(batch), api_version=self._version, timeout=self._timeout
                )
            except PartialFailureError as partial:
                failures |= partial.failures
                succeeded |= partial.succeeded
        if failures:
            raise failure(failures, succeeded)

    def close(self) -> None:
        """Closes the admin client, if the store created it. May be called again."""
        if self._own:
            self._admin.close()

    def _load(self, partitions: Iterable[TopicPartition]) -> Found:
        found: Found = {}
        for batch in batches(partitions if isinstance(partitions, Iterator) else listed(partitions)):
            found |= self._admin.fetch_offsets(self.group, batch, api_version=self._version, timeout=self._timeout)
        return found


class KafkaOffsetStore(_BrokerStore):
    """Store of a group's committed offsets in Kafka.

    Args:
        group: name of the group.
        config: options with dotted names, as for `Admin`.
        admin: an admin client to use instead of options. Closing the store does not close it.
        timeout: seconds for each call, by default `default.api.timeout.ms`.
        **options: the same options as keywords.
    """

    def load(self, partitions: Iterable[TopicPartition] | None = None) -> Found:
        """Returns the group's committed offsets.

        Args:
            partitions: partitions to return; by default all of the group.
        """
        if partitions is None:
            return self._admin.fetch_offsets(self.group, timeout=self._timeout)
        return self._load(partitions)


class ZooKeeperOffsetStore(_BrokerStore):
    """Store of a group's offsets in ZooKeeper, through a broker before Kafka 4.0 (version 0 of the requests).

    ZooKeeper stores only the offsets. Metadata and leader epochs are lost.

    Args:
        group: name of the group.
        config: options with dotted names, as for `Admin`.
        admin: an admin client to use instead of options. Closing the store does not close it.
        timeout: seconds for each call, by default `default.api.timeout.ms`.
        **options: the same options as keywords.
    """

    _version = 0
    offsets_only = True

    def load(self, partitions: Iterable[TopicPartition] | None = None) -> Found:
        """Returns stored offsets.

        Args:
            partitions: partitions to return. By default the store requests every partition of every topic, because
                brokers cannot list the offsets in ZooKeeper.
        """
        if partitions is not None:
            return self._load(partitions)
        topics = self._admin.list_topics(timeout=self._timeout)
        everything = (TopicPartition(name, p) for name, topic in topics.items() for p in range(topic.partitions))
        return {tp: offset for tp, offset in self._load(everything).items() if offset is not None}

    def store(self, offsets: Offsets) -> None:
        """Stores offsets, a thousand partitions per request, without their metadata and leader epochs.

        Args:
            offsets: offsets by partition.
        """
        super().store({tp: OffsetAndMetadata(offset.offset) for tp, offset in normal(offsets).items()})
