"""A topic into a Delta table, each record once, whatever dies and is started again.

    python sink.py localhost:9092 orders /data/orders

Each commit of the table says where to read on: of every partition, the next offset is the version of the application
transaction `TOPIC-PARTITION` (Delta's `txn` action), so that rows and offsets are there together or not at all. No
offsets are committed to Kafka. Files of a commit that did not come to its end are in the folder, but not in the table;
`VACUUM` removes them.

Two at work on one table do no harm: Delta refuses a commit whose application transactions another has moved since, and
tries it again after commits of other kinds. The one that loses ends with `CommitFailedError`, and reads on from there
when it is started again.

A commit holds what came within `SECONDS`, at most `ROWS` rows. Partitions that a topic gets later are read from the
next start on.
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
    """The name under which a table keeps the offset of a partition."""
    return f"{tp.topic}-{tp.partition}"


def open_table(path: str) -> DeltaTable:
    """The table, which is made if it is not there."""
    return DeltaTable.create(path, Schema.from_arrow(SCHEMA), mode="ignore")


def append(table: DeltaTable, rows: pa.Table, offsets: dict[TopicPartition, int]) -> None:
    """Commits rows and where to read on, in one step."""
    now = int(time.time() * 1000)
    marks = [Transaction(application(tp), offset, now) for tp, offset in offsets.items()]
    properties = CommitProperties(app_transactions=marks)
    write_deltalake(table, rows, mode="append", commit_properties=properties)


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


def run(servers: str, topic: str, path: str) -> None:
    """Works until it is ended."""
    table = open_table(path)
    with Consumer(bootstrap_servers=servers, auto_offset_reset="none", isolation_level="read_committed") as consumer:
        partitions = consumer.partitions_for(topic)
        consumer.assign(partitions)
        for tp in partitions:
            offset = table.transaction_version(application(tp))
            # An offset that the topic has no more, or not yet, is an error: rows were deleted unread, or it is another.
            consumer.seek_to_beginning(tp) if offset is None else consumer.seek(tp, offset)
        while True:
            append(table, *polled(consumer))


if __name__ == "__main__":
    run(*sys.argv[1:])
