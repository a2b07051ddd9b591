"""Newer versions of the schemas that a streaming query in the JVM reads with."""

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from samsarrow import Producer
from samsarrow.testing import Broker, Registry
from support.avro import encoded
from support.waiting import until

FIRST: dict[str, Any] = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
SECOND = {**FIRST, "fields": [*FIRST["fields"], {"name": "city", "type": "string", "default": "?"}]}


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry() as server:
        yield server


def options(broker: Broker, registry: Registry, topic: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": broker.bootstrap_servers,
        "subscribe": topic,
        "value.format": "avro",
        "schema.registry.url": registry.url,
        "value.evolution": "restart",
    }


def test_newer_schema_version_ends_query(
    built: None, spark: Any, broker: Broker, registry: Registry, tmp_path: Path
) -> None:
    broker.create_topic("evolved", 1)
    seen: list[Any] = []

    def send(number: int, schema: Any, row: dict[str, Any]) -> None:
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            producer.send("evolved", struct.pack(">bI", 0, number) + encoded(schema, row))

    def start() -> Any:
        source = spark.readStream.format("samsarrow-jvm").options(**options(broker, registry, "evolved"))
        source = source.option("value.evolution.interval.ms", "100").option("startingOffsets", "earliest")
        frame = source.load().select("offset", "value.*")
        writer = frame.writeStream.foreachBatch(lambda batch, _: seen.extend(map(tuple, batch.collect())))
        return writer.option("checkpointLocation", str(tmp_path)).start()

    send(registry.register("evolved-value", FIRST), FIRST, {"id": 1})
    running = start()
    try:
        until(lambda: seen == [(0, 1)] or not running.isActive, seconds=120)
        second = registry.register("evolved-value", SECOND)
        expected = r"SchemaEvolvedError: subject evolved-value has version 2, and this query reads values as version 1"
        with pytest.raises(StreamingQueryException, match=expected):
            running.awaitTermination(120)
        send(second, SECOND, {"id": 2, "city": "Rome"})
        running = start()
        until(lambda: len(seen) == 2 or not running.isActive, seconds=120)
        # A registry that does not respond does not end the query.
        registry.close()
        send(second, SECOND, {"id": 3, "city": "Oslo"})
        until(lambda: len(seen) == 3 or not running.isActive, seconds=120)
        assert seen == [(0, 1), (1, 2, "Rome"), (2, 3, "Oslo")]
        assert running.isActive
    finally:
        running.stop()


def test_batches_reject_evolution(built: None, spark: Any, broker: Broker, registry: Registry) -> None:
    registry.register("batch-value", FIRST)
    frame = spark.read.format("samsarrow-jvm").options(**options(broker, registry, "batch")).load()
    with pytest.raises(Exception, match=r"value\.evolution is for streaming queries: a batch asks for the schema"):
        frame.count()


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"value.evolution": "fail"}, "value.evolution must be ignore or restart, not 'fail'"),
        ({"value.version": "3"}, "restart and value.version contradict"),
        ({"value.schema": json.dumps(FIRST)}, "restart and value.schema contradict"),
        ({"value.evolution.interval.ms": "soon"}, "must be a whole number, not 'soon'"),
    ],
)
def test_invalid_options(
    built: None, spark: Any, broker: Broker, registry: Registry, given: dict[str, str], text: str
) -> None:
    with pytest.raises(Exception, match=text):
        spark.read.format("samsarrow-jvm").options(**{**options(broker, registry, "t"), **given}).load()
