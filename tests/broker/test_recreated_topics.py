"""Topics that are deleted and created again while they are consumed. Positions belong to a topic id."""

import logging
import time

import pytest

from samsarrow import Admin, Consumer, NewTopic, Producer, TopicPartition
from samsarrow.exceptions import KafkaError, OffsetOutOfRangeError
from samsarrow.testing import Broker
from support.waiting import until

T = TopicPartition("t", 0)
WARNING = "the topic was deleted and created again"


def produce(servers, *values):
    with Producer(bootstrap_servers=servers, linger_ms=0) as producer:
        for value in values:
            producer.send("t", value, partition=0)


def recreate(servers, *values):
    """Deletes the topic, creates it again, and sends these values to it."""
    with Admin(bootstrap_servers=servers) as admin:
        admin.delete_topics(["t"])
        admin.create_topics([NewTopic("t", 1)])
    produce(servers, *values)


def numbered(prefix, count):
    return [b"%s%d" % (prefix, n) for n in range(count)]


def values(consumer, last, seconds=30):
    """Polls until the value `last` has arrived, and returns all polled values."""
    seen = []
    until = time.monotonic() + seconds
    while last not in seen and time.monotonic() < until:
        seen += consumer.poll(0.5).column("value").to_pylist()
    return seen


def warnings(caplog):
    return [record.getMessage() for record in caplog.records if WARNING in record.getMessage()]


@pytest.mark.parametrize("how", ["assign", "classic", "consumer"])
def test_recreated_topic_is_read_from_its_start(servers, caplog, how):
    options = {} if how == "assign" else {"group_id": "g", "group_protocol": how}
    produce(servers, *numbered(b"old", 10))
    with (
        caplog.at_level(logging.WARNING, "samsarrow"),
        Consumer(bootstrap_servers=servers, auto_offset_reset="earliest", **options) as consumer,
    ):
        if how == "assign":
            consumer.assign([T])
        else:
            consumer.subscribe(["t"])
        assert values(consumer, b"old9") == numbered(b"old", 10)
        recreate(servers, *numbered(b"new", 30))
        assert values(consumer, b"new29") == numbered(b"new", 30)
        assert consumer.position(T) == 30
        if how != "assign":
            consumer.commit()
            assert consumer.committed([T])[T].offset == 30
    if how == "assign":
        # Waits, because a separate thread writes the log lines.
        (text,) = until(lambda: warnings(caplog))
        assert "t-0 at offset 10" in text
        assert "at the first offset of the new topic" in text


def test_prefetched_rows_of_the_old_topic_are_dropped(servers):
    produce(servers, *numbered(b"old", 100))
    options = {"auto_offset_reset": "earliest", "max_poll_records": 10, "metadata_max_age_ms": 200}
    with Consumer(bootstrap_servers=servers, **options) as consumer:
        consumer.assign([T])
        assert values(consumer, b"old9") == numbered(b"old", 10)
        consumer.pause(T)
        recreate(servers, *numbered(b"new", 30))
        until = time.monotonic() + 30
        while consumer.position(T) != 0 and time.monotonic() < until:
            assert consumer.poll(0.2).num_rows == 0
        consumer.resume(T)
        assert values(consumer, b"new29") == numbered(b"new", 30)


def test_recreated_topic_without_reset_policy_is_an_error_until_a_seek(servers):
    produce(servers, *numbered(b"old", 10))
    with Consumer(bootstrap_servers=servers, auto_offset_reset="none") as consumer:
        consumer.assign([T])
        consumer.seek(T, 0)
        assert values(consumer, b"old9") == numbered(b"old", 10)
        recreate(servers, *numbered(b"new", 30))
        for _ in range(2):
            with pytest.raises(OffsetOutOfRangeError, match=r"t-0 .* deleted and created again"):
                values(consumer, b"new29")
        consumer.seek(T, 5)
        assert values(consumer, b"new29") == numbered(b"new", 30)[5:]


@pytest.mark.parametrize("stored", [False, True])
def test_old_offsets_are_not_committed_to_a_recreated_topic(servers, stored):
    produce(servers, *numbered(b"old", 10))
    options = {"enable_auto_offset_store": False} if stored else {}
    with Consumer(
        bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest", enable_auto_commit=False, **options
    ) as consumer:
        consumer.assign([T])
        seen = 0
        while seen < 10:
            batch = consumer.poll(0.5)
            seen += batch.num_rows
            if stored and batch.num_rows:
                consumer.store_offsets(batch)
        recreate(servers)
        until = time.monotonic() + 30
        while consumer.position(T) != 0 and time.monotonic() < until:
            consumer.poll(0.2)
        consumer.commit()
        committed = consumer.committed([T])[T]
        assert committed is None if stored else committed.offset == 0


def test_equal_offset_is_committed_in_a_recreated_topic(servers):
    produce(servers, *numbered(b"old", 10))
    options = {"bootstrap_servers": servers, "group_id": "g", "auto_offset_reset": "earliest"}
    with Consumer(**options, auto_commit_interval_ms=50) as consumer:
        consumer.subscribe(["t"])
        values(consumer, b"old9")
        until = time.monotonic() + 30
        while consumer.committed([T])[T] is None and time.monotonic() < until:
            consumer.poll(0.1)
        recreate(servers, *numbered(b"new", 10))
        assert values(consumer, b"new9") == numbered(b"new", 10)
    with Admin(bootstrap_servers=servers) as admin:
        assert admin.fetch_offsets("g")[T].offset == 10


def test_recreated_topic_without_topic_ids():
    with Broker(topics={"t": 1}, kafka_version="2.4") as broker:
        servers = broker.bootstrap_servers
        produce(servers, *numbered(b"old", 10))
        with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([T])
            assert values(consumer, b"old9") == numbered(b"old", 10)
            recreate(servers, *numbered(b"new", 30))
            assert values(consumer, b"new29") == numbered(b"new", 30)[10:]


def test_commit_to_a_recreated_topic_is_an_error(servers: str) -> None:
    with (
        Admin(bootstrap_servers=servers) as admin,
        Producer(bootstrap_servers=servers) as producer,
        # The metadata is not refreshed, so the commit must notice the new topic id.
        Consumer(
            bootstrap_servers=servers, group_id="g", enable_auto_commit=False, metadata_max_age_ms=300_000
        ) as consumer,
    ):
        for _ in range(10):
            producer.send("t", b"old")
        producer.flush()
        partition = TopicPartition("t", 0)
        # The consumer does not fetch, since a Fetch response would report the new topic id.
        assert consumer.partitions_for("t") == [partition]
        admin.delete_topics(["t"])
        admin.create_topics([NewTopic("t", 1)])
        with pytest.raises(KafkaError, match="created again"):
            consumer.commit({partition: 10})
        assert "t" not in {tp.topic for tp in admin.fetch_offsets("g")}
