"""Streaming queries and newer versions of their reader schemas."""

import json
import logging
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from samsarrow import Producer
from samsarrow.exceptions import ConfigurationError
from samsarrow.spark import SchemaEvolvedError
from samsarrow.spark.datasource import KafkaDataSource
from samsarrow.spark.options import ReadOptions
from samsarrow.spark.stream_spark40 import Spark40StreamReader
from samsarrow.testing import Registry
from support.avro import encoded
from support.kafka import KafkaServer
from support.waiting import until

NewTopicName = Callable[..., str]
FIRST: dict[str, Any] = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
SECOND = {**FIRST, "fields": [*FIRST["fields"], {"name": "city", "type": "string", "default": "?"}]}
BASE = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "t", "value.format": "avro"}


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry() as server:
        yield server


def send(kafka: KafkaServer, topic: str, number: int, schema: Any, *rows: dict[str, Any]) -> None:
    with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for row in rows:
            producer.send(topic, struct.pack(">bI", 0, number) + encoded(schema, row))


class Query:
    """A query that collects the rows that it reads."""

    def __init__(self, spark: Any, kafka: KafkaServer, registry: Registry, topic: str, folder: Path) -> None:
        self._spark, self._folder, self.seen = spark, folder, list[Any]()
        self._options = {
            "kafka.bootstrap.servers": kafka.bootstrap_servers,
            "subscribe": topic,
            "startingOffsets": "earliest",
            "value.format": "avro",
            "schema.registry.url": registry.url,
            "schema.registry.max.retries": "0",
        }

    def start(self, **options: str) -> Any:
        source = self._spark.readStream.format("samsarrow-python").options(**self._options, **options)

        def keep(batch: Any, _number: int) -> None:
            self.seen.extend(tuple(row) for row in batch.orderBy("offset").collect())

        frame = source.load().select("offset", "value.*")
        return frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(self._folder)).start()


@pytest.mark.parametrize("evolution", ["restart", "ignore"])
def test_newer_schema_version(
    spark: Any, kafka: KafkaServer, new_topic: NewTopicName, registry: Registry, tmp_path: Path, evolution: str
) -> None:
    topic = new_topic(1)
    first = registry.register(f"{topic}-value", FIRST)
    send(kafka, topic, first, FIRST, {"id": 1})
    query = Query(spark, kafka, registry, topic, tmp_path)
    ends = evolution == "restart"
    options = {"value.evolution": evolution, **({"value.evolution.interval.ms": "100"} if ends else {})}
    running = query.start(**options)
    try:
        until(lambda: query.seen == [(0, 1)] or not running.isActive, seconds=240)
        assert running.isActive
        second = registry.register(f"{topic}-value", SECOND)
        if ends:
            with pytest.raises(
                StreamingQueryException, match=rf"SchemaEvolvedError: subject {topic}-value has version 2"
            ):
                running.awaitTermination(120)
            send(kafka, topic, second, SECOND, {"id": 2, "city": "Rome"})
            running = query.start(**options)
        else:
            send(kafka, topic, second, SECOND, {"id": 2, "city": "Rome"})
        until(lambda: len(query.seen) == 2 or not running.isActive, seconds=240)
        assert query.seen == [(0, 1), (1, 2, "Rome") if ends else (1, 2)]
        assert running.isActive
    finally:
        running.stop()


def options(registry: Registry, **more: str) -> ReadOptions:
    config = {**BASE, "schema.registry.url": registry.url, "value.evolution": "restart", **more}
    parsed = ReadOptions.parse(config, streaming=True)
    registry.register("t-value", FIRST)
    return ReadOptions(**{**parsed.__dict__, "typed": tuple(item.resolved() for item in parsed.typed)})


def test_newer_version_is_polled(registry: Registry) -> None:
    seldom = Spark40StreamReader(options(registry, **{"value.evolution.interval.ms": "600000"}))
    often = Spark40StreamReader(options(registry, **{"value.evolution.interval.ms": "0"}))
    before = registry.requests()
    for _ in range(3):
        seldom.check_schemas()
    assert registry.requests() == before + 1
    often.check_schemas()
    registry.register("t-value", SECOND)
    seldom.check_schemas()
    with pytest.raises(
        SchemaEvolvedError, match=r"version 2, and this query reads values as version 1 .*load the stream"
    ):
        often.check_schemas()
    for reader in (seldom, often):
        reader.stop()


def test_registry_outage_does_not_stop_query(registry: Registry, caplog: pytest.LogCaptureFixture) -> None:
    reader = Spark40StreamReader(options(registry, **{"value.evolution.interval.ms": "0"}))
    registry.down()
    with caplog.at_level(logging.WARNING, "samsarrow"):
        reader.check_schemas()
        until(lambda: "subject t-value has a newer version than 1 cannot be found out" in caplog.text)
    registry.up()
    registry.register("t-value", SECOND)
    with pytest.raises(SchemaEvolvedError):
        reader.check_schemas()
    reader.stop()


def test_spark40_polls_newer_version(registry: Registry) -> None:
    reader = Spark40StreamReader(options(registry))
    registry.register("t-value", SECOND)
    with pytest.raises(SchemaEvolvedError):
        reader.latestOffset()
    reader.stop()


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"value.evolution": "fail"}, "value.evolution must be ignore or restart, not 'fail'"),
        ({"value.evolutions": "restart"}, "did you mean value.evolution"),
        ({"value.evolution": "restart", "value.version": "3"}, "restart and value.version contradict"),
        ({"value.evolution": "restart", "value.schema": json.dumps(FIRST)}, "restart and value.schema contradict"),
        ({"value.evolution": "restart", "value.evolution.interval.ms": "soon"}, "must be a whole number, not 'soon'"),
        ({"value.evolution.interval.ms": "5"}, "interval.ms has no effect without value.evolution=restart"),
        ({"key.format": "int", "key.evolution": "restart"}, "key.evolution has no effect with key.format=int"),
    ],
)
def test_invalid_options(given: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        KafkaDataSource({**BASE, "schema.registry.url": "http://r", **given}).schema()


def test_batches_reject_evolution(registry: Registry) -> None:
    registry.register("t-value", FIRST)
    config = {**BASE, "schema.registry.url": registry.url, "value.evolution": "restart"}
    source = KafkaDataSource(config)
    schema = source.schema()
    with pytest.raises(ConfigurationError, match=r"value\.evolution is for streaming queries"):
        source.reader(schema)
