"""Commit markers of written micro-batches, which are committed offsets of groups without members.

The offset is the number of the following micro-batch; the metadata describes the written rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc

from samsarrow._core import digest_rows
from samsarrow.spark.client_cache import ADMINS
from samsarrow.spark.clients import admin_options
from samsarrow.spark.write_options import WriteOptions
from samsarrow.types import OffsetAndMetadata, TopicPartition

# Default prefix of transactional ids and of the groups of markers.
PREFIX = "samsarrow-spark"


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
    def metadata(self) -> str:
        """Metadata of the marker for the rows so far. It does not depend on the order of the rows."""
        return json.dumps({"rows": self.rows, "bytes": self._bytes, "digest": f"{self._digest:016x}"})


def same_rows(marked: str, repeated: str) -> bool:
    """Returns true if the metadata of two markers match.

    Only members in both are compared, because earlier releases wrote no digest.
    """
    if not marked:
        return True
    before, now = _parsed(marked), _parsed(repeated)
    return bool(before.keys() & now.keys()) and all(before[name] == now[name] for name in before.keys() & now.keys())


def task_count_of(marker: OffsetAndMetadata) -> int | None:
    """Returns the number of tasks that wrote a micro-batch, from the driver's marker."""
    tasks = _parsed(marker.metadata).get("tasks")
    return tasks if isinstance(tasks, int) else None


def _parsed(text: str) -> dict[str, object]:
    with suppress(json.JSONDecodeError):
        parsed = json.loads(text)
        if isinstance(parsed, dict):
            return parsed
    return {}


def read_marker(options: WriteOptions, group: str) -> OffsetAndMetadata | None:
    """Returns the marker that a group has committed, or None."""
    with ADMINS.lease(admin_options(options.kafka, options.token)) as handle:
        committed = handle.client.fetch_offsets(group, require_stable=True)
    return max((offset for offset in committed.values() if offset is not None), default=None)


def write_task_count(options: WriteOptions, group: str, topic: str, batch: int, tasks: int) -> None:
    """Commits the driver's marker, with the number of tasks that wrote a micro-batch."""
    marker = OffsetAndMetadata(batch + 1, json.dumps({"tasks": tasks}))
    with ADMINS.lease(admin_options(options.kafka, options.token)) as handle:
        handle.client.commit_offsets(group, {TopicPartition(topic, 0): marker})
