"""Typed values with schemas in AWS Glue Schema Registry, on moto's server, with AWS credentials from a profile."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from samsarrow import Avro, Consumer, GlueSchemaRegistry, Json, Protobuf
from samsarrow.testing import Broker
from support.glue import Moto
from support.spark import AWS_PROFILE

FORMATS = ("samsarrow-python", "samsarrow-jvm")
SCHEMAS = {
    "avro": json.dumps(
        {
            "type": "record",
            "name": "Order",
            "fields": [{"name": "id", "type": "long"}, {"name": "city", "type": ["null", "string"]}],
        }
    ),
    "json": json.dumps(
        {
            "type": "object",
            "properties": {"id": {"type": "integer"}, "city": {"type": "string"}},
            "required": ["id"],
        }
    ),
    "protobuf": 'syntax = "proto3"; message Order { int64 id = 1; optional string city = 2; }',
}
CLASSES: dict[str, Any] = {"avro": Avro, "json": Json, "protobuf": Protobuf}
ROWS = [{"id": 1, "city": "Rome"}, {"id": 2, "city": "Oslo"}, None]


@pytest.fixture(scope="module")
def moto() -> Iterator[Moto]:
    with Moto() as server:
        yield server


def options(broker: Broker, moto: Moto, **more: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": broker.bootstrap_servers,
        "schema.registry.url": "glue://eu-central-1",
        "schema.registry.aws.endpoint.url": moto.url,
        "schema.registry.aws.profile": AWS_PROFILE,
        **more,
    }


@pytest.mark.parametrize("form", SCHEMAS)
def test_both_sources_write_and_read(
    built: None, spark: Any, broker: Broker, moto: Moto, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    frame = spark.range(1, 4).selectExpr(
        "if(id = 3, null, named_struct('id', id, 'city', if(id = 1, 'Rome', 'Oslo'))) value"
    )
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    registry = GlueSchemaRegistry("eu-central-1", endpoint_url=moto.url)
    for sink in FORMATS:
        topic = f"glue-{form}-{sink}"
        broker.create_topic(topic, 1)
        dotted = options(broker, moto, **{"topic": topic, "value.format": form, "value.schema": SCHEMAS[form]})
        frame.coalesce(1).write.format(sink).options(**dotted).mode("append").save()

        # The name of the schema is that of the topic, as the serializers of AWS name it.
        found = registry.schema(name=topic)
        with Consumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
            consumer.assign(consumer.partitions_for(topic))
            values = consumer.reader().read_all()["value"].to_pylist()
        assert found.guid is not None
        assert [value and value[:18] for value in values] == [b"\x03\x00" + found.guid.bytes] * 2 + [None]

        for source in FORMATS:
            dotted = options(broker, moto, **{"subscribe": topic, "value.format": form})
            rows = spark.read.format(source).options(**dotted).load().orderBy("offset").select("value").collect()
            assert [row.value and row.value.asDict() for row in rows] == ROWS, (sink, source)

        with Consumer(
            bootstrap_servers=broker.bootstrap_servers,
            auto_offset_reset="earliest",
            value_format=CLASSES[form](registry),
        ) as consumer:
            consumer.assign(consumer.partitions_for(topic))
            assert consumer.reader().read_all()["value"].to_pylist() == ROWS
    registry.close()


@pytest.mark.parametrize("source", FORMATS)
def test_invalid_options_are_errors(built: None, spark: Any, broker: Broker, moto: Moto, source: str) -> None:
    topic = f"glue-invalid-{source}"
    broker.create_topic(topic, 1)
    for more, text in [
        ({"schema.registry.url": "glue://eu-central-1/a/b"}, "glue://REGION/REGISTRY"),
        ({"schema.registry.url": "http://localhost:1"}, "is for AWS Glue: its URL is glue:"),
        ({"schema.registry.context": "x"}, "which has no contexts"),
        ({"schema.registry.aws.profile": "absent"}, "profile absent does not exist"),
        ({"value.framing": "confluent"}, "has an id that AWS Glue Schema Registry does not have"),
    ]:
        dotted = options(broker, moto, **{"subscribe": topic, "value.format": "avro", **more})
        with pytest.raises(Exception, match=text):
            spark.read.format(source).options(**dotted).load().collect()
