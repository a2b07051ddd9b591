"""Topics: create, delete, list."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any
from uuid import UUID

from samsarrow import _core
from samsarrow.config import merge
from samsarrow.exceptions import ClosedError
from samsarrow.types import NewTopic, Seconds, TopicListing, to_seconds


class Admin:
    """Administers topics. No connection is made before the first call.

    Args:
        config: options with dotted names, `{"bootstrap.servers": "localhost:9092"}`.
        **options: the same as keywords, `bootstrap_servers="localhost:9092"`. docs/options.md lists all.

    Raises:
        ConfigurationError: an option is unknown, given twice or has a value that cannot be.
    """

    def __init__(self, config: Mapping[str, Any] | None = None, **options: Any) -> None:
        self._core: _core.Admin | None = _core.Admin(merge(config, options))

    @property
    def _open(self) -> _core.Admin:
        if self._core is None:
            raise ClosedError("the admin client is closed")
        return self._core

    def create_topics(
        self,
        topics: Sequence[str | NewTopic],
        *,
        num_partitions: int = 1,
        replication_factor: int = -1,
        configs: Mapping[str, str] | None = None,
        timeout: Seconds | None = None,
    ) -> None:
        """Creates topics.

        Args:
            topics: names, which take the settings below, or `NewTopic`s with their own.
            num_partitions: for names; -1 takes the broker's default.
            replication_factor: for names; -1 takes the broker's default.
            configs: for names.
            timeout: seconds, by default `default.api.timeout.ms`.

        Raises:
            TopicAlreadyExistsError: and other errors of the protocol. All topics are tried; the first failure is
                raised, with notes about the others.
        """
        if isinstance(topics, str):
            raise TypeError("topics must be a sequence of names or NewTopics, not one str")
        wanted = [
            t if isinstance(t, NewTopic) else NewTopic(t, num_partitions, replication_factor, dict(configs or {}))
            for t in topics
        ]
        plain = [(t.name, t.num_partitions, t.replication_factor, list(t.configs.items())) for t in wanted]
        _raise_first(self._open.create_topics(plain, to_seconds(timeout)))

    def delete_topics(self, topics: Sequence[str], *, timeout: Seconds | None = None) -> None:
        """Deletes topics.

        Args:
            topics: names.
            timeout: seconds, by default `default.api.timeout.ms`.

        Raises:
            UnknownTopicOrPartitionError: and other errors of the protocol, as with `create_topics`.
        """
        if isinstance(topics, str):
            raise TypeError("topics must be a sequence of names, not one str")
        _raise_first(self._open.delete_topics(list(topics), to_seconds(timeout)))

    def list_topics(self, *, timeout: Seconds | None = None) -> dict[str, TopicListing]:
        """All topics by name, Kafka's own included.

        Args:
            timeout: seconds, by default `default.api.timeout.ms`.
        """
        listed = self._open.list_topics(to_seconds(timeout))
        found = {}
        for name, raw, partitions, internal in listed:
            topic_id = UUID(bytes=bytes(raw))
            found[name] = TopicListing(name, topic_id if topic_id.int else None, partitions, internal)
        return found

    def close(self) -> None:
        """Ends all connections. May be called again."""
        core, self._core = self._core, None
        if core is not None:
            core.close()

    def __enter__(self) -> Admin:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _raise_first(outcomes: Iterable[tuple[str, Exception | None]]) -> None:
    failures = [error for _, error in outcomes if error is not None]
    if failures:
        for other in failures[1:]:
            failures[0].add_note(f"and {other}")
        raise failures[0]
