"""Samples of groups: state, members, committed offsets and end offsets, with a bounded number of requests."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, TypeVar

from samsarrow.admin_types import OffsetSpec
from samsarrow.cli.names import is_pattern
from samsarrow.cli.output import each_result
from samsarrow.exceptions import GroupIdNotFoundError, KafkaError, UnknownTopicOrPartitionError
from samsarrow.types import GroupListing, TopicPartition

if TYPE_CHECKING:
    from samsarrow import Admin, Results

V = TypeVar("V")

# Groups in one sample. It is halved while samples take longer than the interval, and doubled while they are short.
FEWEST_GROUPS = 50
MOST_GROUPS = 1000
# Seconds before the groups are listed again after a failure: each attempt waits for the broker that does not respond.
LIST_RETRY = 10.0


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a group in a partition.

    Attributes:
        offset: committed offset, or the start offset of a share group; None without one.
        end: end of the partition; None if unknown.
        lag: number of offsets up to the end; None if unknown.
    """

    offset: int | None
    end: int | None
    lag: int | None


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a group of any type.

    Attributes:
        member_id: id of the member.
        instance_id: id of a static member.
        client_id: client id of the member.
        host: host of the member.
        assignment: assigned partitions. For Kafka Streams groups it is empty, because tasks are assigned.
        tasks: number of assigned partitions or active tasks.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]
    tasks: int


@dataclass(frozen=True, slots=True)
class GroupSample:
    """A group at one time.

    Attributes:
        group: name of the group.
        type: `classic`, `consumer`, `share`, `streams`; empty if unknown.
        state: state of the group; `Dead` if it does not exist, empty if unknown.
        assignor: name of the assignor; empty if unknown.
        time: time of the sample, seconds of the monotonic clock.
        members: members; None if unknown.
        epoch: assignment epoch of a share or streams group; None for other groups.
        partitions: progress by partition; None if unknown.
        error: the first error of the requests.
    """

    group: str
    type: str = ""
    state: str = ""
    assignor: str = ""
    time: float = 0.0
    members: tuple[Member, ...] | None = None
    epoch: int | None = None
    partitions: Mapping[TopicPartition, Progress] | None = None
    error: KafkaError | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """Result of one call of `Sampler.sample`.

    Attributes:
        time: time of the sample, seconds of the monotonic clock.
        duration: duration of the requests, in seconds.
        names: all matching groups, sorted.
        groups: the groups of this sample.
        error: the reason why the list of groups may be out of date.
    """

    time: float
    duration: float
    names: tuple[str, ...]
    groups: Mapping[str, GroupSample]
    error: KafkaError | None = None


