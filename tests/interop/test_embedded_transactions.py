"""Other clients' transactional producers on the embedded broker, with all transaction versions."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import confluent_kafka
import pytest

from samsarrow.testing import Broker
from support.fixtures import create_topic
from support.kafka import KafkaServer, KafkaUnavailableError, ZooKeeperKafkaServer, classpath
from support.peers import Sent, samsarrow_arrow
from support.peers.java_api import JavaError, JavaPeer
from support.streams import wait_for_ends
from support.waiting import until

LEVELS = ("read_uncommitted", "read_committed")


@contextlib.contextmanager
def java_of(server: KafkaServer) -> Iterator[JavaPeer]:
    """Java clients of the server's version; the server is not started."""
    try:
        classpath(server.version)
        with JavaPeer(server) as peer:
            yield peer
    except KafkaUnavailableError as reason:
        pytest.skip(str(reason))
    finally:
        server.discard()


@pytest.fixture(scope="module")
def old_java() -> Iterator[JavaPeer]:
    with java_of(ZooKeeperKafkaServer()) as peer:
        yield peer


class Scenario:
    """Writes a topic with Java producers; each value contains the outcome of the record's transaction."""

    def __init__(self, java: JavaPeer, servers: str, topic: str) -> None:
        self._java, self._servers, self.topic = java, servers, topic
        for name in ("a", "b"):
            java.open(
                f"{topic}-{name}",
                bootstrap_servers=servers, transactional_id=f"{topic}-{name}", batch_size="100", linger_ms="20",
            )  # fmt: skip
            self.do(name, "init")

    def do(self, name: str, *ops: str) -> None:
        for op in ops:
            self._java.call(op, name=f"{self.topic}-{name}")

    def send(self, name: str, value: str, count: int, partition: int = 0) -> None:
        records = [Sent(None, f"{value} {i}".encode()) for i in range(count)]
        self._java.send(f"{self.topic}-{name}", self.topic, records, partition)

    def settle(self) -> None:
        """Waits for the markers, which follow the response to EndTxn, so that later records have higher offsets."""
        wait_for_ends(self._servers, f"{self.topic}-a", f"{self.topic}-b")

    def offset(self, name: str, offset: int) -> None:
        where = {"topic": self.topic, "partition": 0, "offset": offset, "group": f"{self.topic}-g"}
        self._java.call("offset", name=f"{self.topic}-{name}", **where)

    def committed(self) -> list[tuple[int, str] | None]:
        config = {"bootstrap.servers": self._servers, "group.id": f"{self.topic}-g"}
        return self._java.call("committed", topic=self.topic, partitions=[0], config=config)  # type: ignore[no-any-return]

    def read(self) -> list[object]:
        """Returns what Java's consumer reads by level and partition, with the offsets."""
        results: list[object] = [self.committed()]
        for level in LEVELS:
            options = {"bootstrap_servers": self._servers, "isolation_level": level}
            ends = self._java.ends(self.topic, [0, 1], **options)
            polls = self._java.polls(self.topic, [0, 1], ends, **options)
            records = sorted((p, r.offset, r.value) for poll in polls for p, r in poll.records)
            results.append((level, ends, records))
        return results

    def play(self) -> list[object]:
        """Runs consecutive, interleaved and empty transactions, and one that stays open."""
        for name in ("a", "b"):
            self.do(name, "begin")
            self.send(name, "committed", 5)
            self.send(name, "committed", 3, partition=1)
            self.offset(name, 4)
            self.do(name, "commit", "begin")
            self.send(name, "aborted", 12)
            self.offset(name, 99)
            self.do(name, "abort")
            self.settle()
        self.do("a", "begin", "commit", "begin", "abort", "begin")
        self.do("b", "begin")
        self.send("a", "aborted", 2)
        self.send("b", "committed", 2)
        self.send("a", "aborted", 1)
        self.do("b", "commit", "begin")
        self.send("b", "open", 1)
        self.do("a", "abort")
        self.do("a", "begin")
        self.send("a", "late", 2)
        self.do("a", "commit")
        self.settle()
        result = self.read()
        self.do("b", "commit")
        self.settle()
        result.extend(self.read())
        return result

    def close(self) -> None:
        for name in ("a", "b"):
            self.do(name, "close")


