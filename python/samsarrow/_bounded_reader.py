"""Readers that stop at given end offsets, and row selection in batches."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from samsarrow._sync import run_sync
from samsarrow.types import TopicPartition

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


class BoundedBatches:
    """Batches of a bounded read by a blocking consumer. After an error, the next batch is read again.

    A generator would end with its first error, and a later read would look complete.

    Args:
        consumer: consumer to poll.
        ends: by partition, the first offset that is not read.
    """

    def __init__(self, consumer: ConsumerBase, ends: Mapping[TopicPartition, int]) -> None:
        self._consumer, self._ends = consumer, ends
        self._batches: AsyncGenerator[pa.RecordBatch, None] | None = None
        self._ended = False

    def __iter__(self) -> BoundedBatches:
        return self

    def __next__(self) -> pa.RecordBatch:
        if self._ended:
            raise StopIteration
        if self._batches is None:
            self._batches = read_to_ends(self._consumer, self._ends)
        try:
            return run_sync(anext(self._batches))
        except StopAsyncIteration:
            self._ended = True
            raise StopIteration from None
        except BaseException:
            self._batches = None
            raise

    def __del__(self) -> None:
        if self._batches is not None:
            run_sync(self._batches.aclose())


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
