"""samsarrow, reading and writing Arrow batches."""

import time
from collections.abc import Iterator, Sequence

import pyarrow as pa

from samsarrow import Consumer, Producer, TopicPartition

from . import Poll, Received, Sent

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def takes(record: Sent) -> bool:
    return True


def produce(bootstrap: str, topic: str, codec: str, records: list[Sent], partition: int = 0, **options: object) -> None:
    batch = pa.record_batch(
        {
            "p": pa.array([partition] * len(records), pa.int32()),
            "k": pa.array([r.key for r in records], pa.binary()),
            "v": pa.array([r.value for r in records], pa.binary()),
            "h": pa.array([[{"key": k, "value": v} for k, v in r.headers] for r in records], HEADERS),
            "t": pa.array([r.timestamp for r in records], pa.timestamp("ms", "UTC")),
        }
    )
    with Producer(bootstrap_servers=bootstrap, compression_type=codec, **options) as producer:
        delivery = producer.send_batch(topic, batch, key="k", value="v", headers="h", timestamp="t", partition="p")
        delivery.result(30)


def consume(bootstrap: str, topic: str, count: int, partition: int = 0, **options: object) -> list[Received]:
    batches = []
    options = {"auto_offset_reset": "earliest", "include_headers": True, **options}
    with Consumer(bootstrap_servers=bootstrap, **options) as consumer:
        consumer.assign([TopicPartition(topic, partition)])
        for _ in range(100):
            batches.append(consumer.poll(1.0))
            if sum(b.num_rows for b in batches) >= count:
                break
    return [record for batch in batches for _, record in _records(batch)]


def polls(bootstrap: str, topic: str, partitions: Sequence[int], until: Sequence[int], **options: object) -> list[Poll]:
    """Reads from the start until the positions have reached `until`. Returns the polls that moved a position."""
    assigned = [TopicPartition(topic, p) for p in partitions]
    found = []
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="none", include_headers=True, **options) as consumer:
        consumer.assign(assigned)
        consumer.seek_to_beginning()
        before = tuple(consumer.position(tp) for tp in assigned)
        deadline = time.monotonic() + 60
        while any(position < end for position, end in zip(before, until, strict=True)):
            assert time.monotonic() < deadline, f"stalled at {before} of {until}"
            batch = consumer.poll(0.2)
            after = tuple(consumer.position(tp) for tp in assigned)
            if batch.num_rows or after != before:
                found.append(Poll(tuple(_records(batch)), after))
            before = after
    return found


def _records(batch: pa.RecordBatch) -> Iterator[tuple[int, Received]]:
    batch = batch.drop_columns(["topic"])
    times = batch.column("timestamp").cast(pa.int64()).to_pylist()
    for row, timestamp in zip(batch.to_pylist(), times, strict=True):
        headers = tuple((h["key"], h["value"]) for h in row["headers"])
        yield row["partition"], Received(row["offset"], timestamp, row["key"], row["value"], headers)
