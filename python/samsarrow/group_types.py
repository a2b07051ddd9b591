"""Share groups and groups of Kafka Streams."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from samsarrow.types import TopicPartition


@dataclass(frozen=True, slots=True)
class ShareMember:
    """A member of a share group.

    Attributes:
        member_id: its id.
        rack: where it is; None for unknown.
        epoch: of the member.
        client_id: what the client calls itself.
        host: where it is.
        topics: that it wants.
        assignment: the partitions that it has.
    """

    member_id: str
    rack: str | None
    epoch: int
    client_id: str
    host: str
    topics: tuple[str, ...]
    assignment: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class ShareGroupDescription:
    """A share group (KIP-932).

    Attributes:
        group: its name.
        state: `Stable`, `Empty` and so on.
        epoch: rises with each change of members or subscriptions.
        assignment_epoch: the epoch that the assignment is of.
        assignor: who assigns.
        members: in the order of their ids.
    """

    group: str
    state: str
    epoch: int
    assignment_epoch: int
    assignor: str
    members: tuple[ShareMember, ...]


@dataclass(frozen=True, slots=True)
class ShareOffset:
    """Where a share group is in a partition.

    Attributes:
        start: the first record that it is not done with.
        leader_epoch: of that record, if known.
        lag: how many records it is not done with; None where the broker does not report it (before 4.2).
    """

    start: int
    leader_epoch: int | None
    lag: int | None


@dataclass(frozen=True, slots=True)
class Subtopology:
    """A part of a topology that runs by itself.

    Attributes:
        id: of the part.
        sources: topics that it reads.
        sinks: repartition topics that it writes.
        changelogs: topics that its state is kept in.
        repartitions: repartition topics that it reads.
    """

    id: str
    sources: tuple[str, ...]
    sinks: tuple[str, ...]
    changelogs: tuple[str, ...]
    repartitions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StreamsTasks:
    """Tasks of a member, by the part of the topology.

    Attributes:
        active: that it runs.
        standby: whose state it keeps.
        warmup: whose state it is about to have.
    """

    active: Mapping[str, tuple[int, ...]]
    standby: Mapping[str, tuple[int, ...]]
    warmup: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class StreamsMember:
    """A member of a group of Kafka Streams.

    Attributes:
        member_id: its id.
        epoch: of the member.
        instance_id: what makes it a static member.
        rack: where it is; None for unknown.
        client_id: what the client calls itself.
        host: where it is.
        topology_epoch: of the topology that it has.
        process_id: the process that it is in.
        assignment: the tasks that it has.
        target: the tasks that it is going to have.
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
class StreamsGroupDescription:
    """A group of Kafka Streams (KIP-1071).

    Attributes:
        group: its name.
        state: `Stable`, `Empty` and so on.
        epoch: rises with each change of members or topology.
        assignment_epoch: the epoch that the assignment is of.
        topology_epoch: of the topology, -1 for none.
        subtopologies: the parts that run by themselves.
        members: in the order of their ids.
    """

    group: str
    state: str
    epoch: int
    assignment_epoch: int
    topology_epoch: int
    subtopologies: tuple[Subtopology, ...]
    members: tuple[StreamsMember, ...]
