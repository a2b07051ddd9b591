"""What the tests behind a bad network share."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from samsarrow import Consumer
from samsarrow.testing import Broker
from support.cluster import KafkaCluster
from support.proxy import Network


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(brokers=2, topics={"t": 1, "four": 4}, auto_create_topics=False) as broker:
        yield broker


@pytest.fixture(scope="package")
def cluster() -> Iterator[KafkaCluster]:
    """Three brokers of Apache Kafka, for those that restart them."""
    with KafkaCluster(3) as cluster:
        yield cluster


@pytest.fixture
def network(broker: Broker) -> Iterator[Network]:
    """Proxies before both brokers."""
    with Network(broker.bootstrap_servers) as network:
        yield network


@pytest.fixture
def read() -> Callable[..., list[tuple[int, int, bytes]]]:
    """Polls until there are `rows`: `read(consumer, 100)`; (partition, offset, value) of each."""

    def poll(consumer: Consumer, rows: int, seconds: float = 60) -> list[tuple[int, int, Any]]:
        seen: list[tuple[int, int, Any]] = []
        until = time.monotonic() + seconds
        while len(seen) < rows:
            assert time.monotonic() < until, f"{len(seen)} of {rows} rows after {seconds} s"
            batch = consumer.poll(0.5)
            seen += zip(*(batch.column(n).to_pylist() for n in ("partition", "offset", "value")), strict=True)
        return seen

    return poll
