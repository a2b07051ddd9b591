"""Queries that start before their broker, and streams during broker outages."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from samsarrow import Consumer, Producer
from samsarrow.spark import wait_for_sources
from samsarrow.testing import Broker
from support.kafka import free_ports
from support.proxy import Network, Proxy
from support.streams import wait_until

# Seconds of an outage: longer than a client's first connection attempts, and shorter than `default.api.timeout.ms`.
AWAY = 5.0


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"t": 2}) as broker:
        yield broker


@pytest.fixture
def network(broker: Broker) -> Iterator[Network]:
    with Network(broker.bootstrap_servers) as network:
        yield network


def send(broker: Broker, numbers: range) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for n in numbers:
            producer.send("t", b"%d" % n, partition=n % 2)


def options(network: Network) -> dict[str, str]:
    return {"kafka.bootstrap.servers": network.bootstrap_servers, "subscribe": "t", "startingOffsets": "earliest"}


def test_batch_read_starts_before_its_broker(spark: Any, broker: Broker, network: Network) -> None:
    send(broker, range(20))
    network.each(Proxy.refuse)
    healing = threading.Timer(AWAY, lambda: network.each(Proxy.heal))
    healing.start()
    rows = spark.read.format("samsarrow-python").options(**options(network)).load().collect()
    healing.join()
    assert sorted(int(row.value) for row in rows) == list(range(20))


def test_stream_starts_before_its_broker_and_survives_outage(
    spark: Any, broker: Broker, network: Network, tmp_path: Path
) -> None:
    send(broker, range(20))
    network.each(Proxy.refuse)
    seen: list[int] = []

    def keep(batch: Any, _: int) -> None:
        seen.extend(int(row.value) for row in batch.collect())

    frame = spark.readStream.format("samsarrow-python").options(**options(network)).load()
    checkpoint = str(tmp_path / "checkpoint")
    query = frame.writeStream.foreachBatch(keep).option("checkpointLocation", checkpoint).start()
    try:
        time.sleep(AWAY)
        assert query.isActive, query.exception()
        network.each(Proxy.heal)
        wait_until(lambda: len(seen) >= 20 or not query.isActive, 60)
        network.each(Proxy.refuse)
        send(broker, range(20, 40))
        time.sleep(AWAY)
        assert query.isActive, query.exception()
        network.each(Proxy.heal)
        wait_until(lambda: len(seen) >= 40 or not query.isActive, 60)
        assert query.isActive, query.exception()
    finally:
        query.stop()
    assert sorted(seen) == list(range(40)), "nothing lost, nothing twice"
    assert network.requests()["Metadata"] <= 200


def test_exactly_once_copy_starts_before_its_broker(spark: Any, tmp_path: Path) -> None:
    [port] = free_ports(1)
    servers = {"kafka.bootstrap.servers": f"127.0.0.1:{port}"}
    frame = (
        spark.readStream.format("samsarrow-python").options(**servers, subscribe="t", startingOffsets="earliest").load()
    )
    writer = (
        frame.select("value").writeStream.format("samsarrow-python").options(**servers, topic="u", exactlyOnce="true")
    )
    query = writer.option("checkpointLocation", str(tmp_path)).trigger(processingTime="100 milliseconds").start()
    try:
        wait_for_sources(query)
        assert query.isActive, query.exception()
        with Broker(topics={"t": 2, "u": 1}, port=port) as broker:
            send(broker, range(20))
            config = {"isolation.level": "read_committed", "auto.offset.reset": "earliest"}
            with Consumer(config, bootstrap_servers=broker.bootstrap_servers) as consumer:
                consumer.assign(consumer.partitions_for("u"))
                seen: list[int] = []

                def copied() -> bool:
                    assert query.isActive, query.exception()
                    seen.extend(int(value) for value in consumer.poll(1).column("value").to_pylist())
                    return len(seen) >= 20

                wait_until(copied, 60)
            query.stop()
    finally:
        query.stop()
    assert sorted(seen) == list(range(20))
