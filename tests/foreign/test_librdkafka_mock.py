"""librdkafka's mock cluster: every record is stored exactly once despite errors and moving leaders and coordinators.

Groups use the classic protocol and have one member. The mock cluster rejects a follower's SyncGroup that arrives after
the leader's. A ConsumerGroupHeartbeat with topic names but without a pattern (even an empty one), as sent by us and by
Java's client, ends the process by a failed assertion.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from samsarrow import Consumer, OffsetAndMetadata, Producer, TopicPartition
from samsarrow.exceptions import IllegalGenerationError, RebalanceInProgressError, UnknownMemberIdError
from support.librdkafka import MockCluster, MockClusterUnavailableError, library

T0 = TopicPartition("t", 0)
ALL = {TopicPartition("four", partition) for partition in range(4)}
THROWN_OUT = (IllegalGenerationError, RebalanceInProgressError, UnknownMemberIdError)


@pytest.fixture
def mock() -> Iterator[MockCluster]:
    try:
        library()
    except MockClusterUnavailableError as reason:
        pytest.skip(str(reason))
    with MockCluster(brokers=3, topics={"t": 1, "four": 4}) as mock:
        yield mock


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_round_trip(mock, codec):
    rows = [(b"k%d" % i if i % 3 else None, b"v" * (i % 200) if i % 5 else None) for i in range(1000)]
    options = {"bootstrap_servers": mock.bootstrap_servers}
    with Producer(**options, compression_type=codec, linger_ms=20, batch_size=4096) as producer:
        sent = [producer.send("t", value, key=key, partition=0) for key, value in rows]
        assert [delivery.result(30).offset for delivery in sent] == list(range(1000))
    results = []
    with Consumer(**options, auto_offset_reset="earliest") as consumer:
        consumer.assign([T0])
        while len(results) < 1000:
            batch = consumer.poll(30)
            assert batch.num_rows, "the rest does not come"
            results += batch.to_pylist()
    assert [(row["key"], row["value"]) for row in results] == rows
    assert [row["offset"] for row in results] == list(range(1000))


@pytest.mark.parametrize(
    "error",
    ["NOT_LEADER_OR_FOLLOWER", "UNKNOWN_TOPIC_OR_PARTITION", "NOT_ENOUGH_REPLICAS", "KAFKA_STORAGE_ERROR",
     "REQUEST_TIMED_OUT", None],
)  # fmt: skip
def test_retried_records_are_stored_once(mock, send, values, error):
    send(mock.bootstrap_servers, 5)
    if error is None:
        mock.drop("Produce", 3)
    else:
        mock.fail("Produce", error, 3)
    send(mock.bootstrap_servers, 20, first=5)
    assert values(mock.bootstrap_servers) == list(range(25))
    assert mock.requests("Produce") == 28
    assert mock.requests("Metadata") < 40


def test_leaders_and_brokers_move_under_load(mock, values):
    with Producer(bootstrap_servers=mock.bootstrap_servers, retry_backoff_ms=10, linger_ms=0) as producer:
        sent = []
        for turn in range(6):
            mock.move("t", 0, turn % 3 + 1)
            sent += [producer.send("t", b"%d" % i) for i in range(50 * turn, 50 * turn + 50)]
        assert [delivery.result(30).offset for delivery in sent] == list(range(300))
        with mock.down(3):
            mock.move("t", 0, 1)
            sent = [producer.send("t", b"%d" % i) for i in range(300, 350)]
            assert [delivery.result(30).offset for delivery in sent] == list(range(300, 350))
    assert values(mock.bootstrap_servers) == list(range(350))
    assert mock.requests("Metadata") < 100


@pytest.mark.parametrize(
    "error",
    ["NOT_LEADER_OR_FOLLOWER", "UNKNOWN_TOPIC_OR_PARTITION", "OFFSET_NOT_AVAILABLE", "UNKNOWN_SERVER_ERROR", None],
)
def test_fetch_errors_are_retried(mock, send, values, error):
    send(mock.bootstrap_servers, 20)
    if error is None:
        mock.drop("Fetch", 3)
    else:
        mock.fail("Fetch", error, 3)
    assert values(mock.bootstrap_servers) == list(range(20))
    assert mock.requests("Fetch") < 30
    assert mock.requests("Metadata") < 40


@pytest.mark.parametrize(
    "error", ["NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS", None]
)
def test_commit_survives_coordinator_errors(mock, send, error):
    send(mock.bootstrap_servers, 3)
    with Consumer(bootstrap_servers=mock.bootstrap_servers, group_id="g", retry_backoff_ms=10) as consumer:
        consumer.assign([T0])
        assert consumer.committed([T0]) == {T0: None}
        for api in ("OffsetCommit", "OffsetFetch", "FindCoordinator"):
            if error is None:
                mock.drop(api, 2)
            else:
                mock.fail(api, error if api != "FindCoordinator" else "COORDINATOR_NOT_AVAILABLE", 2)
        consumer.commit({T0: OffsetAndMetadata(2, "note")})
        assert consumer.committed([T0])[T0].offset == 2
        mock.move_coordinator("group", "g", 2)
        consumer.commit({T0: OffsetAndMetadata(3)})
        assert consumer.committed([T0])[T0].offset == 3
    assert mock.requests("OffsetCommit") < 8
    assert mock.requests("FindCoordinator") < 20


def member(mock):
    consumer = Consumer(
        bootstrap_servers=mock.bootstrap_servers,
        group_id="g",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        retry_backoff_ms=10,
        heartbeat_interval_ms=100,
        session_timeout_ms=6000,
    )
    consumer.subscribe(["four"])
    return consumer


def read(members, until, limit=60):
    """Polls each member in turn and commits its rows, until `until(values)`."""
    results = []
    deadline = time.monotonic() + limit
    while not until(results):
        assert time.monotonic() < deadline, f"{sorted(results)} after {limit} s"
        for consumer in members:
            batch = consumer.poll(0.1)
            if batch.num_rows:
                try:
                    consumer.commit(batch)
                except THROWN_OUT:
                    # A rebalance between poll and commit rejects the commit, so the rows are read again.
                    continue
                results += (int(value) for value in batch.column("value").to_pylist())
    return results


def test_member_resumes_at_committed_offsets(mock, send):
    for first in (0, 40):
        send(mock.bootstrap_servers, 40, topic="four", partitions=4, first=first)
        with member(mock) as consumer:
            assert sorted(read([consumer], lambda found: len(found) >= 40)) == list(range(first, first + 40))
            assert consumer.assignment() == ALL
    assert mock.requests("JoinGroup") < 10


@pytest.mark.parametrize(
    ("api", "error"),
    [
        ("JoinGroup", "COORDINATOR_LOAD_IN_PROGRESS"),
        ("JoinGroup", "NOT_COORDINATOR"),
        ("JoinGroup", None),
        ("SyncGroup", "REBALANCE_IN_PROGRESS"),
        ("SyncGroup", None),
        ("Heartbeat", "REBALANCE_IN_PROGRESS"),
        ("Heartbeat", "COORDINATOR_NOT_AVAILABLE"),
        ("Heartbeat", None),
    ],
)
def test_member_survives_errors(mock, send, api, error):
    send(mock.bootstrap_servers, 20, topic="four", partitions=4)
    with member(mock) as consumer:
        for first in (0, 20):
            if error is None:
                mock.drop(api, 2)
            else:
                mock.fail(api, error, 2)
            if first:
                send(mock.bootstrap_servers, 20, topic="four", partitions=4, first=first)
            assert sorted(read([consumer], lambda found: len(found) >= 20)) == list(range(first, first + 20))
        mock.heal(api)
    for api in ("JoinGroup", "SyncGroup", "FindCoordinator"):
        assert mock.requests(api) < 30, api


# The mock cluster writes transaction markers without a checksum, and returns no aborted transactions.
UNCHECKED = {"check_crcs": False}


@pytest.mark.parametrize(
    ("api", "error"),
    [
        ("InitProducerId", "COORDINATOR_LOAD_IN_PROGRESS"),
        ("InitProducerId", "CONCURRENT_TRANSACTIONS"),
        ("AddPartitionsToTxn", "CONCURRENT_TRANSACTIONS"),
        ("AddPartitionsToTxn", "NOT_COORDINATOR"),
        ("EndTxn", "COORDINATOR_NOT_AVAILABLE"),
        ("EndTxn", "CONCURRENT_TRANSACTIONS"),
        ("Produce", "NOT_LEADER_OR_FOLLOWER"),
        ("EndTxn", None),
        ("AddPartitionsToTxn", None),
    ],
)
def test_transaction_survives_errors(mock, values, api, error):
    options = {"bootstrap_servers": mock.bootstrap_servers, "transactional_id": "x", "retry_backoff_ms": 10}
    with Producer(**options) as producer:
        for first in (0, 5):
            if error is None:
                mock.drop(api, 2)
            else:
                mock.fail(api, error, 2)
            with producer.transaction():
                for i in range(first, first + 5):
                    producer.send("t", b"%d" % i, partition=0)
            mock.move_coordinator("transaction", "x", 2)
    assert values(mock.bootstrap_servers, **UNCHECKED) == list(range(10))
    for api in ("InitProducerId", "AddPartitionsToTxn", "EndTxn", "FindCoordinator"):
        assert mock.requests(api) < 20, api


def test_read_process_write_exactly_once(mock, send, values):
    send(mock.bootstrap_servers, 40, topic="four", partitions=4)
    for api, error in (("TxnOffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS"), ("AddOffsetsToTxn", "NOT_COORDINATOR")):
        mock.fail(api, error, 2)
    options = {"bootstrap_servers": mock.bootstrap_servers, "transactional_id": "x", "retry_backoff_ms": 10}
    with member(mock) as consumer, Producer(**options) as producer:
        done = 0
        deadline = time.monotonic() + 60
        while done < 40:
            assert time.monotonic() < deadline, f"{done} after a minute"
            batch = consumer.poll(0.2)
            if batch.num_rows:
                with producer.transaction():
                    for value in batch.column("value").to_pylist():
                        producer.send("t", value, partition=0)
                    producer.send_offsets_to_transaction(batch, consumer.group_metadata())
                done += batch.num_rows
    assert sorted(values(mock.bootstrap_servers, **UNCHECKED)) == list(range(40))
    # The mock cluster does not store offsets of transactions.
    assert 1 <= mock.requests("TxnOffsetCommit") < 50


@pytest.mark.parametrize(
    "versions",
    [{"Produce": (3, 7), "Fetch": (4, 7)}, {"Metadata": (0, 4)}, {"FindCoordinator": (0, 1)}],
)
def test_other_broker_versions(mock, send, values, versions):
    for api, (lowest, highest) in versions.items():
        mock.speak(api, lowest, highest)
    send(mock.bootstrap_servers, 10)
    assert values(mock.bootstrap_servers) == list(range(10))
    with Consumer(bootstrap_servers=mock.bootstrap_servers, group_id="g") as consumer:
        consumer.commit({T0: OffsetAndMetadata(2)})
        assert consumer.committed([T0])[T0].offset == 2
