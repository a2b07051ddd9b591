"""confluent-kafka, the usual way: `consume` in thousands, one Python object a record, then arrays."""

import time
from collections.abc import Iterator

import confluent_kafka as ck
import pyarrow as pa

from . import security


def consume(bootstrap: str, topic: str, count: int) -> Iterator[pa.Array]:
    # With its default of 100,000 queued messages it pauses a second whenever the queue is full: six times slower.
    options = {"bootstrap.servers": bootstrap, "group.id": "bench", "queued.min.messages": 1_000_000}
    consumer = ck.Consumer({**options, **security.librdkafka(), "enable.auto.commit": False})
    partitions = consumer.list_topics(topic).topics[topic].partitions
    consumer.assign([ck.TopicPartition(topic, p, ck.OFFSET_BEGINNING) for p in partitions])
    rows = 0
    while rows < count:
        messages = consumer.consume(10_000, 5.0)
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
        yield batch.column("value")
    consumer.close()


def produce(bootstrap: str, topic: str, table: pa.Table, codec: str) -> int:
    failures: list[object] = []
    options = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "queue.buffering.max.messages": 500_000}
    options |= {**security.librdkafka(), "compression.type": codec, "linger.ms": 5, "batch.size": 1_000_000}
    producer = ck.Producer(options)
    for chunk in table.column("value").chunks:
        for value in chunk.to_pylist():
            while True:
                try:
                    producer.produce(topic, value)
                    break
                except BufferError:
                    producer.poll(0.01)
        producer.poll(0)
    failures += [None] * producer.flush(120)
    return table.num_rows - len(failures)


def send(bootstrap: str, topic: str, values: list[bytes], codec: str) -> int:
    """One call a record, as its documentation shows it."""
    options = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "queue.buffering.max.messages": 500_000}
    producer = ck.Producer({**options, "compression.type": codec, "linger.ms": 5, "batch.size": 1_000_000})
    for value in values:
        while True:
            try:
                producer.produce(topic, value)
                break
            except BufferError:
                producer.poll(0.01)
    return len(values) - producer.flush(120)


def waited(bootstrap: str, topic: str, values: list[bytes]) -> list[float]:
    """Seconds that each record took from the call to its report, one after the other."""
    seconds = []
    producer = ck.Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0})
    for value in values:
        told: list[object] = []
        started = time.perf_counter()
        producer.produce(topic, value, on_delivery=lambda error, _, told=told: told.append(error))
        while not told:
            producer.poll(30)
        seconds.append(time.perf_counter() - started)
        if told != [None]:
            raise RuntimeError(f"a record failed: {told[0]}")
    return seconds
