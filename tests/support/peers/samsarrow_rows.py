"""samsarrow, by record."""

from samsarrow import Consumer, Producer, TopicPartition

from . import Received, Sent


def takes(record: Sent) -> bool:
    return True


def produce(bootstrap: str, topic: str, codec: str, records: list[Sent], partition: int = 0, **options: object) -> None:
    with Producer(bootstrap_servers=bootstrap, compression_type=codec, **options) as producer:
        deliveries = [
            producer.send(topic, r.value, r.key, headers=list(r.headers), partition=partition, timestamp=r.timestamp)
            for r in records
        ]
        assert [d.result(30).offset for d in deliveries] == list(range(len(records)))


def consume(bootstrap: str, topic: str, count: int, partition: int = 0, **options: object) -> list[Received]:
    received: list[Received] = []
    options = {"auto_offset_reset": "earliest", "include_headers": True, **options}
    with Consumer(bootstrap_servers=bootstrap, **options) as consumer:
        consumer.assign([TopicPartition(topic, partition)])
        for _ in range(100):
            received += [
                Received(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in consumer.records(timeout=1.0)
            ]
            if len(received) >= count:
                break
    return received
