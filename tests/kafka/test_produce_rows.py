"""Every row that a producer accepts is in the log, or its delivery has an error."""

from __future__ import annotations

import threading
import time

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
