"""`read`, `write` and plans in all event loops."""

import threading
from typing import Any

import pyarrow as pa
import pytest

from aio.loops import COMMON, RUN, together, within
from samsarrow import TopicPartition, _unclosed, aio
from samsarrow.testing import Broker
from support.waiting import until

ROWS = pa.table({"id": ["a", "b", "c"], "amount": [1, 2, 3]})


@pytest.mark.parametrize("kind", COMMON)
def test_write_plan_and_read(servers: str, kind: str) -> None:
    async def main() -> None:
        counts = await aio.write("t", ROWS, bootstrap_servers=servers, key="id", value_format="json")
        assert counts == {TopicPartition("t", 0): 3}
        table = await aio.read("t", bootstrap_servers=servers)
        assert table["key"].to_pylist() == [b"a", b"b", b"c"]
        plan = await aio.plan("t", splits=2, bootstrap_servers=servers)
        offsets: list[int] = []
        for split in plan.splits:
            async for batch in split.aread():
                offsets += batch["offset"].to_pylist()
        assert offsets == [0, 1, 2]

    RUN[kind](main)
    assert not _unclosed._consumers
    assert not _unclosed._producers


@pytest.mark.parametrize("kind", COMMON)
def test_reads_run_at_the_same_time(servers: str, kind: str) -> None:
    async def main() -> None:
        await aio.write("four", pa.table({"value": ["x"] * 1000}), bootstrap_servers=servers)
        rows: list[int] = []

        async def one() -> None:
            rows.append((await aio.read("four", bootstrap_servers=servers)).num_rows)

        await together(*[one] * 5)
        assert rows == [1000] * 5

    RUN[kind](main)


@pytest.mark.parametrize("kind", COMMON)
def test_cancelled_read_closes_its_consumer(broker: Broker, servers: str, kind: str) -> None:
    async def main() -> None:
        await aio.write("t", ROWS, bootstrap_servers=servers, value="id")
        broker.fail("Fetch", delay=5.0, times=None)

        async def read() -> Any:
            return await aio.read("t", bootstrap_servers=servers)

        assert await within(0.5, read) is None
        broker.heal()

    RUN[kind](main)
    until(lambda: not _unclosed._consumers)
    assert threading.active_count() < 20
