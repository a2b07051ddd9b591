"""Real-time mode (SPARK-52330) of the JVM source: records pass during a batch; batches follow without a gap."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from samsarrow import Admin, Consumer, Producer
from support.fixtures import create_topic
from support.kafka import KafkaServer
from support.parity import JVM
from support.streams import produce
from support.waiting import until

# Spark's minimum duration of a real-time batch.
LASTS_S = 5


@pytest.fixture
def start(built: None, spark: Any, kafka: KafkaServer, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Returns a function that starts queries copying records to another topic through Spark's connector."""
    queries: list[Any] = []

    def run(source: str, target: str, *columns: str, **options: str) -> Any:
        dotted = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "startingOffsets": "earliest", **options}
        frame = spark.readStream.format(JVM).options(subscribe=source, **dotted).load().selectExpr(*columns)
        writer = frame.writeStream.format("kafka").outputMode("update").trigger(realTime=f"{LASTS_S} seconds")
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).option("topic", target)
        queries.append(writer.option("kafka.bootstrap.servers", kafka.bootstrap_servers).start())
        return queries[-1]

    yield run
    for query in queries:
        query.stop()


@pytest.fixture
def copied(kafka: KafkaServer) -> Iterator[Callable[[str], list[str]]]:
    """Returns a function for the current values of a topic."""
    seen: dict[str, list[str]] = {}
    readers: dict[str, Consumer] = {}

    def read(topic: str) -> list[str]:
        if topic not in readers:
            readers[topic] = Consumer(bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="earliest")
            readers[topic].assign([(topic, 0)])
            seen[topic] = []
        for value in readers[topic].poll(0.05).column("value").to_pylist():
            seen[topic].append(value.decode())
        return seen[topic]

    yield read
    for reader in readers.values():
        reader.close()


def ends(query: Any) -> list[dict[str, dict[str, int]]]:
    """Returns the end offsets of finished batches."""
    return [json.loads(source.endOffset) for done in query.recentProgress for source in done.sources]


def committed(kafka: KafkaServer, group: str) -> dict[int, int]:
    with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        return {tp.partition: at.offset for tp, at in admin.fetch_offsets(group).items() if at is not None}


def test_records_are_delivered_during_a_batch(
    spark: Any, kafka: KafkaServer, start: Callable[..., Any], copied: Callable[[str], list[str]]
) -> None:
    source, target = create_topic(kafka, 2), create_topic(kafka)
    produce(kafka, source, {0: ["a0", "a1"], 1: ["b0"]})
    # In this mode Spark does not request offsets, so the source reads them itself.
    query = start(source, target, "value", commitOffsets="true", **{"kafka.group.id": source})
    until(lambda: query.exception() is None and len(copied(target)) == 3, lambda: (copied(target), query.exception()))
    took = []
    with Producer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=0) as producer:
        for number in range(40):
            sent = time.monotonic()
            producer.send(source, f"a{number + 2}", partition=0).result(30)
            until(lambda number=number: f"a{number + 2}" in copied(target), query.exception)
            took.append(time.monotonic() - sent)
            time.sleep(0.15)
    # There is a pause between batches. If records waited for the next batch, each would take as long as a batch.
    assert sorted(took)[len(took) // 2] < LASTS_S / 2, took
    until(lambda: len(ends(query)) >= 2, lambda: query.lastProgress)
    assert sorted(copied(target)) == sorted(["b0", *(f"a{n}" for n in range(42))])
    until(lambda: {source: {"0": 42, "1": 1}} in ends(query), lambda: ends(query))
    until(lambda: committed(kafka, source) == {0: 42, 1: 1}, lambda: committed(kafka, source))
    query.stop()
    # Spark commits once more after it has stopped the source.
    until(lambda: not spark.streams.active)
    produce(kafka, source, {0: ["later"], 1: ["later too"]})
    # Records after the last finished batch may be repeated after a restart.
    again = start(source, target, "value", "cast(offset as string) key")
    until(lambda: {"later", "later too"} <= set(copied(target)), again.exception)
    assert copied(target)[:43].count("b0") == 1
    assert [value for value in copied(target) if value.startswith("a")][:42] == [f"a{n}" for n in range(42)]


def test_all_columns_and_new_partitions(
    kafka: KafkaServer, start: Callable[..., Any], copied: Callable[[str], list[str]]
) -> None:
    source, target = create_topic(kafka), create_topic(kafka)
    row = "concat_ws(' ', cast(key as string), partition, offset, timestampType, cast(headers[0].value as string))"
    columns = [f"concat({row}, ' ', cast(value as string)) value"]
    query = start(source, target, *columns, includeHeaders="true")
    with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        producer.send(source, "v", key="k", headers=[("h", b"1")])
    until(lambda: copied(target) == ["k 0 0 0 1 v"], lambda: (copied(target), query.exception()))
    assert query.exception() is None
