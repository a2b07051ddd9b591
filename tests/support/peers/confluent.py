"""confluent-kafka, which is librdkafka."""

import confluent_kafka as ck

from . import Received, Sent


def produce(bootstrap: str, topic: str, codec: str, records: list[Sent]) -> None:
    failures: list[object] = []
    producer = ck.Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 50})
    for r in records:
        producer.produce(
            topic,
            r.value,
            r.key,
            partition=0,
            headers=list(r.headers),
            timestamp=r.timestamp or 0,
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
    assert producer.flush(30) == 0
    assert failures == []


def consume(bootstrap: str, topic: str, count: int) -> list[Received]:
    consumer = ck.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "interop", "enable.auto.commit": False, "check.crcs": True}
    )
    received: list[Received] = []
    try:
        consumer.assign([ck.TopicPartition(topic, 0, ck.OFFSET_BEGINNING)])
        for _ in range(100):
            for message in consumer.consume(1000, 0.3):
                assert message.error() is None, message.error()
                headers = tuple((k, v) for k, v in message.headers() or [])
                received.append(
                    Received(message.offset(), message.timestamp()[1], message.key(), message.value(), headers)
                )
            if len(received) >= count:
                break
    finally:
        consumer.close()
    return received
