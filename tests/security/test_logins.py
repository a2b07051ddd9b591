"""Every authentication method works for all kinds of operations on Apache Kafka, as with Java's client and
librdkafka.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import Producer as ConfluentProducer
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import AdminClient

from samsarrow import Admin, Consumer, NewTopic, OffsetAndMetadata, Producer, TopicPartition
from samsarrow.exceptions import AuthenticationError
from support.fixtures import create_topic
from support.peers import Sent
from support.peers.java_api import JavaPeer
from support.secure import Login, SecureKafka
from support.streams import wait_for_markers
from support.waiting import until

RECORDS = 100_000
# Number of records that each of the other clients writes and reads.
FEW = 100
WAYS: Mapping[str, Callable[[SecureKafka], Login]] = {
    "PLAIN": lambda kafka: kafka.password("PLAIN"),
    "SCRAM-SHA-256": lambda kafka: kafka.password("SCRAM-SHA-256"),
    "SCRAM-SHA-512": lambda kafka: kafka.password("SCRAM-SHA-512", "SASL_PLAINTEXT"),
    "unsecured-token": lambda kafka: kafka.unsecured_token(),
    "issued-token": lambda kafka: kafka.issued_token(),
    # confluent-kafka's wheels are built without GSSAPI.
    "GSSAPI": lambda kafka: kafka.kerberos(),
    "certificate": lambda kafka: kafka.mutual_tls(),
    # librdkafka does not support delegation tokens: it cannot send tokenauth=true.
    "delegation-token": lambda kafka: kafka.delegation_token(),
}
pytestmark = pytest.mark.usefixtures("kerberos")


@pytest.fixture(scope="module", params=WAYS)
def login(request: pytest.FixtureRequest, secure: SecureKafka) -> Login:
    return WAYS[request.param](secure)


@pytest.fixture(scope="module")
def many(secure: SecureKafka) -> str:
    """A topic with many records."""
    topic = create_topic(secure, 2)
    with Producer(bootstrap_servers=secure.bootstrap_servers) as producer:
        numbers = range(RECORDS)
        rows = pa.record_batch({"value": [b"%d" % i for i in numbers], "to": [i % 2 for i in numbers]})
        producer.send_batch(topic, rows, partition="to").result(60)
    return topic


@pytest.fixture
def topic(secure: SecureKafka) -> str:
    return create_topic(secure)


def values(secure: SecureKafka, topic: str) -> list[bytes]:
    """Returns all values in a topic's first partition."""
    options: dict[str, Any] = {"bootstrap.servers": secure.bootstrap_servers, "isolation.level": "read_committed"}
    with Consumer(**options) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek_to_beginning()
        return [value for batch in consumer.reader() for value in batch.column("value").to_pylist()]


def settled(producer: ConfluentProducer) -> bool:
    return bool(producer.flush(30) == 0)


def test_produce(secure: SecureKafka, secure_java: JavaPeer, login: Login, topic: str) -> None:
    with Producer(**login.ours) as producer:
        deliveries = [producer.send(topic, b"ours %d" % i) for i in range(FEW)]
        assert [delivery.result(30).offset for delivery in deliveries] == list(range(FEW))
    secure_java.call("open", name="produce", config=login.java)
    secure_java.send("produce", topic, [Sent(None, b"java %d" % i) for i in range(FEW)])
    secure_java.call("close", name="produce")
    expected = [b"ours %d" % i for i in range(FEW)] + [b"java %d" % i for i in range(FEW)]
    if login.librdkafka is not None:
        other = ConfluentProducer(login.librdkafka)
        for i in range(FEW):
            other.produce(topic, b"librdkafka %d" % i)
        assert settled(other)
        expected += [b"librdkafka %d" % i for i in range(FEW)]
    assert values(secure, topic) == expected


