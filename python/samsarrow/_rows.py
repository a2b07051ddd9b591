"""Readers of consumers that end."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from samsarrow.types import TopicPartition

if TYPE_CHECKING:
    from samsarrow._consumer import ConsumerBase


async def up_to(
    consumer: ConsumerBase, ends: Mapping[TopicPartition, int], held: pa.RecordBatch
) -> AsyncGenerator[pa.RecordBatch, None]:
    """Polls until all `ends` are reached; rows beyond them are left for the next `poll`.

    Args:
        consumer: reads nothing else meanwhile.
        ends: the offsets to stop at.
        held: what was polled already.
    """
    open_ends = {tp: end for tp, end in ends.items() if await consumer._position(tp, None) < end}
    if held.num_rows:
        yield held
    # Only what is paused here is resumed in the end: what the program paused stays so.
    paused = consumer.assignment() - consumer.paused() - set(open_ends)
    try:
        if paused:
            consumer.pause(*paused)
        while open_ends:
            batch = await consumer._poll(1.0)
            kept = batch
            for tp, end in list(open_ends.items()):
                position = await consumer._position(tp, None)
                if position >= end:
                    del open_ends[tp]
                    consumer.pause(tp)
                    paused.add(tp)
                    if position > end:
                        kept = before(kept, tp, end)
                        consumer.seek(tp, end)
            if kept.num_rows:
                yield kept
    finally:
        if paused and not consumer.closed:
            consumer.resume(*paused)


def before(batch: pa.RecordBatch, tp: TopicPartition, end: int) -> pa.RecordBatch:
    """The rows without those of `tp` from offset `end` on."""
    topics = batch.column("topic").to_pylist()
    partitions, offsets = batch.column("partition").to_pylist(), batch.column("offset").to_pylist()
    rows = zip(topics, partitions, offsets, strict=True)
    wanted = [i for i, (topic, partition, offset) in enumerate(rows) if (topic, partition) != tp or offset < end]
    # Rows of a partition lie together, so that slices serve both layouts; views have no `take`.
    return slices(batch, wanted)


def slices(batch: pa.RecordBatch, rows: list[int]) -> pa.RecordBatch:
    """The rows of these numbers, which rise, as one batch."""
    runs: list[list[int]] = []
    for row in rows:
        if runs and runs[-1][1] == row:
            runs[-1][1] = row + 1
        else:
            runs.append([row, row + 1])
    return pa.concat_batches([batch.slice(start, end - start) for start, end in runs] or [batch.slice(0, 0)])
