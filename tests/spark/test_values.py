"""Typed keys and values in Spark, from an embedded broker and an in-memory registry."""

import json
import pickle
import struct
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import Row
from pyspark.sql import functions as sql
from pyspark.sql.types import DataType, IntegerType, LongType, NullType, StructType, TimestampType

from samsarrow import Avro, Producer, Protobuf, SchemaRegistry, encode_values
from samsarrow.exceptions import BadValueError, ConfigurationError, RegistryError
from samsarrow.spark import count_bytes
from samsarrow.spark.datasource import KafkaDataSource
from samsarrow.spark.options import ReadOptions
from samsarrow.spark.types import arrow_type, converted
from samsarrow.spark.values import decoded
from samsarrow.testing import Broker, Registry
from support.avro import encoded
from support.parity import JVM

ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "city", "type": ["null", "string"], "default": None},
    ],
}
EARLIER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]}
USER = {
    "type": "record",
    "name": "User",
    "fields": [{"name": "name", "type": "string"}, {"name": "age", "type": "int"}],
}


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


WIDE = {
    "type": "record",
    "name": "Wide",
    "fields": [
        {"name": "flag", "type": "boolean"},
        {"name": "nothing", "type": "null"},
        {"name": "ratio", "type": "float"},
        {"name": "bytes", "type": "bytes"},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["a", "b"]}},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 2}},
        {"name": "price", "type": logical("bytes", "decimal", precision=9, scale=2)},
        {"name": "day", "type": logical("int", "date")},
        {"name": "at", "type": logical("int", "time-millis")},
        {"name": "sharp", "type": logical("long", "time-micros")},
        {"name": "made", "type": logical("long", "timestamp-millis")},
        {"name": "seen", "type": logical("long", "local-timestamp-micros")},
        {"name": "users", "type": {"type": "array", "items": ["null", USER]}},
        {"name": "named", "type": {"type": "map", "values": {"type": "array", "items": "User"}}},
        {"name": "either", "type": ["null", "int", "string"]},
    ],
}
PYTHON = "samsarrow-python"
ANN, BOB = {"name": "Ann", "age": 7}, {"name": "Bob", "age": 8}


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry() as server:
        yield server


@pytest.fixture
def topic(broker: Broker, request: pytest.FixtureRequest) -> str:
    name = request.node.name.replace("[", "-").replace("]", "")
    broker.create_topic(name)
    return name


@pytest.fixture(params=[PYTHON, JVM])
def source(request: pytest.FixtureRequest) -> str:
    """The source under test. Both sources have equal columns, types and errors."""
    if request.param == JVM:
        request.getfixturevalue("built")
    return str(request.param)


@pytest.fixture
def orders(spark: Any, source: str, broker: Broker, registry: Registry, topic: str) -> Callable[..., Any]:
    """Returns a function for batch reads of the topic: `orders(schema=..., **options)`."""

    def read(schema: str | None = None, **options: str) -> Any:
        reader = spark.read.format(source).options(**{**typed_options(broker, registry, topic), **options})
        return (reader if schema is None else reader.schema(schema)).load()

    return read


def typed_options(broker: Broker, registry: Registry, topic: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": broker.bootstrap_servers,
        "subscribe": topic,
        "value.format": "avro",
        "schema.registry.url": registry.url,
        "schema.registry.max.retries": "0",
        "schema.registry.missing.id.retries.wait.ms": "1",
    }


def framed(number: int, schema: Any, value: Any) -> bytes:
    return struct.pack(">bI", 0, number) + encoded(schema, value)


def send(broker: Broker, topic: str, *values: bytes | None, key: bytes | None = None) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for value in values:
            producer.send(topic, value, key)


def rows(frame: Any, *columns: str) -> list[Any]:
    return [row.asDict(recursive=True) for row in frame.orderBy("offset").select(*columns).collect()]


