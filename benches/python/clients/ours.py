"""samsarrow, which decodes fetched bytes directly into Arrow."""

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from samsarrow import Consumer, Producer, encode_batches

from . import security
from .tuning import tuned


def batches(bootstrap: str, topic: str, count: int, **options: Any) -> Iterator[pa.RecordBatch]:
    options = {"bootstrap_servers": bootstrap, "auto_offset_reset": "earliest", **options}
    with Consumer(security.options(), **options) as consumer:
        consumer.assign(consumer.partitions_for(topic))
        rows = 0
        while rows < count:
            batch = consumer.poll(5.0)
            if batch.num_rows == 0:
                raise RuntimeError(f"nothing came after {rows} of {count} records")
            rows += batch.num_rows
            yield batch


def consume(bootstrap: str, topic: str, count: int) -> Iterator[pa.Array]:
    for batch in batches(bootstrap, topic, count):
        yield batch.column("value")


def few(bootstrap: str, topic: str, count: int) -> Iterator[pa.Array]:
    """Consumes with the default `max.poll.records` of Java's consumer."""
    for batch in batches(bootstrap, topic, count, max_poll_records=500):
        if batch.num_rows > 500:
            raise RuntimeError(f"a poll gave {batch.num_rows} rows")
        yield batch.column("value")


def produce(bootstrap: str, topic: str, table: pa.Table, codec: str) -> int:
    with Producer(security.options(), bootstrap_servers=bootstrap, compression_type=codec) as producer:
        delivery = producer.send_batch(topic, table, value="value")
        return sum(receipt.count for receipt in delivery.result(120))


def spread(bootstrap: str, topic: str, table: pa.Table, codec: str) -> int:
    """Spreads the same records over all partitions, in batches of about the same size as in one partition."""
    with Producer(bootstrap_servers=bootstrap, compression_type=codec) as producer:
        partitions = len(producer.partitions_for(topic))
        column = pa.array((np.arange(table.num_rows, dtype=np.int64) * partitions // table.num_rows).astype(np.int32))
        delivery = producer.send_batch(
            topic, table.append_column("partition", column), value="value", partition="partition"
        )
        return sum(receipt.count for receipt in delivery.result(120))


def keyed(bootstrap: str, topic: str, table: pa.Table, codec: str) -> int:
    """Sends each record to the partition that the hash of its key determines."""
    with Producer(bootstrap_servers=bootstrap, compression_type=codec) as producer:
        delivery = producer.send_batch(topic, table, key="key", value="value")
        return sum(receipt.count for receipt in delivery.result(120))


def placed(bootstrap: str, topic: str, table: pa.Table, codec: str) -> int:
    """Sends each record to the partition that a column contains."""
    with Producer(bootstrap_servers=bootstrap, compression_type=codec) as producer:
        delivery = producer.send_batch(topic, table.drop_columns("key"), value="value", partition="partition")
        return sum(receipt.count for receipt in delivery.result(120))


def placed_keyed(bootstrap: str, topic: str, table: pa.Table, codec: str) -> int:
    """Sends each record with its key to the partition that a column contains."""
    with Producer(bootstrap_servers=bootstrap, compression_type=codec) as producer:
        delivery = producer.send_batch(topic, table, key="key", value="value", partition="partition")
        return sum(receipt.count for receipt in delivery.result(120))


def encode(bootstrap: str, topic: str, table: pa.Table, codec: Any) -> int:
    """Encodes the record batches without sending them."""
    if not all(encode_batches(batch, value="value", compression=codec) for batch in table.to_batches()):
        raise RuntimeError("no bytes")
    return table.num_rows


def send(bootstrap: str, topic: str, values: list[bytes], codec: str) -> Iterator[int]:
    """Sends with one call per record; yields the number of calls, then the number of deliveries."""
    with Producer(bootstrap_servers=bootstrap, compression_type=codec, **tuned(linger_ms=5)) as producer:
        send = producer.send
        for value in values:
            last = send(topic, value)
        yield len(values)
        producer.flush(120)
        yield last.result(0).offset + 1


def waited(bootstrap: str, topic: str, values: list[bytes]) -> list[float]:
    """Sends one record after the other; returns the seconds from each call to its result."""
    seconds = []
    with Producer(bootstrap_servers=bootstrap, **tuned(linger_ms=0)) as producer:
        for value in values:
            started = time.perf_counter()
            producer.send(topic, value).result(30)
            seconds.append(time.perf_counter() - started)
    return seconds
