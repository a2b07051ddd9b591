"""Requests for topics, their partitions and records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from samsarrow import _core
from samsarrow._admin.common import operations
from samsarrow._admin.common import to_partition as _tp
from samsarrow._arguments import names_arguments
from samsarrow.admin_types import (
    CreatedTopic,
    NewPartitions,
    PartitionDescription,
    TopicDescription,
)
from samsarrow.results import Results, reads, writes
from samsarrow.types import (
    NewTopic,
    Seconds,
    Setting,
    TopicListing,
    TopicPartition,
    to_pair,
    to_seconds,
    to_setting,
)

if TYPE_CHECKING:
    from samsarrow._core import Call


@names_arguments
def create_topics(
    core: _core.Admin,
    topics: Sequence[str | NewTopic],
    *,
    num_partitions: int = -1,
    replication_factor: int = -1,
    configs: Mapping[str, Setting] | None = None,
    validate_only: bool = False,
    timeout: Seconds | None = None,
) -> Call[dict[str, CreatedTopic]]:
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
    if isinstance(topics, str):
        raise TypeError("topics must be a sequence of names or NewTopics, not one str")
    if isinstance(topics, Mapping):
        raise TypeError("topics must be a sequence of names or NewTopics, not a mapping, whose values would be lost")
    new_topics = [
        t if isinstance(t, NewTopic) else NewTopic(t, num_partitions, replication_factor, dict(configs or {}))
        for t in topics
    ]
    rows = []
    for t in new_topics:
        counts = (-1, -1) if t.assignment else (t.num_partitions, t.replication_factor)
        settings = [(name, to_setting(name, value)) for name, value in t.configs.items()]
        rows.append((t.name, *counts, [list(brokers) for brokers in t.assignment], settings))
    return _core.admin_create_topics(core, rows, validate_only, to_seconds(timeout)).then(writes(str, _created))


@names_arguments
def delete_topics(
    core: _core.Admin, topics: Sequence[str | UUID], *, timeout: Seconds | None = None
) -> Call[dict[str | UUID, None]]:
    """Deletes topics.

    A name stands for the topic that has it during the call. Topics are deleted by id, so that neither a repeated
    request nor one that arrives late deletes a topic that was created again with the name. Kafka before 2.8 has no
    ids, and a request that timed out may delete the new topic there.

    Args:
        topics: names, or ids (KIP-516, Kafka 2.8).
        timeout: seconds, by default `default.api.timeout.ms`.

    Raises:
        PartialFailureError: some topics were not deleted. It has the error of each, such as
            `UnknownTopicOrPartitionError`.
    """
    if isinstance(topics, str):
        raise TypeError("topics must be a sequence of names, not one str")
    return _core.admin_delete_topics(core, _refs(topics), to_seconds(timeout)).then(writes(_ref))


@names_arguments
def list_topics(
    core: _core.Admin, names: Iterable[str] | None = None, *, timeout: Seconds | None = None
) -> Call[Results[str, TopicListing]]:
    """Lists topics by name.

    Args:
        names: names of topics to return. Topics that do not exist are omitted. Looking up a name that the brokers
            reject, such as an invalid name, raises its error. By default all topics are returned, including
            internal ones.
        timeout: seconds, by default `default.api.timeout.ms`.
    """
    if isinstance(names, str):
        raise TypeError("names must be several names, not one str")
    names = None if names is None else list(names)
    call = _core.admin_list_topics(core, names, to_seconds(timeout))
    return call.then(_listings)


@names_arguments
def describe_topics(
    core: _core.Admin,
    topics: Iterable[str | UUID],
    *,
    page_size: int = 2000,
    include_authorized_operations: bool = False,
    timeout: Seconds | None = None,
) -> Call[Results[str | UUID, TopicDescription]]:
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
    if isinstance(topics, str):
        raise TypeError("topics must be several names or ids, not one str")
    refs = _refs(topics)
    call = _core.admin_describe_topics(core, refs, page_size, include_authorized_operations, to_seconds(timeout))
    return call.then(reads(_ref, _described, (str, TopicDescription)))


@names_arguments
def create_partitions(
    core: _core.Admin,
    partitions: Mapping[str, int | NewPartitions],
    *,
    validate_only: bool = False,
    timeout: Seconds | None = None,
) -> Call[dict[str, None]]:
    """Adds partitions to topics (KIP-195). From then on, keys map to other partitions than before.

    Args:
        partitions: total number of partitions by topic, including existing ones.
        validate_only: only check whether the partitions could be created.
        timeout: seconds, by default `default.api.timeout.ms`.

    Raises:
        PartialFailureError: some topics got no partitions. It has the error of each topic, such as
            `InvalidPartitionsError`.
    """
    rows = []
    for topic, count in partitions.items():
        new = count if isinstance(count, NewPartitions) else NewPartitions(count)
        assignment = None if new.assignment is None else [list(brokers) for brokers in new.assignment]
        rows.append((topic, new.count, assignment))
    return _core.admin_create_partitions(core, rows, validate_only, to_seconds(timeout)).then(writes(str))


@names_arguments
def delete_records(
    core: _core.Admin, before: Mapping[TopicPartition, int], *, timeout: Seconds | None = None
) -> Call[dict[TopicPartition, int]]:
    """Deletes the records of partitions before given offsets (KIP-107).

    Args:
        before: by partition, the offset of the first record to keep; -1 deletes all records up to the end that the
            partition has now.
        timeout: seconds, by default `default.api.timeout.ms`.

    Returns:
        The new log start offset of each partition.

    Raises:
        PartialFailureError: records of some partitions were not deleted. It has the error of each partition:
            `OffsetOutOfRangeError` for an offset beyond the end, `PolicyViolationError` if the topic is compacted
            and its cleanup policy does not include `delete`.
    """
    rows = [(to_pair(tp), offset) for tp, offset in before.items()]
    return _core.admin_delete_records(core, rows, to_seconds(timeout)).then(writes(_tp, lambda key, low: low))


def _refs(topics: Iterable[str | UUID]) -> list[tuple[str | None, bytes]]:
    return [(None, t.bytes) if isinstance(t, UUID) else (_name(t), b"") for t in topics]


def _name(topic: str) -> str:
    # In the tuples of `_refs`, None stands for a topic with an id.
    if topic is None:
        raise TypeError("a topic is a name or an id, not None")
    return topic


def _ref(raw: tuple[str | None, bytes | list[int]]) -> str | UUID:
    name, topic_id = raw
    return UUID(bytes=bytes(topic_id)) if name is None else name


def _uuid(raw: bytes | list[int]) -> UUID | None:
    uuid = UUID(bytes=bytes(raw))
    return uuid if uuid.int else None


def _created(name: str, row: tuple[bytes | list[int], int, int]) -> CreatedTopic:
    topic_id, partitions, replicas = row
    return CreatedTopic(
        name, _uuid(topic_id), partitions if partitions >= 0 else None, replicas if replicas >= 0 else None
    )


def _described(
    row: tuple[str, bytes | list[int], bool, list[tuple[Any, ...]], list[int] | None],
) -> TopicDescription:
    name, topic_id, internal, rows, allowed = row
    partitions = tuple(_partition(*p) for p in rows)
    return TopicDescription(name, _uuid(topic_id), internal, partitions, operations(allowed))


def _partition(number: int, leader: int | None, epoch: int | None, *lists: list[int] | None) -> PartitionDescription:
    replicas, isr, offline, eligible, last = (None if brokers is None else tuple(brokers) for brokers in lists)
    return PartitionDescription(number, leader, epoch, replicas or (), isr or (), offline or (), eligible, last)


def _listings(rows: list[tuple[str, tuple[bytes | list[int], int, bool], Any]]) -> Results[str, TopicListing]:
    listings, errors = {}, {}
    for name, row, error in rows:
        if error is None:
            topic_id, partitions, internal = row
            listings[name] = TopicListing(name, _uuid(topic_id), partitions, internal)
        else:
            errors[name] = error
    return Results(listings, errors, [name for name, _, _ in rows], str, TopicListing)