def test_two_writer_schemas_and_a_tombstone(
    orders: Callable[..., Any], broker: Broker, registry: Registry, topic: str
) -> None:
    subject = f"{topic}-value"
    first, latest = registry.register(subject, EARLIER), registry.register(subject, ORDER)
    values = [
        framed(first, EARLIER, {"id": 1}),
        framed(latest, ORDER, {"id": 2, "city": "Rome"}),
        None,
        framed(latest, ORDER, {"id": 3, "city": None}),
    ]
    send(broker, topic, *values, key=struct.pack(">i", 42))
    frame = orders(**{"key.format": "int"})
    assert frame.schema["value"].dataType.simpleString() == "struct<id:bigint,city:string>"
    assert frame.schema["key"].dataType.simpleString() == "int"
    requests = registry.requests("/subjects")
    assert rows(frame, "offset", "key", "value") == [
        {"offset": 0, "key": 42, "value": {"id": 1, "city": None}},
        {"offset": 1, "key": 42, "value": {"id": 2, "city": "Rome"}},
        {"offset": 2, "key": 42, "value": None},
        {"offset": 3, "key": 42, "value": {"id": 3, "city": None}},
    ]
    assert registry.requests("/subjects") == requests, "what rows look like is asked for once, on the driver"
    assert rows(frame.where("value.id > 1"), "value.id") == [{"id": 2}, {"id": 3}]
    assert frame.count() == 4
    assert orders(**{"value.version": "1"}).schema["value"].dataType.simpleString() == "struct<id:int>"


def test_projections(orders: Callable[..., Any], broker: Broker, registry: Registry, topic: str) -> None:
    schema = {
        "type": "record",
        "name": "Sale",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "user", "type": USER},
            {"name": "items", "type": {"type": "array", "items": {**ORDER, "name": "Item"}}},
        ],
    }
    number = registry.register(f"{topic}-value", schema)
    sale = {"id": 1, "user": ANN, "items": [{"id": 5, "city": "Ulm"}]}
    send(broker, topic, framed(number, schema, sale))
    expected = "offset bigint, value struct<items: array<struct<city: string>>, user: struct<age: int>>"
    frame = orders(expected)
    assert frame.schema.simpleString() == (
        "struct<offset:bigint,value:struct<items:array<struct<city:string>>,user:struct<age:int>>>"
    )
    assert frame.collect()[0].asDict(recursive=True) == {
        "offset": 0,
        "value": {"items": [{"city": "Ulm"}], "user": {"age": 7}},
    }
    frame = orders(**{"value.fields": "id, user.name", "columns": "value"})
    assert frame.schema.simpleString() == "struct<value:struct<id:bigint,user:struct<name:string>>>"
    assert frame.collect()[0].value.user.name == "Ann"
    for schema_text, text in (
        ("value struct<colour: string>", "there is no field value.colour, only id, user, items"),
        ("value struct<id: string>", "value.id is bigint, not string"),
        ("value struct<id: bigint not null>", "cannot be NOT NULL"),
        ("value binary", "not binary"),
    ):
        with pytest.raises(Exception, match=text):
            orders(schema_text).collect()


def test_types(orders: Callable[..., Any], broker: Broker, registry: Registry, topic: str) -> None:
    moment = datetime(2026, 11, 23, 17, 0, 0, 5000, UTC)
    wide = {
        "flag": True,
        "nothing": None,
        "ratio": 0.5,
        "bytes": b"\x00\xff",
        "kind": "b",
        "hash": b"ab",
        "price": Decimal("-12.34"),
        "day": date(2026, 11, 23),
        "at": 1000,
        "sharp": 1_000_001,
        "made": moment,
        "seen": moment.replace(tzinfo=None),
        "users": [ANN, None],
        "named": {"x": [BOB], "y": []},
        "either": "text",
    }
    times = {"at": datetime.min.time().replace(second=1), "sharp": datetime.min.time().replace(second=1, microsecond=1)}
    number = registry.register(f"{topic}-value", WIDE)
    send(broker, topic, *(framed(number, WIDE, {**wide, **times, "flag": flag}) for flag in (True, False)), None)
    frame = orders()
    assert frame.schema["value"].dataType.simpleString() == (
        "struct<flag:boolean,nothing:void,ratio:float,bytes:binary,kind:string,hash:binary,price:decimal(9,2),day:date,"
        "at:int,sharp:bigint,made:timestamp,seen:timestamp_ntz,users:array<struct<name:string,age:int>>,"
        "named:map<string,array<struct<name:string,age:int>>>,either:struct<int:int,string:string>>"
    )
    first, second, third = (row["value"] for row in rows(frame, "value"))
    expected = {**wide, "either": {"int": None, "string": "text"}, "made": moment.replace(tzinfo=None)}
    assert first == expected
    assert second == {**expected, "flag": False}
    assert third is None


