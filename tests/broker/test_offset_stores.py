"""Offset stores in Kafka, and `next_offsets` of batches, on the embedded broker."""

import pytest

from samsarrow import Admin, Consumer, OffsetAndMetadata, Producer, TopicPartition
from samsarrow.exceptions import ClosedError, ConfigurationError, UnknownTopicOrPartitionError
from samsarrow.offsets import KafkaOffsetStore, OffsetStore, OffsetStoreError, ZooKeeperOffsetStore, next_offsets
from samsarrow.testing import Broker

T0, FOUR1, FOUR3 = TopicPartition("t", 0), TopicPartition("four", 1), TopicPartition("four", 3)


def test_metadata_of_kafka_and_zookeeper_stores(servers):
    kafka, zookeeper = (
        KafkaOffsetStore("k", bootstrap_servers=servers),
        ZooKeeperOffsetStore("z", {"bootstrap.servers": servers}),
    )
    offsets = {T0: OffsetAndMetadata(5, "m", 2), FOUR1: OffsetAndMetadata(6)}
    for store in (kafka, zookeeper):
        assert isinstance(store, OffsetStore)
        assert (store.load(), store.load([T0])) == ({}, {T0: None})
        store.store(offsets)
    assert kafka.load() == kafka.load(offsets) == offsets
    assert kafka.load([FOUR3, T0]) == {FOUR3: None, T0: offsets[T0]}
    assert zookeeper.load() == zookeeper.load(offsets) == {T0: OffsetAndMetadata(5), FOUR1: OffsetAndMetadata(6)}
    with pytest.raises(OffsetStoreError, match="offset -1"):
        kafka.store({T0: -1})
    for store in (kafka, zookeeper):
        store.close()
        store.close()
        with pytest.raises(ClosedError):
            store.load([T0])


def test_large_requests_are_split_and_failures_are_reported():
    with Broker(topics={"big": 2500}) as broker, Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        offsets = {TopicPartition("big", p): OffsetAndMetadata(p) for p in range(2500)}
        for store in (KafkaOffsetStore("g", admin=admin), ZooKeeperOffsetStore("g", admin=admin)):
            store.store(offsets)
            assert store.load() == store.load(offsets) == offsets
            with pytest.raises(UnknownTopicOrPartitionError, match="nope-0") as raised:
                store.store({TopicPartition("nope", p): 1 for p in range(20)} | {TopicPartition("big", 0): 77})
            assert len(raised.value.failures) == 20
            assert TopicPartition("big", 0) in raised.value.succeeded
            assert "and 19 more" in str(raised.value)
            assert len(str(raised.value)) < 2500
            assert store.load([TopicPartition("big", 0)]) == {TopicPartition("big", 0): OffsetAndMetadata(77)}
            store.close()
        assert admin.list_topics(), "a shared client stays open"


@pytest.mark.parametrize("options", [{"api_version_offset_commit": 0}, {"api.version.offset.fetch": "0"}])
def test_store_rejects_options_of_the_other_storage(servers, options):
    with pytest.raises(ConfigurationError, match="the version follows from KafkaOffsetStore"):
        KafkaOffsetStore("g", {"bootstrap.servers": servers, **options})
    with pytest.raises(ConfigurationError, match="the version follows from ZooKeeperOffsetStore"):
        ZooKeeperOffsetStore("g", bootstrap_servers=servers, api_version_offset_fetch=4)
    with (
        Admin(bootstrap_servers=servers) as admin,
        pytest.raises(ConfigurationError, match="either a client or options"),
    ):
        KafkaOffsetStore("g", admin=admin, bootstrap_servers=servers)


@pytest.mark.parametrize("layout", ["binary", "view"])
def test_next_offsets_equals_committed_offsets(servers, read, layout):
    with Producer(bootstrap_servers=servers) as producer:
        for i in range(30):
            producer.send("four", b"%d" % i, partition=i % 3)
        producer.send("t", b"x")
    with Consumer(bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest", layout=layout) as consumer:
        consumer.assign([*consumer.partitions_for("four"), T0])
        table = read(consumer, 31)
        consumer.commit(table)
        after = next_offsets(table)
        assert after == {tp: at and OffsetAndMetadata(at.offset) for tp, at in consumer.committed(after).items()}
        assert after[T0] == OffsetAndMetadata(1)
        assert len(after) == 4
        assert next_offsets(consumer.poll(0)) == {}
