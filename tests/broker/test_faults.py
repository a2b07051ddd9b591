"""Injected faults of the embedded broker affect only the requests that they name."""

import time
from datetime import timedelta

import pytest

from samsarrow import Admin, Consumer, OffsetAndMetadata, Producer, TopicPartition
from samsarrow.exceptions import KafkaError, KafkaTimeoutError
from samsarrow.testing import Broker
from support.waiting import until

T0 = TopicPartition("t", 0)


@pytest.fixture
def pair():
    """Starts two brokers. The first leads the only partition."""
    with Broker(brokers=2, topics={"t": 1}, auto_create_topics=False) as broker:
        yield broker


@pytest.fixture
def producer(servers):
    with Producer(bootstrap_servers=servers, retry_backoff_ms=10, linger_ms=0) as producer:
        yield producer


def test_fail_times(broker, consumer):
    broker.fail("OffsetCommit", error="NOT_COORDINATOR", times=2)
    consumer.commit({T0: OffsetAndMetadata(7)})
    assert broker.requests("OffsetCommit") == 3
    assert consumer.committed([T0]) == {T0: OffsetAndMetadata(7)}
    broker.fail("OffsetCommit", error="GROUP_AUTHORIZATION_FAILED")
    with pytest.raises(KafkaError, match="GROUP_AUTHORIZATION_FAILED"):
        consumer.commit({T0: OffsetAndMetadata(8)})
    consumer.commit({T0: OffsetAndMetadata(9)})
    assert broker.requests("OffsetCommit") == 5


def test_faults_of_an_api_are_queued(broker, producer, servers):
    broker.fail("Produce", error="NOT_ENOUGH_REPLICAS")
    broker.fail("Produce", drop="after")
    broker.fail("Produce", garbage=True)
    broker.fail("Produce", drop="before")
    assert producer.send("t", b"x").result(20).offset == 0
    assert broker.requests("Produce") == 5
    with Consumer(bootstrap_servers=servers) as consumer:
        assert consumer.end_offsets([T0]) == {T0: 1}, "an idempotent producer's retries are one record"


def test_fail_until_heal(broker, consumer):
    for api in ("OffsetFetch", "ListOffsets"):
        broker.fail(api, error="UNKNOWN_SERVER_ERROR", times=None)
    for _ in range(3):
        with pytest.raises(KafkaError, match="UNKNOWN_SERVER_ERROR"):
            consumer.committed([T0])
    broker.heal("OffsetFetch")
    assert consumer.committed([T0]) == {T0: None}
    # The consumer retries after this error until the timeout, like Java's client.
    with pytest.raises(KafkaTimeoutError, match="UNKNOWN_SERVER_ERROR"):
        consumer.end_offsets([T0], timeout=1)
    broker.heal()
    assert consumer.end_offsets([T0]) == {T0: 0}


def test_unknown_group_has_no_committed_offsets(broker, consumer, servers):
    broker.fail("OffsetFetch", error="GROUP_ID_NOT_FOUND", times=None)
    assert consumer.committed([T0]) == {T0: None}
    with Admin(bootstrap_servers=servers) as admin:
        assert admin.fetch_offsets("g") == {}


@pytest.mark.parametrize("delay", [0.4, timedelta(milliseconds=400)])
def test_fail_with_delay(broker, consumer, delay):
    assert consumer.end_offsets([T0]) == {T0: 0}
    broker.fail("ListOffsets", delay=delay * 10)
    with pytest.raises(KafkaTimeoutError):
        consumer.end_offsets([T0], timeout=0.1)
    broker.heal()
    broker.fail("OffsetCommit", delay=delay, error="COORDINATOR_LOAD_IN_PROGRESS")
    began = time.monotonic()
    consumer.commit({T0: OffsetAndMetadata(1)})
    assert time.monotonic() - began >= 0.4
    assert broker.requests("OffsetCommit") == 2


def test_fail_of_one_node(pair):
    pair.fail("Produce", error="NOT_LEADER_OR_FOLLOWER", times=None, node=0)
    with Producer(bootstrap_servers=pair.bootstrap_servers, linger_ms=0) as producer:
        delivery = producer.send("t", b"x")
        with pytest.raises(KafkaTimeoutError):
            delivery.result(0.3)
        pair.move_leader("t", 0, 1)
        assert delivery.result(20).offset == 0


def test_coordinator_move(pair):
    servers = pair.bootstrap_servers
    with Consumer(bootstrap_servers=servers, group_id="g") as consumer, Admin(bootstrap_servers=servers) as admin:
        for offset, node in enumerate([0, 1, 0]):
            pair.move_coordinator("g", node)
            assert admin.find_coordinator("g").id == node
            consumer.commit({T0: OffsetAndMetadata(offset)})
            assert consumer.committed([T0]) == {T0: OffsetAndMetadata(offset)}


def test_request_counters(broker, consumer):
    before = broker.requests()
    assert "OffsetCommit" not in before
    assert broker.requests("OffsetCommit") == 0
    consumer.commit({T0: OffsetAndMetadata(1)})
    consumer.commit({T0: OffsetAndMetadata(2)})
    after = broker.requests()
    assert after["OffsetCommit"] == 2
    assert after["FindCoordinator"] >= 1


@pytest.mark.parametrize(
    ("api", "arguments", "message"),
    [
        ("OffsetCommits", {"error": "NOT_COORDINATOR"}, "API OffsetCommits is unknown; did you mean OffsetCommit"),
        ("fetch", {"error": "NOT_COORDINATOR"}, "did you mean Fetch"),
        ("Fetch", {"error": "NOT_COORDINATER"}, "error NOT_COORDINATER is unknown; did you mean NOT_COORDINATOR"),
        ("Fetch", {"error": "NONE"}, "error NONE is unknown"),
        ("Fetch", {}, "no fault given"),
        ("Fetch", {"error": "NOT_COORDINATOR", "garbage": True}, "exclude each other"),
        ("Fetch", {"drop": "later"}, '"before" or "after"'),
        ("Fetch", {"delay": -1}, "0 or more"),
        ("Fetch", {"delay": float("nan")}, "0 or more"),
        ("Fetch", {"garbage": True, "times": 0}, "times=0"),
        ("Fetch", {"garbage": True, "node": 1}, "there is no node 1"),
        ("Fetch", {"garbage": True, "node": -1}, "there is no node -1"),
    ],
)
def test_invalid_faults_are_rejected(broker, api, arguments, message):
    with pytest.raises(ValueError, match=message):
        broker.fail(api, **arguments)


def test_missing_nodes_and_partitions_are_rejected(broker):
    for name in ("heal", "requests"):
        with pytest.raises(ValueError, match="did you mean Metadata"):
            getattr(broker, name)("Metadatas")
    with pytest.raises(ValueError, match="no node 7"):
        broker.move_coordinator("g", 7)
    with pytest.raises(ValueError, match="no node 7"):
        broker.move_leader("t", 0, 7)
    with pytest.raises(ValueError, match="no partition t-9"):
        broker.move_leader("t", 9, 0)
    with pytest.raises(ValueError, match="offsets_retention"):
        Broker(offsets_retention=-1)


def test_offsets_retention():
    with (
        Broker(topics={"t": 1}, offsets_retention=3.0) as broker,
        Consumer(bootstrap_servers=broker.bootstrap_servers, group_id="g") as consumer,
    ):
        consumer.commit({T0: OffsetAndMetadata(7)})
        assert consumer.committed([T0]) == {T0: OffsetAndMetadata(7)}
        until(lambda: consumer.committed([T0]) == {T0: None})
