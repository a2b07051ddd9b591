"""Group membership through the public API, on the embedded broker."""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import pytest

from samsarrow import (
    Admin,
    Assignor,
    Consumer,
    ConsumerGroupMetadata,
    GroupMember,
    NewTopic,
    OffsetAndMetadata,
    Producer,
    TopicPartition,
)
from samsarrow.admin_types import RemovedMember
from samsarrow.exceptions import IllegalStateError, KafkaError, KafkaTimeoutError, WakeupError
from samsarrow.testing import Broker
from support.waiting import until

T0 = TopicPartition("t", 0)


def _member(servers: str, **options: object) -> Consumer:
    consumer = Consumer(bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest", **options)
    consumer.subscribe(["t"])
    return consumer


def _fill(servers: str, topic: str = "t", rows: int = 10) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        for i in range(rows):
            producer.send(topic, b"%d" % i)


def _read(consumer: Consumer, rows: int) -> None:
    deadline = time.monotonic() + 30
    while rows > 0:
        rows -= consumer.poll(0.2).num_rows
        assert time.monotonic() < deadline, rows


@pytest.mark.parametrize(("protocol", "leaves"), [("classic", "LeaveGroup"), ("consumer", "ConsumerGroupHeartbeat")])
def test_close_timeout_with_an_unresponsive_coordinator(
    broker: Broker, servers: str, protocol: str, leaves: str
) -> None:
    _fill(servers)
    consumer = _member(servers, group_protocol=protocol, auto_commit_interval_ms=600_000)
    _read(consumer, 10)
    for api in ("OffsetCommit", leaves):
        broker.fail(api, delay=40.0, times=None)
    start = time.monotonic()
    consumer.close(3)
    assert time.monotonic() - start < 15


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_deleted_topic_does_not_block_commits_of_other_topics(protocol: str) -> None:
    with Broker(topics={"t": 1, "y": 1}, auto_create_topics=False) as broker:
        servers = broker.bootstrap_servers
        for topic in "ty":
            _fill(servers, topic, 1)
        with (
            _member(
                servers, group_protocol=protocol, allow_auto_create_topics=False, auto_commit_interval_ms=300
            ) as consumer,
            Admin(bootstrap_servers=servers) as admin,
        ):
            consumer.subscribe(["t", "y"])
            _read(consumer, 2)
            admin.delete_topics(["y"])
            before, start = broker.requests("Metadata"), time.monotonic()
            _fill(servers)
            # The consumer may already know that the topic was deleted. Otherwise the commit fails with an error of the
            # deleted topic.
            with suppress(KafkaError):
                consumer.commit(timeout=20)
            assert time.monotonic() - start < 15
            _read(consumer, 10)
            deadline = time.monotonic() + 30
            while (found := admin.fetch_offsets("g").get(T0)) is None or found.offset != 11:
                begun = time.monotonic()
                consumer.poll(0.5)
                assert time.monotonic() - begun < 5
                assert time.monotonic() < deadline, admin.fetch_offsets("g")
            # The limit allows a few requests per second for this consumer, its coordinator lookup and the other clients
            # of the test.
            assert broker.requests("Metadata") - before < 30 + 20 * (time.monotonic() - start)


def test_enforce_rebalance(broker: Broker, servers: str) -> None:
    _fill(servers)
    with _member(servers) as consumer:
        _read(consumer, 10)
        before = broker.requests("JoinGroup")
        consumer.enforce_rebalance("a new machine")
        deadline = time.monotonic() + 30
        while broker.requests("JoinGroup") == before or consumer.assignment() != {T0}:
            consumer.poll(0.1)
            assert time.monotonic() < deadline
        consumer.unsubscribe()
        with pytest.raises(IllegalStateError, match="subscribe"):
            consumer.enforce_rebalance()


@pytest.mark.parametrize(
    ("api", "call"),
    [
        ("OffsetCommit", lambda consumer: consumer.commit({T0: OffsetAndMetadata(1)}, timeout=30)),
        ("OffsetFetch", lambda consumer: consumer.committed([T0], timeout=30)),
        ("ListOffsets", lambda consumer: consumer.end_offsets([T0], timeout=30)),
    ],
)
def test_wakeup_ends_blocking_calls(broker: Broker, servers: str, api: str, call: Callable[[Consumer], object]) -> None:
    with Consumer(bootstrap_servers=servers, group_id="g") as consumer:
        broker.fail(api, delay=20.0, times=None)
        timer = threading.Timer(0.3, consumer.wakeup)
        timer.start()
        start = time.monotonic()
        with pytest.raises(WakeupError):
            call(consumer)
        assert time.monotonic() - start < 10
        timer.join()
        broker.heal(api)


def test_assigned_topic_missing_in_metadata_is_logged_once(
    broker: Broker, servers: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "samsarrow")
    _fill(servers)
    broker.stale_metadata(times=None, without=["t"])
    with _member(servers, group_protocol="consumer") as consumer:
        quiet = time.monotonic() + 3

        def warnings() -> list[str]:
            return [record.getMessage() for record in caplog.records if "does not have" in record.getMessage()]

        def long_enough() -> object:
            assert consumer.poll(0.2).num_rows == 0
            # Every heartbeat response contains the assigned topic again. The log line arrives with a delay.
            return time.monotonic() > quiet and broker.requests("ConsumerGroupHeartbeat") > 3 and warnings()

        until(long_enough)
        assert len(warnings()) == 1, warnings()
        broker.heal("Metadata")
        _read(consumer, 10)


def _committed(admin: Admin, partition: TopicPartition) -> int | None:
    found = admin.fetch_offsets("g").get(partition)
    return found and found.offset


def _poll_until(condition: Callable[[], bool], *consumers: Consumer) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        for consumer in consumers:
            consumer.poll(0.1)
        assert time.monotonic() < deadline


def test_commit_of_an_abandoned_revocation_does_not_affect_the_next(broker: Broker, servers: str) -> None:
    _fill(servers)
    with (
        _member(servers, auto_commit_interval_ms=600_000, heartbeat_interval_ms=200) as consumer,
        Admin(bootstrap_servers=servers) as admin,
    ):
        _read(consumer, 10)
        member = consumer.group_metadata().member_id
        broker.fail("OffsetCommit", delay=2.0, times=1)
        consumer.enforce_rebalance()
        before = broker.requests("OffsetCommit")
        deadline = time.monotonic() + 30
        while broker.requests("OffsetCommit") == before:
            consumer.poll(0.1)
            assert time.monotonic() < deadline
        admin.remove_members("g", [RemovedMember(member_id=member)])
        # A heartbeat notifies the member of its removal, while the revocation waits for the next poll.
        time.sleep(3)
        _read(consumer, 10)
        _fill(servers)
        _read(consumer, 10)
        joins = broker.requests("JoinGroup")
        consumer.enforce_rebalance()
        _poll_until(lambda: broker.requests("JoinGroup") > joins and consumer.assignment() == {T0}, consumer)
        assert _committed(admin, T0) == 20


def test_assign_commits_processed_rows_of_removed_partitions(broker: Broker, servers: str) -> None:
    first, second = TopicPartition("four", 0), TopicPartition("four", 1)
    with Producer(bootstrap_servers=servers) as producer:
        for partition in (0, 1):
            for i in range(10):
                producer.send("four", b"%d" % i, partition=partition)
    with (
        Consumer(
            bootstrap_servers=servers,
            group_id="g",
            auto_offset_reset="earliest",
            auto_commit_interval_ms=600_000,
            max_poll_records=5,
        ) as consumer,
        Admin(bootstrap_servers=servers) as admin,
    ):
        consumer.assign([first])
        _read(consumer, 10)
        # The application may still be processing the rows of the last poll, so they are not committed.
        consumer.assign([second])
        until(lambda: first in admin.fetch_offsets("g"))
        assert _committed(admin, first) == 5
        _read(consumer, 10)
        consumer.poll(0)
        consumer.assign([first])
        until(lambda: second in admin.fetch_offsets("g"))
        assert _committed(admin, second) == 10


def test_sticky_assignor_keeps_partitions_of_remaining_members(broker: Broker, servers: str) -> None:
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic("twelve", 12)])

    def join() -> Consumer:
        consumer = Consumer(
            bootstrap_servers=servers,
            group_id="g",
            partition_assignment_strategy="sticky",
            heartbeat_interval_ms=200,
        )
        consumer.subscribe(["twelve"])
        return consumer

    with join() as one, join() as two:
        _poll_until(lambda: len(one.assignment()) == len(two.assignment()) == 6, one, two)
        before = one.assignment(), two.assignment()
        with join() as three:
            _poll_until(
                lambda: len(one.assignment()) == len(two.assignment()) == len(three.assignment()) == 4, one, two, three
            )
            assert one.assignment() < before[0]
            assert two.assignment() < before[1]


