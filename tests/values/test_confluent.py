"""Values of confluent-kafka's serializers, with ids before values and with GUIDs in headers."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from samsarrow import Avro, SchemaReference, SchemaRegistry, decode_values
from samsarrow.exceptions import BadValueError
from samsarrow.testing import Registry

theirs = pytest.importorskip("confluent_kafka.schema_registry", reason="confluent-kafka[schemaregistry] is missing")
avro = pytest.importorskip("confluent_kafka.schema_registry.avro", reason="confluent-kafka[avro] is missing")
serialization = pytest.importorskip("confluent_kafka.serialization")

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
UTC = datetime.UTC
FIRST = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]}
SECOND = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "city", "type": "string", "default": "Rome"}, {"name": "id", "type": "long"}],
}
USER = {"type": "record", "name": "app.User", "fields": [{"name": "name", "type": "string"}]}
LOGIN = {"type": "record", "name": "app.Login", "fields": [{"name": "user", "type": "app.User"}]}
EVERYTHING = {
    "type": "record",
    "name": "app.Everything",
    "fields": [
        {"name": "flag", "type": "boolean"},
        {"name": "double", "type": "double"},
        {"name": "raw", "type": "bytes"},
        {"name": "color", "type": {"type": "enum", "name": "Color", "symbols": ["RED", "GREEN"]}},
        {"name": "print", "type": {"type": "fixed", "name": "Print", "size": 4}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "counts", "type": {"type": "map", "values": "long"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "of", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "any", "type": ["null", "long", "string", "Color"], "default": None},
        {"name": "who", "type": ["null", USER], "default": None},
    ],
}
VALUE = {
    "flag": True,
    "double": 0.1,
    "raw": b"\0\xff",
    "color": "GREEN",
    "print": b"abcd",
    "tags": ["a", "ü"],
    "counts": {"x": -1},
    "price": Decimal("-12.30"),
    "day": datetime.date(2026, 2, 28),
    "at": datetime.datetime(2026, 2, 28, 1, 2, 3, 456789, UTC),
    "of": UUID(int=7),
    "note": "n",
    "any": ("string", "s"),
    "who": {"name": "ann"},
}


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry() as registry:
        yield registry


@pytest.fixture
def client(registry: Registry) -> Iterator[SchemaRegistry]:
    with SchemaRegistry(registry.url) as client:
        yield client


class Writer:
    """A serializer of confluent-kafka for the values or keys of topic `orders`."""

    def __init__(
        self, registry: Registry, schema: Any, *, references: Any = (), key: bool = False, headers: bool = False
    ) -> None:
        peer = theirs.SchemaRegistryClient({"url": registry.url})
        refers = [
            theirs.SchemaReference(reference.name, reference.subject, reference.version) for reference in references
        ]
        given = theirs.Schema(json.dumps(schema), "AVRO", refers)
        ids = theirs.header_schema_id_serializer if headers else theirs.prefix_schema_id_serializer
        config = {"schema.id.serializer": ids, "subject.name.strategy": theirs.topic_subject_name_strategy}
        self._serializer = avro.AvroSerializer(peer, given, conf=config)
        self._field = serialization.MessageField.KEY if key else serialization.MessageField.VALUE

    def __call__(self, value: Any) -> tuple[bytes, dict[str, bytes]]:
        """Returns the serialized bytes and the headers that the serializer has added."""
        context = serialization.SerializationContext("orders", self._field, {})
        return self._serializer(value, context), context.headers


def column(headers: list[dict[str, bytes]]) -> pa.Array:
    return pa.array([[{"key": key, "value": of} for key, of in row.items()] for row in headers], HEADERS)


def test_ids_before_values(registry: Registry, client: SchemaRegistry) -> None:
    first, second = Writer(registry, FIRST), Writer(registry, SECOND)
    written = [first({"id": 1})[0], second({"id": 2, "city": "Ulm"})[0], first({"id": -3})[0]]
    assert [value[:5] for value in written] == [b"\0\0\0\0\1", b"\0\0\0\0\2", b"\0\0\0\0\1"]
    got = decode_values(pa.array(written), Avro(client), topic="orders").to_pylist()
    assert got == [{"city": "Rome", "id": 1}, {"city": "Ulm", "id": 2}, {"city": "Rome", "id": -3}]


def test_all_types(registry: Registry, client: SchemaRegistry) -> None:
    empty = {**VALUE, "tags": [], "counts": {}, "note": None, "any": ("app.Color", "RED"), "who": None}
    write = Writer(registry, EVERYTHING)
    got = decode_values(pa.array([write(VALUE)[0], write(empty)[0]]), Avro(client), topic="orders").to_pylist()
    full = {**VALUE, "counts": [("x", -1)], "of": str(UUID(int=7))}
    assert got == [
        {**full, "any": {"long": None, "string": "s", "Color": None}},
        {**full, "tags": [], "counts": [], "note": None, "who": None}
        | {"any": {"long": None, "string": None, "Color": "RED"}},
    ]


def test_top_level_unions_and_primitives(registry: Registry, client: SchemaRegistry) -> None:
    cases: list[tuple[Any, list[Any], list[Any]]] = [
        ({"type": "string"}, ["ü", ""], ["ü", ""]),
        ({"type": "long"}, [2**40], [2**40]),
        # confluent-kafka writes values of type bytes without a length.
        ({"type": "bytes"}, [b"abc", b""], [b"abc", b""]),
        ({"type": "array", "items": "int"}, [[1, 2], []], [[1, 2], []]),
        (["null", FIRST], [{"id": 1}], [{"id": 1}]),
        (
            ["string", FIRST, USER],
            ["s", ("Order", {"id": 1}), ("app.User", {"name": "ann"})],
            [
                {"string": "s", "Order": None, "User": None},
                {"string": None, "Order": {"id": 1}, "User": None},
                {"string": None, "Order": None, "User": {"name": "ann"}},
            ],
        ),
    ]
    registry.set_compatibility("NONE")
    for schema, values, expected in cases:
        write = Writer(registry, schema)
        written = pa.array([write(value)[0] for value in values])
        with SchemaRegistry(registry.url) as fresh:
            assert decode_values(written, Avro(fresh), topic="orders").to_pylist() == expected, schema


def test_references(registry: Registry, client: SchemaRegistry) -> None:
    client.register("user", USER)
    refers = [SchemaReference("app.User", "user", 1)]
    client.register("login", LOGIN, references=refers)
    both = [SchemaReference("app.Login", "login", 1), *refers]
    write = Writer(registry, ["null", "app.Login", "app.User"], references=both)
    values = [("app.Login", {"user": {"name": "ann"}}), ("app.User", {"name": "bob"})]
    written = pa.array([write(value)[0] for value in values])
    got = decode_values(written, Avro(client), topic="orders").to_pylist()
    assert got == [{"Login": {"user": {"name": "ann"}}, "User": None}, {"Login": None, "User": {"name": "bob"}}]


@pytest.mark.parametrize("key", [False, True], ids=["value", "key"])
def test_guids_in_headers(registry: Registry, client: SchemaRegistry, key: bool) -> None:
    of_headers, of_prefix = (Writer(registry, FIRST, key=key, headers=item) for item in (True, False))
    written = [of_headers({"id": 1}), of_prefix({"id": 2}), of_headers({"id": 3})]
    name = "__key_schema_id" if key else "__value_schema_id"
    guid = UUID(registry.guid(1)).bytes
    assert written[0] == (b"\x02", {name: b"\1" + guid})
    values, headers = pa.array([value for value, _ in written]), column([headers for _, headers in written])
    form = Avro(client)
    got = decode_values(values, form, topic="orders", headers=headers, key=key)
    assert got.to_pylist() == [{"id": 1}, {"id": 2}, {"id": 3}]
    # Decodes without a registry. Decoding fails if `key` is inverted, because the record has no header for its other
    # part.
    alone = Avro(FIRST, writers={UUID(bytes=guid): FIRST, 1: FIRST})
    assert decode_values(values, alone, headers=headers, key=key).equals(got)
    with pytest.raises(BadValueError, match="neither a header nor byte 0"):
        decode_values(values, alone, headers=headers, key=not key)


@pytest.mark.parametrize(
    ("header", "why"),
    [
        ({"apicurio.value.globalId": b"\0" * 7 + b"\1"}, "apicurio.value.globalId names the schema, and registries"),
        ({"apicurio.value.artifactId": b"orders"}, "apicurio.registry.use-id=contentId"),
        ({"content-type": b"avro/binary+00010203"}, "content-type has the id of a schema of Azure's registry"),
    ],
)
def test_headers_of_other_registries(
    registry: Registry, client: SchemaRegistry, header: dict[str, bytes], why: str
) -> None:
    """If a record has such a header, its value is not searched for framing. Otherwise, the first bytes of values would
    be read as ids, most of which do not exist.
    """
    first = registry.register("orders-value", FIRST)
    values = pa.array([b"\0" + number.to_bytes(4) + b"\x02" for number in (first, *range(900, 999))])
    before = registry.requests()
    for framing in ("auto", "header"):
        with pytest.raises(BadValueError, match=re.escape(why)) as raised:
            decode_values(values, Avro(client, schema=FIRST, framing=framing), headers=column([header] * len(values)))
        assert 'framing "none"' in str(raised.value)
    assert registry.requests() == before
    # In spite of such a header, values are decoded if a header has an id of this registry, or if a framing is set
    # explicitly.
    named = column([{**header, "__value_schema_id": b"\0" + first.to_bytes(4)}])
    assert decode_values(pa.array([b"\x04"]), Avro(client), topic="orders", headers=named).to_pylist() == [{"id": 2}]
    got = decode_values(values[:1], Avro(client, schema=FIRST, framing="confluent"), headers=column([header]))
    assert got.to_pylist() == [{"id": 1}]


def test_cloud_events_with_framing(registry: Registry, client: SchemaRegistry) -> None:
    first = registry.register("orders-value", FIRST)
    headers = column([{"ce_dataschema": b"http://a/b"}] * 2)
    values = pa.array([b"\0" + first.to_bytes(4) + b"\x02", b"\x02"])
    form = Avro(client, schema=FIRST)
    assert decode_values(values[:1], form, headers=headers[:1]).to_pylist() == [{"id": 1}]
    with pytest.raises(BadValueError, match="ce_dataschema has the address of the schema, and the value no id"):
        decode_values(values, form, headers=headers)


def test_framing_of_other_registries(client: SchemaRegistry) -> None:
    form = Avro(client, schema=FIRST)
    for value, why in (
        (b"\x03\x05" + bytes(16) + b"\x02", "AWS Glue"),
        (b"\0" * 8 + b"\x01\x02", 'schema id 0: ids of 8 bytes are read with framing "apicurio8"'),
        (b"\x02", 'without one are read with framing "none"'),
    ):
        with pytest.raises(BadValueError, match=re.escape(why)):
            decode_values(pa.array([value]), form)


def test_guid_framing_matches_confluent() -> None:
    """The expected bytes are constants, so that they do not depend on the installed version."""
    serde = pytest.importorskip("confluent_kafka.schema_registry.serde")
    guid = "89791762-2336-4186-9674-299b90a802e2"
    named = serde.SchemaId("AVRO", 258, guid)
    header = bytes.fromhex("01 89791762 2336 4186 9674 299b90a802e2")
    assert named.guid_to_bytes() == header
    assert named.id_to_bytes() == b"\0\0\0\1\2"
    form = Avro(FIRST, writers={guid: FIRST, 258: FIRST})
    headers = column([{"__value_schema_id": header}, {"__value_schema_id": b"\0\0\0\1\2"}, {}])
    values = pa.array([b"\x02", b"\x04", b"\0\0\0\1\2\x06"])
    assert decode_values(values, form, headers=headers).to_pylist() == [{"id": 1}, {"id": 2}, {"id": 3}]
    for size in range(17):
        with pytest.raises(BadValueError, match=f"{size} bytes"):
            decode_values(values[:1], form, headers=column([{"__value_schema_id": header[:size]}]))


def test_ids_of_other_schema_types_are_bad_in_avro(registry: Registry, client: SchemaRegistry) -> None:
    jsons = pytest.importorskip(
        "confluent_kafka.schema_registry.json_schema", reason="confluent-kafka[json] is missing"
    )
    protobuf = pytest.importorskip("confluent_kafka.schema_registry.protobuf", reason="confluent-kafka[protobuf]")
    wrappers = pytest.importorskip("google.protobuf.wrappers_pb2")
    peer = theirs.SchemaRegistryClient({"url": registry.url})
    by_topic = {"subject.name.strategy": theirs.topic_subject_name_strategy}
    text = json.dumps({"$schema": "http://json-schema.org/draft-07/schema#", "title": "A", "type": "object"})
    writers = [
        ("JSON", jsons.JSONSerializer(text, peer, conf=by_topic), {"a": 1}),
        (
            "PROTOBUF",
            protobuf.ProtobufSerializer(wrappers.Int64Value, peer, conf=by_topic),
            wrappers.Int64Value(value=7),
        ),
    ]
    good = Writer(registry, FIRST)({"id": 1})[0]
    for kind, write, value in writers:
        context = serialization.SerializationContext(kind, serialization.MessageField.VALUE)
        values = pa.array([good, write(value, context), good])
        form = Avro(client, subject="orders-value")
        with pytest.raises(BadValueError, match=f"type {kind}"):
            decode_values(values, form)
        assert decode_values(values, form, on_decode_error="null").to_pylist() == [{"id": 1}, None, {"id": 1}]
        result = client.schema(subject=f"{kind}-value")
        assert (result.schema_type, result.id) == (kind, int.from_bytes(values[1].as_py()[1:5]))
