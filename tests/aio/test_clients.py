"""Consumers and producers of event loops, on the embedded broker."""

import asyncio
import contextvars
import ctypes
import sys
import threading
import time
from itertools import pairwise

import anyio
import pyarrow as pa
import pytest

from aio.loops import COMMON, RUN, pause, together
from samsarrow import (
    AsyncConsumer,
    AsyncProducer,
    Consumer,
    ConsumerRecord,
    KafkaError,
    Producer,
    RebalanceListener,
    TopicPartition,
    _core,
)
from samsarrow.exceptions import ClosedError, InvalidRecordError, MessageTooLargeError, UnknownTopicOrPartitionError
from samsarrow.testing import Broker

ONLY = TopicPartition("t", 0)


@pytest.mark.parametrize("kind", COMMON)
def test_what_is_sent_is_read(servers: str, kind: str) -> None:
    async def main() -> None:
        async with (
            AsyncProducer(bootstrap_servers=servers) as producer,
            AsyncConsumer(
                bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest", include_headers=True
            ) as consumer,
        ):
            landed = await producer.send_and_wait("t", b"v", b"k", headers={"h": b"1"})
            assert (landed.topic, landed.partition, landed.offset) == ("t", 0, 0)
            delivery = await producer.send_batch("t", pa.table({"value": [b"1", b"2"]}))
            [receipt] = await delivery
            assert (receipt.base_offset, receipt.count, len(delivery), await delivery) == (1, 2, 2, [receipt])
            assert await producer.partitions_for("t") == [ONLY]
            consumer.subscribe(["t"])
            seen: list[bytes] = []
            async for batch in consumer:
                seen += batch.column("value").to_pylist()
                await consumer.commit(batch)
                if len(seen) == 3:
                    break
            assert seen == [b"v", b"1", b"2"]
            assert await consumer.lag() == {ONLY: 0}
            assert await consumer.position(ONLY) == 3
            committed = (await consumer.committed([ONLY]))[ONLY]
            assert committed is not None
            assert committed.offset == 3
            await consumer.seek_to_beginning()
            rows = [row async for row in consumer.records(10.0)]
            assert [(row.key, row.value, row.headers) for row in rows] == [
                (b"k", b"v", [("h", b"1")]),
                (None, b"1", []),
                (None, b"2", []),
            ]
            await consumer.seek_to_end()
            await consumer.seek_to_timestamp(0)
            assert [batch.num_rows async for batch in consumer.reader()] == [3]
            assert await consumer.end_offsets([ONLY]) == {ONLY: 3}
            assert await consumer.beginning_offsets([ONLY]) == {ONLY: 0}
            await consumer.unsubscribe()
            assert consumer.subscription() is None
        with pytest.raises(ClosedError):
            await producer.send("t", b"")
        with pytest.raises(ClosedError):
            await consumer.poll()
        assert (repr(producer), repr(consumer)) == ("<AsyncProducer closed>", "<AsyncConsumer closed>")

    RUN[kind](main)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_anyio_runs_it_and_its_scopes_abort_transactions(broker, servers: str, backend: str) -> None:
    async def main() -> str | None:
        async with AsyncProducer(bootstrap_servers=servers, transactional_id="x") as producer:
            with anyio.CancelScope() as scope:
                async with producer.transaction():
                    await producer.send_and_wait("t", b"aborted")
                    scope.deadline = anyio.current_time() + 0.1
                    await anyio.sleep(60)
            return broker.transaction_state("x")

    assert anyio.run(main, backend=backend) in {"CompleteAbort", "Empty"}


def test_one_answer_of_a_broker_wakes_the_loop_once(servers: str) -> None:
    async def main() -> tuple[int, int]:
        async with AsyncProducer(bootstrap_servers=servers, linger_ms=20) as producer:
            await producer.send_and_wait("four", b"")
            wakes, requests = _core.loop_wake_ups(), producer.metrics().requests
            landed = await asyncio.gather(*(producer.send_and_wait("four", b"v") for _ in range(10_000)))
            assert len({(one.partition, one.offset) for one in landed}) == 10_000
            return _core.loop_wake_ups() - wakes, producer.metrics().requests - requests

    wakes, requests = RUN["asyncio"](main)
    assert 1 <= wakes <= requests + 1


def test_results_call_back_with_themselves(servers: str) -> None:
    """As futures of `concurrent.futures` do: one class of result for threads, loops and callbacks."""
    with Producer(bootstrap_servers=servers) as producer:
        called: list[object] = []
        one, many = producer.send("t", b"v"), producer.send_batch("t", pa.table({"value": [b"1", b"2"]}))
        large = producer.send_batch("t", pa.table({"value": pa.array([], pa.binary())}))
        for delivery in (one, many, large):
            delivery.add_done_callback(called.append)
        producer.flush()
        assert sorted(map(id, called)) == sorted(map(id, (one, many, large)))
        assert [delivery.exception(1.0) for delivery in (one, many, large)] == [None] * 3
        assert all(delivery.done() for delivery in (one, many, large))
        assert large.result() == []
        told: list[object] = []
        producer.send("t", b"v", on_delivery=lambda metadata, error: told.append((metadata, error)))
        producer.flush()
        [(metadata, error)] = told
        assert metadata.offset == 3
        assert error is None


