"""One end of a latency bench: sends a thousand timestamped records per second, or receives them.

    python -m clients.latency CLIENT send|read BOOTSTRAP TOPIC COUNT

Times are of CLOCK_MONOTONIC, which all processes share. A reader prints a line when it is ready for records, and
finally the microseconds of each record from before its `send` until the reader had it.
"""

import asyncio
import json
import struct
import sys
import time
from collections.abc import Iterable, Iterator

from .tuning import dotted, tuned

RATE = 1000
# Layout of a value: the record's number, the time before its `send`, and padding to 100 bytes.
VALUE = struct.Struct(">qq84x")


def paced(count: int) -> Iterator[tuple[int, float]]:
    """Yields, for each record, its number and the seconds to wait before it is sent."""
    first = time.monotonic()
    for number in range(count):
        yield number, max(0.0, first + number / RATE - time.monotonic())


def value(number: int) -> bytes:
    return VALUE.pack(number, time.monotonic_ns())


class Arrivals:
    """Latencies of the records received so far."""

    def __init__(self, count: int) -> None:
        self.micros: list[float] = []
        self._count = count
        print("ready", flush=True)

    def take(self, values: Iterable[bytes]) -> None:
        now = time.monotonic_ns()
        for data in values:
            number, sent = VALUE.unpack(data)
            if number != len(self.micros):
                raise RuntimeError(f"record {number} came where {len(self.micros)} was next")
            self.micros.append((now - sent) / 1000)

    @property
    def missing(self) -> bool:
        return len(self.micros) < self._count


def ours_send(bootstrap: str, topic: str, count: int) -> None:
    from samsarrow import Producer

    with Producer(bootstrap_servers=bootstrap, **tuned(linger_ms=0)) as producer:
        producer.partitions_for(topic)
        for number, pause in paced(count):
            time.sleep(pause)
            producer.send(topic, value(number))


def ours_read(bootstrap: str, topic: str, count: int) -> list[float]:
    from samsarrow import Consumer

    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign(consumer.partitions_for(topic))
        consumer.poll(1.0)
        arrivals = Arrivals(count)
        while arrivals.missing:
            arrivals.take(consumer.poll(10.0).column("value").to_pylist())
    return arrivals.micros


def confluent_send(bootstrap: str, topic: str, count: int) -> None:
    import confluent_kafka as ck

    options = dotted(enable_idempotence=True, linger_ms=0)
    producer = ck.Producer({"bootstrap.servers": bootstrap, **options})
    producer.list_topics(topic)
    for number, pause in paced(count):
        time.sleep(pause)
        producer.produce(topic, value(number))
        producer.poll(0)
    producer.flush(30)


def confluent_read(bootstrap: str, topic: str, count: int) -> list[float]:
    import confluent_kafka as ck

    consumer = ck.Consumer({"bootstrap.servers": bootstrap, "group.id": "bench", "enable.auto.commit": False})
    consumer.assign([ck.TopicPartition(topic, 0, ck.OFFSET_BEGINNING)])
    consumer.poll(1.0)
    arrivals = Arrivals(count)
    while arrivals.missing:
        message = consumer.poll(10.0)
        arrivals.take([message.value() or b""] if message else [])
    consumer.close()
    return arrivals.micros


def aiokafka_send(bootstrap: str, topic: str, count: int) -> None:
    from aiokafka import AIOKafkaProducer

    async def run() -> None:
        options = tuned(enable_idempotence=True, linger_ms=0, acks="all")
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, **options) as producer:
            await producer.partitions_for(topic)
            for number, pause in paced(count):
                await asyncio.sleep(pause)
                await producer.send(topic, value(number))

    asyncio.run(run())


def aiokafka_read(bootstrap: str, topic: str, count: int) -> list[float]:
    from aiokafka import AIOKafkaConsumer

    async def run() -> list[float]:
        options = {"enable_auto_commit": False, "auto_offset_reset": "earliest"}
        async with AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, **options) as consumer:
            await consumer.getmany(timeout_ms=1000)
            arrivals = Arrivals(count)
            while arrivals.missing:
                arrivals.take([(await consumer.getone()).value])
        return arrivals.micros

    return asyncio.run(run())


def main() -> None:
    client, role, bootstrap, topic, count = sys.argv[1:6]
    print(json.dumps(globals()[f"{client}_{role}"](bootstrap, topic, int(count))))


if __name__ == "__main__":
    main()
