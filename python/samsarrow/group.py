"""Membership in a group: who is called for partitions, and who assigns them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from samsarrow import _core
from samsarrow.types import OffsetAndMetadata, TopicPartition, to_committed, to_pair

Offsets = Mapping[TopicPartition, int | OffsetAndMetadata]
PartitionsCallback = Callable[[list[TopicPartition]], object]


class RebalanceListener:
    """Called for partitions that come and go, by the thread that polls, within `poll`, `unsubscribe` and `close`.

    Make one with callables, or a subclass with methods of the same names. Within a call the consumer may be used: to
    commit in `on_partitions_revoked`, to seek in `on_partitions_assigned`. It may be closed too: at once, and without a
    further call for what is being revoked; `poll` then raises `ClosedError`. What a call raises is raised by `poll`,
    once the rebalance is done. An `AsyncConsumer` awaits what a call returns, if it is awaitable: callables and methods
    may be coroutine functions there.

    Args:
        on_partitions_assigned: called with the partitions that are new, after they are assigned and before their rows.
        on_partitions_revoked: called with the partitions that go to others, while their offsets can still be committed.
        on_partitions_lost: called with partitions that others may have already, so that nothing can be committed; by
            default `on_partitions_revoked` is called (KIP-429).
    """

    def __init__(
        self,
        on_partitions_assigned: PartitionsCallback | None = None,
        on_partitions_revoked: PartitionsCallback | None = None,
        on_partitions_lost: PartitionsCallback | None = None,
    ) -> None:
        self._assigned = on_partitions_assigned
        self._revoked = on_partitions_revoked
        self._lost = on_partitions_lost

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> object:
        """These partitions are new; with a cooperative assignor there may be none."""
        return None if self._assigned is None else self._assigned(partitions)

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> object:
        """These partitions go to others after this call."""
        return None if self._revoked is None else self._revoked(partitions)

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> object:
        """These partitions may be others' already."""
        return self.on_partitions_revoked(partitions) if self._lost is None else self._lost(partitions)


class GroupMember(NamedTuple):
    """What an assignor sees of a member.

    Attributes:
        topics: that it subscribed to.
        owned: partitions that it keeps until they are revoked; empty unless the group is cooperative.
        user_data: what its assignor sent along.
        rack: where it runs, if it said so.
        instance_id: of a static member.
    """

    topics: list[str]
    owned: list[TopicPartition]
    user_data: bytes | None
    rack: str | None
    instance_id: str | None


class Assignor(ABC):
    """Shares partitions among the members of a group: give one in `partition_assignment_strategy`.

    All members must have an assignor of the same name; the leader's decides. Its methods are called on one thread of
    the client's, for all consumers, and may use clients.

    Attributes:
        name: as the members compare it.
        cooperative: whether members keep partitions while the group rebalances (KIP-429). Then a partition that another
            member owns must not be given away before that member has given it up.
    """

    name: str
    cooperative: bool = False

    @abstractmethod
    def assign(
        self, partitions: Mapping[str, int], members: Mapping[str, GroupMember]
    ) -> Mapping[str, Sequence[TopicPartition]]:
        """Shares them.

        Args:
            partitions: number of partitions by topic, of all topics that members subscribed to and that exist.
            members: by member id.

        Returns:
            Partitions by member id; a member that is left out gets none.
        """

    def user_data(self, owned: list[TopicPartition], generation: int) -> bytes | None:
        """What this member sends to the leader's `assign`; nothing by default."""
        return None

    def _assign(
        self,
        partitions: dict[str, int],
        members: dict[str, tuple[list[str], list[tuple[str, int]], bytes | None, str | None, str | None]],
    ) -> dict[str, list[tuple[str, int]]]:
        seen = {
            member: GroupMember(topics, [TopicPartition(*tp) for tp in owned], data, rack, instance)
            for member, (topics, owned, data, rack, instance) in members.items()
        }
        shared = self.assign(partitions, seen)
        if unknown := set(shared) - set(members):
            raise ValueError(f"assigned to members that there are not: {sorted(unknown)}")
        return {member: [(tp[0], tp[1]) for tp in shared.get(member, ())] for member in members}

    def _user_data(self, owned: list[tuple[str, int]], generation: int) -> bytes | None:
        return self.user_data([TopicPartition(*tp) for tp in owned], generation)


class ConsumerGroupMetadata(NamedTuple):
    """Who a consumer is in its group.

    Attributes:
        group_id: the group.
        member_id: the coordinator's name for the member, empty while it is none.
        generation: of the group, or the member's epoch with `group.protocol=consumer` (KIP-848); -1 while it is none.
        group_instance_id: of a static member.
    """

    group_id: str
    member_id: str
    generation: int
    group_instance_id: str | None


def to_offsets(what: Offsets | pa.RecordBatch) -> list[tuple[tuple[str, int], tuple[int, str, int | None]]]:
    """Offsets by partition, or those after the last rows of a batch, as the core takes them."""
    if isinstance(what, Mapping):
        return [(to_pair(tp), to_committed(offset)) for tp, offset in what.items()]
    return [(tp, (offset, "", None)) for tp, offset in _core.offsets_of(what)]
