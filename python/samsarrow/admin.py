"""Topics, groups and their offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any
from uuid import UUID

from samsarrow import _core
from samsarrow.config import merge
from samsarrow.exceptions import ClosedError, KafkaError
from samsarrow.types import (
    GroupDescription,
    GroupListing,
    MemberDescription,
    NewTopic,
    Node,
    OffsetAndMetadata,
    Seconds,
    TopicListing,
    TopicPartition,
    to_committed,
    to_milliseconds,
    to_pair,
    to_seconds,
)

GroupOffsets = dict[TopicPartition, OffsetAndMetadata | None]


class Admin:
    """Administers topics, groups and their offsets. No connection is made before the first call.

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

    def list_topics(
        self, names: Iterable[str] | None = None, *, timeout: Seconds | None = None
    ) -> dict[str, TopicListing]:
        """Topics by name.

        Args:
            names: to ask for, of which those that do not exist are left out; by default all, Kafka's own included.
            timeout: seconds, by default `default.api.timeout.ms`.
        """
        if isinstance(names, str):
            raise TypeError("names must be several names, not one str")
        listed = self._open.list_topics(None if names is None else list(names), to_seconds(timeout))
        found = {}
        for name, raw, partitions, internal in listed:
            topic_id = UUID(bytes=bytes(raw))
            found[name] = TopicListing(name, topic_id if topic_id.int else None, partitions, internal)
        return found

    def commit_offsets(
        self,
        group: str,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        *,
        api_version: int | None = None,
        retention: Seconds | None = None,
        timestamp: int | datetime | None = None,
        timeout: Seconds | None = None,
    ) -> dict[TopicPartition, KafkaError | None]:
        """Commits offsets for a group, from outside of it: the group must have no members.

        Args:
            group: whose offsets.
            offsets: what to commit. Storage in ZooKeeper keeps offsets only, without metadata and leader epochs.
            api_version: of the request: 0 stores in ZooKeeper, later ones in Kafka. By default the option
                `api.version.offset_commit`, or the newest.
            retention: how long the offsets are kept, in versions 2 to 4; else the broker decides.
            timestamp: when the offsets count as committed, milliseconds since 1970 or a `datetime`, in version 1.
            timeout: seconds, by default `default.api.timeout.ms`.

        Returns:
            For each partition None, or why its offset was not committed.

        Raises:
            KafkaError: the request failed as a whole: the group has members, the broker no longer speaks the version,
                the coordinator cannot be reached.
        """
        plain = [(to_pair(tp), to_committed(o)) for tp, o in offsets.items()]
        when = None if timestamp is None else to_milliseconds(timestamp)
        done = self._open.commit_offsets(group, plain, api_version, to_seconds(retention), when, to_seconds(timeout))
        return {TopicPartition(*tp): error for tp, error in done}

    def fetch_offsets(
        self,
        group: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        api_version: int | None = None,
        require_stable: bool = False,
        timeout: Seconds | None = None,
    ) -> GroupOffsets:
        """What a group has committed.

        Args:
            group: whose offsets.
            partitions: to ask for; by default all that the group has, which versions 0 and 1 cannot tell.
            api_version: of the request: 0 reads from ZooKeeper, later ones from Kafka. By default the option
                `api.version.offset_fetch`, or the newest.
            require_stable: wait for open transactions that hold offsets, from version 7 on.
            timeout: seconds, by default `default.api.timeout.ms`.

        Returns:
            For each partition its offset, None where nothing is committed.
        """
        asked = None if partitions is None else list(partitions)
        found = self.fetch_offsets_many(
            {group: asked}, api_version=api_version, require_stable=require_stable, timeout=timeout
        )[group]
        if isinstance(found, KafkaError):
            raise found
        return found

    def fetch_offsets_many(
        self,
        groups: Iterable[str] | Mapping[str, Iterable[TopicPartition] | None],
        *,
        api_version: int | None = None,
        require_stable: bool = False,
        timeout: Seconds | None = None,
    ) -> dict[str, GroupOffsets | KafkaError]:
        """What several groups have committed.

        Groups with the same coordinator share one request where the broker takes that (version 8 and later).

        Args:
            groups: names, for all that each group has, or partitions by name; None are all.
            api_version: as in `fetch_offsets`.
            require_stable: as in `fetch_offsets`.
            timeout: seconds, by default `default.api.timeout.ms`.

        Returns:
            For each group its offsets, or why they cannot be told.
        """
        if isinstance(groups, str):
            raise TypeError("groups must be several names or a mapping, not one str")
        wanted: Mapping[str, Iterable[TopicPartition] | None]
        wanted = groups if isinstance(groups, Mapping) else dict.fromkeys(groups)
        plain = [(group, None if tps is None else [to_pair(tp) for tp in tps]) for group, tps in wanted.items()]
        found = self._open.fetch_offsets(plain, api_version, require_stable, to_seconds(timeout))
        return {
            group: error or {TopicPartition(*tp): None if at is None else OffsetAndMetadata(*at) for tp, at in offsets}
            for group, offsets, error in found
        }

    def find_coordinator(self, group: str, *, timeout: Seconds | None = None) -> Node:
        """The broker that coordinates a group.

        Args:
            group: any name; the group need not exist.
            timeout: seconds, by default `default.api.timeout.ms`.
        """
        return Node(*self._open.find_coordinator(group, to_seconds(timeout)))

    def list_groups(self, *, timeout: Seconds | None = None) -> dict[str, GroupListing]:
        """All groups of all brokers by name.

        Args:
            timeout: seconds, by default `default.api.timeout.ms`.
        """
        return {row[0]: GroupListing(*row) for row in self._open.list_groups(to_seconds(timeout))}

    def describe_groups(
        self, groups: Iterable[str], *, timeout: Seconds | None = None
    ) -> dict[str, GroupDescription | KafkaError]:
        """State and members of groups, of the classic and of the new protocol (KIP-848).

        Args:
            groups: names.
            timeout: seconds, by default `default.api.timeout.ms`.

        Returns:
            For each group its description, or why there is none, `GroupIdNotFoundError` for one that does not exist.
        """
        found = self._open.describe_groups(_names(groups), to_seconds(timeout))
        return {group: _described(group, told) if told else _failure(error) for group, told, error in found}

    def delete_groups(self, groups: Iterable[str], *, timeout: Seconds | None = None) -> dict[str, KafkaError | None]:
        """Deletes groups without members, and their offsets.

        Args:
            groups: names.
            timeout: seconds, by default `default.api.timeout.ms`.

        Returns:
            For each group None, or why it was not deleted.
        """
        return dict(self._open.delete_groups(_names(groups), to_seconds(timeout)))

    def delete_offsets(
        self, group: str, partitions: Iterable[TopicPartition], *, timeout: Seconds | None = None
    ) -> dict[TopicPartition, KafkaError | None]:
        """Deletes a group's offsets of some partitions, of topics that no member subscribes to.

        Args:
            group: whose offsets.
            partitions: whose offsets.
            timeout: seconds, by default `default.api.timeout.ms`.

        Returns:
            For each partition None, or why its offset was not deleted.

        Raises:
            KafkaError: the request failed as a whole: there is no such group.
        """
        plain = [to_pair(tp) for tp in partitions]
        return {TopicPartition(*tp): e for tp, e in self._open.delete_offsets(group, plain, to_seconds(timeout))}

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


def _names(groups: Iterable[str]) -> list[str]:
    if isinstance(groups, str):
        raise TypeError("groups must be several names, not one str")
    return list(dict.fromkeys(groups))


def _failure(error: KafkaError | None) -> KafkaError:
    assert error is not None, "the core gives the one or the other"
    return error


def _described(group: str, told: tuple[Any, ...]) -> GroupDescription:
    kind, state, protocol_type, assignor, rows = told
    members = []
    for member_id, instance_id, client_id, host, assignment, target in rows:
        its = tuple(TopicPartition(*tp) for tp in assignment)
        coming = None if target is None else tuple(TopicPartition(*tp) for tp in target)
        members.append(MemberDescription(member_id, instance_id, client_id, host, its, coming))
    return GroupDescription(group, kind, state, protocol_type, assignor, tuple(members))
