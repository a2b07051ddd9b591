"""Brokers that are unreachable or stop during work, and servers that are not Kafka brokers."""

import socket
import time

import pyarrow as pa
import pytest

from samsarrow import Admin, Consumer, Producer, TopicPartition
from samsarrow.exceptions import KafkaConnectionError, KafkaError, KafkaTimeoutError
from samsarrow.testing import Broker

FOUR = [TopicPartition("four", p) for p in range(4)]


@pytest.fixture
def unused_address():
    """Yields an address on which no server listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


def test_unreachable_host_is_named(unused_address):
    with (
        Admin(bootstrap_servers=unused_address) as admin,
        pytest.raises((KafkaTimeoutError, KafkaConnectionError), match=unused_address),
    ):
        admin.list_topics(timeout=1)
    with (
        Producer(bootstrap_servers=unused_address, max_block_ms=1000) as producer,
        pytest.raises((KafkaTimeoutError, KafkaConnectionError), match=unused_address),
    ):
        producer.send("t", b"x")
    with (
        Consumer(bootstrap_servers=unused_address, default_api_timeout_ms=1000) as consumer,
        pytest.raises((KafkaTimeoutError, KafkaConnectionError), match=unused_address),
    ):
        consumer.end_offsets([TopicPartition("t", 0)])


def test_unresolvable_host_is_named():
    with Admin(bootstrap_servers="no-such-host.invalid:9092") as admin, pytest.raises(KafkaError, match="no-such-host"):
        admin.list_topics(timeout=2)


def test_one_reachable_bootstrap_server_is_enough(broker, unused_address):
    with Admin(bootstrap_servers=[unused_address, broker.bootstrap_servers]) as admin:
        assert "t" in admin.list_topics(timeout=10)


def collect(consumer, rows, seconds=60):
    """Polls until at least `rows` rows have arrived. Returns partition, offset and value of each."""
    seen = []
    until = time.monotonic() + seconds
    while len(seen) < rows and time.monotonic() < until:
        batch = consumer.poll(0.5)
        seen += zip(*(batch.column(n).to_pylist() for n in ("partition", "offset", "value")), strict=True)
    return seen


def test_broker_restart_while_producing_loses_nothing():
    with Broker(brokers=2, topics={"four": 4}) as broker:
        with Producer(bootstrap_servers=broker.bootstrap_servers, retry_backoff_ms=20) as producer:
            deliveries = []
            for i in range(3000):
                if i == 1000:
                    producer.flush(60)
                    broker.stop_broker(1)
                if i == 2000:
                    time.sleep(0.3)
                    broker.start_broker(1)
                deliveries.append(producer.send("four", str(i), partition=i % 4))
            batch = producer.send_batch("four", pa.table({"value": [str(i) for i in range(3000, 4000)]}))
            producer.flush(60)
            assert len({(d.result(0).partition, d.result(0).offset) for d in deliveries}) == 3000
            assert sum(r.count for r in batch.result(0)) == 1000
        with Consumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
            consumer.assign(FOUR)
            seen = collect(consumer, 4000)
            assert consumer.poll(0.2).num_rows == 0
    assert sorted(int(v) for _, _, v in seen) == list(range(4000))
    for p in range(4):
        own = [int(v) for partition, _, v in seen if partition == p and int(v) < 3000]
        assert own == sorted(own)


def test_broker_restart_while_fetching_loses_and_repeats_nothing():
    with Broker(brokers=2, topics={"four": 4}) as broker:
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for i in range(4000):
                producer.send("four", str(i), partition=i % 4)
        with Consumer(
            bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest", max_poll_records=100
        ) as consumer:
            consumer.assign(FOUR)
            seen = collect(consumer, 500)
            broker.stop_broker(0)
            seen += collect(consumer, 300, seconds=2)
            broker.start_broker(0)
            seen += collect(consumer, 4000 - len(seen))
            assert consumer.poll(0.2).num_rows == 0
            assert sum(consumer.lag().values()) == 0
    assert sorted((p, o) for p, o, _ in seen) == [(p, o) for p in range(4) for o in range(1000)]


def test_undeliverable_records_raise():
    with Broker(topics={"t": 1}) as broker:
        producer = Producer(
            bootstrap_servers=broker.bootstrap_servers, delivery_timeout_ms=3000, request_timeout_ms=500, linger_ms=0
        )
        producer.send("t", b"x").result(10)
        broker.stop_broker(0)
        called = []
        delivery = producer.send("t", b"y", on_delivery=lambda m, e: called.append((m, e)))
        with pytest.raises(KafkaError) as raised:
            delivery.result(60)
        assert raised.value.retriable
        producer.close(30)
        assert called[0][0] is None
        assert isinstance(called[0][1], KafkaError)


def test_queued_records_survive_rejected_logins():
    """The broker rejects logins for a short time, for example because its user directory is down. Queued records are
    retried until their deadline, and only new calls fail.
    """
    with Broker(topics={"t": 1}, security="SASL_PLAINTEXT", users={"u": "p"}) as broker:
        with Producer(broker.client_options("u", "PLAIN"), enable_idempotence=False) as producer:
            producer.send("t", b"first").result(30)
            broker.alter_logins(step=1, error="SASL_AUTHENTICATION_FAILED", times=3)
            broker.fail("Produce", drop="before")
            deliveries = [producer.send("t", b"%d" % number) for number in range(1000)]
            producer.flush(60)
            assert [delivery.exception(0) for delivery in deliveries] == [None] * 1000
        # The request for the producer id of an idempotent producer is retried in the same way.
        with Producer(broker.client_options("u", "PLAIN")) as producer:
            producer.partitions_for("t")
            broker.fail("InitProducerId", drop="before")
            broker.alter_logins(step=1, error="SASL_AUTHENTICATION_FAILED", times=3)
            assert producer.send("t", b"last").result(60).offset == 1001


def test_rejected_logins_fail_records_at_their_deadline():
    with Broker(topics={"t": 1}, security="SASL_PLAINTEXT", users={"u": "p"}) as broker:
        options = {"delivery_timeout_ms": 3000, "request_timeout_ms": 2000, "linger_ms": 0}
        with Producer(broker.client_options("u", "PLAIN"), **options) as producer:
            producer.send("t", b"first").result(30)
            broker.alter_logins(step=1, error="SASL_AUTHENTICATION_FAILED", times=None)
            broker.fail("Produce", drop="before")
            error = producer.send("t", b"second").exception(60)
            assert isinstance(error, KafkaTimeoutError)
            assert "last error" in str(error)
            assert "SASL_AUTHENTICATION_FAILED" in str(error)
