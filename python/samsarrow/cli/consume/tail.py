"""The newest records: over all partitions, or of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from samsarrow.cli.consume.reading import Progress, by_hand
from samsarrow.types import TopicPartition

if TYPE_CHECKING:
    from samsarrow import Consumer

Offsets = Mapping[TopicPartition, int]
# How much further back is looked when offsets turn out to hold fewer records than they count.
FURTHER = 4


def newest(
    consumer: Consumer, beginnings: Offsets, ends: Offsets, count: int, per_partition: bool
) -> Iterator[pa.RecordBatch]:
    """The newest `count` records, the oldest of them first.

    Offsets may be without a record: then more of them are looked at.

    Args:
        consumer: without a subscription; what is assigned to it changes.
        beginnings: of the partitions.
        ends: of the partitions, in the same order.
        count: how many, of all or of each.
        per_partition: whether of each.
    """
    found: dict[TopicPartition, pa.Table] = {}
    reach, short = count, dict(ends)
    while short:
        starts = {tp: max(beginnings[tp], end - reach) for tp, end in short.items()}
        found.update(_rows(consumer, starts, short, count))
        short = {tp: end for tp, end in short.items() if found[tp].num_rows < count and starts[tp] > beginnings[tp]}
        reach *= FURTHER
    table = pa.concat_tables(found.values()).unify_dictionaries()
    if not per_partition:
        # What has no time comes first.
        order = pc.sort_indices(pc.fill_null(table["timestamp"].cast(pa.int64()), -1))
        table = table.take(order[-count:])
    yield from table.combine_chunks().to_batches()


def _rows(consumer: Consumer, starts: Offsets, ends: Offsets, count: int) -> dict[TopicPartition, pa.Table]:
    """The last rows of each partition between two offsets."""
    batches = list(by_hand(consumer, starts, ends, Progress()))
    table = pa.Table.from_batches(batches, consumer.schema)
    found = {}
    for tp in ends:
        its = table.filter((pc.field("topic") == tp.topic) & (pc.field("partition") == tp.partition))
        found[tp] = its.slice(max(0, its.num_rows - count))
    return found
