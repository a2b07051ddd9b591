"""Copies a topic to an Iceberg table exactly once, across crashes and restarts.

    export PYICEBERG_CATALOG__DEFAULT__URI=sqlite:////data/catalog.db
    export PYICEBERG_CATALOG__DEFAULT__WAREHOUSE=file:///data
    python sink.py localhost:9092 orders shop.orders

The summary of each snapshot stores the next offset of every partition in the property `samsarrow.offsets.TOPIC`, so
rows and offsets are committed atomically. No offsets are committed to Kafka. The newest snapshot with the property is
valid, also after other changes of the table such as a compaction. A table that is rolled back receives the rows after
that snapshot again. The table itself has the same property, for use after those snapshots have expired. An interrupted
commit leaves files that belong to no snapshot; removing orphan files deletes them.

Two sinks may write to one table: the catalog rejects a commit if the table has changed since it was loaded. The commit
is retried if the offsets of the table are unchanged, as after a compaction; otherwise the sink ends, and after a
restart continues from the new offsets.

A snapshot contains the rows received within `SECONDS`, up to `ROWS`. Partitions added later are read after a restart.
"""

import json
import sys
import time

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table

from samsarrow import Consumer, TopicPartition
from samsarrow.offsets import next_offsets

ROWS, SECONDS = 1_000_000, 30.0
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
    ]
)


def open_table(catalog: Catalog, name: str) -> Table:
    """Opens the table, and creates it if it does not exist."""
    catalog.create_namespace_if_not_exists(name.rpartition(".")[0])
    return catalog.create_table_if_not_exists(name, SCHEMA)


def next_to_read(table: Table, topic: str) -> dict[TopicPartition, int]:
    """Returns the next offsets, from the newest snapshot that has them, or from the table once those have expired."""
    name, text = f"samsarrow.offsets.{topic}", None
    snapshot = table.current_snapshot()
    while snapshot is not None and text is None:
        text = snapshot.summary.get(name) if snapshot.summary is not None else None
        before = snapshot.parent_snapshot_id
        snapshot = None if before is None else table.snapshot_by_id(before)
    result = json.loads(text or table.properties.get(name, "{}"))
    return {TopicPartition(topic, int(partition)): offset for partition, offset in result.items()}


def append(
    table: Table, topic: str, rows: pa.Table, begin: dict[TopicPartition, int], end: dict[TopicPartition, int]
) -> None:
    """Commits rows and the next offsets atomically, if the table still ends where the rows begin."""
    offsets = {f"samsarrow.offsets.{topic}": json.dumps({tp.partition: offset for tp, offset in end.items()})}
    for pause in (0.1, 0.4, 1.6, None):
        if next_to_read(table, topic) != begin:
            raise RuntimeError(f"another program writes {topic} to {'.'.join(table.name())}: it is further")
        # Disables pyiceberg's retries, for this commit only, because a retry would append the rows after those of
        # another sink.
        table.metadata.properties["commit.retry.num-retries"] = "0"
        try:
            with table.transaction() as transaction:
                transaction.append(rows, snapshot_properties=offsets)
                transaction.set_properties(offsets)
            return
        except CommitFailedException:
            # Conflicts are also caused by other writers and by compactions.
            if pause is None:
                raise
            time.sleep(pause)
            table.refresh()


def polled(consumer: Consumer) -> tuple[pa.Table, dict[TopicPartition, int]]:
    """Waits for rows; returns the rows of one commit, and the offsets that follow them."""
    batches: list[pa.RecordBatch] = []
    rows, until = 0, float("inf")
    while rows < ROWS and time.monotonic() < until:
        batch = consumer.poll(max(0.0, min(1.0, until - time.monotonic())))
        if batch.num_rows:
            until = until if batches else time.monotonic() + SECONDS
            batches.append(batch)
            rows += batch.num_rows
    table = pa.Table.from_batches(batches)
    offsets = {tp: at.offset for tp, at in next_offsets(table).items()}
    return table.select(SCHEMA.names).cast(SCHEMA), offsets


def run(servers: str, topic: str, name: str) -> None:
    """Runs until the process is stopped."""
    table = open_table(load_catalog("default"), name)
    offsets = next_to_read(table, topic)
    with Consumer(bootstrap_servers=servers, auto_offset_reset="none", isolation_level="read_committed") as consumer:
        partitions = consumer.partitions_for(topic)
        consumer.assign(partitions)
        for tp in partitions:
            # An offset outside the log raises an error, because rows were deleted unread or the topic was recreated.
            consumer.seek(tp, offsets[tp]) if tp in offsets else consumer.seek_to_beginning(tp)
        while True:
            rows, read = polled(consumer)
            append(table, topic, rows, offsets, offsets | read)
            offsets |= read


if __name__ == "__main__":
    run(*sys.argv[1:])
