"""Readers of batches, either from assigned partitions between two offsets or as a member of a group."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from samsarrow import _core
from samsarrow._bounded_reader import set_ends
from samsarrow._range_reader import RangeReader
from samsarrow._sync import run_sync
from samsarrow.exceptions import KafkaTimeoutError, RebalanceInProgressError, WakeupError
from samsarrow.group import RebalanceListener
from samsarrow.types import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from samsarrow import Consumer

End = tuple[tuple[str, int], tuple[int, str, int | None], bytes]

# Maximum seconds of a poll, after which the end offsets are checked. Signals interrupt a poll.
POLL_SECONDS = 1.0
# Seconds without progress after which a read that should end fails. The consumer itself retries without limit.
STALLED_SECONDS = 60.0


@dataclass
class Progress:
    """Progress of a read, counted in offsets, because not every offset has a row."""

    done: int = 0
    total: int = 0


def read_partitions(
    consumer: Consumer,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int] | None,
    progress: Progress,
) -> Iterator[pa.RecordBatch]:
    """Assigns partitions and reads them between two offsets.

    Reading ends when all positions have reached the ends. Positions also move past offsets without rows, such as
    transaction markers and compacted records, so reading ends even if the last offsets have no rows.

    Args:
        consumer: consumer without a subscription.
        starts: by partition, the first offset to read.
        ends: by partition, the end offset; None to read without an end.
        progress: progress of the read, which this function updates.
    """
    if ends is None:
        consumer.assign(starts)
        # Removes the end offsets of an earlier read.
        consumer._open.lift_ends()
        for tp, start in starts.items():
            consumer.seek(tp, start)
        while True:
            yield consumer.poll(POLL_SECONDS)
    reader = RangeReader(consumer, {tp: (start, ends[tp]) for tp, start in starts.items()}, limit=STALLED_SECONDS)
    progress.total = reader.total
    # Yields empty batches, too, so that the caller checks for signals and rotates its files.
    while (batch := run_sync(reader.poll())) is not None:
        progress.done = reader.done
        yield batch
    progress.done = progress.total


Unfinished = tuple[TopicPartition, int | None, int]


def _until_ends(
    consumer: Consumer, update: Callable[[list[Unfinished], list[TopicPartition]], None]
) -> Iterator[pa.RecordBatch]:
    """Polls until all assigned partitions have reached their ends.

    The Rust client returns no row past an end offset, so positions never have to be moved back.

    Args:
        consumer: consumer; the caller or `update` sets the end offsets of its partitions.
        update: called before each poll. Its first argument has the partitions that are not at their ends, with their
            positions and ends; the second has the partitions that have no end yet.
    """
    core = consumer._open
    stall = StallDetector()
    while True:
        unfinished, without_end, past = core.bounds()
        open_ends = [(TopicPartition(*tp), position, end) for tp, position, end in unfinished]
        update(open_ends, [TopicPartition(*tp) for tp in without_end])
        if without_end:
            continue
        if past:
            run_sync(consumer._run(core.reset_past_ends(None)))
            continue
        # During a rebalance, the member may have no partitions until new partitions are assigned.
        if not open_ends and consumer._is_assigned():
            return
        stall.check(hash(frozenset(open_ends)), [tp for tp, _, _ in open_ends])
        yield consumer.poll(POLL_SECONDS)


def commit(consumer: Consumer, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
    """Commits offsets, and repeats the commit once if a signal interrupts it."""
    try:
        consumer.commit(offsets)
    except WakeupError:
        consumer.commit(offsets)


def _names(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(f"{tp.topic}-{tp.partition}" for tp in list(partitions)[:5])


class StallDetector:
    """Detects that a read that should end makes no progress."""

    def __init__(self) -> None:
        self._limit = STALLED_SECONDS
        self._deadline = _core.Deadline(self._limit)
        self._before = -1

    def check(self, state: int, missing: Iterable[TopicPartition]) -> None:
        """Checks for progress; called before each poll.

        Args:
            state: a number that changes with any progress.
            missing: partitions that are not at their ends.

        Raises:
            KafkaTimeoutError: the state has not changed for `STALLED_SECONDS`.
        """
        if state != self._before:
            self._before, self._deadline = state, _core.Deadline(self._limit)
        elif self._deadline.passed():
            names = _names(missing) or "the group's partitions"
            raise KafkaTimeoutError(
                f"no record arrived for {self._limit:g} s, and {names} not read to the end: are the leaders reachable?"
            )


class GroupReader(RebalanceListener):
    """Reads as a member of a group, up to the end that each partition has at the time of its assignment.

    Rebalances may add and remove partitions. Reading ends when all partitions of this member are at their ends. The
    position of an assigned partition is only moved back if it is past the end of the log, as `auto.offset.reset` says.

    Args:
        consumer: consumer whose subscription has this object as its listener.
        follow: whether to read without an end.
        limit: maximum seconds until the group assigns partitions.
        may_commit: returns true if the offsets of written rows may be committed.
    """

    def __init__(self, consumer: Consumer, follow: bool, limit: float, may_commit: Callable[[], bool]) -> None:
        super().__init__()
        self._consumer = consumer
        self._follow = follow
        self._limit = limit
        self._may_commit = may_commit
        self._uncommitted = False
        # Offsets after written rows. They contain topic ids, because a topic that is deleted and recreated has new
        # offsets.
        self._written: dict[TopicPartition, End] = {}

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        """Commits the offsets of revoked partitions, before other members continue reading these partitions."""
        revoked = self._offsets([self._written[tp] for tp in partitions if tp in self._written])
        if revoked and self._may_commit():
            commit(self._consumer, revoked)
        self.on_partitions_lost(partitions)

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        """Removes the offsets of lost partitions, because other members may have committed larger offsets."""
        for tp in partitions:
            self._written.pop(tp, None)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields batches up to the ends of the partitions; with `follow`, never ends.

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
            run_sync(consumer._poll(POLL_SECONDS, until_assigned=True))
        if self._follow:
            while True:
                yield consumer.poll(POLL_SECONDS)
        yield from _until_ends(consumer, self._set_ends)

    def _set_ends(self, _unfinished: list[Unfinished], without_end: list[TopicPartition]) -> None:
        if without_end:
            set_ends(self._consumer._open, self._consumer.end_offsets(without_end))

    def add_written(self, rows: pa.RecordBatch) -> None:
        """Records the offsets after rows that were processed: written, or left out by a filter."""
        if rows.num_rows:
            self._written.update({TopicPartition(*end[0]): end for end in _core.ends_of(rows)})
            self._uncommitted = True

    def commit_written(self) -> None:
        """Commits the offsets of written rows in the background, if `may_commit` allows it."""
        if not self._uncommitted or not self._may_commit():
            return
        try:
            if offsets := self.written_offsets():
                self._consumer.commit_async(offsets)
        except RebalanceInProgressError:
            # The next poll rejoins the group, and then passes revoked partitions to the listener.
            return
        self._uncommitted = False

    def written_offsets(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Returns the offsets after the written rows of partitions that are still assigned."""
        return self._offsets(list(self._written.values()))

    def _offsets(self, ends: list[End]) -> dict[TopicPartition, OffsetAndMetadata]:
        return {TopicPartition(*tp): OffsetAndMetadata(*at) for tp, at in self._consumer._open.offsets_of_ends(ends)}

    def final_offsets(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Returns the offsets to commit when all rows up to the ends have been written.

        Uses positions, because they are past offsets without rows, and are also known for partitions that had no rows.
        """
        consumer = self._consumer
        found = self.written_offsets()
        for tp in consumer.assignment():
            position = consumer.position(tp)
            if tp not in found or position > found[tp].offset:
                found[tp] = OffsetAndMetadata(position)
        return found