def test_results_that_fail_say_why(broker, servers: str) -> None:
    async def main() -> None:
        async with AsyncProducer(bootstrap_servers=servers, linger_ms=0) as producer:
            with pytest.raises(MessageTooLargeError):
                await producer.send("t", b"x" * 2_000_000)
            broker.fail("Produce", error="INVALID_RECORD", times=None)
            one, many = await producer.send("t", b"v"), await producer.send_batch("t", pa.table({"value": [b"1"]}))
            for delivery in (one, many):
                with pytest.raises(InvalidRecordError):
                    await delivery
                assert isinstance(delivery.exception(), InvalidRecordError)
                assert "failed" in repr(delivery)

    RUN["asyncio"](main)


def test_fetching_goes_on_while_the_gil_is_held(broker, servers: str) -> None:
    async def main() -> int:
        async with AsyncConsumer(bootstrap_servers=servers, fetch_max_wait_ms=100) as consumer:
            consumer.assign([ONLY])
            waiting = asyncio.ensure_future(consumer.poll(60.0))
            while not broker.requests("Fetch"):
                await asyncio.sleep(0.01)
            before = broker.requests("Fetch")
            ctypes.PyDLL(None).usleep(2_000_000)
            seen = broker.requests("Fetch") - before
            waiting.cancel()
            return seen

    assert RUN["asyncio"](main) >= 3


def test_listeners_and_callbacks_may_be_coroutines_but_not_of_a_blocking_consumer(servers: str) -> None:
    told: list[object] = []

    async def tell(*what: object) -> None:
        await asyncio.sleep(0)
        told.append(what)

    class Listener(RebalanceListener):
        async def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
            await tell("assigned", partitions)

        async def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
            await tell("revoked", partitions)

    async def main() -> None:
        async with AsyncConsumer(bootstrap_servers=servers, group_id="g") as consumer:
            consumer.subscribe(["t"], listener=Listener())
            while not told:
                await consumer.poll(0.1)
            consumer.commit_async({ONLY: 0}, tell)
            while len(told) < 2:
                await consumer.poll(0.1)

    RUN["asyncio"](main)
    assert [what[0] for what in (told[0], told[2])] == ["assigned", "revoked"]
    assert told[1][1] is None
    with Consumer(bootstrap_servers=servers, group_id="h") as consumer:
        consumer.subscribe(["t"], listener=Listener())
        with pytest.raises(TypeError, match="AsyncConsumer"):
            poll_on(consumer)
        consumer.subscribe(["t"])


def poll_on(consumer: Consumer) -> None:
    while True:
        consumer.poll(0.1)


