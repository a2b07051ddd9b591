"""Groups and transactions on franz-go's fake cluster, with both group protocols and injected errors."""

from __future__ import annotations

import time

import pytest

from samsarrow import Consumer, Producer, TopicPartition
from samsarrow.exceptions import (
    FencedMemberEpochError,
    IllegalGenerationError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)

ALL = {TopicPartition("four", partition) for partition in range(4)}
PROTOCOLS = ["classic", "consumer"]
THROWN_OUT = (FencedMemberEpochError, IllegalGenerationError, RebalanceInProgressError, UnknownMemberIdError)


def member(kfake, protocol, **options):
    options = {
        "bootstrap_servers": kfake.bootstrap_servers,
        "group_id": "g",
        "group_protocol": protocol,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "retry_backoff_ms": 10,
        **({"heartbeat_interval_ms": 100, "session_timeout_ms": 6000} if protocol == "classic" else {}),
        **options,
    }
    consumer = Consumer(**options)
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


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_two_members_share_and_hand_over_partitions(kfake, send, protocol):
    send(kfake.bootstrap_servers, 40, topic="four", partitions=4)
    started = time.monotonic()
    with member(kfake, protocol) as first:
        assert sorted(read([first], lambda found: len(found) >= 40)) == list(range(40))
        assert first.assignment() == ALL
        with member(kfake, protocol) as second:
            read([first, second], lambda _: len(first.assignment()) == len(second.assignment()) == 2)
            assert first.assignment() | second.assignment() == ALL
            send(kfake.bootstrap_servers, 40, topic="four", partitions=4, first=40)
            assert sorted(read([first, second], lambda found: len(found) >= 40)) == list(range(40, 80))
        read([first], lambda _: first.assignment() == ALL)
    if protocol == "classic":
        assert kfake.requests("JoinGroup") < 300
    else:
        # Each member sends ten heartbeats per second.
        assert kfake.requests("ConsumerGroupHeartbeat") < 100 + 30 * (time.monotonic() - started)
    assert kfake.requests("FindCoordinator") < 30


ERRORS = [
    ("classic", "FindCoordinator", "COORDINATOR_NOT_AVAILABLE"),
    ("classic", "JoinGroup", "COORDINATOR_LOAD_IN_PROGRESS"),
    ("classic", "JoinGroup", "NOT_COORDINATOR"),
    ("classic", "JoinGroup", "REBALANCE_IN_PROGRESS"),
    ("classic", "JoinGroup", "UNKNOWN_MEMBER_ID"),
    ("classic", "SyncGroup", "REBALANCE_IN_PROGRESS"),
    ("classic", "SyncGroup", "NOT_COORDINATOR"),
    ("classic", "Heartbeat", "REBALANCE_IN_PROGRESS"),
    ("classic", "Heartbeat", "COORDINATOR_NOT_AVAILABLE"),
    ("classic", "Heartbeat", "ILLEGAL_GENERATION"),
    ("consumer", "FindCoordinator", "COORDINATOR_NOT_AVAILABLE"),
    ("consumer", "ConsumerGroupHeartbeat", "COORDINATOR_LOAD_IN_PROGRESS"),
    ("consumer", "ConsumerGroupHeartbeat", "NOT_COORDINATOR"),
    ("consumer", "ConsumerGroupHeartbeat", "FENCED_MEMBER_EPOCH"),
    ("consumer", "ConsumerGroupHeartbeat", "UNKNOWN_MEMBER_ID"),
]


@pytest.mark.parametrize(("protocol", "api", "error"), ERRORS)
def test_member_survives_errors(kfake, send, protocol, api, error):
    send(kfake.bootstrap_servers, 20, topic="four", partitions=4)
    kfake.fail(api, error, 2)
    with member(kfake, protocol) as consumer:
        assert sorted(read([consumer], lambda found: len(found) >= 20)) == list(range(20))
        # Injects the error a second time, after the member has joined.
        kfake.fail(api, error, 2)
        send(kfake.bootstrap_servers, 20, topic="four", partitions=4, first=20)
        assert sorted(read([consumer], lambda found: len(found) >= 20)) == list(range(20, 40))
        kfake.heal()
    for api in ("JoinGroup", "SyncGroup", "FindCoordinator"):
        assert kfake.requests(api) < 30, api


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_member_survives_dropped_connections_and_moved_coordinator(kfake, send, protocol):
    apis = ["JoinGroup", "SyncGroup", "Heartbeat"] if protocol == "classic" else ["ConsumerGroupHeartbeat"]
    for api in apis:
        kfake.drop(api, 2)
    with member(kfake, protocol) as consumer:
        for turn in range(3):
            send(kfake.bootstrap_servers, 8, topic="four", partitions=4, first=8 * turn)
            result = read([consumer], lambda result: len(result) >= 8)
            assert sorted(result) == list(range(8 * turn, 8 * turn + 8))
            kfake.move_coordinators()
    assert kfake.requests("FindCoordinator") < 60


