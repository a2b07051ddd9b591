"""Requests for topics, their partitions and records.

Each function returns a pending call, which `Admin` waits for and `AsyncAdmin` awaits. The docstrings are at the methods
of these classes.
"""

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
    TopicListing,
    TopicPartition,
    to_pair,
    to_seconds,
)

if TYPE_CHECKING:
    from samsarrow._core import Call


@names_arguments
def create_topics(
    core: _core.Admin,
    topics: Sequence[str | NewTopic],
    *,
    num_partitions: int = 1,
    replication_factor: int = -1,
    configs: Mapping[str, str] | None = None,
    validate_only: bool = False,
    timeout: Seconds | None = None,
) -> Call[dict[str, CreatedTopic]]:
    if isinstance(topics, str):
        raise TypeError("topics must be a sequence of names or NewTopics, not one str")
    new_topics = [
        t if isinstance(t, NewTopic) else NewTopic(t, num_partitions, replication_factor, dict(configs or {}))
        for t in topics
    ]
    rows = []
    for t in new_topics:
        counts = (-1, -1) if t.assignment else (t.num_partitions, t.replication_factor)
        rows.append((t.name, *counts, [list(brokers) for brokers in t.assignment], list(t.configs.items())))
    return _core.admin_create_topics(core, rows, validate_only, to_seconds(timeout)).then(writes(str, _created))


@names_arguments
def delete_topics(
    core: _core.Admin, topics: Sequence[str | UUID], *, timeout: Seconds | None = None
) -> Call[dict[str | UUID, None]]:
    if isinstance(topics, str):
        raise TypeError("topics must be a sequence of names, not one str")
    return _core.admin_delete_topics(core, _refs(topics), to_seconds(timeout)).then(writes(_ref))


@names_arguments
def list_topics(
    core: _core.Admin, names: Iterable[str] | None = None, *, timeout: Seconds | None = None
) -> Call[Results[str, TopicListing]]:
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
    rows = [(to_pair(tp), offset) for tp, offset in before.items()]
    return _core.admin_delete_records(core, rows, to_seconds(timeout)).then(writes(_tp, lambda key, low: low))


def _refs(topics: Iterable[str | UUID]) -> list[tuple[str | None, bytes]]:
    return [(None, t.bytes) if isinstance(t, UUID) else (t, b"") for t in topics]


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
