"""Sizes of batches that `send` builds, and the time that records wait for others."""

from __future__ import annotations

import asyncio
import random
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import samsarrow
from samsarrow import Admin, AsyncProducer, Consumer, NewTopic, Producer, TopicPartition
from samsarrow.testing import Broker

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


@pytest.mark.parametrize("codec", CODECS)
def test_no_batch_exceeds_the_default_limit_of_brokers(broker: Broker, servers: str, codec: str) -> None:
    """Brokers accept 1,048,588 bytes. Codecs make incompressible data slightly larger."""
    noise = random.Random(codec).randbytes(3_200_000)
    with Producer(bootstrap_servers=servers, compression_type=codec, linger_ms=10_000) as producer:
        first = producer.send("t", b"first")
        producer.flush(60)
        assert first.result(0).offset == 0
        sent = broker.requests("Produce")
        deliveries = [producer.send("t", noise[at : at + 1000]) for at in range(0, len(noise), 1000)]
        producer.flush(60)
        assert [delivery.result(0).offset for delivery in deliveries] == list(range(1, 3201))
        # A rejected batch would be split and sent again.
        assert broker.requests("Produce") == sent + 4


def test_small_batches_are_not_lost_without_acks(servers: str) -> None:
    """Brokers do not report batches that are too large with `acks=0`, so the default `batch.size` is smaller."""
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic("unacknowledged", 1, 1, {"max.message.bytes": "20000"})])
    with Producer(bootstrap_servers=servers, acks=0) as producer:
        for number in range(2000):
            producer.send("unacknowledged", b"%08d" % number * 20)
    deadline = time.monotonic() + 10
    values = samsarrow.read("unacknowledged", bootstrap_servers=servers)["value"]
    # The broker may still handle the last requests, to which it sends no response.
    while len(values) < 2000 and time.monotonic() < deadline:
        time.sleep(0.1)
        values = samsarrow.read("unacknowledged", bootstrap_servers=servers)["value"]
    assert [int(value[:8]) for value in values.to_pylist()] == list(range(2000))


@pytest.mark.parametrize("options", [{}, {"transactional_id": "split"}], ids=["idempotent", "transactional"])
def test_later_batches_fit_the_limit_of_the_topic(
    broker: Broker, servers: str, options: dict[str, Any], read: Callable[..., pa.Table]
) -> None:
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic("small", 1, configs={"max.message.bytes": "50000"})])
    values = [b"%05d" % number + bytes(995) for number in range(1000)]
    requests = []
    with Producer(bootstrap_servers=servers, linger_ms=10_000, **options) as producer:
        for _ in range(3):
            before = broker.requests("Produce")
            if options:
                producer.begin_transaction()
            for value in values:
                producer.send("small", value)
            producer.flush(60)
            if options:
                producer.commit_transaction()
            requests.append(broker.requests("Produce") - before)
    # The first batch is split several times. Later batches have the size that was accepted.
    assert requests[1] <= requests[2] + 1 <= requests[0]
    assert requests[2] <= 42
    with Consumer(bootstrap_servers=servers, isolation_level="read_committed") as consumer:
        consumer.assign([TopicPartition("small", 0)])
        consumer.seek_to_beginning()
        assert read(consumer, 3000).column("value").to_pylist() == values * 3


def seconds(servers: str, count: int, **options: Any) -> float:
    """Returns the time to send records one after the other, with a wait for each result."""
    with Producer(bootstrap_servers=servers, **options) as producer:
        producer.send("t", b"first").result(30)
        started = time.perf_counter()
        for _ in range(count):
            producer.send("t", b"value").result(30)
        return time.perf_counter() - started


def test_single_records_do_not_linger_by_default(servers: str) -> None:
    count = 20
    lingering = seconds(servers, count, linger_ms=100)
    assert lingering >= count * 0.1
    assert seconds(servers, count) < lingering


def test_records_behind_a_request_share_a_batch(broker: Broker, servers: str) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        producer.send("t", b"first").result(30)
        before = broker.requests("Produce")
        deliveries = [producer.send("t", b"%d" % number) for number in range(10_000)]
        producer.flush(60)
        assert [delivery.result(0).offset for delivery in deliveries] == list(range(1, 10_001))
        assert broker.requests("Produce") - before < 2000


def test_gathered_sends_share_batches(broker: Broker, servers: str) -> None:
    async def send() -> int:
        async with AsyncProducer(bootstrap_servers=servers) as producer:
            await producer.send_and_wait("t", b"first")
            before = broker.requests("Produce")
            await asyncio.gather(*[producer.send_and_wait("t", b"value") for _ in range(5000)])
            return broker.requests("Produce") - before

    assert asyncio.run(send()) < 1000


def test_max_request_size_limits_batches(broker: Broker, servers: str) -> None:
    with Producer(bootstrap_servers=servers, max_request_size=20_000, linger_ms=10_000) as producer:
        before = broker.requests("Produce")
        deliveries = [producer.send("t", bytes(1000)) for _ in range(100)]
        producer.flush(30)
        assert broker.requests("Produce") - before >= 6
        assert [delivery.result(0).offset for delivery in deliveries] == list(range(100))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_grows_with_the_records_of_a_batch(servers: str) -> None:
    """A batch of one small record takes no buffer of `batch.size`."""
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic("wide", 10_000)])
    with Producer(bootstrap_servers=servers, linger_ms=60_000, buffer_memory=10_000 * 200) as producer:
        producer.partitions_for("wide")
        before = resident()
        for partition in range(10_000):
            producer.send("wide", bytes(100), partition=partition)
        grown = resident() - before
        producer.flush(60)
    assert grown < 60 << 20, f"{grown >> 20} MiB"


def resident() -> int:
    """Returns the resident bytes of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
