"""Failed records whose deliveries the application has not read: `flush` and `close` raise them, or the log has them."""

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


def ten(producer):
    return [producer.send("t", b"v") for _ in range(10)]


def errors(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.usefixtures("denied")
def test_flush_raises_once_for_records_whose_deliveries_nothing_has_read(servers, caplog):
    with Producer(bootstrap_servers=servers) as producer:
        ten(producer)
        with pytest.raises(TopicAuthorizationFailedError) as caught:
            producer.flush(30)
        assert f"flush: {DENIED}" in str(caught.value)
        producer.flush(30)
        producer.send_batch("t", pa.table({"value": ["a"] * 10}))
        with pytest.raises(TopicAuthorizationFailedError, match="flush: 10 records"):
            producer.flush(30)
    assert errors(caplog) == []


@pytest.mark.usefixtures("denied")
def test_close_and_the_end_of_a_block_raise(servers):
    producer = Producer(bootstrap_servers=servers)
    ten(producer)
    with pytest.raises(TopicAuthorizationFailedError, match="close: 10 records"):
        producer.close()
    producer.close()
    with (
        pytest.raises(TopicAuthorizationFailedError, match="close: 10 records"),
        Producer(bootstrap_servers=servers) as producer,
    ):
        ten(producer)


@pytest.mark.usefixtures("denied")
def test_the_awaiting_face_raises_as_well(servers):
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
            # A flush beside tasks that await the deliveries.
            failures, _ = await asyncio.gather(asyncio.gather(*deliveries, return_exceptions=True), producer.flush(30))
            assert len(failures) == 10
            with pytest.raises(TopicAuthorizationFailedError):
                await producer.send_and_wait("t", b"v")
            with pytest.raises(TopicAuthorizationFailedError):
                await (await producer.send_batch("t", pa.table({"value": ["a"] * 10})))

    asyncio.run(main())


@pytest.mark.usefixtures("denied")
def test_what_the_program_has_read_is_not_raised_again(servers, caplog):
    called, done = [], []
    with Producer(bootstrap_servers=servers) as producer:
        deliveries = ten(producer)
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
def test_outcomes_read_a_delivery_once_they_are_there(servers):
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
def test_texts_and_states_of_deliveries_are_no_reading(servers):
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
def test_errors_can_be_logged_instead(servers, caplog):
    with Producer(bootstrap_servers=servers, errors="log") as producer:
        ten(producer)
        producer.flush(30)
        ten(producer)
        with pytest.raises(KafkaError):
            producer.flush(30, errors="raise")
        ten(producer)
    with Producer(bootstrap_servers=servers) as producer:
        ten(producer)
        producer.flush(30, errors="log")
        ten(producer)
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
def test_what_a_block_raises_is_not_hidden(servers, caplog):
    def block():
        with Producer(bootstrap_servers=servers) as producer:
            ten(producer)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        block()
    deadline = time.monotonic() + 30
    while not errors(caplog) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(errors(caplog)) == 1


def test_causes_are_counted_by_topic_and_error(servers):
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
def test_a_program_that_never_flushes_finds_it_in_the_log(servers, caplog):
    producer = Producer(bootstrap_servers=servers)
    deliveries = ten(producer)
    deliveries[0].exception(30)
    deadline = time.monotonic() + 60
    while not errors(caplog) and time.monotonic() < deadline:
        time.sleep(0.05)
    [line] = errors(caplog)
    assert line.startswith("9 records for topic t were not delivered")
    producer.close(errors="log")
    # It was logged already.
    assert len(errors(caplog)) == 1


def test_a_transaction_reports_its_failures_by_its_commit(broker, servers, caplog):
    broker.fail("Produce", error="TOPIC_AUTHORIZATION_FAILED", times=1)
    with Producer(bootstrap_servers=servers, transactional_id="x") as producer:
        producer.begin_transaction()
        ten(producer)
        producer.flush(30)
        with pytest.raises(TopicAuthorizationFailedError):
            producer.commit_transaction()
        producer.abort_transaction()
    assert errors(caplog) == []


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_cancelled_await_of_a_delivery_reads_nothing(broker, servers, backend):
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
                # The delivery still has its result.
                with pytest.raises(TopicAuthorizationFailedError):
                    await delivery
                await producer.flush(30, errors="raise")

    anyio.run(main, backend=backend)


def test_a_wait_that_timed_out_reads_nothing(broker, servers):
    with Producer(bootstrap_servers=servers, errors="log") as producer:
        broker.fail("Produce", delay=1.0, error="TOPIC_AUTHORIZATION_FAILED", times=None)
        deliveries = [producer.send("t", b"v"), producer.send_batch("t", pa.table({"value": ["a"] * 2}))]
        for delivery in deliveries:
            with pytest.raises(KafkaTimeoutError):
                delivery.result(0.1)
        with pytest.raises(TopicAuthorizationFailedError, match="flush: 3 records were not delivered"):
            producer.flush(30, errors="raise")


def test_a_cancelled_flush_takes_no_failures(broker, servers):
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
