"""Group membership on Apache Kafka, with both protocols."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from samsarrow import (
    Admin,
    Assignor,
    Consumer,
    KafkaError,
    Producer,
    RebalanceListener,
    TopicPartition,
)
from samsarrow.exceptions import ConfigurationError
from support.kafka import KafkaServer
from support.members import Member, settle
from support.waiting import until

CLASSIC = ["range", "roundrobin", "sticky", "cooperative-sticky"]
WAYS = [*({"partition_assignment_strategy": name} for name in CLASSIC), {"group_protocol": "consumer"}]
BOTH: list[dict[str, Any]] = [{}, {"group_protocol": "consumer"}]


def name(way: dict[str, Any]) -> str:
    return "-".join(way.values()) or "classic"


def fill(kafka: KafkaServer, topic: str, partitions: int, count: int) -> list[TopicPartition]:
    with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for partition in range(partitions):
            for i in range(count):
                producer.send(topic, b"%d" % i, partition=partition)
    return [TopicPartition(topic, p) for p in range(partitions)]


@pytest.mark.parametrize("way", WAYS, ids=name)
def test_members_share_and_hand_over_partitions(
    kafka: KafkaServer, new_topic: Callable[..., str], way: dict[str, Any]
) -> None:
    topic = new_topic(6)
    partitions = fill(kafka, topic, 6, 50)
    options = {"bootstrap_servers": kafka.bootstrap_servers, "group_id": f"g-{topic}", **way}
    with Member([topic], **options) as first:
        settle([first], partitions)
        until(lambda: len(first.rows) == 300, lambda: len(first.rows))
        second = Member([topic], **options)
        settle([first, second], partitions)
        assert len(first.owned) == len(second.owned) == 3
        fill(kafka, topic, 6, 50)
        until(lambda: len(first.rows) + len(second.rows) >= 600, lambda: (len(first.rows), len(second.rows)))
        second.close()
        settle([first], partitions)
        fill(kafka, topic, 6, 50)
        until(lambda: len(first.rows) + len(second.rows) >= 900, lambda: (len(first.rows), len(second.rows)))
        # Members commit before they hand over partitions, and none crashes, so no record is read twice.
        assert sorted(first.rows + second.rows) == sorted((topic, p, i) for p in range(6) for i in range(150))
    cooperative = way in ({"partition_assignment_strategy": "cooperative-sticky"}, {"group_protocol": "consumer"})
    revoked = [gone for what, gone in first.events if what == "revoked"]
    # A cooperative member revokes only the partitions that move.
    assert (len(revoked[0]) == 3) == cooperative, first.events
    assert not [event for event in first.events + second.events if event[0] == "lost"]
    with Consumer(**options) as consumer:
        committed = consumer.committed(partitions)
        assert {tp: at and at.offset for tp, at in committed.items()} == dict.fromkeys(partitions, 150)


@pytest.mark.parametrize("way", BOTH, ids=name)
def test_listener_may_use_the_consumer(kafka: KafkaServer, new_topic: Callable[..., str], way: dict[str, Any]) -> None:
    topic = new_topic(2)
    partitions = fill(kafka, topic, 2, 20)
    seen: list[tuple[str, object]] = []
    with Consumer(
        bootstrap_servers=kafka.bootstrap_servers,
        group_id=f"g-{topic}",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        **way,
    ) as consumer:

        def assigned(new: list[TopicPartition]) -> None:
            for tp in new:
                consumer.seek(tp, 15)
            seen.append(("assigned", sorted(new)))

        def revoked(gone: list[TopicPartition]) -> None:
            consumer.commit()
            seen.append(("revoked", sorted(gone)))

        consumer.subscribe([topic], listener=RebalanceListener(assigned, revoked))
        assert consumer.subscription() == {topic}
        rows = 0
        deadline = time.monotonic() + 60
        while rows < 10 and time.monotonic() < deadline:
            rows += consumer.poll(1).num_rows
        assert rows == 10
        assert consumer.assignment() == set(partitions)
        member = consumer.group_metadata()
        assert member.group_id == f"g-{topic}"
        assert member.member_id
        assert member.generation > 0
        consumer.unsubscribe()
        assert seen == [("assigned", partitions), ("revoked", partitions)]
        assert consumer.subscription() is None
        assert consumer.assignment() == set()
        assert {tp: at and at.offset for tp, at in consumer.committed(partitions).items()} == dict.fromkeys(
            partitions, 20
        )

        def broken(new: list[TopicPartition]) -> None:
            raise RuntimeError(f"cannot use {len(new)}")

        consumer.subscribe([topic], listener=RebalanceListener(broken))
        with pytest.raises(RuntimeError, match="cannot use 2"):
            consumer.poll(30)
        # The assignment is valid despite the exception, and the consumer continues.
        assert consumer.assignment() == set(partitions)
        assert consumer.poll(0.2).num_rows == 0
        assert consumer.position(partitions[0]) == 20


@pytest.mark.parametrize("way", BOTH, ids=name)
def test_member_that_does_not_poll_leaves_and_rejoins(
    kafka: KafkaServer, new_topic: Callable[..., str], way: dict[str, Any]
) -> None:
    topic = new_topic(2)
    partitions = fill(kafka, topic, 2, 10)
    options = {"bootstrap_servers": kafka.bootstrap_servers, "group_id": f"g-{topic}", **way}
    slow = Member([topic], max_poll_interval_ms=2000, **options)
    settle([slow], partitions)
    until(lambda: len(slow.rows) == 20, lambda: slow.rows)
    slow.stop()
    with Member([topic], **options) as quick:
        settle([quick], partitions)
        with pytest.raises(KafkaError, match="UNKNOWN_MEMBER_ID"):
            slow.consumer.commit({partitions[0]: 1})
        assert slow.consumer.poll(0.1).num_rows == 0
        assert ("lost", frozenset(partitions)) in slow.events
        until(lambda: slow.consumer.poll(0.1).num_rows == 0 and len(slow.owned) == 1, lambda: slow.events)
        assert not slow.owned & quick.owned
        slow.consumer.commit()
        slow.consumer.close()
        settle([quick], partitions)


@pytest.mark.parametrize("way", BOTH, ids=name)
def test_static_member_returns_without_rebalance(
    kafka: KafkaServer, new_topic: Callable[..., str], way: dict[str, Any]
) -> None:
    topic = new_topic(4)
    partitions = fill(kafka, topic, 4, 1)
    options = {"bootstrap_servers": kafka.bootstrap_servers, "group_id": f"g-{topic}", **way}
    with Member([topic], group_instance_id="a", **options) as a:
        b = Member([topic], group_instance_id="b", **options)
        settle([a, b], partitions)
        time.sleep(1)
        events, owned = len(a.events), b.owned
        b.close()
        with Member([topic], group_instance_id="b", **options) as again:
            until(lambda: bool(again.owned), lambda: again.events)
            assert again.owned == owned
        assert len(a.events) == events, a.events


def test_second_static_member_fences_the_first(kafka: KafkaServer, new_topic: Callable[..., str]) -> None:
    topic = new_topic(1)
    partitions = fill(kafka, topic, 1, 1)
    options = {"bootstrap_servers": kafka.bootstrap_servers, "group_id": f"g-{topic}", "group_instance_id": "one"}
    first = Member([topic], **options)
    settle([first], partitions)
    with Member([topic], **options) as second:
        until(lambda: first.error is not None, lambda: (first.events, second.events))
        settle([second], partitions)
        # The first member stays fenced; otherwise the two members would fence each other in turn.
        for _ in range(2):
            with pytest.raises(KafkaError, match="FENCED_INSTANCE_ID"):
                first.consumer.poll(0.1)
        assert second.error is None
        assert second.owned == set(partitions)
    first.consumer.close()


@pytest.mark.parametrize("way", BOTH, ids=name)
def test_pattern_subscription_finds_new_topics(
    kafka: KafkaServer, new_topic: Callable[..., str], way: dict[str, Any]
) -> None:
    base = new_topic(1).replace("t", "p")
    with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        admin.create_topics([f"{base}.a", f"other{base}.a"])
        options = {
            "bootstrap_servers": kafka.bootstrap_servers,
            "group_id": base,
            "metadata_max_age_ms": 500,
            "auto_commit_interval_ms": 100,
            **way,
        }
        with Member((), pattern=rf"{base}\.\w+", **options) as member:
            settle([member], [TopicPartition(f"{base}.a", 0)])
            admin.create_topics([f"{base}.b"])
            settle([member], [TopicPartition(f"{base}.a", 0), TopicPartition(f"{base}.b", 0)])
            assert member.consumer.subscription() == rf"{base}\.\w+"


class Halves(Assignor):
    """Assigns odd partitions to the first member by name, even ones to the last."""

    name = "halves"

    def assign(self, partitions, members):
        first, last = min(members), max(members)
        shares: dict[str, list[TopicPartition]] = {member: [] for member in members}
        for topic, count in partitions.items():
            for p in range(count):
                shares[first if p % 2 else last].append(TopicPartition(topic, p))
        return shares


def test_custom_assignor(kafka: KafkaServer, new_topic: Callable[..., str]) -> None:
    topic = new_topic(6)
    partitions = [TopicPartition(topic, p) for p in range(6)]
    options = {
        "bootstrap_servers": kafka.bootstrap_servers,
        "group_id": f"g-{topic}",
        "partition_assignment_strategy": [Halves(), "range"],
    }
    with Member([topic], **options) as first, Member([topic], **options) as second:
        settle([first, second], partitions)
        assert {frozenset(tp.partition % 2 for tp in member.owned) for member in (first, second)} == {
            frozenset({0}),
            frozenset({1}),
        }


def test_invalid_memberships(kafka: KafkaServer) -> None:
    server = kafka.bootstrap_servers
    with Consumer(bootstrap_servers=server) as consumer, pytest.raises(ConfigurationError, match=r"group\.id"):
        consumer.subscribe(["t"])
    with pytest.raises(ConfigurationError, match='unknown assignor "rnage"'):
        Consumer(bootstrap_servers=server, group_id="g", partition_assignment_strategy="rnage")
    with Consumer(bootstrap_servers=server, group_id="g") as consumer:
        with pytest.raises(ConfigurationError, match=r"\['t'\]"):
            consumer.subscribe("t")
        with pytest.raises(ConfigurationError, match="topics or a pattern"):
            consumer.subscribe([])
        with pytest.raises(ConfigurationError, match=r'"a\("'):
            consumer.subscribe(pattern="a(")
        consumer.subscribe(["t"])
        with pytest.raises(ConfigurationError, match="unsubscribe"):
            consumer.assign([TopicPartition("t", 0)])
        consumer.unsubscribe()
        consumer.assign([TopicPartition("t", 0)])
        with pytest.raises(ConfigurationError, match="assigned by hand"):
            consumer.subscribe(["t"])


def test_group_switches_protocols_online(kafka: KafkaServer, new_topic: Callable[..., str]) -> None:
    topic = new_topic(6)
    partitions = fill(kafka, topic, 6, 20)
    options = {"bootstrap_servers": kafka.bootstrap_servers, "group_id": f"g-{topic}"}
    rows: list[tuple[str, int, int]] = []
    with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:

        def kind() -> str:
            return admin.list_groups()[f"g-{topic}"].type

        first, second = Member([topic], **options), Member([topic], **options)
        settle([first, second], partitions)
        assert kind() == "classic"
        # Members restart one by one, as in a rolling restart; the group is never empty.
        for way in ({"group_protocol": "consumer"}, {}):
            for _ in range(2):
                leaving, first = first, second
                leaving.close()
                rows += leaving.rows
                second = Member([topic], **options, **way)
                settle([first, second], partitions)
                fill(kafka, topic, 6, 20)
            until(lambda way=way: kind() == way.get("group_protocol", "classic"), kind)
        until(lambda: len(rows) + len(first.rows) + len(second.rows) >= 600, lambda: len(rows))
        first.close()
        second.close()
    assert sorted(rows + first.rows + second.rows) == sorted((topic, p, i) for p in range(6) for i in range(100))


@pytest.mark.parametrize("way", BOTH, ids=name)
def test_new_partitions_are_assigned(kafka: KafkaServer, new_topic: Callable[..., str], way: dict[str, Any]) -> None:
    topic = new_topic(2)
    options = {
        "bootstrap_servers": kafka.bootstrap_servers,
        "group_id": f"g-{topic}",
        "metadata_max_age_ms": 300,
        **way,
    }
    with Member([topic], **options) as one, Member([topic], **options) as other:
        settle([one, other], [TopicPartition(topic, p) for p in range(2)])
        kafka.tool(
            "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", kafka.bootstrap_servers,
            "--alter", "--topic", topic, "--partitions", "4",
        )  # fmt: skip
        with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
            until(lambda: admin.list_topics([topic])[topic].partitions == 4)
        settle([one, other], fill(kafka, topic, 4, 5))
        until(lambda: len(one.rows) + len(other.rows) == 20, lambda: (one.rows, other.rows))


def test_api_version_offset_commit(kafka: KafkaServer, new_topic: Callable[..., str]) -> None:
    topic = new_topic(1)
    [tp] = fill(kafka, topic, 1, 30)
    for version in range(2, 11):
        options = {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": f"g-{topic}",
            "auto.offset.reset": "earliest",
            "api.version.offset_commit": version,
            "api.version.offset_fetch": max(1, version - 1),
            "max.poll.records": 3,
        }
        with Consumer(options) as consumer:
            consumer.subscribe([topic])
            deadline = time.monotonic() + 60
            while not consumer.poll(1).num_rows:
                assert time.monotonic() < deadline
            at = consumer.position(tp)
        with Consumer(options) as consumer:
            committed = consumer.committed([tp])[tp]
            assert committed is not None
            assert (committed.offset, at) == (3 * (version - 1), 3 * (version - 1))
