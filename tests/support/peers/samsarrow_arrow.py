"""samsarrow, Arrow batch by Arrow batch."""

import pyarrow as pa

from samsarrow import Consumer, Producer, TopicPartition

from . import Received, Sent

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def produce(bootstrap: str, topic: str, codec: str, records: list[Sent]) -> None:
    batch = pa.record_batch(
        {
            "k": pa.array([r.key for r in records], pa.binary()),
            "v": pa.array([r.value for r in records], pa.binary()),
            "h": pa.array([[{"key": k, "value": v} for k, v in r.headers] for r in records], HEADERS),
            "t": pa.array([r.timestamp for r in records], pa.timestamp("ms", "UTC")),
        }
    )
    with Producer(bootstrap_servers=bootstrap, compression_type=codec) as producer:
        delivery = producer.send_batch(topic, batch, key="k", value="v", headers="h", timestamp="t")
        delivery.result(30)


def consume(bootstrap: str, topic: str, count: int) -> list[Received]:
    batches = []
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", include_headers=True) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        for _ in range(100):
            batches.append(consumer.poll(1.0))
            if sum(b.num_rows for b in batches) >= count:
                break
    table = pa.Table.from_batches(batches).drop_columns(["topic"])
    return [
        Received(
            row["offset"],
            int(row["timestamp"].timestamp() * 1000),
            row["key"],
            row["value"],
            tuple((h["key"], h["value"]) for h in row["headers"]),
        )
        for row in table.to_pylist()
    ]
