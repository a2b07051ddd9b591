"""Readers of batches: of assigned partitions between two offsets, or as a member of a group."""

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

# Timeout of a poll, after which ends are checked; signals interrupt it.
POLL_SECONDS = 1.0
# Time without progress after which a command with an end fails: a consumer itself retries without limit.
STALLED_SECONDS = 60.0


@dataclass
class Progress:
    """Progress of a read, in offsets; not every offset has a row."""

    done: int = 0
    total: int = 0


def read_partitions(
    consumer: Consumer,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int] | None,
    progress: Progress,
) -> Iterator[pa.RecordBatch]:
    """Assigns partitions and reads them between two offsets.

    Reading ends when all positions have reached the ends. Positions move past offsets without rows, such as transaction
    markers and compacted records, so these do not delay the end.

    Args:
        consumer: consumer without a subscription.
        starts: first offset by partition.
        ends: end offset by partition; None to read without an end.
        progress: updated while reading.
    """
    partitions = [tp for tp, start in starts.items() if ends is None or start < ends[tp]]
    if ends is not None:
        progress.total = sum(ends[tp] - starts[tp] for tp in partitions)
    if not partitions:
        return
    core = consumer._open
    consumer.assign(partitions)
    # Removes the ends of an earlier read.
    core.lift_ends()
    for tp in partitions:
        consumer.seek(tp, starts[tp])
    if ends is None:
        while True:
            yield consumer.poll(POLL_SECONDS)
    set_ends(core, {tp: ends[tp] for tp in partitions})

    def update(unfinished: list[Unfinished], without_end: list[TopicPartition]) -> None:
        if without_end:
            raise KafkaError(f"{_names(without_end)} would be read without an end: the assignment has changed")
        # For the progress bar only: a position that is not known yet counts as the start.
        remaining = (end - max(position or 0, starts[tp]) for tp, position, end in unfinished)
        progress.done = progress.total - sum(remaining)

    yield from _until_ends(consumer, update)


Unfinished = tuple[TopicPartition, int | None, int]


def _until_ends(
    consumer: Consumer, update: Callable[[list[Unfinished], list[TopicPartition]], None]
) -> Iterator[pa.RecordBatch]:
    """Polls until all assigned partitions have reached their ends.

    The Rust client returns no row past an end, so positions never have to be moved back.

    Args:
        consumer: consumer whose ends are set by the caller or by `update`.
        update: called before each poll with the partitions before their ends, with positions and ends, and with the
            partitions without an end.
    """
    core = consumer._open
    stall = StallDetector()
    while True:
        unfinished, without_end = core.bounds()
        open_ends = [(TopicPartition(*tp), position, end) for tp, position, end in unfinished]
        update(open_ends, [TopicPartition(*tp) for tp in without_end])
        if without_end:
            continue
        # During a rebalance the member may have no partitions until it gets new ones.
        if not open_ends and consumer._is_assigned():
            return
        stall.check(hash(frozenset(open_ends)), [tp for tp, _, _ in open_ends])
        yield consumer.poll(POLL_SECONDS)


def commit(consumer: Consumer, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
    """Commits offsets; repeats the commit once if a signal interrupted it."""
    try:
        consumer.commit(offsets)
    except WakeupError:
        consumer.commit(offsets)


def _names(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(f"{tp.topic}-{tp.partition}" for tp in list(partitions)[:5])


class StallDetector:
    """Detects that a read with an end makes no progress."""

    def __init__(self) -> None:
        self._limit = STALLED_SECONDS
        self._deadline = _core.Deadline(self._limit)
        self._before = -1

    def check(self, state: int, missing: Iterable[TopicPartition]) -> None:
        """Checks for progress; called before each poll.

        Args:
            state: a number that changes with any progress.
            missing: the partitions before their ends.

        Raises:
            KafkaTimeoutError: there was no progress for `STALLED_SECONDS`.
        """
        if state != self._before:
            self._before, self._deadline = state, _core.Deadline(self._limit)
        elif self._deadline.passed():
            names = _names(missing) or "the group's partitions"
            raise KafkaTimeoutError(
                f"no record arrived for {self._limit:g} s, and {names} not read to the end: are the leaders reachable?"
            )


class GroupReader(RebalanceListener):
    """Reads as a member of a group, up to the end that each partition has when it is assigned.

    Rebalances may add and remove partitions: reading ends when all partitions of this member are at their ends. The
    position of an assigned partition is never moved back, even if it is past the end.

    Args:
        consumer: consumer that subscribes with this object as its listener.
        follow: whether to read on past the ends.
        limit: seconds for the group to assign partitions.
        may_commit: returns true if written rows may be committed.
    """

    def __init__(self, consumer: Consumer, follow: bool, limit: float, may_commit: Callable[[], bool]) -> None:
        super().__init__()
        self._consumer = consumer
        self._follow = follow
        self._limit = limit
        self._may_commit = may_commit
        self._uncommitted = False
        # Offsets after written rows, with topic ids: a topic that is deleted and recreated has other offsets.
        self._written: dict[TopicPartition, End] = {}

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        """Commits the written rows of revoked partitions, before other members continue with them."""
        revoked = self._offsets([self._written[tp] for tp in partitions if tp in self._written])
        if revoked and self._may_commit():
            commit(self._consumer, revoked)
        self.on_partitions_lost(partitions)

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        """Stops committing lost partitions: other members may be past their offsets."""
        for tp in partitions:
            self._written.pop(tp, None)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the batches up to the ends of the partitions, or without an end with `follow`.

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
        """Records the offsets after rows that were written, or that a filter left out."""
        if rows.num_rows:
            self._written.update({TopicPartition(*end[0]): end for end in _core.ends_of(rows)})
            self._uncommitted = True

    def commit_written(self) -> None:
        """Commits the offsets of written rows in the background, if that is allowed."""
        if not self._uncommitted or not self._may_commit():
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

        These are positions, which are past offsets without rows and also known for partitions without any row.
        """
        consumer = self._consumer
        found = self.written_offsets()
        for tp in consumer.assignment():
            position = consumer.position(tp)
            if tp not in found or position > found[tp].offset:
                found[tp] = OffsetAndMetadata(position)
        return found
