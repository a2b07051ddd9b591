"""Copies a topic to a Delta table exactly once, across crashes and restarts.

    python sink.py localhost:9092 orders /data/orders

Each commit of the table stores the next offset of every partition as the version of the application transaction
`TOPIC-PARTITION` (Delta's `txn` action), so rows and offsets are committed atomically. No offsets are committed to
Kafka. An interrupted commit leaves files in the folder that are not part of the table; `VACUUM` removes them.

Two sinks may write to one table: Delta rejects a commit if another writer has advanced its application transactions,
and retries it after unrelated commits. The rejected sink ends with `CommitFailedError`; after a restart it continues
from the offsets that the other one committed.

A commit contains the rows received within `SECONDS`, up to `ROWS`. Partitions added later are read after a restart.
"""

import sys
import time

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake

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


def application(tp: TopicPartition) -> str:
    """Returns the application transaction that stores the offset of a partition."""
    return f"{tp.topic}-{tp.partition}"


def open_table(path: str) -> DeltaTable:
    """Opens the table, and creates it if it does not exist."""
    return DeltaTable.create(path, Schema.from_arrow(SCHEMA), mode="ignore")


def append(table: DeltaTable, rows: pa.Table, offsets: dict[TopicPartition, int]) -> None:
    """Commits rows and the next offsets atomically."""
    now = int(time.time() * 1000)
    marks = [Transaction(application(tp), offset, now) for tp, offset in offsets.items()]
    properties = CommitProperties(app_transactions=marks)
    write_deltalake(table, rows, mode="append", commit_properties=properties)


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


def run(servers: str, topic: str, path: str) -> None:
    """Runs until the process is stopped."""
    table = open_table(path)
    with Consumer(bootstrap_servers=servers, auto_offset_reset="none", isolation_level="read_committed") as consumer:
        partitions = consumer.partitions_for(topic)
        consumer.assign(partitions)
        for tp in partitions:
            offset = table.transaction_version(application(tp))
            # An offset outside the log raises an error, because rows were deleted unread or the topic was recreated.
            consumer.seek_to_beginning(tp) if offset is None else consumer.seek(tp, offset)
        while True:
            append(table, *polled(consumer))


if __name__ == "__main__":
    run(*sys.argv[1:])
