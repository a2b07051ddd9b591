"""samsarrow: fetched bytes straight into Arrow."""

import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from samsarrow import Consumer, Producer

from . import security


def consume(bootstrap: str, topic: str, count: int) -> Iterator[pa.Array]:
    with Consumer(security.options(), bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign(consumer.partitions_for(topic))
        rows = 0
        while rows < count:
            batch = consumer.poll(5.0)
            if batch.num_rows == 0:
                raise RuntimeError(f"nothing came after {rows} of {count} records")
            rows += batch.num_rows
            yield batch.column("value")


def produce(bootstrap: str, topic: str, table: pa.Table, codec: str) -> int:
    with Producer(security.options(), bootstrap_servers=bootstrap, compression_type=codec) as producer:
        delivery = producer.send_batch(topic, table, value="value")
        return sum(receipt.count for receipt in delivery.result(120))


def spread(bootstrap: str, topic: str, table: pa.Table, codec: str) -> int:
    """The same records over all partitions, in batches of much the same size as in one."""
    with Producer(bootstrap_servers=bootstrap, compression_type=codec) as producer:
        partitions = len(producer.partitions_for(topic))
        column = pa.array((np.arange(table.num_rows, dtype=np.int64) * partitions // table.num_rows).astype(np.int32))
        delivery = producer.send_batch(
            topic, table.append_column("partition", column), value="value", partition="partition"
        )
        return sum(receipt.count for receipt in delivery.result(120))


def send(bootstrap: str, topic: str, values: list[bytes], codec: str) -> int:
    """One call a record."""
    with Producer(bootstrap_servers=bootstrap, compression_type=codec, batch_size=1_000_000) as producer:
        send = producer.send
        for value in values:
            last = send(topic, value)
        producer.flush(120)
        return last.result(0).offset + 1


def waited(bootstrap: str, topic: str, values: list[bytes]) -> list[float]:
    """Seconds that each record took from the call to its result, one after the other."""
    seconds = []
    with Producer(bootstrap_servers=bootstrap, linger_ms=0) as producer:
        for value in values:
            started = time.perf_counter()
            producer.send(topic, value).result(30)
            seconds.append(time.perf_counter() - started)
    return seconds
