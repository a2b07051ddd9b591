"""Fixtures of the tests on the embedded broker."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from samsarrow import Consumer, TopicPartition
from samsarrow.testing import Broker
from support.commands import Ended, runner


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"t": 1, "four": 4}, auto_create_topics=False) as broker:
        yield broker


@pytest.fixture
def servers(broker: Broker) -> str:
    return broker.bootstrap_servers


@pytest.fixture
def read() -> Callable[..., pa.Table]:
    """Returns a function that polls until at least `rows` rows have arrived: `read(consumer, 100)`."""

    def poll(consumer: Consumer, rows: int, seconds: float = 60) -> pa.Table:
        batches = []
        deadline = time.monotonic() + seconds
        while sum(b.num_rows for b in batches) < rows and time.monotonic() < deadline:
            batches.append(consumer.poll(0.5))
        return pa.Table.from_batches(batches, consumer.schema)

    return poll


@pytest.fixture
def consumer(servers: str) -> Iterator[Consumer]:
    with Consumer(bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("t", 0)])
        yield consumer


@pytest.fixture
def command(
    servers: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Callable[..., Ended]:
    """Returns a function that runs the command line in this process: `command("consume", "t", code=0, stdin=b"")`."""
    return runner(servers, monkeypatch, capsys, tmp_path)
