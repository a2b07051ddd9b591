"""Records are neither lost nor duplicated, and keep their order, when a broker is killed and restarted."""

import threading
import time
from collections.abc import Callable

import pyarrow as pa
import pytest

from samsarrow import Consumer, Producer, TopicPartition
from support.kafka import KafkaServer

COUNT = 200_000
# After a kill, a broker may take minutes to start.
pytestmark = pytest.mark.timeout(400)


def kill_and_restart(kafka: KafkaServer, after: float) -> threading.Thread:
    """Kills the broker after `after` seconds, without a shutdown as in a power failure, and restarts it, all in a
    thread.
    """

    def run() -> None:
        time.sleep(after)
        kafka.kill()
        time.sleep(0.5)
        kafka.start()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def read_values(kafka: KafkaServer, topic: str, count: int) -> list[bytes]:
    values: list[bytes] = []
    with Consumer(bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        while len(values) < count:
            batch = consumer.poll(30.0)
            if batch.num_rows == 0:
                break
            values += batch.column("value").to_pylist()
        values += consumer.poll(0.5).column("value").to_pylist()
    return values


def test_produce_across_a_crash(kafka: KafkaServer, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    crash = kill_and_restart(kafka, after=0.3)
    with Producer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=1) as producer:
        deliveries = []
        for i in range(COUNT):
            deliveries.append(producer.send(topic, b"%d" % i, partition=0))
            if i % 2000 == 0:
                time.sleep(0.02)
        producer.flush(150)
        offsets = [d.result(1).offset for d in deliveries]
    crash.join()
    assert offsets == list(range(COUNT))
    assert read_values(kafka, topic, COUNT) == [b"%d" % i for i in range(COUNT)]


def test_fetch_across_a_crash(kafka: KafkaServer, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    expected = [b"%07d" % i + b"x" * 200 for i in range(COUNT)]
    with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        producer.send_batch(topic, pa.table({"value": pa.array(expected, pa.binary())})).result(60)
    actual: list[bytes] = []
    options = {"auto.offset.reset": "earliest", "max.poll.records": 500, "queued.max.bytes": 200_000}
    with Consumer({"bootstrap.servers": kafka.bootstrap_servers, **options}) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        crash = None
        while len(actual) < COUNT:
            batch = consumer.poll(150.0)
            assert batch.num_rows > 0
            actual += batch.column("value").to_pylist()
            if crash is None and len(actual) > COUNT // 4:
                crash = kill_and_restart(kafka, after=0.0)
                time.sleep(0.3)
    assert crash is not None
    crash.join()
    assert actual == expected