def test_consume(secure_java: JavaPeer, login: Login, many: str) -> None:
    partitions = [TopicPartition(many, 0), TopicPartition(many, 1)]
    rows, total = 0, 0
    with Consumer(**login.ours) as consumer:
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        for batch in consumer.reader():
            rows += batch.num_rows
            total += sum(int(value) for value in batch.column("value").to_pylist())
    assert (rows, total) == (RECORDS, RECORDS * (RECORDS - 1) // 2)
    assert secure_java.call("ends", topic=many, partitions=[0, 1], config=login.java) == [RECORDS // 2] * 2
    if login.librdkafka is not None:
        other = ConfluentConsumer({**login.librdkafka, "group.id": "nobody"})
        other.assign([ConfluentPartition(many, 0, 0)])
        read = other.consume(FEW, 30)
        other.close()
        assert [message.value() for message in read] == [b"%d" % (2 * i) for i in range(FEW)]


def test_commit(request: pytest.FixtureRequest, secure_java: JavaPeer, login: Login, many: str) -> None:
    partition = TopicPartition(many, 0)
    group = request.node.name
    ours: dict[str, Any] = {**login.ours, "group.id": group, "enable.auto.commit": False}
    with Consumer(ours, auto_offset_reset="earliest") as consumer:
        consumer.subscribe([many])
        while not consumer.poll(1).num_rows:
            pass
        consumer.commit({partition: OffsetAndMetadata(7, "ours")})
        # All methods use the same group.
        result = secure_java.call("committed", topic=many, partitions=[0], config={**login.java, "group.id": group})
        assert result == [[7, "ours"]]
    if login.librdkafka is not None:
        other = ConfluentConsumer({**login.librdkafka, "group.id": group})
        [read] = other.committed([ConfluentPartition(many, 0)], 30)
        # Compares only the offset, because the metadata that confluent-kafka returns here is uninitialized memory.
        assert read.offset == 7
        other.commit(offsets=[ConfluentPartition(many, 0, 9)], asynchronous=False)
        other.close()
        with Consumer(ours) as consumer:
            assert consumer.committed([partition]) == {partition: OffsetAndMetadata(9)}


def test_transaction(secure: SecureKafka, secure_java: JavaPeer, login: Login, topic: str) -> None:
    source = TopicPartition(topic, 0)
    with (
        Producer(**login.ours, transactional_id=f"{topic}-ours") as producer,
        Consumer(**login.ours, group_id=f"{topic}-ours") as consumer,
    ):
        producer.init_transactions()
        for word in (b"aborted", b"ours"):
            producer.begin_transaction()
            producer.send(topic, word)
            producer.send_offsets_to_transaction({source: OffsetAndMetadata(3)}, consumer.group_metadata())
            producer.commit_transaction() if word == b"ours" else producer.abort_transaction()
        assert consumer.committed([source]) == {source: OffsetAndMetadata(3)}
    secure_java.call("open", name="tx", config={**login.java, "transactional.id": f"{topic}-java"})
    for op in ("init", "begin"):
        secure_java.call(op, name="tx")
    secure_java.send("tx", topic, [Sent(None, b"java")])
    for op in ("commit", "close"):
        secure_java.call(op, name="tx")
    expected = [b"ours", b"java"]
    if login.librdkafka is not None:
        other = ConfluentProducer({**login.librdkafka, "transactional.id": f"{topic}-librdkafka"})
        other.init_transactions(30)
        other.begin_transaction()
        other.produce(topic, b"librdkafka")
        other.commit_transaction(30)
        expected.append(b"librdkafka")
    wait_for_markers(secure.bootstrap_servers, topic)
    assert values(secure, topic) == expected


def test_admin(secure: SecureKafka, secure_java: JavaPeer, login: Login, topic: str) -> None:
    made = f"{topic}-made"
    with Admin(**login.ours) as admin:
        admin.create_topics([NewTopic(made, 3, 1)])
        # Waits, because the broker applies the new topic later than the controller.
        until(lambda: made in admin.list_topics([made]))
        assert admin.list_topics([made])[made].partitions == 3
    secure_java.call("configure", topic=made, configs={"retention.ms": "1000"}, config=login.java)
    if login.librdkafka is not None:
        client = AdminClient(login.librdkafka)
        assert len(client.list_topics(made, timeout=30).topics[made].partitions) == 3
        for deleted in client.delete_topics([made], operation_timeout=30).values():
            deleted.result(30)
        with Admin(bootstrap_servers=secure.bootstrap_servers) as admin:
            until(lambda: admin.list_topics([made]) == {})


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_wrong_password_error_has_broker_message(secure: SecureKafka, mechanism: str) -> None:
    login = secure.password(mechanism, "SASL_PLAINTEXT", password="guess")
    with Admin(**login.ours) as admin, pytest.raises(AuthenticationError) as raised:
        admin.list_topics()
    said = {"PLAIN": "Invalid username or password"}.get(mechanism, "invalid credentials with SASL mechanism SCRAM")
    assert said in str(raised.value)
    assert "guess" not in str(raised.value)