def test_spark_avro_agrees(orders: Callable[..., Any], broker: Broker, registry: Registry, topic: str) -> None:
    """Rows and types equal those of `from_avro`, except times of day and the names of union branches."""
    functions = pytest.importorskip("pyspark.sql.avro.functions")
    kept = [field for field in WIDE["fields"] if field["name"] not in ("nothing", "at", "sharp", "either")]
    schema = {**WIDE, "fields": kept}
    number, random = registry.register(f"{topic}-value", schema), Random(7)
    send(broker, topic, *(framed(number, schema, chosen(random)) for _ in range(200)), None)
    ours = orders(**{"value.onError": "null"})
    theirs = functions.from_avro(sql.expr("substring(raw_value, 6)"), json.dumps(schema))
    both = ours.select("offset", "value", theirs.alias("theirs"))
    assert both.schema["value"].dataType.simpleString() == both.schema["theirs"].dataType.simpleString()
    result = rows(both, "value", "theirs")
    assert len(result) == 201
    assert [row["value"] for row in result] == [row["theirs"] for row in result]


def chosen(random: Random) -> dict[str, Any]:
    """Returns a random row that both our source and `from_avro` can read."""
    moment = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(milliseconds=random.randrange(10**10))
    user = {"name": random.choice(["Ann", "Zoë", ""]), "age": random.randrange(-5, 100)}
    return {
        "flag": random.random() < 0.5,
        "ratio": random.choice([0.5, -0.0, 1e30, float("inf")]),
        "bytes": random.randbytes(random.randrange(4)),
        "kind": random.choice("ab"),
        "hash": random.randbytes(2),
        "price": Decimal(random.randrange(-(10**9) + 1, 10**9)).scaleb(-2),
        "day": date(1970, 1, 1) + timedelta(days=random.randrange(-20_000, 40_000)),
        "made": moment,
        "seen": moment.replace(tzinfo=None) + timedelta(microseconds=random.randrange(1000)),
        "users": random.choices([user, None], k=random.randrange(4)),
        "named": {name: [user] * random.randrange(3) for name in random.sample("xyz", random.randrange(4))},
    }


SALE = """
    syntax = "proto3";
    import "google/protobuf/timestamp.proto";
    message Other { int32 x = 1; }
    message Sale {
        uint64 id = 1;
        User user = 2;
        repeated string tags = 3;
        map<string, int32> counts = 4;
        google.protobuf.Timestamp at = 5;
        message User { string city = 1; uint32 age = 2; }
    }
"""


def test_protobuf(orders: Callable[..., Any], broker: Broker, registry: Registry, topic: str) -> None:
    moment = datetime(2026, 11, 23, 17, 0, 0, 5000, UTC)
    sales = pa.table(
        {
            "id": pa.array([7, 2**64 - 1], pa.uint64()),
            "user": pa.array([{"city": "Rome", "age": 2**32 - 1}, None]),
            "tags": [["a", "b"], []],
            "counts": pa.array([[("x", 1)], []], pa.map_(pa.string(), pa.int32())),
            "at": pa.array([moment, None], pa.timestamp("us", "UTC")),
        }
    )
    user = pa.struct([("city", pa.string()), ("age", pa.uint32())])
    sales = sales.set_column(1, "user", sales["user"].cast(user))
    bare = Protobuf(SALE, message="Sale", framing="none")
    send(broker, topic, *encode_values(sales, bare).to_pylist(), None, b"\x08")
    options = {
        "value.format": "protobuf",
        "value.schema": SALE,
        "value.message": "Sale",
        "value.framing": "none",
        "value.onError": "null",
    }
    frame = orders(**options)
    assert frame.schema["value"].dataType.simpleString() == (
        "struct<id:decimal(20,0),user:struct<city:string,age:bigint>,tags:array<string>,counts:map<string,int>,"
        "at:timestamp>"
    )
    first, second, third, fourth = rows(frame, "value", "value_error")
    assert first["value"] == {
        "id": Decimal(7),
        "user": {"city": "Rome", "age": 2**32 - 1},
        "tags": ["a", "b"],
        "counts": {"x": 1},
        "at": moment.replace(tzinfo=None),
    }
    assert second["value"] == {"id": Decimal(2**64 - 1), "user": None, "tags": [], "counts": {}, "at": None}
    assert third == {"value": None, "value_error": None}
    assert fourth["value"] is None
    assert fourth["value_error"]
    expected = orders("value struct<user: struct<age: bigint>, id: decimal(20, 0)>", **options).orderBy("value.id")
    assert [row.value and row.value.user and row.value.user.age for row in expected.collect()][-2:] == [2**32 - 1, None]
    # Uses the registry's schema, and values with its framing.
    number = registry.register(f"{topic}-value", SALE, schema_type="PROTOBUF")
    send(broker, topic, struct.pack(">bI", 0, number) + b"\x02\x02" + encode_values(sales, bare)[0].as_py())
    later = {"value.format": "protobuf", "value.message": "Sale", "startingOffsets": json.dumps({topic: {"0": 4}})}
    assert rows(orders(**later), "value.user.city") == [{"city": "Rome"}]


