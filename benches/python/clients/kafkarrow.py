"""kafkarrow, which collects librdkafka's messages into a RecordBatch. It has no producer."""

from __future__ import annotations

from collections.abc import Iterator

import kafkarrow as peer
import pyarrow as pa


def consume(bootstrap: str, topic: str, count: int) -> Iterator[pa.Array]:
    config = {"bootstrap.servers": bootstrap, "group.id": "bench"}
    consumer = peer.ConsumerManager(config, [peer.SourceTopic.from_earliest(topic)], 10_000)
    rows = idle = 0
    while rows < count:
        batch = consumer.poll(200)
        idle = idle + 1 if batch.num_rows == 0 else 0
        if idle > 50:
            raise RuntimeError(f"nothing came after {rows} of {count} records")
        rows += batch.num_rows
        yield batch.column("value")
