"""Members of groups as a program sees them, on the embedded broker."""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from samsarrow import Admin, Consumer, OffsetAndMetadata, Producer, TopicPartition
from samsarrow.exceptions import IllegalStateError, KafkaError, WakeupError
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
def test_close_keeps_its_time_with_a_silent_coordinator(
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
def test_a_deleted_topic_blocks_the_commits_of_no_other(protocol: str) -> None:
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
            # The group may have noticed by now; else it is the deleted topic's own error.
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
            # A few a second, of this consumer, its coordinator's and the others' here.
            assert broker.requests("Metadata") - before < 30 + 20 * (time.monotonic() - start)


def test_a_rebalance_on_demand(broker: Broker, servers: str) -> None:
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
def test_wakeup_ends_every_call_that_waits(
    broker: Broker, servers: str, api: str, call: Callable[[Consumer], object]
) -> None:
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


def test_an_assigned_topic_that_has_no_name_yet_is_logged_once(
    broker: Broker, servers: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "samsarrow")
    _fill(servers)
    broker.stale_metadata(times=None, without=["t"])
    with _member(servers, group_protocol="consumer") as consumer:
        quiet = time.monotonic() + 3

        def told() -> list[str]:
            return [record.getMessage() for record in caplog.records if "does not have" in record.getMessage()]

        def long_enough() -> object:
            assert consumer.poll(0.2).num_rows == 0
            # It is assigned with each of these, and lines come a moment late.
            return time.monotonic() > quiet and broker.requests("ConsumerGroupHeartbeat") > 3 and told()

        until(long_enough)
        assert len(told()) == 1, told()
        broker.heal("Metadata")
        _read(consumer, 10)
