"""Streams: the conditions that end them, their commits, and their signal handlers."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from samsarrow import Consumer, Producer, RebalanceListener, TopicPartition
from samsarrow.exceptions import (
    BadValueError,
    ConfigurationError,
    IllegalStateError,
    KafkaTimeoutError,
    WakeupError,
)
from samsarrow.testing import Broker

T0 = TopicPartition("t", 0)
FOUR = [TopicPartition("four", partition) for partition in range(4)]
SIGNALS = (signal.SIGINT, signal.SIGTERM)


def fill(servers: str, topic: str, rows: int, partitions: int = 1) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        for row in range(rows):
            producer.send(topic, str(row), partition=row % partitions)


@pytest.fixture
def subscribed(servers: str) -> Iterator[Callable[..., Consumer]]:
    """Returns a function that creates a member of group g."""
    opened = []

    def member(topic: str = "t", **options: Any) -> Consumer:
        defaults = {"auto_offset_reset": "earliest", "max_poll_records": 10, "group_id": "g"}
        opened.append(Consumer(bootstrap_servers=servers, **(defaults | options)))
        opened[-1].subscribe([topic])
        return opened[-1]

    yield member
    for consumer in opened:
        consumer.close()


def committed(consumer: Consumer, tp: TopicPartition = T0) -> int | None:
    offset = consumer.committed(tp)[tp]
    return None if offset is None else offset.offset


@pytest.fixture
def unchanged_handlers() -> Iterator[None]:
    before = [signal.getsignal(number) for number in SIGNALS]
    yield
    assert [signal.getsignal(number) for number in SIGNALS] == before


def send_soon(number: int, seconds: float = 0.3) -> threading.Thread:
    def send() -> None:
        time.sleep(seconds)
        os.kill(os.getpid(), number)

    thread = threading.Thread(target=send)
    thread.start()
    return thread


def test_stream_ends_when_idle_and_commits(servers: str, subscribed: Callable[..., Consumer]) -> None:
    fill(servers, "t", 35)
    consumer = subscribed()
    stream = consumer.stream(idle=timedelta(seconds=1))
    assert sum(batch.num_rows for batch in stream) == 35
    assert stream.ended_by == "idle"
    assert committed(consumer) == 35
    assert list(stream) == []


def test_time_to_join_the_group_is_not_idle(broker: Broker, servers: str, subscribed: Callable[..., Consumer]) -> None:
    fill(servers, "t", 5)
    broker.fail("JoinGroup", delay=2.5, times=1)
    assert sum(batch.num_rows for batch in subscribed().stream(idle=1)) == 5


def test_idle_stream_fails_if_the_group_assigns_nothing(broker: Broker, subscribed: Callable[..., Consumer]) -> None:
    broker.fail("JoinGroup", error="COORDINATOR_LOAD_IN_PROGRESS", times=None)
    started = time.monotonic()
    with pytest.raises(KafkaTimeoutError, match="joining the group took longer than 1 s"):
        next(subscribed(default_api_timeout_ms=1000, request_timeout_ms=500).stream(idle=0.1))
    assert 1.0 <= time.monotonic() - started < 5.0
    broker.heal("JoinGroup")


@pytest.mark.parametrize("max_rows", [1, 10, 25])
def test_stream_returns_no_more_than_max_rows(servers: str, subscribed: Callable[..., Consumer], max_rows: int) -> None:
    fill(servers, "t", 60)
    consumer = subscribed()
    offsets: list[int] = []
    for round_ in (1, 2):
        stream = consumer.stream(max_rows=max_rows)
        for batch in stream:
            offsets += batch["offset"].to_pylist()
        assert stream.ended_by == "max_rows"
        assert offsets == list(range(round_ * max_rows))
        assert committed(consumer) == consumer.position(T0) == round_ * max_rows


def test_stream_without_automatic_commits_commits_nothing(servers: str, subscribed: Callable[..., Consumer]) -> None:
    fill(servers, "t", 5)
    consumer = subscribed(enable_auto_commit=False)
    assert sum(batch.num_rows for batch in consumer.stream(max_rows=5)) == 5
    assert committed(consumer) is None


@pytest.mark.usefixtures("unchanged_handlers")
@pytest.mark.parametrize("number", SIGNALS)
def test_signal_while_a_batch_is_processed(
    servers: str, subscribed: Callable[..., Consumer], number: signal.Signals
) -> None:
    fill(servers, "t", 50)
    consumer = subscribed()
    stream = consumer.stream(signals=True)
    batches = 0
    for _ in stream:
        batches += 1
        os.kill(os.getpid(), number)
        # A call that waits for brokers is not interrupted.
        consumer.commit()
    assert (batches, stream.ended_by, stream.signal) == (1, "signal", number)
    assert committed(consumer) == 10


@pytest.mark.usefixtures("unchanged_handlers")
def test_signal_while_the_stream_waits(servers: str, subscribed: Callable[..., Consumer]) -> None:
    fill(servers, "t", 5)
    consumer = subscribed()
    thread = send_soon(signal.SIGTERM, 0.5)
    stream = consumer.stream(signals=True)
    assert sum(batch.num_rows for batch in stream) == 5
    thread.join()
    assert (stream.ended_by, committed(consumer)) == ("signal", 5)
    # Later streams ignore a signal that was reported.
    assert [batch.num_rows for batch in consumer.stream(idle=0.2, signals=True)] == []


@pytest.mark.usefixtures("unchanged_handlers")
def test_second_signal_has_its_usual_effect(servers: str, subscribed: Callable[..., Consumer]) -> None:
    fill(servers, "t", 50)
    consumer = subscribed()

    def read() -> None:
        for _ in consumer.stream(signals=True):
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(5)

    with pytest.raises(KeyboardInterrupt):
        read()
    assert committed(consumer) is None


@pytest.mark.usefixtures("unchanged_handlers")
@pytest.mark.parametrize("leave", ["break", "exception", "close", "with"])
def test_left_loop_restores_handlers_and_keeps_the_signal(
    servers: str, subscribed: Callable[..., Consumer], leave: str
) -> None:
    fill(servers, "t", 50)
    consumer = subscribed(enable_auto_commit=False)
    before = signal.getsignal(signal.SIGTERM)

    def read() -> None:
        if leave == "with":
            with consumer.stream(signals=True) as stream:
                next(stream)
                os.kill(os.getpid(), signal.SIGTERM)
                return
        stream = consumer.stream(signals=True)
        for _ in stream:
            assert signal.getsignal(signal.SIGTERM) != before
            os.kill(os.getpid(), signal.SIGTERM)
            if leave == "exception":
                raise ZeroDivisionError
            if leave == "close":
                stream.close()
                continue
            break

    if leave == "exception":
        with pytest.raises(ZeroDivisionError):
            read()
    else:
        read()
    assert signal.getsignal(signal.SIGTERM) == before
    # The next stream reports the signal, so that an application that reads streams in a loop ends.
    after = consumer.stream(signals=True)
    assert (list(after), after.ended_by, after.signal) == ([], "signal", signal.SIGTERM)
    assert consumer.position(T0) == 10


@pytest.mark.usefixtures("unchanged_handlers")
def test_records_end_after_a_signal_and_keep_the_rest(servers: str, subscribed: Callable[..., Consumer]) -> None:
    fill(servers, "four", 400, partitions=4)
    consumer = subscribed("four", max_poll_records=1000)
    seen: list[tuple[int, int]] = []
    for record in consumer.stream(signals=True).records():
        seen.append((record.partition, record.offset))
        if len(seen) == 130:
            os.kill(os.getpid(), signal.SIGTERM)
    assert len(seen) == 130
    counts = {tp: sum(partition == tp.partition for partition, _ in seen) for tp in FOUR}
    assert {tp: committed(consumer, tp) or 0 for tp in FOUR} == counts
    seen += [(record.partition, record.offset) for record in consumer.stream(idle=2).records()]
    assert sorted(seen) == [(partition, offset) for partition in range(4) for offset in range(100)]


def test_records_after_a_seek_of_the_application_are_returned_to_the_end_of_the_batch(
    servers: str, subscribed: Callable[..., Consumer]
) -> None:
    fill(servers, "t", 50)
    consumer = subscribed()
    offsets = []
    for record in consumer.stream(signals=True).records():
        offsets.append(record.offset)
        if record.offset == 3:
            consumer.seek(T0, 20)
            os.kill(os.getpid(), signal.SIGTERM)
    assert offsets == list(range(10))
    assert consumer.position(T0) == 20


def test_records_respect_max_rows(servers: str, subscribed: Callable[..., Consumer]) -> None:
    fill(servers, "t", 50)
    assert [record.offset for record in subscribed().stream(max_rows=15).records()] == list(range(15))


def test_max_rows_does_not_make_batches_larger(servers: str, subscribed: Callable[..., Consumer]) -> None:
    fill(servers, "t", 50)
    sizes = [batch.num_rows for batch in subscribed(max_poll_records="10").stream(max_rows=45)]
    assert sum(sizes) == 45
    assert max(sizes) == 10


def test_records_continue_after_a_loop_that_was_left(servers: str, subscribed: Callable[..., Consumer]) -> None:
    fill(servers, "t", 20)
    stream = subscribed().stream(max_rows=15)
    assert [next(stream.records()).offset for _ in range(3)] == [0, 1, 2]
    assert [record.offset for record in stream.records()] == list(range(3, 15))


def test_signals_need_the_main_thread(subscribed: Callable[..., Consumer]) -> None:
    consumer, caught = subscribed(), list[Exception]()

    def create() -> None:
        try:
            consumer.stream(signals=True)
        except IllegalStateError as error:
            caught.append(error)

    thread = threading.Thread(target=create)
    thread.start()
    thread.join()
    assert "only the main thread" in str(caught[0])


@pytest.mark.usefixtures("unchanged_handlers")
def test_ignored_signals_stay_ignored(servers: str, subscribed: Callable[..., Consumer]) -> None:
    fill(servers, "t", 5)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        for _ in subscribed().stream(max_rows=5, signals=True):
            assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("unchanged_handlers")
def test_forked_child_is_ended_by_its_signal(servers: str, subscribed: Callable[..., Consumer]) -> None:
    fill(servers, "t", 5)
    for _ in subscribed().stream(max_rows=5, signals=True):
        ready, report = os.pipe()
        child = os.fork()
        if child == 0:
            # Python discards signals that arrive before its own work after a fork.
            os.write(report, b"1")
            time.sleep(60)
            os._exit(0)
        os.read(ready, 1)
        os.kill(child, signal.SIGTERM)
        assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGTERM


def test_stream_continues_after_errors(servers: str, subscribed: Callable[..., Consumer]) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        for value in (bytes(8), b"bad", bytes(8)):
            producer.send("t", value)
    consumer = subscribed(value_format="long")
    stream = consumer.stream(idle=2)
    assert next(stream).num_rows == 1
    with pytest.raises(BadValueError):
        next(stream)
    consumer.seek(T0, 2)
    consumer.wakeup()
    with pytest.raises(WakeupError):
        next(stream)
    assert [batch["offset"].to_pylist() for batch in stream] == [[2]]


def test_exception_in_the_loop_commits_only_earlier_batches(servers: str) -> None:
    fill(servers, "t", 50)
    options = {"bootstrap_servers": servers, "group_id": "g", "auto_offset_reset": "earliest", "max_poll_records": 10}

    def read() -> None:
        with Consumer(options) as consumer:
            consumer.subscribe(["t"])
            for batch in consumer.stream():
                if batch["offset"][0].as_py() == 20:
                    raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        read()
    with Consumer(options) as consumer:
        assert committed(consumer) == 20


def test_closed_consumer_ends_the_stream(servers: str, subscribed: Callable[..., Consumer]) -> None:
    fill(servers, "t", 50)
    consumer = subscribed()
    stream = consumer.stream()
    for _ in stream:
        consumer.close()
    assert stream.ended_by == "closed"


@pytest.mark.parametrize("options", [{"partition_assignment_strategy": "range"}, {"group_protocol": "consumer"}])
def test_streams_during_a_rebalance_return_each_row_once(
    servers: str, subscribed: Callable[..., Consumer], options: dict[str, str]
) -> None:
    fill(servers, "four", 400, partitions=4)
    lock, seen, revoked = threading.Lock(), list[tuple[int, int]](), threading.Event()

    def read(consumer: Consumer) -> None:
        for batch in consumer.stream(idle=3.0):
            with lock:
                seen.extend(zip(batch["partition"].to_pylist(), batch["offset"].to_pylist(), strict=True))
            time.sleep(0.05)

    first = subscribed("four", **options)
    listener = RebalanceListener(on_partitions_revoked=lambda partitions: revoked.set())
    first.subscribe(["four"], listener=listener)
    threads = [threading.Thread(target=read, args=(first,))]
    threads[0].start()
    while not seen:
        time.sleep(0.01)
    threads.append(threading.Thread(target=read, args=(subscribed("four", **options),)))
    threads[1].start()
    for thread in threads:
        thread.join(60)
    assert revoked.is_set()
    assert sorted(seen) == [(partition, offset) for partition in range(4) for offset in range(100)]


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"max_rows": 0}, ConfigurationError, "max_rows must be at least 1, not 0"),
        ({"max_rows": 1.5}, TypeError, "max_rows must be an int, not float"),
        ({"idle": 0}, ConfigurationError, "idle must be more than 0 seconds"),
        ({"idle": "5"}, TypeError, "a number of seconds or a timedelta"),
    ],
)
def test_invalid_arguments(
    subscribed: Callable[..., Consumer], arguments: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        subscribed().stream(**arguments)
