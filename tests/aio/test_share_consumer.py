"""Share consumers in event loops."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from samsarrow import AsyncShareConsumer, TopicPartition
from samsarrow.exceptions import ClosedError, IllegalStateError
from samsarrow.testing import Broker
from support.share_cases import earliest, numbers_of, send

TP = TopicPartition("t", 0)


async def poll_rows(consumer: AsyncShareConsumer) -> object:
    async with asyncio.timeout(20):
        while True:
            if (batch := await consumer.poll(0.5)).num_rows:
                return batch


def test_reads_and_acknowledges(servers: str) -> None:
    earliest(servers, "g")
    send(servers, "t", 4)
    calls: list[object] = []

    async def callback(offsets: object, error: object) -> None:
        await asyncio.sleep(0)
        calls.append((offsets, error))

    async def main() -> None:
        async with AsyncShareConsumer(bootstrap_servers=servers, group_id="g", acknowledgement="explicit") as consumer:
            consumer.subscribe(["t"])
            batch = await poll_rows(consumer)
            assert numbers_of(batch) == [0, 1, 2, 3]
            assert await consumer.renew(batch) == {TP: None}
            consumer.acknowledge(batch, ["accept", "release", "reject", "accept"])
            consumer.commit_async(callback)
            assert await consumer.commit() == {} or calls
            again = await poll_rows(consumer)
            assert numbers_of(again) == [1]
            consumer.acknowledge(again)

    asyncio.run(main())
    assert calls == [({TP: [(0, 3)]}, None)]


def test_cancelled_poll_loses_no_rows(servers: str) -> None:
    earliest(servers, "g")

    async def main() -> None:
        read: list[int] = []
        async with AsyncShareConsumer(bootstrap_servers=servers, group_id="g") as consumer:
            consumer.subscribe(["t"])
            await consumer.poll(1.5)
            for number in range(20):
                task = asyncio.create_task(consumer.poll(None))
                await asyncio.sleep(0.001 * number)
                await asyncio.to_thread(send, servers, "t", 1, number)
                task.cancel()
                with suppress(asyncio.CancelledError):
                    read += numbers_of(await task)
            while len(read) < 20:
                read += numbers_of(await poll_rows(consumer))
        assert read == list(range(20))

    asyncio.run(main())


def test_only_one_task_polls_and_close_ends_the_loop(servers: str) -> None:
    async def main() -> None:
        consumer = AsyncShareConsumer(bootstrap_servers=servers, group_id="g")
        consumer.subscribe(["t"])
        task = asyncio.create_task(consumer.poll(None))
        await asyncio.sleep(0.1)
        with pytest.raises(IllegalStateError, match="being polled already"):
            await consumer.poll(0)
        await consumer.close()
        with pytest.raises(ClosedError):
            await task
        assert [batch async for batch in consumer] == []

    asyncio.run(main())


def test_iteration_reads_records(broker: Broker, servers: str) -> None:
    earliest(servers, "g")
    send(servers, "t", 3)

    async def main() -> list[bytes | None]:
        async with AsyncShareConsumer(bootstrap_servers=servers, group_id="g") as consumer:
            consumer.subscribe(["t"])
            read: list[bytes | None] = []
            while len(read) < 3:
                read += [record.value async for record in consumer.records(1)]
            return read

    assert asyncio.run(main()) == [b"0", b"1", b"2"]
