"""Every row that a producer accepts is in the log, or its delivery has an error."""

from __future__ import annotations

import random
import threading
import time
from typing import Any

import pyarrow as pa
import pytest

from samsarrow import Admin, Consumer, Producer, TopicPartition
from samsarrow.exceptions import InvalidTimestampError, RejectedWithOthersError
from support.fixtures import create_topic
from support.kafka import KafkaServer


@pytest.mark.parametrize("keys", [False, True], ids=["without keys", "with null keys"])
def test_send_batch_while_partitions_are_added(kafka: KafkaServer, keys: bool) -> None:
    topic, rows = create_topic(kafka, 1), 400_000
    columns: dict[str, list[bytes | None]] = {"value": [b"x" * 100] * rows}
    if keys:
        columns["key"] = [None if row % 3 else b"%d" % row for row in range(rows)]
    servers = {"bootstrap_servers": kafka.bootstrap_servers}
    with (
        Admin(**servers) as admin,
        Producer(
            **servers, buffer_memory=1 << 20, metadata_max_age_ms=100, compression_type="lz4" if keys else "none"
        ) as producer,
    ):
        producer.send(topic, b"first").result(30)
        adding = threading.Timer(0.05, lambda: admin.create_partitions({topic: 4}))
        adding.start()
        delivery = producer.send_batch(topic, pa.table(columns))
        adding.join()
        assert len(delivery) == sum(receipt.count for receipt in delivery.result(120)) == rows
    with Consumer(**servers) as consumer:
        ends = consumer.end_offsets([TopicPartition(topic, partition) for partition in range(4)])
    assert sum(ends.values()) == rows + 1


def test_rejected_record_has_its_own_error(kafka: KafkaServer) -> None:
    topic = create_topic(kafka, 1)
    ahead = int((time.time() + 10 * 86_400) * 1000)
    with Producer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=500) as producer:
        sent = [producer.send(topic, value, timestamp=at) for value, at in ((b"a", None), (b"b", ahead), (b"c", None))]
        errors = [delivery.exception(30) for delivery in sent]
        assert [type(error) for error in errors] == [
            RejectedWithOthersError,
            InvalidTimestampError,
            RejectedWithOthersError,
        ]
        assert [error.retriable for error in errors if error is not None] == [True, False, True]
        again = [producer.send(topic, value).result(30).offset for value in (b"a", b"c")]
        assert again == [0, 1]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_default_batch_fits_the_default_limit(kafka: KafkaServer, codec: str) -> None:
    """Incompressible data, which codecs make slightly larger, is not rejected and split."""
    topic = create_topic(kafka, 1)
    noise = random.Random(codec).randbytes(2_200_000)
    servers = kafka.bootstrap_servers
    with Producer(bootstrap_servers=servers, compression_type=codec, linger_ms=30_000) as producer:
        producer.send(topic, b"first")
        producer.flush(60)
        before = producer.metrics().requests
        deliveries = [producer.send(topic, noise[at : at + 1000]) for at in range(0, len(noise), 1000)]
        producer.flush(60)
        assert [delivery.result(0).offset for delivery in deliveries] == list(range(1, 2201))
        assert producer.metrics().requests - before == 3


@pytest.mark.parametrize("kind", ["idempotent", "transactional"])
def test_batches_are_split_to_the_limit_of_the_topic(kafka: KafkaServer, kind: str) -> None:
    topic = create_topic(kafka, 1, max_message_bytes="50000")
    values = [b"%05d" % number + bytes(995) for number in range(1000)]
    options: dict[str, Any] = {"transactional_id": topic} if kind == "transactional" else {}
    requests = []
    with Producer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=30_000, **options) as producer:
        for _ in range(2):
            before = producer.metrics().requests
            if options:
                producer.begin_transaction()
            for value in values:
                producer.send(topic, value)
            producer.flush(60)
            if options:
                producer.commit_transaction()
            requests.append(producer.metrics().requests - before)
    # The second round begins with batches of the accepted size.
    assert requests[1] < requests[0]
    with Consumer(bootstrap_servers=kafka.bootstrap_servers, isolation_level="read_committed") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek_to_beginning()
        found: list[bytes] = []
        end = time.monotonic() + 60
        while len(found) < 2000 and time.monotonic() < end:
            found += consumer.poll(1.0).column("value").to_pylist()
    assert found == values * 2
