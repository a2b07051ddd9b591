"""Transactions written by us, with both transaction versions; Kafka's Java consumer reads the committed records."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from samsarrow import Consumer, ConsumerGroupMetadata, KafkaError, OffsetAndMetadata, Producer, TopicPartition
from samsarrow.exceptions import (
    FencedInstanceIdError,
    IllegalGenerationError,
    IllegalStateError,
    InvalidTransactionTimeoutError,
    InvalidTxnStateError,
    MessageTooLargeError,
    ProducerFencedError,
    TransactionAbortedError,
    UnknownMemberIdError,
)
from support.fixtures import create_topic
from support.kafka import KafkaServer
from support.peers.java_api import JavaPeer
from support.segments import stored
from support.streams import wait_for_markers


@dataclass
class Side:
    """A broker, and the options for writing to it."""

    kafka: KafkaServer
    java: JavaPeer
    second: bool

    def producer(self, name: str, **options: Any) -> Producer:
        config = {"bootstrap_servers": self.kafka.bootstrap_servers, "transactional_id": name}
        return Producer(**config, **options)

    def topic(self, partitions: int = 1, **configs: str) -> str:
        return create_topic(self.kafka, partitions, **configs)

    def values(self, topic: str, partition: int = 0, level: str = "read_committed") -> list[str]:
        """Returns the values that a Java consumer reads from a topic without open transactions."""
        wait_for_markers(self.kafka.bootstrap_servers, topic)
        ends = self.java.ends(topic, [partition], isolation_level=level)
        polls = self.java.polls(topic, [partition], ends, isolation_level=level)
        return [(record.value or b"").decode() for poll in polls for _, record in poll.records]

    def consumer(self, group: str, **options: Any) -> Consumer:
        config: dict[str, Any] = {
            "group_id": group,
            "enable_auto_commit": False,
            "auto_offset_reset": "earliest",
            "isolation_level": "read_committed",
        }
        return Consumer(bootstrap_servers=self.kafka.bootstrap_servers, **config, **options)


@pytest.fixture(scope="module", params=["first", "second"])
def side(request: pytest.FixtureRequest) -> Side:
    old = "old_" if request.param == "first" else ""
    kafka, java = request.getfixturevalue(f"{old}kafka"), request.getfixturevalue(f"{old}java")
    return Side(kafka, java, second=not old)


def test_api_version_can_disable_transaction_version_2(kafka: KafkaServer, java: JavaPeer) -> None:
    side = Side(kafka, java, second=True)
    topic, group = side.topic(), f"chosen-{time.time_ns()}"
    # Brokers with transaction version 2 also support version 1.
    with side.producer(topic, api_version_endtxn=4) as producer:
        for i in range(3):
            with producer.transaction():
                producer.send(topic, f"{i}")
                offsets = {TopicPartition(topic, 0): i + 1}
                producer.send_offsets_to_transaction(offsets, ConsumerGroupMetadata(group, "", -1, None))
    assert len({batch.epoch for batch in stored(kafka.segments(topic)) if not batch.control}) == 1
    assert side.values(topic) == ["0", "1", "2"]
    assert committed(side, group, topic) == [(3, "")]


def test_read_committed_returns_committed_records_only(side: Side) -> None:
    topic = side.topic(2)
    # By default, records are sent at once.
    with side.producer(topic, linger_ms=10_000) as producer:
        with producer.transaction() as same:
            assert same is producer
            sent = [producer.send(topic, "a", partition=0), producer.send(topic, "b", partition=1)]
        assert [delivery.result(0).offset for delivery in sent] == [0, 0]
        producer.begin_transaction()
        flushed = producer.send(topic, "no", partition=0)
        producer.flush()
        waiting = producer.send(topic, "no more", partition=1)
        producer.abort_transaction()
        assert flushed.result(0).offset == 2
        with pytest.raises(TransactionAbortedError) as raised:
            waiting.result(0)
        assert raised.value.abortable
        with producer.transaction():
            producer.send_batch(topic, pa.table({"value": ["c", "d"], "p": [0, 1]}), partition="p")
        assert side.values(topic, 0) == ["a", "c"]
        assert side.values(topic, 1) == ["b", "d"]
        assert side.values(topic, 0, "read_uncommitted") == ["a", "no", "c"]


def test_only_transaction_version_2_bumps_epoch_per_transaction(side: Side) -> None:
    topic = side.topic()
    with side.producer(topic) as producer:
        for i in range(4):
            with producer.transaction():
                producer.send(topic, f"{i}")
    batches = [batch for batch in stored(side.kafka.segments(topic)) if not batch.control]
    assert len({batch.producer_id for batch in batches}) == 1
    epochs = [batch.epoch - batches[0].epoch for batch in batches]
    assert epochs == ([0, 1, 2, 3] if side.second else [0, 0, 0, 0])


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_many_batches_of_many_partitions(side: Side, codec: str) -> None:
    topic = side.topic(3)
    rows = pa.table({"value": [f"{i:06}" for i in range(15_000)], "p": [i % 3 for i in range(15_000)]})
    with side.producer(topic, compression_type=codec, batch_size=5000) as producer:
        for commit in (True, False, True):
            producer.begin_transaction()
            producer.send_batch(topic, rows, partition="p")
            for i in range(3000):
                producer.send(topic, f"{i:06}", partition=i % 3)
            if commit:
                producer.commit_transaction()
            else:
                producer.flush()
                producer.abort_transaction()
    for partition in range(3):
        expected = [f"{i:06}" for i in range(partition, 15_000, 3)] + [f"{i:06}" for i in range(partition, 3000, 3)]
        assert side.values(topic, partition) == expected * 2


def test_empty_transaction_writes_nothing(side: Side) -> None:
    topic = side.topic()
    # By default, the record is sent at once.
    with side.producer(topic, linger_ms=10_000) as producer:
        producer.init_transactions()
        with producer.transaction():
            pass
        producer.begin_transaction()
        producer.abort_transaction()
        producer.begin_transaction()
        dropped = producer.send(topic, "never sent")
        producer.abort_transaction()
        with pytest.raises(TransactionAbortedError):
            dropped.result(0)
    assert not [batch for batch in stored(side.kafka.segments(topic)) if not batch.control]


@pytest.mark.parametrize("error", [ValueError("mine"), KeyboardInterrupt()], ids=["exception", "Ctrl-C"])
def test_exception_in_block_aborts(side: Side, error: BaseException) -> None:
    topic = side.topic()
    with side.producer(topic) as producer:

        def leave() -> None:
            with producer.transaction():
                producer.send(topic, "no").result()
                raise error

        with pytest.raises(type(error)) as raised:
            leave()
        assert raised.value is error
        assert not getattr(error, "__notes__", [])
        with producer.transaction():
            producer.send(topic, "yes")
    assert side.values(topic) == ["yes"]


def test_calls_in_invalid_states(side: Side) -> None:
    topic = side.topic()
    with side.producer(topic) as producer:
        for call in (producer.commit_transaction, producer.abort_transaction, lambda: producer.send(topic, "x")):
            with pytest.raises(IllegalStateError, match="begin_transaction first"):
                call()
        producer.begin_transaction()
        with pytest.raises(IllegalStateError, match="open already"):
            producer.begin_transaction()
        with pytest.raises(IllegalStateError, match="called before"):
            producer.init_transactions()
        producer.send(topic, "x")
        producer.commit_transaction()
        with pytest.raises(IllegalStateError, match="begin_transaction first"):
            producer.send_batch(topic, pa.table({"value": ["x"]}))
        with pytest.raises(IllegalStateError, match="begin_transaction first"):
            producer.send_offsets_to_transaction(
                {TopicPartition(topic, 0): 1}, ConsumerGroupMetadata("g", "", -1, None)
            )
    with Producer(bootstrap_servers=side.kafka.bootstrap_servers) as producer:
        for call in (producer.init_transactions, producer.begin_transaction, producer.commit_transaction):
            with pytest.raises(IllegalStateError, match=r"transactional\.id"):
                call()
        producer.send(topic, "outside of any").result()
    assert side.values(topic) == ["x", "outside of any"]


def test_failed_record_fails_the_commit_only(side: Side) -> None:
    topic = side.topic(1, max_message_bytes="2000")
    with side.producer(topic) as producer:
        with producer.transaction():
            producer.send(topic, "before")
        producer.begin_transaction()
        producer.send(topic, "fine").result()
        large = producer.send(topic, "x" * 5000)
        with pytest.raises(MessageTooLargeError) as raised:
            producer.commit_transaction()
        assert raised.value.abortable
        assert not raised.value.fatal
        with pytest.raises(MessageTooLargeError):
            large.result(0)
        for call in (
            producer.commit_transaction,
            producer.begin_transaction,
            lambda: producer.send(topic, "x"),
            lambda: producer.send_offsets_to_transaction({}, ConsumerGroupMetadata("g", "", -1, None)),
        ):
            with pytest.raises(MessageTooLargeError, match="must be aborted"):
                call()
        producer.abort_transaction()

        def again() -> None:
            with producer.transaction():
                producer.send(topic, "fine, too")
                producer.send(topic, "x" * 5000)

        with pytest.raises(MessageTooLargeError):
            again()
        with producer.transaction():
            producer.send(topic, "after")
    assert side.values(topic) == ["before", "after"]


def test_close_aborts_transaction(side: Side) -> None:
    topic = side.topic()
    producer = side.producer(topic)
    producer.begin_transaction()
    producer.send(topic, "no").result()
    started = time.monotonic()
    producer.close()
    assert time.monotonic() - started < 10
    # No transaction is open, so the following records are stable.
    with side.producer(f"{topic}-other") as producer, producer.transaction():
        producer.send(topic, "yes")
    assert side.values(topic) == ["yes"]


def test_new_producer_fences_earlier_ones(side: Side) -> None:
    topic = side.topic()
    old, new = side.producer(topic), side.producer(topic)
    old.begin_transaction()
    old.send(topic, "of the old one").result()
    new.init_transactions()
    # The coordinator has aborted the open transaction before it returned the new identity.
    assert side.values(topic) == []
    for call in (
        old.commit_transaction,
        old.abort_transaction,
        old.begin_transaction,
        lambda: old.send(topic, "x"),
        lambda: old.send_offsets_to_transaction({}, ConsumerGroupMetadata("g", "", -1, None)),
    ):
        with pytest.raises(ProducerFencedError) as raised:
            call()
        assert raised.value.fatal
        assert not raised.value.abortable
    with new.transaction():
        new.send(topic, "of the new one")
    old.close()
    with new.transaction():
        new.send(topic, "of the new one")
    new.close()
    assert side.values(topic) == ["of the new one"] * 2


def test_fenced_producer_fails_at_commit(side: Side) -> None:
    topic = side.topic()
    old, new = side.producer(topic), side.producer(topic)
    old.begin_transaction()
    old.send(topic, "of the old one").result()
    with new.transaction():
        new.send(topic, "of the new one")
    late = old.send(topic, "of the zombie")
    with pytest.raises((ProducerFencedError, InvalidTxnStateError)) as raised:
        old.commit_transaction()
    if raised.value.abortable:
        # A leader that verifies the transaction (KIP-890) reports only that none is open. The error of EndTxn has the
        # cause.
        with pytest.raises(ProducerFencedError):
            old.abort_transaction()
    with pytest.raises(KafkaError):
        late.result(0)
    with pytest.raises(ProducerFencedError):
        old.begin_transaction()
    old.close()
    new.close()
    assert side.values(topic) == ["of the new one"]


def test_expired_transaction_is_aborted_by_coordinator(side: Side) -> None:
    topic = side.topic()
    with side.producer(topic, transaction_timeout_ms=2000) as producer:
        producer.begin_transaction()
        producer.send(topic, "too late").result()
        deadline = time.monotonic() + 60
        while not any(batch.control for batch in stored(side.kafka.segments(topic))):
            assert time.monotonic() < deadline
            time.sleep(0.2)
        # Brokers with version 2 can tell an expired transaction from fencing, because the epoch rises with each end.
        # Both errors are fatal.
        error = InvalidTxnStateError if side.second else ProducerFencedError
        with pytest.raises(error, match=r"longer than transaction\.timeout\.ms") as raised:
            producer.commit_transaction()
        assert raised.value.fatal
    with side.producer(topic) as producer, producer.transaction():
        producer.send(topic, "in time")
    assert side.values(topic) == ["in time"]


def test_invalid_transaction_timeout(side: Side) -> None:
    with side.producer("impatient", transaction_timeout_ms=2_000_000_000) as producer:
        with pytest.raises(InvalidTransactionTimeoutError) as raised:
            producer.init_transactions()
        assert raised.value.fatal
        with pytest.raises(InvalidTransactionTimeoutError):
            producer.begin_transaction()


def committed(side: Side, group: str, topic: str) -> list[tuple[int, str] | None]:
    return side.java.committed(group, topic, [0])


def test_offsets_are_committed_with_the_transaction(side: Side) -> None:
    topic, group = side.topic(), f"offsets-{time.time_ns()}"
    tp, nobody = TopicPartition(topic, 0), ConsumerGroupMetadata(group, "", -1, None)
    with side.producer(topic) as producer:
        producer.begin_transaction()
        producer.send_offsets_to_transaction({tp: 5}, nobody)
        producer.abort_transaction()
        assert committed(side, group, topic) == [None]
        with producer.transaction():
            producer.send_offsets_to_transaction({tp: OffsetAndMetadata(7, "why", 0)}, nobody)
            with side.consumer(group) as consumer:
                assert consumer.committed([tp], require_stable=False) == {tp: None}
        assert committed(side, group, topic) == [(7, "why")]
        with producer.transaction():
            producer.send(topic, "with")
            producer.send_offsets_to_transaction({tp: 8}, nobody)
            producer.send_offsets_to_transaction({tp: 9}, nobody)
        assert committed(side, group, topic) == [(9, "")]
    assert side.values(topic) == ["with"]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_offsets_with_group_metadata(side: Side, protocol: str) -> None:
    if protocol == "consumer" and side.kafka.version.startswith("3."):
        pytest.skip("members of KIP-848 need Kafka 4")
    topic, group = side.topic(), f"members-{time.time_ns()}"
    with side.producer(topic) as producer:
        with producer.transaction():
            for i in range(5):
                producer.send(topic, f"{i}")
        with side.consumer(group, group_protocol=protocol) as consumer:
            consumer.subscribe([topic])
            batch = next(iter(consumer))
            with producer.transaction():
                producer.send_offsets_to_transaction(batch, consumer.group_metadata())
            # The committed offset is after the marker that follows the rows.
            assert committed(side, group, topic) == [(6, "")]
            stale = consumer.group_metadata()
        for zombie, refused in (
            (stale, UnknownMemberIdError),
            (stale._replace(generation=stale.generation + 1), KafkaError),
        ):
            producer.begin_transaction()
            producer.send(topic, "twice")
            with pytest.raises(refused) as raised:
                producer.send_offsets_to_transaction({TopicPartition(topic, 0): 1}, zombie)
            with pytest.raises(refused):
                producer.commit_transaction()
            producer.abort_transaction()
            assert raised.value.abortable
        assert committed(side, group, topic) == [(6, "")]
        with producer.transaction():
            producer.send(topic, "once")
    assert side.values(topic) == ["0", "1", "2", "3", "4", "once"]


def test_rejects_offsets_of_older_generation(side: Side) -> None:
    topic, group = side.topic(2), f"generations-{time.time_ns()}"
    with side.producer(topic) as producer, side.consumer(group, group_instance_id="a") as first:
        first.subscribe([topic])
        while len(first.assignment()) < 2:
            first.poll(0.1)
        stale = first.group_metadata()
        stop = threading.Event()

        def join() -> None:
            with side.consumer(group) as second:
                second.subscribe([topic])
                while not stop.is_set():
                    second.poll(0.1)

        thread = threading.Thread(target=join)
        thread.start()
        try:
            while len(first.assignment()) != 1:
                first.poll(0.1)
            refused = {
                "generation": (stale, IllegalGenerationError),
                "instance": (first.group_metadata()._replace(member_id="another"), FencedInstanceIdError),
            }
            for zombie, error in refused.values():
                with pytest.raises(error) as raised, producer.transaction():
                    producer.send_offsets_to_transaction({TopicPartition(topic, 0): 1}, zombie)
                assert raised.value.abortable
            assert committed(side, group, topic) == [None]
            with producer.transaction():
                producer.send_offsets_to_transaction({TopicPartition(topic, 0): 3}, first.group_metadata())
            assert committed(side, group, topic) == [(3, "")]
        finally:
            stop.set()
            thread.join()
