"""Commit markers of written micro-batches, which are committed offsets of groups without members.

The offset is the number of the following micro-batch; the metadata describes the written rows.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from samsarrow._core import digest_rows
from samsarrow.spark.client_cache import ADMINS
from samsarrow.spark.clients import admin_options
from samsarrow.spark.write_options import WriteOptions
from samsarrow.types import OffsetAndMetadata, TopicPartition


class CountedBatches:
    """Iterator over batches that counts their rows and bytes and computes a digest.

    Args:
        batches: batches from Spark.
        options: options of the write.
    """

    def __init__(self, batches: Iterator[pa.RecordBatch], options: WriteOptions) -> None:
        self._batches = batches
        self._options = options
        self.rows = self._bytes = self._digest = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            self.rows += batch.num_rows
            # Sums the lengths of values, because buffers may be larger than their content.
            self._bytes += pc.sum(pc.binary_length(batch.column("value"))).as_py() or 0
            sent = batch.select(self._options.columns)
            self._digest = (self._digest + digest_rows(sent, self._options.topic)) % 2**64
            yield batch

    @property
    def summary(self) -> tuple[int, int, int]:
        """Number of rows so far, bytes of their values, and a digest that does not depend on the order of the rows."""
        return self.rows, self._bytes, self._digest


def read_marker(options: WriteOptions, group: str) -> OffsetAndMetadata | None:
    """Returns the marker that a group has committed, or None."""
    with ADMINS.lease(admin_options(options.kafka, options.token)) as handle:
        committed = handle.client.fetch_offsets(group, require_stable=True)
    return max((offset for offset in committed.values() if offset is not None), default=None)


def commit_marker(options: WriteOptions, group: str, at: TopicPartition, marker: OffsetAndMetadata) -> None:
    """Commits the driver's marker, with the number of tasks that wrote a micro-batch."""
    with ADMINS.lease(admin_options(options.kafka, options.token)) as handle:
        handle.client.commit_offsets(group, {at: marker})
