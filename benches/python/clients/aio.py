"""aiokafka: reads with `getmany` and builds arrays; writes with `send` for each record."""

import asyncio
from collections.abc import Iterator

import pyarrow as pa
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from .tuning import tuned


def consume(bootstrap: str, topic: str, count: int) -> Iterator[pa.Array]:
    async def run() -> list[pa.Array]:
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False, auto_offset_reset="earliest")
        await consumer.start()
        arrays: list[pa.Array] = []
        try:
            await consumer._client.force_metadata_update()
            consumer.assign([TopicPartition(topic, p) for p in await _partitions(consumer, topic)])
            rows = 0
            while rows < count:
                answer = await consumer.getmany(timeout_ms=5000)
                if not answer:
                    raise RuntimeError(f"nothing came after {rows} of {count} records")
                for records in answer.values():
                    batch = pa.record_batch(
                        {
                            "key": pa.array([r.key for r in records], pa.binary()),
                            "value": pa.array([r.value for r in records], pa.binary()),
                            "partition": pa.array([r.partition for r in records], pa.int32()),
                            "offset": pa.array([r.offset for r in records], pa.int64()),
                            "timestamp": pa.array([r.timestamp for r in records], pa.timestamp("ms", "UTC")),
                        }
                    )
                    rows += batch.num_rows
                    arrays.append(batch.column("value"))
        finally:
            await consumer.stop()
        return arrays

    yield from asyncio.run(run())


async def _partitions(consumer: AIOKafkaConsumer, topic: str) -> set[int]:
    consumer._client.add_topic(topic)
    await consumer._client.force_metadata_update()
    return set(consumer.partitions_for_topic(topic) or ())


def produce(bootstrap: str, topic: str, table: pa.Table, codec: str) -> int:
    async def run() -> int:
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            compression_type=None if codec == "none" else codec,
            **tuned(enable_idempotence=True, linger_ms=5, max_batch_size=1_000_000),
        )
        await producer.start()
        sent = 0
        try:
            for chunk in table.column("value").chunks:
                futures = [await producer.send(topic, value) for value in chunk.to_pylist()]
                sent += len(await asyncio.gather(*futures))
        finally:
            await producer.stop()
        return sent

    return asyncio.run(run())