def test_a_producer_serves_several_loops_and_threads(servers: str) -> None:
    producer, found = AsyncProducer(bootstrap_servers=servers), []

    async def main() -> None:
        found.extend(await asyncio.gather(*(producer.send_and_wait("t", b"v") for _ in range(100))))

    threads = [threading.Thread(target=RUN[kind], args=(main,)) for kind in (*COMMON[:2], "asyncio")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    RUN["uvloop"](producer.close)
    assert sorted(one.offset for one in found) == list(range(300))


def test_each_batch_lets_other_tasks_run_and_rows_do_not(servers: str) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        producer.send_batch("t", pa.table({"value": [b"v"] * 100})).result(30)

    async def main() -> list[int]:
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.ensure_future(count())
        at: list[int] = []
        async with AsyncConsumer(bootstrap_servers=servers, max_poll_records=10) as consumer:
            consumer.assign([ONLY])
            await consumer.seek_to_beginning()
            while len(at) < 100:
                at += [turns async for _ in consumer.records()]
        counting.cancel()
        return at

    at = RUN["asyncio"](main)
    assert len(set(at)) == 10
    assert all(len(set(at[i : i + 10])) == 1 for i in range(0, 100, 10))
    assert all(later > earlier for earlier, later in pairwise(sorted(set(at))))


def test_records_are_the_rows_of_a_batch_of_either_layout(servers: str) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        producer.send("t", None, "k", headers=[("a", b"1"), ("a", None)], timestamp=5)
        producer.send("t", b"x" * 100, timestamp=6)
    for layout in ("binary", "view"):
        for headers in (False, True):
            with Consumer(bootstrap_servers=servers, layout=layout, include_headers=headers) as consumer:
                consumer.assign([ONLY])
                consumer.seek_to_beginning()
                rows = consumer.records(30.0)
                assert iter(rows) is rows
                assert list(rows) == [
                    ConsumerRecord("t", 0, 0, 5, 0, b"k", None, [("a", b"1"), ("a", None)] if headers else []),
                    ConsumerRecord("t", 0, 1, 6, 0, None, b"x" * 100, []),
                ]
    with pytest.raises(TypeError, match="batches that a consumer gave"):
        _core.Rows(pa.record_batch({"a": [1]}))


def test_permanent_failures_are_raised_by_the_await(servers: str) -> None:
    async def main() -> None:
        async with AsyncConsumer(bootstrap_servers=servers) as consumer:
            with pytest.raises(KafkaError, match="nothing is assigned"):
                await consumer.poll()
            with pytest.raises(KafkaError, match="timeout"):
                await consumer.poll(-1.0)
            with pytest.raises(KafkaError, match=r"group\.id"):
                await consumer.commit({ONLY: 1})

    RUN["asyncio"](main)


def test_callbacks_see_the_context_variables_of_the_code_that_asked_for_them(broker, servers: str) -> None:
    """As callbacks of asyncio and of its futures do."""
    request = contextvars.ContextVar("request", default="none")
    seen: list[tuple[str, str]] = []
    events = threading.Event()

    def note(what: str) -> None:
        seen.append((what, request.get()))
        # Of this call alone.
        request.set("changed")

    def on_event(event: object) -> None:
        note("event")
        events.set()

    request.set("maker")
    with Producer(bootstrap_servers=servers, on_event=on_event) as producer:
        request.set("one")
        one, many = producer.send("t", b"v"), producer.send_batch("t", pa.table({"value": [b"1"]}))
        one.add_done_callback(lambda delivery: note("add_done_callback"))
        request.set("two")
        many.add_done_callback(lambda delivery: note("of a batch"))
        request.set("three")
        producer.send("t", b"v", on_delivery=lambda metadata, error: note("on_delivery"))
        request.set("later")
        producer.flush()
        assert events.wait(60)
    found = set(seen)
    assert found >= {("add_done_callback", "one"), ("of a batch", "two"), ("on_delivery", "three"), ("event", "maker")}
    assert "changed" not in dict(found).values()


def test_a_callback_that_raises_is_reported_by_its_own_name(servers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda report: reported.append(report.object))

    def fails(delivery: object) -> None:
        raise ValueError("no")

    with Producer(bootstrap_servers=servers) as producer:
        producer.send("t", b"v").add_done_callback(fails)
        producer.flush()
    assert reported == [fails]


def test_a_loop_goes_on_however_many_callbacks_wait(servers: str) -> None:
    """A thread that asks for more than can be called is slowed down; a loop's would hold up all its tasks."""
    go_on = threading.Event()

    async def main() -> float:
        async with AsyncProducer(bootstrap_servers=servers) as producer:
            delivery = await producer.send("t", b"v")
            await delivery
            delivery.add_done_callback(lambda _: go_on.wait(60))
            for _ in range(100_002):
                delivery.add_done_callback(id)
            started = time.monotonic()
            for _ in range(20):
                delivery.add_done_callback(id)
            went_on = time.monotonic() - started
            go_on.set()
            return went_on

    try:
        # Each of them would wait a second for the thread of callbacks, which does not move.
        assert RUN["asyncio"](main) < 15.0
    finally:
        go_on.set()


@pytest.mark.parametrize("kind", COMMON)
def test_sends_that_wait_for_nothing_let_other_tasks_run(servers: str, kind: str) -> None:
    turns: list[int] = []
    sent = 0

    async def main() -> None:
        nonlocal sent
        async with AsyncProducer(bootstrap_servers=servers) as producer:
            await producer.send_and_wait("t", b"v")

            async def send() -> None:
                nonlocal sent
                while sent < 5_000:
                    await producer.send("t", b"v")
                    sent += 1

            async def look() -> None:
                while sent < 5_000:
                    turns.append(sent)
                    await pause(0)

            await together(send, look)

    RUN[kind](main)
    assert max(later - earlier for earlier, later in pairwise([0, *turns])) <= 512


def test_partitions_of_a_topic_that_is_not_there_are_no_long_wait() -> None:
    """Java's client asks, and believes the answer; ours once took `default.api.timeout.ms`."""
    with Broker(auto_create_topics=False) as broker, Consumer(bootstrap_servers=broker.bootstrap_servers) as consumer:
        started = time.monotonic()
        with pytest.raises(UnknownTopicOrPartitionError, match="none"):
            consumer.partitions_for("none")
        assert time.monotonic() - started < 20.0


def test_seeks_one_after_the_other_are_one_request(servers: str) -> None:
    """To ask for the first partition alone would keep the rows of the others for `fetch.max.wait.ms`."""
    with Producer(bootstrap_servers=servers) as producer:
        producer.send("four", b"v", partition=1).result()
    with Consumer(bootstrap_servers=servers, fetch_max_wait_ms=30_000, request_timeout_ms=60_000) as consumer:
        parts = consumer.partitions_for("four")
        consumer.assign(parts)
        for part in parts:
            consumer.seek(part, 0)
            # Time enough for a request, if any were made.
            time.sleep(0.1)
        started = time.monotonic()
        assert consumer.poll(60.0).num_rows == 1
        assert time.monotonic() - started < 20.0
