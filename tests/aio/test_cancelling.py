"""If a task is cancelled, no row, record or event is lost, and their order does not change."""

import asyncio
import os
import random
import threading
import time

import pyarrow as pa
import pytest

from aio.loops import COMMON, RUN, cancel_after, pause, together, within
from samsarrow import Admin, AsyncConsumer, AsyncProducer, Consumer, Producer, RebalanceListener, TopicPartition
from samsarrow.exceptions import IllegalStateError, KafkaTimeoutError

CANCELLATIONS = int(os.environ.get("SAMSARROW_CANCELLATIONS", "1000"))
ONLY = TopicPartition("t", 0)


@pytest.mark.parametrize("kind", COMMON)
def test_cancelled_polls_lose_and_repeat_no_row(servers: str, kind: str) -> None:
    stop, sent = threading.Event(), []

    def write() -> None:
        with Producer(bootstrap_servers=servers, linger_ms=0) as producer:
            while not stop.wait(0.0005):
                producer.send("four", str(len(sent)), partition=len(sent) % 4)
                sent.append(len(sent))

    async def main() -> None:
        cancelled, seen, chance = 0, [], random.Random(7)
        options = {"bootstrap_servers": servers, "max_poll_records": 3, "include_headers": True}
        async with AsyncConsumer(options) as consumer:
            consumer.assign([TopicPartition("four", partition) for partition in range(4)])
            await consumer.seek_to_beginning()
            while cancelled < CANCELLATIONS:
                batch = await within(chance.choice([1e-9, chance.uniform(0.0, 0.002)]), lambda: consumer.poll(5.0))
                if batch is None:
                    cancelled += 1
                else:
                    seen += batch.column("value").to_pylist()
            stop.set()
            writer.join()
            while len(seen) < len(sent):
                batch = await consumer.poll(30.0)
                assert batch.num_rows, (len(seen), len(sent))
                seen += batch.column("value").to_pylist()
        assert sorted(map(int, seen)) == sent
        for partition in range(4):
            ours = [int(value) for value in seen if int(value) % 4 == partition]
            assert ours == sorted(ours)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        RUN[kind](main)
    finally:
        stop.set()
        writer.join()


def test_a_second_poll_at_the_same_time_raises(servers: str) -> None:
    async def main() -> None:
        async with AsyncConsumer(bootstrap_servers=servers) as consumer:
            consumer.assign([ONLY])
            first = asyncio.ensure_future(consumer.poll(60.0))
            await asyncio.sleep(0.01)
            with pytest.raises(IllegalStateError, match="only one thread, task, listener or callback may poll"):
                await consumer.poll(0.0)
            first.cancel()
            await asyncio.wait([first])
            assert (await consumer.poll(0.0)).num_rows == 0

    RUN["asyncio"](main)


@pytest.mark.parametrize("kind", COMMON)
def test_cancelled_send_queues_nothing(broker, servers: str, kind: str) -> None:
    """The producer has memory for few records, and the broker is slow, so most sends wait for memory."""
    broker.fail("Produce", delay=0.2, times=10)
    queued: list[int] = []

    async def main() -> None:
        async with AsyncProducer(bootstrap_servers=servers, buffer_memory=2000, linger_ms=0) as producer:

            async def one(number: int) -> None:
                async def send() -> bool:
                    await producer.send("t", f"{number:0400}")
                    queued.append(number)
                    return True

                await within(0.3 if number % 2 else 60.0, send)

            await together(*(lambda number=number: one(number) for number in range(40)))
            await producer.flush()

    RUN[kind](main)
    assert len(queued) >= 20
    with Consumer(bootstrap_servers=servers) as consumer:
        consumer.assign([ONLY])
        consumer.seek_to_beginning()
        found = [int(value) for value in consumer.reader().read_all().column("value").to_pylist()]
    assert sorted(found) == sorted(queued)


def rows(count: int) -> pa.RecordBatch:
    return pa.record_batch({"value": [os.urandom(1000) for _ in range(count)]})


def committed(servers: str) -> int:
    options = {"bootstrap_servers": servers, "auto_offset_reset": "earliest", "isolation_level": "read_committed"}
    with Consumer(options) as consumer:
        consumer.assign([ONLY])
        return consumer.reader().read_all().num_rows


