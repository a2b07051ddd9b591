"""Transactions on the embedded broker: both protocol versions, fencing, delays, and late or missing responses."""

from __future__ import annotations

import time
from typing import Any

import pyarrow as pa
import pytest

from samsarrow import Admin, Consumer, ConsumerGroupMetadata, Producer, TopicPartition
from samsarrow.exceptions import (
    InvalidProducerIdMappingError,
    KafkaError,
    KafkaTimeoutError,
    ProducerFencedError,
)
from samsarrow.testing import Broker
from support.waiting import until


def producer(broker: Broker, name: str = "x", **options: object) -> Producer:
    return Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id=name, **options)


def values(broker: Broker, topic: str = "t") -> list[bytes]:
    """Returns the values of committed transactions in partition 0, up to the end offset."""
    options = {"isolation_level": "read_committed", "auto_offset_reset": "earliest"}
    with Consumer(bootstrap_servers=broker.bootstrap_servers, **options) as consumer:
        where = TopicPartition(topic, 0)
        end = consumer.end_offsets([where])[where]
        consumer.assign([where])
        found: list[bytes] = []
        while consumer.position(where) < end:
            found += consumer.poll(5).column("value").to_pylist()
        return found


@pytest.mark.parametrize("version", [0, 1, 2])
def test_protocol_by_transaction_version(version: int) -> None:
    with Broker(topics={"t": 1}, transaction_version=version) as broker, producer(broker) as p:
        for i in range(3):
            with p.transaction():
                p.send("t", b"%d" % i)
        assert values(broker) == [b"0", b"1", b"2"]
        assert (broker.requests("AddPartitionsToTxn") > 0) == (version < 2)
        assert broker.transaction_state("x") == "CompleteCommit"
        assert broker.transaction_state("y") is None


@pytest.mark.parametrize("version", [-1, 3])
def test_invalid_transaction_version_is_rejected(version: int) -> None:
    with pytest.raises(ValueError, match=f"transaction_version={version}: it must be 0, 1 or 2"):
        Broker(transaction_version=version)


def test_fence() -> None:
    with Broker(topics={"t": 1}) as broker:
        with pytest.raises(ValueError, match="'x' is not known"):
            broker.fence("x")
        with producer(broker) as p:
            with p.transaction():
                p.send("t", b"good")

            def fenced() -> None:
                with p.transaction():
                    p.send("t", b"bad").result(10)
                    broker.fence("x")

            with pytest.raises(ProducerFencedError):
                fenced()
        assert values(broker) == [b"good"]


def test_transaction_marker_delay() -> None:
    with Broker(topics={"t": 1}, transaction_marker_delay=0.3) as broker, producer(broker) as p:
        for i in range(2):
            with p.transaction():
                p.send("t", b"%d" % i)
        until(lambda: broker.transaction_state("x") == "CompleteCommit")
        assert values(broker) == [b"0", b"1"]


def test_fail_with_handled_true() -> None:
    with Broker(topics={"t": 1}) as broker, producer(broker) as p:
        broker.fail("Produce", error="NOT_LEADER_OR_FOLLOWER", handled=True)
        broker.fail("EndTxn", error="COORDINATOR_NOT_AVAILABLE", handled=True)
        with p.transaction():
            p.send("t", b"once")
        assert values(broker) == [b"once"]
        with pytest.raises(ValueError, match="handled=True is for an error"):
            broker.fail("Produce", drop="after", handled=True)


def test_move_transaction_coordinator() -> None:
    with Broker(brokers=2, topics={"t": 1}) as broker, producer(broker) as p:
        for i in range(4):
            broker.move_transaction_coordinator("x", i % 2)
            with p.transaction():
                p.send("t", b"%d" % i)
        assert values(broker) == [b"0", b"1", b"2", b"3"]
        with pytest.raises(ValueError, match="there is no node 7"):
            broker.move_transaction_coordinator("x", 7)


def test_stale_metadata() -> None:
    with Broker(brokers=2, topics={"t": 1, "gone": 1}) as broker:
        broker.stale_metadata(times=None, without=["gone"])
        options = {"bootstrap_servers": broker.bootstrap_servers, "max_block_ms": 2000}
        with Producer(**options) as p:
            with pytest.raises(KafkaError):
                p.send("gone", b"v").result(10)
            p.send("t", b"1").result(10)
            # The metadata still contains the old leader. A client that gets the new leader in a Produce response
            # continues, and other clients retry until the metadata is current.
            broker.move_leader("t", 0, 1)
            broker.move_leader("t", 0, 0)
            broker.heal("Metadata")
            p.send("t", b"2").result(10)
            p.send("gone", b"v").result(10)
        with pytest.raises(ValueError, match="times=0"):
            broker.stale_metadata(times=0)
        assert values(broker) == [b"1", b"2"]


