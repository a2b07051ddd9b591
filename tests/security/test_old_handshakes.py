"""Authentication with old Kafka versions: with raw tokens after handshake v0, and with each version of
SaslAuthenticate.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer as ConfluentProducer

from samsarrow import Admin, Consumer, NewTopic, Producer, TopicPartition
from samsarrow.exceptions import InvalidReplicationFactorError, KafkaError
from support.kafka import classpath
from support.secure import USERS, where_java_is
from support.secure_old import OldSecureKafka
from support.streams import wait_until

# The last version without SaslAuthenticate, and versions that support SaslAuthenticate up to v0, v1 and v2.
VERSIONS = ["0.11.0.3", "1.1.1", "2.3.1", "2.8.2"]
RECORDS = 1000


@pytest.fixture(scope="module", params=VERSIONS)
def kafka(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OldSecureKafka]:
    with where_java_is():
        classpath(request.param)
    with OldSecureKafka(tmp_path_factory.mktemp("old"), request.param) as server:
        registered(server)
        yield server


def registered(server: OldSecureKafka) -> None:
    """Waits until topics can be created, because brokers with ZooKeeper open their ports before they register."""
    with Admin(bootstrap_servers=server.bootstrap_servers) as admin:
        wait_until(lambda: created(admin))


def created(admin: Admin) -> bool:
    try:
        admin.create_topics([NewTopic("first", 1, 1)])
    except InvalidReplicationFactorError:
        return False
    return True


def options(kafka: OldSecureKafka, mechanism: str, password: str = USERS["alice"]) -> dict[str, str]:
    return {
        "bootstrap.servers": kafka.secure_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": "alice",
        "sasl.password": password,
    }


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_login(kafka: OldSecureKafka, mechanism: str) -> None:
    config, topic = options(kafka, mechanism), mechanism.lower()
    with Admin(**config) as admin:
        admin.create_topics([NewTopic(topic, 1, 1)])
    with Producer(**config) as producer:
        deliveries = [producer.send(topic, b"%d" % i) for i in range(RECORDS)]
        assert [delivery.result(30).offset for delivery in deliveries] == list(range(RECORDS))
    other = ConfluentProducer(config)
    other.produce(topic, b"librdkafka")
    assert other.flush(30) == 0
    with Consumer(**config) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek_to_beginning()
        values = [value for batch in consumer.reader() for value in batch.column("value").to_pylist()]
    assert values == [*(b"%d" % i for i in range(RECORDS)), b"librdkafka"]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_wrong_password(kafka: OldSecureKafka, mechanism: str) -> None:
    with Admin(**options(kafka, mechanism, "guess")) as admin, pytest.raises(KafkaError) as raised:
        admin.list_topics(timeout=5)
    # Before Kafka 1.0, a broker closes the connection without an error.
    assert "guess" not in str(raised.value)
