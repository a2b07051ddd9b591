"""Readers that stop at end offsets, and row selection in batches."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from samsarrow import _core
from samsarrow._sync import checkpoint, run_sync
from samsarrow._threads import allocate_lock
from samsarrow.exceptions import IllegalStateError, UnknownTopicOrPartitionError
from samsarrow.types import Seconds, TopicPartition

if TYPE_CHECKING:
    from samsarrow._consumer import ConsumerBase

# Seconds without progress after which a read checks whether its topics still exist.
_STALLED_SECONDS = 5.0
# Maximum seconds of this check. If brokers do not respond, the read continues, and the check is repeated.
_CHECK_SECONDS = 10.0

Bounded = tuple[tuple[str, int], int | None, int]
"""A partition, its position if known, and its end."""


class DeletedTopics:
    """Detection of topics that are deleted before a bounded read has reached their ends.

    A group revokes the partitions of a deleted topic, so the read would otherwise end as if it were complete. A read of
    manually assigned partitions would fail only after `default.api.timeout.ms`.
    """

    def __init__(self, consumer: ConsumerBase) -> None:
        self._consumer = consumer
        self._unfinished: dict[tuple[str, int], Bounded] = {}
        self._gone: set[tuple[str, int]] = set()
        self._stalled = _core.Deadline(_STALLED_SECONDS)

    async def check(self, unfinished: Sequence[Bounded]) -> int:
        """Checks for deleted topics; called before each poll. Returns the number of partitions that can be read on.

        Args:
            unfinished: partitions that have not reached their ends.

        Raises:
            UnknownTopicOrPartitionError: a topic was deleted. Later calls ignore its partitions.
        """
        now = {bounded[0]: bounded for bounded in unfinished if bounded[0] not in self._gone}
        assigned = set(self._consumer._open.assignment())
        suspects = [tp for tp in self._unfinished if tp not in now and tp not in assigned]
        if now != {tp: bounded for tp, bounded in self._unfinished.items() if tp in now}:
            self._stalled = _core.Deadline(_STALLED_SECONDS)
        elif self._stalled.passed():
            suspects += now
        gone: list[tuple[str, int]] = []
        if suspects:
            gone = await self._consumer._run(self._consumer._open.unknown_partitions(suspects, _CHECK_SECONDS))
            self._stalled = _core.Deadline(_STALLED_SECONDS)
        deleted = [self._unfinished[tp] for tp in gone]
        self._unfinished = {tp: bounded for tp, bounded in now.items() if tp not in gone}
        self._gone.update(gone)
        if deleted:
            rows = ", ".join(f"{tp[0]}-{tp[1]} from {position} to {end}" for tp, position, end in deleted[:5])
            more = f" and {len(deleted) - 5} more partitions" if len(deleted) > 5 else ""
            raise UnknownTopicOrPartitionError(
                f"the topic was deleted before the reader had read it to its end: offsets of {rows}{more} are missing"
            )
        return len(now)


async def read_to_ends(
    consumer: ConsumerBase, ends: Mapping[TopicPartition, int], deleted: DeletedTopics
) -> AsyncGenerator[pa.RecordBatch, None]:
    """Yields rows until all end offsets are reached. Rows after the ends remain for later polls.

    The Rust client stops at the end offsets, so nothing can fail between a poll and the yield of its rows. Partitions
    that a rebalance revokes are skipped; newly assigned partitions are read up to the end that they have at that time.

    Args:
        consumer: consumer to poll. The application must not poll it until the generator ends.
        ends: by partition, the first offset that is not read.
        deleted: detection of deleted topics.
    """
    core = consumer._open
    try:
        set_ends(core, ends)
        while True:
            # A consumer that was closed has no partitions left to read, which must not look like the end.
            unfinished, added, past = consumer._open.bounds()
            readable = await deleted.check(unfinished)
            if added:
                new_ends = await consumer._end_offsets(([TopicPartition(*tp) for tp in added],), None)
                set_ends(core, new_ends)
                continue
            if past:
                await consumer._run(core.reset_past_ends(None))
                continue
            if not readable:
                return
            batch = await consumer._poll(1.0)
            if batch.num_rows:
                yield batch
    finally:
        core.lift_ends()


class BoundedRead:
    """Bounded read of a blocking or async consumer. After an error, it continues with the next row.

    A generator would end with its first error, and a later read would look complete.
    """

    def __init__(self, consumer: ConsumerBase, ends: Mapping[TopicPartition, int]) -> None:
        self._consumer, self._ends = consumer, ends
        self._deleted = DeletedTopics(consumer)
        self._batches: AsyncGenerator[pa.RecordBatch, None] | None = None
        self._reading = allocate_lock()
        self._ended = False

    async def next_batch(self) -> pa.RecordBatch | None:
        """Returns the next rows, or None at the ends.

        Raises:
            IllegalStateError: another thread or task is reading.
        """
        if not self._reading.acquire(blocking=False):
            raise IllegalStateError("the reader is being read already: only one thread or task may read at a time")
        try:
            if self._ended:
                return None
            batches = self._batches or read_to_ends(self._consumer, self._ends, self._deleted)
            # A generator that raises has ended.
            self._batches = None
            batch = await anext(batches, None)
            self._batches, self._ended = batches, batch is None
            return batch
        finally:
            self._reading.release()

    async def close(self) -> None:
        """Ends the read, and lifts the ends."""
        self._ended = True
        if self._batches is not None:
            await self._batches.aclose()


class BoundedBatches:
    """Batches of a bounded read, for blocking consumers."""

    def __init__(self, consumer: ConsumerBase, ends: Mapping[TopicPartition, int]) -> None:
        self._read = BoundedRead(consumer, ends)

    def __iter__(self) -> BoundedBatches:
        return self

    def __next__(self) -> pa.RecordBatch:
        batch = run_sync(self._read.next_batch())
        if batch is None:
            raise StopIteration
        return batch

    def __del__(self) -> None:
        run_sync(self._read.close())


class AsyncBoundedBatches:
    """Batches of a bounded read, for async consumers. The first one looks up the ends."""

    def __init__(self, consumer: ConsumerBase, timeout: Seconds | None) -> None:
        self._consumer, self._timeout = consumer, timeout
        self._read: BoundedRead | None = None

    def __aiter__(self) -> AsyncBoundedBatches:
        return self

    async def __anext__(self) -> pa.RecordBatch:
        if self._read is None:
            self._read = BoundedRead(self._consumer, await self._consumer._current_ends(self._timeout))
        await checkpoint()
        batch = await self._read.next_batch()
        if batch is None:
            raise StopAsyncIteration
        return batch

    async def aclose(self) -> None:
        """Ends the read."""
        if self._read is not None:
            await self._read.close()


def set_ends(core: _core.Consumer, ends: Mapping[TopicPartition, int]) -> None:
    """Sets the end offsets of the partitions that are still assigned."""
    assigned = set(core.assignment())
    for tp, end in ends.items():
        if tp in assigned:
            core.read_until((tp.topic, tp.partition), end)


def slice_rows(batch: pa.RecordBatch, rows: list[int]) -> pa.RecordBatch:
    """Returns the rows with these indices, in ascending order, as one batch.

    Concatenates slices instead of calling `take`, which view arrays do not support.
    """
    runs: list[list[int]] = []
    for row in rows:
        if runs and runs[-1][1] == row:
            runs[-1][1] = row + 1
        else:
            runs.append([row, row + 1])
    return pa.concat_batches([batch.slice(start, end - start) for start, end in runs] or [batch.slice(0, 0)])
