"""Share consumers on the embedded broker."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from samsarrow import Admin, Consumer, NewTopic, Producer, ShareConsumer, TopicPartition
from samsarrow.exceptions import (
    ClosedError,
    ConfigurationError,
    GroupIdNotFoundError,
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    UnsupportedVersionError,
    WakeupError,
)
from samsarrow.testing import Broker
from support.share_cases import CASES, LOCK_S, earliest, numbers_of, poll_rows, send

TP = TopicPartition("t", 0)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"t": 1, "four": 4, "dead": 1}, auto_create_topics=False, share_lock=30) as broker:
        earliest(broker.bootstrap_servers, "g")
        yield broker


@pytest.fixture
def servers(broker: Broker) -> str:
    return broker.bootstrap_servers


@pytest.fixture
def explicit(servers: str) -> Iterator[ShareConsumer]:
    with ShareConsumer(bootstrap_servers=servers, group_id="g", acknowledgement="explicit") as consumer:
        consumer.subscribe(["t"])
        yield consumer


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_case(case: Callable[[str, str, str], None]) -> None:
    with Broker(topics={"t": 1}, share_lock=LOCK_S) as broker:
        case(broker.bootstrap_servers, "t", "g")


def test_rows_have_the_columns_of_a_consumer(explicit: ShareConsumer, servers: str) -> None:
    send(servers, "t", 2)
    batch = poll_rows(explicit)
    assert batch.schema.equals(explicit.schema)
    names = ["key", "value", "topic", "partition", "offset", "timestamp", "timestamp_type", "delivery_count"]
    assert batch.schema.names == names
    assert batch.schema.field("delivery_count").type == pa.int16()
    assert [record.value for record in explicit._records_of(batch)] == [b"0", b"1"]


def test_undecided_row_fails_the_next_poll(explicit: ShareConsumer, servers: str) -> None:
    send(servers, "t", 3)
    batch = poll_rows(explicit)
    explicit.acknowledge(batch, ["accept", None, "accept"])
    with pytest.raises(IllegalStateError, match="offset 1 of t-0 is not acknowledged"):
        explicit.poll(0)
    explicit.acknowledge(batch.slice(1, 1), "renew")
    assert explicit.poll(0.1).num_rows == 0
    explicit.acknowledge(batch.slice(1, 1))
    assert explicit.commit(5) == {TP: None}


def test_rows_of_other_libraries_and_records_are_acknowledged(explicit: ShareConsumer, servers: str) -> None:
    send(servers, "t", 6)
    batch = poll_rows(explicit)
    frame = pl.DataFrame(pa.table(batch.select(["topic", "partition", "offset", "value"])))
    explicit.acknowledge(frame.filter(pl.col("offset") < 2), pl.Series(["accept", "reject"]))
    explicit.acknowledge(list(explicit._records_of(batch.slice(2, 2))), pa.array([1, 1], pa.int8()))
    explicit.acknowledge((TP, 4), "release")
    explicit.acknowledge([(TP, 5)])
    assert explicit.commit(5) == {TP: None}
    assert poll_rows(explicit).column("offset").to_pylist() == [4]
    explicit.acknowledge((TP, 4))


def test_invalid_acknowledgements_are_rejected(explicit: ShareConsumer, servers: str) -> None:
    send(servers, "t", 2)
    batch = poll_rows(explicit)
    with pytest.raises(ConfigurationError, match="accept, release, reject, renew or None, not 'ok'"):
        explicit.acknowledge(batch, "ok")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="3 types for 2 rows"):
        explicit.acknowledge(batch, ["accept"] * 3)
    with pytest.raises(ConfigurationError, match="no column topic"):
        explicit.acknowledge(pa.table({"a": [1]}))
    with pytest.raises(TypeError, match="got int"):
        explicit.acknowledge(7)
    with pytest.raises(IllegalStateError, match="offset 2 of t-0 is not with this consumer"):
        explicit.acknowledge([(TP, 1), (TP, 2)])
    with pytest.raises(IllegalStateError, match="offset 0 of four-3 is not with this consumer"):
        explicit.acknowledge((TopicPartition("four", 3), 0))
    # A rejected call decides nothing.
    with pytest.raises(IllegalStateError, match="offset 0 of t-0 is not acknowledged"):
        explicit.poll(0)
    explicit.acknowledge(batch)
    explicit.commit(5)
    with pytest.raises(IllegalStateError, match="acknowledged before"):
        explicit.acknowledge(batch)


@pytest.mark.parametrize(("timeout", "error"), [(-1, ConfigurationError), ("1", TypeError)])
def test_renew_with_an_invalid_timeout_decides_nothing(
    explicit: ShareConsumer, servers: str, timeout: Any, error: type[Exception]
) -> None:
    send(servers, "t", 2)
    batch = poll_rows(explicit)
    with pytest.raises(error, match="a timeout"):
        explicit.renew(batch, timeout)
    with pytest.raises(IllegalStateError, match="offset 0 of t-0 is not acknowledged"):
        explicit.poll(0)


@pytest.mark.parametrize(
    "types", [True, [True, True], 1.0, [1.0, 1.0], b"accept", [["accept"]] * 2, pa.array([True, True])]
)
def test_masks_and_other_values_are_no_types(explicit: ShareConsumer, servers: str, types: object) -> None:
    """`True == 1`, so a mask of the rows to reject would accept them."""
    send(servers, "t", 2)
    batch = poll_rows(explicit)
    with pytest.raises(ConfigurationError, match="is accept, release, reject, renew or None, not"):
        explicit.acknowledge(batch, types)


@pytest.mark.parametrize(
    ("rows", "error", "text"),
    [
        ((TP, 0.9), TypeError, r"an offset is an int, not 0\.9"),
        ((TP, "0"), TypeError, "an offset is an int"),
        ((TP, True), TypeError, "an offset is an int"),
        ((TP, 2**70), TypeError, "64 bits"),
        ((TopicPartition("t", 2**31), 0), TypeError, "a partition is an int of 32 bits, not 2147483648"),
        ((TopicPartition("t", "0"), 0), TypeError, "a partition is an int, not '0'"),
        ((TopicPartition(3, 0), 0), TypeError, "a topic is a name, not 3"),
        (TP, TypeError, "got TopicPartition"),
        (pa.array([0]), TypeError, "got one column"),
        (pa.table([["t"], [0], [0], [1]], ["topic", "partition", "offset", "offset"]), ConfigurationError, "2 columns"),
        (pa.table({"topic": ["t"], "partition": [0], "offset": [0.5]}), ConfigurationError, "has the type double"),
        (pa.table({"topic": ["t"], "partition": [0], "offset": [None]}), ConfigurationError, "nulls in column offset"),
    ],
)
def test_rows_without_positions_are_rejected(
    explicit: ShareConsumer, servers: str, rows: object, error: type[Exception], text: str
) -> None:
    send(servers, "t", 2)
    poll_rows(explicit)
    with pytest.raises(error, match=text):
        explicit.acknowledge(rows)
    with pytest.raises(IllegalStateError, match="offset 0 of t-0 is not acknowledged"):
        explicit.poll(0)


def test_several_batches_are_acknowledged(explicit: ShareConsumer, servers: str) -> None:
    send(servers, "t", 6)
    batch = poll_rows(explicit)
    frame = pl.DataFrame(pa.table(batch.select(["topic", "partition", "offset"])))
    parts = [batch.slice(4, 2), pa.table(batch.slice(2, 2)), frame.head(2)]
    explicit.acknowledge(parts, ["accept"] * 5 + ["release"])
    assert explicit.commit(5) == {TP: None}
    assert poll_rows(explicit).column("offset").to_pylist() == [1]
    explicit.acknowledge((TP, 1), pa.scalar("accept"))


def test_implicit_consumer_has_no_decisions(servers: str) -> None:
    send(servers, "t", 1)
    with ShareConsumer(bootstrap_servers=servers, group_id="g") as consumer:
        with pytest.raises(ConfigurationError, match="call subscribe first"):
            consumer.poll(0)
        consumer.subscribe(["t"])
        batch = poll_rows(consumer)
        for call in (consumer.acknowledge, consumer.renew):
            with pytest.raises(IllegalStateError, match='acknowledgement="explicit"'):
                call(batch)
        assert consumer.commit(5) == {TP: None}
        assert consumer.commit(5) == {}


def test_lost_connection_returns_the_rows(broker: Broker, explicit: ShareConsumer, servers: str) -> None:
    send(servers, "t", 2)
    batch = poll_rows(explicit)
    broker.fail("ShareAcknowledge", drop="before")
    explicit.acknowledge(batch)
    error = explicit.commit(10)[TP]
    assert isinstance(error, KafkaError)
    again = poll_rows(explicit)
    assert again.column("delivery_count").to_pylist() == [2, 2]
    explicit.acknowledge(again)
    assert explicit.commit(5) == {TP: None}


def test_expired_locks_are_in_the_outcome(broker: Broker, explicit: ShareConsumer, servers: str) -> None:
    send(servers, "t", 2)
    batch = poll_rows(explicit)
    broker.expire_locks("g")
    explicit.acknowledge(batch)
    assert type(explicit.commit(10)[TP]).__name__ == "InvalidRecordStateError"


@pytest.mark.parametrize(
    ("api", "error"),
    [
        ("ShareFetch", "SHARE_SESSION_NOT_FOUND"),
        ("ShareFetch", "INVALID_SHARE_SESSION_EPOCH"),
        ("ShareFetch", "SHARE_SESSION_LIMIT_REACHED"),
        ("ShareGroupHeartbeat", "UNKNOWN_MEMBER_ID"),
        ("ShareGroupHeartbeat", "FENCED_MEMBER_EPOCH"),
        ("ShareGroupHeartbeat", "NOT_COORDINATOR"),
        ("ShareGroupHeartbeat", "COORDINATOR_LOAD_IN_PROGRESS"),
    ],
)
def test_member_continues_after_an_error(broker: Broker, servers: str, api: str, error: str) -> None:
    broker.fail(api, error=error)
    with ShareConsumer(bootstrap_servers=servers, group_id="g") as consumer:
        consumer.subscribe(["t"])
        for number in range(3):
            send(servers, "t", 1, first=number)
            found: list[int] = []
            while number not in found:
                found += numbers_of(poll_rows(consumer))
            # A failed session delivers rows again whose acknowledgement was in the failed request.
            assert set(found) <= set(range(number + 1))
            broker.fail(api, error=error)
        consumer.commit(5)


@pytest.mark.parametrize("error", ["GROUP_AUTHORIZATION_FAILED", "GROUP_MAX_SIZE_REACHED", "INVALID_REQUEST"])
def test_permanent_error_is_raised_by_a_poll(broker: Broker, servers: str, error: str) -> None:
    broker.fail("ShareGroupHeartbeat", error=error)
    send(servers, "t", 1)
    with ShareConsumer(bootstrap_servers=servers, group_id="g") as consumer:
        consumer.subscribe(["t"])
        with pytest.raises(KafkaError) as caught:
            consumer.poll(10)
        assert error.title().replace("_", "") in type(caught.value).__name__
        # The next poll joins again.
        assert poll_rows(consumer).num_rows == 1


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_group_of_another_type_is_an_error(broker: Broker, servers: str, protocol: str) -> None:
    """Earlier a poll waited without end and without a line, and heartbeats were sent without a pause."""
    with (
        Consumer(bootstrap_servers=servers, group_id="g", group_protocol=protocol) as other,
        ShareConsumer(bootstrap_servers=servers, group_id="g") as consumer,
    ):
        other.subscribe(["t"])
        while not other.assignment():
            other.poll(0.1)
        consumer.subscribe(["t"])
        with pytest.raises(GroupIdNotFoundError, match="Group g is not a share group"):
            consumer.poll(10)
        assert broker.requests("ShareGroupHeartbeat") == 1


def test_rejected_joins_have_pauses(broker: Broker, servers: str) -> None:
    """Earlier the member sent 30,000 heartbeats in this second."""
    broker.fail("ShareGroupHeartbeat", error="UNKNOWN_MEMBER_ID", times=None)
    with ShareConsumer(bootstrap_servers=servers, group_id="g") as consumer:
        consumer.subscribe(["t"])
        assert consumer.poll(1).num_rows == 0
        assert 1 <= broker.requests("ShareGroupHeartbeat") < 10
        broker.heal()
        send(servers, "t", 1)
        assert poll_rows(consumer).num_rows == 1


def test_renewal_needs_kafka_4_2() -> None:
    with Broker(topics={"t": 1}, kafka_version="4.1") as broker:
        earliest(broker.bootstrap_servers, "g")
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.update_features({"share.version": 1})
        send(broker.bootstrap_servers, "t", 1)
        with ShareConsumer(
            bootstrap_servers=broker.bootstrap_servers, group_id="g", acknowledgement="explicit"
        ) as consumer:
            consumer.subscribe(["t"])
            batch = poll_rows(consumer)
            outcome = consumer.renew(batch, timeout=5)[TP]
            assert isinstance(outcome, UnsupportedVersionError)
            assert "KIP-1222" in str(outcome)
            consumer.acknowledge(batch)
            assert consumer.commit(5) == {TP: None}


def test_accepted_rows_whose_locks_had_ended_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with Broker(topics={"t": 1}, share_lock=0.5) as broker:
        earliest(broker.bootstrap_servers, "g")
        send(broker.bootstrap_servers, "t", 2)
        with (
            caplog.at_level(logging.WARNING, "samsarrow"),
            ShareConsumer(bootstrap_servers=broker.bootstrap_servers, group_id="g") as consumer,
        ):
            consumer.subscribe(["t"])
            poll_rows(consumer)
            time.sleep(0.7)
            assert poll_rows(consumer).column("delivery_count").to_pylist() == [2, 2]
        deadline = time.monotonic() + 5
        while "offsets 0 to 1 of t-0: their acquisition lock has ended" not in caplog.text:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_auto_renew_sends_acknowledgements_before_their_locks_end() -> None:
    with Broker(topics={"t": 1}, share_lock=1) as broker:
        earliest(broker.bootstrap_servers, "g")
        send(broker.bootstrap_servers, "t", 3)
        with ShareConsumer(
            bootstrap_servers=broker.bootstrap_servers, group_id="g", acknowledgement="explicit", auto_renew=True
        ) as consumer:
            consumer.subscribe(["t"])
            batch = poll_rows(consumer)
            for row in range(3):
                consumer.acknowledge(batch.slice(row, 1))
                time.sleep(0.7)
            assert consumer.commit(5) == {TP: None}
            assert consumer.poll(1).num_rows == 0


def test_commit_that_takes_too_long_times_out(broker: Broker, explicit: ShareConsumer, servers: str) -> None:
    send(servers, "t", 1)
    explicit.acknowledge(poll_rows(explicit))
    broker.fail("ShareAcknowledge", delay=1.0)
    with pytest.raises(KafkaTimeoutError, match="the commit of group g"):
        explicit.commit(0.1)
    assert explicit.commit(10) == {TP: None}


def test_idle_consumer_leaves_and_joins_again(servers: str) -> None:
    with ShareConsumer(bootstrap_servers=servers, group_id="g", max_poll_interval_ms=300) as consumer:
        consumer.subscribe(["t"])
        send(servers, "t", 1)
        assert poll_rows(consumer).num_rows == 1
        deadline = time.monotonic() + 10
        while consumer.assignment() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert consumer.assignment() == set()
        send(servers, "t", 1, first=1)
        assert numbers_of(poll_rows(consumer)) == [1]


def test_unsubscribed_consumer_has_no_topics(explicit: ShareConsumer) -> None:
    assert repr(explicit).endswith("subscribed to ['t']>")
    assert explicit.subscription() == {"t"}
    explicit.unsubscribe()
    assert explicit.subscription() == set()
    with pytest.raises(ConfigurationError, match="call subscribe first"):
        explicit.poll(0)


def test_wakeup_and_close_end_a_poll(servers: str) -> None:
    consumer = ShareConsumer(bootstrap_servers=servers, group_id="g")
    consumer.subscribe(["t"])
    threading.Timer(0.2, consumer.wakeup).start()
    with pytest.raises(WakeupError):
        consumer.poll(None)
    threading.Timer(0.2, consumer.close).start()
    with pytest.raises(ClosedError):
        consumer.poll(None)
    consumer.close()
    assert consumer.closed
    assert repr(consumer).endswith("closed>")


def test_iteration_reads_several_partitions(servers: str) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        for number in range(400):
            producer.send("four", b"%d" % number, partition=number % 4)
    read: list[int] = []
    with ShareConsumer(bootstrap_servers=servers, group_id="g") as consumer:
        consumer.subscribe(["four"])
        for batch in consumer:
            read += numbers_of(batch)
            if len(read) == 400:
                break
        assert consumer.assignment() == {TopicPartition("four", number) for number in range(4)}
    assert sorted(read) == list(range(400))


def test_several_brokers_are_read(servers: str) -> None:
    with Broker(brokers=3, topics={"t": 6}) as broker:
        earliest(broker.bootstrap_servers, "g")
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for number in range(600):
                producer.send("t", b"%d" % number, partition=number % 6)
        read: list[int] = []
        with ShareConsumer(bootstrap_servers=broker.bootstrap_servers, group_id="g") as consumer:
            consumer.subscribe(["t"])
            while len(read) < 600:
                read += numbers_of(poll_rows(consumer))
            assert set(consumer.commit(10).values()) <= {None}
            assert consumer.metrics().acknowledgements_error_total == 0
        assert sorted(read) == list(range(600))


def test_moved_leader_is_followed(servers: str) -> None:
    with Broker(brokers=2, topics={"t": 1}) as broker:
        earliest(broker.bootstrap_servers, "g")
        send(broker.bootstrap_servers, "t", 2)
        with ShareConsumer(bootstrap_servers=broker.bootstrap_servers, group_id="g") as consumer:
            consumer.subscribe(["t"])
            assert numbers_of(poll_rows(consumer)) == [0, 1]
            consumer.commit(5)
            with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
                (leader,) = (partition.leader for partition in admin.describe_topics(["t"])["t"].partitions)
                (other,) = (node.id for node in admin.describe_cluster().brokers if node.id != leader)
            broker.move_leader("t", 0, other)
            send(broker.bootstrap_servers, "t", 2, first=2)
            assert numbers_of(poll_rows(consumer)) == [2, 3]
            assert consumer.commit(5) == {TP: None}


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("auto_offset_reset", "share.auto.offset.reset"),
        ("enable_auto_commit", "acknowledged"),
        ("group_instance_id", "never static"),
        ("isolation_level", "share.isolation.level"),
        ("group_protocol", "of their own"),
    ],
)
def test_options_of_other_groups_are_rejected(servers: str, name: str, hint: str) -> None:
    with pytest.raises(ConfigurationError, match=hint):
        ShareConsumer({"bootstrap.servers": servers, "group.id": "g", name.replace("_", "."): "x"})


def test_invalid_arguments_are_rejected(servers: str) -> None:
    with pytest.raises(ConfigurationError, match=r"set option group\.id"):
        ShareConsumer(bootstrap_servers=servers)
    with pytest.raises(ConfigurationError, match='must be implicit or explicit, not "maybe"'):
        ShareConsumer(bootstrap_servers=servers, group_id="g", acknowledgement="maybe")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="auto_renew needs explicit"):
        ShareConsumer(bootstrap_servers=servers, group_id="g", auto_renew=True)
    with pytest.raises(ConfigurationError, match="given twice"):
        ShareConsumer({"share.acquire.mode": "record_limit"}, acquire_mode="record_limit", bootstrap_servers=servers)
    with (
        ShareConsumer(bootstrap_servers=servers, group_id="g") as consumer,
        pytest.raises(ConfigurationError, match="names of topics"),
    ):
        consumer.subscribe([])
    with pytest.raises(ConfigurationError, match="raise, null, release, reject or a DeadLetter, not 'skip'"):
        ShareConsumer(bootstrap_servers=servers, group_id="g", value_format="json", on_decode_error="skip")  # type: ignore[arg-type]
    with ShareConsumer(bootstrap_servers=servers, group_id="g") as consumer:
        with pytest.raises(ConfigurationError, match="regular expression: share groups have none"):
            consumer.subscribe(["^t"])
        with pytest.raises(AttributeError, match=r"use Admin\.alter_share_offsets\(\) while the group has no members"):
            consumer.seek  # type: ignore[attr-defined]  # noqa: B018


def test_brokers_without_share_groups_are_named() -> None:
    with (
        Broker(topics={"t": 1}, kafka_version="4.0") as broker,
        ShareConsumer(bootstrap_servers=broker.bootstrap_servers, group_id="g") as consumer,
    ):
        consumer.subscribe(["t"])
        with pytest.raises(UnsupportedVersionError, match=r"Kafka 4\.2 and the feature share\.version"):
            consumer.poll(10)


def test_missing_topic_is_logged_and_read_later(servers: str, caplog: pytest.LogCaptureFixture) -> None:
    with ShareConsumer(bootstrap_servers=servers, group_id="g", metadata_max_age_ms=200) as consumer:
        with caplog.at_level(logging.WARNING, "samsarrow"):
            consumer.subscribe(["late"])
            assert consumer.poll(0.5).num_rows == 0
            deadline = time.monotonic() + 5
            while "subscribed topics do not exist" not in caplog.text and time.monotonic() < deadline:
                time.sleep(0.05)
        assert "subscribed topics do not exist" in caplog.text
        with Admin(bootstrap_servers=servers) as admin:
            admin.create_topics([NewTopic("late", 1)])
        send(servers, "late", 1)
        assert numbers_of(poll_rows(consumer)) == [0]
