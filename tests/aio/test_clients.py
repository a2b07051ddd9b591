"""AsyncConsumer and AsyncProducer on the embedded broker."""

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
def test_produce_and_consume(servers: str, kind: str) -> None:
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
        assert repr(producer) == f"<AsyncProducer bootstrap_servers={servers!r}, closed>"
        assert repr(consumer).endswith(", closed>")

    RUN[kind](main)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_anyio_cancel_scope_aborts_the_transaction(broker, servers: str, backend: str) -> None:
    async def main() -> str | None:
        async with AsyncProducer(bootstrap_servers=servers, transactional_id="x") as producer:
            with anyio.CancelScope() as scope:
                async with producer.transaction():
                    await producer.send_and_wait("t", b"aborted")
                    scope.deadline = anyio.current_time() + 0.1
                    await anyio.sleep(60)
            return broker.transaction_state("x")

    assert anyio.run(main, backend=backend) in {"CompleteAbort", "Empty"}


def test_one_produce_response_wakes_the_loop_once(servers: str) -> None:
    async def main() -> tuple[int, int]:
        async with AsyncProducer(bootstrap_servers=servers, linger_ms=20) as producer:
            await producer.send_and_wait("four", b"")
            wakes, requests = _core.loop_wake_ups(), producer.metrics().requests
            landed = await asyncio.gather(*(producer.send_and_wait("four", b"v") for _ in range(10_000)))
            assert len({(one.partition, one.offset) for one in landed}) == 10_000
            return _core.loop_wake_ups() - wakes, producer.metrics().requests - requests

    wakes, requests = RUN["asyncio"](main)
    assert 1 <= wakes <= requests + 1


def test_done_callbacks_receive_the_delivery(servers: str) -> None:
    """Deliveries behave like `concurrent.futures.Future`. One class is used for threads, event loops and callbacks."""
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
        notified: list[object] = []
        producer.send("t", b"v", on_delivery=lambda metadata, error: notified.append((metadata, error)))
        producer.flush()
        [(metadata, error)] = notified
        assert metadata.offset == 3
        assert error is None


def test_failed_deliveries_have_the_error(broker, servers: str) -> None:
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


def test_fetching_continues_while_the_gil_is_held(broker, servers: str) -> None:
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


def test_coroutine_listeners_and_callbacks_need_an_async_consumer(servers: str) -> None:
    notified: list[object] = []

    async def notify(*what: object) -> None:
        await asyncio.sleep(0)
        notified.append(what)

    class Listener(RebalanceListener):
        async def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
            await notify("assigned", partitions)

        async def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
            await notify("revoked", partitions)

    async def main() -> None:
        async with AsyncConsumer(bootstrap_servers=servers, group_id="g") as consumer:
            consumer.subscribe(["t"], listener=Listener())
            while not notified:
                await consumer.poll(0.1)
            consumer.commit_async({ONLY: 0}, notify)
            while len(notified) < 2:
                await consumer.poll(0.1)

    RUN["asyncio"](main)
    assert [what[0] for what in (notified[0], notified[2])] == ["assigned", "revoked"]
    assert notified[1][1] is None
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


def test_records_yields_to_the_loop_once_per_batch(servers: str) -> None:
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


def test_records_of_both_layouts(servers: str) -> None:
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
    with pytest.raises(TypeError, match="batches that a consumer returned"):
        _core.RecordIter(pa.record_batch({"a": [1]}))


def test_invalid_calls_raise_when_awaited(servers: str) -> None:
    async def main() -> None:
        async with AsyncConsumer(bootstrap_servers=servers) as consumer:
            with pytest.raises(KafkaError, match="nothing is assigned"):
                await consumer.poll()
            with pytest.raises(KafkaError, match="timeout"):
                await consumer.poll(-1.0)
            with pytest.raises(KafkaError, match=r"group\.id"):
                await consumer.commit({ONLY: 1})

    RUN["asyncio"](main)


def test_callbacks_run_in_the_callers_context(broker, servers: str) -> None:
    """Callbacks run in a copy of the caller's context, like callbacks of asyncio futures."""
    request = contextvars.ContextVar("request", default="none")
    seen: list[tuple[str, str]] = []
    events = threading.Event()

    def note(what: str) -> None:
        seen.append((what, request.get()))
        # Changes only the copy of the context that belongs to this call.
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


def test_unraisable_report_names_the_callback(servers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda report: reported.append(report.object))

    def fails(delivery: object) -> None:
        raise ValueError("no")

    with Producer(bootstrap_servers=servers) as producer:
        producer.send("t", b"v").add_done_callback(fails)
        producer.flush()
    assert reported == [fails]


def test_pending_callbacks_do_not_block_the_loop(servers: str) -> None:
    """If a thread adds callbacks faster than they are called, it has to wait. An event loop must not wait, since this
    would stop all of its tasks.
    """
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
        # If the loop had to wait, each call would take a second, because the callback thread is blocked.
        assert RUN["asyncio"](main) < 15.0
    finally:
        go_on.set()


@pytest.mark.parametrize("kind", COMMON)
def test_send_without_waiting_yields_to_the_loop(servers: str, kind: str) -> None:
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


def test_partitions_for_a_missing_topic_fails_early() -> None:
    """Regression: the call waited for `default.api.timeout.ms`. Java's client returns after the first response."""
    with Broker(auto_create_topics=False) as broker, Consumer(bootstrap_servers=broker.bootstrap_servers) as consumer:
        started = time.monotonic()
        with pytest.raises(UnknownTopicOrPartitionError, match="none"):
            consumer.partitions_for("none")
        assert time.monotonic() - started < 20.0


def test_consecutive_seeks_are_one_request(servers: str) -> None:
    """If the position of the first partition were looked up immediately, the rows of the others would be delayed by
    `fetch.max.wait.ms`.
    """
    with Producer(bootstrap_servers=servers) as producer:
        producer.send("four", b"v", partition=1).result()
    with Consumer(bootstrap_servers=servers, fetch_max_wait_ms=30_000, request_timeout_ms=60_000) as consumer:
        parts = consumer.partitions_for("four")
        consumer.assign(parts)
        for part in parts:
            consumer.seek(part, 0)
            # If `seek` sent a request, it would be sent during this time.
            time.sleep(0.1)
        started = time.monotonic()
        assert consumer.poll(60.0).num_rows == 1
        assert time.monotonic() - started < 20.0


@pytest.mark.parametrize("kind", COMMON)
def test_assign_with_offsets_starts_there(servers: str, kind: str) -> None:
    async def main() -> None:
        async with AsyncProducer(bootstrap_servers=servers) as producer:
            for row in range(4):
                await producer.send("t", str(row), partition=0)
        async with AsyncConsumer(bootstrap_servers=servers) as consumer:
            consumer.assign({ONLY: 3})
            assert (await consumer.poll(10))["offset"].to_pylist() == [3]

    RUN[kind](main)