def test_json(orders: Callable[..., Any], broker: Broker, registry: Registry, topic: str) -> None:
    schema = {
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "at": {"type": "string", "format": "date-time"},
            "sizes": {"type": "array", "items": {"type": ["number", "null"]}},
            "names": {"type": "object", "additionalProperties": {"type": "string"}},
            "any": {},
        },
        "required": ["id"],
    }
    texts = [
        b'{"id": 7, "at": "2026-11-23T17:00:00.005Z", "sizes": [1, null, 2.5], "names": {"a": "b"}, "any": {"x": 1}}',
        b'{"sizes": [], "id": 8, "more": [1, 2]}',
        None,
    ]
    send(broker, topic, *texts, b'{"id": "nine"}')
    options = {"value.format": "json", "value.schema": json.dumps(schema)}
    frame = orders(**options)
    assert frame.schema["value"].dataType.simpleString() == (
        "struct<id:bigint,at:timestamp,sizes:array<double>,names:map<string,string>,any:string>"
    )
    with pytest.raises(Exception, match=rf"{topic}-0, offset 3, field id"):
        frame.collect()
    moment = datetime(2026, 11, 23, 17, 0, 0, 5000)
    assert rows(orders(**options, **{"value.onError": "null"}), "value") == [
        {"value": {"id": 7, "at": moment, "sizes": [1.0, None, 2.5], "names": {"a": "b"}, "any": '{"x": 1}'}},
        {"value": {"id": 8, "at": None, "sizes": [], "names": None, "any": None}},
        {"value": None},
        {"value": None},
    ]
    # Uses the registry's schema, and values with its framing.
    number = registry.register(f"{topic}-value", schema, schema_type="JSON")
    send(broker, topic, struct.pack(">bI", 0, number) + b'{"id": 9}')
    later = {"value.format": "json", "value.fields": "id", "startingOffsets": json.dumps({topic: {"0": 4}})}
    assert rows(orders(**later), "value") == [{"value": {"id": 9}}]


def test_names_with_dots(orders: Callable[..., Any], broker: Broker, topic: str) -> None:
    """One field is named `host.name`, which is also the path of a nested field."""
    text = {"type": "string"}
    host = {"type": "object", "properties": {"name": text, "os": text}}
    schema = json.dumps({"type": "object", "properties": {"host.name": text, "host": host, "a,b": {"type": "integer"}}})
    value = {"host.name": "flat", "host": {"name": "nested", "os": "x"}, "a,b": 7}
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send(topic, json.dumps(value))
    options = {"value.format": "json", "value.schema": schema}
    names = ("`host.name`", "host.name", "`a,b`")
    frame = orders(**options)
    for name, found in zip(names, ("flat", "nested", 7), strict=True):
        assert [row[0] for row in frame.selectExpr(f"value.{name}").collect()] == [found]
    chosen = orders("value struct<`host.name`:string, host:struct<name:string>>", **options).selectExpr("value.*")
    assert [tuple(row) for row in chosen.collect()] == [("flat", ("nested",))]
    only = orders(**options, **{"value.fields": "`host.name`, `a,b`"}).selectExpr("value.*")
    assert [row.asDict() for row in only.collect()] == [{"host.name": "flat", "a,b": 7}]
    with pytest.raises(Exception, match=r"there is no field value\.`host\.nam`, only `host\.name`, host, `a,b`"):
        orders("value struct<`host.nam`:string>", **options).collect()


def test_recursive_types(orders: Callable[..., Any], broker: Broker, topic: str) -> None:
    node = {
        "type": "record",
        "name": "Node",
        "fields": [{"name": "v", "type": "int"}, {"name": "next", "type": ["null", "Node"]}],
    }
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send(topic, b"\x02\x02\x04\x00")
    options = {"value.format": "avro", "value.schema": json.dumps(node), "value.framing": "none"}
    with pytest.raises(Exception, match=r"give `recursion` the depth(.|\n)*the options value\.\*"):
        orders(**options).collect()
    frame = orders(**options, **{"value.recursion": "1"})
    assert frame.schema["value"].dataType.simpleString() == "struct<v:int,next:struct<v:int,next:void>>"
    assert [row.value.asDict(True) for row in frame.collect()] == [{"v": 1, "next": {"v": 2, "next": None}}]


