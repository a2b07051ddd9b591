"""confluent-kafka in its usual form: `consume` returns up to 10,000 messages, one Python object each, from which arrays
are built.
"""

import time
from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Any

import confluent_kafka as ck
import pyarrow as pa

from . import security
from .tuning import dotted


def batches(bootstrap: str, topic: str, count: int) -> Iterator[pa.RecordBatch]:
    # With its default of 100,000 queued messages the client pauses for a second whenever the queue is full, which makes
    # it six times slower.
    options = {"bootstrap.servers": bootstrap, "group.id": "bench", **dotted(queued_min_messages=1_000_000)}
    consumer = ck.Consumer({**options, **security.librdkafka(), "enable.auto.commit": False})
    partitions = consumer.list_topics(topic).topics[topic].partitions
    consumer.assign([ck.TopicPartition(topic, p, ck.OFFSET_BEGINNING) for p in partitions])
    rows = 0
    while rows < count:
        # Requests at most the remaining records, because `consume` waits for the full number.
        messages = consumer.consume(min(10_000, count - rows), 5.0)
        if not messages:
            raise RuntimeError(f"nothing came after {rows} of {count} records")
        batch = pa.record_batch(
            {
                "key": pa.array([m.key() for m in messages], pa.binary()),
                "value": pa.array([m.value() for m in messages], pa.binary()),
                "partition": pa.array([m.partition() for m in messages], pa.int32()),
                "offset": pa.array([m.offset() for m in messages], pa.int64()),
                "timestamp": pa.array([m.timestamp()[1] for m in messages], pa.timestamp("ms", "UTC")),
            }
        )
        rows += batch.num_rows
        yield batch
    consumer.close()


def consume(bootstrap: str, topic: str, count: int) -> Iterator[pa.Array]:
    for batch in batches(bootstrap, topic, count):
        yield batch.column("value")


def produce(bootstrap: str, topic: str, table: pa.Table, codec: str) -> int:
    producer = _producer(bootstrap, codec)
    for batch in table.to_batches():
        _put(producer, topic, batch.column("value").to_pylist())
        producer.poll(0)
    return table.num_rows - producer.flush(120)


def keyed(bootstrap: str, topic: str, table: pa.Table, codec: str) -> int:
    """Uses the hash of Java's producer instead of librdkafka's default."""
    producer = _producer(bootstrap, codec, partitioner="murmur2_random")
    for batch in table.to_batches():
        _put(producer, topic, batch.column("value").to_pylist(), keys=batch.column("key").to_pylist())
        producer.poll(0)
    return table.num_rows - producer.flush(120)


def placed(bootstrap: str, topic: str, table: pa.Table, codec: str) -> int:
    producer = _producer(bootstrap, codec)
    for batch in table.to_batches():
        _put(producer, topic, batch.column("value").to_pylist(), partitions=batch.column("partition").to_pylist())
        producer.poll(0)
    return table.num_rows - producer.flush(120)


def placed_keyed(bootstrap: str, topic: str, table: pa.Table, codec: str) -> int:
    producer = _producer(bootstrap, codec)
    for batch in table.to_batches():
        _put(producer, topic, *(batch.column(name).to_pylist() for name in ("value", "key", "partition")))
        producer.poll(0)
    return table.num_rows - producer.flush(120)


def send(bootstrap: str, topic: str, values: list[bytes], codec: str) -> Iterator[int]:
    """Sends with one call per record, as documented; yields the number of calls, then the number of deliveries."""
    producer = _producer(bootstrap, codec)
    _put(producer, topic, values)
    yield len(values)
    yield len(values) - producer.flush(120)


def _producer(bootstrap: str, codec: str, **more: Any) -> ck.Producer:
    # librdkafka's defaults for linger.ms and batch.size are 5 and 1,000,000. It is not idempotent by default.
    options = dotted(enable_idempotence=True, queue_buffering_max_messages=500_000)
    options |= {"bootstrap.servers": bootstrap, **security.librdkafka(), "compression.type": codec}
    return ck.Producer({**options, **more})


def _put(
    producer: ck.Producer,
    topic: str,
    values: list[bytes],
    keys: Iterable[bytes | None] = repeat(None),
    partitions: Iterable[int] = repeat(-1),
) -> None:
    put = producer.produce
    for value, key, partition in zip(values, keys, partitions, strict=False):
        while True:
            try:
                put(topic, value, key, partition)
                break
            except BufferError:
                producer.poll(0.01)


def waited(bootstrap: str, topic: str, values: list[bytes]) -> list[float]:
    """Sends one record after the other; returns the seconds from each call to its delivery report."""
    seconds = []
    producer = ck.Producer({"bootstrap.servers": bootstrap, **dotted(enable_idempotence=True, linger_ms=0)})
    for value in values:
        events: list[object] = []
        started = time.perf_counter()
        producer.produce(topic, value, on_delivery=lambda error, _, events=events: events.append(error))
        while not events:
            producer.poll(30)
        seconds.append(time.perf_counter() - started)
        if events != [None]:
            raise RuntimeError(f"a record failed: {events[0]}")
    return seconds
