"""Offsets committed by us and by other clients and tools of Kafka are visible to each other."""

from collections.abc import Callable
from typing import Any

import confluent_kafka as ck
import pytest

from samsarrow import Consumer, KafkaError, OffsetAndMetadata, Producer, TopicPartition
from samsarrow.exceptions import KafkaTimeoutError
from support.kafka import KafkaServer

ZOOKEEPER: dict[str, Any] = {"api_version_offset_commit": 0, "api_version_offset_fetch": 0}


@pytest.fixture
def topic(kafka: KafkaServer, new_topic: Callable[..., str]) -> str:
    """A topic of three partitions with 10, 20 and 30 records."""
    name = new_topic(3)
    with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for partition in range(3):
            for i in range(10 * (partition + 1)):
                producer.send(name, b"%d" % i, partition=partition, timestamp=1_000_000 + i)
    return name


def test_group_tool_shows_our_commits(kafka: KafkaServer, topic: str) -> None:
    group = f"group-of-{topic}"
    with Consumer(bootstrap_servers=kafka.bootstrap_servers, group_id=group) as consumer:
        consumer.commit({TopicPartition(topic, 0): 4, TopicPartition(topic, 2): OffsetAndMetadata(30, "all of it")})
    done = kafka.tool(
        "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
        "--bootstrap-server", kafka.bootstrap_servers, "--describe", "--group", group,
    )  # fmt: skip
    rows = [line.split() for line in done.stdout.decode().splitlines() if topic in line]
    # GROUP TOPIC PARTITION [LEADER-EPOCH] CURRENT-OFFSET LOG-END-OFFSET LAG ...
    numbers = sorted([int(x) for x in row[2:] if x.isdecimal()] for row in rows)
    assert [n[0] for n in numbers] == [0, 2]
    assert [n[-3:] for n in numbers] == [[4, 10, 6], [30, 30, 0]]


def test_commits_are_visible_between_clients(kafka: KafkaServer, topic: str) -> None:
    group = f"group-of-{topic}"
    peer = ck.Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": group, "enable.auto.commit": False})
    try:
        with Consumer(bootstrap_servers=kafka.bootstrap_servers, group_id=group) as consumer:
            ours = TopicPartition(topic, 1)
            assert consumer.committed([ours]) == {ours: None}
            consumer.commit({ours: OffsetAndMetadata(7, "größe")})
            [seen] = peer.committed([ck.TopicPartition(topic, 1)], timeout=30)
            assert (seen.offset, seen.metadata) == (7, "größe")
            peer.commit(offsets=[ck.TopicPartition(topic, 1, 9, "theirs")], asynchronous=False)
            theirs = consumer.committed([ours])[ours]
            assert theirs is not None
            # confluent-kafka includes the terminating NUL of its string.
            assert (theirs.offset, theirs.metadata.rstrip("\0")) == (9, "theirs")
            with pytest.raises(KafkaError, match="OFFSET_METADATA_TOO_LARGE") as raised:
                consumer.commit({ours: OffsetAndMetadata(1, "x" * 5000)})
            assert raised.value.code == 12
    finally:
        peer.close()


def test_all_offset_commit_and_fetch_versions(kafka: KafkaServer, topic: str) -> None:
    group, tp = f"group-of-{topic}", TopicPartition(topic, 2)
    for version in range(2, 11):
        options = {"api.version.offset_commit": version, "api.version.offset_fetch": max(version - 1, 1)}
        with Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": group, **options}) as consumer:
            consumer.commit({tp: OffsetAndMetadata(version, f"v{version}")})
            committed = consumer.committed([tp])[tp]
            assert committed is not None
            assert (committed.offset, committed.metadata) == (version, f"v{version}")
    with (
        Consumer(bootstrap_servers=kafka.bootstrap_servers, group_id=group, **ZOOKEEPER) as consumer,
        pytest.raises(KafkaError, match=r"OffsetCommit v0 was chosen.* supports v2 to v10"),
    ):
        consumer.commit({tp: 1})


def test_position_end_offsets_times_and_lag(kafka: KafkaServer, topic: str) -> None:
    with Consumer(bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        partitions = consumer.partitions_for(topic)
        assert partitions == [TopicPartition(topic, p) for p in range(3)]
        assert list(consumer.end_offsets(partitions).values()) == [10, 20, 30]
        assert list(consumer.beginning_offsets(partitions).values()) == [0, 0, 0]
        result = consumer.offsets_for_times(dict.fromkeys(partitions, 1_000_015))
        assert [o and (o.offset, o.timestamp) for o in result.values()] == [None, (15, 1_000_015), (15, 1_000_015)]
        consumer.assign(partitions)
        assert sum(consumer.lag().values()) == 60
        consumer.seek_to_timestamp(1_000_015)
        assert [consumer.position(tp) for tp in partitions] == [10, 15, 15]
        rows = 0
        while rows < 20:
            rows += consumer.poll(10).num_rows
        assert sum(consumer.lag().values()) == 0


def test_require_stable_waits_for_open_transaction(kafka: KafkaServer, topic: str) -> None:
    group, tp = f"group-of-{topic}", TopicPartition(topic, 0)
    producer = ck.Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": f"tx-{topic}"})
    producer.init_transactions(30)
    options = {"bootstrap_servers": kafka.bootstrap_servers, "group_id": group}
    with Consumer(**options) as plain, Consumer(isolation_level="read_committed", **options) as careful:
        plain.commit({tp: 3})
        # Lets both consumers find their coordinator before calls with short timeouts.
        assert plain.committed([tp]) == careful.committed([tp]) == {tp: OffsetAndMetadata(3)}
        producer.begin_transaction()
        theirs = ck.Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": group})
        producer.send_offsets_to_transaction([ck.TopicPartition(topic, 0, 8)], theirs.consumer_group_metadata(), 30)
        assert plain.committed([tp]) == {tp: OffsetAndMetadata(3)}
        with pytest.raises(KafkaTimeoutError, match="UNSTABLE_OFFSET_COMMIT"):
            plain.committed([tp], require_stable=True, timeout=2)
        with pytest.raises(KafkaTimeoutError, match="UNSTABLE_OFFSET_COMMIT"):
            careful.committed([tp], timeout=2)
        producer.commit_transaction(30)
        committed = careful.committed([tp])[tp]
        assert committed is not None
        assert committed.offset == 8
        theirs.close()
