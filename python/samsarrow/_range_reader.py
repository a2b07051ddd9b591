"""Bounded reads of assigned partitions, between two offsets each, for plans, Polars and the command line."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from samsarrow import _core
from samsarrow._bounded_reader import set_ends
from samsarrow._sync import run_sync
from samsarrow.exceptions import KafkaError, KafkaTimeoutError, OffsetOutOfRangeError, UnknownTopicOrPartitionError
from samsarrow.types import TopicPartition

if TYPE_CHECKING:
    from samsarrow._consumer import ConsumerBase

# Maximum seconds of a poll, after which progress is checked.
_POLL_SECONDS = 1.0
# Seconds between attempts to read an offset that a new leader does not have yet.
_CATCH_UP_SECONDS = 0.1
# Maximum number of partitions in an error message.
_NAMED = 5


@dataclass(frozen=True, slots=True)
class DataLoss:
    """Offsets that cannot be read, because retention or `Admin.delete_records` removed their records.

    Attributes:
        partition: partition of the offsets.
        start: first lost offset.
        end: offset after the last lost offset.
    """

    partition: TopicPartition
    start: int
    end: int

    @property
    def count(self) -> int:
        """The number of lost offsets. The number of records may be smaller, as in `Plan.estimated_rows`."""
        return self.end - self.start

    def __str__(self) -> str:
        return f"{name_of(self.partition)}: offsets {self.start} to {self.end - 1} ({self.count:,})"


class RangeReader:
    """Reader of offset ranges, which ends exactly at their end offsets.

    The Rust client returns no row at or after an end, and its positions also move past offsets without rows: markers of
    transactions, and aborted or compacted records. After an error or a cancellation, the next call continues.

    Args:
        consumer: consumer without a subscription. The reader replaces its assignment.
        ranges: by partition, the first offset and the end offset.
        limit: maximum seconds without progress.
        on_loss: called with offsets that retention removed; it raises an error, or returns to skip these offsets. None
            raises `OffsetOutOfRangeError`.
        find_topic_id: looks up the current id of the topic; None if ids are not compared.
        topic_id: id that the topic must have; None if the brokers do not support ids.
    """

    def __init__(
        self,
        consumer: ConsumerBase,
        ranges: Mapping[TopicPartition, tuple[int, int]],
        *,
        limit: float,
        on_loss: Callable[[DataLoss], None] | None = None,
        find_topic_id: Callable[[float], Awaitable[bytes | None]] | None = None,
        topic_id: bytes | None = None,
    ) -> None:
        self._consumer, self._limit, self._on_loss = consumer, limit, on_loss or raise_loss
        self._find_topic_id, self._topic_id = find_topic_id, topic_id
        ranges = {tp: (start, end) for tp, (start, end) in ranges.items() if start < end}
        # Next offset of each partition. A position of the Rust client is unknown after an error.
        self._positions = {tp: start for tp, (start, _) in ranges.items()}
        self._ends = {tp: end for tp, (_, end) in ranges.items()}
        self._deadline = _core.Deadline(limit)
        self._cause: KafkaError | None = None
        # True if partitions are read again after a pause, because their leader did not have their offset yet.
        self._catching_up = False
        # True after a poll without rows.
        self._idle = False
        # True from the return of rows, or of an error, until the next poll.
        self._returned = True
        # Partitions whose rows have not shown the id of their topic yet. Later changes of the id are errors of the Rust
        # client (ADR 60).
        self._unseen = set(self._ends) if find_topic_id is not None and topic_id is not None else set()
        self.total = sum(end - start for start, end in ranges.values())
        self._start()

    def _start(self) -> None:
        """Assigns the partitions, whose fetches start at the same time.

        If a first Fetch request had only partitions that are at their ends, the broker would delay its response by up
        to half a second.
        """
        consumer = self._consumer
        if not self._ends:
            return
        consumer.assign(self._ends)
        consumer.pause(*self._ends)
        # Removes the ends of an earlier read.
        consumer._open.lift_ends()
        set_ends(consumer._open, self._ends)
        for tp, start in self._positions.items():
            consumer.seek(tp, start)
        consumer.resume(*self._ends)

    @property
    def done(self) -> int:
        """The number of offsets that have been read, including those without rows."""
        return self.total - sum(end - self._positions[tp] for tp, end in self._ends.items())

    async def next_batch(self) -> pa.RecordBatch | None:
        """Returns the next rows, or None at the ends.

        Raises:
            OffsetOutOfRangeError: offsets do not exist any more, or the topic was deleted and created again.
            UnknownTopicOrPartitionError: the topic was deleted.
            KafkaTimeoutError: no partition made progress within the limit. The message names the partitions.
            BadValueError: the next row cannot be decoded.
        """
        while (batch := await self.poll()) is not None:
            if batch.num_rows:
                return batch
        return None

    async def poll(self) -> pa.RecordBatch | None:
        """Returns the rows of one poll, which may be none, or None at the ends. Raises as `next_batch` does."""
        if self._returned:
            # The time in which the application processes rows does not count.
            self._returned, self._deadline = False, _core.Deadline(self._limit)
        unfinished, moved = await self._update_positions() if self._ends else ([], False)
        if not unfinished:
            await self._check_unseen()
            return None
        if self._deadline.passed():
            self._returned = True
            raise self._timeout(unfinished)
        if self._idle and not moved:
            await self._check_ends(unfinished)
        # A part of the limit, so that the ends are checked before the limit has passed.
        seconds = _CATCH_UP_SECONDS if self._catching_up else min(_POLL_SECONDS, self._limit / 4)
        self._idle = False
        try:
            batch = await self._consumer._poll(min(seconds, self._deadline.left()))
        except OffsetOutOfRangeError as error:
            if self._cause is None:
                # The first failure since progress: later ones need no further lookup.
                await self._check_topic()
            self._cause = error
            await self._find_lost(unfinished)
            return self._consumer._empty_batch(self._consumer._open)
        if batch.num_rows:
            self._returned = True
            self._check_rows(batch)
        elif self._catching_up:
            self._seek_back(unfinished)
        else:
            self._idle = True
        return batch

    async def _update_positions(self) -> tuple[list[TopicPartition], bool]:
        """Updates the positions. Returns the partitions that have not reached their ends, and whether any has moved."""
        # `_check_ends` finds positions past the end of the log.
        unfinished, without_end, _ = self._consumer._open.bounds()
        if without_end:
            await self._check_topic()
            names = ", ".join(name_of(TopicPartition(*tp)) for tp in without_end[:_NAMED])
            raise KafkaError(f"{names} would be read without an end: the assignment of the consumer has changed")
        moved = False
        positions = {TopicPartition(*tp): position for tp, position, _ in unfinished}
        for tp, end in self._ends.items():
            position = positions.get(tp, end)
            if position is not None and position > self._positions[tp]:
                self._positions[tp], moved = position, True
        if moved:
            self._deadline, self._cause = _core.Deadline(self._limit), None
        return list(positions), moved

    def _check_rows(self, batch: pa.RecordBatch) -> None:
        """Compares the topic id of rows with the expected id, until all partitions have been compared.

        Rows of a response that is still being received may have no id.
        """
        for tp, _, found in _core.ends_of(batch) if self._unseen else ():
            if not any(found):
                continue
            if found != self._topic_id:
                raise recreated(tp[0])
            self._unseen.discard(TopicPartition(*tp))

    async def _check_unseen(self) -> None:
        """Compares the id of the topic if a partition had no rows with an id."""
        if self._unseen:
            await self._check_topic()
            self._unseen.clear()

    async def _check_topic(self) -> None:
        """Raises an error if the topic was deleted and created again."""
        if self._find_topic_id is None or self._topic_id is None:
            return
        if await self._find_topic_id(self._limit) != self._topic_id:
            raise recreated(next(iter(self._ends)).topic)

    async def _find_lost(self, unfinished: list[TopicPartition]) -> None:
        """Skips offsets that retention removed, unless `on_loss` raises."""
        try:
            firsts = await self._consumer._beginning_offsets((unfinished,), self._deadline.left())
        except KafkaTimeoutError as error:
            self._cause, self._catching_up = self._cause or error, True
            return
        except UnknownTopicOrPartitionError as error:
            raise self._deleted(unfinished, error) from error
        lost = False
        for tp in unfinished:
            if firsts[tp] > (position := self._positions[tp]):
                end = min(firsts[tp], self._ends[tp])
                self._on_loss(DataLoss(tp, position, end))
                self._consumer.seek(tp, end)
                self._positions[tp], lost = end, True
        if lost:
            self._deadline = _core.Deadline(self._limit)
        else:
            await self._check_ends(unfinished)
            # The leader is new, and has to fetch the offset from another replica, or its log start has just moved.
            self._catching_up = True

    def _seek_back(self, unfinished: Iterable[TopicPartition]) -> None:
        self._catching_up = False
        for tp in unfinished:
            self._consumer.seek(tp, self._positions[tp])

    async def _check_ends(self, unfinished: list[TopicPartition]) -> None:
        """Raises an error if a log ends within its range, so that no more rows will arrive."""
        try:
            ends = await self._consumer._end_offsets((unfinished,), self._deadline.left())
        except KafkaTimeoutError as error:
            self._cause = self._cause or error
            return
        except UnknownTopicOrPartitionError as error:
            raise self._deleted(unfinished, error) from error
        for tp, end in ends.items():
            if end < self._ends[tp]:
                await self._check_topic()
                # Rows before the end of the log are returned first.
                if self._positions[tp] >= end:
                    raise OffsetOutOfRangeError(
                        f"{name_of(tp)} ends at offset {end}, before {self._ends[tp]}, up to which it should be read: "
                        "the log was truncated, or the topic was deleted and recreated"
                    )

    def _timeout(self, unfinished: list[TopicPartition]) -> KafkaTimeoutError:
        cause = "the log has the reason" if self._cause is None else str(self._cause)
        error = KafkaTimeoutError(f"no record arrived for {self._limit:g} s: {self._progress(unfinished)}; {cause}")
        error.__cause__ = self._cause
        return error

    def _deleted(self, unfinished: list[TopicPartition], cause: KafkaError) -> UnknownTopicOrPartitionError:
        """Returns the error for a topic that was deleted, and not created again."""
        return UnknownTopicOrPartitionError(
            f"topic {unfinished[0].topic} was deleted during the read or before it, or this client may not describe it "
            f"any more: {self._progress(unfinished)}; {cause}"
        )

    def _progress(self, unfinished: list[TopicPartition]) -> str:
        """Returns the positions and ends of partitions for an error."""
        where = ", ".join(
            f"{name_of(tp)} at offset {self._positions[tp]} of {self._ends[tp]}" for tp in unfinished[:_NAMED]
        )
        return where + (f" and {len(unfinished) - _NAMED} more partitions" if len(unfinished) > _NAMED else "")


class RangeBatches:
    """Iterator over the batches of a `RangeReader` of a blocking consumer."""

    def __init__(self, reader: RangeReader) -> None:
        self._reader = reader

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        batch = run_sync(self._reader.next_batch())
        if batch is None:
            raise StopIteration
        return batch


def raise_loss(loss: DataLoss) -> None:
    """Raises the error for lost offsets."""
    raise OffsetOutOfRangeError(f"{loss} cannot be read: retention or delete_records removed them")


def recreated(topic: str) -> OffsetOutOfRangeError:
    """Returns the error for a topic that has another id than expected."""
    return OffsetOutOfRangeError(
        f"topic {topic} was deleted and recreated, or only deleted, and the offsets belong to the old topic: plan the "
        "read again"
    )


def name_of(tp: TopicPartition) -> str:
    """Returns the name of a partition in messages."""
    return f"{tp.topic}-{tp.partition}"
