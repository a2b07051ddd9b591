"""Readers of consumers that end."""

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
    """Polls until all ends are reached; rows past them stay for later polls.

    The core stops at the ends, so that nothing can fail between a poll and the yield of its rows. Partitions
    that a rebalance takes away are no longer waited for; those that it assigns are read up to their ends at that time.

    Args:
        consumer: reads nothing else meanwhile.
        ends: the offsets to stop at.
    """
    core = consumer._open
    try:
        set_ends(core, ends)
        while True:
            unfinished, added = core.bounds()
            if added:
                found = await consumer._end_offsets([TopicPartition(*tp) for tp in added], None)
                set_ends(core, found)
                continue
            if not unfinished:
                return
            batch = await consumer._poll(1.0)
            if batch.num_rows:
                yield batch
    finally:
        core.lift_ends()


def set_ends(core: _core.Consumer, ends: Mapping[TopicPartition, int]) -> None:
    """Stops the reading of partitions that are still assigned at these offsets."""
    assigned = set(core.assignment())
    for tp, end in ends.items():
        if tp in assigned:
            core.read_until((tp.topic, tp.partition), end)


def before(batch: pa.RecordBatch, tp: TopicPartition, end: int) -> pa.RecordBatch:
    """The rows without those of `tp` from offset `end` on."""
    topics = batch.column("topic").to_pylist()
    partitions, offsets = batch.column("partition").to_pylist(), batch.column("offset").to_pylist()
    rows = zip(topics, partitions, offsets, strict=True)
    wanted = [i for i, (topic, partition, offset) in enumerate(rows) if (topic, partition) != tp or offset < end]
    # Rows of a partition lie together, so that slices serve both layouts; views have no `take`.
    return slice_rows(batch, wanted)


def slice_rows(batch: pa.RecordBatch, rows: list[int]) -> pa.RecordBatch:
    """The rows of these numbers, which rise, as one batch."""
    runs: list[list[int]] = []
    for row in rows:
        if runs and runs[-1][1] == row:
            runs[-1][1] = row + 1
        else:
            runs.append([row, row + 1])
    return pa.concat_batches([batch.slice(start, end - start) for start, end in runs] or [batch.slice(0, 0)])
