"""Event loops on Apache Kafka: transactions from topic to topic, while polls are cancelled repeatedly."""

from __future__ import annotations

import random
from collections.abc import Callable

import anyio
import pytest

from aio.loops import COMMON, RUN, within
from samsarrow import AsyncConsumer, AsyncProducer, Producer, RebalanceListener, TopicPartition
from support.kafka import KafkaServer

ROWS = 2000


@pytest.mark.parametrize("kind", COMMON)
def test_async_transactions_copy_each_row_once(kafka: KafkaServer, new_topic: Callable[..., str], kind: str) -> None:
    source, target = new_topic(3), new_topic(1)
    with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for number in range(ROWS):
            producer.send(source, str(number), partition=number % 3)
    servers, chance = {"bootstrap.servers": kafka.bootstrap_servers}, random.Random(3)
    events: list[str] = []

    class Listener(RebalanceListener):
        async def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
            events.append("assigned")

        async def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
            events.append("revoked")

    async def main() -> tuple[int, list[bytes]]:
        cancelled, moved = 0, 0
        options = {"group.id": f"{source}-g", "auto.offset.reset": "earliest", "max.poll.records": 100}
        async with (
            AsyncProducer(servers, transactional_id=f"{source}-x", linger_ms=0) as producer,
            AsyncConsumer(servers | options, enable_auto_commit=False, fetch_max_bytes=2000) as consumer,
        ):
            consumer.subscribe([source], listener=Listener())
            while moved < ROWS:
                batch = await within(chance.uniform(0.0, 0.02), lambda: consumer.poll(30.0))
                if batch is None:
                    cancelled += 1
                    continue
                async with producer.transaction():
                    await producer.send_batch(target, batch.select(["key", "value"]))
                    await producer.send_offsets_to_transaction(batch, consumer.group_metadata())
                moved += batch.num_rows
            # Markers are written after the response to the commit.
            partitions = [TopicPartition(source, partition) for partition in range(3)]
            committed = await consumer.committed(partitions, require_stable=True)
            assert sum(at.offset for at in committed.values() if at is not None) == ROWS
        async with AsyncConsumer(servers, isolation_level="read_committed") as consumer:
            consumer.assign([TopicPartition(target, 0)])
            await consumer.seek_to_beginning()
            results: list[bytes] = []
            with anyio.fail_after(60):
                while len(results) < ROWS:
                    results += (await consumer.poll(1.0)).column("value").to_pylist()
            results += (await consumer.poll(0.5)).column("value").to_pylist()
        return cancelled, results

    cancelled, results = RUN[kind](main)
    assert cancelled > 0
    assert sorted(map(int, results)) == list(range(ROWS))
    assert events[0] == "assigned"
    assert events[-1] == "revoked"
