"""Offsets after the rows of a batch. This module is separate because the stores do not import Arrow."""

from __future__ import annotations

import pyarrow as pa

from samsarrow import _core
from samsarrow.types import OffsetAndMetadata, TopicPartition


def next_offsets(batch: pa.RecordBatch | pa.Table) -> dict[TopicPartition, OffsetAndMetadata]:
    """Returns the offsets to store after processing a batch from `poll`, by partition.

    If transaction markers, aborted records or compacted offsets follow the last row, the offset lies past those that
    the consumer had already fetched. Each offset has the leader epoch of the record before it (KIP-320).

    Args:
        batch: batch with the columns `topic`, `partition` and `offset`.
    """
    return {TopicPartition(*tp): OffsetAndMetadata(*offset) for tp, offset in _core.offsets_of(batch)}
