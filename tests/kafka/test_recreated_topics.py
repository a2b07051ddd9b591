"""Topics that are deleted and recreated while a consumer reads them."""

import time
from collections.abc import Callable

import pyarrow as pa
import pytest

from samsarrow import Admin, Consumer, NewTopic, Producer, TopicPartition
from samsarrow.exceptions import UnknownTopicOrPartitionError
from support.kafka import KafkaServer
from support.waiting import until


@pytest.mark.parametrize("how", ["assign", "classic", "consumer"])
def test_recreated_topic_is_read_from_its_start(kafka: KafkaServer, new_topic: Callable[..., str], how: str) -> None:
    topic, servers = new_topic(), kafka.bootstrap_servers
    tp = TopicPartition(topic, 0)

    def produce(prefix: bytes, count: int) -> list[bytes]:
        values = [b"%s%d" % (prefix, n) for n in range(count)]
        with Producer(bootstrap_servers=servers) as producer:
            producer.send_batch(topic, pa.table({"value": pa.array(values, pa.binary())})).result(60)
        return values

    def read(consumer: Consumer, last: bytes) -> list[bytes]:
        seen: list[bytes] = []
        deadline = time.monotonic() + 90
        while last not in seen and time.monotonic() < deadline:
            seen += consumer.poll(0.5).column("value").to_pylist()
        return seen

    options = {} if how == "assign" else {"group_id": f"g-{topic}", "group_protocol": how}
    old = produce(b"old", 10)
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest", **options) as consumer:
        if how == "assign":
            consumer.assign([tp])
        else:
            consumer.subscribe([topic])
        assert read(consumer, old[-1]) == old
        with Admin(bootstrap_servers=servers) as admin:
            admin.delete_topics([topic])
            until(lambda: topic not in admin.list_topics())
            admin.create_topics([NewTopic(topic, 1, 1)])
            until(lambda: topic in admin.list_topics())
        new = produce(b"new", 30)
        assert read(consumer, new[-1]) == new
        if how != "assign":
            consumer.commit()
            committed = consumer.committed([tp])[tp]
            assert committed is not None
            assert committed.offset == 30


@pytest.mark.parametrize("how", ["assign", "classic", "consumer"])
def test_reader_of_a_deleted_topic_raises(kafka: KafkaServer, new_topic: Callable[..., str], how: str) -> None:
    topic, servers = new_topic(), kafka.bootstrap_servers
    with Producer(bootstrap_servers=servers, batch_size=500) as producer:
        for _ in range(2000):
            producer.send(topic, b"v")
    options = {} if how == "assign" else {"group_id": f"g-{topic}", "group_protocol": how}
    # Small fetches, so that rows are missing when the topic is deleted.
    small = {"queued_max_bytes": 1, "max_partition_fetch_bytes": 1000, "max_poll_records": 10}
    with Consumer(
        bootstrap_servers=servers, auto_offset_reset="earliest", metadata_max_age_ms=1000, **small, **options
    ) as consumer:
        if how == "assign":
            consumer.assign_topics(topic)
        else:
            consumer.subscribe([topic])
        reader = consumer.reader()
        assert reader.read_next_batch().num_rows
        with Admin(bootstrap_servers=servers) as admin:
            admin.delete_topics([topic])
        with pytest.raises(UnknownTopicOrPartitionError, match=f"was deleted before .* offsets of {topic}-0 from"):
            reader.read_all()
        assert reader.read_all().num_rows == 0