class _Recorder(Assignor):
    name = "recorder"

    def __init__(self, fails: bool = False) -> None:
        self.calls: list[tuple[list[TopicPartition], int]] = []
        self.fails = fails

    def user_data(self, owned: list[TopicPartition], generation: int) -> bytes | None:
        if self.fails:
            raise LookupError("no rack")
        self.calls.append((owned, generation))
        return None

    def assign(
        self, partitions: Mapping[str, int], members: Mapping[str, GroupMember]
    ) -> Mapping[str, Sequence[TopicPartition]]:
        return {member: [T0] for member in members}


def test_user_data_receives_the_previous_assignment(broker: Broker, servers: str) -> None:
    assignor = _Recorder()
    with _member(servers, partition_assignment_strategy=[assignor]) as consumer:
        _poll_until(lambda: consumer.assignment() == {T0}, consumer)
        consumer.enforce_rebalance()
        _poll_until(lambda: assignor.calls[-1][1] == 1 and consumer.assignment() == {T0}, consumer)
    assert assignor.calls[0] == ([], -1)
    assert assignor.calls[-1] == ([T0], 1)


def test_user_data_errors_are_raised_by_poll(broker: Broker, servers: str) -> None:
    with (
        _member(servers, partition_assignment_strategy=[_Recorder(fails=True)]) as consumer,
        pytest.raises(KafkaError, match="no rack"),
    ):
        _poll_until(lambda: False, consumer)


