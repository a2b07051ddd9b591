"""Streams of async consumers: cancellation, and signals in each event loop."""

import os
import signal
import threading
import time

import pytest

from aio.loops import COMMON, RUN, pause, within
from samsarrow import AsyncConsumer, Producer, TopicPartition
from samsarrow.exceptions import BadValueError, OffsetOutOfRangeError

T0 = TopicPartition("t", 0)


def fill(servers: str, rows: int) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        for row in range(rows):
            producer.send("t", str(row))


def consumer(servers: str, **options: object) -> AsyncConsumer:
    defaults = {"auto_offset_reset": "earliest", "max_poll_records": 10, "group_id": "g"}
    chosen = {name: value for name, value in (defaults | options).items() if value is not None}
    created = AsyncConsumer(bootstrap_servers=servers, **chosen)  # type: ignore[arg-type]
    created.assign(T0)
    return created


async def committed(reading: AsyncConsumer) -> int | None:
    offset = (await reading.committed(T0))[T0]
    return None if offset is None else offset.offset


@pytest.mark.parametrize("kind", COMMON)
def test_cancelled_stream_loses_no_row(servers: str, kind: str) -> None:
    fill(servers, 500)

    async def main() -> None:
        async with consumer(servers, max_poll_records=3) as reading:
            stream, offsets, cancelled = reading.stream(max_rows=400), list[int](), 0
            while stream.ended_by is None:
                batch = await within(1e-9 if cancelled % 2 else 5.0, lambda: anext(stream, None))
                cancelled += 1
                offsets += [] if batch is None else batch["offset"].to_pylist()
            assert offsets == list(range(400))
            assert await committed(reading) == 400

    RUN[kind](main)


@pytest.mark.parametrize("kind", COMMON)
def test_signal_ends_the_stream_of_a_loop(servers: str, kind: str) -> None:
    fill(servers, 25)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    async def main() -> None:
        inside = {number: signal.getsignal(number) for number in before}
        async with consumer(servers) as reading:
            for number, rows in ((signal.SIGINT, 25), (signal.SIGTERM, 0)):
                sender = threading.Timer(0.5, os.kill, (os.getpid(), number))
                sender.start()
                stream, count = reading.stream(signals=True), 0
                async for batch in stream:
                    count += batch.num_rows
                sender.join()
                assert (count, stream.ended_by, stream.signal) == (rows, "signal", number)
                assert await committed(reading) == 25
                assert {number: signal.getsignal(number) for number in before} == inside

    RUN[kind](main)
    assert {number: signal.getsignal(number) for number in before} == before


@pytest.mark.parametrize("kind", COMMON)
def test_records_of_a_stream(servers: str, kind: str) -> None:
    fill(servers, 45)

    async def main() -> None:
        async with consumer(servers) as reading:
            offsets = []
            async for record in reading.stream(signals=True).records():
                offsets.append(record.offset)
                if record.offset == 13:
                    os.kill(os.getpid(), signal.SIGTERM)
            assert offsets == list(range(14))
            assert await committed(reading) == 14
            async with reading.stream(idle=2) as stream:
                offsets.append((await anext(stream.records())).offset)
                offsets += [record.offset async for record in stream.records()]
            assert offsets == list(range(45))
            assert stream.ended_by == "idle"

    RUN[kind](main)


def test_other_tasks_run_while_a_stream_has_rows(servers: str) -> None:
    fill(servers, 300)

    async def main() -> None:
        async with consumer(servers, max_poll_records=1) as reading:
            import asyncio

            turns = 0

            async def count() -> None:
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0)

            task = asyncio.ensure_future(count())
            async for _ in reading.stream(max_rows=300):
                pass
            task.cancel()
            assert turns >= 300

    RUN["asyncio"](main)


@pytest.mark.parametrize("kind", COMMON)
def test_reader_that_raised_continues(servers: str, kind: str) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        for value in (bytes(8), b"bad", bytes(8)):
            producer.send("t", value)

    async def main() -> None:
        async with consumer(servers, value_format="long", group_id=None, auto_offset_reset="none") as reading:
            batches = reading.reader()
            # Also if the first call fails, before the ends are known or a row was read.
            with pytest.raises(OffsetOutOfRangeError):
                await anext(batches)
            reading.seek(T0, 0)
            # Rows that are there already are returned without a wait that could be cancelled.
            first = await within(1e-9, lambda: anext(batches))
            offsets = (await anext(batches) if first is None else first)["offset"].to_pylist()
            for _ in range(2):
                with pytest.raises(BadValueError):
                    await anext(batches)
            reading.seek(T0, 2)
            async for batch in batches:
                offsets += batch["offset"].to_pylist()
            assert offsets == [0, 2]

    RUN[kind](main)


@pytest.mark.parametrize("kind", COMMON)
def test_poll_without_a_timeout_waits_for_rows(servers: str, kind: str) -> None:
    async def main() -> None:
        async with consumer(servers) as reading:
            sender = threading.Timer(1.5, fill, (servers, 12))
            sender.start()
            started = time.monotonic()
            first = await reading.poll(None, max_records=1)
            assert first.num_rows == 1
            assert time.monotonic() - started > 1.0
            sender.join()
            await pause(0.2)
            assert (await reading.poll(max_records=4)).num_rows == 4

    RUN[kind](main)
