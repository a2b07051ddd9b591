"""Batches from the first place to the last: of partitions read by hand, or as a member of a group."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from samsarrow._rows import before
from samsarrow.exceptions import KafkaTimeoutError
from samsarrow.group import RebalanceListener
from samsarrow.types import TopicPartition

if TYPE_CHECKING:
    from samsarrow import Consumer

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
    consumer.assign(wanted)
    # By an earlier call.
    if paused := consumer.paused():
        consumer.resume(*paused)
    for tp in wanted:
        consumer.seek(tp, starts[tp])
    if ends is None:
        while True:
            yield consumer.poll(PATIENCE)
    yield from _until(consumer, {tp: ends[tp] for tp in wanted}, starts, at)


def _until(
    consumer: Consumer, ends: dict[TopicPartition, int], starts: Mapping[TopicPartition, int], at: Progress
) -> Iterator[pa.RecordBatch]:
    open_ends = dict(ends)
    closed = 0
    stall = Stall()
    while open_ends:
        batch = consumer.poll(PATIENCE)
        moved = 0
        for tp, end in list(open_ends.items()):
            position = consumer.position(tp)
            if position >= end:
                batch = before(batch, tp, end) if position > end else batch
                del open_ends[tp]
                consumer.pause(tp)
                closed += end - starts[tp]
            else:
                moved += position - starts[tp]
        at.done = closed + moved
        stall.check(at.done, open_ends)
        yield batch


class Stall:
    """Notices that a read with an end comes no nearer to it."""

    def __init__(self) -> None:
        self._limit = STALLED_SECONDS
        self._since = time.monotonic()
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
            self._before, self._since = state, time.monotonic()
        elif time.monotonic() - self._since > self._limit:
            names = ", ".join(f"{tp.topic}-{tp.partition}" for tp in list(missing)[:5])
            raise KafkaTimeoutError(
                f"no record arrived for {self._limit:g} s, and {names} not read to the end: are the leaders reachable?"
            )


class Membership(RebalanceListener):
    """Reads as a member of a group, up to the ends that partitions had at the start.

    What comes and goes by rebalances is heeded: it ends when all that is assigned to this member is at its end.

    Args:
        consumer: that subscribes with this as its listener.
        ends: of all partitions of the topics; None to follow for ever.
        limit: seconds for the group to give partitions.
    """

    def __init__(self, consumer: Consumer, ends: Mapping[TopicPartition, int] | None, limit: float) -> None:
        super().__init__()
        self._consumer = consumer
        self._ends = ends
        self._limit = limit
        self._given = False

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        """The group has given partitions, be it none."""
        self._given = True

    def batches(self) -> Iterator[pa.RecordBatch]:
        """What comes; rows past the ends are left for the next who reads.

        Raises:
            KafkaTimeoutError: the group gave no partitions in time.
        """
        deadline = time.monotonic() + self._limit
        stall = Stall()
        while True:
            batch = self._consumer.poll(PATIENCE if self._given else 0.2)
            if not self._given and not batch.num_rows and time.monotonic() > deadline:
                raise KafkaTimeoutError(
                    f"the group gave this member no partitions within {self._limit:g} s: "
                    "--timeout SECONDS waits longer, the log of the brokers says what it waits for"
                )
            if self._ends is None:
                yield batch
                continue
            left: dict[TopicPartition, int] = {}
            for tp in self._consumer.assignment() - self._consumer.paused():
                end = self._ends.get(tp, 0)
                position = self._consumer.position(tp)
                if position < end:
                    left[tp] = position
                    continue
                if position > end:
                    batch = before(batch, tp, end)
                    self._consumer.seek(tp, end)
                self._consumer.pause(tp)
            yield batch
            if self._given and not left:
                return
            if left:
                stall.check(hash(frozenset(left.items())), left)