class _SlowUserData(_Recorder):
    """Assignor whose `user_data` takes several heartbeat intervals, but only after the member has joined."""

    def __init__(self, broker: Broker) -> None:
        super().__init__()
        self.broker = broker
        self.heartbeats: int | None = None
        self.topics: list[str] = []

    def user_data(self, owned: list[TopicPartition], generation: int) -> bytes | None:
        if generation >= 0 and self.heartbeats is None:
            before = self.broker.requests("Heartbeat")
            # Other clients of the process can be used while the assignor runs.
            with Admin(bootstrap_servers=self.broker.bootstrap_servers) as admin:
                self.topics = list(admin.list_topics(timeout=10))
            time.sleep(2.5)
            self.heartbeats = self.broker.requests("Heartbeat") - before
        return super().user_data(owned, generation)


def test_heartbeats_continue_during_user_data(broker: Broker, servers: str) -> None:
    assignor = _SlowUserData(broker)
    options = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 300}
    with _member(servers, partition_assignment_strategy=[assignor], **options) as consumer:
        _poll_until(lambda: consumer.assignment() == {T0}, consumer)
        before = consumer.group_metadata().member_id
        consumer.enforce_rebalance()
        _poll_until(lambda: assignor.calls[-1][1] == 1 and consumer.assignment() == {T0}, consumer)
        assert consumer.group_metadata().member_id == before
    assert assignor.topics
    assert assignor.heartbeats is not None
    assert assignor.heartbeats >= 3


