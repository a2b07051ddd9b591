"""Fixtures of tests on other implementations of brokers."""

import os
import shutil
import time
from collections.abc import Callable, Iterator

import pytest

from samsarrow import Consumer, Producer, TopicPartition
from support.kfake import KFake, KFakeUnavailableError, program


@pytest.fixture(scope="session")
def kfake_program() -> None:
    """Builds the fake cluster, or skips with the reason."""
    try:
        program()
    except KFakeUnavailableError as reason:
        # Go is the only optional tool of the tests; CI requires it.
        if os.environ.get("CI") and shutil.which("go"):
            raise
        pytest.skip(str(reason))


@pytest.fixture
def kfake(kfake_program: None) -> Iterator[KFake]:
    """Three brokers with a topic `t` of one partition and a topic `four` of four partitions."""
    configs = {"group.consumer.heartbeat.interval.ms": "100"}
    with KFake(brokers=3, topics={"t": 1, "four": 4}, configs=configs) as kfake:
        yield kfake


@pytest.fixture
def send() -> Callable[..., None]:
    """Returns a function that sends `0`, `1` and so on in separate batches: `send(servers, 10, topic="t", first=0)`."""

    def produce(servers: str, count: int, topic: str = "t", first: int = 0, partitions: int = 1) -> None:
        with Producer(bootstrap_servers=servers, retry_backoff_ms=10, linger_ms=0) as producer:
            for i in range(first, first + count):
                assert producer.send(topic, b"%d" % i, partition=i % partitions).result(30).partition == i % partitions

    return produce


@pytest.fixture
def values() -> Callable[..., list[int]]:
    """Returns a function that reads all values of a topic in order: `values(servers, topic="t", partitions=1)`."""

    def read(servers: str, topic: str = "t", partitions: int = 1, **options: object) -> list[int]:
        results: list[int] = []
        options = {"auto_offset_reset": "earliest", "isolation_level": "read_committed", **options}
        with Consumer(bootstrap_servers=servers, **options) as consumer:
            every = [TopicPartition(topic, partition) for partition in range(partitions)]
            ends = consumer.end_offsets(every)
            consumer.assign(every)
            deadline = time.monotonic() + 60
            while any(consumer.position(tp) < end for tp, end in ends.items()):
                assert time.monotonic() < deadline, f"{len(results)} rows after a minute"
                results += (int(value) for value in consumer.poll(1).column("value").to_pylist())
        return results

    return read
