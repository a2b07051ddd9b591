"""Offsets of rows. Apart from the stores, as they, and the command line, do without Arrow."""

from __future__ import annotations

import pyarrow as pa

from samsarrow import _core
from samsarrow.types import OffsetAndMetadata, TopicPartition


def next_offsets(batch: pa.RecordBatch | pa.Table) -> dict[TopicPartition, OffsetAndMetadata]:
    """Returns the offset after the rows of each partition in a batch from `poll`: the offsets to store.

    Where markers of transactions, aborted or compacted records follow the last row, the offset lies past them, if the
    consumer had read so far. It has the leader epoch of the record before it (KIP-320).

    Args:
        batch: batch with the columns `topic`, `partition` and `offset`.
    """
    return {TopicPartition(*tp): OffsetAndMetadata(*at) for tp, at in _core.offsets_of(batch)}