@dataclass
class Sampler:
    """Takes samples of groups.

    A sample sends one ListGroups to each broker, one OffsetFetch and two describe requests to each coordinator, and at
    most two ListOffsets to each leader, regardless of the number of groups. Brokers before Kafka 3.0 need one
    OffsetFetch for each group. If there are more than `limit` groups, a sample has the groups of `first`, and those
    whose last sample is the oldest.

    Attributes:
        admin: admin client.
        patterns: names and patterns of groups; empty for all groups.
        topics: names and patterns of topics; empty for all topics. Other partitions are omitted.
        interval: target duration of a sample, in seconds.
        timeout: seconds for each request.
        limit: number of groups in the next sample; None for all groups in each sample.
    """

    admin: Admin
    patterns: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    interval: float = 2.0
    timeout: float | None = None
    limit: int | None = None
    _listed: Mapping[str, GroupListing] = field(default_factory=dict)
    _list_again: float = 0.0
    _list_error: KafkaError | None = None
    _sampled: dict[str, float] = field(default_factory=dict)

    def sample(self, first: Collection[str] = ()) -> Sample:
        """Takes a sample.

        Args:
            first: groups that the sample contains even if there are more than `limit` groups.

        Raises:
            KafkaError: the groups could not be listed, and never were before.
        """
        begin = time.monotonic()
        names = self._names(begin)
        selected = self._select(names, first)
        groups = self._groups(selected) if selected else {}
        now = time.monotonic()
        for name in selected:
            self._sampled[name] = now
        if self._sampled.keys() - names:
            self._sampled = {name: at for name, at in self._sampled.items() if name in names}
        if self.limit is not None:
            if now - begin > self.interval:
                self.limit = max(FEWEST_GROUPS, min(self.limit, len(selected)) // 2)
            elif now - begin < self.interval / 4:
                self.limit = min(MOST_GROUPS, self.limit * 2)
        timed = {name: replace(group, time=now) for name, group in groups.items()}
        return Sample(now, now - begin, tuple(sorted(names)), timed, self._list_error)

    def _names(self, now: float) -> set[str]:
        """Lists the groups. Returns those that match, and the names that are not patterns."""
        if now >= self._list_again:
            try:
                self._listed, self._list_error = self.admin.list_groups(timeout=self.timeout), None
            except KafkaError as error:
                if not self._listed:
                    raise
                self._list_error, self._list_again = error, time.monotonic() + LIST_RETRY
        if not self.patterns:
            return set(self._listed)
        names = {pattern for pattern in self.patterns if not is_pattern(pattern)}
        patterns = [pattern for pattern in self.patterns if is_pattern(pattern)]
        return names | {name for name in self._listed if any(fnmatchcase(name, pattern) for pattern in patterns)}

    def _select(self, names: set[str], first: Collection[str]) -> list[str]:
        if self.limit is None or len(names) <= self.limit:
            return sorted(names)
        selected = dict.fromkeys(name for name in first if name in names)
        oldest = sorted(names - selected.keys(), key=lambda name: (self._sampled.get(name, 0.0), name))
        return [*selected, *oldest[: max(self.limit - len(selected), 0)]]

    def _groups(self, names: list[str]) -> dict[str, GroupSample]:
        types = {name: (self._listed[name].type or "") if name in self._listed else "" for name in names}
        share = [name for name in names if types[name] == "share"]
        streams = [name for name in names if types[name] == "streams"]
        others = [name for name in names if types[name] not in ("share", "streams")]
        groups = {
            name: GroupSample(name, types[name], (self._listed[name].state or "") if name in self._listed else "")
            for name in names
        }
        if others:
            self._describe(groups, others)
        if streams:
            self._describe_streams(groups, streams)
        if others or streams:
            self._lag(groups, [*others, *streams])
        if share:
            self._share(groups, share)
        return groups

    def _describe(self, groups: dict[str, GroupSample], names: list[str]) -> None:
        for name, found in _each(self.admin.describe_groups, names, self.timeout):
            if isinstance(found, GroupIdNotFoundError):
                error = None if name in self._listed else found
                groups[name] = replace(groups[name], state="Dead", members=(), error=error)
            elif isinstance(found, KafkaError):
                groups[name] = replace(groups[name], error=found)
            else:
                members = tuple(
                    Member(m.member_id, m.instance_id, m.client_id, m.host, m.assignment, len(m.assignment))
                    for m in found.members
                )
                groups[name] = replace(
                    groups[name], type=found.type, state=found.state, assignor=found.assignor, members=members
                )

    def _describe_streams(self, groups: dict[str, GroupSample], names: list[str]) -> None:
        for name, found in _each(self.admin.describe_streams_groups, names, self.timeout):
            if isinstance(found, KafkaError):
                groups[name] = replace(groups[name], error=found)
            else:
                members = tuple(
                    Member(
                        m.member_id,
                        m.instance_id,
                        m.client_id,
                        m.host,
                        (),
                        sum(len(tasks) for tasks in m.assignment.active.values()),
                    )
                    for m in found.members
                )
                groups[name] = replace(groups[name], state=found.state, members=members, epoch=found.assignment_epoch)

    def _lag(self, groups: dict[str, GroupSample], names: list[str]) -> None:
        progress: dict[str, dict[TopicPartition, Progress]] = {}
        for name, found in _each(self.admin.group_lag, names, self.timeout):
            if isinstance(found, KafkaError):
                groups[name] = replace(groups[name], error=groups[name].error or found)
                continue
            progress[name] = {
                lag.partition: Progress(lag.committed.offset, lag.end, lag.lag)
                for lag in found.partitions
                if self._has_topic(lag.partition.topic)
            }
            # Committed offsets remain for some time after their topic is deleted.
            errors = [e.error for e in found.partitions if not isinstance(e.error, UnknownTopicOrPartitionError)]
            if failed := [error for error in errors if isinstance(error, KafkaError)]:
                groups[name] = replace(groups[name], error=groups[name].error or failed[0])
        # Assigned partitions without a committed offset.
        missing = {
            (name, tp)
            for name in progress
            for member in groups[name].members or ()
            for tp in member.assignment
            if tp not in progress[name] and self._has_topic(tp.topic)
        }
        ends, _ = self._ends({tp for _, tp in missing})
        for name, tp in missing:
            progress[name][tp] = Progress(None, ends.get(tp), None)
        for name, partitions in progress.items():
            groups[name] = replace(groups[name], partitions=dict(sorted(partitions.items())))

    def _share(self, groups: dict[str, GroupSample], names: list[str]) -> None:
        for name, described in _each(self.admin.describe_share_groups, names, self.timeout):
            if isinstance(described, KafkaError):
                groups[name] = replace(groups[name], error=described)
                continue
            members = tuple(
                Member(m.member_id, None, m.client_id, m.host, m.assignment, len(m.assignment))
                for m in described.members
            )
            groups[name] = replace(
                groups[name],
                state=described.state,
                assignor=described.assignor,
                members=members,
                epoch=described.assignment_epoch,
            )
        starts: dict[str, dict[TopicPartition, tuple[int, int | None]]] = {}
        for name, found in _each(self.admin.list_share_offsets, names, self.timeout):
            if isinstance(found, KafkaError):
                groups[name] = replace(groups[name], error=groups[name].error or found)
                continue
            starts[name] = {
                tp: (offset.start, offset.lag)
                for tp, offset in each_result(found)
                if offset is not None and not isinstance(offset, KafkaError) and self._has_topic(tp.topic)
            }
        ends, error = self._ends({tp for offsets in starts.values() for tp in offsets})
        for name, offsets in starts.items():
            partitions = {}
            for tp, (start, lag) in sorted(offsets.items()):
                end = ends.get(tp)
                behind = lag if lag is not None or end is None else max(end - start, 0)
                partitions[tp] = Progress(start, end, behind)
            groups[name] = replace(groups[name], partitions=partitions, error=groups[name].error or error)

    def _ends(self, partitions: set[TopicPartition]) -> tuple[dict[TopicPartition, int], KafkaError | None]:
        """Returns end offsets, and the first error except that of deleted topics."""
        if not partitions:
            return {}, None
        try:
            found = self.admin.list_offsets(dict.fromkeys(sorted(partitions), OffsetSpec.LATEST), timeout=self.timeout)
        except KafkaError as error:
            return {}, error
        ends, failed = {}, None
        for tp, end in each_result(found):
            if isinstance(end, KafkaError):
                failed = failed or (None if isinstance(end, UnknownTopicOrPartitionError) else end)
            elif end is not None:
                ends[tp] = end.offset
        return ends, failed

    def _has_topic(self, topic: str) -> bool:
        return not self.topics or any(fnmatchcase(topic, pattern) for pattern in self.topics)


def _each(
    read: Callable[..., Results[str, V]], names: list[str], timeout: float | None
) -> Iterable[tuple[str, V | KafkaError]]:
    """Reads several groups. Yields the result or error of each; if the call fails, its error for all of them."""
    try:
        return list(each_result(read(names, timeout=timeout)))
    except KafkaError as error:
        return [(name, error) for name in names]
