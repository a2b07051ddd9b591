"""A topic into an Iceberg table, each record once, whatever dies and is started again.

    export PYICEBERG_CATALOG__DEFAULT__URI=sqlite:////data/catalog.db
    export PYICEBERG_CATALOG__DEFAULT__WAREHOUSE=file:///data
    python sink.py localhost:9092 orders shop.orders

Each snapshot says where to read on: the next offset of every partition is in the property `samsarrow.offsets.TOPIC` of
its summary, so that rows and offsets are there together or not at all. No offsets are committed to Kafka. The newest
snapshot that has the property counts, whatever others did to the table since: compacted it, for instance. A table that
is rolled back gets the rows behind that snapshot again. The table has the same property, for when those snapshots have
expired. Files of a commit that did not come to its end belong to no snapshot; the removal of orphan files takes them
away.

Two at work on one table do no harm: the catalog refuses a commit to a table that another has changed since it was
loaded. It is tried again if the table still ends where the rows begin, as after a compaction; otherwise the program
ends, and reads on from there when it is started again.

A snapshot has what came within `SECONDS`, at most `ROWS` rows. Partitions that a topic gets later are read from the
next start on.
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
    """The table, which is made if it is not there."""
    catalog.create_namespace_if_not_exists(name.rpartition(".")[0])
    return catalog.create_table_if_not_exists(name, SCHEMA)


def next_to_read(table: Table, topic: str) -> dict[TopicPartition, int]:
    """Where reading goes on: by the newest snapshot that says, or the table once such snapshots have expired."""
    name, text = f"samsarrow.offsets.{topic}", None
    snapshot = table.current_snapshot()
    while snapshot is not None and text is None:
        text = snapshot.summary.get(name) if snapshot.summary is not None else None
        before = snapshot.parent_snapshot_id
        snapshot = None if before is None else table.snapshot_by_id(before)
    found = json.loads(text or table.properties.get(name, "{}"))
    return {TopicPartition(topic, int(partition)): offset for partition, offset in found.items()}


def append(
    table: Table, topic: str, rows: pa.Table, begin: dict[TopicPartition, int], end: dict[TopicPartition, int]
) -> None:
    """Commits rows and where to read on, in one step, if the table still ends where they begin."""
    offsets = {f"samsarrow.offsets.{topic}": json.dumps({tp.partition: offset for tp, offset in end.items()})}
    for pause in (0.1, 0.4, 1.6, None):
        if next_to_read(table, topic) != begin:
            raise RuntimeError(f"another program writes {topic} to {'.'.join(table.name())}: it is further")
        # For this commit only. pyiceberg's own retries would put the rows behind those of another sink.
        table.metadata.properties["commit.retry.num-retries"] = "0"
        try:
            with table.transaction() as transaction:
                transaction.append(rows, snapshot_properties=offsets)
                transaction.set_properties(offsets)
            return
        except CommitFailedException:
            # Others write too, or compact.
            if pause is None:
                raise
            time.sleep(pause)
            table.refresh()


def polled(consumer: Consumer) -> tuple[pa.Table, dict[TopicPartition, int]]:
    """Rows of a commit, once there are any, and the offsets behind them."""
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
    """Works until it is ended."""
    table = open_table(load_catalog("default"), name)
    offsets = next_to_read(table, topic)
    with Consumer(bootstrap_servers=servers, auto_offset_reset="none", isolation_level="read_committed") as consumer:
        partitions = consumer.partitions_for(topic)
        consumer.assign(partitions)
        for tp in partitions:
            # An offset that the topic has no more, or not yet, is an error: rows were deleted unread, or it is another.
            consumer.seek(tp, offsets[tp]) if tp in offsets else consumer.seek_to_beginning(tp)
        while True:
            rows, read = polled(consumer)
            append(table, topic, rows, offsets, offsets | read)
            offsets |= read


if __name__ == "__main__":
    run(*sys.argv[1:])
