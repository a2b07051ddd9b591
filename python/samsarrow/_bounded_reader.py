"""Readers that stop at given end offsets, and row selection in batches."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

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
            unfinished, added = core.bounds()
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
