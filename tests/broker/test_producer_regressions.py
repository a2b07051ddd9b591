"""Regression tests of producers: sequences, epochs and fencing, on a broker with injected faults."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from samsarrow import Consumer, ConsumerGroupMetadata, Delivery, Producer, TopicPartition
from samsarrow.exceptions import (
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    ProducerFencedError,
    TransactionAbortableError,
    TransactionAbortedError,
)
from samsarrow.testing import Broker
from support.waiting import until

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
GROUP = ConsumerGroupMetadata("g", "", -1, None)
NewProducer = Callable[..., Producer]


@pytest.fixture
def version() -> int:
    """Level of the feature `transaction.version`, which determines the transaction protocol."""
    return 2


@pytest.fixture
def broker(version: int) -> Iterator[Broker]:
    with Broker(brokers=2, topics={"t": 2}, auto_create_topics=False, transaction_version=version) as broker:
        yield broker


@pytest.fixture
def new_producer(broker: Broker) -> Iterator[NewProducer]:
    """Returns a function that creates producers and closes them after the test."""
    made = []

    def make(**options: Any) -> Producer:
        quick = {"retry_backoff_ms": 10, "reconnect_backoff_ms": 10, "reconnect_backoff_max_ms": 50}
        made.append(Producer(bootstrap_servers=broker.bootstrap_servers, **quick | options))
        return made[-1]

    yield make
    broker.heal()
    for producer in made:
        producer.close(5)


@pytest.fixture
def transactional(new_producer: NewProducer) -> NewProducer:
    return lambda **options: new_producer(transactional_id="x", **options)


def both_versions(function: Callable[..., None]) -> Any:
    """Runs a test with both versions of the transaction protocol."""
    return pytest.mark.parametrize("version", [1, 2], ids=["first", "second"])(function)


def read(broker: Broker, level: str = "read_committed", topic: str = "t") -> dict[int, list[str]]:
    """Reads the topic to its end and returns the values by partition."""
    options = {"isolation_level": level, "auto_offset_reset": "earliest"}
    with Consumer(bootstrap_servers=broker.bootstrap_servers, **options) as consumer:
        consumer.assign(consumer.partitions_for(topic))
        found: dict[int, list[str]] = {0: [], 1: []}
        for batch in consumer.reader():
            for partition, value in zip(batch["partition"].to_pylist(), batch["value"].to_pylist(), strict=True):
                found[partition].append(value.decode())
    return found


def committed(broker: Broker) -> int | None:
    with Consumer(bootstrap_servers=broker.bootstrap_servers, group_id="g") as consumer:
        at = consumer.committed([T0], require_stable=True)[T0]
    return at and at.offset


def send(producer: Producer, values: range, partition: int = 0) -> list[Delivery]:
    return [producer.send("t", f"{i}", partition=partition) for i in values]


# ---- sequences of idempotent producers ----


def test_topic_missing_in_metadata_keeps_its_sequences(broker: Broker, new_producer: NewProducer) -> None:
    producer = new_producer(metadata_max_age_ms=20)
    for first in range(0, 50, 10):
        for delivery in send(producer, range(first, first + 10)):
            assert delivery.result(10).offset >= first
        requests = broker.requests("Metadata")
        broker.stale_metadata(times=2, without=["t"])
        while broker.requests("Metadata") < requests + 3:
            time.sleep(0.01)
    # If sequences restarted at 0, the broker would treat the records as duplicates, and they would be lost although
    # reported as delivered.
    assert read(broker)[0] == [f"{i}" for i in range(50)]


@pytest.mark.parametrize(
    "fault",
    [
        {"drop": "before"},
        {"drop": "after"},
        {"delay": 0.4},
        {"garbage": True},
        {"error": "NOT_ENOUGH_REPLICAS"},
        {"error": "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "handled": True},
        {"error": "REQUEST_TIMED_OUT", "handled": True},
        {"error": "KAFKA_STORAGE_ERROR", "handled": True},
    ],
    ids=str,
)
def test_missing_responses_lose_and_duplicate_no_record(
    broker: Broker, new_producer: NewProducer, fault: dict[str, Any]
) -> None:
    producer = new_producer(linger_ms=0, request_timeout_ms=200)
    sent = send(producer, range(5))
    producer.flush()
    for _ in range(3):
        broker.fail("Produce", times=2, **fault)
        for i in range(len(sent), len(sent) + 20):
            sent.append(producer.send("t", f"{i}", partition=0))
            if i % 5 == 0:
                time.sleep(0.01)
        producer.flush(60)
    assert read(broker)[0] == [f"{i}" for i in range(65)]
    assert [delivery.result(0).offset for delivery in sent if delivery.result(0).offset >= 0]


def test_duplicate_sequence_is_a_success_with_unknown_offset(broker: Broker, new_producer: NewProducer) -> None:
    producer = new_producer()
    broker.fail("Produce", error="DUPLICATE_SEQUENCE_NUMBER", handled=True)
    assert producer.send("t", "0", partition=0).result(10).offset == -1
    assert producer.send("t", "1", partition=0).result(10).offset == 1
    assert read(broker)[0] == ["0", "1"]


@pytest.mark.parametrize("error", ["OUT_OF_ORDER_SEQUENCE_NUMBER", "UNKNOWN_PRODUCER_ID"])
def test_lost_sequences_begin_a_new_epoch(broker: Broker, new_producer: NewProducer, error: str) -> None:
    producer = new_producer(linger_ms=0)
    for delivery in send(producer, range(3)):
        delivery.result(10)
    before = broker.requests("InitProducerId")
    broker.fail("Produce", error=error)
    for delivery in send(producer, range(3, 9)):
        delivery.result(10)
    # The client chooses the next epoch of its producer id, which needs no request (KIP-360).
    assert broker.requests("InitProducerId") == before
    assert read(broker)[0] == [f"{i}" for i in range(9)]


def test_acks_0_does_not_wait_for_responses(broker: Broker, new_producer: NewProducer) -> None:
    producer = new_producer(acks=0, max_in_flight_requests_per_connection=1, linger_ms=0)
    for _ in range(3):
        assert {delivery.result(30).offset for delivery in send(producer, range(20))} == {-1}
    producer.close()
    until(lambda: len(read(broker)[0]) >= 60)


# ---- epochs and fencing ----


@both_versions
def test_requests_of_a_transaction(broker: Broker, transactional: NewProducer, version: int) -> None:
    producer = transactional()
    for _ in range(3):
        with producer.transaction():
            send(producer, range(5), 0)
            send(producer, range(5), 1)
            producer.send_offsets_to_transaction({T0: 5}, GROUP)
    counts = broker.requests()
    apis = ("InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn")
    # One request adds all partitions that are pending, but the second partition may be pending too late for the first
    # request.
    registrations = counts.get("AddPartitionsToTxn", 0)
    assert 3 <= registrations <= 6 if version == 1 else registrations == 0
    expected = [1, registrations, 3 if version == 1 else 0, 3, 3]
    assert [counts.get(api, 0) for api in apis] == expected
    assert read(broker) == {p: [f"{i}" for i in range(5)] * 3 for p in (0, 1)}
    assert committed(broker) == 5


@both_versions
def test_fenced_producer_cannot_continue(broker: Broker, transactional: NewProducer) -> None:
    old, new = transactional(), transactional()
    old.begin_transaction()
    send(old, range(5))[-1].result(10)
    with new.transaction():
        send(new, range(5, 10))
    late = old.send("t", "late", partition=1)
    with pytest.raises(ProducerFencedError) as raised:
        old.commit_transaction()
    assert raised.value.fatal
    with pytest.raises(KafkaError):
        late.result(0)
    for call in (old.abort_transaction, old.begin_transaction, old.commit_transaction, lambda: send(old, range(1))):
        with pytest.raises(ProducerFencedError):
            call()
    with new.transaction():
        send(new, range(10, 12))
    assert read(broker) == {0: [f"{i}" for i in range(5, 12)], 1: []}


@both_versions
def test_fenced_producer_cannot_commit_offsets(broker: Broker, transactional: NewProducer) -> None:
    old, new = transactional(), transactional()
    old.begin_transaction()
    new.init_transactions()
    with pytest.raises(ProducerFencedError):
        old.send_offsets_to_transaction({T0: 3}, GROUP)
    with pytest.raises(ProducerFencedError):
        old.commit_transaction()
    assert committed(broker) is None


RETRIABLE = [
    {"error": "NOT_COORDINATOR", "times": 2},
    {"error": "COORDINATOR_NOT_AVAILABLE", "times": 2},
    {"error": "COORDINATOR_LOAD_IN_PROGRESS", "times": 2},
    {"error": "CONCURRENT_TRANSACTIONS", "times": 2},
    {"drop": "before"},
    {"drop": "after"},
    {"delay": 1.2},
]


@both_versions
@pytest.mark.parametrize("fault", RETRIABLE, ids=lambda fault: "-".join(map(str, fault.values())))
def test_retriable_errors_are_retried(
    broker: Broker, transactional: NewProducer, version: int, fault: dict[str, Any]
) -> None:
    # The request timeout is shorter than the delay, so that only delayed requests time out.
    producer = transactional(**{"request_timeout_ms": 600} if "delay" in fault else {})
    broker.fail("FindCoordinator", **fault)
    apis = ["InitProducerId", "TxnOffsetCommit", "EndTxn"]
    apis += ["AddPartitionsToTxn", "AddOffsetsToTxn"] if version == 1 else []
    for round_ in range(3):
        for api in apis:
            # InitProducerId is not delayed: a delayed request is applied after the retry and would fence the producer
            # that retried.
            if api != "InitProducerId" or "delay" not in fault:
                broker.fail(api, **fault)
        producer.begin_transaction()
        send(producer, range(5 * round_, 5 * round_ + 5))
        producer.send_offsets_to_transaction({T0: round_}, GROUP)
        if round_ == 1:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
        broker.heal()
    # The second round was aborted, so none of its values are returned, even if some of its records were sent.
    assert read(broker)[0] == [f"{i}" for i in (*range(5), *range(10, 15))]
    assert committed(broker) == 2


@both_versions
def test_coordinator_move_between_send_and_commit(broker: Broker, transactional: NewProducer) -> None:
    producer = transactional()
    for round_ in range(6):
        producer.begin_transaction()
        send(producer, range(5 * round_, 5 * round_ + 5))[-1].result(10)
        broker.move_transaction_coordinator("x", round_ % 2)
        send(producer, range(1), 1)
        broker.move_coordinator("g", round_ % 2)
        producer.send_offsets_to_transaction({T0: round_}, GROUP)
        broker.move_transaction_coordinator("x", (round_ + 1) % 2)
        producer.commit_transaction()
    assert read(broker) == {0: [f"{i}" for i in range(30)], 1: ["0"] * 6}
    assert committed(broker) == 5


@both_versions
@pytest.mark.parametrize("handled", [False, True], ids=["not done", "done"])
@pytest.mark.parametrize("error", ["UNKNOWN_SERVER_ERROR", "INVALID_TXN_STATE", "SECURITY_DISABLED"])
def test_commit_errors_are_fatal(broker: Broker, transactional: NewProducer, error: str, handled: bool) -> None:
    producer = transactional()
    producer.begin_transaction()
    send(producer, range(5))
    broker.fail("EndTxn", error=error, handled=handled)
    with pytest.raises(KafkaError) as raised:
        producer.commit_transaction()
    assert raised.value.name == error
    assert raised.value.fatal
    for call in (producer.commit_transaction, producer.abort_transaction, producer.begin_transaction):
        with pytest.raises(KafkaError) as raised:
            call()
        assert raised.value.name == error


@both_versions
@pytest.mark.parametrize(
    "api", ["InitProducerId", "EndTxn", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit"]
)
@pytest.mark.parametrize(
    ("error", "raises"),
    [
        ("PRODUCER_FENCED", "PRODUCER_FENCED"),
        ("INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED"),
        ("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
    ],
)
def test_fatal_errors(
    broker: Broker, transactional: NewProducer, version: int, api: str, error: str, raises: str
) -> None:
    if version == 2 and api.startswith("Add"):
        pytest.skip("not sent in the second protocol")
    producer = transactional()
    broker.fail(api, error=error)

    def run_transaction() -> None:
        producer.begin_transaction()
        send(producer, range(5))
        producer.send_offsets_to_transaction({T0: 5}, GROUP)
        producer.commit_transaction()

    for call in (run_transaction, producer.begin_transaction, producer.commit_transaction, producer.abort_transaction):
        with pytest.raises(KafkaError) as raised:
            call()
        assert (raised.value.name, raised.value.fatal, raised.value.abortable) == (raises, True, False)
    # The next producer with this transactional.id aborts the open transaction.
    transactional().init_transactions()
    assert read(broker)[0] == []
    assert committed(broker) is None


@pytest.mark.parametrize("version", [1])
@pytest.mark.parametrize("error", ["PRODUCER_FENCED", "TOPIC_AUTHORIZATION_FAILED"])
def test_rejected_registration_is_not_retried(broker: Broker, transactional: NewProducer, error: str) -> None:
    producer = transactional()
    producer.begin_transaction()
    broker.fail("AddPartitionsToTxn", error=error, times=None)
    rejected = send(producer, range(1))
    with pytest.raises(KafkaError):
        rejected[-1].result(10)
    time.sleep(0.3)
    assert broker.requests()["AddPartitionsToTxn"] == 1
    with pytest.raises(KafkaError):
        producer.commit_transaction()


@both_versions
@pytest.mark.parametrize(
    ("api", "error"),
    [
        ("Produce", "INVALID_RECORD"),
        ("Produce", "TOPIC_AUTHORIZATION_FAILED"),
        ("Produce", "TRANSACTION_ABORTABLE"),
        ("Produce", "INVALID_TXN_STATE"),
        ("Produce", "OUT_OF_ORDER_SEQUENCE_NUMBER"),
        ("Produce", "UNKNOWN_PRODUCER_ID"),
        ("EndTxn", "TRANSACTION_ABORTABLE"),
        ("AddPartitionsToTxn", "TOPIC_AUTHORIZATION_FAILED"),
        ("AddPartitionsToTxn", "TRANSACTION_ABORTABLE"),
        ("AddPartitionsToTxn", "INVALID_PRODUCER_ID_MAPPING"),
        ("AddOffsetsToTxn", "GROUP_AUTHORIZATION_FAILED"),
        ("TxnOffsetCommit", "ILLEGAL_GENERATION"),
        ("TxnOffsetCommit", "UNKNOWN_MEMBER_ID"),
        ("TxnOffsetCommit", "FENCED_INSTANCE_ID"),
        ("TxnOffsetCommit", "OFFSET_METADATA_TOO_LARGE"),
        ("TxnOffsetCommit", "TRANSACTION_ABORTABLE"),
    ],
)
def test_abortable_errors(broker: Broker, transactional: NewProducer, version: int, api: str, error: str) -> None:
    if version == 2 and api.startswith("Add"):
        pytest.skip("not sent in the second protocol")
    producer = transactional()
    with producer.transaction():
        send(producer, range(3))
    broker.fail(api, error=error)

    def run_transaction() -> None:
        producer.begin_transaction()
        send(producer, range(100, 105))
        producer.send_offsets_to_transaction({T0: 5}, GROUP)
        producer.commit_transaction()

    for call in (
        run_transaction,
        producer.commit_transaction,
        producer.begin_transaction,
        lambda: send(producer, range(1)),
    ):
        with pytest.raises(KafkaError) as raised:
            call()
        assert (raised.value.name, raised.value.fatal, raised.value.abortable) == (error, False, True)
    producer.abort_transaction()
    for first in (3, 6):
        with producer.transaction():
            send(producer, range(first, first + 3))
            producer.send_offsets_to_transaction({T0: first}, GROUP)
    assert read(broker)[0] == [f"{i}" for i in range(9)]
    assert committed(broker) == 6


@both_versions
@pytest.mark.parametrize("fault", [{"delay": 2.5}, {"drop": "before"}], ids=["written late", "never written"])
def test_expired_record_makes_the_transaction_abortable(
    broker: Broker, transactional: NewProducer, version: int, fault: dict[str, Any]
) -> None:
    # The backoff is short, so that the producer reconnects in time even after many failed attempts.
    patient = {"reconnect_backoff_ms": 20, "reconnect_backoff_max_ms": 50}
    producer = transactional(delivery_timeout_ms=2000, request_timeout_ms=1200, linger_ms=0, **patient)
    with producer.transaction():
        send(producer, range(3))
    broker.fail("Produce", times=None, **fault)
    producer.begin_transaction()
    [late] = send(producer, range(100, 101))
    with pytest.raises(TransactionAbortableError, match=r"delivery of 1 records to t-0"):
        producer.commit_transaction()
    with pytest.raises(TransactionAbortableError):
        late.result(0)
    broker.heal()
    producer.abort_transaction()
    # The broker may have appended the batch, so the producer must not reuse the sequences of its epoch.
    with producer.transaction():
        send(producer, range(3, 6))
    assert broker.requests("InitProducerId") == (2 if version == 1 else 1)
    time.sleep(2.7)
    with producer.transaction():
        send(producer, range(6, 9))
    assert read(broker)[0] == [f"{i}" for i in range(9)]


@both_versions
def test_next_transaction_waits_for_the_markers_of_the_last(version: int) -> None:
    options = {"transaction_version": version, "transaction_marker_delay": 0.15}
    with Broker(topics={"t": 2}, **options) as broker:  # type: ignore[arg-type]
        with Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id="x") as producer:
            for i in range(4):
                with producer.transaction():
                    send(producer, range(3 * i, 3 * i + 3))
                    producer.send_offsets_to_transaction({T0: i}, GROUP)
            producer.begin_transaction()
            producer.abort_transaction()
        until(lambda: len(read(broker)[0]) >= 12)
        assert read(broker)[0] == [f"{i}" for i in range(12)]
        assert committed(broker) == 3


def test_partition_waits_only_for_its_own_registration(new_producer: NewProducer) -> None:
    with Broker(topics={"t": 2}, transaction_version=1) as broker:
        options = {"linger_ms": 0, "transactional_id": "x"}
        with Producer(bootstrap_servers=broker.bootstrap_servers, **options) as producer, producer.transaction():
            send(producer, range(1), 0)[0].result(10)
            broker.fail("AddPartitionsToTxn", delay=4.0)
            [waiting] = send(producer, range(1), 1)
            started = time.monotonic()
            send(producer, range(1), 0)[0].result(10)
            assert time.monotonic() - started < 3.0
            assert not waiting.done()
        assert waiting.result(0).offset == 0


def test_abort_drops_records_of_unregistered_partitions() -> None:
    with Broker(topics={"t": 2}, transaction_version=1) as broker:
        with Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id="x") as producer:
            producer.init_transactions()
            broker.fail("AddPartitionsToTxn", error="CONCURRENT_TRANSACTIONS", times=None)
            producer.begin_transaction()
            [waiting] = send(producer, range(1))
            time.sleep(0.1)
            producer.abort_transaction()
            with pytest.raises(TransactionAbortedError):
                waiting.result(0)
            assert broker.requests().get("EndTxn", 0) == 0
            broker.heal()
            with producer.transaction():
                send(producer, range(1, 2))
        assert read(broker)[0] == ["1"]


@both_versions
def test_timed_out_commit_can_be_repeated(broker: Broker, transactional: NewProducer) -> None:
    producer = transactional()
    producer.begin_transaction()
    send(producer, range(5))
    broker.fail("EndTxn", delay=2.5)
    with pytest.raises(KafkaTimeoutError, match="call commit_transaction again") as raised:
        producer.commit_transaction(0.3)
    assert raised.value.retriable
    assert not raised.value.abortable
    for call in (producer.abort_transaction, producer.begin_transaction, lambda: send(producer, range(1))):
        with pytest.raises(IllegalStateError):
            call()
    producer.commit_transaction()
    assert broker.requests("EndTxn") == 1
    with producer.transaction():
        send(producer, range(5, 10))
    assert read(broker)[0] == [f"{i}" for i in range(10)]


def test_ctrl_c_leaves_a_commit_running(broker: Broker, transactional: NewProducer) -> None:
    producer = transactional()
    producer.begin_transaction()
    send(producer, range(5))
    broker.fail("EndTxn", delay=3.0)
    main = threading.main_thread().ident
    assert main is not None

    def interrupt() -> None:
        # The signal must arrive while the main thread is in the call. Otherwise it would end the test run.
        until(lambda: broker.requests("EndTxn"))
        signal.pthread_kill(main, signal.SIGINT)

    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    with pytest.raises(KeyboardInterrupt):
        producer.commit_transaction()
    interrupting.join()
    producer.commit_transaction()
    assert broker.requests("EndTxn") == 1
    assert read(broker)[0] == [f"{i}" for i in range(5)]


@pytest.mark.parametrize("api", ["FindCoordinator", "InitProducerId"])
def test_timed_out_init_can_be_repeated(broker: Broker, transactional: NewProducer, api: str) -> None:
    producer = transactional()
    broker.fail(api, error="COORDINATOR_LOAD_IN_PROGRESS", times=None)
    with pytest.raises(KafkaTimeoutError, match="call init_transactions again"):
        producer.init_transactions(0.3)
    broker.heal()
    producer.init_transactions()
    with producer.transaction():
        send(producer, range(5))
    assert read(broker)[0] == [f"{i}" for i in range(5)]


@both_versions
def test_close_waits_for_a_commit_and_aborts_an_open_transaction(broker: Broker, transactional: NewProducer) -> None:
    producer = transactional()
    producer.begin_transaction()
    send(producer, range(5))
    broker.fail("EndTxn", delay=2.0)
    with pytest.raises(KafkaTimeoutError):
        producer.commit_transaction(0.1)
    producer.close()
    assert read(broker)[0] == [f"{i}" for i in range(5)]
    # The record is not sent before the producer is closed, because `linger_ms` is long.
    producer = transactional(linger_ms=60_000)
    producer.begin_transaction()
    [dropped] = send(producer, range(100, 101))
    producer.close()
    with pytest.raises(TransactionAbortedError):
        dropped.result(0)
    producer = transactional()
    producer.begin_transaction()
    send(producer, range(100, 101))[0].result(10)
    broker.fail("EndTxn", drop="before", times=None)
    started = time.monotonic()
    producer.close(1)
    assert time.monotonic() - started < 15
    broker.heal()
    # The next producer with this transactional.id aborts the transaction that could not be aborted at close.
    with transactional().transaction() as producer:
        send(producer, range(5, 10))
    assert read(broker)[0] == [f"{i}" for i in range(10)]


def test_send_without_waiting_requests_metadata(servers: str) -> None:
    with Producer(bootstrap_servers=servers, max_block_ms=0) as producer:
        with pytest.raises(KafkaTimeoutError):
            producer.send("t", b"v")

        def sent() -> bool:
            try:
                producer.send("t", b"v")
            except KafkaTimeoutError:
                return False
            return True

        until(sent)
        producer.flush()
