"""Failures of deliveries that the application has not read are raised by `flush` and `close`, or logged."""

import asyncio
import logging
import time

import anyio
import pyarrow as pa
import pytest

from samsarrow import Admin, AsyncProducer, NewTopic, Producer
from samsarrow.exceptions import (
    ConfigurationError,
    KafkaError,
    KafkaTimeoutError,
    MessageTooLargeError,
    TopicAuthorizationFailedError,
)

DENIED = "10 records were not delivered: 10 to topic t (TopicAuthorizationFailedError)"


@pytest.fixture
def denied(broker):
    broker.fail("Produce", error="TOPIC_AUTHORIZATION_FAILED", times=None)


def send_ten(producer):
    return [producer.send("t", b"v") for _ in range(10)]


def errors(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.usefixtures("denied")
def test_flush_raises_once_for_unread_failures(servers, caplog):
    with Producer(bootstrap_servers=servers) as producer:
        send_ten(producer)
        with pytest.raises(TopicAuthorizationFailedError) as caught:
            producer.flush(30)
        assert f"flush: {DENIED}" in str(caught.value)
        producer.flush(30)
        producer.send_batch("t", pa.table({"value": ["a"] * 10}))
        with pytest.raises(TopicAuthorizationFailedError, match="flush: 10 records"):
            producer.flush(30)
    assert errors(caplog) == []


@pytest.mark.usefixtures("denied")
def test_close_raises_for_unread_failures(servers):
    producer = Producer(bootstrap_servers=servers)
    send_ten(producer)
    with pytest.raises(TopicAuthorizationFailedError, match="close: 10 records"):
        producer.close()
    producer.close()
    with (
        pytest.raises(TopicAuthorizationFailedError, match="close: 10 records"),
        Producer(bootstrap_servers=servers) as producer,
    ):
        send_ten(producer)


@pytest.mark.usefixtures("denied")
def test_async_producer_raises_for_unread_failures(servers):
    async def main():
        producer = AsyncProducer(bootstrap_servers=servers)
        for _ in range(10):
            await producer.send("t", b"v")
        with pytest.raises(TopicAuthorizationFailedError, match="flush: 10 records"):
            await producer.flush(30)
        with pytest.raises(TopicAuthorizationFailedError, match="close: 1 records"):
            async with producer:
                await producer.send("t", b"v")
        async with AsyncProducer(bootstrap_servers=servers) as producer:
            deliveries = [await producer.send("t", b"v") for _ in range(10)]
            # `flush` runs concurrently with tasks that await the deliveries.
            failures, _ = await asyncio.gather(asyncio.gather(*deliveries, return_exceptions=True), producer.flush(30))
            assert len(failures) == 10
            with pytest.raises(TopicAuthorizationFailedError):
                await producer.send_and_wait("t", b"v")
            with pytest.raises(TopicAuthorizationFailedError):
                await (await producer.send_batch("t", pa.table({"value": ["a"] * 10})))

    asyncio.run(main())


@pytest.mark.usefixtures("denied")
def test_read_failures_are_not_raised_again(servers, caplog):
    called, done = [], []
    with Producer(bootstrap_servers=servers) as producer:
        deliveries = send_ten(producer)
        with pytest.raises(KafkaError):
            deliveries[0].result(30)
        assert all(delivery.exception(30) for delivery in deliveries[1:])
        producer.send("t", b"v", on_delivery=lambda metadata, error: called.append(error))
        producer.send("t", b"v").add_done_callback(done.append)
        batch = producer.send_batch("t", pa.table({"value": ["a"] * 100_000}))
        assert batch.exception(30)
        producer.flush(30)
        assert len(called) == len(done) == 1
    assert errors(caplog) == []


@pytest.mark.usefixtures("denied")
def test_outcomes_mark_a_delivery_as_read(servers):
    with Producer(bootstrap_servers=servers, linger_ms=60_000) as producer:
        batch = producer.send_batch("t", pa.table({"value": ["a"]}))
        assert batch.outcomes() == []
        with pytest.raises(TopicAuthorizationFailedError, match="flush: 1 records"):
            producer.flush(30)
    with Producer(bootstrap_servers=servers) as producer:
        batch = producer.send_batch("t", pa.table({"value": ["a"] * 10}))
        deadline = time.monotonic() + 30
        while not batch.done() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert [type(part.error) for part in batch.outcomes()] == [TopicAuthorizationFailedError]
        producer.flush(30)


@pytest.mark.usefixtures("denied")
def test_repr_and_done_do_not_mark_a_delivery_as_read(servers):
    with Producer(bootstrap_servers=servers) as producer:
        delivery, batch = producer.send("t", b"v"), producer.send_batch("t", pa.table({"value": ["a"]}))
        deadline = time.monotonic() + 30
        while not (delivery.done() and batch.done()) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert "failed" in repr(delivery)
        assert "failed" in repr(batch)
        with pytest.raises(KafkaError, match="flush: 2 records"):
            producer.flush(30)


@pytest.mark.usefixtures("denied")
def test_errors_log(servers, caplog):
    with Producer(bootstrap_servers=servers, errors="log") as producer:
        send_ten(producer)
        producer.flush(30)
        send_ten(producer)
        with pytest.raises(KafkaError):
            producer.flush(30, errors="raise")
        send_ten(producer)
    with Producer(bootstrap_servers=servers) as producer:
        send_ten(producer)
        producer.flush(30, errors="log")
        send_ten(producer)
        producer.close(errors="log")
    deadline = time.monotonic() + 30
    while len(errors(caplog)) < 4 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(errors(caplog)) == 4
    for line in errors(caplog):
        assert line.startswith(
            "10 records for topic t were not delivered, and the application has not read their deliveries: "
        )
    fine = Producer(bootstrap_servers=servers)
    for bad in (lambda: Producer(bootstrap_servers=servers, errors="hide"), lambda: fine.flush(errors="no")):
        with pytest.raises(ConfigurationError, match='errors must be "raise" or "log"'):
            bad()
    fine.close()


@pytest.mark.usefixtures("denied")
def test_exception_of_a_with_block_is_not_hidden(servers, caplog):
    def block():
        with Producer(bootstrap_servers=servers) as producer:
            send_ten(producer)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        block()
    deadline = time.monotonic() + 30
    while not errors(caplog) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(errors(caplog)) == 1


def test_failures_are_counted_by_topic_and_error(servers):
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic("small", configs={"max.message.bytes": "100"})])
    with Producer(bootstrap_servers=servers, enable_idempotence=False) as producer:
        for _ in range(3):
            producer.send("small", b"x" * 500).exception(30)
            producer.send("small", b"x" * 500)
        producer.send("t", b"fine")
        with pytest.raises(MessageTooLargeError, match=r"3 records were not delivered: 3 to topic small"):
            producer.flush(30)


