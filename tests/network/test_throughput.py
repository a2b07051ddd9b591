"""Clients use the capacity of a link with a delay of 50 ms each way and 10 MB/s."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from samsarrow import Consumer, OffsetAndMetadata, Producer, TopicPartition
from samsarrow.testing import Broker
from support.measurements import tell
from support.proxy import Network

BANDWIDTH = 10e6
RECORD = 1000
RECORDS = 40_000
# Minimum share of the link's capacity; `make test-chaos` sets 0.8.
FLOOR = float(os.environ.get("SAMSARROW_NETWORK_FLOOR", "0.6"))
TABLE = pa.table({"value": pa.array([b"x" * RECORD], pa.binary()).take(pa.array([0] * RECORDS))})


@pytest.fixture
def slow(broker: Broker, network: Network) -> Network:
    # One broker leads all partitions in use, so that the test measures one link.
    for partition in range(4):
        broker.move_leader("four", partition, 0)
    network.each(lambda proxy: proxy.switch(delay=0.05, bandwidth=BANDWIDTH))
    return network


def best(measure: Callable[[], float]) -> tuple[int, float]:
    """Returns the number of measurements and the best of them. Measures up to six times, because the machine may be
    busy.
    """
    shares = [measure()]
    while max(shares) < FLOOR and len(shares) < 6:
        shares.append(measure())
    return len(shares), max(shares)


@pytest.mark.parametrize("partitions", [1, 4])
def test_produce_uses_the_link(broker: Broker, slow: Network, partitions: int) -> None:
    topic = "t" if partitions == 1 else "four"
    with Producer(bootstrap_servers=slow.bootstrap_servers) as producer:
        producer.send(topic, b"first").result(30)

        def produce() -> float:
            began = time.monotonic()
            producer.send_batch(topic, TABLE).result(60)
            return RECORDS * RECORD / (time.monotonic() - began) / BANDWIDTH

        times, share = best(produce)
    tell(f"produce to {partitions} over 100 ms: {share:.2f} of {BANDWIDTH / 1e6:.0f} MB/s")
    assert share >= FLOOR
    # No record was sent twice.
    assert slow.carried("request") < 1.1 * RECORDS * RECORD * times
    assert slow.requests()["Metadata"] <= 6
    with Consumer(bootstrap_servers=broker.bootstrap_servers) as consumer:
        ends = consumer.end_offsets([TopicPartition(topic, p) for p in range(partitions)])
    assert sum(ends.values()) == RECORDS * times + 1


@pytest.mark.parametrize("partitions", [1, 4])
def test_consume_uses_the_link(broker: Broker, slow: Network, partitions: int) -> None:
    topic = "t" if partitions == 1 else "four"
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send_batch(topic, TABLE).result(60)

    def consume() -> float:
        with Consumer(bootstrap_servers=slow.bootstrap_servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition(topic, p) for p in range(partitions)])
            first = rows = 0
            while not first:
                first = consumer.poll(30).num_rows
            began = time.monotonic()
            while first + rows < RECORDS:
                batch = consumer.poll(30)
                assert batch.num_rows
                rows += batch.num_rows
            return rows * RECORD / (time.monotonic() - began) / BANDWIDTH

    times, share = best(consume)
    tell(f"consume of {partitions} over 100 ms: {share:.2f} of {BANDWIDTH / 1e6:.0f} MB/s")
    assert share >= FLOOR
    assert slow.carried("answer") < 1.1 * RECORDS * RECORD * times
    assert slow.requests()["Metadata"] <= 6 * times
    assert slow.requests()["Fetch"] <= 50 * times


def test_commits_keep_up_with_a_slow_link(network: Network) -> None:
    """300 commits at 100 per second do not queue up on a link on which a commit takes 0.2 s."""
    network.each(lambda proxy: proxy.switch(delay=0.1))
    answers: list[tuple[int, Exception | None]] = []
    options: dict[str, Any] = {"group_id": "g", "enable_auto_commit": False}
    with Consumer(bootstrap_servers=network.bootstrap_servers, **options) as consumer:
        tp = TopicPartition("t", 0)
        consumer.assign([tp])
        consumer.commit({tp: OffsetAndMetadata(0)}, timeout=30)
        for i in range(1, 301):
            consumer.commit_async(
                {tp: OffsetAndMetadata(i)},
                lambda offsets, error, i=i: answers.append((i, error)),
            )
            consumer.poll(0.01)
        began = time.monotonic()
        consumer.close(30)
        assert time.monotonic() - began < 20
    assert answers == [(i, None) for i in range(1, 301)], "in order, each with its outcome"
    with Consumer(bootstrap_servers=network.bootstrap_servers, group_id="g") as consumer:
        assert consumer.committed([tp], timeout=30) == {tp: OffsetAndMetadata(300)}