def test_imported_schema_files(orders: Callable[..., Any], broker: Broker, topic: str) -> None:
    schema = 'syntax = "proto3"; import "shop/user.proto"; message Order { shop.User user = 1; }'
    user = 'syntax = "proto3"; package shop; message User { string city = 1; }'
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send(topic, b"\x0a\x06\x0a\x04Rome")
    options = {"value.format": "protobuf", "value.schema": schema, "value.framing": "none"}
    with pytest.raises(Exception, match="nor in the imports"):
        orders(**options).collect()
    frame = orders(**options, **{"value.imports": json.dumps({"shop/user.proto": user})})
    assert [row.city for row in frame.select("value.user.city").collect()] == ["Rome"]


def test_schema_id_in_headers(orders: Callable[..., Any], broker: Broker, registry: Registry, topic: str) -> None:
    """With `header`, a value without a schema header is bad, whereas `auto` would look for framing."""
    registry.register(f"{topic}-value", ORDER)
    form = Avro(SchemaRegistry(registry.url), schema=json.dumps(ORDER), framing="header")
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        rows = pa.table({"value": pa.array([{"id": 7, "city": "Rome"}])})
        producer.send_batch(topic, rows, value_format=form).result(10)
        producer.send(topic, framed(1, ORDER, {"id": 8, "city": None}))
    frame = orders(**{"value.framing": "header", "value.onError": "null"})
    assert [row.value and row.value.asDict() for row in frame.orderBy("offset").collect()] == [
        {"id": 7, "city": "Rome"},
        None,
    ]


def test_messages_without_fields(orders: Callable[..., Any], broker: Broker, topic: str) -> None:
    proto = """syntax = "proto3"; import "google/protobuf/empty.proto";
        message M { int32 i = 1; google.protobuf.Empty e = 2; repeated google.protobuf.Empty l = 3; }"""
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for value in (b"\x08\x07\x12\x00\x1a\x00\x1a\x00", b"\x08\x08"):
            producer.send(topic, value)
    frame = orders(**{"value.format": "protobuf", "value.schema": proto, "value.framing": "none"})
    assert [row.e for row in frame.select("value.e").collect()] == [Row(), None]
    result = frame.selectExpr("value.i i", "value.e is null n", "size(value.l) s").collect()
    assert [tuple(row) for row in result] == [(7, False, 2), (8, True, 0)]
    chosen = orders(
        "value struct<e:struct<>>", **{"value.format": "protobuf", "value.schema": proto, "value.framing": "none"}
    )
    assert [row.value for row in chosen.collect()] == [Row(e=Row()), Row(e=None)]


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        pytest.param("string", "Zoë".encode(), "Zoë", id="string"),
        pytest.param("short", b"\xff\xfe", -2, id="short"),
        pytest.param("long", b"\0" * 7 + b"\x05", 5, id="long"),
        pytest.param("float", struct.pack(">f", 0.5), 0.5, id="float"),
        pytest.param("double", struct.pack(">d", -2.5), -2.5, id="double"),
        pytest.param("boolean", b"\x01", True, id="boolean"),
    ],
)
def test_kafka_primitive_types(
    orders: Callable[..., Any], broker: Broker, topic: str, kind: str, value: bytes, expected: Any
) -> None:
    send(broker, topic, value, None, key=value)
    frame = orders(**{"value.format": "avro", "value.schema": '"bytes"', "key.format": kind, "value.onError": "null"})
    assert rows(frame, "key") == [{"key": expected}] * 2


def test_unsupported_type_can_be_skipped(
    orders: Callable[..., Any], broker: Broker, registry: Registry, topic: str
) -> None:
    duration = {"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"}
    schema = {**ORDER, "fields": [{"name": "id", "type": "long"}, {"name": "took", "type": duration}]}
    number = registry.register(f"{topic}-value", schema)
    send(broker, topic, framed(number, {**ORDER, "fields": schema["fields"][:1]}, {"id": 4}) + b"\0" * 12)
    with pytest.raises(Exception, match=r"value\.took has the type month_day_nano_interval.*value\.fields"):
        orders()
    assert rows(orders(**{"value.fields": "id"}), "value") == [{"value": {"id": 4}}]


