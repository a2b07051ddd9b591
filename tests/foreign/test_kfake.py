"""franz-go's fake cluster: with injected errors and moving leaders and coordinators, every record is stored exactly
once.
"""

from __future__ import annotations

import pytest

from samsarrow import Admin, Consumer, NewTopic, OffsetAndMetadata, Producer, TopicPartition
from samsarrow.exceptions import KafkaError, OffsetOutOfRangeError, UnknownServerError

T0 = TopicPartition("t", 0)
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


@pytest.mark.parametrize("codec", CODECS)
def test_records_round_trip(kfake, codec):
    rows = [(b"k%d" % i if i % 3 else None, b"v" * (i % 200) if i % 5 else None) for i in range(1000)]
    options = {"bootstrap_servers": kfake.bootstrap_servers}
    with Producer(**options, compression_type=codec, linger_ms=20, batch_size=4096) as producer:
        sent = [producer.send("t", value, key=key, headers=[("h", b"%d" % i)], partition=0, timestamp=1000 + i)
                for i, (key, value) in enumerate(rows)]  # fmt: skip
        assert [delivery.result(30).offset for delivery in sent] == list(range(1000))
    results = []
    with Consumer(**options, auto_offset_reset="earliest", include_headers=True) as consumer:
        consumer.assign([T0])
        while len(results) < 1000:
            batch = consumer.poll(30)
            assert batch.num_rows, "the rest does not come"
            results += batch.to_pylist()
    assert [(row["key"], row["value"]) for row in results] == rows
    assert [row["headers"] for row in results] == [[{"key": "h", "value": b"%d" % i}] for i in range(1000)]
    assert [row["offset"] for row in results] == list(range(1000))


@pytest.mark.parametrize(
    "error",
    [
        "NOT_LEADER_OR_FOLLOWER",
        "UNKNOWN_TOPIC_OR_PARTITION",
        "LEADER_NOT_AVAILABLE",
        "NOT_ENOUGH_REPLICAS",
        "KAFKA_STORAGE_ERROR",
        # Brokers return the following errors after they have appended the records.
        "REQUEST_TIMED_OUT",
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    ],
)
def test_retried_records_are_stored_once(kfake, send, values, error):
    send(kfake.bootstrap_servers, 5)
    kfake.fail("Produce", error, 3)
    before = kfake.requests("Produce")
    send(kfake.bootstrap_servers, 20, first=5)
    assert values(kfake.bootstrap_servers) == list(range(25))
    assert kfake.requests("Produce") - before == 23
    assert kfake.requests("Metadata") < 40


def test_dropped_connections_neither_lose_nor_duplicate(kfake, send, values):
    kfake.drop("Produce", 5)
    send(kfake.bootstrap_servers, 20)
    assert values(kfake.bootstrap_servers) == list(range(20))
    assert kfake.requests("Produce") == 25


def test_fatal_error_affects_only_its_record(kfake, values):
    with Producer(bootstrap_servers=kfake.bootstrap_servers, linger_ms=0) as producer:
        producer.send("t", b"0").result(30)
        kfake.fail("Produce", "UNKNOWN_SERVER_ERROR")
        with pytest.raises(UnknownServerError, match=r"t-0.*UNKNOWN_SERVER_ERROR"):
            producer.send("t", b"1").result(30)
        for i in range(2, 10):
            producer.send("t", b"%d" % i).result(30)
    assert values(kfake.bootstrap_servers) == [0, *range(2, 10)]
    # The client cannot know whether the second record was appended. Therefore it retries the third record with a new
    # epoch, which the broker accepts in either case.
    assert kfake.requests("Produce") <= 12


def test_produce_while_leaders_move(kfake, values):
    with Producer(bootstrap_servers=kfake.bootstrap_servers, retry_backoff_ms=10, linger_ms=0) as producer:
        sent = []
        for i in range(300):
            if i % 50 == 25:
                kfake.move("t", 0, (kfake.leader("t") + 1) % 3)
            sent.append(producer.send("t", b"%d" % i))
        assert [delivery.result(30).offset for delivery in sent] == list(range(300))
    assert values(kfake.bootstrap_servers) == list(range(300))
    assert kfake.requests("Metadata") < 60


