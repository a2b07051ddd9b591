"""No acknowledged record is lost while leaders are killed and stopped; with idempotence, each is stored once, in
order.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from samsarrow import Admin, Consumer, NewTopic, Producer, RecordMetadata
from support.cluster import KafkaCluster

SECONDS = float(os.environ.get("SAMSARROW_CHAOS_SECONDS", "15"))
PARTITIONS = 4
# Options of the producers, which run concurrently on the same brokers.
WAYS: dict[str, dict[str, Any]] = {
    "idempotent": {"linger_ms": 2},
    "idempotent-lz4": {"compression_type": "lz4", "linger_ms": 20, "batch_size": 2000},
    "acks-all": {"enable_idempotence": False},
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster(3) as cluster:
        yield cluster


class Writer(threading.Thread):
    """Sends records that are numbered in each partition, and stores the results."""

    def __init__(self, servers: str, topic: str, options: dict[str, Any], seed: int) -> None:
        super().__init__()
        self.topic, self._rng = topic, random.Random(seed)
        self._producer = Producer(bootstrap_servers=servers, **options)
        self._next = [0] * PARTITIONS
        self.over = threading.Event()
        self.acknowledged: dict[tuple[int, int], int] = {}
        self.results: Counter[tuple[int, int]] = Counter()
        self.failures: list[Exception] = []
        self.raised: BaseException | None = None

    def run(self) -> None:
        try:
            batches = []
            while not self.over.is_set():
                if self._rng.random() < 0.1:
                    batches.append(self._send_table())
                else:
                    for _ in range(self._rng.randrange(1, 60)):
                        self._send_one()
                time.sleep(self._rng.random() * 0.1)
            for first, delivery in batches:
                self._read(first, delivery)
            self._producer.close(120)
        except BaseException as error:
            self.raised = error

    def _number(self, partition: int) -> int:
        number = self._next[partition]
        self._next[partition] += 1
        return number

    def _send_one(self) -> None:
        partition = self._rng.randrange(PARTITIONS)
        number = self._number(partition)

        def done(metadata: RecordMetadata | None, error: Exception | None) -> None:
            self.results[partition, number] += 1
            if metadata is None:
                self.failures.append(error or AssertionError("neither"))
            else:
                self.acknowledged[partition, number] = metadata.offset

        self._producer.send(self.topic, b"%d" % number, partition=partition, on_delivery=done)

    def _send_table(self) -> tuple[list[int], Any]:
        first = list(self._next)
        partitions = [self._rng.randrange(PARTITIONS) for _ in range(300)]
        values = [b"%d" % self._number(partition) for partition in partitions]
        table = pa.table({"value": pa.array(values, pa.binary()), "to": pa.array(partitions, pa.int32())})
        return first, self._producer.send_batch(self.topic, table, partition="to")

    def _read(self, first: list[int], delivery: Any) -> None:
        at = list(first)
        for receipt in delivery.result(120):
            for row in range(receipt.count):
                number = at[receipt.partition]
                at[receipt.partition] += 1
                self.results[receipt.partition, number] += 1
                known = receipt.base_offset >= 0
                self.acknowledged[receipt.partition, number] = receipt.base_offset + row if known else -1

    def sent(self) -> set[tuple[int, int]]:
        return {(partition, number) for partition in range(PARTITIONS) for number in range(self._next[partition])}


def stored(servers: str, topic: str) -> dict[int, list[tuple[int, int]]]:
    """Returns offset and number of every record by partition."""
    result: dict[int, list[tuple[int, int]]] = defaultdict(list)
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        partitions = consumer.partitions_for(topic)
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        deadline = time.monotonic() + 120
        while any(consumer.position(tp) < end for tp, end in ends.items()):
            assert time.monotonic() < deadline, "the topic cannot be read to its end"
            batch = consumer.poll(1)
            columns = (batch[name].to_pylist() for name in ("partition", "offset", "value"))
            for partition, offset, value in zip(*columns, strict=True):
                result[partition].append((offset, int(value)))
    return result


def harass(cluster: KafkaCluster, seed: int) -> int:
    """Kills or stops one broker after the other and restarts it; returns the number of faults."""
    rng, end, times = random.Random(seed), time.monotonic() + SECONDS, 0
    # Even on a slow machine, at least two faults occur.
    while time.monotonic() < end or times < 2:
        time.sleep(1 + rng.random() * 2)
        broker = cluster.brokers[rng.choice(sorted(cluster.brokers))]
        if rng.random() < 0.6:
            broker.kill()
        else:
            broker.stop()
        times += 1
        time.sleep(rng.random() * 2)
        broker.start()
    return times


@pytest.mark.timeout(SECONDS + 400)
def test_acknowledged_records_are_exactly_once_and_in_order(cluster: KafkaCluster) -> None:
    servers = cluster.bootstrap_servers
    with Admin(bootstrap_servers=servers) as admin:
        configs = {"min.insync.replicas": "2"}
        admin.create_topics([NewTopic(way, PARTITIONS, 3, configs=configs) for way in WAYS])
    writers = {way: Writer(servers, way, options, seed) for seed, (way, options) in enumerate(WAYS.items())}
    for writer in writers.values():
        writer.start()
    try:
        times = harass(cluster, 5)
    finally:
        for writer in writers.values():
            writer.over.set()
        for writer in writers.values():
            writer.join(240)
    assert times >= 2
    for way, writer in writers.items():
        assert not writer.is_alive(), way
        if writer.raised is not None:
            raise writer.raised
        assert not writer.failures, (way, writer.failures[:3])
        # Every send has exactly one result.
        assert set(writer.results) == writer.sent(), way
        assert set(writer.results.values()) == {1}, way
        assert len(writer.acknowledged) > 1000, way
        log = stored(servers, way)
        for partition, records in log.items():
            numbers = [number for _, number in records]
            count = sum(1 for of, _ in writer.sent() if of == partition)
            if way.startswith("idempotent"):
                assert numbers == list(range(count)), (way, partition)
            else:
                assert set(numbers) == set(range(count)), (way, partition)
            at = dict(records)
            for (of, number), offset in writer.acknowledged.items():
                assert of != partition or offset < 0 or at[offset] == number, (way, partition, number)
