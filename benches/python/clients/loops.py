"""Typical work of an event loop, with samsarrow and its peers; seconds and CPU are those of the loop.

python -m clients.loops CLIENT VERB BOOTSTRAP TOPIC COUNT
"""

import asyncio
import json
import statistics
import sys
import time
from collections.abc import Awaitable, Callable

from .tuning import dotted, tuned
from .watch import Measured, Watch

VALUE = b"x" * 100
# Reads of a topic, which take milliseconds each: enough to show differences of 1 %. One more read serves as warm-up.
PASSES = 20


async def ours_send(bootstrap: str, topic: str, count: int) -> Measured:
    """Sends and awaits each record in its own task, ten thousand at a time."""
    from samsarrow import AsyncProducer, _core

    async with AsyncProducer(bootstrap_servers=bootstrap, **tuned(linger_ms=5)) as producer:
        await producer.send_and_wait(topic, VALUE)
        wakes, requests, watch = _core.loop_wake_ups(), producer.metrics().requests, Watch()
        for _ in range(count // 10_000):
            await asyncio.gather(*[producer.send_and_wait(topic, VALUE) for _ in range(10_000)])
        result = watch.found(count, wakes=_core.loop_wake_ups() - wakes)
        return {**result, "requests": producer.metrics().requests - requests}


async def ours_deliveries(bootstrap: str, topic: str, count: int) -> Measured:
    """Sends records without tasks, and then awaits their deliveries."""
    from samsarrow import AsyncProducer, _core

    async with AsyncProducer(bootstrap_servers=bootstrap, **tuned(linger_ms=5)) as producer:
        await producer.send_and_wait(topic, VALUE)
        wakes, requests, watch = _core.loop_wake_ups(), producer.metrics().requests, Watch()
        for _ in range(count // 10_000):
            for delivery in [await producer.send(topic, VALUE) for _ in range(10_000)]:
                await delivery
        result = watch.found(count, wakes=_core.loop_wake_ups() - wakes)
        return {**result, "requests": producer.metrics().requests - requests}


async def asyncio_send(_bootstrap: str, _topic: str, count: int) -> Measured:
    """Awaits ten thousand futures in tasks of their own, and completes them together: the part of `send` that no client
    can save.
    """
    loop = asyncio.get_running_loop()
    futures: list[asyncio.Future[int]] = []

    async def wait() -> int:
        futures.append(loop.create_future())
        return await futures[-1]

    def complete() -> None:
        for number, future in enumerate(futures):
            future.set_result(number)
        futures.clear()

    watch = Watch()
    for _ in range(count // 10_000):
        loop.call_later(0.001, complete)
        await asyncio.gather(*[wait() for _ in range(10_000)])
    return watch.found(count)


async def aiokafka_send(bootstrap: str, topic: str, count: int) -> Measured:
    from aiokafka import AIOKafkaProducer

    options = tuned(enable_idempotence=True, linger_ms=5, max_batch_size=1_000_000)
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, **options) as producer:
        await producer.send_and_wait(topic, VALUE)
        watch = Watch()
        for _ in range(count // 10_000):
            await asyncio.gather(*[producer.send_and_wait(topic, VALUE) for _ in range(10_000)])
        return watch.found(count)


async def aiokafka_deliveries(bootstrap: str, topic: str, count: int) -> Measured:
    from aiokafka import AIOKafkaProducer

    options = tuned(enable_idempotence=True, linger_ms=5, max_batch_size=1_000_000)
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, **options) as producer:
        await producer.send_and_wait(topic, VALUE)
        watch = Watch()
        for _ in range(count // 10_000):
            for future in [await producer.send(topic, VALUE) for _ in range(10_000)]:
                await future
        return watch.found(count)


async def ours_batches(bootstrap: str, topic: str, count: int) -> Measured:
    from samsarrow import AsyncConsumer

    async with AsyncConsumer(bootstrap_servers=bootstrap) as consumer:
        consumer.assign(await consumer.partitions_for(topic))
        total, watch = 0, Watch()
        for passed in range(1 + PASSES):
            if passed == 1:
                total, watch = 0, Watch()
            await consumer.seek_to_beginning()
            rows = 0
            async for batch in consumer:
                rows += batch.num_rows
                if rows >= count:
                    break
            total += rows
        return watch.found(total)


async def blocking_batches(bootstrap: str, topic: str, count: int) -> Measured:
    """Reads with the blocking `Consumer`, for comparison."""
    from samsarrow import Consumer

    with Consumer(bootstrap_servers=bootstrap) as consumer:
        consumer.assign(consumer.partitions_for(topic))
        total, watch = 0, Watch()
        for passed in range(1 + PASSES):
            if passed == 1:
                total, watch = 0, Watch()
            consumer.seek_to_beginning()
            rows = 0
            for batch in consumer:
                rows += batch.num_rows
                if rows >= count:
                    break
            total += rows
        return watch.found(total)


async def ours_records(bootstrap: str, topic: str, count: int) -> Measured:
    from samsarrow import AsyncConsumer

    async with AsyncConsumer(bootstrap_servers=bootstrap) as consumer:
        consumer.assign(await consumer.partitions_for(topic))
        await consumer.seek_to_beginning()
        size, rows, watch = 0, 0, Watch()
        while rows < count:
            async for record in consumer.records(5.0):
                size += len(record.value or b"")
                rows += 1
        return watch.found(rows, bytes=size)


async def blocking_records(bootstrap: str, topic: str, count: int) -> Measured:
    from samsarrow import Consumer

    with Consumer(bootstrap_servers=bootstrap) as consumer:
        consumer.assign(consumer.partitions_for(topic))
        consumer.seek_to_beginning()
        size, rows, watch = 0, 0, Watch()
        while rows < count:
            for record in consumer.records(5.0):
                size += len(record.value or b"")
                rows += 1
        return watch.found(rows, bytes=size)


async def aiokafka_records(bootstrap: str, topic: str, count: int) -> Measured:
    from aiokafka import AIOKafkaConsumer

    options = {"enable_auto_commit": False, "auto_offset_reset": "earliest"}
    async with AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, **options) as consumer:
        size, rows, watch = 0, 0, Watch()
        async for record in consumer:
            size += len(record.value or b"")
            rows += 1
            if rows == count:
                break
        return watch.found(rows, bytes=size)


async def confluent_records(bootstrap: str, topic: str, count: int) -> Measured:
    """Reads with confluent-kafka's blocking consumer, which its documentation recommends for throughput. Its
    AIOConsumer has no comparable method.
    """
    import confluent_kafka as ck

    options = {"bootstrap.servers": bootstrap, "group.id": "bench", **dotted(queued_min_messages=1_000_000)}
    consumer = ck.Consumer({**options, "enable.auto.commit": False})
    partitions = consumer.list_topics(topic).topics[topic].partitions
    consumer.assign([ck.TopicPartition(topic, p, ck.OFFSET_BEGINNING) for p in partitions])
    size, rows, watch = 0, 0, Watch()
    while rows < count:
        for message in consumer.consume(10_000, 5.0):
            size += len(message.value() or b"")
            rows += 1
    result = watch.found(rows, bytes=size)
    consumer.close()
    return result


async def _waits(send: Callable[[], Awaitable[object]], count: int) -> Measured:
    micros = []
    for _ in range(count + 200):
        started = time.perf_counter()
        await send()
        micros.append((time.perf_counter() - started) * 1e6)
    cuts = statistics.quantiles(micros[200:], n=100)
    return {"p50": cuts[49], "p95": cuts[94], "p99": cuts[98]}


async def ours_waited(bootstrap: str, topic: str, count: int) -> Measured:
    """Sends and awaits one record after the other; returns the microseconds of each."""
    from samsarrow import AsyncProducer

    async with AsyncProducer(bootstrap_servers=bootstrap, **tuned(linger_ms=0)) as producer:
        return await _waits(lambda: producer.send_and_wait(topic, VALUE), count)


async def blocking_waited(bootstrap: str, topic: str, count: int) -> Measured:
    from samsarrow import Producer

    with Producer(bootstrap_servers=bootstrap, **tuned(linger_ms=0)) as producer:

        async def send() -> None:
            producer.send(topic, VALUE).result(30)

        return await _waits(send, count)


async def aiokafka_waited(bootstrap: str, topic: str, count: int) -> Measured:
    from aiokafka import AIOKafkaProducer

    options = tuned(enable_idempotence=True, linger_ms=0)
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, **options) as producer:
        return await _waits(lambda: producer.send_and_wait(topic, VALUE), count)


def main() -> None:
    client, verb, bootstrap, topic, count = sys.argv[1:6]
    print(json.dumps(asyncio.run(globals()[f"{client}_{verb}"](bootstrap, topic, int(count)))))


if __name__ == "__main__":
    main()
