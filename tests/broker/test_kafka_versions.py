"""The embedded broker as a broker of other Kafka versions, and the behaviour of clients with these versions."""

import logging

import pytest
from confluent_kafka import Producer as ConfluentProducer

from samsarrow import Admin, Consumer, Producer
from samsarrow.exceptions import UnsupportedVersionError
from samsarrow.testing import Broker
from support.waiting import until

KAFKAS = [
    "0.8.2", "0.9.0", "0.10.0", "0.10.2", "0.11.0", "1.1", "2.0", "2.3", "2.4", "2.8", "3.0", "3.3", "3.6", "3.7",
    "3.8", "3.9", "4.0", "4.1", "4.2", "4.3", "4.4",
]  # fmt: skip


def read(consumer, count):
    rows = 0
    while rows < count:
        batch = consumer.poll(10)
        if not batch.num_rows:
            break
        rows += batch.num_rows
    return rows


@pytest.mark.parametrize("kafka", KAFKAS)
def test_produce_consume_group_and_commit(kafka):
    with Broker(topics={"t": 2}, kafka_version=kafka) as broker:
        servers = broker.bootstrap_servers
        with Producer(bootstrap_servers=servers) as producer:
            for n in range(10):
                producer.send("t", b"v", partition=n % 2).result(10)
        options = {"bootstrap_servers": servers, "group_id": "g", "auto_offset_reset": "earliest"}
        with Consumer(**options, session_timeout_ms=10_000) as consumer:
            if kafka == "0.8.2":  # supports committed offsets, but no group membership
                consumer.assign([("t", 0), ("t", 1)])
            else:
                consumer.subscribe(["t"])
            assert read(consumer, 10) == 10
            consumer.commit(timeout=10)
            committed = consumer.committed([("t", 0), ("t", 1)])
            assert {place: at.offset for place, at in committed.items()} == {("t", 0): 5, ("t", 1): 5}
        with Admin(bootstrap_servers=servers) as admin:
            assert list(admin.list_topics()) == ["t"]


def test_producer_without_idempotence_on_old_brokers_logs_a_warning(caplog):
    with Broker(topics={"t": 1}, kafka_version="0.10.2") as broker:
        with (
            caplog.at_level(logging.WARNING, logger="samsarrow"),
            Producer(bootstrap_servers=broker.bootstrap_servers) as producer,
        ):
            assert [producer.send("t", b"v").result(10).offset for _ in range(3)] == [0, 1, 2]
            # Log lines arrive with a delay.
            until(lambda: [r for r in caplog.records if "idempot" in r.getMessage()])
        assert [r.message.count("without idempotence") for r in caplog.records if "idempot" in r.message] == [1]
        with (
            Producer(bootstrap_servers=broker.bootstrap_servers, enable_idempotence=True) as producer,
            pytest.raises(UnsupportedVersionError, match=r"needs Kafka 0\.11"),
        ):
            producer.send("t", b"v").result(10)


@pytest.mark.parametrize("kafka", ["2.8", "3.9"])
def test_consumer_group_protocol_needs_kafka_4(kafka):
    with (
        Broker(topics={"t": 1}, kafka_version=kafka) as broker,
        Consumer(bootstrap_servers=broker.bootstrap_servers, group_id="g", group_protocol="consumer") as consumer,
    ):
        consumer.subscribe(["t"])
        with pytest.raises(UnsupportedVersionError, match=r"group.protocol=classic"):
            consumer.poll(10)


@pytest.mark.parametrize("kafka", ["0.10.0", "0.11.0", "2.3", "2.8", "3.9", "4.4"])
def test_other_clients_accept_the_advertised_versions(kafka):
    with Broker(topics={"t": 1}, kafka_version=kafka) as broker:
        reports = []
        producer = ConfluentProducer({"bootstrap.servers": broker.bootstrap_servers})
        producer.produce("t", b"v", on_delivery=lambda error, _: reports.append(error))
        assert producer.flush(20) == 0
        assert reports == [None]


def test_invalid_kafka_version_is_rejected():
    with pytest.raises(ValueError, match=r"kafka_version=.2.9.: it must be one of 0.8.2, 0.9.0, .*, 4.4"):
        Broker(kafka_version="2.9")
