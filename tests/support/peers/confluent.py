"""confluent-kafka, a Python client based on librdkafka."""

import time

import confluent_kafka as ck

from . import Received, Sent, dotted


def takes(record: Sent) -> bool:
    return True


def produce(bootstrap: str, topic: str, codec: str, records: list[Sent], partition: int = 0, **options: object) -> None:
    failures: list[object] = []
    basic = {"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 200}
    producer = ck.Producer({**basic, **dotted(options)})
    for r in records:
        producer.produce(
            topic,
            r.value,
            r.key,
            partition=partition,
            headers=list(r.headers),
            timestamp=r.timestamp or 0,
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
    # `flush` would disable `linger.ms`, and librdkafka would then send records one by one while the first metadata
    # response makes them available to the sending thread.
    deadline = time.monotonic() + 30
    while len(producer) and time.monotonic() < deadline:
        producer.poll(0.05)
    assert len(producer) == 0
    assert failures == []


def consume(bootstrap: str, topic: str, count: int, partition: int = 0, **options: object) -> list[Received]:
    # The maximum wait is short, because closing the consumer waits for the pending fetch.
    basic = {"group.id": "interop", "enable.auto.commit": False, "check.crcs": True, "fetch.wait.max.ms": 10}
    consumer = ck.Consumer({"bootstrap.servers": bootstrap, **basic, **dotted(options)})
    received: list[Received] = []
    try:
        consumer.assign([ck.TopicPartition(topic, partition, 0)])
        for _ in range(100):
            for message in consumer.consume(count - len(received), 0.3):
                assert message.error() is None, message.error()
                headers = tuple((k, v) for k, v in message.headers() or [])
                kind, timestamp = message.timestamp()
                known = None if kind == ck.TIMESTAMP_NOT_AVAILABLE else timestamp
                received.append(Received(message.offset(), known, message.key(), message.value(), headers))
            if len(received) >= count:
                break
    finally:
        consumer.close()
    return received
