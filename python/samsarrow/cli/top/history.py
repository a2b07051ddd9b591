"""History of groups and partitions: rates, lag over time and rebalances, from successive samples."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field

from samsarrow.cli.top.sampler import GroupSample, Progress, Sample
from samsarrow.types import TopicPartition

# Seconds over which rates are computed: two default commit intervals (`auto.commit.interval.ms`), so that a rate does
# not depend on whether a sample contains a commit.
RATE_SECONDS = 10.0
# Points that are kept for each group and partition.
POINTS = 120
REBALANCING = {"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"}


class Series:
    """Points of a group or partition: time, lag, and numbers of produced and consumed records since the first point.

    Arrays instead of tuples, because a cluster may have thousands of groups.
    """

    __slots__ = ("consumed", "lags", "produced", "times")

    def __init__(self) -> None:
        self.times = array("d")
        self.lags = array("d")
        self.produced = array("d")
        self.consumed = array("d")

    def add(self, time: float, lag: float | None, produced: float, consumed: float) -> None:
        """Adds a point.

        Args:
            time: seconds of the monotonic clock.
            lag: lag; None if unknown.
            produced: records produced since the previous point.
            consumed: records consumed since the previous point.
        """
        self.times.append(time)
        self.lags.append(math.nan if lag is None else lag)
        self.produced.append((self.produced[-1] if self.produced else 0.0) + produced)
        self.consumed.append((self.consumed[-1] if self.consumed else 0.0) + consumed)
        if len(self.times) >= 2 * POINTS:
            for values in (self.times, self.lags, self.produced, self.consumed):
                del values[:-POINTS]

    def rates(self) -> tuple[float | None, float | None]:
        """Returns produced and consumed records per second in the last `RATE_SECONDS`; None before two points."""
        if len(self.times) < 2:
            return None, None
        begin = max(bisect_right(self.times, self.times[-1] - RATE_SECONDS) - 1, 0)
        begin = min(begin, len(self.times) - 2)
        seconds = self.times[-1] - self.times[begin]
        if seconds <= 0:
            return None, None
        return (
            (self.produced[-1] - self.produced[begin]) / seconds,
            (self.consumed[-1] - self.consumed[begin]) / seconds,
        )

    def trend(self) -> list[float | None]:
        """Returns the lags of the last points."""
        return [None if math.isnan(lag) else lag for lag in self.lags[-POINTS:]]

    def speeds(self) -> tuple[list[float | None], list[float | None]]:
        """Returns produced and consumed records per second between successive points."""
        produced: list[float | None] = []
        consumed: list[float | None] = []
        for at in range(max(1, len(self.times) - POINTS), len(self.times)):
            seconds = self.times[at] - self.times[at - 1]
            produced.append((self.produced[at] - self.produced[at - 1]) / seconds if seconds > 0 else None)
            consumed.append((self.consumed[at] - self.consumed[at - 1]) / seconds if seconds > 0 else None)
        return produced, consumed


@dataclass
class GroupHistory:
    """The last sample of a group, and its history.

    Attributes:
        last: last sample; parts whose requests failed are those of earlier samples.
        series: points of the whole group.
        rebalances: rebalances since the first sample, as far as samples show them.
        lag: sum of the lags of all partitions with a known lag; None if no lag is known.
        partitions: points of each partition, if the group is followed by partition.
    """

    last: GroupSample
    series: Series = field(default_factory=Series)
    rebalances: int = 0
    lag: int | None = None
    partitions: dict[TopicPartition, Series] | None = None
    _rebalancing: bool = False

    def add(self, sample: GroupSample, by_partition: bool) -> None:
        """Adds a sample. A request that failed leaves the values of earlier samples."""
        before = self.last
        if sample.members is not None:
            self._count_rebalances(before, sample)
        self.last = GroupSample(
            sample.group,
            sample.type or before.type,
            sample.state or before.state,
            sample.assignor or before.assignor,
            sample.time,
            before.members if sample.members is None else sample.members,
            before.epoch if sample.epoch is None else sample.epoch,
            before.partitions if sample.partitions is None else sample.partitions,
            sample.error,
        )
        if not by_partition:
            self.partitions = None
        elif self.partitions is None:
            self.partitions = {}
        if sample.partitions is None:
            return
        earlier = before.partitions or {}
        produced = consumed = 0
        for tp, progress in sample.partitions.items():
            made, read = advance(earlier.get(tp), progress)
            produced, consumed = produced + made, consumed + read
            if self.partitions is not None:
                self.partitions.setdefault(tp, Series()).add(sample.time, progress.lag, made, read)
        if self.partitions is not None:
            for tp in self.partitions.keys() - sample.partitions.keys():
                del self.partitions[tp]
        known = [progress.lag for progress in sample.partitions.values() if progress.lag is not None]
        self.lag = sum(known) if known else None
        self.series.add(sample.time, self.lag, produced, consumed)

    def _count_rebalances(self, before: GroupSample, sample: GroupSample) -> None:
        """Counts a rebalance when the group enters a rebalance, or when its assignment changed between samples."""
        if sample.state in REBALANCING:
            self.rebalances += not self._rebalancing
            self._rebalancing = True
        elif self._rebalancing:
            self._rebalancing = False
        elif before.members is not None:
            self.rebalances += _assignment(before) != _assignment(sample)


def _assignment(sample: GroupSample) -> object:
    if sample.epoch is not None:
        return sample.epoch
    return {member.member_id: member.assignment for member in sample.members or ()}


def advance(before: Progress | None, after: Progress) -> tuple[int, int]:
    """Returns the numbers of records produced and consumed between two samples of a partition.

    An end or offset that moved back, because the topic was created again or the offsets were reset, counts as 0.
    """
    if before is None:
        return 0, 0
    produced = 0 if before.end is None or after.end is None else max(after.end - before.end, 0)
    consumed = 0 if before.offset is None or after.offset is None else max(after.offset - before.offset, 0)
    return produced, consumed


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """A group or a partition as a row of the table.

    Attributes:
        key: name of the group, or the partition.
        lag: lag; None if unknown.
        series: points of the group or partition.
        produced: records produced per second; None if unknown.
        consumed: records consumed per second; None if unknown.
        type: type of the group.
        state: state of the group.
        members: number of members; None if unknown.
        topics: number of topics.
        partitions: number of partitions.
        rebalances: rebalances since the first sample.
        offset: committed offset of a partition.
        end: end of a partition.
        member: member to which a partition is assigned, as text.
        error: the error of the last sample, as text.
    """

    key: str | TopicPartition
    lag: int | None = None
    series: Series | None = None
    produced: float | None = None
    consumed: float | None = None
    type: str = ""
    state: str = ""
    members: int | None = None
    topics: int = 0
    partitions: int = 0
    rebalances: int = 0
    offset: int | None = None
    end: int | None = None
    member: str = ""
    error: str = ""

    def trend(self) -> list[float | None]:
        """Returns the lags of the last points."""
        return [] if self.series is None else self.series.trend()

    @property
    def eta(self) -> float | None:
        """Seconds until the lag is 0 at the current rates; infinite if it does not fall, None if unknown."""
        if self.lag == 0:
            return 0.0
        if self.lag is None or self.produced is None or self.consumed is None:
            return None
        return self.lag / (self.consumed - self.produced) if self.consumed > self.produced else math.inf


@dataclass
class History:
    """Histories of all groups.

    Attributes:
        groups: histories by name.
        names: all matching groups, sorted, including those that have no sample yet.
        total: lags and consumed records of all groups together.
        topics: whether groups without partitions are left out, because the user selected topics.
        by_partition: names of groups that are followed by partition; None for all groups.
    """

    topics: bool = False
    by_partition: set[str] | None = field(default_factory=set)
    groups: dict[str, GroupHistory] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    total: Series = field(default_factory=Series)

    def add(self, sample: Sample) -> None:
        """Adds a sample, and removes groups that no longer exist."""
        self.names = sample.names
        for name in self.groups.keys() - set(sample.names):
            del self.groups[name]
        before = sum(_consumed(self.groups.get(name)) for name in sample.groups)
        for name, group in sample.groups.items():
            history = self.groups.setdefault(name, GroupHistory(GroupSample(name)))
            history.add(group, self.by_partition is None or name in self.by_partition)
        known = [lag for group in self.groups.values() if (lag := group.lag) is not None]
        consumed = sum(_consumed(self.groups[name]) for name in sample.groups) - before
        # The produced records would count once for each group that reads them.
        if any(group.partitions is not None for group in sample.groups.values()):
            self.total.add(sample.time, sum(known) if known else None, 0, consumed)

    def rows(self) -> list[Row]:
        """Returns a row for each group."""
        rows = []
        for name in self.names:
            history = self.groups.get(name)
            if history is None:
                rows += [] if self.topics else [Row(name)]
                continue
            last, partitions = history.last, history.last.partitions or {}
            if self.topics and not partitions and last.error is None:
                continue
            produced, consumed = history.series.rates()
            rows.append(
                Row(
                    name,
                    history.lag,
                    history.series,
                    produced,
                    consumed,
                    last.type,
                    last.state,
                    None if last.members is None else len(last.members),
                    len({tp.topic for tp in partitions}),
                    len(partitions),
                    history.rebalances,
                    error="" if last.error is None else str(last.error),
                )
            )
        return rows

    def partition_rows(self, name: str) -> list[Row]:
        """Returns a row for each partition of a group."""
        history = self.groups.get(name)
        if history is None:
            return []
        owners = {
            tp: owner_text(member.client_id, member.host)
            for member in history.last.members or ()
            for tp in member.assignment
        }
        rows = []
        for tp, progress in (history.last.partitions or {}).items():
            series = (history.partitions or {}).get(tp) or Series()
            produced, consumed = series.rates()
            rows.append(
                Row(
                    tp,
                    progress.lag,
                    series,
                    produced,
                    consumed,
                    offset=progress.offset,
                    end=progress.end,
                    member=owners.get(tp, ""),
                )
            )
        return rows


def _consumed(history: GroupHistory | None) -> float:
    return history.series.consumed[-1] if history is not None and history.series.consumed else 0.0


def owner_text(client_id: str, host: str) -> str:
    """Returns a member as text: `client@10.0.0.1`."""
    return f"{client_id}@{host.removeprefix('/')}"


def sorted_rows(rows: Iterable[Row], column: str, descending: bool) -> list[Row]:
    """Sorts rows by a column, then by key. Unknown values are last."""
    known = [row for row in rows if getattr(row, column) not in (None, "")]
    unknown = [row for row in rows if getattr(row, column) in (None, "")]
    known.sort(key=lambda row: row.key)
    known.sort(key=lambda row: getattr(row, column), reverse=descending)
    return [*known, *sorted(unknown, key=lambda row: row.key)]