def test_consumer_follows_the_leader(kfake, send):
    with Consumer(bootstrap_servers=kfake.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([T0])
        for turn in range(6):
            send(kfake.bootstrap_servers, 5, first=5 * turn)
            results = []
            while len(results) < 5:
                batch = consumer.poll(30)
                assert batch.num_rows, "the rest does not come"
                results += (int(value) for value in batch.column("value").to_pylist())
            assert results == list(range(5 * turn, 5 * turn + 5))
            kfake.move("t", 0, (kfake.leader("t") + 1) % 3)
    assert kfake.requests("Metadata") < 60


def test_broker_is_replaced(kfake, send, values):
    send(kfake.bootstrap_servers, 12, topic="four", partitions=4)
    kfake.add_broker()
    kfake.remove_broker(kfake.leader("four", 1))
    send(kfake.bootstrap_servers, 12, topic="four", partitions=4, first=12)
    assert sorted(values(kfake.bootstrap_servers, topic="four", partitions=4)) == list(range(24))


@pytest.mark.parametrize(
    "error",
    ["NOT_LEADER_OR_FOLLOWER", "UNKNOWN_TOPIC_OR_PARTITION", "KAFKA_STORAGE_ERROR", "OFFSET_NOT_AVAILABLE",
     "UNKNOWN_SERVER_ERROR"],
)  # fmt: skip
def test_fetch_errors_are_retried(kfake, send, values, error):
    send(kfake.bootstrap_servers, 20)
    kfake.fail("Fetch", error, 3, topic="t")
    assert values(kfake.bootstrap_servers) == list(range(20))
    assert kfake.requests("Fetch") < 30
    assert kfake.requests("Metadata") < 40


@pytest.mark.parametrize("error", ["FETCH_SESSION_ID_NOT_FOUND", "INVALID_FETCH_SESSION_EPOCH"])
def test_fetch_session_is_restarted(kfake, send, values, error):
    send(kfake.bootstrap_servers, 20)
    kfake.fail("Fetch", error, 3, whole=True)
    assert values(kfake.bootstrap_servers) == list(range(20))
    assert kfake.requests("Fetch") < 30


@pytest.mark.parametrize("api", ["Fetch", "ListOffsets", "Metadata"])
def test_consumer_survives_dropped_connections(kfake, send, values, api):
    send(kfake.bootstrap_servers, 20)
    kfake.drop(api, 3)
    assert values(kfake.bootstrap_servers) == list(range(20))
    assert kfake.requests(api) < 20


def test_deleted_records_are_skipped_or_raised(kfake, send):
    send(kfake.bootstrap_servers, 20)
    kfake.delete_records("t", 0)
    send(kfake.bootstrap_servers, 5, first=20)
    with Consumer(bootstrap_servers=kfake.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([T0])
        consumer.seek(T0, 3)
        assert consumer.poll(30).column("value").to_pylist() == [b"20", b"21", b"22", b"23", b"24"]
    with Consumer(bootstrap_servers=kfake.bootstrap_servers, auto_offset_reset="none") as consumer:
        consumer.assign([T0])
        consumer.seek(T0, 3)
        with pytest.raises(OffsetOutOfRangeError, match="t-0"):
            consumer.poll(30)
    assert kfake.requests("Fetch") < 20


@pytest.mark.parametrize("error", ["NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS"])
def test_commit_survives_coordinator_errors(kfake, send, error):
    send(kfake.bootstrap_servers, 3)
    options = {"bootstrap_servers": kfake.bootstrap_servers, "group_id": "g", "retry_backoff_ms": 10}
    with Consumer(**options) as consumer:
        consumer.assign([T0])
        assert consumer.committed([T0]) == {T0: None}
        kfake.fail("OffsetCommit", error, 3)
        consumer.commit({T0: OffsetAndMetadata(2, "note")})
        kfake.fail("OffsetFetch", error, 3)
        kfake.fail("FindCoordinator", "COORDINATOR_NOT_AVAILABLE", 2)
        assert consumer.committed([T0])[T0].offset == 2
        assert kfake.requests("OffsetCommit") == 4
        assert kfake.requests("OffsetFetch") < 8
        kfake.drop("OffsetCommit", 2)
        kfake.move_coordinators()
        consumer.commit({T0: OffsetAndMetadata(3)})
        assert consumer.committed([T0])[T0].offset == 3
    assert kfake.requests("FindCoordinator") < 20


def test_admin_group_operations(kfake):
    with Admin(bootstrap_servers=kfake.bootstrap_servers) as admin:
        assert admin.fetch_offsets("nobody") == {}
        admin.create_topics([NewTopic("new", 3, 1)])
        assert admin.list_topics()["new"].partitions == 3
        with pytest.raises(KafkaError, match="TOPIC_ALREADY_EXISTS"):
            admin.create_topics([NewTopic("new", 3, 1)])
        admin.commit_offsets("g", {T0: OffsetAndMetadata(0)})
        assert admin.fetch_offsets("g")[T0].offset == 0
        assert "g" in admin.list_groups()
        assert admin.describe_groups(["g"])["g"].state == "Empty"
        assert admin.delete_groups(["g"]) == {"g": None}
        assert admin.fetch_offsets("g") == {}
        admin.delete_topics(["new"])
        assert "new" not in admin.list_topics()
