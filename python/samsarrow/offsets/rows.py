"""Offsets after the rows of a batch. Separate from the stores, which do not import Arrow."""

from __future__ import annotations

import pyarrow as pa

from samsarrow import _core
from samsarrow.types import OffsetAndMetadata, TopicPartition


def next_offsets(batch: pa.RecordBatch | pa.Table) -> dict[TopicPartition, OffsetAndMetadata]:
    """Returns the offset after the rows of each partition in a batch from `poll`: the offsets to store.

    If transaction markers, aborted or compacted records follow the last row, the offset lies past those that the
    consumer had already read. It has the leader epoch of the record before it (KIP-320).

    Args:
        batch: batch with the columns `topic`, `partition` and `offset`.
    """
    return {TopicPartition(*tp): OffsetAndMetadata(*offset) for tp, offset in _core.offsets_of(batch)}
