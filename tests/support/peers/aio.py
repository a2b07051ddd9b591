"""aiokafka."""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from . import Received, Sent


def takes(record: Sent) -> bool:
    """Returns false for a record that has neither key nor value, which aiokafka rejects."""
    return (record.key, record.value) != (None, None)


def produce(bootstrap: str, topic: str, codec: str, records: list[Sent]) -> None:
    async def run() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap, compression_type=None if codec == "none" else codec, linger_ms=50
        )
        await producer.start()
        try:
            sent = [
                await producer.send(
                    topic, r.value, r.key, partition=0, timestamp_ms=r.timestamp, headers=list(r.headers)
                )
                for r in records
            ]
            await asyncio.gather(*sent)
        finally:
            await producer.stop()

    asyncio.run(run())


def consume(bootstrap: str, topic: str, count: int) -> list[Received]:
    async def run() -> list[Received]:
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False, auto_offset_reset="earliest")
        received: list[Received] = []
        await consumer.start()
        try:
            consumer.assign([TopicPartition(topic, 0)])
            for _ in range(100):
                for records in (await consumer.getmany(timeout_ms=300)).values():
                    received += [Received(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in records]
                if len(received) >= count:
                    break
        finally:
            await consumer.stop()
        return received

    return asyncio.run(run())