@pytest.fixture(scope="module")
def on_kafka(kafka: KafkaServer, java: JavaPeer) -> list[object]:
    """The result of the scenario on Apache Kafka."""
    scenario = Scenario(java, kafka.bootstrap_servers, create_topic(kafka, 2))
    try:
        return scenario.play()
    finally:
        scenario.close()


@pytest.mark.parametrize(("client", "version"), [("old_java", 2), ("java", 1), ("java", 2)])
def test_java_results_match_apache_kafka(
    client: str, version: int, on_kafka: list[object], request: pytest.FixtureRequest
) -> None:
    java: JavaPeer = request.getfixturevalue(client)
    topic = f"{client}{version}"
    with Broker(brokers=2, topics={topic: 2}, transaction_version=version) as broker:
        scenario = Scenario(java, broker.bootstrap_servers, topic)
        try:
            assert scenario.play() == on_kafka
        finally:
            scenario.close()
        # Clients omit these requests only with version 2, which Kafka 3.9 does not support.
        first = version < 2 or client == "old_java"
        assert (broker.requests("AddPartitionsToTxn") > 0) == first
        assert (broker.requests("AddOffsetsToTxn") > 0) == first


@pytest.mark.parametrize("version", [1, 2])
def test_java_is_fenced_and_waits_for_markers(java: JavaPeer, version: int) -> None:
    topic = f"fenced{version}"
    with Broker(topics={topic: 2}, transaction_version=version, transaction_marker_delay=0.2) as broker:
        scenario = Scenario(java, broker.bootstrap_servers, topic)
        try:
            # Each transaction begins before the previous one is complete.
            for _ in range(3):
                scenario.do("a", "begin")
                scenario.send("a", "committed", 2)
                scenario.do("a", "commit")
            scenario.do("a", "begin")
            scenario.send("a", "aborted", 2)
            broker.fence(f"{topic}-a")
            with pytest.raises(JavaError, match=r"ProducerFenced|InvalidProducerEpoch|TransactionAbortable"):
                scenario.do("a", "commit")
            # The client retries requests that fail.
            scenario.do("b", "begin")
            broker.fail("Produce", drop="after")
            broker.fail("Produce", error="NOT_LEADER_OR_FOLLOWER", handled=True)
            scenario.send("b", "committed", 2)
            broker.fail("EndTxn", drop="after")
            scenario.do("b", "commit")
            [_, _, (_, _, records)] = scenario.read()
            assert [value for _, _, value in records] == [b"committed 0", b"committed 1"] * 4
        finally:
            scenario.close()


@pytest.mark.parametrize("version", [0, 2])
def test_confluent_commits_offsets_in_transactions(version: int) -> None:
    with Broker(brokers=2, topics={"from": 1, "to": 1}, transaction_version=version) as broker:
        servers = {"bootstrap.servers": broker.bootstrap_servers}
        samsarrow_arrow.produce(broker.bootstrap_servers, "from", "none", [Sent(None, b"%d" % i) for i in range(10)])
        group = {"group.id": "g", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        consumer = confluent_kafka.Consumer({**servers, **group, "isolation.level": "read_committed"})
        producer = confluent_kafka.Producer({**servers, "transactional.id": "x"})
        producer.init_transactions(30)
        try:
            consumer.subscribe(["from"])
            moved = 0
            while moved < 10:
                message = consumer.poll(30)
                assert message is not None
                assert message.error() is None
                producer.begin_transaction()
                producer.produce("to", message.value())
                position = consumer.position(consumer.assignment())
                producer.send_offsets_to_transaction(position, consumer.consumer_group_metadata(), 30)
                # Every second transaction is aborted and repeated.
                if moved % 2 == 0:
                    producer.abort_transaction(30)
                    producer.begin_transaction()
                    producer.produce("to", message.value())
                    producer.send_offsets_to_transaction(position, consumer.consumer_group_metadata(), 30)
                producer.commit_transaction(30)
                moved += 1
            [committed] = consumer.committed([confluent_kafka.TopicPartition("from", 0)], 30)
            assert committed.offset == 10
            until(lambda: broker.transaction_state("x") == "CompleteCommit")
        finally:
            consumer.close()
        reader = confluent_kafka.Consumer({**servers, **group, "group.id": "r", "isolation.level": "read_committed"})
        try:
            reader.assign([confluent_kafka.TopicPartition("to", 0, 0)])
            values = [message.value() for message in reader.consume(10, 30)]
            assert values == [b"%d" % i for i in range(10)]
        finally:
            reader.close()