@pytest.mark.parametrize("kind", COMMON)
def test_cancelled_send_batch_reports_the_queued_rows(broker, servers: str, kind: str) -> None:
    """The producer has memory for some of the rows, and the broker is slow, so the call waits after some rows."""
    broker.fail("Produce", delay=1.0, times=2)

    async def main() -> None:
        async with AsyncProducer(bootstrap_servers=servers, buffer_memory=1 << 16, linger_ms=0) as producer:
            await producer.partitions_for("t")
            notes: list[str] = []

            async def send() -> None:
                try:
                    await producer.send_batch("t", rows(1000))
                except BaseException as error:
                    notes.extend(error.__notes__)
                    raise

            await cancel_after(lambda: broker.requests("Produce") > 0, send)
            queued = int(notes[0].split(" rows are queued")[0].split()[-1])
            assert notes == [f"send_batch to topic t was stopped: {queued} rows are queued, the rest is not sent"]
            assert 0 < queued < 100
            await producer.flush()
            # If the call had not been stopped, it would queue further rows during this time.
            await pause(0.1)
            await producer.flush()
            assert committed(servers) == queued

    RUN[kind](main)


@pytest.mark.parametrize("kind", COMMON)
def test_cancelled_send_batch_does_not_leak_into_the_next_transaction(broker, servers: str, kind: str) -> None:
    broker.fail("Produce", delay=0.5, times=2)
    options = {"bootstrap_servers": servers, "transactional_id": "x", "buffer_memory": 1 << 16, "linger_ms": 0}

    async def main() -> None:
        async with AsyncProducer(options) as producer:

            async def send() -> None:
                async with producer.transaction():
                    await producer.send_batch("t", rows(1000))

            assert await within(0.5, send) is None
            async with producer.transaction():
                await producer.send("t", b"second")
                await pause(0.3)
            assert committed(servers) == 1

    RUN[kind](main)


@pytest.mark.parametrize("kind", COMMON)
def test_cancelled_begin_opens_no_transaction(broker, servers: str, kind: str) -> None:
    broker.fail("InitProducerId", delay=0.5)

    async def main() -> None:
        async with AsyncProducer(bootstrap_servers=servers, transactional_id="x") as producer:

            async def enter() -> None:
                async with producer.transaction():
                    pytest.fail("the block is never entered")

            assert await within(0.1, enter) is None
            deadline = time.monotonic() + 30
            while broker.transaction_state("x") is None and time.monotonic() < deadline:
                await pause(0.01)
            with pytest.raises(IllegalStateError, match="no transaction is open"):
                await producer.send("t", b"stray")
            async with producer.transaction():
                await producer.send("t", b"v")
        assert committed(servers) == 1

    RUN[kind](main)


def test_commits_keep_their_order_after_a_cancelled_commit(broker, servers: str) -> None:
    broker.fail("OffsetCommit", delay=0.3, times=1)

    async def main() -> int:
        async with AsyncConsumer(bootstrap_servers=servers, group_id="g", enable_auto_commit=False) as consumer:
            consumer.assign([ONLY])
            assert await within(0.05, lambda: consumer.commit({ONLY: 1})) is None
            await asyncio.gather(*(consumer.commit({ONLY: offset}) for offset in range(2, 30)))
            found = (await consumer.committed([ONLY]))[ONLY]
            assert found is not None
            return found.offset

    assert RUN["asyncio"](main) == 29


@pytest.mark.parametrize("kind", COMMON)
def test_cancelled_flush_and_close_can_be_repeated(broker, servers: str, kind: str) -> None:
    broker.fail("Produce", delay=2.0, times=1)

    async def main() -> None:
        producer = AsyncProducer(bootstrap_servers=servers, linger_ms=0)
        delivery = await producer.send("t", b"v")
        for wait in (producer.flush, producer.close):
            await within(0.05, wait)
            assert not delivery.done()
        await producer.close()
        assert delivery.done()
        assert (await delivery).offset == 0

    RUN[kind](main)


@pytest.mark.parametrize("kind", COMMON)
def test_consumer_leaves_the_group_after_a_cancelled_close(broker, servers: str, kind: str) -> None:
    async def main() -> None:
        consumer = AsyncConsumer(bootstrap_servers=servers, group_id="g", session_timeout_ms=60_000)
        consumer.subscribe(["t"])
        while not consumer.assignment():
            await consumer.poll(0.1)
        broker.fail("LeaveGroup", delay=0.3, times=1)
        await within(0.1, consumer.close)
        assert consumer.closed
        with Admin(bootstrap_servers=servers) as admin:
            while admin.describe_groups(["g"])["g"].members:
                await pause(0.01)

    RUN[kind](main)


