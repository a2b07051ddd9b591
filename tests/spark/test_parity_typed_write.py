"""The same frames written by both sinks with typed keys and values: equal bytes, equal schemas, equal errors."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from samsarrow import Avro, Consumer, SchemaRegistry
from samsarrow.testing import Broker, Registry

SINKS = ("samsarrow-python", "samsarrow-jvm")
ORDER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "id", "type": "long"}, {"name": "city", "type": ["null", "string"]}],
    }
)
PROTO = 'syntax = "proto3"; message Item { string sku = 1; } message Order { int64 id = 1; optional string city = 2; }'
JSON_SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {"id": {"type": "integer"}, "city": {"type": "string", "maxLength": 9}},
        "required": ["id"],
    }
)
ORDERS = "if(id % 5 = 4, null, named_struct('id', id, 'city', if(id % 3 = 0, null, concat('città ', id)))) value"
ALL = """
    if(id % 7 = 6, null, named_struct(
        'id', id, 'flag', id % 2 = 0, 'tiny', cast(id % 100 - 50 as tinyint), 'small', cast(id as smallint),
        'whole', int(id),
        'ratio', float(id) / 3, 'double', double(id) / 3, 'exact', cast(id / 7 as decimal(9,2)),
        'large', cast(cast(-id as decimal(38,0)) * 100000000000000000000000000 as decimal(38,5)),
        'bytes', binary(string(id)), 'day', date_add(date'2026-11-23', int(id)),
        'made', timestamp_micros(1700000000000001 + id),
        'seen', cast(timestamp_micros(1700000000000001 - id) as timestamp_ntz), 'nothing', cast(null as string),
        'users', if(id = 1, null, array(named_struct('name', 'Ann', 'age', int(id)), null)),
        'numbers', transform(sequence(0, int(id) % 70), n -> if(n % 3 = 2, null, cast(n as smallint))),
        'lists', array(array(true, null, false), null, cast(array() as array<boolean>)),
        'decimals', array(cast(id as decimal(30,2)), null),
        'named', map('x', array(id, null), 'y', null), 'empty', cast(map() as map<string, double>)
    )) value
