"""Readers that stop at given end offsets, and row selection in batches."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from samsarrow._sync import checkpoint, run_sync
from samsarrow._threads import allocate_lock
from samsarrow.exceptions import IllegalStateError
from samsarrow.types import Seconds, TopicPartition

if TYPE_CHECKING:
    from samsarrow import _core
    from samsarrow._consumer import ConsumerBase


async def read_to_ends(
    consumer: ConsumerBase, ends: Mapping[TopicPartition, int]
) -> AsyncGenerator[pa.RecordBatch, None]:
    """Yields rows until all end offsets are reached. Rows after the ends remain for later polls.

    The Rust client stops at the end offsets, so nothing can fail between a poll and the yield of its rows. Partitions
    that a rebalance revokes are skipped; newly assigned partitions are read up to the end that they have at that time.

    Args:
        consumer: consumer to poll. The application must not poll it until the generator ends.
        ends: by partition, the first offset that is not read.
    """
    core = consumer._open
    try:
        set_ends(core, ends)
        while True:
            # A consumer that was closed has no partitions left to read, which must not look like the end.
            unfinished, added = consumer._open.bounds()
            if added:
                new_ends = await consumer._end_offsets([TopicPartition(*tp) for tp in added], None)
                set_ends(core, new_ends)
                continue
            if not unfinished:
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
            batches = self._batches or read_to_ends(self._consumer, self._ends)
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