@pytest.mark.parametrize("kind", COMMON)
def test_second_close_waits_for_the_cancelled_close(broker, servers: str, kind: str) -> None:
    async def main() -> float:
        consumer = AsyncConsumer(bootstrap_servers=servers, group_id="g")
        consumer.subscribe(["t"])
        while not consumer.assignment():
            await consumer.poll(0.1)
        broker.fail("LeaveGroup", delay=1.0, times=1)
        started = time.monotonic()
        await within(0.1, consumer.close)
        await consumer.close()
        waited = time.monotonic() - started
        # The consumer is already closed, so this call returns immediately.
        await consumer.close()
        return waited

    assert RUN[kind](main) >= 0.9


@pytest.mark.parametrize("kind", COMMON)
def test_cancelled_transaction_is_aborted(broker, servers: str, kind: str) -> None:
    async def main() -> None:
        async with AsyncProducer(bootstrap_servers=servers, transactional_id="x") as producer:

            async def never() -> None:
                async with producer.transaction():
                    await producer.send_and_wait("t", b"aborted")
                    entered.set()
                    await pause(60.0)

            entered = threading.Event()
            await cancel_after(entered.is_set, never)
            assert broker.transaction_state("x") in {"CompleteAbort", "Empty"}
            async with producer.transaction():
                await producer.send("t", b"committed")

    RUN[kind](main)
    with Consumer(bootstrap_servers=servers, isolation_level="read_committed") as consumer:
        consumer.assign([ONLY])
        consumer.seek_to_beginning()
        assert consumer.reader().read_all().column("value").to_pylist() == [b"committed"]


def test_cancelled_transaction_commit_continues_and_is_joined(broker, servers: str) -> None:
    async def main() -> None:
        async with AsyncProducer(bootstrap_servers=servers, transactional_id="x") as producer:
            await producer.begin_transaction()
            await producer.send("t", b"v")
            broker.fail("EndTxn", delay=2.0, times=1)
            assert await within(0.1, producer.commit_transaction) is None
            await producer.commit_transaction()
            broker.fail("EndTxn", delay=2.0, times=1)
            await producer.begin_transaction()
            await producer.send("t", b"w")
            with pytest.raises(KafkaTimeoutError):
                await producer.commit_transaction(0.05)
            await producer.commit_transaction()

    RUN["asyncio"](main)


@pytest.mark.parametrize("kind", COMMON)
def test_cancelled_listener_is_called_again(servers: str, kind: str) -> None:
    calls: list[str] = []

    async def main() -> None:
        async with AsyncConsumer(bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest") as consumer:

            class Slow(RebalanceListener):
                async def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
                    calls.append("begun")
                    await pause(60.0 if len(calls) < 3 else 0.0)
                    for tp in partitions:
                        consumer.seek(tp, 8)
                    calls.append("assigned")

                async def on_partitions_revoked(self, partitions: object) -> None:
                    calls.append("revoked")

            with Producer(bootstrap_servers=servers) as producer:
                for _ in range(10):
                    producer.send("t", b"v")
            consumer.subscribe(["t"], listener=Slow())
            while calls.count("begun") < 2:
                await within(0.2, lambda: consumer.poll(0.2))
            deadline = time.monotonic() + 60
            while not (batch := await consumer.poll(0.5)).num_rows:
                assert time.monotonic() < deadline
            assert batch.column("offset").to_pylist() == [8, 9]

    RUN[kind](main)
    assert calls == ["begun", "begun", "begun", "assigned", "revoked"]


@pytest.mark.parametrize("kind", COMMON)
def test_cancelled_callback_is_called_again(servers: str, kind: str) -> None:
    calls: list[str] = []
    tp = TopicPartition("t", 0)

    async def slow(offsets: object, error: object) -> None:
        calls.append("begun")
        await pause(60.0 if len(calls) < 2 else 0.0)
        calls.append("ended")

    async def main() -> None:
        async with AsyncConsumer(bootstrap_servers=servers, group_id="g") as consumer:
            consumer.assign([tp])
            consumer.commit_async({tp: 3}, slow)
            deadline = time.monotonic() + 60
            while "ended" not in calls:
                await within(0.2, lambda: consumer.poll(0.2))
                assert time.monotonic() < deadline

    RUN[kind](main)
    assert calls == ["begun", "begun", "ended"]