def test_bad_values(orders: Callable[..., Any], broker: Broker, registry: Registry, topic: str) -> None:
    number = registry.register(f"{topic}-value", ORDER)
    good = framed(number, ORDER, {"id": 1, "city": "Rome"})
    send(broker, topic, good, good[:-2], None, good)
    with pytest.raises(Exception, match=rf"{topic}-0, offset 1, .*{number}.*field city"):
        orders().collect()
    frame = orders(**{"value.onError": "null"})
    assert frame.columns[-2:] == ["raw_value", "value_error"]
    result = rows(frame, "value.id", "raw_value", "value_error")
    assert [(row["id"], bytes(row["raw_value"] or b"")) for row in result] == [
        (1, good),
        (None, good[:-2]),
        (None, b""),
        (1, good),
    ]
    assert [row["value_error"] is None for row in result] == [True, False, True, True]
    assert "field city" in result[1]["value_error"]
    only = orders(columns="Value_Error,offset", **{"value.onError": "null"})
    assert only.columns == ["value_error", "offset"]
    assert only.where("value_error is not null").count() == 1
    assert orders("value_error string", **{"value.onError": "null"}).collect()[2].value_error is None
    # A bad key takes precedence over a bad value.
    send(broker, topic, good, key=b"\x01")
    with pytest.raises(Exception, match=rf"{topic}-0, offset 4, key"):
        orders(**{"key.format": "int", "startingOffsets": json.dumps({topic: {"0": 4}})}).collect()


def test_registry_outage(orders: Callable[..., Any], broker: Broker, registry: Registry, topic: str) -> None:
    number = registry.register(f"{topic}-value", ORDER)
    send(broker, topic, framed(number, ORDER, {"id": 1, "city": None}))
    frame = orders()
    registry.down()
    try:
        with pytest.raises(Exception, match="RegistryError"):
            frame.collect()
        with pytest.raises(Exception, match=r"RegistryError.*check that the registry runs"):
            orders()
        # With an inline schema and no framing, the registry is not used.
        bare = {"value.schema": json.dumps(ORDER), "value.framing": "none", "value.onError": "null"}
        assert orders(**bare).collect()[0].value is None
    finally:
        registry.up()
    assert rows(frame, "value.id") == [{"id": 1}]


def test_stream_resumes_with_new_schema(
    spark: Any, source: str, broker: Broker, registry: Registry, topic: str, tmp_path: Path
) -> None:
    subject = f"{topic}-value"
    first = registry.register(subject, EARLIER)
    seen: list[Any] = []

    def drain(**options: str) -> None:
        reader = spark.readStream.format(source).options(**typed_options(broker, registry, topic), **options)
        frame = reader.option("startingOffsets", "earliest").load().select("offset", "value.*")

        def keep(batch: Any, _number: int) -> None:
            seen.extend(tuple(row) for row in batch.orderBy("offset").collect())

        writer = frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(120)

    send(broker, topic, framed(first, EARLIER, {"id": 1}))
    drain()
    assert seen == [(0, 1)]
    latest = registry.register(subject, ORDER)
    send(broker, topic, framed(latest, ORDER, {"id": 2, "city": "Rome"}), framed(first, EARLIER, {"id": 3}))
    drain()
    assert seen[1:] == [(1, 2, "Rome"), (2, 3, None)], "a query has the latest schema from its start on"
    send(broker, topic, b"bad", framed(first, EARLIER, {"id": 4}))
    with pytest.raises(StreamingQueryException, match=f"{topic}-0, offset 3"):
        drain()
    assert len(seen) == 3
    drain(**{"value.onError": "null"})
    assert seen[3:] == [(3, None, None), (4, 4, None)], "the micro-batch that failed is repeated, nothing is lost"