@pytest.mark.parametrize("ends", ["close", "unsubscribe"])
def test_joining_member_leaves(broker: Broker, servers: str, ends: str) -> None:
    with Admin(bootstrap_servers=servers) as admin:
        broker.fail("ConsumerGroupHeartbeat", delay=1.0, times=1)
        with _member(servers, group_protocol="consumer") as consumer:
            _poll_until(lambda: broker.requests("ConsumerGroupHeartbeat") > 0, consumer)
            if ends == "unsubscribe":
                consumer.unsubscribe()
            else:
                consumer.close()
            until(lambda: broker.requests("ConsumerGroupHeartbeat") > 1)
            until(lambda: not admin.describe_groups(["g"])["g"].members)


@pytest.mark.parametrize(("protocol", "api"), [("classic", "Heartbeat"), ("consumer", "ConsumerGroupHeartbeat")])
def test_heartbeats_continue_while_a_rebalance_waits_for_metadata(
    broker: Broker, servers: str, protocol: str, api: str
) -> None:
    _fill(servers)
    options = {"session_timeout_ms": 6000} if protocol == "classic" else {}
    with _member(servers, group_protocol=protocol, auto_commit_interval_ms=600_000, **options) as consumer:
        _read(consumer, 10)
        broker.fail("Metadata", delay=12.0, times=1)
        metadata = broker.requests("Metadata")
        consumer.subscribe(["t", "four"])
        _poll_until(lambda: broker.requests("Metadata") > metadata, consumer)
        start, heartbeats = time.monotonic(), broker.requests(api)
        _poll_until(lambda: broker.requests(api) > heartbeats, consumer)
        assert time.monotonic() - start < 11
        assert consumer.assignment() == {T0}
        _poll_until(lambda: len(consumer.assignment()) == 5, consumer)
        with Admin(bootstrap_servers=servers) as admin:
            if protocol == "classic":
                assert _committed(admin, T0) == 10


def test_open_transaction_blocks_only_its_own_partitions(
    broker: Broker, servers: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "samsarrow")
    pending, free = TopicPartition("four", 0), TopicPartition("four", 1)
    with Producer(bootstrap_servers=servers) as producer:
        for partition in (0, 1):
            for i in range(10):
                producer.send("four", b"%d" % i, partition=partition)
    with (
        Producer(bootstrap_servers=servers, transactional_id="x") as writer,
        Consumer(
            bootstrap_servers=servers,
            group_id="g",
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            default_api_timeout_ms=3000,
        ) as consumer,
    ):
        writer.begin_transaction()
        writer.send_offsets_to_transaction({pending: 5}, ConsumerGroupMetadata("g", "", -1, None))
        consumer.assign([pending, free])
        _read(consumer, 10)
        assert consumer.position(free) == 10
        # Regression: `poll` raised an error if the lookup of a position took longer than `default.api.timeout.ms`, here
        # 3 s.
        quiet = time.monotonic() + 5
        while time.monotonic() < quiet:
            assert consumer.poll(0.5).num_rows == 0
        with pytest.raises(KafkaTimeoutError, match="UNSTABLE_OFFSET_COMMIT"):
            consumer.committed([pending, free], timeout=1)
        assert len([r for r in caplog.records if "open transaction" in r.getMessage()]) == 1
        writer.commit_transaction()
        _read(consumer, 5)
        assert consumer.position(pending) == 10


class _Slow(Assignor):
    name = "slow"

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.heartbeats: list[int] = []

    def assign(
        self, partitions: Mapping[str, int], members: Mapping[str, GroupMember]
    ) -> Mapping[str, Sequence[TopicPartition]]:
        before = self.broker.requests("Heartbeat")
        time.sleep(3)
        self.heartbeats.append(self.broker.requests("Heartbeat") - before)
        return {member: [T0] for member in members}


