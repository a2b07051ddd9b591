"""Two brokers: a consumer reads from the closest replica (KIP-392), and detects log truncation (KIP-320)."""

import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient

from samsarrow import Admin, Consumer, NewTopic, Producer, TopicPartition
from samsarrow.exceptions import OffsetOutOfRangeError
from support.cluster import KafkaCluster

COUNT = 50_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster(2) as cluster:
        yield cluster


def led_by(cluster: KafkaCluster, name: str, leader: int, **configs: str) -> str:
    """Creates a topic of one partition on both brokers, with the given leader."""
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        while True:
            admin.create_topics([NewTopic(name, 1, 2, {k.replace("_", "."): v for k, v in configs.items()})])
            if leader_of(cluster, name) == leader:
                return name
            admin.delete_topics([name])
            name += "x"


def leader_of(cluster: KafkaCluster, topic: str) -> int:
    return int(described(cluster, topic).leader)


def in_sync(cluster: KafkaCluster, topic: str) -> list[int]:
    return sorted(described(cluster, topic).isrs)


def described(cluster: KafkaCluster, topic: str) -> Any:
    """Returns the partition's leader and replicas, as seen by another client."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    while True:
        partitions = admin.list_topics(topic, timeout=20).topics[topic].partitions
        if 0 in partitions:
            return partitions[0]


def produce(cluster: KafkaCluster, topic: str, values: list[bytes]) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        producer.send_batch(topic, pa.table({"value": pa.array(values, pa.binary())})).result(60)


def read(consumer: Consumer, count: int) -> list[bytes]:
    values: list[bytes] = []
    while len(values) < count:
        batch = consumer.poll(60.0)
        assert batch.num_rows > 0, f"nothing came after {len(values)} records"
        values += batch.column("value").to_pylist()
    return values


def wait(until: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while not until():
        assert time.monotonic() < deadline, what
        time.sleep(0.2)


def test_reads_from_replica_in_its_rack(cluster: KafkaCluster, caplog: pytest.LogCaptureFixture) -> None:
    topic = led_by(cluster, "near", 1)
    expected = [b"%06d" % i for i in range(COUNT)]
    produce(cluster, topic, expected)
    caplog.set_level(logging.DEBUG, logger="samsarrow")
    options = {"bootstrap.servers": cluster.bootstrap_servers, "auto.offset.reset": "earliest"}
    for rack, node in (("rack-2", 2), ("rack-1", None)):
        caplog.clear()
        with Consumer(options, client_rack=rack, max_partition_fetch_bytes=100_000) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            assert read(consumer, len(expected)) == expected
            # The consumer reads new records from the same replica.
            produce(cluster, topic, [b"late"])
            assert read(consumer, 1) == [b"late"]
        expected.append(b"late")
        moves = [r.getMessage() for r in caplog.records if "closer replica" in r.getMessage()]
        assert bool(moves) == (node is not None)
        assert all(f"at broker {node}," in move for move in moves), moves


def test_producer_prefers_leaders_in_its_rack(cluster: KafkaCluster) -> None:
    """As Java's client 4.4 (KIP-1123); a rack without a leader falls back to all partitions."""
    topic, leaders = "racks", {0: 1, 1: 2, 2: 1, 3: 2}
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(topic, assignment=[[leader, 3 - leader] for leader in leaders.values()])])
    options = {"bootstrap_servers": cluster.bootstrap_servers, "linger_ms": 0, "partitioner_rack_aware": True}
    for rack, expected in (("rack-1", {0, 2}), ("rack-2", {1, 3}), ("elsewhere", {0, 1, 2, 3})):
        with Producer(options, client_rack=rack, batch_size=1000) as producer:
            keyless = [producer.send(topic, b"v" * 500) for _ in range(200)]
            keyed = [producer.send(topic, b"v", key=b"%d" % n) for n in range(100)]
            rows = pa.table({"value": pa.array([b"v" * 500] * 2000, pa.binary())})
            batches = producer.send_batch(topic, rows).result(60)
        assert {delivery.result(60).partition for delivery in keyless} == expected
        assert {delivery.result(60).partition for delivery in keyed} == {0, 1, 2, 3}
        assert {receipt.partition for receipt in batches} <= expected


@pytest.mark.parametrize("reset", ["earliest", "none"])
def test_log_truncation_is_detected(cluster: KafkaCluster, reset: str) -> None:
    topic = led_by(cluster, f"cut-{reset}", 1, min_insync_replicas="1")
    partition = TopicPartition(topic, 0)
    produce(cluster, topic, [b"both %d" % i for i in range(10)])
    with Consumer(bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset=reset) as consumer:
        consumer.assign([partition])
        consumer.seek(partition, 0)
        assert len(read(consumer, 10)) == 10
        cluster.brokers[2].kill()
        wait(lambda: in_sync(cluster, topic) == [1], "broker 2 stays in sync")
        produce(cluster, topic, [b"lost %d" % i for i in range(10)])
        assert len(read(consumer, 10)) == 10
        cluster.brokers[1].kill()
        cluster.brokers[2].start()
        # No election takes place until the controller detects that broker 1 is down.
        wait(lambda: leader_of(cluster, topic) == -1, "broker 1 still leads")
        elect_unclean(cluster, topic)
        wait(lambda: leader_of(cluster, topic) == 2, "broker 2 does not lead")
        kept = [b"kept %d" % i for i in range(15)]
        produce(cluster, topic, kept)
        if reset == "none":
            with pytest.raises(OffsetOutOfRangeError, match="truncated"):
                poll_until_rows(consumer)
            consumer.seek(partition, 10)
        assert read(consumer, len(kept)) == kept
        assert consumer.position(partition) == 10 + len(kept)
        cluster.brokers[1].start()
        wait(lambda: in_sync(cluster, topic) == [1, 2], "broker 1 does not come back")


def poll_until_rows(consumer: Consumer) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if consumer.poll(5.0).num_rows:
            return


def elect_unclean(cluster: KafkaCluster, topic: str) -> None:
    cluster.brokers[2].tool(
        "org.apache.kafka.tools.LeaderElectionCommand",
        *("--bootstrap-server", cluster.brokers[2].bootstrap_servers),
        *("--election-type", "UNCLEAN", "--topic", topic, "--partition", "0"),
    )
