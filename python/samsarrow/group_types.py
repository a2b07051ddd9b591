"""Types for share groups and Kafka Streams groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from samsarrow._html import HtmlRepr
from samsarrow.types import TopicPartition


@dataclass(frozen=True, slots=True)
class ShareMember:
    """A member of a share group.

    Attributes:
        member_id: id of the member.
        rack: rack of the member; None if unknown.
        epoch: epoch of the member.
        client_id: client id of the member.
        host: host of the member.
        topics: topics to which the member subscribes.
        assignment: assigned partitions.
    """

    member_id: str
    rack: str | None
    epoch: int
    client_id: str
    host: str
    topics: tuple[str, ...]
    assignment: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class ShareGroupDescription(HtmlRepr):
    """A share group (KIP-932).

    Attributes:
        group: name of the group.
        state: state of the group, such as `Stable` or `Empty`.
        epoch: number that increases with each change of members or subscriptions.
        assignment_epoch: epoch of the assignment.
        assignor: name of the assignor.
        members: members in the order of their ids.
    """

    group: str
    state: str
    epoch: int
    assignment_epoch: int
    assignor: str
    members: tuple[ShareMember, ...]


@dataclass(frozen=True, slots=True)
class ShareOffset:
    """The progress of a share group in a partition.

    Attributes:
        start: share-partition start offset. All records before it are finished. Brokers store it after a delay, so
            records from it on may be finished too; `lag` counts correctly.
        leader_epoch: leader epoch of that record, if known.
        lag: number of records that are not finished; None from brokers before 4.2.
    """

    start: int
    leader_epoch: int | None
    lag: int | None


@dataclass(frozen=True, slots=True)
class Subtopology:
    """A subtopology: a part of a topology that runs independently.

    Attributes:
        id: id of the subtopology.
        sources: source topics.
        sinks: repartition topics to which the subtopology writes.
        changelogs: topics that store the state of the subtopology.
        repartitions: repartition topics that the subtopology reads.
    """

    id: str
    sources: tuple[str, ...]
    sinks: tuple[str, ...]
    changelogs: tuple[str, ...]
    repartitions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StreamsTasks:
    """The tasks of a member, by the id of their subtopology.

    Attributes:
        active: tasks that the member processes.
        standby: tasks whose state the member replicates.
        warmup: tasks whose state the member is restoring before it processes them.
    """

    active: Mapping[str, tuple[int, ...]]
    standby: Mapping[str, tuple[int, ...]]
    warmup: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class StreamsMember:
    """A member of a Kafka Streams group.

    Attributes:
        member_id: id of the member.
        epoch: epoch of the member.
        instance_id: id of a static member.
        rack: rack of the member; None if unknown.
        client_id: client id of the member.
        host: host of the member.
        topology_epoch: epoch of the member's topology.
        process_id: id of the process that the member belongs to.
        assignment: assigned tasks.
        target: tasks that the member will be assigned.
    """

    member_id: str
    epoch: int
    instance_id: str | None
    rack: str | None
    client_id: str
    host: str
    topology_epoch: int
    process_id: str
    assignment: StreamsTasks
    target: StreamsTasks


@dataclass(frozen=True, slots=True)
class StreamsGroupDescription(HtmlRepr):
    """A Kafka Streams group (KIP-1071).

    Attributes:
        group: name of the group.
        state: state of the group, such as `Stable` or `Empty`.
        epoch: number that increases with each change of members or of the topology.
        assignment_epoch: epoch of the assignment.
        topology_epoch: epoch of the topology; -1 if the group has no topology.
        subtopologies: the subtopologies.
        members: members in the order of their ids.
        assignor: assignor of the next assignment; None before Kafka 4.4 (KIP-1357).
    """

    group: str
    state: str
    epoch: int
    assignment_epoch: int
    topology_epoch: int
    subtopologies: tuple[Subtopology, ...]
    members: tuple[StreamsMember, ...]
    assignor: str | None = None
