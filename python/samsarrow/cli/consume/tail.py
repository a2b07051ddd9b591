"""Reader of the newest records, either of all partitions together or of each partition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from samsarrow.cli.consume.reading import Progress, read_partitions
from samsarrow.types import TopicPartition

if TYPE_CHECKING:
    from samsarrow import Consumer

Offsets = Mapping[TopicPartition, int]
# Factor by which a range grows if it has too few records.
GROWTH = 4


def newest(
    consumer: Consumer, beginnings: Offsets, ends: Offsets, count: int, per_partition: bool
) -> Iterator[pa.RecordBatch]:
    """Yields the newest `count` records, in ascending order of their timestamps or offsets.

    Not every offset has a record, so the function reads larger ranges until it has enough records.

    Args:
        consumer: consumer without a subscription. This function changes its assignment.
        beginnings: first offsets of the partitions.
        ends: end offsets of the partitions, in the same order.
        count: number of records.
        per_partition: whether `count` applies to each partition instead of all partitions together.
    """
    found: dict[TopicPartition, pa.Table] = {}
    reach, short = count, dict(ends)
    while short:
        starts = {tp: max(beginnings[tp], end - reach) for tp, end in short.items()}
        found.update(_rows(consumer, starts, short, count))
        short = {tp: end for tp, end in short.items() if found[tp].num_rows < count and starts[tp] > beginnings[tp]}
        reach *= GROWTH
    table = pa.concat_tables(found.values()).unify_dictionaries()
    if not per_partition:
        # Records without a timestamp are sorted as the oldest.
        order = pc.sort_indices(pc.fill_null(table["timestamp"].cast(pa.int64()), -1))
        table = table.take(order[-count:])
    yield from table.combine_chunks().to_batches()


def _rows(consumer: Consumer, starts: Offsets, ends: Offsets, count: int) -> dict[TopicPartition, pa.Table]:
    """Returns the last `count` rows of each partition between two offsets."""
    batches = list(read_partitions(consumer, starts, ends, Progress()))
    table = pa.Table.from_batches(batches, consumer.schema)
    last = {}
    for tp in ends:
        rows = table.filter((pc.field("topic") == tp.topic) & (pc.field("partition") == tp.partition))
        last[tp] = rows.slice(max(0, rows.num_rows - count))
    return last
