"""kafka-python."""

import warnings

from . import Received, Sent

with warnings.catch_warnings():
    # kafka-python reads package files with a function that is deprecated since Python 3.11.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka


def takes(record: Sent) -> bool:
    """Returns false for records that kafka-python rejects: without key and value, or with a header without a value."""
    return (record.key, record.value) != (None, None) and all(value is not None for _, value in record.headers)


def produce(bootstrap: str, topic: str, codec: str, records: list[Sent], partition: int = 0, **options: object) -> None:
    basic = {"linger_ms": 50, "enable_idempotence": False, "compression_type": None if codec == "none" else codec}
    producer = kafka.KafkaProducer(bootstrap_servers=bootstrap, **{**basic, **options})
    try:
        sent = [
            producer.send(
                topic, r.value, r.key, partition=partition, timestamp_ms=r.timestamp, headers=list(r.headers) or None
            )
            for r in records
        ]
        producer.flush(30)
        for each in sent:
            each.get(5)
    finally:
        producer.close(5)


def consume(bootstrap: str, topic: str, count: int, partition: int = 0, **options: object) -> list[Received]:
    basic = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "check_crcs": True}
    consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, **{**basic, **options})
    received: list[Received] = []
    try:
        consumer.assign([kafka.TopicPartition(topic, partition)])
        for _ in range(100):
            for records in consumer.poll(300).values():
                received += [Received(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in records]
            if len(received) >= count:
                break
    finally:
        consumer.close()
    return received