def test_timed_out_begin_can_be_repeated() -> None:
    with Broker(topics={"t": 1}) as broker:
        broker.fail("InitProducerId", delay=1.0)
        with producer(broker, max_block_ms=300) as p:
            with pytest.raises(KafkaTimeoutError, match="call begin_transaction again"):
                p.begin_transaction()
            # The response with the producer id arrives after `begin_transaction` has timed out.
            until(lambda: broker.transaction_state("x") is not None)
            for number in range(2):
                with p.transaction():
                    p.send("t", b"%d" % number)
            assert values(broker) == [b"0", b"1"]
            with pytest.raises(KafkaError, match="was called before"):
                p.init_transactions()


@pytest.mark.parametrize("version", [0, 2])
def test_error_after_transaction_timeout_names_the_option(version: int) -> None:
    """The broker only returns PRODUCER_FENCED or INVALID_TXN_STATE. The producer adds the reason, since it knows how
    long the transaction was open.
    """
    reason = r"longer than transaction.timeout.ms \(0.3 s\): the coordinator has aborted it"
    with Broker(topics={"t": 1}, transaction_version=version) as broker:

        def timed_out(name: str) -> Producer:
            p = producer(broker, name, transaction_timeout_ms=300)
            p.begin_transaction()
            p.send("t", b"lost").result(30)
            until(lambda: broker.transaction_state(name) == "CompleteAbort")
            return p

        with timed_out("commit") as p, pytest.raises(KafkaError, match=reason) as raised:
            p.commit_transaction()
        assert raised.value.fatal
        assert "took over" not in str(raised.value)
        with timed_out("offsets") as p, pytest.raises(KafkaError, match=reason) as raised:
            p.send_offsets_to_transaction({TopicPartition("t", 0): 1}, ConsumerGroupMetadata("g", "", -1, None))
        assert raised.value.fatal
        with timed_out("send") as p:
            with pytest.raises(KafkaError, match=reason) as raised:
                p.send("t", b"late").result(30)
            assert raised.value.abortable
            with pytest.raises(KafkaError, match=reason):
                p.commit_transaction()
        with timed_out("abort") as p:
            if version < 2:
                with pytest.raises(KafkaError, match=reason):
                    p.abort_transaction()
            else:
                p.abort_transaction()
                with p.transaction():
                    p.send("t", b"kept")
        assert values(broker) == ([] if version < 2 else [b"kept"])


@pytest.mark.parametrize("version", [0, 2])
def test_producer_continues_after_its_transactional_id_expired(version: int) -> None:
    with Broker(topics={"t": 1}, transaction_version=version, transactional_id_expiration=0.5) as broker:
        with producer(broker) as p:
            with p.transaction():
                p.send("t", b"1")
            until(lambda: broker.transaction_state("x") is None)
            with pytest.raises(InvalidProducerIdMappingError) as raised, p.transaction():
                p.send("t", b"2")
            assert raised.value.abortable
            with p.transaction():
                p.send("t", b"3")
        assert values(broker) == [b"1", b"3"]


def test_close_timeout_covers_abort_and_flush() -> None:
    with Broker(topics={"t": 1}) as broker:
        p = producer(broker)
        p.begin_transaction()
        p.send("t", b"v").result(30)
        for api in ("EndTxn", "Produce"):
            broker.fail(api, delay=60.0, times=None)
        p.send("t", b"v")
        # The record must be in flight before the abort, which would drop a queued record.
        time.sleep(0.5)
        started = time.monotonic()
        with pytest.raises(KafkaTimeoutError):
            p.close(4)
        assert time.monotonic() - started < 7.0


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_offsets_of_a_lost_membership_are_rejected(protocol: str) -> None:
    """A member that has lost its membership cannot commit rows that another member has already committed."""
    with Broker(topics={"t": 1}) as broker, Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        with Producer(bootstrap_servers=broker.bootstrap_servers) as filler:
            filler.send("t", b"row").result(30)
        options: dict[str, Any] = {"bootstrap_servers": broker.bootstrap_servers, "group_id": "g"}
        options |= {"group_protocol": protocol, "auto_offset_reset": "earliest", "enable_auto_commit": False}

        def read(consumer: Consumer) -> pa.RecordBatch:
            consumer.subscribe(["t"])
            deadline = time.monotonic() + 30
            while not (batch := consumer.poll(0.2)).num_rows:
                assert time.monotonic() < deadline
            return batch

        with Consumer(max_poll_interval_ms=1000, **options) as slow, producer(broker) as p:
            batch = read(slow)
            until(lambda: not admin.describe_groups(["g"])["g"].members)
            with Consumer(**options) as quick:
                assert read(quick).num_rows == 1
                quick.commit()
            p.begin_transaction()
            p.send("t", b"copy")
            with pytest.raises(KafkaError, match="UNKNOWN_MEMBER_ID"):
                p.send_offsets_to_transaction(batch, slow.group_metadata())
            p.abort_transaction()
            # The group has no member now, and brokers accept offsets without a generation.
            assert slow.group_metadata().generation >= 0
