"""samsarrow, record by record."""

from samsarrow import Consumer, Producer, TopicPartition

from . import Received, Sent


def produce(bootstrap: str, topic: str, codec: str, records: list[Sent]) -> None:
    with Producer(bootstrap_servers=bootstrap, compression_type=codec) as producer:
        deliveries = [
            producer.send(topic, r.value, r.key, headers=list(r.headers), partition=0, timestamp=r.timestamp)
            for r in records
        ]
        assert [d.result(30).offset for d in deliveries] == list(range(len(records)))


def consume(bootstrap: str, topic: str, count: int) -> list[Received]:
    received: list[Received] = []
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", include_headers=True) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        for _ in range(100):
            received += [
                Received(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in consumer.records(timeout=1.0)
            ]
            if len(received) >= count:
                break
    return received
