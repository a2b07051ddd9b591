"""Schema ids in headers of records, written and read by us and by confluent-kafka."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from samsarrow import Avro, Consumer, Json, Producer, Protobuf, SchemaRegistry, TopicPartition, encode_values
from samsarrow.exceptions import BadValueError, ConfigurationError
from samsarrow.testing import Broker, Registry
from samsarrow.values.headers import HEADERS, with_header

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "city", "type": ["null", "string"]}],
}
TYPED = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Order",
    "type": "object",
    "properties": {"id": {"type": "integer"}, "city": {"type": ["null", "string"]}},
}
FILE = 'syntax = "proto3"; message None {} message Order { int64 id = 1; optional string city = 2; }'
# Confluent's AvroDeserializer rejects values shorter than six bytes.
ROWS = [{"id": 7, "city": "Ulm"}, None, {"id": 2**60, "city": None}]
FORMATS: dict[str, Any] = {
    "avro": lambda registry, **more: Avro(registry, schema=ORDER, framing="header", **more),
    "json": lambda registry, **more: Json(registry, schema=TYPED, framing="header", **more),
    "protobuf": lambda registry, **more: Protobuf(registry, schema=FILE, message="Order", framing="header", **more),
}


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        broker.create_topic("orders")
        yield broker


@pytest.fixture
def server() -> Iterator[Registry]:
    with Registry() as server:
        yield server


@pytest.fixture
def registry(server: Registry) -> Iterator[SchemaRegistry]:
    with SchemaRegistry(server.url, retries_wait_ms=5, max_retries=0) as registry:
        yield registry


def sent(broker: Broker, rows: pa.Table, **formats: Any) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send_batch("orders", rows, **formats).result(30)


def read(broker: Broker, **options: Any) -> pa.Table:
    with Consumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest", **options) as consumer:
        consumer.assign([TopicPartition("orders", 0)])
        return consumer.reader().read_all()


@pytest.mark.parametrize("form", FORMATS)
def test_rows_round_trip(broker: Broker, server: Registry, registry: SchemaRegistry, form: str) -> None:
    sent(broker, pa.table({"value": ROWS}), value_format=FORMATS[form](registry))
    raw = read(broker, include_headers=True)
    indexes = b"\2\2" if form == "protobuf" else b""
    header = ("__value_schema_id", b"\1" + UUID(server.guid(1)).bytes + indexes)
    headers = [[tuple(item.values()) for item in row or ()] for row in raw["headers"].to_pylist()]
    assert headers == [[header], [], [header]]
    if form == "json":
        assert [item and json.loads(item) for item in raw["value"].to_pylist()] == ROWS
    for framing in ("header", "auto"):
        of = type(FORMATS[form](registry))
        more = {"message": "Order"} if form == "protobuf" else {}
        assert read(broker, value_format=of(registry, framing=framing, **more))["value"].to_pylist() == ROWS


def test_key_header_and_existing_headers(broker: Broker, server: Registry, registry: SchemaRegistry) -> None:
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    given = pa.array([[{"key": "a", "value": b"1"}, {"key": "b", "value": None}], None, []], kind)
    keys = pa.array([{"number": number} for number in (1, 2, 3)])
    avro = Avro(registry, framing="header")
    for column in ("headers", "mine"):
        rows = pa.table({"key": keys, "value": ROWS, column: given})
        name = None if column == "headers" else column
        sent(broker, rows, key_format=avro, value_format=avro, headers=name)
    assert registry.subjects() == ["orders-key", "orders-value"]
    result = read(broker, key_format=avro, value_format=avro, include_headers=True)
    assert result["key"].to_pylist() == keys.to_pylist() * 2
    assert result["value"].to_pylist() == ROWS * 2
    headers = [[(item["key"], item["value"]) for item in row or ()] for row in result["headers"].to_pylist()]
    guids = {UUID(server.guid(number)).bytes for number in (1, 2)}
    names = [[name for name, _ in row] for row in headers]
    key, value = "__key_schema_id", "__value_schema_id"
    assert names == [["a", "b", key, value], [key], [key, value]] * 2
    assert headers[0][:2] == [("a", b"1"), ("b", None)]
    assert {of[1:] for row in headers for name, of in row if name in (key, value)} == guids


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.struct([("key", pa.large_string()), ("value", pa.large_binary())])),
        pa.large_list(pa.struct([("key", pa.large_string()), ("value", pa.large_binary())])),
    ],
    ids=["spark", "polars"],
)
def test_headers_with_large_offsets(broker: Broker, registry: SchemaRegistry, kind: pa.DataType) -> None:
    """Polars exports such columns, and Spark does with `spark.sql.execution.arrow.useLargeVarTypes`."""
    given = pa.array([[{"key": "a", "value": b"1"}], None, []], kind)
    rows = pa.table({"value": ROWS, "headers": given})
    sent(broker, rows, value_format=Avro(registry, framing="header"))
    headers = read(broker, include_headers=True)["headers"].to_pylist()
    names = [[header["key"] for header in row or ()] for row in headers]
    assert names == [["a", "__value_schema_id"], [], ["__value_schema_id"]]


@pytest.mark.parametrize("text", [pa.string(), pa.large_string(), pa.string_view()])
@pytest.mark.parametrize("raw", [pa.binary(), pa.large_binary(), pa.binary_view()])
@pytest.mark.parametrize("list_of", [pa.list_, pa.large_list])
def test_existing_headers_of_every_layout(text: pa.DataType, raw: pa.DataType, list_of: Any) -> None:
    """Polars has 64-bit offsets, which were a TypeError, while `send_batch` accepts them without a format."""
    headers = pa.array([[("h", b"1")], None, []], list_of(pa.struct([("key", text), ("value", raw)])))
    done = with_header(headers, pa.array([b"a", b"b", None]), "n", b"x")
    assert done.type == HEADERS
    new = {"key": "n", "value": b"x"}
    assert done.to_pylist() == [[{"key": "h", "value": b"1"}, new], [new], []]


def test_without_a_registry(broker: Broker) -> None:
    guid = UUID("89791762-2336-4186-9674-299b90a802e2")
    for writers in ({guid: ORDER}, {258: ORDER}):
        form = Avro(ORDER, writers=writers, framing="header")
        sent(broker, pa.table({"value": ROWS}), value_format=form)
    assert read(broker, value_format=Avro(ORDER, writers={guid: ORDER, 258: ORDER}))["value"].to_pylist() == ROWS * 2
    headers = read(broker, include_headers=True)["headers"].to_pylist()
    assert [row[0]["value"] for row in headers if row] == [b"\1" + guid.bytes] * 2 + [b"\0\0\0\1\2"] * 2


def test_rejects_invalid_options(broker: Broker, registry: SchemaRegistry) -> None:
    for make in FORMATS.values():
        with pytest.raises(ConfigurationError, match="encode_values makes values alone: send_batch writes both"):
            encode_values(pa.array(ROWS), make(registry), topic="orders")
    assert registry.subjects() == []
    with pytest.raises(
        ConfigurationError, match="framing 'header' needs the id of the written schema, which is unknown"
    ):
        sent(broker, pa.table({"value": ROWS}), value_format=Avro(ORDER, framing="header"))
    with pytest.raises(ConfigurationError, match="there is no column 'none' of headers"):
        sent(broker, pa.table({"value": ROWS}), value_format=FORMATS["avro"](registry), headers="none")
    rows = pa.table({"value": ROWS, "headers": [1, 2, 3]})
    with pytest.raises(TypeError, match="headers must be list<struct<key: string, value: binary>>"):
        sent(broker, rows, value_format=FORMATS["avro"](registry))
    # If the header is missing, the value is not decoded as if it had a prefix.
    sent(broker, pa.table({"value": pa.array([b"\0\0\0\0\1\x0e\0"])}))
    with pytest.raises(BadValueError, match="the record has no header with it"):
        read(broker, value_format=FORMATS["avro"](registry))


@pytest.mark.parametrize("form", FORMATS)
def test_interoperates_with_confluent_serializers(
    broker: Broker, server: Registry, registry: SchemaRegistry, form: str
) -> None:
    theirs = pytest.importorskip("confluent_kafka.schema_registry", reason="confluent-kafka[schemaregistry]")
    serialization = pytest.importorskip("confluent_kafka.serialization")
    peer = theirs.SchemaRegistryClient({"url": server.url})
    sent(broker, pa.table({"value": ROWS}), value_format=FORMATS[form](registry))
    raw = read(broker, include_headers=True)
    [first, _, last] = raw.select(["value", "headers"]).to_pylist()
    config: dict[str, Any] = {"schema.id.deserializer": theirs.dual_schema_id_deserializer}
    by_topic = {"subject.name.strategy": theirs.topic_subject_name_strategy}
    if form == "avro":
        module = pytest.importorskip("confluent_kafka.schema_registry.avro")
        deserializer = module.AvroDeserializer(peer, conf=config | by_topic)
        header = {"schema.id.serializer": theirs.header_schema_id_serializer}
        serializer = module.AvroSerializer(peer, json.dumps(ORDER), conf=header | by_topic)
    elif form == "json":
        module = pytest.importorskip("confluent_kafka.schema_registry.json_schema")
        deserializer = module.JSONDeserializer(None, schema_registry_client=peer, conf=config | by_topic)
        header = {"schema.id.serializer": theirs.header_schema_id_serializer}
        serializer = module.JSONSerializer(json.dumps(TYPED), peer, conf=header | by_topic)
    else:
        pytest.skip("its Protobuf takes generated classes: the header's indexes are in the test above")
    for row, expected in ((first, ROWS[0]), (last, ROWS[2])):
        headers = [(item["key"], item["value"]) for item in row["headers"]]
        context = serialization.SerializationContext("orders", serialization.MessageField.VALUE, headers)
        assert deserializer(row["value"], context) == expected
        context = serialization.SerializationContext("orders", serialization.MessageField.VALUE, [])
        written = serializer(expected, context)
        assert context.headers == headers
        assert written == row["value"] or json.loads(written) == json.loads(row["value"])