def transact(producer, count, first, abort=False):
    producer.begin_transaction()
    for i in range(first, first + count):
        producer.send("t", b"%d" % i, partition=0)
    if abort:
        producer.flush()
        producer.abort_transaction()
    else:
        producer.commit_transaction()


def transactional(kfake):
    options = {"bootstrap_servers": kfake.bootstrap_servers, "transactional_id": "x", "retry_backoff_ms": 10}
    return Producer(**options)


def test_read_committed_returns_committed_records_only(kfake, values):
    with transactional(kfake) as producer:
        for turn in range(4):
            transact(producer, 5, 5 * turn, abort=turn % 2 == 1)
    assert values(kfake.bootstrap_servers) == [*range(5), *range(10, 15)]
    assert values(kfake.bootstrap_servers, isolation_level="read_uncommitted") == list(range(20))


TRANSACTIONAL_ERRORS = [
    ("InitProducerID", "COORDINATOR_LOAD_IN_PROGRESS"),
    ("InitProducerID", "CONCURRENT_TRANSACTIONS"),
    ("InitProducerID", "NOT_COORDINATOR"),
    ("EndTxn", "COORDINATOR_NOT_AVAILABLE"),
    ("EndTxn", "NOT_COORDINATOR"),
    ("EndTxn", "CONCURRENT_TRANSACTIONS"),
    ("Produce", "NOT_LEADER_OR_FOLLOWER"),
    ("Produce", "REQUEST_TIMED_OUT"),
    ("FindCoordinator", "COORDINATOR_NOT_AVAILABLE"),
]


@pytest.mark.parametrize(("api", "error"), TRANSACTIONAL_ERRORS)
def test_transaction_survives_errors(kfake, values, api, error):
    kfake.fail(api, error, 2)
    with transactional(kfake) as producer:
        transact(producer, 5, 0)
        kfake.fail(api, error, 2)
        transact(producer, 5, 5)
        transact(producer, 5, 10, abort=True)
    assert values(kfake.bootstrap_servers) == list(range(10))
    for api in ("InitProducerID", "EndTxn", "FindCoordinator"):
        assert kfake.requests(api) < 20, api


def test_transaction_survives_dropped_connections_and_moves(kfake, values):
    with transactional(kfake) as producer:
        for turn, api in enumerate(["Produce", "EndTxn", "InitProducerID", "Metadata"]):
            kfake.drop(api, 2)
            transact(producer, 5, 5 * turn)
            kfake.move_coordinators()
            kfake.move("t", 0, (kfake.leader("t") + 1) % 3)
    assert values(kfake.bootstrap_servers) == list(range(20))
    assert kfake.requests("FindCoordinator") < 40


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_read_process_write_exactly_once(kfake, send, values, protocol):
    send(kfake.bootstrap_servers, 40, topic="four", partitions=4)
    kfake.fail("TxnOffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS", 2)
    with member(kfake, protocol) as consumer, transactional(kfake) as producer:
        done, turn = 0, 0
        deadline = time.monotonic() + 60
        while done < 40:
            assert time.monotonic() < deadline, f"{done} after a minute"
            batch = consumer.poll(0.2)
            if not batch.num_rows:
                continue
            producer.begin_transaction()
            for value in batch.column("value").to_pylist():
                producer.send("t", value, partition=0)
            producer.send_offsets_to_transaction(batch, consumer.group_metadata())
            producer.commit_transaction()
            done += batch.num_rows
            turn += 1
        committed = consumer.committed(ALL)
    assert sorted(values(kfake.bootstrap_servers)) == list(range(40))
    assert {tp: place.offset for tp, place in committed.items()} == dict.fromkeys(ALL, 10)
