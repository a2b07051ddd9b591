"""Group membership: rebalance listeners and assignors."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from samsarrow import _core
from samsarrow.exceptions import ConfigurationError
from samsarrow.types import ConsumerRecord, OffsetAndMetadata, TopicPartition, to_committed, to_pair

Offsets = Mapping[TopicPartition, int | OffsetAndMetadata]
Committable: TypeAlias = Offsets | pa.RecordBatch | ConsumerRecord
"""Offsets to commit: offsets by partition, a batch or a table of rows, or a record."""
PartitionsCallback = Callable[[list[TopicPartition]], object]


class RebalanceListener:
    """Called by `poll`, `unsubscribe` and `close`, in their thread, when partitions are assigned or revoked.

    Create a listener from callables, or subclass it and override the methods of the same names. A method may use the
    consumer, for example to commit in `on_partitions_revoked` or to seek in `on_partitions_assigned`. It may also close
    the consumer, which then closes immediately, without another call for the partitions that are being revoked; `poll`
    then raises `ClosedError`. After the rebalance, `poll` raises the exceptions that methods raised. An `AsyncConsumer`
    awaits awaitable
    results: callables and methods may be coroutine functions there.

    Args:
        on_partitions_assigned: called with new partitions, after they are assigned and before their rows.
        on_partitions_revoked: called with revoked partitions, while their offsets can still be committed.
        on_partitions_lost: called with partitions that other members may already own, so that their offsets cannot be
            committed; by default `on_partitions_revoked` is called instead (KIP-429).
    """

    def __init__(
        self,
        on_partitions_assigned: PartitionsCallback | None = None,
        on_partitions_revoked: PartitionsCallback | None = None,
        on_partitions_lost: PartitionsCallback | None = None,
    ) -> None:
        for function in (on_partitions_assigned, on_partitions_revoked, on_partitions_lost):
            if function is not None and not callable(function):
                raise TypeError(f"a RebalanceListener takes functions of a list of partitions, not {function!r}")
        self._assigned = on_partitions_assigned
        self._revoked = on_partitions_revoked
        self._lost = on_partitions_lost

    def __repr__(self) -> str:
        given = {"on_partitions_assigned": self._assigned, "on_partitions_revoked": self._revoked}
        given["on_partitions_lost"] = self._lost
        shown = [f"{name}={getattr(f, '__qualname__', f)}" for name, f in given.items() if f is not None]
        return f"{type(self).__name__}({', '.join(shown)})"

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> object:
        """Called with new partitions; with a cooperative assignor the list may be empty."""
        return None if self._assigned is None else self._assigned(partitions)

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> object:
        """Called with partitions that are revoked after this call."""
        return None if self._revoked is None else self._revoked(partitions)

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> object:
        """Called with partitions that other members may already own."""
        return self.on_partitions_revoked(partitions) if self._lost is None else self._lost(partitions)


def check_topics(topics: Iterable[str], *, with_patterns: bool = True) -> list[str]:
    """Returns the topics of a subscription. Rejects single names, other types, and librdkafka's `^` patterns.

    Args:
        topics: names of topics.
        with_patterns: whether `subscribe` has the argument `pattern`, which errors then name.
    """
    if isinstance(topics, str):
        raise ConfigurationError(f"subscribe takes a list of topics: [{topics!r}]")
    if isinstance(topics, re.Pattern) and with_patterns:
        raise TypeError("subscribe takes a list of topics: pass a regular expression as pattern=")
    # Named tuples, such as a TopicPartition, are iterable too.
    if not isinstance(topics, Iterable) or isinstance(topics, bytes) or hasattr(topics, "_fields"):
        raise TypeError(f"subscribe takes a list of topics, not {type(topics).__name__}")
    names = list(topics)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"topics are names: subscribe got {name!r}")
        # Names cannot contain `^`. librdkafka matches prefixes, and `pattern` whole names.
        if name.startswith("^") and not with_patterns:
            raise ConfigurationError(
                f"subscribe takes topic names, and {name!r} is a regular expression: share groups have none, so pass "
                "the names, such as those of Admin.list_topics() that match"
            )
        if name.startswith("^"):
            whole = name if name.endswith(("$", ".*")) else f"{name}.*"
            raise ConfigurationError(
                f"subscribe takes topic names, and {name!r} is a regular expression: pass pattern={whole!r}, "
                "which must match whole names"
            )
    return names


def check_listener(listener: object) -> None:
    """Raises TypeError for a listener without the methods of `RebalanceListener`."""
    if listener is None:
        return
    methods = ("on_partitions_assigned", "on_partitions_revoked", "on_partitions_lost")
    missing = [name for name in methods if not callable(getattr(listener, name, None))]
    if isinstance(listener, type):
        raise TypeError(f"listener must be a RebalanceListener object, not a class: pass {listener.__name__}(…)")
    if missing:
        raise TypeError(
            f"listener must be a RebalanceListener, such as RebalanceListener(on_partitions_assigned=f): {listener!r} "
            f"has no method {' and no '.join(missing)}"
        )


class GroupMember(NamedTuple):
    """A group member, as the group leader's assignor receives it.

    Attributes:
        topics: topics to which the member subscribes.
        owned: partitions that the member owns until they are revoked; empty if the assignor is not cooperative.
        user_data: data that the member's assignor sent.
        rack: rack of the member; None if it sent none.
        instance_id: id of a static member.
    """

    topics: list[str]
    owned: list[TopicPartition]
    user_data: bytes | None
    rack: str | None
    instance_id: str | None


class Assignor(ABC):
    """Base class of assignors, which distribute partitions among the members of a group.

    Pass assignors in `partition_assignment_strategy`.

    All members must have an assignor with the same name. The assignor of the group leader is used. Its methods are
    called on one client thread, for all consumers, and may use clients.

    Attributes:
        name: name of the assignor, which must be equal in all members.
        cooperative: whether members keep partitions while the group rebalances (KIP-429). A cooperative assignor must
            not assign a partition that another member owns until that member has revoked it.
    """

    name: str
    cooperative: bool = False

    @abstractmethod
    def assign(
        self, partitions: Mapping[str, int], members: Mapping[str, GroupMember]
    ) -> Mapping[str, Sequence[TopicPartition]]:
        """Assigns partitions to members.

        Args:
            partitions: number of partitions by topic, for all existing topics that members subscribe to.
            members: members by member id.

        Returns:
            Partitions by member id. Members that are missing get no partitions.
        """

    def user_data(self, owned: list[TopicPartition], generation: int) -> bytes | None:
        """Returns data that this member sends to the leader's `assign`; empty by default.

        If this method raises, the consumer leaves the group, and `poll` raises an error.

        Args:
            owned: partitions that were assigned to this member in the last generation; with `cooperative`, only those
                that the member still owns.
            generation: number of that generation; -1 if the member has not had an assignment yet.
        """
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
            raise ValueError(f"assigned to unknown members: {sorted(unknown)}")
        return {member: [(tp[0], tp[1]) for tp in shared.get(member, ())] for member in members}

    def _user_data(self, owned: list[tuple[str, int]], generation: int) -> bytes | None:
        return self.user_data([TopicPartition(*tp) for tp in owned], generation)


class ConsumerGroupMetadata(NamedTuple):
    """A consumer's identity in its group.

    Attributes:
        group_id: id of the group.
        member_id: id of the consumer in the group; empty if the consumer has no subscription or never was a member.
        generation: generation of the group, or with `group.protocol=consumer` the member's epoch (KIP-848); -1 if the
            consumer has no subscription or never was a member. After the membership was lost, both are the last ones,
            which brokers reject.
        group_instance_id: id of a static member.
    """

    group_id: str
    member_id: str
    generation: int
    group_instance_id: str | None


class MemberMetadata(ConsumerGroupMetadata):
    """Identity of a consumer with the ids of its topics.

    They are sent with offsets, so that those of a topic that was deleted and created again are rejected (KIP-1319).
    """

    topic_ids: Sequence[tuple[str, bytes]] = ()

    def _replace(self, **fields: Any) -> MemberMetadata:
        """Returns a copy with other fields, and the same topic ids."""
        copy = super()._replace(**fields)
        copy.topic_ids = self.topic_ids
        return copy


def to_offsets(what: Committable) -> list[tuple[tuple[str, int], tuple[int, str, int | None]]]:
    """Returns offsets by partition for the Rust client: as passed, or the offsets after a record or a batch."""
    if isinstance(what, Mapping):
        return [(to_pair(tp), to_committed(offset)) for tp, offset in what.items()]
    if isinstance(what, ConsumerRecord):
        return [((what.topic, what.partition), (what.offset + 1, "", what.leader_epoch))]
    check_rows(what)
    return _core.offsets_of(what)


def check_rows(what: object) -> None:
    """Raises TypeError for an object without Arrow columns; the message lists the supported types."""
    if not hasattr(what, "__arrow_c_array__") and not hasattr(what, "__arrow_c_stream__"):
        raise TypeError(
            "expected a batch or table of rows, a ConsumerRecord, or a mapping of TopicPartition to the next offset, "
            f"got {type(what).__name__}"
        )
