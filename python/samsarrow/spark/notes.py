"""Notes in Kafka that a micro-batch is written: committed offsets of groups that nobody is in.

The offset is the number of the micro-batch that follows, the metadata says what was written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc

from samsarrow._core import digest_rows
from samsarrow.exceptions import KafkaError
from samsarrow.spark.clients import admin_options
from samsarrow.spark.handles import ADMINS
from samsarrow.spark.write_options import WriteOptions
from samsarrow.types import OffsetAndMetadata, TopicPartition

# Of the names of transactions.
PREFIX = "samsarrow-spark"


class ReplayMismatchError(KafkaError):
    """A micro-batch cannot be written exactly once: it brings other rows than before, or later ones are written."""

    name = "REPETITION"


class Counted:
    """Batches as they pass, counted.

    Args:
        batches: of the columns that Spark has.
        options: of the write.
    """

    def __init__(self, batches: Iterator[pa.RecordBatch], options: WriteOptions) -> None:
        self._batches = batches
        self._options = options
        self.rows = self._bytes = self._digest = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            self.rows += batch.num_rows
            # Lengths, not buffers: those may be larger than what is in them.
            self._bytes += pc.sum(pc.binary_length(batch.column("value"))).as_py() or 0
            sent = batch.select(self._options.columns)
            self._digest = (self._digest + digest_rows(sent, self._options.topic)) % 2**64
            yield batch

    @property
    def note(self) -> str:
        """What a note says of them; the order of rows does not matter."""
        return json.dumps({"rows": self.rows, "bytes": self._bytes, "digest": f"{self._digest:016x}"})


def agree(noted: str, brings: str) -> bool:
    """Whether two notes are of the same rows, by what both of them say: earlier releases noted no digest."""
    if not noted:
        return True
    before, now = _parsed(noted), _parsed(brings)
    return bool(before.keys() & now.keys()) and all(before[name] == now[name] for name in before.keys() & now.keys())


def count_of_tasks(noted: OffsetAndMetadata) -> int | None:
    """By how many tasks a micro-batch was written, as the note of the driver says."""
    tasks = _parsed(noted.metadata).get("tasks")
    return tasks if isinstance(tasks, int) else None


def _parsed(text: str) -> dict[str, object]:
    with suppress(json.JSONDecodeError):
        parsed = json.loads(text)
        if isinstance(parsed, dict):
            return parsed
    return {}


def note_of(options: WriteOptions, group: str) -> OffsetAndMetadata | None:
    """The note of a group, if it has one."""
    with ADMINS.lease(admin_options(options.kafka, options.token)) as handle:
        found = handle.client.fetch_offsets(group, require_stable=True)
    return max((at for at in found.values() if at is not None), default=None)


def note_tasks(options: WriteOptions, group: str, topic: str, batch: int, tasks: int) -> None:
    """Notes by how many tasks a micro-batch was written."""
    note = OffsetAndMetadata(batch + 1, json.dumps({"tasks": tasks}))
    with ADMINS.lease(admin_options(options.kafka, options.token)) as handle:
        handle.client.commit_offsets(group, {TopicPartition(topic, 0): note})