BASE = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "t"}
AVRO = {"value.format": "avro", "value.schema": json.dumps(ORDER)}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"value.format": "xml"}, "value.format must be one of avro, .*long, .* not 'xml'"),
        ({"value.format": "avro"}, r"needs the option value\.schema or schema\.registry\.url"),
        ({"key.schema": "{}"}, "key.schema has no effect without key.format"),
        ({"value.formats": "avro"}, "did you mean value.format"),
        ({"value.format": "int", "value.schema": "{}"}, "value.schema has no effect with value.format=int"),
        ({"value.format": "int", "schema.registry.url": "http://r"}, "has no effect without value.format=avro"),
        ({"schema.registry.max.retries": "1"}, "schema.registry.url must be given"),
        ({**AVRO, "value.onError": "skip"}, "value.onError must be raise, null or deadletter, not 'skip'"),
        ({**AVRO, "value.version": "newest"}, "value.version must be a number or latest"),
        ({**AVRO, "value.ignore.rules": "yes"}, "value.ignore.rules must be true or false"),
        ({**AVRO, "layout": "value:string"}, "layout and value.format both set"),
        ({**AVRO, "columns": "raw_value"}, "there is no column 'raw_value'"),
        ({**AVRO, "value.onError": "null", "columns": "raw_value,RAW_VALUE"}, "names a column twice"),
        ({**AVRO, "value.schema": "{"}, "schema"),
        ({**AVRO, "schema.registry.url": "http://r", "schema.registry.max.retrys": "1"}, "max.retries"),
        ({**AVRO, "schema.registry.url": "http://r", "schema.registry.password": "x"}, "must be set together"),
        (
            {"value.format": "avro", "schema.registry.url": "http://r", "subscribe": "a,b"},
            "value.subject or value.schema",
        ),
    ],
)
def test_invalid_options(options: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        KafkaDataSource({**BASE, **options}).schema()


def test_value_options_are_not_client_options() -> None:
    registry = {"schema.registry.url": "http://r", "schema.registry.basic.auth.user.info": "me:hunter2"}
    options = ReadOptions.parse({**BASE, **AVRO, **registry, "layout": "string", "value.deserializer": "x"})
    assert set(options.planning) == {"subscribe", "layout", "value.deserializer", *AVRO, *registry}
    assert options.text == {"key"}
    assert "hunter2" not in repr(options)
    [typed] = (item.resolved() for item in options.typed)
    assert (typed.schema, typed.selected({"value": typed.type})) == (None, typed), (
        "no registry is asked for what is given"
    )
    assert NullType() not in typed.columns.values()


def test_schema_is_requested_once(registry: Registry) -> None:
    number = registry.register("t-value", ORDER)
    user = {"schema.registry.url": registry.url, "schema.registry.max.retries": "0", "value.format": "avro"}
    source = KafkaDataSource({**BASE, **user})
    schema = source.schema()
    registry.register("t-value", {**ORDER, "fields": [*ORDER["fields"], {"name": "n", "type": "int", "default": 0}]})
    assert source.schema() == schema
    requests = registry.requests()
    source.reader(schema)
    assert (registry.requests(), number) == (requests, 1)
    with pytest.raises(ConfigurationError, match=r"there is no field value\.colour"):
        KafkaDataSource({**BASE, **user}).reader(StructType().add("value", StructType().add("colour", LongType())))
    registry.down()
    with pytest.raises(RegistryError):
        KafkaDataSource({**BASE, **user}).schema()


def test_registry_credentials() -> None:
    with Registry(auth=("me", "hunter2")) as registry:
        user = {"value.format": "avro", "schema.registry.url": registry.url}
        login = {"schema.registry.username": "me", "schema.registry.password": "hunter2"}
        info = {"schema.registry.basic.auth.user.info": "me:hunter2"}
        registry.put(1, json.dumps(ORDER))
        registry.put_version("t-value", 1, 1)
        for item in (login, info):
            assert "value" in KafkaDataSource({**BASE, **user, **item}).schema().names
        with pytest.raises(RegistryError, match="401"):
            KafkaDataSource({**BASE, **user}).schema()


def test_tasks_know_the_row_schema(registry: Registry) -> None:
    registry.register("user", USER)
    schema = {"type": "record", "name": "Sale", "fields": [{"name": "user", "type": "User"}]}
    number = registry.register("t-value", schema, references=[("User", "user", 1)])
    user = {"value.format": "avro", "schema.registry.url": registry.url, "schema.registry.max.retries": "0"}
    [typed] = ReadOptions.parse({**BASE, **user}).typed
    typed = pickle.loads(pickle.dumps(typed.resolved()))
    registry.down()
    [projected] = [typed.selected({"value": StructType().add("user", StructType().add("age", IntegerType()))})]
    raw = pa.record_batch(
        {
            "topic": ["t"],
            "partition": pa.array([0], pa.int32()),
            "offset": [7],
            "value": [framed(number, {**schema, "fields": [{"name": "user", "type": USER}]}, {"user": ANN})],
        }
    )
    for one, expected in ((typed, ANN), (projected, {"age": 7})):
        with pytest.raises(RegistryError):
            list(decoded([one], iter([raw])))
        registry.up()
        [rows] = decoded([one], iter([raw]))
        assert rows.column("value").to_pylist() == [{"user": expected}]
        registry.down()
        assert len(list(decoded([one], iter([raw])))) == 1, "a worker keeps what it was told"


@pytest.mark.parametrize(
    ("column", "spark", "expected"),
    [
        (pa.array([-1, 1999], pa.timestamp("ns", "UTC")), "timestamp", [-1, 1]),
        (pa.array([2**64 - 1], pa.uint64()), "decimal(20,0)", [Decimal(2**64 - 1)]),
        (pa.array([[1], None, [], [2, 3]], pa.list_(pa.uint32())), "array<bigint>", [[1], None, [], [2, 3]]),
        (
            pa.array([[("a", b"1")], None, [("b", b"2"), ("c", b"3")]], pa.map_(pa.string(), pa.binary(1))),
            "map<string,binary>",
            [[("a", b"1")], None, [("b", b"2"), ("c", b"3")]],
        ),
        (
            pa.array([{"a": 1}, None, {"a": 3}], pa.struct([pa.field("a", pa.time32("ms"), nullable=False)])),
            "struct<a:int>",
            [{"a": 1}, None, {"a": 3}],
        ),
    ],
)
def test_arrow_columns_for_spark(column: pa.Array, spark: str, expected: list[Any]) -> None:
    kind = DataType.fromDDL(spark)
    for start in range(len(column) + 1):
        made = converted(column.slice(start), arrow_type(kind), "value")
        made.validate(full=True)
        if spark == "timestamp":
            made = made.cast(pa.int64())
        assert made.to_pylist() == expected[start:]


def test_unsupported_times() -> None:
    late = pa.array([2**62], pa.timestamp("ms", "UTC"))
    with pytest.raises(BadValueError, match=r"field value\.at: .*out of bounds"):
        converted(late, arrow_type(TimestampType()), "value.at")


def test_typed_value_bytes_are_counted(orders: Callable[..., Any], registry: Registry, topic: str) -> None:
    registry.register(f"{topic}-value", ORDER)
    for options in ({}, {"value.onError": "null"}):
        assert count_bytes(orders(**options)).columns == orders(**options).columns


def test_unused_fields_are_skipped(built: None, spark: Any, broker: Broker, registry: Registry, topic: str) -> None:
    """Unused fields are skipped in the JVM, because Spark prunes nested fields for it, even in lists and maps."""
    number = registry.register(f"{topic}-value", WIDE)
    wide = {"flag": True, "nothing": None, "ratio": 0.5, "bytes": b"", "kind": "a", "hash": b"ab", "price": Decimal(1)}
    times = {"day": date(2026, 1, 1), "made": datetime(2026, 1, 1, tzinfo=UTC), "seen": datetime(2026, 1, 1)}
    clock = {"at": datetime.min.time(), "sharp": datetime.min.time()}
    more = {"users": [ANN, None, BOB], "named": {"x": [BOB]}, "either": 5}
    send(broker, topic, framed(number, WIDE, {**wide, **times, **clock, **more}))
    frame = spark.read.format(JVM).options(**typed_options(broker, registry, topic)).load()
    chosen = frame.select("value.users.age", sql.expr("value.named['x'][0].name"), "value.either.int", "offset")
    assert [tuple(row) for row in chosen.collect()] == [([7, None, 8], "Bob", 5, 0)]
    scan = chosen._jdf.queryExecution().optimizedPlan().collectLeaves().head()
    assert scan.schema().apply("value").dataType().simpleString() == (
        "struct<users:array<struct<age:int>>,named:map<string,array<struct<name:string>>>,either:struct<int:int>>"
    )
    with_nulls = (
        spark.read.format(JVM).options(**typed_options(broker, registry, topic), **{"value.onError": "null"}).load()
    )
    # The error column depends on all fields, so the whole value is decoded.
    assert with_nulls.select("value.flag", "value_error").collect()[0].value_error is None


def test_rows_before_a_bad_row_are_read(
    built: None, spark: Any, broker: Broker, registry: Registry, topic: str
) -> None:
    number = registry.register(f"{topic}-value", ORDER)
    good = framed(number, ORDER, {"id": 1, "city": "Rome"})
    send(broker, topic, good, good, good[:-2], good)
    frame = spark.read.format(JVM).options(**typed_options(broker, registry, topic)).load()
    assert frame.limit(2).collect()[1].value.city == "Rome"
    assert frame.count() == 4, "counting reads no values"
    with pytest.raises(Exception, match=rf"BadValueError: {topic}-0, offset 2, schema id {number}, field city: "):
        frame.collect()


def test_row_based_reads(built: None, spark: Any, broker: Broker, registry: Registry, topic: str) -> None:
    """Lets Spark read rows from the same vectors instead of columns, as it does in version 4.2.0."""
    number = registry.register(f"{topic}-value", ORDER)
    send(broker, topic, framed(number, ORDER, {"id": 1, "city": "Rome"}), None)
    system = spark._jvm.java.lang.System
    system.setProperty("samsarrow.columnar", "false")
    try:
        frame = spark.read.format(JVM).options(**typed_options(broker, registry, topic)).load()
        assert rows(frame, "value") == [{"value": {"id": 1, "city": "Rome"}}, {"value": None}]
    finally:
        system.clearProperty("samsarrow.columnar")