def test_heartbeats_continue_while_an_assignor_runs() -> None:
    with Broker(topics={"t": 1}, group_min_session_timeout=0.5) as broker:
        servers = broker.bootstrap_servers
        _fill(servers)
        slow = _Slow(broker)
        options = {"session_timeout_ms": 1500, "heartbeat_interval_ms": 200}
        consumer = _member(servers, partition_assignment_strategy=[slow], **options)
        _read(consumer, 10)
        # If the member sent no heartbeats while its assignor runs, its session would expire and the assignor would be
        # called again.
        assert len(slow.heartbeats) == 1
        assert slow.heartbeats[0] >= 3
        consumer.close()


def test_stored_offsets_are_dropped_with_the_assignment(servers: str) -> None:
    _fill(servers)
    four = TopicPartition("four", 0)
    options = {"enable_auto_offset_store": False, "enable_auto_commit": False}
    with Consumer(bootstrap_servers=servers, group_id="g", **options) as consumer:
        consumer.assign([T0])
        consumer.store_offsets({T0: 5})
        consumer.assign([four])
        consumer.commit()
        assert consumer.committed([T0]) == {T0: None}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_subscription_that_follows_an_unsubscribe_at_once(protocol: str) -> None:
    """The rows and partitions of a subscription never reach the next one, even if the member has not left yet."""
    topics = ["even", "odd"]
    with Broker(topics=dict.fromkeys(topics, 2), group_initial_rebalance_delay=0) as broker:
        for topic in topics:
            _fill(broker.bootstrap_servers, topic, 20)
        options: dict[str, Any] = {"group_id": "g", "group_protocol": protocol, "auto_offset_reset": "earliest"}
        options |= {"enable_auto_commit": False, "fetch_max_wait_ms": 50}
        with Consumer(bootstrap_servers=broker.bootstrap_servers, **options) as consumer:
            for turn in range(20):
                topic = topics[turn % 2]
                consumer.subscribe([topic])
                rows = 0
                deadline = time.monotonic() + 30
                while rows < 20:
                    batch = consumer.poll(0.2)
                    assert set(batch["topic"].to_pylist()) <= {topic}
                    assert {tp.topic for tp in consumer.assignment()} <= {topic}
                    rows += batch.num_rows
                    assert time.monotonic() < deadline, (turn, rows)
                consumer.unsubscribe()


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_static_member_returns_with_another_subscription(assignor: str) -> None:
    """The coordinator returns the old assignment to it (KIP-345), whose topics it no longer subscribes to."""
    topics = ["even", "odd"]
    with Broker(topics=dict.fromkeys(topics, 2), group_initial_rebalance_delay=0) as broker:
        for topic in topics:
            _fill(broker.bootstrap_servers, topic, 20)
        options: dict[str, Any] = {"bootstrap_servers": broker.bootstrap_servers, "group_id": "g"}
        options |= {"auto_offset_reset": "earliest", "enable_auto_commit": False}
        options |= {"partition_assignment_strategy": assignor, "heartbeat_interval_ms": 100}
        with Consumer(**options) as leader:
            leader.subscribe(topics)
            assert until(lambda: leader.poll(0.1).num_rows and leader.assignment())
            for topic in topics:
                with Consumer(**options, group_instance_id="static") as member:
                    member.subscribe([topic])

                    def has_only_its_topic(member: Consumer = member, topic: str = topic) -> bool:
                        leader.poll(0.05)
                        batch = member.poll(0.05)
                        assert set(batch["topic"].to_pylist()) <= {topic}
                        assert {tp.topic for tp in member.assignment()} <= {topic}
                        others = {tp for tp in leader.assignment() if tp.topic == topic}
                        return len(member.assignment()) + len(others) == 2 and bool(member.assignment())

                    until(has_only_its_topic)
