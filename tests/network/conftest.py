"""Fixtures of tests with network faults."""

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
    """A cluster of three Apache Kafka brokers for tests that restart them."""
    with KafkaCluster(3) as cluster:
        yield cluster


@pytest.fixture
def network(broker: Broker) -> Iterator[Network]:
    """Proxies in front of both brokers."""
    with Network(broker.bootstrap_servers) as network:
        yield network


@pytest.fixture
def read() -> Callable[..., list[tuple[int, int, bytes]]]:
    """Returns a function that polls until it has `rows` rows, and returns their (partition, offset, value)."""

    def poll(consumer: Consumer, rows: int, seconds: float = 60) -> list[tuple[int, int, Any]]:
        seen: list[tuple[int, int, Any]] = []
        until = time.monotonic() + seconds
        while len(seen) < rows:
            assert time.monotonic() < until, f"{len(seen)} of {rows} rows after {seconds} s"
            batch = consumer.poll(0.5)
            seen += zip(*(batch.column(n).to_pylist() for n in ("partition", "offset", "value")), strict=True)
        return seen

    return poll