@pytest.mark.usefixtures("denied")
def test_failures_without_flush_are_logged(servers, caplog):
    producer = Producer(bootstrap_servers=servers)
    deliveries = send_ten(producer)
    deliveries[0].exception(30)
    deadline = time.monotonic() + 60
    while not errors(caplog) and time.monotonic() < deadline:
        time.sleep(0.05)
    [line] = errors(caplog)
    assert line.startswith("9 records for topic t were not delivered")
    producer.close(errors="log")
    # Each failure is logged only once.
    assert len(errors(caplog)) == 1


def test_transaction_failures_are_raised_by_commit(broker, servers, caplog):
    broker.fail("Produce", error="TOPIC_AUTHORIZATION_FAILED", times=1)
    # One batch: a batch that fails before the last `send` fails that `send`.
    with Producer(bootstrap_servers=servers, transactional_id="x", linger_ms=5000) as producer:
        producer.begin_transaction()
        send_ten(producer)
        producer.flush(30)
        with pytest.raises(TopicAuthorizationFailedError):
            producer.commit_transaction()
        producer.abort_transaction()
    assert errors(caplog) == []


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_cancelled_await_does_not_mark_a_delivery_as_read(broker, servers, backend):
    async def main():
        async with AsyncProducer(bootstrap_servers=servers, errors="log") as producer:
            broker.fail("Produce", delay=1.0, error="TOPIC_AUTHORIZATION_FAILED", times=None)
            for send in (
                lambda: producer.send("t", b"v"),
                lambda: producer.send_batch("t", pa.table({"value": ["a"]})),
            ):
                delivery = await send()
                with anyio.move_on_after(0.1) as scope:
                    await delivery
                assert scope.cancelled_caught
                with pytest.raises(TopicAuthorizationFailedError, match="flush: 1 records were not delivered"):
                    await producer.flush(30, errors="raise")
                # The result of the delivery is still available.
                with pytest.raises(TopicAuthorizationFailedError):
                    await delivery
                await producer.flush(30, errors="raise")

    anyio.run(main, backend=backend)


def test_timed_out_result_does_not_mark_a_delivery_as_read(broker, servers):
    with Producer(bootstrap_servers=servers, errors="log") as producer:
        broker.fail("Produce", delay=1.0, error="TOPIC_AUTHORIZATION_FAILED", times=None)
        deliveries = [producer.send("t", b"v"), producer.send_batch("t", pa.table({"value": ["a"] * 2}))]
        for delivery in deliveries:
            with pytest.raises(KafkaTimeoutError):
                delivery.result(0.1)
        with pytest.raises(TopicAuthorizationFailedError, match="flush: 3 records were not delivered"):
            producer.flush(30, errors="raise")


def test_cancelled_flush_keeps_unread_failures(broker, servers):
    async def main():
        async with AsyncProducer(bootstrap_servers=servers, errors="log") as producer:
            broker.fail("Produce", delay=1.0, error="TOPIC_AUTHORIZATION_FAILED", times=None)
            delivery = await producer.send("t", b"v")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(producer.flush(30, errors="raise"), 0.1)
            while not delivery.done():
                await asyncio.sleep(0.05)
            with pytest.raises(TopicAuthorizationFailedError, match="flush: 1 records were not delivered"):
                await producer.flush(30, errors="raise")

    asyncio.run(main())
