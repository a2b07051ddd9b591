"""Offsets of rows. Apart from the stores, as they, and the command line, do without Arrow."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from samsarrow.types import OffsetAndMetadata, TopicPartition


def next_offsets(batch: pa.RecordBatch | pa.Table) -> dict[TopicPartition, OffsetAndMetadata]:
    """Returns the offset after the last row of each partition in a batch from `poll`: the offsets to store.

    Args:
        batch: batch with the columns `topic`, `partition` and `offset`.
    """
    rows = pa.table({"topic": pc.cast(batch["topic"], pa.string()), "p": batch["partition"], "o": batch["offset"]})
    last = rows.group_by(["topic", "p"]).aggregate([("o", "max")]).to_pylist()
    return {TopicPartition(r["topic"], r["p"]): OffsetAndMetadata(r["o_max"] + 1) for r in last}