"""


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry() as server:
        yield server


@pytest.fixture
def both(built: None, broker: Broker, registry: Registry) -> Callable[..., list[list[dict[str, Any]]]]:
    """Returns a function that writes a frame with each sink, to a topic of its own, and returns the rows of both."""

    def write(frame: Any, topic: str, **options: str) -> list[list[dict[str, Any]]]:
        written = []
        for sink in SINKS:
            name = f"{topic}-{sink}"
            broker.create_topic(name, 1)
            dotted = {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": name, **options}
            if options.get("value.format") in ("avro", "json", "protobuf") and "registry" not in options:
                dotted |= {"schema.registry.url": registry.url, "value.subject": topic, "value.name": "Row"}
            if options.get("value.format") != "avro":
                dotted.pop("value.name", None)
            dotted.pop("registry", None)
            frame.write.format(sink).options(**dotted).mode("append").save()
            written.append(content(broker, name))
        return written

    return write


def content(broker: Broker, topic: str) -> list[dict[str, Any]]:
    config = {"include.headers": True, "auto.offset.reset": "earliest"}
    with Consumer(config, bootstrap_servers=broker.bootstrap_servers) as consumer:
        consumer.assign(consumer.partitions_for(topic))
        return list(consumer.reader().read_all().select(["key", "value", "headers"]).to_pylist())


def test_all_types_have_equal_bytes(spark: Any, registry: Registry, both: Any) -> None:
    frame = spark.range(0, 300, 1, 1).selectExpr(ALL)
    python, jvm = both(frame, "all", **{"value.format": "avro"})
    assert len(python) == 300
    assert python == jvm
    with SchemaRegistry(registry.url) as client:
        assert client.versions("all") == [1], "both sinks derive the same schema"
    types = json.loads(registry_schema(registry, "all"))["fields"]
    assert len(types) == 20


def registry_schema(registry: Registry, subject: str) -> str:
    with SchemaRegistry(registry.url) as client:
        return client.schema(subject=subject).schema


@pytest.mark.parametrize(
    "options",
    [
        {"value.format": "avro", "value.schema": ORDER},
        {"value.format": "avro", "value.schema": ORDER, "value.framing": "apicurio8"},
        {"value.format": "avro", "value.schema": ORDER, "value.framing": "header"},
        {"value.format": "avro", "value.schema": ORDER, "value.framing": "single-object", "registry": "none"},
        {"value.format": "protobuf", "value.schema": PROTO, "value.message": "Order"},
        {"value.format": "protobuf", "value.schema": PROTO, "value.message": "Order", "value.framing": "apicurio8"},
        {"value.format": "protobuf", "value.schema": PROTO, "value.message": "Order", "value.framing": "header"},
        {"value.format": "json", "value.schema": JSON_SCHEMA},
        {"value.format": "json", "value.schema": JSON_SCHEMA, "value.framing": "header"},
        {"value.format": "json", "value.schema": JSON_SCHEMA, "value.framing": "none"},
        {"value.format": "json", "registry": "none"},
    ],
)
def test_formats_have_equal_bytes(spark: Any, both: Any, options: dict[str, str]) -> None:
    frame = spark.range(0, 20, 1, 1).selectExpr(ORDERS, "string(id) key", "timestamp_millis(id) timestamp")
    topic = "-".join([options["value.format"], options.get("value.framing", "auto"), options.get("registry", "with")])
    python, jvm = both(frame, topic, **options, **{"key.format": "string"})
    assert len(python) == 20
    assert sum(row["value"] is None for row in python) == 4
    assert python == jvm


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("string", "if(id = 1, null, string(id))"),
        ("short", "cast(id as smallint)"),
        ("int", "int(id)"),
        ("long", "if(id = 1, null, id)"),
        ("float", "float(id)"),
        ("double", "double(id)"),
        ("boolean", "id = 1"),
        ("uuid", "'6ba7b810-9dad-11d1-80b4-00c04fd430c8'"),
    ],
)
def test_plain_types_have_equal_bytes(spark: Any, both: Any, kind: str, value: str) -> None:
    frame = spark.range(0, 3, 1, 1).selectExpr(f"{value} value", "named_struct('id', id) key")
    python, jvm = both(frame, f"plain-{kind}", **{"value.format": kind, "key.format": "json"})
    assert len(python) == 3
    assert python == jvm
    assert python[2]["key"] == b'{"id":2}'


def test_errors_are_equal(spark: Any, broker: Broker, registry: Registry, built: None) -> None:
    broker.create_topic("errors", 1)
    strict = ORDER.replace('["null", "string"]', '"string"')
    frame = spark.range(0, 20, 1, 2).selectExpr("named_struct('id', id, 'city', if(id = 17, null, 'x')) value")
    wrong = spark.range(1).selectExpr("named_struct('id', id, 'city', 'x', 'colour', 1) value")
    interval = spark.range(1).selectExpr("named_struct('took', make_dt_interval(1)) value")
    base = {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": "errors", "value.format": "avro"}
    base |= {"schema.registry.url": registry.url, "schema.registry.max.retries": "0"}
    for sink in SINKS:

        def write(frame: Any, sink: str = sink, **options: str) -> None:
            frame.write.format(sink).options(**base, **options).mode("append").save()

        with pytest.raises(
            Exception, match=r"BadValueError: errors, row 7, field city: (?s:.)*column value(?s:.)*task 1"
        ):
            write(frame, **{"value.schema": strict})
        posts = registry.requests("POST")
        with pytest.raises(
            Exception, match=r"ConfigurationError: (?s:.)*colour(?s:.)*column value, with value.format=avro"
        ):
            write(wrong, **{"value.schema": strict})
        with pytest.raises(Exception, match=r"column value.took is interval day to second, which no format writes"):
            write(interval)
        with pytest.raises(Exception, match=r"ConfigurationError: .*no column key to be written as long, only value"):
            write(wrong, **{"key.format": "long"})
        with pytest.raises(Exception, match=r"value\.fields is for reads"):
            write(wrong, **{"value.fields": "id"})
        assert registry.requests("POST") == posts
        with pytest.raises(Exception, match="SchemaNotFoundError"):
            write(frame, **{"value.auto.register": "false", "value.subject": "unknown"})
    assert all(row["value"] is not None for row in content(broker, "errors"))


@pytest.mark.parametrize("sink", SINKS)
def test_header_framing(spark: Any, broker: Broker, registry: Registry, built: None, sink: str) -> None:
    """The header is added to the headers of rows, and tombstones have none."""
    topic = f"in-headers-{sink}"
    broker.create_topic(topic, 1)
    frame = spark.range(0, 5, 1, 1).selectExpr(
        ORDERS, "if(id = 1, array(struct('h' key, binary('x') value)), null) headers", "id key"
    )
    options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": topic, "key.format": "avro"}
    options |= {"value.format": "avro", "schema.registry.url": registry.url}
    framing = {"value.framing": "header", "key.framing": "header"}
    frame.write.format(sink).options(**options, **framing).mode("append").save()
    names = [[header["key"] for header in row["headers"]] for row in content(broker, topic)]
    keys, values = ["__key_schema_id"], ["__key_schema_id", "__value_schema_id"]
    assert names == [values, ["h", *values], values, values, keys]
    with SchemaRegistry(registry.url) as client:
        config = {"auto_offset_reset": "earliest", "key_format": Avro(client), "value_format": Avro(client)}
        with Consumer(bootstrap_servers=broker.bootstrap_servers, **config) as consumer:
            consumer.assign(consumer.partitions_for(topic))
            rows = consumer.reader().read_all().select(["key", "value"]).to_pylist()
    assert [row["key"] for row in rows] == list(range(5))
    assert rows[1]["value"] == {"id": 1, "city": "città 1"}
    assert rows[4]["value"] is None
