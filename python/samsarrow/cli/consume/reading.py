"""Batches from the first place to the last: of partitions read by hand, or as a member of a group."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from samsarrow import _core
from samsarrow._bounded_reader import set_ends
from samsarrow._sync import run_sync
from samsarrow.exceptions import KafkaError, KafkaTimeoutError, RebalanceInProgressError, WakeupError
from samsarrow.group import RebalanceListener
from samsarrow.types import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from samsarrow import Consumer

End = tuple[tuple[str, int], tuple[int, str, int | None], bytes]

# For how long a poll waits: signals are heeded all the same, and ends looked at.
PATIENCE = 1.0
# A consumer waits for brokers as long as it takes; a command that is to end gives up.
STALLED_SECONDS = 60.0


@dataclass
class Progress:
    """How far reading has come, in offsets: rows may be fewer."""

    done: int = 0
    total: int = 0


def by_hand(
    consumer: Consumer, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int] | None, at: Progress
) -> Iterator[pa.RecordBatch]:
    """Reads partitions from offsets on.

    It ends when all positions have reached the ends: positions move past what has no rows, such as the markers of
    transactions and what compaction removed, so that these cannot keep it waiting.

    Args:
        consumer: without a subscription.
        starts: where to begin, by partition.
        ends: where to end; None to follow for ever.
        at: is kept up to date.
    """
    wanted = [tp for tp, start in starts.items() if ends is None or start < ends[tp]]
    if ends is not None:
        at.total = sum(ends[tp] - starts[tp] for tp in wanted)
    if not wanted:
        return
    core = consumer._open
    consumer.assign(wanted)
    # Of an earlier read.
    core.lift_ends()
    for tp in wanted:
        consumer.seek(tp, starts[tp])
    if ends is None:
        while True:
            yield consumer.poll(PATIENCE)
    set_ends(core, {tp: ends[tp] for tp in wanted})

    def look(unfinished: list[Unfinished], without_end: list[TopicPartition]) -> None:
        if without_end:
            raise KafkaError(f"{_names(without_end)} would be read without an end: the assignment has changed")
        # For the progress bar only: a position that is not known yet counts as the start.
        left = (end - max(position or 0, starts[tp]) for tp, position, end in unfinished)
        at.done = at.total - sum(left)

    yield from _until_ends(consumer, look)


Unfinished = tuple[TopicPartition, int | None, int]


def _until_ends(
    consumer: Consumer, look: Callable[[list[Unfinished], list[TopicPartition]], None]
) -> Iterator[pa.RecordBatch]:
    """Polls until all assigned partitions are at the ends that the core has of them.

    The core returns no row past an end: nothing is moved back, and nothing can fail between a poll and its rows.

    Args:
        consumer: its ends are set by the caller, or by `look`.
        look: takes partitions that are not at their ends, with positions and ends, and those without an end.
    """
    core = consumer._open
    stall = Stall()
    while True:
        unfinished, without_end = core.bounds()
        open_ends = [(TopicPartition(*tp), position, end) for tp, position, end in unfinished]
        look(open_ends, [TopicPartition(*tp) for tp in without_end])
        if without_end:
            continue
        # A member that a rebalance has left without partitions waits for those that it gets.
        if not open_ends and consumer._is_assigned():
            return
        stall.check(hash(frozenset(open_ends)), [tp for tp, _, _ in open_ends])
        yield consumer.poll(PATIENCE)


def commit(consumer: Consumer, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
    """Commits offsets, and repeats it once if a signal has woken the consumer."""
    try:
        consumer.commit(offsets)
    except WakeupError:
        consumer.commit(offsets)


def _names(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(f"{tp.topic}-{tp.partition}" for tp in list(partitions)[:5])


class Stall:
    """Notices that a read with an end comes no nearer to it."""

    def __init__(self) -> None:
        self._limit = STALLED_SECONDS
        self._deadline = _core.Deadline(self._limit)
        self._before = -1

    def check(self, state: int, missing: Iterable[TopicPartition]) -> None:
        """To be called after each poll.

        Args:
            state: is another number when something has moved.
            missing: the partitions that are not at their ends.

        Raises:
            KafkaTimeoutError: nothing has moved for too long.
        """
        if state != self._before:
            self._before, self._deadline = state, _core.Deadline(self._limit)
        elif self._deadline.passed():
            names = _names(missing) or "the group's partitions"
            raise KafkaTimeoutError(
                f"no record arrived for {self._limit:g} s, and {names} not read to the end: are the leaders reachable?"
            )


class Membership(RebalanceListener):
    """Reads as a member of a group, up to the ends that partitions have when the group assigns them.

    Rebalances may add and remove partitions: it ends when all that is assigned to this member is at its end. The
    position that a partition is handed over with is never moved back, be it past the end.

    Args:
        consumer: that subscribes with this as its listener.
        follow: whether to read on past the ends.
        limit: seconds for the group to assign partitions.
        commits: whether what was written may be committed now.
    """

    def __init__(self, consumer: Consumer, follow: bool, limit: float, commits: Callable[[], bool]) -> None:
        super().__init__()
        self._consumer = consumer
        self._follow = follow
        self._limit = limit
        self._commits = commits
        self._uncommitted = False
        # Ends of rows with the ids of their topics: a topic that is deleted and created again has other offsets.
        self._written: dict[TopicPartition, End] = {}

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        """Commits what was written of these, which other members go on with."""
        revoked = self._offsets([self._written[tp] for tp in partitions if tp in self._written])
        if revoked and self._commits():
            commit(self._consumer, revoked)
        self.on_partitions_lost(partitions)

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        """Commits nothing of these from now on: other members may be past it."""
        for tp in partitions:
            # A partition without written rows has no entry.
            self._written.pop(tp, None)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """What comes; rows past the ends are left for the next who reads.

        Raises:
            KafkaTimeoutError: the group assigned no partitions in time.
        """
        consumer, deadline = self._consumer, _core.Deadline(self._limit)
        while not consumer._is_assigned():
            if deadline.passed():
                raise KafkaTimeoutError(
                    f"the group gave this member no partitions within {self._limit:g} s: "
                    "--timeout SECONDS waits longer, the log of the brokers says what it waits for"
                )
            run_sync(consumer._poll(PATIENCE, until_assigned=True))
        if self._follow:
            while True:
                yield consumer.poll(PATIENCE)
        yield from _until_ends(consumer, self._set_ends)

    def _set_ends(self, _unfinished: list[Unfinished], without_end: list[TopicPartition]) -> None:
        if without_end:
            set_ends(self._consumer._open, self._consumer.end_offsets(without_end))

    def add_written(self, rows: pa.RecordBatch) -> None:
        """Records the offsets after rows that were written, or that a filter left out."""
        if rows.num_rows:
            self._written.update({TopicPartition(*end[0]): end for end in _core.ends_of(rows)})
            self._uncommitted = True

    def commit_written(self) -> None:
        """Commits in the background what was written, if it may be committed."""
        if not self._uncommitted or not self._commits():
            return
        try:
            if offsets := self.written_offsets():
                self._consumer.commit_async(offsets)
        except RebalanceInProgressError:
            # The next poll rejoins the group, and passes revoked partitions to the listener.
            return
        self._uncommitted = False

    def written_offsets(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Returns the offsets after the rows that were written, of partitions that are still assigned."""
        return self._offsets(list(self._written.values()))

    def _offsets(self, ends: list[End]) -> dict[TopicPartition, OffsetAndMetadata]:
        return {TopicPartition(*tp): OffsetAndMetadata(*at) for tp, at in self._consumer._open.offsets_of_ends(ends)}

    def final_offsets(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Returns the offsets to commit after all rows up to the ends were written.

        Positions go past what has no rows, and partitions without any row have one.
        """
        consumer = self._consumer
        found = self.written_offsets()
        for tp in consumer.assignment():
            position = consumer.position(tp)
            if tp not in found or position > found[tp].offset:
                found[tp] = OffsetAndMetadata(position)
        return found
